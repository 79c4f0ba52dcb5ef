"""Prompts in files: Jinja templates, found by name in folders and rendered in a sandbox. User guide, section 3.11.

A template sees only the variables that it is given. What it includes, extends or imports must be in the same folders,
also after symbolic links are followed. Nothing is escaped, because a prompt is not HTML.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sized
from os import PathLike
from pathlib import Path
from typing import Any, Final, cast

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateError as JinjaError, TemplateNotFound
from jinja2.runtime import Context

from goalport.base.errors import TemplateError, UnknownName
from goalport.models.prompts.sandbox import BoundedSandbox, check

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
        self._sandbox = _sandbox(_Folders(self.folders))

    def names(self) -> tuple[str, ...]:
        """The names of all templates, sorted, without `.jinja`."""
        return tuple(name.removesuffix(_SUFFIX) for name in self._sandbox.list_templates())

    def render(self, name: str, variables: Mapping[str, object]) -> str:
        """The text of a template with these variables.

        `name` is the path of the file below one of the folders, with slashes; `.jinja` is added. Raises `UnknownName`
        for a template that does not exist, and `TemplateError` for one that cannot be read or rendered: it names the
        template, the line and the missing variable.
        """
        try:
            template = self._sandbox.get_template(_file_name(name))
        except TemplateNotFound:
            raise UnknownName("template", name, self.names()) from None
        except _BREAKS as error:
            raise self._failure(name, variables, error) from error
        try:
            return _limited_text(template.generate(variables))
        except _BREAKS as error:
            raise self._failure(name, variables, error) from error

    def _failure(self, name: str, variables: Mapping[str, object], error: Exception) -> TemplateError:
        template, line = _location(error, self.folders) or (name, 0)
        problem = str(error) or type(error).__name__
        if isinstance(error, TemplateNotFound):
            near = UnknownName("template", (error.name or "").removesuffix(_SUFFIX), self.names())
            problem = f"it asks for another template. {near}"
        elif isinstance(error, RecursionError):
            problem = "it includes itself, over and over"
        return TemplateError(template, line, problem, variables)


def _limited_text(pieces: Iterable[str]) -> str:
    """The text of the pieces. Raises `ValueError` when it would be too long, as an endless one would be."""
    text, left = list[str](), _LONGEST
    for piece in pieces:
        left -= len(piece) + 10
        if left < 0:
            raise ValueError(f"the text would be longer than {_LONGEST:,} characters")
        text.append(piece)
    return "".join(text)


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
        return sorted(
            {
                path.relative_to(folder).as_posix()
                for folder in self._folders
                for path in folder.rglob(f"*{_SUFFIX}")
                if _lies_in(folder, path)
            }
        )


def _lies_in(folder: Path, path: Path) -> bool:
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


def _file_name(name: str) -> str:
    return name if name.endswith(_SUFFIX) else name + _SUFFIX


def _location(error: Exception, folders: tuple[Path, ...]) -> tuple[str, int] | None:
    """The template and the line where rendering failed, by the innermost frame that is a template."""
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    for filename, line in reversed(frames):
        for folder in folders:
            path = Path(filename)
            if filename.endswith(_SUFFIX) and path.is_relative_to(folder):
                return path.relative_to(folder).as_posix().removesuffix(_SUFFIX), line
    return None


class _TemplateSandbox(BoundedSandbox):
    """A sandbox in which no arithmetic operator takes all time or memory."""

    intercepted_binops = frozenset({"**", "*", "+", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        check(operator, _size(operator, left, right))
        return super().call_binop(context, operator, left, right)


def _size(operator: str, left: object, right: object) -> int:
    """How many characters, items or bits an operator would make; 0 when its result is small in any case."""
    match operator, left, right:
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


def _sandbox(loader: BaseLoader) -> BoundedSandbox:
    sandbox = _TemplateSandbox(loader=loader, undefined=StrictUndefined, autoescape=False)
    del sandbox.globals["lipsum"]
    return sandbox
