"""The state of one MCP server, what a call needs to know of its request, and how failed requests are answered.

Handlers get it as the SDK's lifespan context; `calls`, `resources` and `server`, above, do the work. Only this module
of the room catches every exception: a bug in a handler becomes an error for the caller and a traceback in the log.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, RequestId

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, HandedOver, StoreError, ToolError, Unreadable
from goalport.base.sealing import sealing_keys
from goalport.runtime.platform.runs import Disconnect, process_of
from goalport.runtime.process import AgentProcess, DirectCalls
from goalport.server.auth import Access, current_caller
from goalport.server.doors.mcp.cancellations import Cancellations, disconnect_of
from goalport.server.doors.mcp.notifications import Notifications, Notifier, SdkNotifier
from goalport.server.doors.mcp.sessions import connection_of
from goalport.server.publish.answers import AnswerFormat
from goalport.server.publish.exported_tools import Handler
from goalport.server.publish.faults import logged, unavailable_words
from goalport.server.publish.limits import LimitReached
from goalport.server.publish.publication import Publication
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.resources import conversation_uris
from goalport.tools import calling_from

T = TypeVar("T")


class HandlerFailed(MCPError):
    """A handler raised an unexpected exception. The client gets an internal error (-32603) with one sentence."""

    def __init__(self, words: str) -> None:
        super().__init__(INTERNAL_ERROR, words)


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
        """The ids of the questions that clients are asked in the middle of their calls just now."""
        self.asking_calls: dict[str, object] = {}
        """Calls of upstream tools whose clients have been asked and have to repeat their calls, by their states."""
        publisher.subscribe(self.notifications.announce)
        self.platform.conversations.on_change.append(self._mark_conversation)

    @property
    def publication(self) -> Publication:
        """What the caller of the current request may list and use of the current publication."""
        return self.access.publication

    def _mark_conversation(self, conversation_id: str) -> None:
        for uri in conversation_uris(conversation_id):
            self.notifications.mark(uri)

    async def process(self, process_id: str, caller: Caller) -> AgentProcess | None:
        """A process that this caller may follow; None if there is none, or, without a difference, if it is another's.

        Raises `BadInput` if it cannot be read.
        """
        try:
            return await process_of(self.platform, process_id, caller)
        except (StoreError, Unreadable) as error:
            raise BadInput(unavailable_words(error)) from error

    async def kill_unreadable(self, process_id: str, caller: Caller, reason: str) -> bool:
        """End a process that this caller may follow and today's classes cannot read; False if there is none to end.

        Raises `StoreError`.
        """
        record = await self.platform.store.find(process_id)
        if record is None or record.final or not caller.may_follow(record.caller):
            return False
        await self.platform.processes.kill_unreadable(process_id, reason)
        return True

    async def known_process(self, process_id: str, caller: Caller) -> AgentProcess:
        """A process that a call names and this caller may follow. Raises `BadInput` if there is none."""
        process = await self.process(process_id, caller)
        if process is None:
            lost = "" if self.platform.store.durable else ", and one that ran when the server stopped is lost"
            raise BadInput(
                f"There is no process {process_id[:100]!r}, or it is not yours. Expected the processId of a handle."
                f" A process that ended long ago is forgotten{lost}: call the goal's tool again then."
            )
        return process

    async def answer_of(self, name: str, handling: Awaitable[T]) -> T:
        """The result of a handler; `name` is the tool, prompt or resource that it answers for.

        Lets `MCPError` pass, and what tells the caller what to do, and raises `HandlerFailed` for any other exception.
        """
        try:
            return await handling
        except (BadInput, HandedOver, LimitReached, MCPError, StoreError):
            raise
        except ToolError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from error
        except Exception as bug:
            raise HandlerFailed(logged(name, bug, tells_errors=self.settings.show_errors)) from bug

    async def answer_of_raw(self, name: str, handler: Handler, context: "Context", params: object) -> Any:
        """The result of a raw handler, whose tools are called on behalf of the caller of the request."""
        with calling_from(DirectCalls(current_caller(), self.platform.processes.listeners)):
            return await self.answer_of(name, handler(context, params))


Context = ServerRequestContext[McpState, Any]


@dataclass(frozen=True, slots=True)
class CallContext:
    """The server and the request of one call."""

    state: McpState
    disconnect: Disconnect | None = None
    """Whether the client has disconnected; None where the SDK or the transport cancels the handler."""
    session: bytes | None = None
    """The session of the request as all servers know it; None if it is known to this program only."""
    request_id: RequestId | None = None
    notifier: Notifier | None = None
    """By which the client is told what it asked for before the answer; None: it is told nothing."""
    sdk: Context | None = None
    """The SDK's context, by which the client is sent requests before the answer; None: it is sent none."""

    @property
    def heartbeat_seconds(self) -> float:
        """The longest time without a notification for a client that asked for progress."""
        return self.state.settings.heartbeat_seconds

    @classmethod
    def of(cls, context: Context) -> "CallContext":
        """What the SDK's context says."""
        session_id = connection_of(context).session_id
        session = None if session_id is None else session_id.encode()
        return cls(
            context.lifespan_context, disconnect_of(context), session, context.request_id, SdkNotifier(context), context
        )
