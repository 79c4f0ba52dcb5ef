"""What a function declares: its location in the source, its resolved annotations, and the contents of its docstring.

A docstring is parsed for a model: the descriptions of parameters are found in Google, NumPy, Sphinx and Epydoc style,
and all other text stays as it is.
"""

import builtins
import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from goalport.errors import DeclarationError

__all__ = ["Documentation", "docstring_of", "read_docstring", "source_location", "type_hints"]


def source_location(function: Callable[..., object]) -> str:
    """`module: Class.method (file:line)`, or as much of it as the function reveals."""
    inner = _inner(function)
    name = getattr(inner, "__qualname__", repr(inner))
    module = getattr(inner, "__module__", None)
    code = getattr(inner, "__code__", None)
    where = f" ({_short(code.co_filename)}:{code.co_firstlineno})" if code else ""
    return f"{module}: {name}{where}" if module else f"{name}{where}"


def type_hints(function: Callable[..., object]) -> dict[str, Any]:
    """The annotations of a function, resolved in its module and in the classes that enclose it."""
    inner = _inner(function)
    try:
        return get_type_hints(inner, localns=_names_around(function, inner), include_extras=True)
    except NameError as error:
        raise DeclarationError(
            source_location(function),
            expected="every annotation to name something that can be looked up in its module or enclosing classes",
            came=f"{error.name!r} is not there",
            fix="Define or import it at module level, not inside a function and not under TYPE_CHECKING.",
        ) from error
    except (TypeError, SyntaxError) as error:
        raise DeclarationError(
            source_location(function),
            expected="annotations that are types",
            came=f"one of them cannot be read ({error})",
            fix="Write it as a type.",
        ) from error


def docstring_of(function: Callable[..., object]) -> str:
    """The docstring of a function; a method without one has that of the method it overrides."""
    return inspect.getdoc(_without_partials(function)) or ""


def _without_partials(function: Callable[..., object]) -> Any:
    return _without_partials(function.func) if isinstance(function, functools.partial) else function


def _inner(function: Callable[..., object]) -> Any:
    """The function with the annotations: inside a partial, a bound method, a wrapper or a callable object."""
    outer = _without_partials(function)
    inner = inspect.unwrap(getattr(outer, "__func__", outer))
    return inner if inspect.isroutine(inner) else inner.__call__


def _names_around(function: Callable[..., object], inner: Any) -> dict[str, object]:
    """The names of enclosing classes, unless a name of the module or a builtin hides them."""
    found: dict[str, object] = {}
    place: object = sys.modules.get(getattr(inner, "__module__", ""))
    for part in getattr(inner, "__qualname__", "").split(".")[:-1]:
        place = getattr(place, part, None)
        found |= dict(vars(place)) if isinstance(place, type) else {}
    for owner in _owners(function):
        found |= dict(vars(owner))
    hidden: Mapping[str, object] = getattr(inner, "__globals__", {})
    return {name: value for name, value in found.items() if name not in hidden and not hasattr(builtins, name)}


def _owners(function: Callable[..., object]) -> tuple[type, ...]:
    """The classes of the object that a method is bound to, most derived last."""
    bound: object = getattr(_without_partials(function), "__self__", None)
    kind = bound if isinstance(bound, type) else type(bound)
    return () if bound is None else tuple(reversed(kind.__mro__))


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


_GOOGLE_SECTION = re.compile(r"(Args|Arguments|Params|Parameters):\s*")
_NUMPY_SECTION = re.compile(r"(Other )?Parameters\s*")
_RULE = re.compile(r"-{3,}\s*")
_GOOGLE_ENTRY = re.compile(r"\s+\*{0,2}(?P<names>\w+)\s*(\(.*?\))?\s*:(?P<text>.*)")
_NUMPY_ENTRY = re.compile(r"(?P<names>\w+(,\s*\w+)*)\s*(:.*)?(?P<text>)")
_FIELD_ENTRY = re.compile(r"[:@](param|parameter|arg|argument)\s+([^:]*\s)?(?P<names>\w+)\s*:(?P<text>.*)")
_FIELD_TYPE = re.compile(r"[:@]type\s+\w+\s*:.*")


@dataclass(frozen=True, slots=True)
class Documentation:
    """A parsed docstring: the description, and what it says of each parameter."""

    description: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that belong together. With `entry` they describe parameters; without, they are part of the description."""

    lines: Sequence[str]
    entry: re.Pattern[str] | None = None


def read_docstring(text: str | None, parameters: Collection[str]) -> Documentation:
    """Parse a docstring. A section that describes none of `parameters` is part of the description."""
    lines = inspect.cleandoc(text or "").splitlines()
    kept: list[str] = []
    described: dict[str, str] = {}
    for block in _blocks(lines):
        found = _described(block, parameters)
        described |= found
        kept += [] if found or _is_type(block) else block.lines
    return Documentation(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), described)


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    start = 0
    while start < len(lines):
        entry, end = _section_at(lines, start)
        yield _Block(lines[start:end], entry)
        start = end


def _section_at(lines: Sequence[str], start: int) -> tuple[re.Pattern[str] | None, int]:
    """The entry pattern and the end of the section that begins at a line; any other line is a block by itself."""
    line = lines[start]
    if _GOOGLE_SECTION.fullmatch(line):
        return _GOOGLE_ENTRY, _end_of_indented(lines, start + 1)
    if _NUMPY_SECTION.fullmatch(line) and _is_rule(lines, start + 1):
        return _NUMPY_ENTRY, _end_of_numpy(lines, start + 2)
    if _FIELD_ENTRY.fullmatch(line):
        return _FIELD_ENTRY, _end_of_indented(lines, start + 1)
    return None, start + 1


def _end_of_indented(lines: Sequence[str], start: int) -> int:
    return next((n for n in range(start, len(lines)) if lines[n].strip() and not lines[n][0].isspace()), len(lines))


def _end_of_numpy(lines: Sequence[str], start: int) -> int:
    return next((n for n in range(start, len(lines)) if _is_rule(lines, n + 1)), len(lines))


def _is_rule(lines: Sequence[str], number: int) -> bool:
    return number < len(lines) and _RULE.fullmatch(lines[number]) is not None


def _is_type(block: _Block) -> bool:
    """Whether the block only repeats a type of the signature."""
    return _FIELD_TYPE.fullmatch(block.lines[0]) is not None


def _described(block: _Block, parameters: Collection[str]) -> dict[str, str]:
    """The description of each parameter in a section; a line that begins no entry continues the one before."""
    entries = [block.entry.fullmatch(line) if block.entry else None for line in block.lines]
    # An entry that is indented further belongs to a list inside a description.
    margin = min((_indent(entry[0]) for entry in entries if entry), default=0)
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line, entry in zip(block.lines, entries, strict=True):
        listed = re.findall(r"\w+", entry["names"]) if entry and _indent(line) == margin else []
        if entry and (known := [name for name in listed if name in parameters]):
            names = known
            found |= {name: [entry["text"]] for name in names}
        else:
            for name in names:
                found[name].append(line)
    return {name: " ".join(" ".join(words).split()) for name, words in found.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
