"""The rooms of the library in numbers, and what in them may be more parts than ideas.

`python -m tests.house.rooms` prints them, and `make check` does so too. Only the sums are limited, in `sizes`: a module
that one other uses may well be an idea of its own, and a function that is called once may have earned its name.
"""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.house.floors import room_of
from tests.house.tree import LIBRARY, ROOT, Function, SourceFile, imported, sources

__all__ = ["Room", "functions_called_once", "modules_of_one_user", "report", "rooms"]

_LAYOUT = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


@dataclass(frozen=True)
class Room:
    """How large one room is."""

    name: str
    modules: int
    lines: int
    code_lines: int
    """Lines with more on them than a comment or a docstring."""
    functions: int
    called_once: int
    """Private functions that stand in one other place of their module only."""


def rooms(root: Path) -> list[Room]:
    """The rooms of the library by name; the package's own `__init__` and its single modules are one row each."""
    files: dict[str, list[SourceFile]] = defaultdict(list)
    for file in sources(root, LIBRARY):
        files[room_of(file) or "goalport"].append(file)
    return [_room(name, files[name]) for name in sorted(files)]


def _room(name: str, files: Iterable[SourceFile]) -> Room:
    files = tuple(files)
    return Room(
        name,
        len(files),
        sum(len(file.text.splitlines()) for file in files),
        sum(len(_code_lines(file)) for file in files),
        sum(len(file.functions) for file in files),
        sum(1 for file in files for _ in _called_once(file)),
    )


def _code_lines(file: SourceFile) -> set[int]:
    documents = {
        line
        for node in file.nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(file.text).readline)
    covered = (range(token.start[0], token.end[0] + 1) for token in tokens if token.type not in _LAYOUT)
    return {line for lines in covered for line in lines} - documents


def modules_of_one_user(root: Path) -> Iterator[str]:
    """Modules that one other module imports and nobody else does; the front of a room does not count as a user."""
    files = {_dotted(file): file for file in sources(root, LIBRARY)}
    users: dict[str, set[str]] = defaultdict(set)
    for name, file in files.items():
        for each in imported(file):
            target = each.name if each.name in files else each.name.rpartition(".")[0]
            if target != name:
                users[target].add(name)
    fronts = {name for name, file in files.items() if file.path.stem == "__init__"}
    for name in sorted(files.keys() - fronts):
        inside = users[name] - fronts
        if len(inside) == 1 and not users[name] & fronts:
            lines = len(files[name].text.splitlines())
            yield f"{name} ({lines} lines) is used by {inside.pop()} alone"


def functions_called_once(root: Path) -> Iterator[str]:
    """Private functions and methods that one place of their module uses."""
    for file in sources(root, LIBRARY):
        for function in _called_once(file):
            yield f"{file.at(function.lineno)}: {function.name}"


def _called_once(file: SourceFile) -> Iterator[Function]:
    named = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in file.nodes
        if isinstance(node, ast.Name | ast.Attribute)
    )
    for function in file.functions:
        if re.match("_[a-z]", function.name) and named[function.name] == 1:
            yield function


def _dotted(file: SourceFile) -> str:
    return ".".join([*file.package, *([] if file.path.stem == "__init__" else [file.path.stem])])


def report(root: Path, *, details: bool = False) -> Iterator[str]:
    """A table of the rooms; with details also each module with one user and each function that is called once."""
    found = rooms(root)
    total = Room("all", *(sum(getattr(room, field) for room in found) for field in Room.__match_args__[1:]))
    yield "| room | modules | lines | of code | functions | private, called once |"
    yield "|---|---|---|---|---|---|"
    for room in (*found, total):
        share = f"{room.called_once} ({100 * room.called_once / max(1, room.functions):.1f} %)"
        yield f"| {room.name} | {room.modules} | {room.lines} | {room.code_lines} | {room.functions} | {share} |"
    lonely = list(modules_of_one_user(root))
    yield f"Functions per 1,000 lines: {1000 * total.functions / total.lines:.1f}"
    yield f"Modules that one other module uses: {len(lonely)}"
    if details:
        yield from (f"  {each}" for each in lonely)
        yield from (f"  {each}" for each in functions_called_once(root))


if __name__ == "__main__":
    import sys

    print("\n".join(report(ROOT, details="--details" in sys.argv)))  # noqa: T201 - a report is printed
