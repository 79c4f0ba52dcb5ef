"""Rules about size: a file, a function, a signature and a class that a reader can hold.

Lines are counted from the first to the last, docstrings and comments among them: a reader meets those too.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.rooms import functions_called_once
from tests.house.tree import LIBRARY, WRITTEN, Function, SourceFile, sources

LIBRARY_LINES = 78_900
"""All of src/goalport. Raise it only with a reason in the change; lower it when something has gone."""
SLACK = 500


class Parts(NamedTuple):
    """Into how many pieces the library is cut."""

    modules: int
    functions_per_1000_lines: float
    percent_called_once: float
    """Of all functions, the private ones that one place of their module calls."""


PARTS = Parts(modules=302, functions_per_1000_lines=65.1, percent_called_once=10.5)
"""The most of each. As with the lines: raise one only with a reason, lower it when there is less."""
MODULE_LINES, TEST_LINES = 800, 500
FUNCTION_LINES, PARAMETERS = 60, 7
CLASS_LINES, METHODS = 400, 20
FACADES = frozenset(
    {"AgentPlatform", "AgentProcess", "Ai", "Blackboard", "ChatSession", "GoalportError", "OperationContext"}
    | {"Processes"}
)
"""What users hold in their hands, what runs all processes, and the tree of all errors. They have as many methods as
those need: a limit made shapes that served only it."""
STORES = frozenset(
    {"AgentProcessRepository", "DatabaseProcessStore", "InMemoryProcessStore", "ProcessStore"}
    | {"DocumentIndex", "SqliteIndex"}
)
"""One database keeps processes, leases, messages and contexts: a store, and the repository above it, is the place
where all of them are reached. A store of documents answers every search protocol, each of which is small."""


def the_library_is_as_large_as_written_down(root: Path, expected: int | None = None) -> Iterator[str]:
    expected = LIBRARY_LINES if expected is None else expected
    lines = sum(len(file.text.splitlines()) for file in sources(root, LIBRARY))
    if lines > expected:
        yield f"{LIBRARY}: {lines} lines, at most {expected}; look for what can go, or raise the number and say why"
    if lines < expected - SLACK:
        yield f"{LIBRARY}: {lines} lines, {expected} are written down; write down what it is now"


def the_library_has_as_few_parts_as_written_down(root: Path, most: Parts = PARTS) -> Iterator[str]:
    files = list(sources(root, LIBRARY))
    lines = sum(len(file.text.splitlines()) for file in files)
    functions = sum(len(file.functions) for file in files)
    once = sum(1 for _ in functions_called_once(root))
    parts = Parts(len(files), round(1000 * functions / lines, 1), round(100 * once / functions, 1))
    for name, number, limit in zip(Parts._fields, parts, most, strict=True):
        if number > limit:
            yield f"{LIBRARY}: {name} {number}, at most {limit}; join what is one thought, or raise it and say why"


def files_are_short(root: Path) -> Iterator[str]:
    for file in sources(root, *WRITTEN):
        limit = TEST_LINES if file.path.parts[0] == "tests" else MODULE_LINES
        lines = len(file.text.splitlines()) - sum(map(_lines, _exports(file)))
        if lines > limit:
            yield f"{file.path.as_posix()}: {lines} lines, at most {limit}; it holds more than one noun"


def _exports(file: SourceFile) -> Iterator[ast.stmt]:
    """The list of what a module exports: it repeats names, one in a line, and nobody has to hold it in mind."""
    for each in file.nodes:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__":
            yield each


def functions_are_short(root: Path) -> Iterator[str]:
    """Of a constructor only the body counts: its parameters are what its class is made of."""
    for file in sources(root, *WRITTEN):
        for function in file.functions:
            signature = function.body[0].lineno - function.lineno if function.name == "__init__" else 0
            if (lines := _lines(function) - signature) > FUNCTION_LINES:
                yield f"{file.at(function.lineno)}: {function.name} has {lines} lines, at most {FUNCTION_LINES}"


def signatures_are_short(root: Path) -> Iterator[str]:
    """A keyword-only parameter has a name at each call, and a constructor takes what its class is made of."""
    for file in sources(root, *WRITTEN):
        methods = {id(method) for owner in file.classes for method in owner.body}
        for function in file.functions:
            if function.name == "__init__":
                continue
            count = _parameters(function, is_method=id(function) in methods)
            if count > PARAMETERS:
                yield (
                    f"{file.at(function.lineno)}: {function.name} takes {count} parameters, at most {PARAMETERS}; "
                    "a frozen dataclass is missing"
                )


def _parameters(function: Function, *, is_method: bool) -> int:
    arguments = function.args
    counted = [*arguments.posonlyargs, *arguments.args]
    if is_method and not any("staticmethod" in ast.unparse(each) for each in function.decorator_list):
        counted = counted[1:]
    return len(counted) + bool(arguments.vararg) + bool(arguments.kwarg)


def classes_are_small(root: Path) -> Iterator[str]:
    """A `with_*` method gives a copy with one setting changed: a field in a method's clothes, which does not count."""
    for file in sources(root, *WRITTEN):
        for owner in file.classes:
            if owner.name in FACADES | STORES:
                continue
            yield from _too_large(file, owner)


def _too_large(file: SourceFile, owner: ast.ClassDef) -> Iterator[str]:
    if _lines(owner) > CLASS_LINES:
        yield f"{file.at(owner.lineno)}: class {owner.name} has {_lines(owner)} lines, at most {CLASS_LINES}"
    names = {member.name for member in owner.body if isinstance(member, Function)}
    methods = {name for name in names if not name.startswith("with_")}
    if len(methods) > METHODS:
        yield f"{file.at(owner.lineno)}: class {owner.name} has {len(methods)} methods, at most {METHODS}"


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
