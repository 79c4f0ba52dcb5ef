"""The state of one MCP server, the errors of handlers, cancellations at other servers, and the check of scopes.

Handlers get it as the SDK's lifespan context; `calls`, `resources` and `server`, above, do the work. Only this module
of the room catches every exception: a bug in a handler becomes an error for the caller and a traceback in the log.

Scopes are checked twice by the same rule. Over HTTP, `guarded` looks at the message before the SDK does, and refuses
with status 403 and a challenge, with which clients ask for more rights (step-up). `check_scopes` checks the requests of
every transport: it refuses where there is no HTTP, and where the setting `auth.step_up` is "tool-error".
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, Final, TypeVar, cast

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.types import ASGIApp, Receive, Scope, Send

from goalport.base.errors import BadInput, HandedOver, StoreError, ToolError, UnknownName, Unreadable
from goalport.base.sealing import sealing_keys
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import CANCELLED, Watch, end_for_caller, process_of
from goalport.runtime.process import AgentProcess, DirectCalls
from goalport.server.auth import Access, current_caller
from goalport.server.auth.guard import route_path
from goalport.server.doors.mcp.jsonrpc import message_of
from goalport.server.doors.mcp.notifications import Notifications
from goalport.server.publish.answers import AnswerFormat
from goalport.server.publish.calls import logged, unavailable_words
from goalport.server.publish.exported_tools import Handler
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.handle import Companion
from goalport.server.publish.limits import LimitReached
from goalport.server.publish.publication import Publication, Scopes
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.resources import conversation_uris, read_uri
from goalport.tools import calling_from

T = TypeVar("T")
CANCELLED_BY_CALLER: Final = "Its caller cancelled it."
_log = logging.getLogger(__name__)
_END_SECONDS: Final = 5.0
"""The most seconds that a cancellation waits for the process to stop before it is answered."""


class HandlerFailed(MCPError):
    """A handler raised an unexpected exception. The client gets an internal error (-32603) with one sentence."""


class McpState:
    """The state of one server; each replica has its own."""

    def __init__(self, publisher: Publisher, access: Access | None = None) -> None:
        self.publisher = publisher
        self.access = access or Access(publisher, None)
        self.platform = publisher.platform
        self.settings = publisher.settings
        self.keys = sealing_keys(self.settings)
        self.notifications = Notifications()
        self.runs = publisher.runs
        self.cancellations = Cancellations(self.platform)
        self.answers = AnswerFormat(self.settings.max_result_bytes)
        self.asked: set[str] = set()
        """The ids of the questions that clients are being asked now, in the middle of their calls."""
        self.suspended_calls: dict[str, object] = {}
        """Calls of upstream tools that wait for their clients to repeat them with answers, by `requestState`."""
        publisher.subscribe(self.notifications.announce)

        def mark(conversation_id: str) -> None:
            for uri in conversation_uris(conversation_id):
                self.notifications.mark(uri)

        self.platform.conversations.on_change.append(mark)

    @property
    def publication(self) -> Publication:
        """The part of the current publication that the caller of the current request may list and use."""
        return self.access.publication

    async def process(self, process_id: str) -> AgentProcess | None:
        """A process that the current caller may follow; None if there is none, or if it is another caller's.

        Raises `BadInput` if it cannot be read.
        """
        try:
            return await process_of(self.platform, process_id, current_caller())
        except (StoreError, Unreadable) as error:
            raise BadInput(unavailable_words(error)) from error

    async def known_process(self, process_id: str) -> AgentProcess:
        """A process that a call names and its caller may follow. Raises `BadInput` if there is none."""
        process = await self.process(process_id)
        if process is None:
            lost = "" if self.platform.store.durable else ", and one that ran when the server stopped is lost"
            raise BadInput(
                f"There is no process {process_id[:100]!r}, or it is not yours. Expected the processId of a handle."
                f" A process that ended long ago is forgotten{lost}: call the goal's tool again then."
            )
        return process

    async def stop(self, process: AgentProcess) -> None:
        """End a process because its caller wants that, and wait a moment until it has stopped."""
        end_for_caller(self.platform, process, CANCELLED_BY_CALLER)
        self.publisher.audit_trail.ended(current_caller(), process.id)
        with anyio.move_on_after(_END_SECONDS):
            await process.rest()

    @property
    def call_site(self) -> DirectCalls:
        """The context of tools that are called without a process: the caller of this request, and the listeners."""
        return DirectCalls(current_caller(), self.platform.processes.listeners)

    async def answer_of(self, name: str, handling: Awaitable[T]) -> T:
        """The result of a handler; `name` is the tool, prompt or resource that it answers for.

        Errors that tell the caller what to do pass; `ToolError` becomes `MCPError`, other exceptions `HandlerFailed`.
        """
        try:
            return await handling
        except (BadInput, HandedOver, LimitReached, MCPError, StoreError):
            raise
        except ToolError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from error
        except Exception as bug:
            words = logged(name, bug, tells_errors=self.settings.show_errors)
            raise HandlerFailed(INTERNAL_ERROR, words) from bug

    async def answer_of_raw(self, name: str, handler: Handler, context: "Context", params: object) -> Any:
        """The result of a raw handler, whose tools are called on behalf of the caller of the request."""
        with calling_from(self.call_site):
            return await self.answer_of(name, handler(context, params))


Context = ServerRequestContext[McpState, Any]

_CALL, _GIVEN_UP, _ANSWERED = "call", "cancelled", "answered"
_BRIEF: Final = 0.5
"""Seconds after which a call is recorded in the store: most calls are answered before."""
_RECENT: Final = 120.0
"""Seconds for which a cancellation stays valid if it was stored before its call; clocks may differ."""


class Cancellations:
    """Cancels calls that another server answers, since a session's `notifications/cancelled` may reach any server.

    The SDK cancels calls of its own program. A call of another program and its cancellation meet in the store, under a
    key made from the session's ticket and the id of the request. This works for durable processes only.
    """

    def __init__(self, platform: AgentPlatform) -> None:
        self._platform, self._store = platform, platform.store
        self._here: set[str] = set()
        """The keys of the calls that this program answers."""
        self._tasks: set[asyncio.Task[None]] = set()

    @contextmanager
    def reachable(self, session: bytes | None, request_id: object, watch: Watch) -> Generator[None]:
        """A context in which a call waits for a process, and cancellations from any server can reach it."""
        if session is None or watch.detached or not (self._store.durable and watch.process.durable):
            yield
            return
        call, answered = _key(session, request_id), asyncio.Event()
        task = asyncio.create_task(self._announce(call, watch, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._here.add(call)
        try:
            yield
        finally:
            self._here.discard(call)
            answered.set()

    async def _announce(self, call: str, watch: Watch, answered: asyncio.Event) -> None:
        """Record a call in the store until it is answered, unless that is soon; end it if it was cancelled already."""
        with suppress(TimeoutError):
            await asyncio.wait_for(answered.wait(), _BRIEF)
            return
        process = watch.process.id
        try:
            kind, known = await self._store.join(call, _CALL, process)
            if kind == _GIVEN_UP and time.time() - float(known) < _RECENT:
                watch.leave()
                return
            if known != process:  # the session has used the id before
                await self._store.join(call, _CALL, process, instead_of=known)
            await answered.wait()
            await self._store.join(call, _ANSWERED, "", instead_of=process)
        except StoreError as error:
            _log.debug("A call can be cancelled at this server only: %s", error)

    async def cancel(self, session: bytes, request_id: object) -> None:
        """End the process of a call that another server answers, unless the process is detached."""
        call = _key(session, request_id)
        if call in self._here or not self._store.durable:
            return
        try:
            kind, known = await self._store.join(call, _GIVEN_UP, str(time.time()))
            if kind != _CALL:
                return
            process = await self._platform.process(known)
        except (StoreError, UnknownName, Unreadable) as error:
            _log.warning("A cancelled call goes on at another server: %s", error)
            return
        if process.outcome is None and not CallPolicy.of_process(process).detached:
            end_for_caller(self._platform, process, CANCELLED)


def _key(session: bytes, request_id: object) -> str:
    # The SDK compares the texts of ids.
    return sha256(json.dumps(["goalport.session", session.decode("latin-1"), str(request_id)]).encode()).hexdigest()


_UNSCOPED_METHODS: Final = frozenset({"initialize", "ping", "server/discover"})
"""The methods that need no scopes: they ask who the server is, and whether it is there."""
_LONGEST_NAME: Final = 100
_NOTHING: Final[Mapping[str, Any]] = {}


async def scopes_lacked(state: McpState, method: str, params: Mapping[str, Any] | None) -> Scopes | None:
    """The scopes that a request needs, if its caller lacks some of them; else None.

    Parameters that are missing or of a wrong type are not checked.
    """
    whole, params = state.publisher.publication, params or _NOTHING
    needed = whole.scopes.rules.read
    match method, params:
        case "tools/call", {"name": str() as name}:
            tool = whole.tools.get(name)
            if not isinstance(tool, Companion) or (tool.tool.annotations and tool.tool.annotations.read_only_hint):
                needed = whole.scopes.tools.get(name, needed)
            elif isinstance(arguments := params.get("arguments"), dict):
                needed = await _of_process(state, cast("dict[str, object]", arguments).get("processId"))
        case "prompts/get", {"name": str() as name}:
            needed = whole.scopes.prompts.get(name, needed)
        case (("resources/read" | "resources/subscribe" | "skills/get"), {"uri": str() as uri}):
            needed = scopes_of_resource(state, uri)
        case "completion/complete", {"ref": {"type": "ref/prompt", "name": str() as name}}:
            needed = whole.scopes.prompts.get(name, needed)
        case "completion/complete", {"ref": {"uri": str() as uri}}:
            needed = whole.scopes.templates.get(uri, needed)
        case (("tasks/update" | "tasks/cancel"), _):
            needed = await _of_process(state, params.get("taskId"))
        case _:
            needed = Scopes() if method in _UNSCOPED_METHODS else needed
    return needed if state.access.lacks(needed) else None


def scopes_of_resource(state: McpState, uri: str) -> Scopes:
    """The scopes to read or watch a resource. The order of lookup is the same as in `resources`."""
    whole = state.publisher.publication
    scopes = whole.scopes
    if uri in scopes.resources:
        return scopes.resources[uri]
    if read_uri(uri) is not None:
        return scopes.rules.read
    provided = next((each for each in whole.providers if uri.startswith(each)), None)
    if provided is not None:
        return scopes.providers[provided]
    template = next((each.template.uri_template for each in whole.templates if each.matches(uri)), "")
    return scopes.templates.get(template, scopes.rules.read)


async def _of_process(state: McpState, named: object) -> Scopes:
    """The scopes to answer or end a process; `named` is its id, or the id of its task."""
    try:
        process = await state.process(named.partition(":")[0]) if isinstance(named, str) else None
    except BadInput:  # the handler of the request reports it
        process = None
    return state.access.base if process is None else state.access.of_process(process)


async def check_scopes(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """SDK middleware that refuses requests whose caller lacks scopes. Calls of tools are checked by `calls`."""
    if ctx.request_id is not None and ctx.method != "tools/call":
        state: McpState = ctx.lifespan_context
        if lacked := await scopes_lacked(state, ctx.method, ctx.params):
            raise MCPError(INVALID_REQUEST, state.access.refusal(lacked), {"requiredScopes": sorted(lacked)})
    return await call_next(ctx)


def guarded(app: ASGIApp, state: McpState) -> ASGIApp:
    """The app, behind a guard that refuses requests which lack scopes, with HTTP status 403 and a challenge.

    The guard runs inside `PostReader` and decides by the body alone. A message that contradicts its headers is never
    handled: `PostReader` has refused it, or since revision 2026-07-28 the SDK will.
    """
    challenges = state.access.challenges
    if challenges is None or state.settings.auth.step_up != "http":
        return app

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        message = message_of(scope)
        method, params = message.get("method"), message.get("params") or _NOTHING
        lacked = await scopes_lacked(state, method, params) if method is not None and "id" in message else None
        if not lacked:
            await app(scope, receive, send)
            return
        if method == "tools/call" and isinstance(name := params.get("name"), str):
            # It is logged like a call that a tool refuses.
            with state.publisher.calls.of("mcp", name[:_LONGEST_NAME], current_caller()) as call:
                call.known, call.status = name in state.publisher.publication.tools, "refused"
        refused = challenges.at(route_path(scope)).insufficient_scope(lacked, state.access.refusal(lacked))
        await refused(scope, receive, send)

    return guard
