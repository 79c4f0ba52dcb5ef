"""Rules about what may import what: the floors of the library, and what an agent may lean on.

The table is the plan of the house. A room that is not in it has no floor yet: place it here, and say why in the change.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.house.tree import LIBRARY, SHIPPED, Imported, SourceFile, imported, sources

FLOORS = {
    room: floor
    for floor, rooms in {
        13: "cli",
        12: "site",
        11: "serve rest openai_api agui console",
        10: "web",
        9: "auth",
        8: "publish",
        7: "platform workers",
        6: "workflow chat autonomy workspace",
        5: "process settings",
        4: "ai",
        3: "upstream references rag skills store",
        2: "domain tools llm documents",
        1: "plan blackboard prompts observe introspection sealing postgres",
        0: "bounded_answers errors events caller colours cores files garbage handshake hosts secrecy strict_json",
        -1: "words lazy type_expressions",
    }.items()
    for room in rooms.split()
}
ABOVE = {"": 14, "__main__": 14, "testing": 15}
"""The package itself and `python -m goalport` import every room; testing may use them all, and nothing imports it."""

SDK_ROOMS = frozenset({"auth", "serve", "upstream", "testing"})
"""The rooms that send and receive MCP messages, and the one that reads the token of a request. All others know the
types of the protocol (`mcp_types`) alone."""


def room_of(file: SourceFile) -> str:
    """The folder or module of the library that a file belongs to; the package's own `__init__` is the empty name."""
    inside = file.path.relative_to(LIBRARY)
    first = inside.parts[0] if len(inside.parts) > 1 else inside.stem
    return "" if first == "__init__" else first


def imports_point_downwards(root: Path) -> Iterator[str]:
    """A room imports rooms on lower floors only."""
    floors = FLOORS | ABOVE
    unplaced = {room_of(file): file for file in sources(root, LIBRARY) if room_of(file) not in floors}
    for room, file in unplaced.items():
        yield f"{file.path.as_posix()}: {room} is no room yet; place it on a floor in tests/house/floors.py"
    for file in sources(root, LIBRARY):
        room = room_of(file)
        for each in imported(file):
            target = _target(each)
            if target not in {None, room} and floors.get(room, 0) <= floors.get(target or "", ABOVE[""]):
                yield f"{file.at(each.line)}: {_on_floor(room)} imports {_on_floor(target or '')}; only lower floors"


def _target(each: Imported) -> str | None:
    package, _, rest = each.name.partition(".")
    if package != "goalport" or rest == "__version__":
        return None
    room = rest.partition(".")[0]
    return room if room in FLOORS | ABOVE else ""


def _on_floor(room: str) -> str:
    return f"{room or 'the package itself'} (floor {(FLOORS | ABOVE).get(room, 'unknown')})"


def the_sdk_stays_where_messages_go(root: Path) -> Iterator[str]:
    """What is published, and the doors beside MCP, do not depend on how the MCP SDK sends messages."""
    for file in sources(root, LIBRARY):
        room = room_of(file)
        for each in imported(file) if room not in SDK_ROOMS else ():
            if each.name.partition(".")[0] == "mcp":
                yield f"{file.at(each.line)}: {room} imports {each.name}; only {', '.join(sorted(SDK_ROOMS))} may"


def nothing_of_ours_hides_under_type_checking(root: Path) -> Iterator[str]:
    """An import for the type checker alone is an upward edge that nobody sees; declare a Protocol below instead."""
    for file in sources(root, *SHIPPED):
        for node in file.nodes:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                for each in imported(file, node):
                    if each.name.partition(".")[0] in {"goalport", "goalport_workspace", *file.package[:1]}:
                        yield f"{file.at(each.line)}: {each.name} under TYPE_CHECKING; declare a Protocol instead"


def agents_stand_alone(root: Path) -> Iterator[str]:
    """An agent can be copied to another workspace: it imports nothing else of this one."""
    declared = _declared(root)
    providers = packages_distributions()
    for file in sources(root, "agents"):
        own = file.path.parts[1].removesuffix(".py")
        for each in imported(file):
            top, _, rest = each.name.removeprefix("goalport_workspace.").partition(".")
            if top == "agents" and rest.partition(".")[0] == own:
                continue
            if top not in sys.stdlib_module_names | {"goalport"} and not declared.intersection(
                map(_normal, providers.get(top, ()))
            ):
                yield (
                    f"{file.at(each.line)}: agent {own} imports {each.name}; it may import itself, the "
                    "standard library, the dependencies of pyproject.toml and goalport (tools are named by group)"
                )


def _declared(root: Path) -> set[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()
    requirements = [*project.get("dependencies", ()), *(each for extra in extras for each in extra)]
    return {_normal(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in requirements}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def workspace_folders_are_no_packages(root: Path) -> Iterator[str]:
    """A folder with an `__init__.py` would be imported as `agents` or `tools`, and clash with packages of that name."""
    for name in ("agents", "tools"):
        if (root / name / "__init__.py").exists():
            yield f"{name}/__init__.py: remove it; the workspace is imported under the name goalport_workspace"
