"""Calling agents of other frameworks, and of other goalports, over the Agent2Agent Protocol (A2A).

An agent in the configuration is connected like an MCP server: its card is read, and its skills become tools. `A2aAgent`
is an agent that Python code names. A call of a tool sends a message, and follows the task that the agent creates for it
to its end. No connection stays open between requests, so a task survives a restart of either side: a repeated call
joins its task again. The SDK serializes both versions of the protocol; the client of `transports` sends the requests.
"""

import re
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload
from urllib.parse import urlsplit
from uuid import uuid4

import anyio
import httpx2
from anyio import get_cancelled_exc_class
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from goalport.base.errors import DeclarationError, ToolError
from goalport.base.secrecy import hide, register_secrets
from goalport.base.words import cleaned, error_summary, listed, one_line, shortened, type_name, validation_problems
from goalport.tools import Tool, ToolObject, ToolResult
from goalport.tools.upstream.active_calls import MOST_ASKED, Call, RemoteProcess
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.connection import Connection, ConnectionLost, Listing, NotCalled
from goalport.tools.upstream.tool import ToolRequest
from goalport.tools.upstream.transports import HttpTransport
from goalport.tools.upstream.upstream_server import ToolClient, failure_reason

try:
    from a2a import types as a2a
    from a2a.client import Client, ClientConfig, ClientFactory
    from a2a.client.card_resolver import parse_agent_card
    from a2a.types import TaskState
    from a2a.utils.errors import A2AError
    from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
    from google.protobuf.struct_pb2 import Struct, Value
except ImportError as error:
    raise ImportError('Calling other agents needs `pip install "goalport[a2a]"`.') from error

if TYPE_CHECKING:
    from mcp_types import CallToolResult

T = TypeVar("T")
BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
"""The protocol bindings that are supported; the first is used if a card offers both."""
_VERSIONS: Final = {"1", "0", ""}
"""The major versions that are supported; a card without a version means the newest."""
_PORTS: Final = 2**16
_CARDS: Final = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""The path of a card, and its path in older versions of the protocol."""
_INPUT: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What the agent is told, in words; empty if the data says it all"},
        "data": {"type": "object", "description": "The data that the agent takes, if its description names any"},
    },
    "required": ["message"],
}
_GOING: Final = {TaskState.TASK_STATE_UNSPECIFIED, TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING}
_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two polls of a task that cannot be streamed: the first pause, and the longest."""
_CANCEL_SECONDS: Final = 5.0
_EXACT: Final = 2**53
"""From here on, the doubles of the protocol cannot represent each integer."""
_PROGRESS_CHARACTERS: Final = 500


class AgentConnection(Connection):
    """A connection to an agent. Its transport is a `HttpTransport`."""

    _client: Any = None
    card: a2a.AgentCard | None = None
    """The card that was read last; if it is set before the connection is opened, it is not read then."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Listing]:
        """Read the card. Raises `ConnectionLost` if there is no usable card, and errors of httpx2."""
        assert isinstance(self.transport, HttpTransport)
        async with self.transport.client() as self._http:
            if self.card is None:
                await self.list()
            else:
                self._use(self.card)
            yield self.listing

    @property
    def protocol_version(self) -> str:
        return "" if self.card is None else f"A2A {self.card.supported_interfaces[0].protocol_version}"

    def _use(self, card: a2a.AgentCard) -> None:
        http: Any = self._http
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[*BINDINGS],
            use_client_preference=True,
            polling=not card.capabilities.streaming,
        )
        try:
            self.card, self._client = card, ClientFactory(config).create(card)
        except ValueError as error:
            raise ConnectionLost(f"its card offers no version that goalport calls: {error}") from None

    async def list(self) -> Listing:
        from mcp_types import Tool as Definition

        self.changed = False
        card = await self._read_card()
        self._use(card)
        if card.capabilities.extended_agent_card and (self._config.headers or self._config.oauth):
            with suppress(A2AError):
                card = await self._client.get_extended_agent_card(a2a.GetExtendedAgentCardRequest())
        tools: list[Definition] = []
        # An agent without any skills becomes one tool.
        for skill in card.skills or [a2a.AgentSkill(id="ask", name=card.name, description=card.description)]:
            examples = f"\nFor example: {listed(skill.examples)}" if skill.examples else ""
            described = f"{skill.description or skill.name}{examples}"
            name = skill.id or skill.name
            tools.append(Definition(name=name, title=skill.name, description=described, input_schema=dict(_INPUT)))
        self.listing = Listing(tuple(tools))
        return self.listing

    async def ping(self) -> None:
        """Check that the agent answers, by reading its card; if the card has changed, mark the list as changed."""
        if await self._read_card() != self.card:
            self.mark_changed()

    async def call(self, name: str, arguments: Mapping[str, object], call: Call) -> "CallToolResult":
        """Send the agent a message, and follow the task that it creates. Raises `ToolError` if there is no result."""
        task = _RemoteTask(self._config.name, self._client, call)
        try:
            return await task.result(name, arguments)
        except get_cancelled_exc_class():
            # A call that is cancelled because the program ends is repeated later, and then joins its task.
            if call.scope.cancel_called or call.hooks.record is None or not call.hooks.record.will_be_repeated:
                await task.cancel()
            raise
        except httpx2.ConnectError as error:
            self.mark_broken()
            raise NotCalled(f"the agent {self._config.name!r} cannot be reached.") from error
        except httpx2.TransportError as error:
            self.mark_broken()
            raise ConnectionLost(
                f"the agent {self._config.name!r} went away during the call ({error_summary(error)}). Whether it did "
                "what it was asked to is not known."
            ) from error
        except ParseError as error:
            raise ToolError(
                f"what the agent {self._config.name!r} answered is no A2A: {one_line(str(error))}"
            ) from error
        except (A2AError, httpx2.HTTPError) as error:
            why = _error_message(error.response) if isinstance(error, httpx2.HTTPStatusError) else str(error)
            why = one_line(why or self.transport.error)
            raise ToolError(f"the agent {self._config.name!r} refused the message: {why}") from error

    async def _read_card(self) -> a2a.AgentCard:
        url, moved = self._config.url.rstrip("/"), ""
        for address in [url] if url.endswith(".json") else [f"{url}{each}" for each in _CARDS]:
            try:
                response = await self._http.get(address)
                if response.is_success:
                    return self._usable(parse_agent_card(response.json()))
            except (ValueError, ParseError, httpx2.StreamError) as error:
                raise ConnectionLost(f"what is at {address} is no agent card: {one_line(str(error), 200)}") from None
            if response.is_redirect and not moved:
                place = one_line(response.headers.get("location", ""), 200)
                moved = f": {address} redirects to {place!r}. If that is right, make it the `url`"
        raise ConnectionLost(f"it has no agent card that can be read{moved}")

    def _usable(self, card: a2a.AgentCard) -> a2a.AgentCard:
        """The card with only the interfaces that can be used. Raises `ConnectionLost` if there are none.

        Credentials are sent only to the host in the configuration. Without credentials another host may be called, but
        only over TLS, so that no card makes us call unprotected services in our network (SSRF).
        """
        offered = [*card.supported_interfaces]
        called = [
            each
            for each in offered
            if each.protocol_binding in BINDINGS and each.protocol_version.partition(".")[0] in _VERSIONS
        ]
        if not called:
            kinds = dict.fromkeys(f"{each.protocol_binding} {each.protocol_version}".rstrip() for each in offered)
            names = one_line(listed(kinds), 200) if offered else "no interface"
            raise ConnectionLost(f"its card offers {names}, and goalport calls {listed(BINDINGS)}, in 1.0 or 0.3")
        known = [each for each in called if _origin(each.url)]
        if not known:
            place = one_line(called[0].url, 200)
            raise ConnectionLost(f"its card says that it is called at {place!r}, which is no address over HTTP")
        config = self._config
        is_secret = bool(config.headers or config.caller_headers or config.oauth)
        here = _origin(config.url)
        own = [e for e in known if _origin(e.url) == here or (not is_secret and urlsplit(e.url).scheme == "https")]
        if not own:
            why = "its credentials are not for" if is_secret else "is elsewhere and not over https"
            raise ConnectionLost(
                f"its card says that it is called at {_origin(known[0].url)}, which {why}: if that is right, make it "
                "the `url`"
            )
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(sorted(own, key=lambda each: BINDINGS.index(each.protocol_binding)))
        return card


def _error_message(response: httpx2.Response) -> str:
    """The message of an error of HTTP+JSON, which the SDK reads only for a client of its own; empty: none."""
    with suppress(ValueError, TypeError, KeyError, httpx2.StreamError):
        return str(response.json()["error"]["message"])
    return f"a redirect (HTTP {response.status_code}) is not followed" if response.is_redirect else ""


def _origin(url: str) -> str:
    """The scheme, host and port of a URL; empty: no request can be sent there."""
    with suppress(httpx2.InvalidURL):
        parts = httpx2.URL(url)
        if parts.scheme in {"http", "https"} and parts.host and (parts.port or 0) < _PORTS:
            return f"{parts.scheme}://{urlsplit(url).netloc.rpartition('@')[2]}".lower()
    return ""


class _RemoteTask:
    """One call of an agent, and the task that the agent creates for it."""

    def __init__(self, server: str, client: Client, call: Call) -> None:
        self._server, self._client, self._call = server, client, call
        self._record = call.hooks.record
        self._id = self._record.remote_task_id if self._record is not None else ""
        self._key = self._record.key if self._record is not None else uuid4().hex
        self._reports, self._pause = 0, _PAUSE

    async def result(self, skill: str, arguments: Mapping[str, object]) -> "CallToolResult":
        """Send the message, unless it was sent before a restart of this program, and follow the task to its end."""
        if self._id:
            found = await self._poll()
        else:
            given = [each for each in (arguments.get("message"), arguments.get("data")) if each or each == {}]
            found = await self._send(self._key, map(_part, given), {"skill": skill} if skill else {})
        while not isinstance(found, a2a.Message):
            words = _text_of(found.status.message.parts)
            match found.status.state:
                case TaskState.TASK_STATE_COMPLETED:
                    parts = [part for each in found.artifacts for part in each.parts]
                    return _result(parts or found.status.message.parts)
                case TaskState.TASK_STATE_INPUT_REQUIRED:
                    found = await self._answer(found)
                case TaskState.TASK_STATE_AUTH_REQUIRED:
                    await self.cancel()
                    raise ToolError(f"the agent {self._server!r} wants a person to sign in there first. {words}")
                case TaskState.TASK_STATE_FAILED | TaskState.TASK_STATE_REJECTED | TaskState.TASK_STATE_CANCELED:
                    ended = TaskState.Name(found.status.state).removeprefix("TASK_STATE_").lower()
                    raise ToolError(f"the agent {self._server!r} {ended} the task. {words}".rstrip())
                case _:
                    await self._pause_longer()
                    try:
                        found = await self._follow(self._client.subscribe(a2a.SubscribeToTaskRequest(id=self._id)))
                    except (NotImplementedError, A2AError, httpx2.HTTPError):
                        # The agent has no streams, is away, or the task has just ended.
                        found = await self._poll()
        return _result(found.parts)

    async def cancel(self) -> None:
        """End the task, if it has begun."""
        if self._id:
            with anyio.move_on_after(_CANCEL_SECONDS, shield=True), suppress(A2AError, httpx2.HTTPError):
                await self._client.cancel_task(a2a.CancelTaskRequest(id=self._id))

    async def _send(
        self, key: str, parts: Iterable[a2a.Part], metadata: dict[str, Any], context: str = ""
    ) -> a2a.Task | a2a.Message:
        """Send a message; return the agent's answer, or its task once that has ended, has a question, or is silent."""
        message = a2a.Message(
            message_id=key, role=a2a.Role.ROLE_USER, task_id=self._id, context_id=context, parts=parts
        )
        message.metadata.update(metadata)
        return await self._follow(self._client.send_message(a2a.SendMessageRequest(message=message)))

    async def _pause_longer(self) -> None:
        await anyio.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    async def _follow(self, events: AsyncIterator[a2a.StreamResponse]) -> a2a.Task | a2a.Message:
        """The task, or a message, once a stream ends, the task needs a person or has ended, or the stream is silent."""
        event: Any = None
        state: Any = TaskState.TASK_STATE_WORKING
        async with aclosing(cast("AsyncGenerator[a2a.StreamResponse]", events)):
            try:
                while state in _GOING:
                    # Once the id of the task is known, a silent stream can be replaced by polling.
                    with anyio.move_on_after(self._call.seconds / 3 if self._id else None) as silence:
                        event = await anext(events, None)
                    if event is None or silence.cancelled_caught:
                        break
                    self._call.renew()
                    if event.HasField("message"):
                        return event.message
                    # A task, a change of its status, or an artifact, which shows that it is working.
                    about = getattr(event, event.WhichOneof("payload") or "task")
                    identity = about.id if hasattr(about, "id") else about.task_id
                    if identity and identity != self._id:
                        self._id = identity
                        if self._record is not None:
                            await self._record.note_remote_task(identity)
                    state = TaskState.TASK_STATE_WORKING
                    if hasattr(about, "status"):
                        state, words = about.status.state, _text_of(about.status.message.parts)
                        if (report := self._call.hooks.progress) is not None and words:
                            self._reports += 1
                            await report(self._reports, None, cleaned(words, _PROGRESS_CHARACTERS))
            except httpx2.TransportError:
                if not self._id:
                    raise
        return await self._poll()

    async def _poll(self) -> a2a.Task:
        """The current state of the task. An unreachable agent is asked again until the call times out."""
        if not self._id:
            raise ToolError(f"the agent {self._server!r} answered with nothing.")
        while True:
            try:
                found = await self._client.get_task(a2a.GetTaskRequest(id=self._id, history_length=0))
            except (httpx2.TransportError, httpx2.HTTPStatusError) as error:
                if isinstance(error, httpx2.HTTPStatusError) and not error.response.is_server_error:
                    raise
                await self._pause_longer()
            else:
                self._call.renew()
                return found

    async def _answer(self, task: a2a.Task) -> a2a.Task | a2a.Message:
        """Ask a person the task's question, and send the answer. Raises `ToolError` if there is no answer."""
        said, ask = task.status.message, self._call.hooks.ask
        asked = _question(said.parts)
        process = RemoteProcess(task.id, "", {"answer": None}, asked)
        own = str(asked.get("questionId", "")) or said.message_id or task.status.timestamp.ToJsonString()
        given: Any = None
        why = f"the agent {self._server!r} asks {process.message!r}, and there is nobody to ask."
        if ask is not None:
            try:
                with self._call.waiting():
                    given = await ask(cleaned(process.message, MOST_ASKED), process.form, own)
            except ToolError as error:
                why = f"the agent {self._server!r} asks {process.message!r}: {error}"
            else:
                why = f"a person was asked {process.message!r} for the agent {self._server!r}, and declined."
            self._call.renew()
        declined, answer = process.answered(given)
        metadata = {"questionId": own} if "questionId" in asked else {}
        if declined and not (metadata and ask is not None):
            await self.cancel()
            raise ToolError(why)
        if declined:
            metadata["declined"] = answer["answer"] = "A person declined."
        parts = [_part(answer["answer"], asked.get("call"))]
        try:
            return await self._send(f"{self._key}-{own}"[:200], parts, metadata, task.context_id)
        except (A2AError, httpx2.HTTPStatusError):
            # Somebody else may have answered, through another door.
            now = await self._poll()
            if now.status.state == task.status.state and now.status.message.message_id == said.message_id:
                raise
            return now


def _question(parts: Iterable[a2a.Part]) -> dict[str, Any]:
    """The question in a task's message: a text, the form of another goalport, or a tool call, as ADK asks."""
    asked: dict[str, Any] = {"message": _text_of(parts), "schema": {"type": "string"}}
    for data in map(_data, parts):
        match data:
            case {"schema": dict()}:
                return asked | cast("dict[str, Any]", data)
            case {"id": str(), "name": str(), "args": dict()}:
                call = cast("dict[str, Any]", data)
                given: dict[str, Any] = call["args"]
                message = asked["message"] or given.get("message") or f"{call['name']}: {to_json(given).decode()}"
                schema = given.get("response_schema") or asked["schema"]
                return asked | {"message": message, "schema": schema, "call": call}
            case _:
                pass
    return asked


def _part(value: object, call: Mapping[str, object] | None = None) -> a2a.Part:
    """A part with a text or data; with `call`, the function response that ADK expects for that tool call."""
    if call is None and isinstance(value, str):
        return a2a.Part(text=value)
    kind = Struct()
    if call is not None:
        value = {"id": call["id"], "name": call["name"], "response": {"result": value}}
        kind.update({"adk_type": "function_response"})
    return a2a.Part(data=ParseDict(cast("Any", value), Value()), media_type="application/json", metadata=kind)


def _text_of(parts: Iterable[a2a.Part]) -> str:
    return "\n".join(each.text for each in parts if each.text)


def _data(part: a2a.Part) -> object:
    """The data of a part; None: it has none."""
    return _with_integers(MessageToDict(part.data)) if part.HasField("data") else None


def _with_integers(value: object) -> object:
    """JSON data with whole numbers as integers again: the protocol sends all numbers as doubles."""
    match value:
        case float():
            return int(value) if value.is_integer() and abs(value) < _EXACT else value
        case dict():
            return {name: _with_integers(each) for name, each in cast("dict[str, object]", value).items()}
        case list():
            return [*map(_with_integers, cast("list[object]", value))]
        case _:
            return value


def _result(parts: Iterable[a2a.Part]) -> "CallToolResult":
    """The parts of an agent's answer as a tool result: texts and files as blocks, data as structured content."""
    from mcp_types import CallToolResult

    blocks: list[dict[str, Any]] = []
    data: list[object] = []
    for part in parts:
        media, name = part.media_type or "application/octet-stream", part.filename
        match part.WhichOneof("content"):
            case "text":
                blocks.append({"type": "text", "text": part.text})
            case "data":
                data.append(_data(part))
            case "raw" if media.startswith("image/"):
                blocks.append({"type": "image", "data": b64encode(part.raw), "mimeType": media})
            case "raw":
                file = {"uri": f"a2a:{name or 'file'}", "blob": b64encode(part.raw), "mimeType": media}
                blocks.append({"type": "resource", "resource": file})
            case _:
                blocks.append({"type": "resource_link", "uri": part.url, "name": name or part.url, "mimeType": media})
    structured = data[0] if len(data) == 1 else data
    if not isinstance(structured, dict):
        structured = {"result": structured}
    return CallToolResult.model_validate({"content": blocks, "structuredContent": structured if data else None})


class A2aAgent(ToolObject):
    """Another agent, by the address of its A2A card: `A2aAgent("https://editor.example", name="editor")`.

    An action calls it with `await editor.ask("…")`, and a model gets it as a tool by `with_tool_objects(editor)`. If
    the agent asks a question during a call, a person answers it, as with an upstream server. `skill` is the id of the
    skill to use. `headers`, such as credentials, are sent with each request. The agent may be silent `timeout` seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        description: str = "",
        skill: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> None:
        host = urlsplit(url).hostname
        if host is None:
            raise DeclarationError(
                "A2aAgent",
                expected="the address of an agent, as https://agent.example",
                came=f"it is {hide(url)!r}",
                fix="Give the address below which its card is.",
            )
        self.name = name or re.sub(r"[^A-Za-z0-9_-]+", "_", host)
        self._skill = skill
        self._card: a2a.AgentCard | None = None
        self._config = ServerConfig(self.name, "a2a", url=url, headers=dict(headers or {}), timeout=timeout)
        register_secrets(self, self._config.all_secrets())
        about = description or f"Ask the agent {self.name}. It may take a while, and ask something meanwhile."
        super().__init__(Tool(self.name, about, _INPUT, self._call, open_world=True, server=self.name))

    @overload
    async def ask(self, message: str = "", /, *, data: Mapping[str, object] | None = None) -> str: ...
    @overload
    async def ask(self, message: str, kind: type[T], /, *, data: Mapping[str, object] | None = None) -> T: ...
    async def ask(self, message: str = "", kind: Any = str, /, *, data: Mapping[str, object] | None = None) -> Any:
        """Send the agent a message, and return its result, validated as `kind` if that is passed.

        In an action the result is recorded, and an interrupted call joins the task that it had started. Raises
        `ToolError` if there is no result, or one of another type.
        """
        (tool,) = self.tools()
        result = await tool.call({"message": message} | ({} if data is None else {"data": dict(data)}))
        if result.is_error:
            raise ToolError(result.text)
        if kind is str:
            return result.text
        given: object = result.text if result.structured is None else result.structured
        try:
            return TypeAdapter[Any](kind).validate_python(given)
        except ValidationError as error:
            problems = "; ".join(shortened(validation_problems(error, given), 3))
            raise ToolError(f"The agent {self.name!r} gave no {type_name(kind)}: {problems}") from None

    async def _call(self, arguments: Mapping[str, object]) -> ToolResult:
        # The card of a successful call is reused by the next call.
        known, self._card = self._card, None
        async with AsyncExitStack() as stack:

            async def connected() -> Connection:
                nonlocal known
                transport = HttpTransport(self._config)
                connection = AgentConnection(self._config, transport, None, lambda: None)
                connection.card = known
                try:
                    with anyio.fail_after(self._config.connect_timeout):
                        await stack.enter_async_context(connection.opened())
                except (ConnectionLost, OSError, httpx2.HTTPError) as error:
                    raise ToolError(failure_reason(self._config, error, connection.last_error)) from error
                known = connection.card
                return connection

            result = await ToolClient(self._config, connected).call(ToolRequest(self._skill, arguments, self.name))
            self._card = known
            return result
