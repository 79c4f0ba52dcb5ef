"""How large values are thought to be: whatever holds a large text, it counts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr

from goalport.runtime.process.sizes import estimated_size

SIZE = 400_000


@dataclass
class Report:
    text: str


class Text(str):  # noqa: SLOT000 - it is to have a `__dict__`
    """A text with a `__dict__`."""

    source = ""


class Texts(list[str]):
    """A list with a `__dict__`."""


class Titled(dict[str, str]):
    """A dictionary with a field."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    title: str = ""


class Private(BaseModel):
    title: str = ""
    _text: str = PrivateAttr("")

    def keep(self, text: str) -> "Private":
        self._text = text
        return self


class Proxy:
    """Has every attribute."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __getattr__(self, name: str) -> Any:
        return self


def titled(text: str) -> Titled:
    made = Titled("a title")
    made["text"] = text
    return made


HOLDERS: list[Callable[[str], object]] = [
    Report,
    Text,
    lambda text: Texts([text]),
    titled,
    lambda text: Open.model_validate({"text": text}),
    lambda text: Private().keep(text),
    Proxy,
    lambda text: [Report(text)],
]


@pytest.mark.parametrize("make", HOLDERS)
def test_a_large_text_counts_whatever_holds_it(make: Callable[[str], object]) -> None:
    assert SIZE <= estimated_size(make("x" * SIZE)) <= SIZE + 5_000
