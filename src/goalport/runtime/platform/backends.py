"""The backends of a platform: the models, with the engines that ask them, and the upstream MCP servers.

They are made of what a program passes to the platform, or of the settings and files of a workspace. The platform opens
and closes them. Below: models, the loop of a model with tools, and what connects upstream servers.
"""

import base64
import binascii
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from goalport.base.errors import BadInput, SettingsError
from goalport.base.events import EventListener
from goalport.knowledge.references import NamedReferences
from goalport.models.llm import AssistantMessage, EmbeddingService, Image, LanguageModel, Models, UserMessage
from goalport.models.prompts import Templates
from goalport.runtime.ai import Ai, Engine, Guard, LlmEngine, LlmOperations, Operation, Services
from goalport.runtime.platform.replicas import ProcessEngine
from goalport.runtime.process import agent_tool, current_operation
from goalport.store import InMemoryProcessStore, ProcessStore
from goalport.tools import ToolGroup, ToolGroupResolver
from goalport.tools.groups import Requirement
from goalport.tools.upstream import McpConfig, read_config
from goalport.tools.upstream.connection import Sample
from goalport.tools.upstream.servers import UpstreamServers
from goalport.tools.upstream.upstream_groups import UpstreamGroups
from goalport.workspace import Workspace
from goalport.workspace.settings import Settings, environment_of

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult

CONFIG_FILE: Final = "mcp_config.json"
"""The name of the file of upstream servers in a workspace."""
_DATA: Final = Path(".goalport")
"""Where pins and tokens are kept when a program does not say."""
_MOST_TOKENS = 4_096
"""The most tokens of one reply to a server, however many it asks for."""
_MODEL_MEMBERS = ("card", "reply", "stream")
_EMBEDDING_MEMBERS = ("name", "dimensions", "embed")


def models_of(
    given: Models | LanguageModel | EmbeddingService | Iterable[LanguageModel | EmbeddingService] | None,
) -> Models:
    """The catalogue: as given, made of the models and embedding services given, or of what the environment offers.

    Raises `TypeError` for what is no model.
    """
    if given is None or isinstance(given, Models):
        return given or Models()
    # A class has all that the protocol asks for, and is no model yet.
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
    # A protocol with properties cannot be asked about a class, and values are not asked what they are.
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
    """The store of a workspace's processes by its settings; `migrates`: one of an earlier version is changed."""
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
    """What decides by a workspace's settings who runs a process; None: the program that begins it.

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


class Engines:
    """Makes the engines that carry out the requests of an `Ai`, of the platform's models, limits and guards."""

    def __init__(
        self,
        models: Models,
        settings: LlmOperations,
        services: Callable[[type], object | None],
        guards: Callable[[], Sequence[Guard]] = tuple,
        templates: Templates | None = None,
        references: Callable[[], NamedReferences] = NamedReferences,
        ended: Callable[[str, float, bool], None] = lambda _model, _seconds, _failed: None,
    ) -> None:
        self.models = models
        self._ended = ended
        self._earlier: list[Models] = []
        self._settings = settings
        self._services = Services(services)
        self._guards = guards
        self._templates = templates or Templates()
        self._references = references

    def renew(self, models: Models) -> None:
        """Use other models from now on; processes that run keep the models that they began with."""
        self._earlier.append(self.models)
        self.models = models

    async def aclose(self) -> None:
        """Close the connections to all models."""
        for each in (*self._earlier, self.models):
            await each.aclose()

    def engine(self, operation: Operation, groups: ToolGroupResolver) -> Engine:
        """The engine of an action of a process, with the tool groups that the process began with."""
        return self._engine(operation, lambda: groups)

    def ai(self, groups: Callable[[], ToolGroupResolver], listener: EventListener) -> Ai:
        """An `Ai` for code outside of actions; called inside of one, its cost counts for the action's process.

        Elsewhere the listener receives its events.
        """
        return Ai(self._engine(current_operation(listener), groups))

    def _engine(self, operation: Operation, groups: Callable[[], ToolGroupResolver]) -> Engine:
        return LlmEngine(
            self.models,
            groups,
            self._settings,
            operation,
            self._guards(),
            self._templates,
            self._services,
            self._references,
            self._ended,
            agent_tool,
        )


class Sampling:
    """Answers upstream servers that request a completion of a model (MCP, `sampling/createMessage`).

    The default model answers, whatever model the server prefers; no tools are offered to it, and the server's messages
    are sent as they are. The configuration of a server says whether it may make such requests.
    """

    def __init__(self, ai: Callable[[], Ai], model: Callable[[], str]) -> None:
        self._ai = ai
        self._model = model

    async def __call__(self, server: str, request: "CreateMessageRequestParams", /) -> "CreateMessageResult":
        """The model's reply. Raises `GoalportError` when there is none, or the request is not supported."""
        from mcp_types import CreateMessageResult, TextContent

        if request.tools:
            raise BadInput("Models are asked without tools here. Ask without.")
        limits: dict[str, Any] = {"max_tokens": max(1, min(request.max_tokens, _MOST_TOKENS))}
        if request.temperature is not None:
            limits["temperature"] = request.temperature
        ai = self._ai().with_default_llm().with_llm(**limits).with_id(f"sampling for {server}")
        if request.system_prompt:
            ai = ai.with_system_prompt(request.system_prompt)
        said = await ai.respond([_message(each.role, each.content) for each in request.messages])
        words = TextContent(type="text", text=said.content)
        return CreateMessageResult(role="assistant", content=words, model=self._model(), stop_reason="endTurn")


def _message(role: str, content: Any) -> UserMessage | AssistantMessage:
    blocks = cast("list[Any]", content if isinstance(content, list) else [content])
    texts: list[str] = []
    images: list[Image] = []
    for block in blocks:
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


class ExpectedGroups(ToolGroupResolver):
    """The tool groups for explaining goals before any server is connected: a configured group counts as there."""

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
