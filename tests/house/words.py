"""Rules about names and words: what a module, a class and a comment may say, and what each room says of itself."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import LIBRARY, SHIPPED, WRITTEN, Function, SourceFile, sources

EMPTY_MODULES = frozenset({"common", "helper", "helpers", "misc", "types", "util", "utils"})
EMPTY_WORDS = frozenset({"Helper", "Helpers", "Impl", "Manager", "Util", "Utils"})
EMPTY_FIRST_WORDS = frozenset({"Abstract", "Base", "Default"})
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def modules_are_named_after_a_thing(root: Path) -> Iterator[str]:
    for file in sources(root, *SHIPPED, "benchmarks"):
        for part in (*file.path.parent.parts, file.path.stem):
            if part in EMPTY_MODULES:
                yield f"{file.path.as_posix()}: {part} says nothing; name the module after the thing in it"


def classes_are_named_after_a_thing(root: Path) -> Iterator[str]:
    for file in sources(root, *WRITTEN):
        for owner in file.classes:
            words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", owner.name)
            empty = [*EMPTY_WORDS.intersection(words), *EMPTY_FIRST_WORDS.intersection(words[:1])]
            if empty:
                yield f"{file.at(owner.lineno)}: class {owner.name}; {empty[0]} says nothing, say what the thing is"


def modules_say_what_they_are(root: Path) -> Iterator[str]:
    for file in sources(root, *SHIPPED, "benchmarks"):
        if not ast.get_docstring(file.tree):
            yield f"{file.path.as_posix()}: no docstring; say what it is, what it is not, who is above and below"


def rooms_say_what_is_public(root: Path) -> Iterator[str]:
    for file in sources(root, LIBRARY):
        is_room = (
            file.path.stem == "__init__"
            and len(file.package) > 1
            and not all(isinstance(each, ast.Expr) for each in file.tree.body)
        )
        if is_room and not {"__all__", "__getattr__"} & _assigned(file):
            yield f"{file.path.as_posix()}: no __all__; list what this room offers to those above"


def _assigned(file: SourceFile) -> set[str]:
    return {
        target.id
        for node in file.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def nothing_is_left_for_later(root: Path) -> Iterator[str]:
    """Comments alone are read: a report about other people's code may well have the word in a string."""
    for file in sources(root, *WRITTEN):
        if not UNFINISHED.search(file.text):
            continue
        for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
            if token.type == tokenize.COMMENT and (found := UNFINISHED.search(token.string)):
                yield f"{file.at(token.start[0])}: {found[0]}; do it, or leave it out"


def nothing_is_a_stub(root: Path) -> Iterator[str]:
    """A function without a body is right in a Protocol and an overload only."""
    for file in sources(root, *SHIPPED):
        excused = _bodiless_by_right(file)
        for function in file.functions:
            if id(function) not in excused and _is_stub(function):
                yield f"{file.at(function.lineno)}: {function.name} does nothing; write it or leave it out"


def _bodiless_by_right(file: SourceFile) -> set[int]:
    protocols = [each for each in file.classes if any("Protocol" in ast.unparse(base) for base in each.bases)]
    members = [member for each in protocols for member in each.body]
    marked = [each for each in file.functions if "overload" in " ".join(map(ast.unparse, each.decorator_list))]
    return {id(each) for each in (*members, *marked)}


def _is_stub(function: Function) -> bool:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return bool(body) and all(map(_is_placeholder, body))


def _is_placeholder(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=value)):
            return value is Ellipsis
        case ast.Raise(exc=ast.Name(id="NotImplementedError") | ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
        case _:
            return False
