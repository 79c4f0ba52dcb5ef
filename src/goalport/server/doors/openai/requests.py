"""What requests of OpenAI's API may say: what is honoured, what has no effect here, and what is refused by its name.

A chatbot decides by itself which models it asks and how, so hints to a model are taken and have no effect. What would
change what a reply is, such as its format or the number of replies, is refused and not ignored. Above: `completions`
and `responses`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from goalport.models.llm import Message, SystemMessage
from goalport.server.doors.openai.errors import unsupported
from goalport.server.doors.openai.messages import GivenMessage, conversation_of
from goalport.server.web.endpoint import read

R = TypeVar("R", bound="_Request")
Allowed = Callable[[Any], bool]


class _StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    model: str
    stream: bool = False
    stream_options: _StreamOptions = _StreamOptions()


class ChatRequest(_Request):
    """The body of a request to `/v1/chat/completions`."""

    messages: list[GivenMessage] = Field(min_length=1)

    @property
    def said(self) -> Sequence[Message]:
        """What was said, as models are shown it. Raises `BadInput` if that does not end with something of the user."""
        return conversation_of(self.messages, "messages")


class _Item(GivenMessage):
    """A message among the input of a response."""

    type: Literal["message"] = "message"


class _ConversationOf(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str


class ResponseRequest(_Request):
    """The body of a request to `/v1/responses`."""

    input: str | list[_Item]
    instructions: str = ""
    previous_response_id: str = ""
    conversation: str | _ConversationOf = ""
    store: bool = True

    @property
    def messages(self) -> Sequence[GivenMessage]:
        """The messages of the input."""
        return [_Item(role="user", content=self.input)] if isinstance(self.input, str) else self.input

    @property
    def said(self) -> Sequence[Message]:
        """The instructions, and what was said, as in `ChatRequest`."""
        told = [SystemMessage(self.instructions)] if self.instructions else []
        return [*told, *conversation_of(self.messages, "input", *([""] if isinstance(self.input, str) else []))]

    @property
    def conversation_id(self) -> str:
        """The id of the conversation that it goes on with; empty if it names none."""
        return self.conversation if isinstance(self.conversation, str) else self.conversation.id

    @property
    def goes_on(self) -> bool:
        """Whether the input follows what is stored, so that it need not hold the history."""
        return bool(self.previous_response_id or self.conversation_id)

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if self.previous_response_id and self.conversation_id:
            raise PydanticCustomError("twice", "name either the conversation or the previous_response_id")
        if self.goes_on and not self.store:
            raise PydanticCustomError("not_stored", "store may be false only for what begins a conversation")
        return self


_OF_THE_MODEL: Final = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "top_a", "typical_p"}
    | {"seed", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty"}
    | {"repeat_penalty", "max_tokens", "max_completion_tokens", "max_output_tokens", "reasoning"}
    | {"reasoning_effort", "verbosity", "service_tier", "safety_identifier", "user"}
    | {"metadata", "prediction", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"}
    | {"parallel_tool_calls", "max_tool_calls", "truncation", "context_management"}
)
"""What has no effect: hints to a model, those of other servers with the same API among them, and remarks."""
_OF_CHATS: Final = _OF_THE_MODEL | {"store"}
"""Chat completions have a `store` too, which is about OpenAI's dashboard."""
_FORMAT: Final = "only text can be answered: leave it out, or ask for {'type': 'text'}"
_NO_CALLS: Final = (
    "a chatbot calls its own tools and none of the client's: leave it out, or let it be 'auto', by which none has to be"
    " called"
)


def _is_text(value: Any) -> bool:
    return isinstance(value, Mapping) and cast("Mapping[str, Any]", value).get("type") == "text"


def _is_free(value: Any) -> bool:
    return value in ("auto", "none")


def _is_one(value: Any) -> bool:
    return value == 1


def _is_off(value: Any) -> bool:
    return value is False


def _is_empty(value: Any) -> bool:
    return value in ([], {}, 0)


def _is_any(_: Any) -> bool:
    return True


_REFUSED: Final[Mapping[str, tuple[Allowed, str]]] = {
    "n": (_is_one, "there is one reply to a message: leave it out, or let it be 1"),
    "response_format": (_is_text, _FORMAT),
    # Clients such as Open WebUI offer their tools in every request; a reply need not call any.
    "tools": (_is_any, ""),
    "tool_choice": (_is_free, _NO_CALLS),
    "functions": (_is_empty, _NO_CALLS),
    "function_call": (_is_free, _NO_CALLS),
    "logprobs": (_is_off, "the probabilities of tokens are not known: leave it out"),
    "top_logprobs": (_is_empty, "the probabilities of tokens are not known: leave it out"),
    "logit_bias": (_is_empty, "the tokens of a reply cannot be weighted: leave it out"),
    "modalities": (lambda value: value == ["text"], "a reply is text: leave it out, or let it be ['text']"),
    "audio": (_is_empty, "a reply is text: leave it out"),
    "web_search_options": (_is_empty, "a chatbot searches with its own tools: leave it out"),
    "moderation": (_is_empty, "nothing is moderated here: leave it out"),
    "background": (_is_off, "a response is made while its client waits: leave it out"),
    "include": (_is_empty, "a response holds its text and nothing besides: leave it out"),
    "prompt": (_is_empty, "there are no stored prompts: send the input"),
    "text": (
        lambda value: isinstance(value, Mapping) and _is_text(cast("Any", value).get("format", {"type": "text"})),
        "only text can be answered: leave it out, or let its format be {'type': 'text'}",
    ),
}
"""What is refused unless it is asked for in a way that makes no difference, and why."""


def read_request(kind: type[R], body: Mapping[str, Any]) -> R:
    """A request. Raises `Problem` for a parameter that is wrong, unknown, or would not be honoured, by its name."""
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        allowed, reason = _REFUSED.get(name, (_is_any, ""))
        if name not in kind.model_fields and not allowed(value):
            raise unsupported(name, reason)
    return read(kind, {name: value for name, value in given.items() if name not in _without_effect(kind)})


def _without_effect(kind: type[_Request]) -> Collection[str]:
    own = kind.model_fields.keys()
    return {*_OF_CHATS, *_REFUSED} - own
