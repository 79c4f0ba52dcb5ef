"""A reference to the API of installed Python packages: a model looks up signatures and docstrings by name.

Both are read from the source. Nothing is imported, since importing runs the code. Modules without source are missing.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Final

from anyio import to_thread

from goalport.base.words import did_you_mean, excerpt, folded, listed, offer
from goalport.knowledge.references.reference import UsageNotes
from goalport.models.prompts import as_data
from goalport.tools import Tool, tool

_LONGEST_SOURCE: Final = 2_000_000
_MOST_MODULES: Final = 3_000
_MOST_STEPS: Final = 8
"""How many imports are followed from a re-exported name to its definition."""
_MOST_LISTED: Final = 200
_MOST_FOUND: Final = 40
_MOST_OFFERED: Final = 5
_LINE: Final = 300
_DOC: Final = 6_000
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class PythonApi(UsageNotes):
    """A reference to an API: `PythonApi("goalport", "The API of goalport", ["goalport.runtime", "goalport.agents"])`.

    `packages` are packages and modules that are installed here. Their source is read and not run.
    """

    name: str
    description: str
    packages: Sequence[str] = ()
    """Empty: the package that has the name of the reference."""
    usage_notes: str = ""
    """What a model should know to use it."""
    _sources: "_Sources" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "packages", tuple(self.packages) or (self.name,))
        object.__setattr__(self, "_sources", _Sources(tuple(self.packages)))

    def notes(self) -> str:
        advice = f"It describes the Python packages {listed(self.packages)}. Look names up with its tools."
        return "\n".join(filter(None, (self.usage_notes, advice)))

    def tools(self) -> Sequence[Tool]:
        return Tool.from_instance(self)

    @tool(name="listModules", read_only=True)
    async def list_modules(self) -> str:
        """List the modules of the API."""
        modules = await to_thread.run_sync(self._sources.modules)
        if not modules:
            return f"None of {listed(self.packages)} is installed here with its source."
        more = f"\nThere are {len(modules) - _MOST_LISTED} more." if len(modules) > _MOST_LISTED else ""
        return as_data("\n".join(modules[:_MOST_LISTED]), self.name) + more

    @tool(name="lookUp", read_only=True)
    async def look_up(self, name: str) -> str:
        """Describe a module, class, function or method by its full name, such as json.decoder.JSONDecoder."""
        return await to_thread.run_sync(self._sources.described, name.strip())

    @tool(name="searchApi", read_only=True)
    async def search_api(self, words: str) -> str:
        """Find classes, functions and methods that have all of these words in their names or docstrings."""
        found = await to_thread.run_sync(self._sources.with_words, folded(words).split())
        if not found:
            return f"Nothing has {words!r} in its name or docstring. Search for fewer words."
        lines = (excerpt(f"{each.name}: {each.first_line}", _LINE) for each in found)
        return as_data("\n".join(lines), self.name)


@dataclass(frozen=True, slots=True)
class _Member:
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
    doc: str = ""
    members: Mapping[str, _Member] = field(default_factory=dict[str, _Member])
    """By name in the module, such as `JSONDecoder` and `JSONDecoder.decode`."""
    imported: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names in `__all__` that are imported from other modules, with their full names there."""


class _Sources:
    """The public members of packages and modules, each module read when it is first needed."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages
        self._files: dict[str, Path] = {}
        self._read: dict[str, _Module] = {}

    def modules(self) -> tuple[str, ...]:
        """The names of the modules that have a source."""
        if not self._files:
            found = (each for package in self._packages for each in _files_of(package))
            self._files.update(islice(found, _MOST_MODULES))
        return tuple(sorted(self._files))

    def described(self, name: str) -> str:
        """What `lookUp` returns for the full name of a module, class, function or method."""
        if name in self.modules():
            module = self._module(name)
            members = [*module.members.values(), *filter(None, map(self._find, module.imported.values()))]
            doc, source = [excerpt(module.doc, _DOC)] if module.doc else [], name
            if not (doc or members):
                return f"The module {name} offers no classes and functions."
        elif (member := self._find(name)) is not None:
            members = [each for each in self._everything() if each.name.rpartition(".")[0] == member.name]
            doc, source = [member.signature, excerpt(member.doc, _DOC)], member.name
        else:
            every = [each.name for each in self._everything()]
            same = [each for each in every if each.rpartition(".")[2] == name.rpartition(".")[2]]
            return f"There is no {name!r}. {did_you_mean(same[:_MOST_OFFERED]) or offer(name, every)}"
        lines = [excerpt(each.first_line, _LINE) for each in members[:_MOST_LISTED]]
        more = [f"and {len(members) - _MOST_LISTED} more"] if len(members) > _MOST_LISTED else []
        return as_data("\n".join([*doc, *lines, *more]), source)

    def with_words(self, wanted: Sequence[str]) -> list[_Member]:
        """The first members that have all of these words in their names or docstrings."""
        texts = ((each, folded(f"{each.name} {each.doc}")) for each in self._everything() if wanted)
        return list(islice((each for each, text in texts if all(word in text for word in wanted)), _MOST_FOUND))

    def _module(self, name: str) -> _Module:
        if name not in self._read:
            file = self._files.get(name) if self.modules() else None
            self._read[name] = _Module()
            # Syntax of another Python version, no Python at all, or expressions nested too deeply for `ast`.
            with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                if file is not None:
                    self._read[name] = _parsed(name, file)
        return self._read[name]

    def _find(self, name: str, steps: int = _MOST_STEPS) -> _Member | None:
        """The member with a full name, also if that names a module that re-exports the member."""
        known, parts = set(self.modules()), name.split(".")
        for end in range(len(parts) - 1, 0, -1):
            module, inside = ".".join(parts[:end]), ".".join(parts[end:])
            if module not in known:
                continue
            found = self._module(module)
            if inside in found.members:
                return found.members[inside]
            origin = found.imported.get(parts[end])
            if origin is not None and steps:
                return self._find(".".join((origin, *parts[end + 1 :])), steps - 1)
        return None

    def _everything(self) -> Iterator[_Member]:
        """The members of all modules, each under the module that defines it."""
        for module in self.modules():
            yield from self._module(module).members.values()


def _files_of(package: str) -> Iterator[tuple[str, Path]]:
    """The modules of a package or module, found without importing it."""
    top, *inner = package.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    for place in spec.submodule_search_locations or ():
        yield from _modules_at(package, Path(place).joinpath(*inner))
    if spec.submodule_search_locations is None and not inner and spec.origin:
        origin = Path(spec.origin)
        yield from _modules_at(package, origin.with_name(origin.name.partition(".")[0]))


def _modules_at(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    """The module at a path without its suffix, or the package there with its modules."""
    if path.is_dir():
        yield from _modules_at(name, path / "__init__")
        for stem in sorted({each.name.partition(".")[0] for each in path.iterdir() if _is_public(each.name)}):
            if stem.isidentifier() and not (path / stem).is_symlink():
                yield from _modules_at(f"{name}.{stem}", path / stem)
        return
    file = next((each for suffix in (".py", ".pyi") if (each := path.with_name(path.name + suffix)).is_file()), None)
    if file is not None and file.stat().st_size <= _LONGEST_SOURCE:
        yield name, file


def _is_public(name: str) -> bool:
    return not name.startswith(("_", "."))


def _parsed(name: str, file: Path) -> _Module:
    """The public members of a module, parsed from its source."""
    tree = ast.parse(file.read_bytes())
    exported = _exported(tree)
    members: dict[str, _Member] = {}
    imported: dict[str, str] = {}
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if (
                _is_public(node.name) if exported is None else node.name in exported
            ):
                members[node.name] = _member(name, node)
                for each in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and (
                        _is_public(each.name) or each.name == "__init__"
                    ):
                        members[f"{node.name}.{each.name}"] = _member(f"{name}.{node.name}", each)
            case ast.ImportFrom() if exported is not None:
                base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                module = ".".join((*base, *([node.module] if node.module else [])))
                names = {each.asname or each.name: f"{module}.{each.name}" for each in node.names}
                imported |= {key: full for key, full in names.items() if key in exported}
            case _:
                pass
    return _Module(ast.get_docstring(tree) or "", members, imported)


def _exported(tree: ast.Module) -> frozenset[str] | None:
    """The names in `__all__` if that is a literal list or tuple; None: there is no such `__all__`."""
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


def _member(owner: str, node: Definition) -> _Member:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, [*node.bases, *node.keywords]))
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        inside = "; ".join(ast.unparse(each) for each in fields if _is_public(ast.unparse(each.target)))
        signature = f"class {node.name}{f'({bases})' if bases else ''}{f': {inside}' if inside else ''}"
    else:
        kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
        signature = f"{kind} {node.name}({ast.unparse(node.args)}){returns}"
    return _Member(f"{owner}.{node.name}", signature, ast.get_docstring(node) or "")
