"""A Jinja sandbox that also limits the size of what a single operator, filter or method makes.

Jinja's own sandbox keeps templates from the program's objects, but a width of a thousand million would still fill the
memory. Above: `templates`, and the expressions of `domain`.
"""

import re
from collections.abc import Callable, Mapping, Sized
from functools import wraps
from typing import Any, Final, TypeVar, cast

from jinja2.compiler import CodeGenerator, Frame
from jinja2.nodes import Concat
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

T = TypeVar("T")
_MAX_SIZE: Final = 1_000_000
"""The number of characters or items that one operator, filter or method may make."""
_PERCENT = re.compile(r"%[^%a-zA-Z]*(?:\d{7}|\*)")
_BRACES = re.compile(r"\{[^{}]*:[^{}]*(?:\d{7}|\{)")
"""Formats whose width is more than a million, or is taken from a value."""


def _width(_: object, *given: object) -> int:
    return max((each for each in given if isinstance(each, int)), default=0)


def _percent(text: object, *_: object) -> int:
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    return _MAX_SIZE + 1 if isinstance(text, str) and _PERCENT.search(text) else 0


def _braces(text: object, *_: object) -> int:
    return _MAX_SIZE + 1 if isinstance(text, str) and _BRACES.search(text) else 0


def _replaced(text: object, old: object = "", new: object = "", *_: object) -> int:
    return (str(text).count(str(old)) if str(old) else len(str(text)) + 1) * len(str(new))


def _joined(first: object, second: object = "", *_: object) -> int:
    """The size for the filter, which takes the parts first, and for the method, which takes the separator first."""
    parts, between = (second, first) if isinstance(first, str | bytes) else (first, second)
    return len(parts) * len(between) if isinstance(between, str | bytes) and isinstance(parts, Sized) else 0


_FILTERS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("batch", "center", "indent", "round", "slice", "tojson", "wordwrap"), _width),
    "format": _percent,
    "join": _joined,
    "replace": _replaced,
}
_METHODS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "expandtabs", "ljust", "rjust", "zfill"), _width),
    "join": _joined,
    "replace": _replaced,
}
"""The least size of what filters, and methods of strings, make of their arguments."""


class _Generator(CodeGenerator):
    """Compiles `~` to a call of the sandbox, which concatenates the texts."""

    def visit_Concat(self, node: Concat, frame: Frame) -> None:  # noqa: N802 - the name that Jinja looks for
        self.write("environment.concatenate((")
        for each in node.nodes:
            self.visit(each, frame)
            self.write(", ")
        self.write("))")


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """A sandbox whose filters, methods and operators raise `ValueError` rather than make something too large."""

    code_generator_class = _Generator

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        filters = cast("dict[str, Callable[..., object]]", self.filters)
        filters.update({name: _bounded(name, filters[name], size) for name, size in _FILTERS.items()})

    def call(self, context: Context, called: Any, /, *args: Any, **named: Any) -> Any:
        """Call a function, unless it is a string method whose result would be too large."""
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        if isinstance(owner, str | bytes) and name in _METHODS:
            check(name, _METHODS[name](owner, *args, *named.values()))
        return super().call(context, called, *args, **named)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The `format` method of a string, which is refused when its result would be too wide."""
        found = super().wrap_str_format(value)
        return found and _bounded("format", found, lambda *_: _braces(value.__self__))

    @staticmethod
    def concatenate(parts: tuple[object, ...]) -> str:
        """The result of `~`."""
        texts = [str(each) for each in parts]
        check("~", sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator, unless it formats a string that would be too wide."""
        if operator == "%":
            check(operator, _percent(left))
        return super().call_binop(context, operator, left, right)


def check(what: str, size: int) -> None:
    """Raise `ValueError` when a result would be too large; `what` names what would make it."""
    if size > _MAX_SIZE:
        raise ValueError(f"the result of {what} would be too large")


def _bounded(name: str, filter_: Callable[..., T], size: Callable[..., int]) -> Callable[..., T]:
    takes_more = hasattr(filter_, "jinja_pass_arg")

    @wraps(filter_)
    def bounded(*args: Any, **named: Any) -> T:
        check(name, size(*args[1 if takes_more else 0 :], *named.values()))
        return filter_(*args, **named)

    return bounded
