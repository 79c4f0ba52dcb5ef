"""Calling the tools of one server over whichever connection it has now; failures are worded for models.

`server` owns the client and gives it the connection; `calls` holds what is under way on it. A server may be another
goalport, which answers a long or waiting call with a handle: handles are read and followed here, too.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from goalport.errors import ToolError
from goalport.tools import ToolResult
from goalport.upstream.calls import Call
from goalport.upstream.config import ServerConfig
from goalport.upstream.connection import Connection, ConnectionLost, NotCalled, Transport
from goalport.upstream.report import error_text
from goalport.upstream.tool import ToolRequest, result_of
from goalport.words import cleaned

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["ToolClient", "handle_of", "with_renamed_tools"]

_QUESTION: Final = 4_000
"""Characters of a question that a person is shown."""
_ERROR: Final = 2_000
"""Characters of an error that a model reads: the words in it are the server's."""
_PROCESS: Final = "goalport/processId"
_CANCEL: Final = "process_cancel"
_NAME: Final = r"[A-Za-z0-9_.-]+"
_CALL: Final = rf"(?<=\bcall ){_NAME}(?= with \{{)"
"""A call that a text advises to make."""
_REPEATED: Final = rf"(?<=\bcall )(?!it\b){_NAME}(?= again)"
"""A call that a text advises against."""
_IN_RESULTS: Final = re.compile(_CALL)
_IN_ADVICE: Final = re.compile(f"{_CALL}|{_REPEATED}")
_RESOURCES: Final = re.compile(r" A client that reads resources [^\n]*")
"""Advice to read a large result as a resource: resources are the other server's, and not published with its tools."""
_ABOUT: Final = frozenset({"processId", "questionId"})
"""The arguments of a call that answers a question which say what is answered; the one that is left is the answer."""


class ToolClient:
    """Calls the tools of one server, at most `ServerConfig.concurrency` at once.

    `connected` waits for the connection and raises `ToolError` where there is none; `hide` takes secrets out of errors.
    """

    def __init__(
        self,
        config: ServerConfig,
        connected: Callable[[], Awaitable[Connection]],
        transport: Transport,
        hide: Callable[[str], str],
    ) -> None:
        self.calls = 0
        self.failures = 0
        """Calls that gave no result."""
        self._config = config
        self._connected = connected
        self._transport = transport
        self._hide = hide
        self._turns = anyio.Semaphore(config.concurrency, fast_acquire=True)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Call a tool. It is called a second time only where the connection was lost and a repetition does no harm.

        Raises `ToolError` when there is no result, in words for the model that called, and the `Signal` that somebody
        who was asked during the call raised.
        """
        self.calls += 1
        try:
            try:
                return await self._once(request)
            except ConnectionLost as lost:
                if not (request.repeatable or isinstance(lost, NotCalled)):
                    raise
                return await self._once(request)
        except (ConnectionLost, ToolError) as error:
            self.failures += 1
            raise ToolError(cleaned(self._hide(f"{request.shown}: {error}"), _ERROR)) from None

    async def _once(self, request: ToolRequest) -> ToolResult:
        connection = await self._connected()
        seconds = self._config.timeout
        await self._turn(seconds)
        try:
            if connection.broken:
                raise NotCalled(f"the server {self._config.name!r} went away before the call.")
            with connection.calls.begin(seconds) as call:
                return await self._ask(connection, request, call)
        except TimeoutError:
            raise ToolError(
                f"the server {self._config.name!r} gave nothing within {seconds:g} s, and was told to stop. "
                "Ask for less, or do without it."
            ) from None
        finally:
            self._turns.release()

    async def _turn(self, seconds: float) -> None:
        """Wait until the server may get one more call. Raises `ToolError` when that takes longer than these seconds."""
        try:
            self._turns.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(seconds) as scope:
                await self._turns.acquire()
            if scope.cancelled_caught:
                name = self._config.name
                raise ToolError(f"the server {name!r} is busy with other calls. Try again later.") from None

    async def _ask(self, connection: Connection, request: ToolRequest, call: Call) -> ToolResult:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        server = self._config.name
        try:
            result = await connection.call(request.own_name, request.arguments, call)
            result = await self._followed(connection, result, call)
        except MCPError as error:
            if self._transport.session_expired():
                connection.lose()
                raise NotCalled(f"the server {server!r} was started anew, and knows us no more.") from error
            # The code alone says nothing: it is what the SDK says of a lost connection, and what servers say of errors.
            if error.code == CONNECTION_CLOSED and connection.broken:
                why = self._transport.last_error() or error.message
                raise ConnectionLost(
                    f"the server {server!r} went away during the call ({why}). Whether it did what it was "
                    "asked to is not known; it is being connected again."
                ) from error
            why = "; ".join(filter(None, (error.message, self._transport.last_error())))
            raise ToolError(f"the server {server!r} refused the call: {why}") from error
        except (RuntimeError, ValueError, OSError) as error:
            # The SDK speaks of the tool by the name that the server knows.
            said = error_text(error).replace(f"tool {request.own_name}", f"tool {request.shown}")
            raise ToolError(f"what the server {server!r} answered is no result: {said}") from error
        note = f"(The server asked a question meanwhile, which was declined: {call.unanswered}.)"
        renamed = with_renamed_tools(result, request.rename, connection.tool_names)
        return result_of(renamed, note if call.unanswered else "")

    async def _followed(self, connection: Connection, result: "CallToolResult", call: Call) -> "CallToolResult":
        """The result that a handle of another goalport leads to; its questions are put to the person behind the call.

        Where there is nobody, or a question cannot be put, the handle is the result: the caller can follow it.
        """
        ask = call.hooks.ask
        while ask is not None and (handle := handle_of(result)) is not None:
            tool, arguments = handle.tool, handle.arguments
            if handle.question is not None:
                answer = None
                try:
                    with call.waiting():
                        answer = await ask(cleaned(handle.message, _QUESTION), handle.form)
                except ToolError as error:
                    call.unanswered = str(error)
                    return result
                tool, arguments = handle.answered(answer)
            call.renew()
            result = await connection.call(tool, arguments, call)
        return result


@dataclass(frozen=True, slots=True)
class Handle:
    """What another goalport answers while a process has no result yet: it runs, or waits for a person.

    A result is a handle when its `_meta` has a process, and its structured content the same process and the next call.
    """

    process_id: str
    tool: str
    """The tool of the same server that is to be called next."""
    arguments: Mapping[str, Any]
    question: Mapping[str, Any] | None
    """What a person is asked first; None: the process runs, and the next call waits for it."""

    @property
    def message(self) -> str:
        return str(self.question.get("message", "")) if self.question else ""

    @property
    def form(self) -> Mapping[str, object]:
        """The JSON Schema of an object: of the answer, or of one whose only member is the answer, as a yes or no is."""
        if self._is_object:
            return self._schema
        return {"type": "object", "properties": {self._argument: self._schema}, "required": [self._argument]}

    def answered(self, answer: Mapping[str, object] | None) -> tuple[str, dict[str, Any]]:
        """The call (tool and arguments) that passes on the answer of a person; None: they declined."""
        if self._schema.get("type") == "boolean":
            return self._call_with(bool(answer and answer.get(self._argument)))
        if answer is None:
            return _CANCEL, {"processId": self.process_id}
        return self._call_with(dict(answer) if self._is_object else answer.get(self._argument))

    def _call_with(self, answer: object) -> tuple[str, dict[str, Any]]:
        return self.tool, {**self.arguments, self._argument: answer}

    @property
    def _schema(self) -> Mapping[str, object]:
        return cast("Mapping[str, object]", self.question["schema"]) if self.question else {}

    @property
    def _is_object(self) -> bool:
        return self._schema.get("type") == "object"

    @property
    def _argument(self) -> str:
        """The name of the argument that holds the answer."""
        return next(each for each in self.arguments if each not in _ABOUT)


def handle_of(result: "CallToolResult") -> Handle | None:
    """Read a result as a handle; None: it is another result."""
    content = _content_of(result)
    if content is None or content.get("status") not in {"running", "waiting"}:
        return None
    following, questions = content["next"], content.get("questions")
    first: Any = cast("Sequence[Any]", questions)[0] if isinstance(questions, list) and questions else None
    arguments = following.get("arguments")
    if not isinstance(arguments, dict) or not isinstance(first, dict | None):
        return None
    if first is not None and not _can_be_answered(cast("dict[str, Any]", first), cast("dict[str, Any]", arguments)):
        return None
    return Handle(
        content["processId"],
        following["tool"],
        cast("dict[str, Any]", arguments),
        cast("dict[str, Any] | None", first),
    )


def _can_be_answered(question: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether the next call has one argument for the answer. Questions of every kind are answered by their schema."""
    return isinstance(question.get("schema"), dict) and len(arguments.keys() - _ABOUT) == 1


def _in_errors(names: Sequence[str]) -> re.Pattern[str]:
    """The names of tools in an error. One of small letters alone may be a word of the sentence."""
    compound = "|".join(re.escape(each) for each in names if not (each.isalpha() and each.islower()))
    return re.compile(rf"{_CALL}|(?<![\w.-])(?:{compound})(?![\w-])" if compound else _CALL)


def with_renamed_tools(
    result: "CallToolResult", rename: Callable[[str], str], names: Sequence[str]
) -> "CallToolResult":
    """A result of another goalport with the names in its advice changed by `rename`; any other result unchanged.

    `names` are those of the server's tools, which its errors may speak of.
    """
    if _PROCESS not in (result.meta or {}):
        return result
    content = _content_of(result)
    named = _IN_ADVICE if content is not None else _in_errors(names) if result.is_error else _IN_RESULTS

    def told(text: str) -> str:
        return named.sub(lambda found: rename(found[0]), text if content is None else _RESOURCES.sub("", text))

    blocks = [
        each.model_copy(update={"text": told(each.text)}) if each.type == "text" else each
        for each in result.content
        if content is None or each.type != "resource_link"
    ]
    if content is None:
        return result.model_copy(update={"content": blocks})
    following = {**content["next"], "tool": rename(content["next"]["tool"])}
    if isinstance(said := following.get("instruction"), str):
        following["instruction"] = told(said)
    return result.model_copy(update={"content": blocks, "structured_content": {**content, "next": following}})


def _content_of(result: "CallToolResult") -> dict[str, Any] | None:
    """The structured content, where it is about the process that answered and holds the next call; else None."""
    content: Any = result.structured_content
    process: object = (result.meta or {}).get(_PROCESS)
    if not isinstance(process, str) or not isinstance(content, dict):
        return None
    told = cast("dict[str, Any]", content)
    following = told.get("next")
    is_next = isinstance(following, dict) and isinstance(cast("dict[str, Any]", following).get("tool"), str)
    return told if told.get("processId") == process and is_next else None
