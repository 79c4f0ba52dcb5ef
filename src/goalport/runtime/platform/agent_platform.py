"""The platform: the one object that knows agents, services, groups and processes, and puts them together.

Doors above (MCP, the command line, programs) call it; it calls down. A process runs in a task of the platform, detached
from whoever started it. (User guide, sections 3.15 and 3.16.)
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypedDict, Unpack, cast

from goalport.agents.domain import SERVICES, Agent, Goal, RetryPolicy, is_marked, read_agent
from goalport.agents.domain.checks import require_types
from goalport.agents.plan import Explanation
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import DeclarationError, GoalportError, UnknownName
from goalport.base.events import AgentDeployed, AgentUndeployed, EventListener
from goalport.base.introspection import class_place
from goalport.base.sealing import ProcessSeals, sealing_keys
from goalport.base.secrecy import register_secrets
from goalport.base.words import error_summary
from goalport.knowledge.rag import DocumentIndex
from goalport.knowledge.references import NamedReferences
from goalport.models.llm import EmbeddingService, LanguageModel, Models
from goalport.models.prompts import Templates
from goalport.runtime.ai import Ai, Guard, LlmEngine, LlmOperations, Operation, Services
from goalport.runtime.autonomy import Autonomy, FrontAgent, Ranker
from goalport.runtime.chat import Chatbot, Chatbots, Conversations, ConversationTurns
from goalport.runtime.platform.declared_services import DeclaredServices, Extensions, line_of
from goalport.runtime.platform.deployments import Deployments, agents_of_tools, unstorable_in
from goalport.runtime.platform.erasure import Erased, conversations_of, keep_pruned
from goalport.runtime.platform.inspection import explain_goal, starting_types
from goalport.runtime.platform.process_factory import Inputs
from goalport.runtime.platform.processes import Processes
from goalport.runtime.platform.replicas import ProcessEngine
from goalport.runtime.platform.workspace_parts import (
    ExpectedGroups,
    declared_settings,
    document_index,
    models_of,
    process_options,
    sampling,
    upstream_of,
    workspace_autonomy,
    workspace_engine,
    workspace_models,
    workspace_own_agents,
    workspace_references,
    workspace_store,
    workspace_upstream,
)
from goalport.runtime.process import (
    SERVICE_TYPES,
    AgentProcess,
    ArgumentResolver,
    ContextRepository,
    LoggedEvent,
    ProcessOptions,
    Spending,
    StoredContexts,
    agent_tool,
    current_operation,
)
from goalport.store import InMemoryProcessStore, ProcessStore, Seals
from goalport.tools import ToolGroup, ToolGroupResolver
from goalport.tools.groups import math_group
from goalport.tools.upstream import McpConfig
from goalport.tools.upstream.servers import UpstreamServers
from goalport.workspace import Workspace
from goalport.workspace.settings import DeclaredSettings, Settings, secrets_in, secrets_of

_log = logging.getLogger(__name__)
_ERASED_AT_ONCE: Final = 50
"""How many processes are erased at the same time: a database batches concurrent writes."""


class Start(TypedDict, total=False):
    """The options for starting a process, apart from its agent and its input objects."""

    bindings: Mapping[str, object] | None
    """Objects that are put on its blackboard under their names."""
    goals: Sequence[str] | None
    """The names of the agent's goals to pursue; by default all."""
    options: ProcessOptions | None
    """By default those of the platform."""
    caller: Caller
    spent: Iterable[Spending]
    """Costs of models before the start, such as for choosing the agent; they count towards the process."""


class AgentPlatform(AbstractAsyncContextManager["AgentPlatform"]):
    """Agents that are deployed, and the processes that run them. Entering it connects its upstream servers.

    - `agents`: instances, classes or `Agent` objects; classes are instantiated, with services for the parameters of
      their constructors.
    - `tool_groups`: the groups of tools that actions name.
    - `services`: the objects for `Provided` parameters; an `ArgumentResolver` among them is used as such.
    - `models`: the models and embedding services, or their catalogue; by default those with keys in the environment.
    - `listeners`: they receive every event.
    - `options`: the options of processes that are started without their own.
    - `guards`: they check every text that goes to a model or comes from one.
    - `llm`: the limits and defaults of every request of a model.
    - `templates`: the templates of prompts; by default there are none.
    - `store`: it keeps processes, contexts and conversations; by default in memory.
    - `contexts`: keeps contexts in place of the store.
    - `seals`: encrypts secrets (`SecretStr`) in a store that outlives the program, such as `ProcessSeals`; without it,
      processes that hold secrets are not stored there.
    - `max_threads`: the most `def` functions that run at once, each in a worker thread.
    - `retry`: how often an action that fails is tried again, unless the action says otherwise.
    - `lease_seconds`: seconds without a heartbeat of this program after which other programs on the same store
      continue its processes.
    - `engine`: decides which program runs a process that is stored at each step, and when, such as `DbosEngine`.
      Without it, the program that begins or continues a process runs it at once. It needs a store that they share.
    - `keep_journals`: whether the history of processes keeps what models replied and tools returned, so that a process
      can be replayed in a test.
    - `max_object_bytes`: about how many bytes of memory the result of an action may take; with a larger one, it fails.
    - `upstream`: the upstream MCP servers and the groups of their tools: the path of a file such as `mcp_config.json`,
      or its contents.
    - `documents`: the index of documents that agents search; by default one in memory.

    Raises `DeclarationError` or `DeploymentError` for an agent that cannot be deployed, `SettingsError` for a file of
    upstream servers that cannot be read, `TypeError` for an object in `models` that is no model.
    """

    agents: Deployments
    """The deployed agents, and their goals by name."""
    processes: Processes
    """The processes that run, wait, or ended not long ago; oldest first."""
    store: ProcessStore
    """The store of processes, such as those that wait or have ended."""
    ai: Ai
    """Access to models for code outside of actions; an action has its own."""
    upstream: UpstreamServers
    """The upstream servers; their tool groups are available while they are connected."""
    problems: tuple[str, ...] = ()
    """A sentence for each mistake in the agents, services, references and declared settings of a workspace."""
    misconfigured: tuple[str, ...] = ()
    """The problems with settings that modules declare: a server does not start with them."""
    autonomy: Autonomy
    """Chooses an agent or a goal for what a user asks for."""
    ranker: Ranker | None = None
    """Ranks agents and goals in place of a model; None: a model ranks them."""
    may_chat: Callable[[Caller, Chatbot], bool]
    """Whether a caller may talk to a chatbot, where callers are authenticated."""
    conversations: Conversations
    """The stored conversations of people with chatbots."""
    chatbots: Chatbots
    """The chatbots by name, as they are now."""
    references: NamedReferences = NamedReferences()
    """The references and contributors that prompts can name: those of the workspace's `references.yml`."""
    _settings: Settings | None = None
    """The settings of the workspace that the platform serves; None: it serves no workspace."""
    _renews_models: bool = False
    """Whether the models come from the workspace, so that `load` creates them again."""
    _own_agents: tuple[object, ...] = ()
    """The agents that settings switch on: the front agent (for a sentence), and the chatbot that uses all others."""
    _front: Agent | None = None
    """The front agent, which takes a sentence; None: no door needs it."""
    _pruning: asyncio.Task[None] | None = None
    """The task that drops processes from the store that ended long ago."""
    _own_store: AbstractAsyncContextManager[object] | None = None
    """The store, if this platform opens and closes it."""

    def __init__(
        self,
        agents: Iterable[object] = (),
        *,
        tool_groups: Iterable[ToolGroup] = (),
        services: Iterable[object] = (),
        models: Models | LanguageModel | EmbeddingService | Iterable[LanguageModel | EmbeddingService] | None = None,
        listeners: Iterable[EventListener] = (),
        options: ProcessOptions | None = None,
        guards: Iterable[Guard] = (),
        llm: LlmOperations | None = None,
        templates: Templates | None = None,
        store: ProcessStore | None = None,
        contexts: ContextRepository | None = None,
        seals: Seals | None = None,
        max_threads: int = 40,
        retry: RetryPolicy | None = None,
        lease_seconds: float = 30.0,
        engine: ProcessEngine | None = None,
        keep_journals: bool = False,
        max_object_bytes: int = 64 * 1024 * 1024,
        upstream: UpstreamServers | McpConfig | Path | str | None = None,
        documents: DocumentIndex | None = None,
    ) -> None:
        self._services = (*services, self)
        self._loads = [DeclaredServices(self._given_service)]
        """The declared services of each load of the workspace, newest first: processes use those of their load."""
        self._extensions: Extensions = defaultdict(list)
        self._listening: list[Callable[[], None]] = []
        """Functions that remove the listeners that the workspace declares."""
        self._guards, self._llm = tuple(guards), llm or LlmOperations()
        self._templates, self._validators = templates or Templates(), Services(self.service)
        self.options = options or ProcessOptions()
        """The options of processes that are started without their own."""
        self.upstream = upstream_of(upstream, sampling(lambda: self.ai, lambda: self.models.default))
        self._set_groups(tool_groups)
        self.models, self._earlier_models = models_of(models), list[Models]()
        self._given_documents, self._own_documents = documents, cast("DocumentIndex | None", None)
        self._opening_documents = Lock()
        self.store, self._sealed = store or InMemoryProcessStore(), seals is not None
        self.processes = Processes(
            self,
            self.store,
            contexts=contexts,
            max_threads=max_threads,
            retry=retry or RetryPolicy(),
            lease_seconds=lease_seconds,
            seals=seals,
            engine=engine,
            keep_journals=keep_journals,
            max_object_bytes=max_object_bytes,
        )
        self.contexts = self.processes.contexts
        """The stores of objects that outlive processes, by id; by default they are in the `store`."""
        self.conversations = Conversations(self.store.conversations, self.processes.erase)
        self.processes.turns = ConversationTurns(self)
        self.chatbots = Chatbots(self)
        self.ai = self._standalone_ai()
        self.agents = self._no_deployments()
        self.on_deployment: Callable[[], object] = lambda: None
        """Called in any thread when an agent was deployed or undeployed."""
        self.may_start: Callable[[Caller, Goal], bool] = lambda _caller, _goal: True
        """Whether a caller may start a goal, where callers are authenticated."""
        self.limits_of: Callable[[Caller], Mapping[str, Any]] = lambda _caller: {}
        """The limits for each process of a caller, as arguments of `ProcessOptions.within`; empty: no limits."""
        self.may_chat = lambda _caller, _chatbot: True
        self.autonomy = Autonomy(platform=self)
        for listener in listeners:
            self.subscribe(listener)
        if isinstance(agents, (str, type)) or not hasattr(agents, "__iter__"):
            raise TypeError(f"Expected agents to be a list, but got {agents!r}. Write AgentPlatform([…]).")
        for each in agents:
            self.deploy(each)

    @classmethod
    def from_workspace(
        cls,
        workspace: Workspace,
        settings: Settings,
        *,
        listeners: Iterable[EventListener] = (),
        models: Models | None = None,
        upstream: UpstreamServers | None = None,
        services: Iterable[object] = (),
        migrates: bool = True,
    ) -> Self:
        """A platform that serves the agents of a workspace; what cannot be deployed is in `problems`.

        `models` replace those of the workspace and its settings, `upstream` the servers in its `mcp_config.json`, and
        `services` the declared services and settings of the same types. `migrates`: whether a store of an earlier
        version is upgraded; otherwise it is refused.
        """
        store = workspace_store(settings, migrates=migrates)
        platform = cls(
            services=[*services, settings],
            models=models or workspace_models(workspace, settings),
            listeners=listeners,
            options=process_options(settings),
            llm=settings.llm_operations,
            templates=Templates(workspace.root / "prompts", workspace.root / "agents"),
            store=store,
            seals=ProcessSeals(lambda: sealing_keys(settings)),
            max_threads=settings.max_threads,
            retry=settings.retry.policy,
            lease_seconds=settings.lease_seconds,
            engine=workspace_engine(settings),
            keep_journals=settings.keep_journals,
            max_object_bytes=settings.max_object_bytes,
            upstream=upstream or workspace_upstream(workspace, settings),
        )
        register_secrets(platform, secrets_of(settings))
        platform._settings = settings
        platform._own_store = store if isinstance(store, AbstractAsyncContextManager) else None
        platform.autonomy = workspace_autonomy(platform, settings.autonomy)
        platform._own_agents = tuple(workspace_own_agents(settings, platform.autonomy))
        if settings.serves("a2a"):
            front = FrontAgent(platform.autonomy, open_mode=settings.front_tool == "open")
            platform._front = read_agent(front, SERVICE_TYPES)
        platform.load(workspace)
        platform._renews_models = models is None
        return platform

    @classmethod
    def __goalport_current__(cls) -> "AgentPlatform | None":
        """The platform for a tool that takes one: that of the process in which it is called."""
        return cast("AgentPlatform | None", SERVICES.get()(cls))

    @property
    def documents(self) -> DocumentIndex:
        """The index of documents that agents search; it is created at its first use, in any thread."""
        if self._given_documents is not None:
            return self._given_documents
        with self._opening_documents:
            self._own_documents = self._own_documents or document_index(self.models, self._settings)
            return self._own_documents

    def load(self, workspace: Workspace) -> None:
        """Deploy the agents of a workspace in place of all others; running processes keep their agents."""
        settings, declared_tables = self._settings, DeclaredSettings()
        if settings is not None:
            if self._renews_models:  # the workspace may have models of its own
                self._earlier_models.append(self.models)  # processes that run keep them
                self.models = workspace_models(workspace, settings)
                self.ai = self._standalone_ai()
            self.references = workspace_references(lambda: self.documents, settings, workspace)
            declared_tables = declared_settings(settings, workspace)
        self.misconfigured = declared_tables.problems
        declarations = workspace.declarations()
        declared = DeclaredServices(self._given_service, declared_tables, declarations)
        register_secrets(declared, secrets_in(declared_tables.tables))
        self._loads = [declared, *(each for each in self._loads if each.types)]
        self._extensions = declared.extensions(declarations)
        for each in self._listening:
            each()
        self._listening = [self.subscribe(each) for each in self._extensions["listener"]]
        self.ranker = next(iter(self._extensions["ranker"]), None)
        self.processes.prepare = self._prepare if any(each.needs_entering for each in self._loads) else None
        problems = [*self.references.problems, *self.misconfigured, *declared.problems]
        fresh = self._no_deployments()
        for agent in (*workspace.agents(), *self._own_agents):
            try:
                fresh.add(agent)
            except GoalportError as error:
                problems.append(str(error))
            except (Exception, SystemExit) as error:
                kind = agent if isinstance(agent, type) else type(agent)
                problems.append(f"{class_place(kind)} could not be read: {error_summary(error)}{line_of(error, kind)}")
        fresh.of_tools, fresh.front = agents_of_tools(workspace.exported_tools()), self._front
        self._set_groups(workspace.values(ToolGroup))
        self.processes.renew_types()
        self.agents, self.problems = fresh, tuple(dict.fromkeys(problems))

    async def _prepare(self, kinds: Sequence[type], owner: object) -> None:
        for each in self._loads:
            await each.prepare(kinds, owner)

    def leave_services(self) -> None:
        """Close the services of earlier loads once the processes that run now have ended."""
        earlier, running = self._loads[1:], self.processes.running

        async def leave() -> None:
            await asyncio.gather(*(each.wait() for each in running), return_exceptions=True)
            for each in earlier:
                await each.close()

        self._leaving = asyncio.create_task(leave())

    def deploy(self, agent: object) -> Agent:
        """Read an agent or component and deploy it. Raises `DeclarationError` or `DeploymentError`."""
        deployed = self.agents.add(agent)
        if self.store.durable:
            for each in unstorable_in([deployed], sealed=self._sealed):
                _log.warning("%s", each)
        self.processes.listeners.on_event(AgentDeployed(deployed.name))
        self.on_deployment()
        return deployed

    def undeploy(self, name: str) -> None:
        """Remove an agent; its running processes go on. Raises `UnknownName`."""
        self.processes.listeners.on_event(AgentUndeployed(self.agents.remove(name).name))
        self.on_deployment()

    @property
    def unstorable(self) -> tuple[str, ...]:
        """A sentence for each type of the deployed agents that no store can write; their processes stay in memory."""
        return unstorable_in((*self.agents, *self.agents.components), sealed=self._sealed)

    def service(self, kind: type) -> object | None:
        """The service of that type, with which `Provided` parameters are filled, or None.

        Raises `DeploymentError` for a service of a workspace that cannot be created.
        """
        found = self._given_service(kind)
        for each in self._loads if found is None else ():
            if (found := each.find(kind)) is not None:
                break
        return found

    def _given_service(self, kind: type) -> object | None:
        """The service of that type that a program passed, or that the platform itself provides; None: there is none."""
        is_known = not getattr(kind, "_is_protocol", False) or getattr(kind, "_is_runtime_protocol", False)
        services = (*self._services, self.ai, self.models)
        for each in services:
            if kind in type(each).__mro__ or (is_known and isinstance(each, kind)):
                return each
        if not kind.__module__.startswith("goalport.knowledge.rag."):
            return None  # no other type makes the index
        return self.documents if isinstance(self.documents, kind) else None

    def create_agent_process(self, agent: str | Agent, *inputs: object, **how: Unpack[Start]) -> AgentProcess:
        """Like `start`, but the process does not run yet: `await process.tick()` takes a step, `run()` all of them.

        It is found by its id once it has begun. Needs a running event loop. Raises `UnknownName`.
        """
        try:
            scope = self.agents.scope(agent)
        except (UnknownName, DeclarationError):
            for each in inputs:  # perhaps one of them names the agent
                kind = each if isinstance(each, type) else type(each)
                named = isinstance(each, str) and any(each == known.name for known in self.agents)
                if named or isinstance(each, Agent) or is_marked(kind):
                    name = repr(each) if named else kind.__name__
                    got = f"but got {agent!r} first. Write {name} before {agent!r}."
                    raise TypeError(f"Expected an agent and then its inputs, {got}") from None
            raise
        options, caller = how.get("options") or self.options, how.get("caller", ANONYMOUS)
        if limits := self.limits_of(caller):
            options = options.within(**limits)
        bindings, spent = how.get("bindings") or {}, how.get("spent", ())
        return self.processes.create(scope, Inputs(inputs, bindings, how.get("goals"), caller, spent=spent), options)

    def start(self, agent: str | Agent, *inputs: object, **how: Unpack[Start]) -> AgentProcess:
        """Start a process in a task of its own and return it at once.

        `inputs` are put on its blackboard; see `Start` for the rest. Needs a running event loop. Raises `UnknownName`.
        """
        process = self.create_agent_process(agent, *inputs, **how)
        self.processes.begin(process)
        return process

    async def start_stored(
        self,
        agent: str | Agent,
        *inputs: object,
        once: tuple[str, str] | None = None,
        keep_events: bool = True,
        listener: EventListener | None = None,
        **how: Unpack[Start],
    ) -> AgentProcess | None:
        """Start a process that its caller may leave and find again by its id; with `keep_events`, with all its events.

        It is stored when this returns, and then at each step, if the store outlives the program. `once` is a key and a
        digest of the inputs. If any program has started a process with the key before, that process is returned, or
        None if its digest differs; a process that was killed or dropped is started again. `listener` receives the
        events from the beginning. Raises `UnknownName`, and `StoreError`.
        """
        if keep_events:
            how["options"] = (how.get("options") or self.options).with_(keep_events=True)
        process = self.create_agent_process(agent, *inputs, **how)
        if listener is not None:
            process.subscribe(listener)
        return await self.processes.begin_or_join(*(once or ("", "")), process)

    async def run(self, agent: str | Agent, *inputs: object, **how: Unpack[Start]) -> AgentProcess:
        """Run a process to its end; its `outcome` says how it ended. Cancelling this kills the process."""
        process = self.start(agent, *inputs, **how)
        try:
            await process.wait()
        except asyncio.CancelledError:
            process.kill("Whoever started it was cancelled.")
            raise
        return process

    async def process(self, process_id: str) -> AgentProcess:
        """The process of that id. Raises `UnknownName`."""
        return await self.processes.find(process_id)

    def live_process(self, process_id: str) -> AgentProcess | None:
        """The process of that id, if it is in the memory of this program, for a listener that cannot await.

        It is found from the start of its run until it no longer runs here; an ephemeral process is never found.
        """
        return self.processes.live(process_id)

    async def events(self, process_id: str, after: int = 0) -> AsyncGenerator[LoggedEvent]:
        """The events of a process and of those that it started, in order: first the past ones, then new ones.

        Each event has a number: to resume without a gap, pass that of the last event received as `after`. The iterator
        ends when the process has ended. Any program can read the events of a process whose steps are stored; others
        are kept with `ProcessOptions(keep_events=True)`. Texts between models and tools are left out unless
        `keep_journals` is set. Raises `UnknownName`, `StoreError` while the store cannot be reached, and `HandedOver`
        when this program ends first.
        """
        async with aclosing(self.processes.events(await self.process(process_id), after)) as events:
            async for each in events:
                yield each

    async def erase(self, caller: Caller, *, dry_run: bool = False) -> Erased:
        """Erase what is stored of a caller: conversations, processes in any program, contexts, and sign-ins.

        Documents stay, but no longer name the caller among their readers. With `dry_run`, this only counts. Raises
        `StoreError`; data that were erased before stay erased.
        """
        owner = Caller(caller.id, caller.issuer)
        conversations = [each.id for each in await conversations_of(self.store, owner)]
        records = await self.store.records(caller=owner)
        running = [each for each in self.processes.running if owner.same_as(each.caller)]  # perhaps not stored yet
        roots = [*{each.root for each in records} | {each.root.id for each in running}]
        if not dry_run:
            for each in conversations:
                await self.conversations.delete(each, owner)
            for first in range(0, len(roots), _ERASED_AT_ONCE):
                some = roots[first : first + _ERASED_AT_ONCE]
                await asyncio.gather(*(self.processes.erase(each, "What its caller left was erased.") for each in some))
            await self.store.forget_keys({each.id for each in (*records, *running)})
        contexts = self.contexts
        return Erased(
            len(conversations),
            len(roots),
            await contexts.erase_of(owner, count=dry_run) if isinstance(contexts, StoredContexts) else 0,
            await self.documents.grants_of(owner, revoke=not dry_run),
            self.upstream.sign_ins_of(owner, end=not dry_run),
        )

    async def answer(
        self, process_id: str, question_id: str | None = None, response: object = None, *, declined: str = ""
    ) -> AgentProcess:
        """Answer a question of a process, and let it go on; without `question_id`, the only one that is open.

        `response` is an object of the type that was asked for, or its JSON form; a boolean for a yes or no. `declined`
        is the reason why a person says no instead. Raises `UnknownName`, and `AlreadyAnswered`, since the first answer
        counts; `BadInput` for an answer that does not fit, or a process that has ended: the question stays open.
        """
        process = await self.process(process_id)
        await self.processes.answer(process, question_id, response, declined)
        return process

    async def go_on(self, process_id: str, *, retry: bool) -> AgentProcess:
        """Go on with a process that is stuck because the program had ended in an action that may not be repeated.

        `retry`: the action begins again; otherwise it is left out, and another way to the goal is looked for. Raises
        `UnknownName`, and `BadInput` if nothing was interrupted.
        """
        process = await self.process(process_id)
        await self.processes.go_on(process, retry=retry)
        return process

    async def tell(self, process: str | AgentProcess, *objects: object, caller: Caller | None = None) -> AgentProcess:
        """Begin a turn: put objects on the blackboard of a process that rests, as the newest, and let it go on.

        `process` is the id of a process, or a process that has not begun. While it runs, this waits until it rests.
        `caller` is the caller of the process, with the scopes that the caller has now. Raises `UnknownName`, and
        `BadInput` if the process has ended for good.
        """
        found = await self.process(process) if isinstance(process, str) else process
        await self.processes.tell(found, objects, caller)
        return found

    async def stop_turn(self, process_id: str, reason: str = "The turn was stopped.") -> None:
        """End the turn of a process, but not the process, whichever program runs it. Raises `UnknownName`."""
        await self.processes.stop_turn(await self.process(process_id), reason)

    def explain(self, goal: str | Goal, given: Sequence[object] = ()) -> Explanation:
        """How a goal would be reached from objects of the given types, or why it would not.

        Raises `UnknownName`, and `TypeError` for an object in place of its type.
        """
        require_types("given", given)
        agent, found = self.agents.goal(goal)
        explanation = explain_goal(self.agents.scope(agent), found, given, self.expected_groups, self.service)
        return explanation.with_reasons(self.groups.why_unmet)

    def starting_types(self, goal: str | Goal) -> tuple[object, ...]:
        """The types from which a goal can be started: as declared, else what its plan needs and no action makes."""
        agent, found = self.agents.goal(goal)
        return starting_types(self.agents.scope(agent), found, self.expected_groups, self.service)

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Add a listener for the events of processes that start from now on, and of requests to models outside of any.

        The returned function removes it.
        """
        return self.processes.listeners.add(listener)

    async def __aenter__(self) -> Self:
        if self._own_store is not None:
            await self._own_store.__aenter__()
        await self.upstream.open()
        await self.processes.open()
        if self._settings is not None and (self._settings.retention_days or self._settings.retention_count):
            age = timedelta(days=self._settings.retention_days) if self._settings.retention_days else None
            pruning = keep_pruned(self.store, age, self._settings.retention_count or None)
            self._pruning = asyncio.create_task(pruning, name="goalport-retention")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Kill all processes, wait until they have ended, and close what the platform has opened.

        Raises `GoalportError` when an action that it runs calls this, since that would wait for itself.
        """
        if AgentProcess.current() in self.processes.running:
            raise GoalportError("An action cannot close the platform that runs it. Close it where it was made.")
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.wait([self._pruning])
        await self.processes.close()
        for each in self._loads:
            await each.close()
        if self._own_documents is not None:
            await self._own_documents.close()
        for each in (*self._earlier_models, self.models):
            await each.aclose()
        await self.upstream.close()
        if self._own_store is not None:
            await self._own_store.__aexit__(None, None, None)

    def llm_engine(self, operation: Operation, groups: ToolGroupResolver | None = None) -> LlmEngine:
        """The engine for the requests of an `Ai`, with the models, limits and guards of the platform.

        Without `groups`, each request uses the tool groups that the platform has at that time.
        """
        return LlmEngine(
            self.models,
            lambda: self.groups if groups is None else groups,
            self._llm,
            operation,
            (*self._guards, *self._extensions["guard"]),
            self._templates,
            self._validators,
            lambda: self.references,
            lambda model, seconds, failed: self.processes.on_model_request(model, seconds, failed),  # noqa: PLW0108 - later
            agent_tool,
        )

    def _standalone_ai(self) -> Ai:
        """An `Ai` for code outside of actions; called inside of one, its cost counts for the action's process."""
        return Ai(self.llm_engine(current_operation(self.processes.listeners)))

    def _no_deployments(self) -> Deployments:
        given = (each for each in self._services if isinstance(each, ArgumentResolver))
        resolvers = (*given, *self._extensions["argument_resolver"])
        return Deployments(type(self), self.service, resolvers, self._loads[0])

    def _set_groups(self, given: Iterable[ToolGroup]) -> None:
        groups = (*given, math_group())
        self.groups = ToolGroupResolver(groups, [self.upstream.groups])
        self.expected_groups = ExpectedGroups(groups, self.upstream.groups)
        """The tool groups that count as available when a goal is explained before any process runs."""
