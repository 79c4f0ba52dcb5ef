"""The requests of OpenAI's API: their parameters, their models, their callers, and how they are refused.

Each chatbot is a model, and each published goal that can be started from a sentence; a caller sees the ones that it may
use. A chatbot decides by itself how it calls language models, so parameters such as `temperature` are accepted without
effect. A parameter that would change the kind of reply, such as its format or the number of replies, is refused by its
name. Images have to be data URLs: the server fetches nothing for a client. Above: replies, conversations, the handlers.
"""

import base64
import binascii
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, cast
from urllib.parse import unquote

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport.base.caller import EVERY_SCOPE, Caller
from goalport.base.errors import BadInput
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, offer
from goalport.models.llm import AssistantMessage, Image, Message, SystemMessage, ToolCall, ToolReply, UserMessage
from goalport.runtime.chat import AgentProcessChatbot
from goalport.runtime.process import AgentProcess
from goalport.server.auth import Grant, current_caller
from goalport.server.auth.access import granted
from goalport.server.auth.verifiers import caller_of
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.publication import Scopes
from goalport.server.web.endpoint import HttpDoor, Problem, read
from goalport.workspace.settings import AuthSettings

_KINDS: Final = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}
_RETRY: Final = "x-should-retry"
"""The header that tells OpenAI's clients whether to retry a request; without it they decide by the status."""


def refusal(problem: Problem) -> JSONResponse:
    """Refuse a request. Clients may retry it only if it has begun nothing: after a bug, a message may be stored."""
    # OpenAI's API answers all invalid requests with status 400.
    invalid = problem.status is HTTPStatus.UNPROCESSABLE_ENTITY
    status = HTTPStatus.BAD_REQUEST if invalid else problem.status
    errors: Sequence[Mapping[str, str]] = problem.members.get("errors", ())
    param = errors[0]["field"] if errors else ""
    body = error_body(status, problem.kind.replace("-", "_"), problem.detail, param or None)
    headers = dict(problem.headers or {})
    headers[_RETRY] = "true" if "Retry-After" in headers else "false"
    return JSONResponse({"error": body}, status, headers)


def error_body(status: HTTPStatus, code: str, message: str, param: str | None = None) -> dict[str, Any]:
    """The value of `error` in a response; `code` is for programs."""
    usual = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    kind = _KINDS.get(status, usual)
    return {"message": cleaned(hide_known(message)), "type": kind, "param": param, "code": code}


def unsupported(name: str, reason: str) -> Problem:
    """The refusal of a parameter that is not supported."""
    errors = [{"field": name, "detail": reason}]
    return Problem(HTTPStatus.BAD_REQUEST, "unsupported-parameter", f"{name}: {reason}", errors=errors)


CONVERSATION: Final = "x-conversation-id"
"""The header that names the conversation, in a request and in its response."""
_CHAT: Final = "x-openwebui-chat-id"
_USER: Final = "x-openwebui-user-id"
_ABOUT: Final[Mapping[str, str]] = {
    "name": "x-openwebui-user-name",
    "email": "x-openwebui-user-email",
    "role": "x-openwebui-user-role",
}
"""The headers with more about a user, by the names of the claims."""


def for_user(request: Request, settings: AuthSettings) -> AbstractContextManager[None]:
    """A context in which the caller is the user whom the headers of a request name, if its key may act for others.

    The user has the scopes of the key, without the scopes to act for others and to administrate, and without scopes
    that imply these. The issuer is the key: the same user with two keys is two callers.
    """
    key, user = current_caller(), request.headers.get(_USER, "")
    if not user or not key.has(settings.scope("on-behalf-of")):
        return nullcontext()
    withheld = {settings.scope("on-behalf-of"), settings.scope("admin"), EVERY_SCOPE}
    scopes = {each for each in key.scopes if withheld.isdisjoint(settings.expanded([each]))}
    about = {name: unquote(request.headers[header]) for name, header in _ABOUT.items() if header in request.headers}
    caller = caller_of(settings, user, f"{key.issuer}:{key.id}", scopes, about)
    return granted(request.scope, Grant(caller, key.id), "")


def named_conversation(request: Request, settings: AuthSettings, key: Caller) -> str:
    """The id of the conversation that the headers of a request name; empty if they name none."""
    chat = request.headers.get(_CHAT, "") if key.has(settings.scope("on-behalf-of")) else ""
    return chat or request.headers.get(CONVERSATION, "")


_BEGINNING: Final = "resp_"
_BETWEEN: Final = "."


@dataclass(frozen=True, slots=True)
class ResponseId:
    """The id of a response: its conversation, and the message that it answers."""

    conversation: str
    """The id of the conversation; for a goal, the id of the process."""
    message_id: str = ""
    """The id of the message; for a goal, the number of questions that were settled before."""

    def __str__(self) -> str:
        return f"{_BEGINNING}{self.conversation}{_BETWEEN}{self.message_id}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse the id of a response; None if the text is none."""
        conversation, between, message_id = text.removeprefix(_BEGINNING).rpartition(_BETWEEN)
        return cls(conversation, message_id) if text.startswith(_BEGINNING) and between else None

    @classmethod
    def of_process(cls, process: AgentProcess) -> Self:
        """The id of the current response of a process; it changes with each question that is settled."""
        return cls(process.id, str(sum(each.status != "open" for each in process.questions)))


_DATA_URL: Final = re.compile(r"data:(?P<type>image/[a-z0-9.+-]+);base64,(?P<data>[A-Za-z0-9+/=\s]+)", re.IGNORECASE)
_INSTRUCTING: Final = frozenset({"system", "developer"})


def _image(value: object) -> Image:
    """The image of a data URL; chat completions have it in an object, responses have it as a text."""
    address = cast("Mapping[str, object]", value).get("url") if isinstance(value, Mapping) else value
    found = _DATA_URL.fullmatch(address) if isinstance(address, str) else None
    if found is None:
        reason = "should be an image as a data URL (data:image/png;base64,…): no address is fetched"
        raise PydanticCustomError("image_url", reason)
    try:
        return Image(found["type"].lower(), base64.b64decode("".join(found["data"].split()), validate=True))
    except (binascii.Error, BadInput):
        raise PydanticCustomError("image_data", "should be an image in base64") from None


class _Lenient(BaseModel, extra="ignore", defer_build=True):
    """A part of a request in which unknown fields, which clients add, are ignored."""


class _Part(_Lenient):
    """A text or an image among the parts of a message."""

    type: Literal["text", "input_text", "output_text", "refusal", "image_url", "input_image"]
    text: str | None = Field(None, validation_alias=AliasChoices("text", "refusal"))
    image_url: Annotated[Image, PlainValidator(_image)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        field = "image_url" if self.type in {"image_url", "input_image"} else "text"
        if getattr(self, field) is None:
            raise PydanticCustomError("no_content", f"should have the {field} that its type says")
        return self


class _Function(_Lenient):
    name: str
    arguments: str = "{}"


class _Call(_Lenient):
    id: str
    function: _Function


class GivenMessage(_Lenient):
    """A message of a request."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    name: str | None = None
    """The name of the speaker."""
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """Its texts as one."""
        parts = self.content or ()
        return parts if isinstance(parts, str) else "\n\n".join(each.text for each in parts if each.text is not None)

    @property
    def images(self) -> tuple[Image, ...]:
        """The images that it shows."""
        parts = () if self.content is None or isinstance(self.content, str) else self.content
        return tuple(each.image_url for each in parts if each.image_url is not None)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.role == "tool" and not self.tool_call_id:
            raise PydanticCustomError("no_call", "should have the tool_call_id of the call that it answers")
        if self.content is None and not self.tool_calls:
            raise PydanticCustomError("no_content", "should have content")
        if self.role != "user" and self.images:
            raise PydanticCustomError("image", "may hold texts only: images come from the user")
        return self


def _conversation_of(given: Sequence[GivenMessage], field: str, at: str = "[{}].content") -> list[Message]:
    """The messages as models are shown them: the user's last message is last, after all instructions.

    For errors, `field` names the parameter, and `at` formats the place of a message in it. Raises `BadInput` if the
    user has no message, if the last one is empty, or if something other than instructions follows it.
    """
    roles = [each.role for each in given if each.role not in _INSTRUCTING]
    if not roles or roles[-1] != "user":
        came = f"is from {roles[-1]}" if roles else "is missing"
        problem = f"{field}: the last one should be from user, since it is answered, but it {came}"
        raise BadInput(f"{problem}. Add what the user says at the end.", [problem])
    read: list[Message] = []
    called: dict[str, str] = {}
    for each in given:
        match each.role:
            case "system" | "developer":
                read.append(SystemMessage(each.text))
            case "user":
                read.append(UserMessage(each.text, each.images))
            case "assistant":
                calls = [ToolCall(one.id, one.function.name, one.function.arguments) for one in each.tool_calls or ()]
                called.update((call.id, call.name) for call in calls)
                read.append(AssistantMessage(each.text, tuple(calls)))
            case "tool":
                call_id = each.tool_call_id or ""
                read.append(ToolReply(call_id, called.get(call_id, ""), each.text))
    last, message = max((number, each) for number, each in enumerate(read) if isinstance(each, UserMessage))
    if message.is_empty:
        problem = f"{field}{at.format(last)}: should have a text or an image, but is empty"
        raise BadInput(f"{problem}. Send what the user says.", [problem])
    return [*read[:last], *read[last + 1 :], read[last]]


R = TypeVar("R", bound="_Request")


class _StreamOptions(_Lenient):
    include_usage: bool = False


class _Request(BaseModel, extra="forbid", strict=True, defer_build=True):
    model: str
    stream: bool = False
    stream_options: _StreamOptions = _StreamOptions()


class ChatRequest(_Request):
    """The body of a request to `/v1/chat/completions`. It begins a conversation, or holds the history of one."""

    messages: list[GivenMessage] = Field(min_length=1)
    conversation: ClassVar[str] = ""
    previous_response_id: ClassVar[str] = ""
    store: ClassVar[bool] = True
    continues_stored: ClassVar[bool] = False

    @property
    def llm_messages(self) -> Sequence[Message]:
        """The messages, as models are shown them. Raises `BadInput` if the last one is not from the user."""
        return _conversation_of(self.messages, "messages")


class _Item(GivenMessage):
    """A message among the input of a response."""

    type: Literal["message"] = "message"


def _id_of(value: object) -> object:
    return cast("Mapping[str, object]", value).get("id") if isinstance(value, Mapping) else value


class ResponseRequest(_Request):
    """The body of a request to `/v1/responses`."""

    input: str | list[_Item]
    instructions: str = ""
    previous_response_id: str = ""
    conversation: Annotated[str, BeforeValidator(_id_of)] = ""
    """The id of the conversation that the request continues; empty if it names none."""
    store: bool = True

    @property
    def messages(self) -> Sequence[GivenMessage]:
        """The messages of the input."""
        return [_Item(role="user", content=self.input)] if isinstance(self.input, str) else self.input

    @property
    def llm_messages(self) -> Sequence[Message]:
        """The instructions and the messages, as in `ChatRequest`."""
        instructions = [SystemMessage(self.instructions)] if self.instructions else []
        at = [""] if isinstance(self.input, str) else []
        return [*instructions, *_conversation_of(self.messages, "input", *at)]

    @property
    def continues_stored(self) -> bool:
        """Whether the input continues a stored conversation, so that it need not have the history."""
        return bool(self.previous_response_id or self.conversation)

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if self.previous_response_id and self.conversation:
            raise PydanticCustomError("twice", "name either the conversation or the previous_response_id")
        if self.continues_stored and not self.store:
            raise PydanticCustomError("not_stored", "store may be false only for what begins a conversation")
        return self


_WITHOUT_EFFECT: Final = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "top_a", "typical_p"}
    | {"seed", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty"}
    | {"repeat_penalty", "max_tokens", "max_completion_tokens", "max_output_tokens", "reasoning"}
    | {"reasoning_effort", "verbosity", "service_tier", "safety_identifier", "user"}
    | {"metadata", "prediction", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"}
    | {"parallel_tool_calls", "max_tool_calls", "truncation", "context_management"}
    # Clients such as Open WebUI offer their tools in every request; a reply need not call any. Chat completions have a
    # `store` too, which is about OpenAI's dashboard.
    | {"tools", "store"}
)
"""Parameters without effect: hints to models, also those of other servers with the same API, and metadata."""
_TEXT: Final = {"type": "text"}
_NOTHING: Final[Sequence[object]] = ([], {}, 0)
_NO_CALLS: Final = (
    "a chatbot calls its own tools and none of the client's: leave it out, or let it be 'auto', by which none has to be"
    " called"
)
_NOT_KNOWN: Final = "the probabilities of tokens are not known: leave it out"
_REFUSED: Final[Mapping[str, tuple[Sequence[object], str]]] = {
    "n": ([1], "there is one reply to a message: leave it out, or let it be 1"),
    "response_format": ([_TEXT], "only text can be answered: leave it out, or ask for {'type': 'text'}"),
    "tool_choice": (["auto", "none"], _NO_CALLS),
    "functions": (_NOTHING, _NO_CALLS),
    "function_call": (["auto", "none"], _NO_CALLS),
    "logprobs": ([False], _NOT_KNOWN),
    "top_logprobs": (_NOTHING, _NOT_KNOWN),
    "logit_bias": (_NOTHING, "the tokens of a reply cannot be weighted: leave it out"),
    "modalities": ([["text"]], "a reply is text: leave it out, or let it be ['text']"),
    "audio": (_NOTHING, "a reply is text: leave it out"),
    "web_search_options": (_NOTHING, "a chatbot searches with its own tools: leave it out"),
    "moderation": (_NOTHING, "nothing is moderated here: leave it out"),
    "background": ([False], "a response is made while its client waits: leave it out"),
    "include": (_NOTHING, "a response holds its text and nothing besides: leave it out"),
    "prompt": (_NOTHING, "there are no stored prompts: send the input"),
    "text": ([_TEXT], "only text can be answered: leave it out, or let its format be {'type': 'text'}"),
}
"""Parameters that are refused, each with the values that are allowed, since they change nothing, and the reason."""


def read_request(kind: type[R], body: Mapping[str, Any]) -> R:
    """Parse a request. Raises `Problem`, with the name of a parameter that is wrong, unknown or not supported."""
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        if name in _REFUSED and name not in kind.model_fields:
            allowed, reason = _REFUSED[name]
            wanted: object = value.get("format", _TEXT) if name == "text" and isinstance(value, dict) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if wanted not in allowed:
                raise unsupported(name, reason)
    without_effect = {*_WITHOUT_EFFECT, *_REFUSED} - kind.model_fields.keys()
    return read(kind, {name: value for name, value in given.items() if name not in without_effect})


@dataclass(frozen=True, slots=True)
class ChatbotModel:
    """A chatbot as a model."""

    name: str
    description: str
    scopes: Scopes
    chatbot: AgentProcessChatbot


@dataclass(frozen=True, slots=True)
class GoalModel:
    """A goal as a model: the last message of the user is its input."""

    name: str
    description: str
    scopes: Scopes
    tool: GoalTool
    field: str
    """The argument that takes the text of the message."""

    def runs(self, process: AgentProcess) -> bool:
        """Whether a process works towards this goal."""
        return process.agent.name == self.tool.agent.name and {*process.goals} <= {*self.tool.goals}


Model = ChatbotModel | GoalModel


class Models:
    """The models of a server, and the handlers of requests about them."""

    def __init__(self, door: HttpDoor) -> None:
        self._door, self._platform = door, door.publisher.platform
        self._created = int(time.time())

    async def list(self, _: Request) -> Response:
        """All models that the caller may use."""
        return JSONResponse({"object": "list", "data": [self._shown(each) for each in self.usable()]})

    async def show(self, request: Request) -> Response:
        """One model."""
        return JSONResponse(self._shown(self.named(request.path_params["id"])))

    def _shown(self, model: Model) -> Mapping[str, Any]:
        about = {"created": self._created, "owned_by": "goalport", "description": model.description}
        return {"id": model.name, "object": "model", **about}

    def named(self, name: str) -> Model:
        """The model of a name. Raises `Problem`: 404 if there is none, 403 if the caller lacks scopes for it."""
        found = next((each for each in self._all() if each.name == name), None)
        if found is None:
            hint = offer(name[:100], sorted(each.name for each in self.usable()), none="There is none.")
            detail, param = f"Unknown model {name[:100]!r}. {hint}", {"field": "model", "detail": "is not known"}
            raise Problem(HTTPStatus.NOT_FOUND, "model-not-found", detail, errors=[param])
        self._door.require(found.scopes)
        return found

    def usable(self) -> Iterator[Model]:
        """The models that the caller may use."""
        return (each for each in self._all() if not self._door.access.lacks(each.scopes))

    def _all(self) -> Iterator[Model]:
        """All models; a goal with the same name as a chatbot is left out."""
        publication, chatbots = self._door.publisher.publication, self._platform.chatbots
        for each in chatbots.values():
            yield ChatbotModel(each.name, each.description, self._door.access.of_chatbot(each.mark), each)
        for name, tool in publication.tools.items():
            if isinstance(tool, GoalTool) and name not in chatbots and (field := tool.text_field) is not None:
                yield GoalModel(name, tool.tool.description or "", publication.scopes.tools[name], tool, field)
