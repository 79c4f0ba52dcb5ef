"""A reference to the API of installed Python packages: a model looks up signatures and docstrings by name.

They are read from the source. Nothing is imported, since importing runs the code; a module without source is not seen.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Final, Self

from anyio import to_thread

from goalport.base.words import did_you_mean, excerpt, folded, listed, offer
from goalport.models.prompts import as_data
from goalport.tools import Tool, tool

_LONGEST_SOURCE: Final = 2_000_000
_MOST_MODULES: Final = 3_000
_SUFFIXES: Final = (".py", ".pyi")
_MOST_STEPS: Final = 8
"""Imports that are followed to find where a name comes from."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class ApiMember:
    """A class, a function or a method."""

    name: str
    """With its module, such as `json.decoder.JSONDecoder.decode`."""
    signature: str
    """As `def loads(s, *, cls=None)` or `class JSONDecoder`."""
    doc: str

    @property
    def first_line(self) -> str:
        """The signature with the first line of its docstring."""
        line = self.doc.strip().partition("\n")[0]
        return f"{self.signature}  # {line}" if line else self.signature


@dataclass(frozen=True, slots=True)
class _Module:
    name: str
    doc: str = ""
    members: Mapping[str, ApiMember] = field(default_factory=dict[str, ApiMember])
    """By name in the module, such as `JSONDecoder` and `JSONDecoder.decode`."""
    imported: Mapping[str, str] = field(default_factory=dict[str, str])
    """Public names that come from other modules, with their full names there."""


@dataclass(frozen=True, slots=True)
class PythonSources:
    """The public members of packages and modules, each module read when it is first needed."""

    packages: tuple[str, ...]
    _files: dict[str, Path] = field(default_factory=dict[str, Path], init=False, repr=False)
    _read: dict[str, _Module] = field(default_factory=dict[str, _Module], init=False, repr=False)

    def modules(self) -> tuple[str, ...]:
        """The names of the modules that have a source."""
        if not self._files:
            found = (each for package in self.packages for each in _files_of(package))
            self._files.update(islice(found, _MOST_MODULES))
        return tuple(sorted(self._files))

    def doc(self, module: str) -> str:
        return self._module(module).doc

    def members(self, module: str) -> tuple[ApiMember, ...]:
        """What a module offers, with what it takes over from others, in the order of its source."""
        found = self._module(module)
        taken = (self.find(full) for full in found.imported.values())
        return (*found.members.values(), *(each for each in taken if each is not None))

    def find(self, name: str, steps: int = _MOST_STEPS) -> ApiMember | None:
        """The member with a full name, also under the name of a module that takes it over."""
        known = set(self.modules())
        parts = name.split(".")
        for end in range(len(parts) - 1, 0, -1):
            module, inside = ".".join(parts[:end]), ".".join(parts[end:])
            if module not in known:
                continue
            found = self._module(module)
            if inside in found.members:
                return found.members[inside]
            origin = found.imported.get(parts[end])
            if origin is not None and steps:
                return self.find(".".join((origin, *parts[end + 1 :])), steps - 1)
        return None

    def everything(self) -> Iterator[ApiMember]:
        """The members of all modules, each where it is defined."""
        for module in self.modules():
            yield from self._module(module).members.values()

    def _module(self, name: str) -> _Module:
        if name not in self._read:
            file = self._files.get(name) if self.modules() else None
            self._read[name] = _Module(name)
            # Other Pythons' syntax, no Python at all, or expressions that are too deep to be parsed or written.
            with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                if file is not None:
                    self._read[name] = _described(name, file, ast.parse(file.read_bytes()))
        return self._read[name]


def _files_of(package: str) -> Iterator[tuple[str, Path]]:
    """The modules of a package or module, found without importing it."""
    top, *inner = package.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place).joinpath(*inner)
        if folder.is_dir():
            yield from _modules_in(package, folder)
        else:
            yield from _module_file(package, folder.parent, folder.name)
    if spec is not None and spec.submodule_search_locations is None and not inner and spec.origin:
        yield from _module_file(package, Path(spec.origin).parent, Path(spec.origin).name.partition(".")[0])


def _modules_in(package: str, folder: Path) -> Iterator[tuple[str, Path]]:
    yield from _module_file(package, folder, "__init__")
    names = sorted({each.name.partition(".")[0] for each in folder.iterdir() if _is_public(each.name)})
    for name in names:
        inner = folder / name
        if inner.is_dir() and not inner.is_symlink() and name.isidentifier():
            yield from _modules_in(f"{package}.{name}", inner)
        else:
            yield from _module_file(f"{package}.{name}", folder, name)


def _module_file(module: str, folder: Path, stem: str) -> Iterator[tuple[str, Path]]:
    file = next((found for suffix in _SUFFIXES if (found := folder / f"{stem}{suffix}").is_file()), None)
    if file is not None and file.stat().st_size <= _LONGEST_SOURCE:
        yield module, file


def _is_public(name: str) -> bool:
    return not name.startswith(("_", "."))


def _described(name: str, file: Path, tree: ast.Module) -> _Module:
    exported = _exported(tree)
    members: dict[str, ApiMember] = {}
    imported: dict[str, str] = {}
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if (
                _is_public(node.name) if exported is None else node.name in exported
            ):
                members |= _members(name, node)
            case ast.ImportFrom() if exported is not None:
                base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                module = ".".join((*base, *([node.module] if node.module else [])))
                names = {each.asname or each.name: f"{module}.{each.name}" for each in node.names}
                imported |= {key: full for key, full in names.items() if key in exported}
            case _:
                pass
    return _Module(name, ast.get_docstring(tree) or "", members, imported)


def _exported(tree: ast.Module) -> frozenset[str] | None:
    """The names in `__all__`, where it is written out."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=parts) | ast.Tuple(elts=parts))
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.List(elts=parts) | ast.Tuple(elts=parts))
            ):
                return frozenset(str(each.value) for each in parts if isinstance(each, ast.Constant))
            case _:
                continue
    return None


def _members(module: str, node: Definition) -> dict[str, ApiMember]:
    found = {node.name: _member(module, node)}
    if isinstance(node, ast.ClassDef):
        for each in node.body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and (
                _is_public(each.name) or each.name == "__init__"
            ):
                found[f"{node.name}.{each.name}"] = _member(f"{module}.{node.name}", each)
    return found


def _member(owner: str, node: Definition) -> ApiMember:
    return ApiMember(f"{owner}.{node.name}", _signature(node), ast.get_docstring(node) or "")


def _signature(node: Definition) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(_written([*node.bases, *node.keywords]))
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        inside = "; ".join(_written(each for each in fields if _is_public(ast.unparse(each.target))))
        return f"class {node.name}{f'({bases})' if bases else ''}{f': {inside}' if inside else ''}"
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}"


def _written(nodes: Iterable[ast.AST]) -> Iterator[str]:
    return (ast.unparse(each) for each in nodes)


_MOST_LISTED: Final = 200
_MOST_MEMBERS: Final = 200
_MOST_FOUND: Final = 40
_MOST_OFFERED: Final = 5
_LINE: Final = 300
_DOC: Final = 6_000


@dataclass(frozen=True, slots=True)
class PythonApi:
    """A reference to an API: `PythonApi("goalport", "The API of goalport", ["goalport.runtime", "goalport.agents"])`.

    `packages` are packages and modules that are installed here. Their source is read and not run.
    """

    name: str
    description: str
    packages: Sequence[str] = ()
    """Empty: the package that has the name of the reference."""
    usage_notes: str = ""
    """What a model should know to use it."""
    _sources: PythonSources = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "packages", tuple(self.packages) or (self.name,))
        object.__setattr__(self, "_sources", PythonSources(tuple(self.packages)))

    def with_usage_notes(self, text: str) -> Self:
        """A copy that tells the model how to use it."""
        return replace(self, usage_notes=text)

    def notes(self) -> str:
        advice = f"It describes the Python packages {listed(self.packages)}. Look names up with its tools."
        return "\n".join(filter(None, (self.usage_notes, advice)))

    def tools(self) -> Sequence[Tool]:
        return Tool.from_instance(_ApiTools(self.name, self._sources))


@dataclass(frozen=True, slots=True)
class _ApiTools:
    """The tools of a reference to an API."""

    name: str
    sources: PythonSources

    @tool(name="listModules", read_only=True)
    async def list_modules(self) -> str:
        """List the modules of the API."""
        modules = await to_thread.run_sync(self.sources.modules)
        if not modules:
            return f"None of {listed(self.sources.packages)} is installed here with its source."
        more = f"\nThere are {len(modules) - _MOST_LISTED} more." if len(modules) > _MOST_LISTED else ""
        return as_data("\n".join(modules[:_MOST_LISTED]), self.name) + more

    @tool(name="lookUp", read_only=True)
    async def look_up(self, name: str) -> str:
        """Describe a module, class, function or method by its full name, such as json.decoder.JSONDecoder."""
        return await to_thread.run_sync(self._described, name.strip())

    @tool(name="searchApi", read_only=True)
    async def search_api(self, words: str) -> str:
        """Find classes, functions and methods that have all of these words in their names or docstrings."""
        return await to_thread.run_sync(self._search, words)

    def _described(self, name: str) -> str:
        if name in self.sources.modules():
            members = self.sources.members(name)
            text = "\n".join(filter(None, (excerpt(self.sources.doc(name), _DOC), *_lines(members))))
            return as_data(text, name) if text else f"The module {name} offers no classes and functions."
        member = self.sources.find(name)
        if member is None:
            every = [each.name for each in self.sources.everything()]
            same = [each for each in every if each.rpartition(".")[2] == name.rpartition(".")[2]]
            return f"There is no {name!r}. {did_you_mean(same[:_MOST_OFFERED]) or offer(name, every)}"
        inner = [each for each in self.sources.everything() if each.name.rpartition(".")[0] == member.name]
        return as_data("\n".join((member.signature, excerpt(member.doc, _DOC), *_lines(inner))), member.name)

    def _search(self, words: str) -> str:
        wanted = folded(words).split()
        texts = ((each, folded(f"{each.name} {each.doc}")) for each in self.sources.everything() if wanted)
        found = list(islice((each for each, text in texts if all(word in text for word in wanted)), _MOST_FOUND))
        if not found:
            return f"Nothing has {words!r} in its name or docstring. Search for fewer words."
        lines = (excerpt(f"{each.name}: {each.first_line}", _LINE) for each in found)
        return as_data("\n".join(lines), self.name)


def _lines(members: Sequence[ApiMember]) -> list[str]:
    lines = [excerpt(each.first_line, _LINE) for each in members[:_MOST_MEMBERS]]
    more = len(members) - _MOST_MEMBERS
    return [*lines, f"and {more} more"] if more > 0 else lines
