"""What a function declares: its place in the source, the types in its annotations, and the parts of its docstring.

Annotations are looked up in the module and in the enclosing classes. A docstring is parsed for a model: descriptions of
parameters are found in Google, NumPy, Sphinx and Epydoc style, and all other text stays as it is. Nothing is called.
Above: `domain` reads actions with it, and `tools` reads tools.
"""

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar, cast, get_type_hints

from goalport.base.errors import DeclarationError
from goalport.base.type_expressions import inherited, parameters_of
from goalport.base.words import class_name, did_you_mean, nearest

_KEEPING = frozenset({"getter", "setter", "deleter", "register"})
_FIX_OF_NAME = "Define or import it at module level, not inside a function and not under TYPE_CHECKING."


@dataclass(frozen=True, slots=True)
class Origin:
    """A function or method that a user declares, with its place in the source for messages."""

    function: Callable[..., object]
    owner: type | None = None
    """The class that has the method, perhaps by inheritance; None: the class of the object it is bound to, if any."""

    @property
    def written(self) -> Callable[..., object]:
        """The function in the source, without decorators, partials, bound methods and callable objects around it."""
        outer = _without_partials(self.function)
        inner = getattr(outer, "__func__", outer)
        return inspect.unwrap(inner if hasattr(inner, "__qualname__") else type(inner).__call__)

    @property
    def filled(self) -> Collection[str]:
        """The names of the parameters for which a `partial` has values."""
        function: Any = self.function
        return function.keywords if isinstance(function, partial) else ()

    @property
    def docstring(self) -> str:
        """The docstring; a method without one inherits it from the method that it overrides."""
        return inspect.getdoc(_without_partials(self.function)) or ""

    @property
    def declared_in(self) -> type | None:
        """The class whose body contains the method: the owner or one of its base classes; None for a function."""
        owner, name = self.owner or _owner(self.function), self.written.__name__
        return None if owner is None else next((each for each in owner.__mro__ if name in vars(each)), owner)

    def __str__(self) -> str:
        written = self.written
        code = getattr(written, "__code__", None)
        name = f"{self.owner.__name__}.{written.__name__}" if self.owner else written.__qualname__
        module = getattr(written, "__module__", None)
        where = f" ({_short(code.co_filename)}:{code.co_firstlineno})" if code else ""
        return f"{module}: {name}{where}" if module else f"{name}{where}"

    def error(self, *, expected: str, came: str, fix: str) -> DeclarationError:
        """An error that names this place. It is returned and not raised."""
        return DeclarationError(str(self), expected=expected, came=came, fix=fix)

    def hints(self, kind: type | None = None) -> dict[str, Any]:
        """The types by parameter of the function, or by field of `kind`, a class in the function's annotations.

        A type parameter of a generic base class is replaced by the owner's argument. Raises `DeclarationError` for an
        annotation with an unknown name or one that cannot be evaluated.
        """
        written, names = self.written, self._names_around()
        try:
            found = get_type_hints(kind or written, localns=names, include_extras=True)
            owner, base = self.owner or _owner(self.function), self.declared_in
            if kind or base is None or not parameters_of(base):
                return found
            return {name: inherited(each, base, owner) for name, each in found.items()}
        except NameError as error:
            known = {*getattr(written, "__globals__", {}), *names}
            near = nearest(str(error.name), sorted(each for each in known if not each.startswith("_")))
            raise self.error(
                expected="every annotation to name something that can be looked up in its module or enclosing classes",
                came=f"{error.name!r} {f'in {kind.__qualname__} ' if kind else ''}is not there",
                fix=" ".join([*([did_you_mean(near)] if near else []), _FIX_OF_NAME]),
            ) from error
        except (AttributeError, SyntaxError, TypeError) as error:
            raise self.error(
                expected="an annotation that Python can read", came=str(error), fix="Correct the annotation."
            ) from error

    def _names_around(self) -> "_NamesAround":
        """The names in the enclosing classes, and the type parameters of a class (`class Name[T]`)."""
        written, places = self.written, list[Mapping[str, object]]()
        place: object = sys.modules.get(getattr(written, "__module__", None) or "")
        for part in written.__qualname__.split(".")[:-1]:
            place = getattr(place, part, None)
            places += [vars(place)] if isinstance(place, type) else []
        owner = self.owner or _owner(self.function)
        if owner is not None:
            places += [*map(vars, reversed(owner.__mro__)), {owner.__name__: owner}]
        parameters: Sequence[TypeVar] = getattr(self.declared_in, "__type_params__", ())
        places.append({each.__name__: each for each in parameters})
        return _NamesAround(places, getattr(written, "__globals__", {}))


class _NamesAround(Mapping[str, object]):
    """The names in some classes, looked up only if an annotation is a string with that name.

    A class or a type parameter hides what has the same name in the module; a method or a field does not.
    """

    def __init__(self, places: Sequence[Mapping[str, object]], module: Mapping[str, object]) -> None:
        self._places = tuple(reversed(places))
        """The innermost first."""
        self._module = module

    def __getitem__(self, name: str) -> object:
        place = next((each for each in self._places if name in each), None)
        is_free = name not in self._module and not hasattr(builtins, name)
        if place is None or not (is_free or isinstance(place[name], type | TypeVar)):
            raise KeyError(name)
        return place[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in dict.fromkeys(chain(*self._places)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _without_partials(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _owner(function: Callable[..., object]) -> type | None:
    """The class of the object to which a method is bound; None for other functions."""
    bound: object = getattr(_without_partials(function), "__self__", None)
    return bound if bound is None or isinstance(bound, type) else type(bound)


def constructor(cls: type) -> inspect.Signature:
    """The signature of a class's constructor. Raises `DeclarationError` for an abstract class.

    A class without a constructor of its own gets the empty signature at once: `inspect` would parse the text signature
    of `object` each time.
    """
    if lacking := missing_methods(cls):
        raise DeclarationError(
            class_place(cls),
            expected="a class that can be constructed",
            came=f"it is abstract: it lacks {', '.join(lacking)}",
            fix="Write what it lacks, or deploy a subclass that has it.",
        )
    is_plain = type(cls).__call__ is type.__call__ and cls.__init__ is object.__init__ and cls.__new__ is object.__new__
    return inspect.Signature() if is_plain else inspect.signature(cls)


def missing_methods(cls: type) -> Sequence[str]:
    """The names of the abstract methods that a class does not implement; empty for a class that is not abstract."""
    return sorted(getattr(cls, "__abstractmethods__", ()))


def class_place(cls: type) -> str:
    """The name of a class for messages, with its file and line if its source can be read."""
    name = class_name(cls)
    try:
        file, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return name
    return f"{name} ({_short(file)}:{line})" if file else name


def hidden_methods(cls: type) -> Iterator[tuple[str, int, int]]:
    """The methods of a class that a later method of the same name replaces: the name, and the lines of both.

    Yields nothing if the source cannot be read.
    """
    try:
        lines, first = inspect.getsourcelines(cls)
        body = cast("ast.ClassDef", ast.parse(dedent("".join(lines))).body[0]).body
    except (OSError, TypeError, SyntaxError, AttributeError):
        return
    known: dict[str, int] = {}
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            # `@name.setter` and `@name.register(int)` keep the method of the same name before them.
            called = (one.func if isinstance(one, ast.Call) else one for one in each.decorator_list)
            keeps = any(isinstance(one, ast.Attribute) and one.attr in _KEEPING for one in called)
            if each.name in known and not keeps:
                yield each.name, known[each.name], first + each.lineno - 1
            if not any(ast.unparse(decorator).endswith("overload") for decorator in each.decorator_list):
                known[each.name] = first + each.lineno - 1


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


def read_docstring(text: str | None, parameters: Collection[str]) -> tuple[str, Mapping[str, str]]:
    """The description in a docstring, and the descriptions of parameters in it, by name.

    A section that describes none of `parameters` is part of the description.
    """
    lines = inspect.cleandoc(text or "").splitlines()
    kept: list[str] = []
    described: dict[str, str] = {}
    start = 0
    while start < len(lines):
        entry, end = _section_at(lines, start)
        found = _described(lines[start:end], entry, parameters) if entry else {}
        described |= found
        repeats_a_type = _FIELD_TYPE.fullmatch(lines[start]) is not None
        kept += [] if found or repeats_a_type else lines[start:end]
        start = end
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), described


def _section_at(lines: Sequence[str], start: int) -> tuple[re.Pattern[str] | None, int]:
    """The entry pattern and end of the section that begins at a line; None and the next line if no section begins."""
    line, after = lines[start], range(start + 1, len(lines))
    if _NUMPY_SECTION.fullmatch(line) and lines[start + 1 :] and _RULE.fullmatch(lines[start + 1]):
        return _NUMPY_ENTRY, next((n - 1 for n in after[2:] if _RULE.fullmatch(lines[n])), len(lines))
    for section, entry in ((_GOOGLE_SECTION, _GOOGLE_ENTRY), (_FIELD_ENTRY, _FIELD_ENTRY)):
        if section.fullmatch(line):
            return entry, next((n for n in after if lines[n].strip() and not lines[n][0].isspace()), len(lines))
    return None, start + 1


def _described(lines: Sequence[str], entry_of: re.Pattern[str], parameters: Collection[str]) -> dict[str, str]:
    """The description of each parameter in a section; a line that begins no entry continues the one before."""
    entries = [entry_of.fullmatch(line) for line in lines]
    # An entry that is indented further belongs to a list inside a description.
    margin = min((_indent(entry[0]) for entry in entries if entry), default=0)
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line, entry in zip(lines, entries, strict=True):
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
