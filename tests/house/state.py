"""Rules about state: the blackboard is changed by methods of its own class only.

What a process knows is planned with and stored after each action, and users change it too, so it must be plain how:
the blackboard has methods for that, with names. The other state of a process is set by the room that runs it.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import LIBRARY, sources

ROOMS = ("agents/blackboard",)
_CHANGES = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
)
"""The methods of the standard collections that change them."""
_OBJECTS = frozenset({"blackboard", "listeners"})
"""Attributes that hold an object of ours, whose methods have such names too."""


def state_is_changed_by_its_owner(root: Path) -> Iterator[str]:
    """Assigning to an attribute, or changing a collection that it holds, is for methods of the class that has it."""
    files = [file for room in ROOMS for file in sources(root, f"{LIBRARY}/{room}")]
    bases = {each.name: {ast.unparse(base) for base in each.bases} for file in files for each in file.classes}
    own: dict[str, set[str]] = defaultdict(set)
    for file in files:
        for owner in file.classes:
            own[owner.name] |= {
                each.attr for node in ast.walk(owner) for each in _changed(node) if ast.unparse(each.value) == "self"
            } | {ast.unparse(each.targets[0]) for each in owner.body if isinstance(each, ast.Assign)}
    for file in files:
        owner_of = {id(node): owner.name for owner in file.classes for node in ast.walk(owner)}
        for node in file.nodes:
            owner = owner_of.get(id(node), "")
            may_change = own[owner].union(*(own[base] for base in bases.get(owner, ())))
            for each in _changed(node):
                if each.attr not in may_change:
                    yield f"{file.at(each.lineno)}: changes {ast.unparse(each)}; give its class a method that does so"


def _changed(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement or call changes: it assigns or deletes them, or what their collection holds."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            changed = [*targets]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            changed = [target]
        case ast.Call(func=ast.Attribute(value=ast.Attribute() as holder, attr=name)):
            changed = [holder] if name in _CHANGES and holder.attr not in _OBJECTS else []
        case _:
            return
    while changed:
        each = changed.pop()
        match each:
            case ast.Tuple(elts=parts):
                changed = [*changed, *parts]
            case ast.Subscript(value=ast.Attribute() as holder):
                yield holder
            case ast.Attribute():
                yield each
            case _:
                pass
