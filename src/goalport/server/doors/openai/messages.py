"""The messages of a request, as OpenAI's API has them, read as messages of a conversation.

Images come as data URLs: the server fetches no address that a client names. Above: `requests`.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from goalport.base.errors import BadInput
from goalport.models.llm import AssistantMessage, Image, Message, SystemMessage, ToolCall, ToolReply, UserMessage

_DATA_URL: Final = re.compile(r"data:(?P<type>image/[a-z0-9.+-]+);base64,(?P<data>[A-Za-z0-9+/=\s]+)", re.IGNORECASE)
_INSTRUCTING: Final = frozenset({"system", "developer"})


class TextPart(BaseModel):
    """A text among the parts of a message."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["text", "input_text", "output_text", "refusal"]
    text: str = Field(validation_alias=AliasChoices("text", "refusal"))


class ImagePart(BaseModel):
    """An image among the parts of a message."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["image_url", "input_image"]
    image_url: str

    @field_validator("image_url", mode="before")
    @classmethod
    def _address(cls, value: object) -> object:
        """Chat completions have the address in an object, responses have it as a text."""
        return value.get("url") if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    @field_validator("image_url")
    @classmethod
    def _data(cls, value: str) -> str:
        _image(value)
        return value

    @property
    def image(self) -> Image:
        """The image."""
        return _image(self.image_url)


class _Function(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: str = "{}"


class _Call(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    function: _Function

    def read(self) -> ToolCall:
        return ToolCall(self.id, self.function.name, self.function.arguments)


def _kind_of_part(value: Any) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", "")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return "image" if kind in {"image_url", "input_image"} else "text"


_Part = Annotated[
    Annotated[TextPart, Tag("text")] | Annotated[ImagePart, Tag("image")],
    Discriminator(_kind_of_part),
]


class GivenMessage(BaseModel):
    """A message of a request. Further fields that clients add, such as what a model thought, are left out."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    name: str = ""
    """The name of the speaker."""
    tool_calls: list[_Call] = Field(default_factory=list[_Call])
    tool_call_id: str = ""

    @field_validator("tool_calls", "name", "tool_call_id", mode="before")
    @classmethod
    def _none_is_nothing(cls, value: object, info: Any) -> object:
        return ([] if info.field_name == "tool_calls" else "") if value is None else value

    @model_validator(mode="after")
    def _complete(self) -> "GivenMessage":
        if self.role == "tool" and not self.tool_call_id:
            raise PydanticCustomError("no_call", "should have the tool_call_id of the call that it answers")
        if self.content is None and not self.tool_calls:
            raise PydanticCustomError("no_content", "should have content")
        if self.role != "user" and any(isinstance(each, ImagePart) for each in self._parts):
            raise PydanticCustomError("image", "may hold texts only: images come from the user")
        return self

    @property
    def _parts(self) -> Sequence[TextPart | ImagePart]:
        return self.content if isinstance(self.content, list) else ()

    @property
    def text(self) -> str:
        """Its texts as one."""
        if isinstance(self.content, str):
            return self.content
        return "\n\n".join(each.text for each in self._parts if isinstance(each, TextPart))

    @property
    def images(self) -> tuple[Image, ...]:
        """The images that it shows."""
        return tuple(each.image for each in self._parts if isinstance(each, ImagePart))


def conversation_of(given: Sequence[GivenMessage], field: str, at: str = "[{}].content") -> Sequence[Message]:
    """The messages as models are shown them; instructions that follow the last message of the user stand before it.

    `field` is the parameter that holds them, and `at` is the place of a content in it. Raises `BadInput` if something
    else follows the last message of the user, or there is none, or it is empty.
    """
    said = [each.role for each in given if each.role not in _INSTRUCTING]
    if not said or said[-1] != "user":
        came = f"is from {said[-1]}" if said else "is missing"
        told = f"{field}: the last one should be from user, since it is answered, but it {came}"
        raise BadInput(f"{told}. Add what the user says at the end.", [told])
    read = list(_read(given))
    last, message = max((number, each) for number, each in enumerate(read) if isinstance(each, UserMessage))
    if message.is_empty:
        told = f"{field}{at.format(last)}: should have a text or an image, but is empty"
        raise BadInput(f"{told}. Send what the user says.", [told])
    return [*read[:last], *read[last + 1 :], read[last]]


def _read(given: Sequence[GivenMessage]) -> Iterator[Message]:
    called: dict[str, str] = {}
    for each in given:
        match each.role:
            case "system" | "developer":
                yield SystemMessage(each.text)
            case "user":
                yield UserMessage(each.text, each.images)
            case "assistant":
                called.update((call.id, call.function.name) for call in each.tool_calls)
                calls = tuple(
                    ToolCall(call.id, call.function.name, call.function.arguments) for call in each.tool_calls
                )
                yield AssistantMessage(each.text, calls)
            case "tool":
                yield ToolReply(each.tool_call_id, called.get(each.tool_call_id, ""), each.text)


def _image(address: str) -> Image:
    found = _DATA_URL.fullmatch(address)
    if found is None:
        told = "should be an image as a data URL (data:image/png;base64,…): no address is fetched"
        raise PydanticCustomError("image_url", told)
    try:
        return Image(found["type"].lower(), base64.b64decode("".join(found["data"].split()), validate=True))
    except (binascii.Error, BadInput):
        raise PydanticCustomError("image_data", "should be an image in base64") from None
