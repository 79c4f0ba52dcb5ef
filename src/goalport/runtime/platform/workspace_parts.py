"""Creates the parts of a platform from the settings and files of a workspace, or from what a program passes.

The parts are: models and upstream servers, the store, the index of documents and the references, options of processes,
declared settings, and the agents that settings switch on. Libraries that few workspaces need are imported when they
are needed. Above: the platform, which opens and closes the parts, and commands.
"""

import base64
import binascii
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import BaseModel, Field

from goalport.agents.domain import Agent, RetryPolicy, UserInput, action, read_agent
from goalport.base.errors import BadInput, ModelNotReady, NothingChosen, SettingsError, StoreError
from goalport.base.words import in_json
from goalport.knowledge.documents import GitHubArchives
from goalport.knowledge.rag import DocumentIndex
from goalport.knowledge.references import LlmReference, NamedReferences
from goalport.models.llm import (
    AssistantMessage,
    EmbeddingService,
    Image,
    LanguageModel,
    LlmOptions,
    Models,
    UserMessage,
)
from goalport.runtime.ai import Ai
from goalport.runtime.autonomy import Autonomy, FrontAgent, start_objects
from goalport.runtime.autonomy.autonomy import Platform
from goalport.runtime.chat import Conversation, chatbot
from goalport.runtime.platform.replicas import ProcessEngine
from goalport.runtime.process import SERVICE_TYPES, ActionContext, Budget, ProcessOptions, Verbosity
from goalport.store import InMemoryProcessStore, ProcessStore
from goalport.tools import ToolGroup, ToolGroupResolver
from goalport.tools.groups import Requirement
from goalport.tools.upstream import McpConfig, read_config
from goalport.tools.upstream.connection import Sample
from goalport.tools.upstream.servers import UpstreamServers
from goalport.tools.upstream.upstream_groups import UpstreamGroups
from goalport.workspace import Declaration, Workspace
from goalport.workspace.settings import (
    AutonomySettings,
    DeclaredSettings,
    DocumentsSettings,
    Settings,
    environment_of,
    read_declared,
)

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult

_log = logging.getLogger(__name__)
CONFIG_FILE: Final = "mcp_config.json"
"""The name of the file of upstream servers in a workspace."""
REFERENCES_FILE: Final = "references.yml"
"""The name of the file of references in a workspace."""
INDEX_FILE: Final = "documents.db"
"""The name of the file with the documents in a data folder."""
_DATA: Final = Path(".goalport")
"""The folder for pins and tokens when a program names none."""
_MOST_TOKENS: Final = 4_096
"""The most tokens of one reply to a server, however many it asks for."""
_NO_LIMIT: Final = 10**15
"""More tokens than any process can use; a number, because options are stored."""
_MODEL_MEMBERS = ("card", "reply", "stream")
_EMBEDDING_MEMBERS = ("name", "dimensions", "embed")


def models_of(
    given: Models | LanguageModel | EmbeddingService | Iterable[LanguageModel | EmbeddingService] | None,
) -> Models:
    """The catalogue of models: as passed, or one of the passed models; None: of those that the environment offers.

    Raises `TypeError` for an object that is no model.
    """
    if given is None or isinstance(given, Models):
        return given or Models()
    # A class has the members of the protocol too, but is no model.
    models = [given] if isinstance(given, (LanguageModel, EmbeddingService, type)) else list(given)
    for each in cast("list[object]", models):
        if isinstance(each, type) or not isinstance(each, LanguageModel | EmbeddingService):
            raise TypeError(
                f"Expected models, but came {each!r}. Names of models belong into the settings:"
                ' AgentPlatform(models=Models(ModelsSettings(default_llm="…"))).'
            )
    return Models(
        models=[each for each in models if isinstance(each, LanguageModel)],
        embeddings=[each for each in models if isinstance(each, EmbeddingService)],
    )


def workspace_models(workspace: Workspace, settings: Settings) -> Models:
    """The catalogue of a workspace: the models of its settings, and those that its modules define."""
    # `issubclass` refuses protocols with properties, and `isinstance` may run the properties of a value.
    values = workspace.values(object)
    models = [each for each in values if all(hasattr(type(each), name) for name in _MODEL_MEMBERS)]
    embeddings = [each for each in values if all(hasattr(type(each), name) for name in _EMBEDDING_MEMBERS)]
    return Models(
        settings.models,
        models=cast("list[LanguageModel]", models),
        embeddings=cast("list[EmbeddingService]", embeddings),
        environment=environment_of(settings.workspace),
    )


def workspace_store(settings: Settings, *, migrates: bool = True) -> ProcessStore:
    """The store of a workspace's processes by its settings; `migrates`: whether an older store is upgraded."""
    if settings.store == "memory":
        return InMemoryProcessStore(
            settings.max_processes, seconds=settings.result_seconds, waiting=settings.max_waiting
        )
    if settings.store == "sqlite":
        from goalport.store.sqlite import SqliteProcessStore

        path, synchronous = settings.data_dir / "processes.db", settings.store_synchronous
        return SqliteProcessStore(path, synchronous=synchronous, migrates=migrates)
    from goalport.store.postgres.process_store import PostgresProcessStore

    connections, pooler = settings.store_connections, settings.store_pooler
    return PostgresProcessStore(settings.store, connections=connections, pooler=pooler, migrates=migrates)


def workspace_engine(settings: Settings) -> ProcessEngine | None:
    """The engine that the settings name, which decides who runs a process; None: the program that begins it.

    Raises `SettingsError` if it needs another store, or a library that is missing.
    """
    if settings.engine == "local":
        return None
    if settings.store in {"memory", "sqlite"}:
        raise SettingsError(
            f'The engine "dbos" delivers processes that are in a PostgreSQL database; came store = {settings.store!r}.'
            ' Set store = "postgresql://user:password@host:port/database", or engine = "local".'
        )
    from goalport.runtime.platform.dbos_engine import DbosEngine

    return DbosEngine(
        settings.store,
        concurrency=settings.engine_concurrency,
        total_concurrency=settings.engine_total_concurrency,
        per_minute=settings.engine_per_minute,
        pooler=settings.store_pooler,
    )


class ExpectedGroups(ToolGroupResolver):
    """The tool groups for explaining goals before any server is connected: a configured group counts as available."""

    def __init__(self, groups: Iterable[ToolGroup], upstream: UpstreamGroups) -> None:
        super().__init__(groups, [upstream])
        self._upstream = upstream

    def unmet(self, requirement: Requirement) -> str | None:
        return None if self._upstream.expects(requirement.role) else super().unmet(requirement)


def upstream_of(given: UpstreamServers | McpConfig | Path | str | None, sample: Sample) -> UpstreamServers:
    """The upstream servers of a platform: as given, or of a configuration or the file of a path; None: no servers."""
    match given:
        case UpstreamServers():
            found = given
        case Path() | str():
            found = UpstreamServers(read_config(Path(given), os.environ), _DATA)
        case McpConfig() | None:
            found = UpstreamServers(McpConfig() if given is None else given, _DATA)
    found.sample = found.sample or sample
    return found


def workspace_upstream(workspace: Workspace, settings: Settings) -> UpstreamServers:
    """The upstream servers in the `mcp_config.json` of a workspace; `reload` reads the file again."""

    def read() -> McpConfig:
        return read_config(workspace.root / CONFIG_FILE, environment_of(settings.workspace))

    return UpstreamServers(
        read(), settings.data_dir, settings.upstream_wait_seconds, read=read, state_keys=settings.state_keys
    )


def sampling(ai: Callable[[], Ai], model: Callable[[], str]) -> Sample:
    """Answers upstream servers that request a completion of a model (MCP, `sampling/createMessage`).

    The default model answers, whatever model the server prefers; no tools are offered to it, and the server's messages
    are sent as they are. The configuration of a server says whether it may make such requests.
    """

    async def sample(server: str, request: "CreateMessageRequestParams", /) -> "CreateMessageResult":
        from mcp_types import CreateMessageResult, TextContent

        if request.tools:
            raise BadInput("Models are asked without tools here. Ask without.")
        limits: dict[str, Any] = {"max_tokens": max(1, min(request.max_tokens, _MOST_TOKENS))}
        if request.temperature is not None:
            limits["temperature"] = request.temperature
        asked = ai().with_default_llm().with_llm(**limits).with_id(f"sampling for {server}")
        if request.system_prompt:
            asked = asked.with_system_prompt(request.system_prompt)
        said = await asked.respond([_message(each.role, each.content) for each in request.messages])
        content = TextContent(type="text", text=said.content)
        return CreateMessageResult(role="assistant", content=content, model=model(), stop_reason="endTurn")

    return sample


def _message(role: str, content: Any) -> UserMessage | AssistantMessage:
    texts, images = list[str](), list[Image]()
    for block in cast("list[Any]", content if isinstance(content, list) else [content]):
        match block.type:
            case "text":
                texts.append(block.text)
            case "image" if role == "user":
                try:
                    images.append(Image(block.mime_type, base64.b64decode(block.data, validate=True)))
                except binascii.Error:
                    raise BadInput("The data of an image are no base64.") from None
            case kind:
                raise BadInput(
                    f"A model cannot be asked with {kind} from {role} here. Send texts, or images of the user."
                )
    text = "\n\n".join(texts)
    return UserMessage(text, tuple(images)) if role == "user" else AssistantMessage(text)


def document_index(models: Models, settings: Settings | None = None, file: Path | None = None) -> DocumentIndex:
    """The index of documents that the settings of a workspace name, or the one in a file; without both, in memory.

    If an embedding model is not ready, this logs a warning, and search is by words. Nothing is opened before its use.
    """
    chosen = settings.documents if settings else DocumentsSettings()
    embeddings: EmbeddingService | None = None
    try:
        if chosen.embedding_model or models.default_embedding:
            embeddings = _embedding(models, chosen.embedding_model)
    except ModelNotReady as error:
        _log.warning("Documents are stored and searched by words alone, without vectors. %s", error)
    if file is None and chosen.store != "sqlite":
        from goalport.knowledge.rag import PostgresDocumentStore

        connections, pooler = chosen.connections, chosen.pooler
        return PostgresDocumentStore(
            chosen.store, embeddings=embeddings, on_other_model="text", connections=connections, pooler=pooler
        )
    from goalport.knowledge.rag import SqliteDocumentStore

    place = file or (settings and index_file(settings))
    return SqliteDocumentStore(place, embeddings=embeddings, on_other_model="text")


def index_file(settings: Settings) -> Path | None:
    """The file with the documents of a workspace; None: they are in a database."""
    return settings.data_dir / INDEX_FILE if settings.documents.store == "sqlite" else None


def document_problems(models: Models, settings: Settings) -> list[str]:
    """A sentence for each model or library that the settings of documents need and lack. No database is asked."""
    chosen, problems = settings.documents, list[str]()
    try:
        if chosen.embedding_model:
            _embedding(models, chosen.embedding_model)
    except ModelNotReady as error:
        problems.append(f"[documents] embedding_model: {error}")
    if chosen.store != "sqlite":
        from goalport.knowledge.rag import PostgresDocumentStore

        try:
            PostgresDocumentStore(chosen.store)
        except StoreError as error:
            problems.append(f"[documents] store: {error}")
    return problems


def _embedding(models: Models, name: str) -> EmbeddingService:
    """The embedding service. Raises `ModelNotReady` if it is not ready, or if numpy is not installed."""
    from goalport.knowledge.rag.vectors import require_numpy

    require_numpy()
    return models.embedding(name)


def workspace_references(
    documents: Callable[[], DocumentIndex], settings: Settings, workspace: Workspace
) -> NamedReferences:
    """The references in the `references.yml` of a workspace, and the mistakes in it; none where there is no file.

    Fetched archives and the trust in skills are stored in the data folder. Published documents name in prompts the
    places where clients can read them, so that answers can cite these places.
    """
    file = workspace.root / REFERENCES_FILE
    if not file.exists():
        return NamedReferences()
    from goalport.knowledge.rag import ToolishRag
    from goalport.knowledge.references import LlmReferenceProviders

    archives = GitHubArchives(settings.data_dir / "github")
    types = _PlatformReferences(documents, archives, settings.data_dir, file.parent)
    by_name: dict[str, Callable[..., LlmReference]] = {
        "Documents": types.documents,
        "LocalSkills": types.local_skills,
        "GitHubSkills": types.git_hub_skills,
        "ProjectSkills": types.project_skills,
    }
    read = LlmReferenceProviders(archives=archives, types=by_name).read(file)
    citing = {each.name: each.as_published() for each in read.published if isinstance(each, ToolishRag)}
    published = tuple(citing.get(each.name, each) for each in read.published)
    return replace(read, references={**read.references, **citing}, published=published)


Count = Annotated[int, Field(ge=0, le=100)]


@dataclass(frozen=True, slots=True)
class _PlatformReferences:
    """Creates the references that need the platform; the parameters of a method are the properties of an entry."""

    index: Callable[[], DocumentIndex]
    """The documents of the platform, which are opened when they are first needed."""
    archives: GitHubArchives
    data: Path
    folder: Path
    """The folder from which relative paths in entries start."""

    def documents(
        self, name: str, description: str, goal: str = "", under: str = "", eager_search: Count = 0
    ) -> LlmReference:
        """The documents of the platform; `under`: only those in a folder, or whose URIs begin so."""
        from goalport.knowledge.rag import ToolishRag, UriPrefix
        from goalport.knowledge.rag.ingestion import absolute

        prefix = under
        if under and "://" not in under:  # a file has one URI
            place = absolute(self.folder / under)
            prefix = f"{place.as_uri()}/" if place.is_dir() else place.as_uri()
        only = UriPrefix(prefix) if under else None
        return ToolishRag(name, description, self.index(), goal, filter=only, eager_search=eager_search)

    def local_skills(self, name: str, description: str, path: str, choose: Count = 0) -> LlmReference:
        """The skill in a folder, or the skills in the folders of a folder."""
        from goalport.knowledge.skills import Skills
        from goalport.knowledge.skills.skill import SKILL_FILE

        place, skills = self.folder / path, Skills(name, description).choosing(choose)
        is_one = (place / SKILL_FILE).is_file()
        return skills.with_local_skill(place) if is_one else skills.with_local_skills(place)

    def git_hub_skills(
        self, name: str, description: str, url: str, expected: str = "", choose: Count = 0
    ) -> LlmReference:
        """The skills of a repository."""
        from goalport.knowledge.skills import Skills

        skills = Skills(name, description, self.archives).choosing(choose)
        return skills.with_github_url(url, expected=expected)

    def project_skills(self, name: str, description: str, path: str = "") -> LlmReference:
        """The skills that a project brings, as far as they are trusted."""
        from goalport.knowledge.skills import Skills, SkillTrust
        from goalport.knowledge.skills.skill import TRUST_FILE

        trust = SkillTrust(self.data / TRUST_FILE)
        return Skills(name, description).with_project_skills(self.folder / path, trust)


def declared_settings(settings: Settings, workspace: Workspace) -> DeclaredSettings:
    """The settings that the modules of a workspace declare."""
    tables, problems = dict[str, type[BaseModel]](), list[str]()
    for table, kind in workspace.settings():
        if table in tables:
            taken = Declaration(tables[table], ())
            problems.append(f"{Declaration(kind, ())} has the table {table!r}, which {taken} has. Name another one.")
        tables.setdefault(table, kind)
    found = read_declared(settings, tables, complete=not workspace.problems)
    return replace(found, problems=(*problems, *found.problems))


def workspace_autonomy(platform: Platform, settings: AutonomySettings) -> Autonomy:
    return Autonomy(
        platform=platform,
        agent_confidence_cut_off=settings.agent_confidence_cut_off,
        goal_confidence_cut_off=settings.goal_confidence_cut_off,
        llm=LlmOptions(model=settings.ranking_llm) if settings.ranking_llm else None,
        max_attempts=settings.ranking_max_attempts,
        backoff=RetryPolicy(
            first_delay=settings.ranking_first_delay,
            factor=settings.ranking_factor,
            max_delay=settings.ranking_max_delay,
        ),
    )


def process_options(settings: Settings) -> ProcessOptions:
    """The options of processes that are started without their own."""
    said = settings.process.model_dump()
    actions = said.pop("actions") or settings.max_actions
    budget = Budget(cost=said.pop("cost") or math.inf, tokens=said.pop("tokens") or _NO_LIMIT, actions=actions)
    verbosity = Verbosity(**{name: said.pop(name) for name in ("debug", *(each for each in said if "show" in each))})
    return ProcessOptions(budget=budget, deadline=said.pop("seconds") or None, verbosity=verbosity, **said)


def workspace_own_agents(settings: Settings, autonomy: Autonomy) -> Iterator[object]:
    """The agents that settings switch on: the front agent (for a sentence), and the chatbot that uses all others."""
    open_mode = settings.front_tool == "open"
    if settings.front_tool:
        yield FrontAgent(autonomy, open_mode=open_mode)
    if settings.chatbot:
        yield choosing_chatbot(settings.chatbot, autonomy, open_mode=open_mode, published=True)


@chatbot(description="Does what a message asks for, with whichever agent fits it best")
class ChoosingChatbot:
    """Answers a message with the result of the agent that was chosen for it."""

    def __init__(self, autonomy: Autonomy, *, open_mode: bool, published: bool) -> None:
        self._autonomy, self._open_mode, self._published = autonomy, open_mode, published

    @action(trigger=UserMessage, can_rerun=True, cost=1e8)  # actions that answer messages go first
    async def choose(self, message: UserMessage, conversation: Conversation, context: ActionContext) -> None:
        """Run what fits the message best, and send its result."""
        platform, said = self._autonomy.platform, UserInput(message.content)
        goals = (goal for each in platform.agents if each.chat is None for goal in each.goals)
        among = [
            each
            for each in goals
            if platform.may_start(context.caller, each) and (each.export.remote or not self._published)
        ]
        choose = self._autonomy.choose_goal if self._open_mode else self._autonomy.choose_agent
        try:
            choice = await choose(said, among=among, conversation=conversation.messages[:-1], ai=context.ai)
        except NothingChosen as nothing:
            await context.send_message(str(nothing))
            return
        context.progress(choice.why)
        inputs = await start_objects(platform, choice.agent.goals, said, context.ai, context.ask)
        result = await context.as_sub_process(object, choice.agent, *inputs)
        content = getattr(result, "content", result)
        text = content if isinstance(content, str) else in_json(result)
        await context.send_message("Done." if result is None else text)


def choosing_chatbot(name: str, autonomy: Autonomy, *, open_mode: bool, published: bool) -> Agent:
    """The agent of a chatbot that passes a message to the agent that fits best, if no action reacts to the message.

    `open_mode`: whether it chooses a goal, and not an agent. `published`: whether it chooses published goals only.
    """
    own = read_agent(ChoosingChatbot(autonomy, open_mode=open_mode, published=published), SERVICE_TYPES)
    return replace(own, name=name, open=True, source="")
