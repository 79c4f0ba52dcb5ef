"""Prompts in files: Jinja templates, found by name in folders and rendered in a sandbox. User guide, section 3.11.

A template sees only the variables that it is given. What it includes, extends or imports must be in the same folders,
also after symbolic links are followed. Nothing is escaped, because a prompt is not HTML.
"""

import re
import traceback
from collections.abc import Callable, Mapping, Sized
from functools import partial, wraps
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateError as JinjaError, TemplateNotFound
from jinja2.compiler import CodeGenerator, Frame
from jinja2.nodes import Concat
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from goalport.base.errors import TemplateError, UnknownName

T = TypeVar("T")
_MAX_SIZE: Final = 1_000_000
"""The number of characters or items that one operator, filter or method may make."""
_PERCENT = re.compile(r"%[^%a-zA-Z]*(?:\d{7}|\*)")
_BRACES = re.compile(r"\{[^{}]*:[^{}]*(?:\d{7}|\{)")
"""Formats whose width is more than a million, or is taken from a value."""


def _width(_: object, *given: object) -> int:
    return max((each for each in given if isinstance(each, int)), default=0)


def _format(pattern: re.Pattern[str], text: object, *_: object) -> int:
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    return _MAX_SIZE + 1 if isinstance(text, str) and pattern.search(text) else 0


def _replaced(text: object, old: object = "", new: object = "", *_: object) -> int:
    return (str(text).count(str(old)) if str(old) else len(str(text)) + 1) * len(str(new))


def _joined(first: object, second: object = "", *_: object) -> int:
    """The size for the filter, which takes the parts first, and for the method, which takes the separator first."""
    parts, between = (second, first) if isinstance(first, str | bytes) else (first, second)
    return len(parts) * len(between) if isinstance(between, str | bytes) and isinstance(parts, Sized) else 0


_FILTERS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("batch", "center", "indent", "round", "slice", "tojson", "wordwrap"), _width),
    "format": partial(_format, _PERCENT),
    "join": _joined,
    "replace": _replaced,
}
_METHODS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "expandtabs", "ljust", "rjust", "zfill"), _width),
    "join": _joined,
    "replace": _replaced,
}
"""Functions for the least size of the result of a filter, or of a string's method, from its arguments."""


def _operated(operator: str, left: object, right: object) -> int:
    """How many characters, items or bits an operator would make; 0 when its result is small in any case."""
    match operator, left, right:
        case "%", _, _:
            return _format(_PERCENT, left)
        case "**", int(), int():
            return left.bit_length() * right
        case "*", str() | bytes() | list() | tuple(), int():
            return len(cast("Sized", left)) * right
        case "+", str() | bytes() | list() | tuple(), str() | bytes() | list() | tuple():
            return len(cast("Sized", left)) + len(cast("Sized", right))
        case "*", int(), str() | bytes() | list() | tuple():
            return len(cast("Sized", right)) * left
        case _:
            return 0


class _Generator(CodeGenerator):
    """Compiles `~` to a call of the sandbox, which concatenates the texts."""

    def visit_Concat(self, node: Concat, frame: Frame) -> None:  # noqa: N802 - the name that Jinja looks for
        self.write("environment.concatenate((")
        for each in node.nodes:
            self.visit(each, frame)
            self.write(", ")
        self.write("))")


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """A sandbox whose filters, methods and operators raise `ValueError` rather than take all time or memory."""

    code_generator_class = _Generator
    intercepted_binops = frozenset({"**", "*", "+", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        filters = cast("dict[str, Callable[..., object]]", self.filters)
        filters.update({name: _bounded(name, filters[name], size) for name, size in _FILTERS.items()})

    def call(self, context: Context, called: Any, /, *args: Any, **named: Any) -> Any:
        """Call a function, unless it is a string method whose result would be too large."""
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        if isinstance(owner, str | bytes) and name in _METHODS:
            _check(name, _METHODS[name](owner, *args, *named.values()))
        return super().call(context, called, *args, **named)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The `format` method of a string, which is refused when its result would be too wide."""
        found = super().wrap_str_format(value)
        return found and _bounded("format", found, lambda *_: _format(_BRACES, value.__self__))

    @staticmethod
    def concatenate(parts: tuple[object, ...]) -> str:
        """The result of `~`."""
        texts = [str(each) for each in parts]
        _check("~", sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator, unless its result would be too large."""
        _check(operator, _operated(operator, left, right))
        return super().call_binop(context, operator, left, right)


def _check(what: str, size: int) -> None:
    if size > _MAX_SIZE:
        raise ValueError(f"the result of {what} would be too large")


def _bounded(name: str, filter_: Callable[..., T], size: Callable[..., int]) -> Callable[..., T]:
    skipped = 1 if hasattr(filter_, "jinja_pass_arg") else 0

    @wraps(filter_)
    def bounded(*args: Any, **named: Any) -> T:
        _check(name, size(*args[skipped:], *named.values()))
        return filter_(*args, **named)

    return bounded


_SUFFIX: Final = ".jinja"
_LONGEST: Final = 10_000_000
"""Characters of a rendered text, more than any model reads; each piece counts 10 more."""
_BREAKS = (
    JinjaError,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
"""How a template fails: by an error of Jinja, or by an error of an expression in it."""


class Templates:
    """The templates in some folders. When several folders have a template of one name, the first folder's is used.

    A file that has changed is read again.
    """

    def __init__(self, *folders: str | PathLike[str]) -> None:
        self.folders = tuple(Path(folder) for folder in folders)
        loader = _Folders(self.folders)
        self._sandbox = BoundedSandbox(loader=loader, undefined=StrictUndefined, autoescape=False)
        del self._sandbox.globals["lipsum"]

    def names(self) -> tuple[str, ...]:
        """The names of all templates, sorted, without `.jinja`."""
        return tuple(name.removesuffix(_SUFFIX) for name in self._sandbox.list_templates())

    def render(self, name: str, variables: Mapping[str, object]) -> str:
        """The text of a template with these variables.

        `name` is the path of the file below one of the folders, with slashes; `.jinja` is added. Raises `UnknownName`
        for a template that does not exist, and `TemplateError` for one that cannot be read or rendered: it names the
        template, the line and the missing variable.
        """
        template, text, left = None, list[str](), _LONGEST
        try:
            template = self._sandbox.get_template(_file_name(name))
            for piece in template.generate(variables):
                left -= len(piece) + 10
                if left < 0:
                    raise ValueError(f"the text would be longer than {_LONGEST:,} characters")
                text.append(piece)
        except _BREAKS as error:
            if template is None and isinstance(error, TemplateNotFound):
                raise UnknownName("template", name, self.names()) from None
            raise self._failure(name, variables, error) from error
        return "".join(text)

    def _failure(self, name: str, variables: Mapping[str, object], error: Exception) -> TemplateError:
        template, line = name, 0
        for frame in traceback.extract_tb(error.__traceback__):  # the innermost one that is a template counts
            path = Path(frame.filename)
            for folder in self.folders if path.suffix == _SUFFIX else ():
                if path.is_relative_to(folder):
                    template = path.relative_to(folder).as_posix().removesuffix(_SUFFIX)
                    line = frame.lineno or 0
                    break
        problem = str(error) or type(error).__name__
        if isinstance(error, TemplateNotFound):
            near = UnknownName("template", (error.name or "").removesuffix(_SUFFIX), self.names())
            problem = f"it asks for another template. {near}"
        elif isinstance(error, RecursionError):
            problem = "it includes itself, over and over"
        return TemplateError(template, line, problem, variables)


class _Folders(BaseLoader):
    """Loads templates from folders, and from nowhere else."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        name = _file_name(template)
        path = next((folder / name for folder in self._folders if _lies_in(folder, folder / name)), None)
        if path is None:
            raise TemplateNotFound(template)
        since = path.stat().st_mtime_ns
        return path.read_text("utf-8"), str(path), lambda: path.exists() and path.stat().st_mtime_ns == since

    def list_templates(self) -> list[str]:
        found = ((folder, path) for folder in self._folders for path in folder.rglob(f"*{_SUFFIX}"))
        return sorted({path.relative_to(folder).as_posix() for folder, path in found if _lies_in(folder, path)})


def _lies_in(folder: Path, path: Path) -> bool:
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


def _file_name(name: str) -> str:
    return name if name.endswith(_SUFFIX) else name + _SUFFIX
