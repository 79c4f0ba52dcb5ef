"""Rules about what may import what: the floors of the library, and what an agent may lean on.

The table is the plan of the house. A room that is not in it has no floor yet: place it here, and say why in the change.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.house.tree import LIBRARY, SHIPPED, Imported, SourceFile, imported, sources

WINGS = {
    "cli": "cli",
    "server": "server / server.site / server.doors / server.doors.mcp server.doors.rest server.doors.openai"
    " server.doors.agui server.doors.a2a / server.web / server.auth / server.publish server.workers",
    "runtime": "runtime / runtime.platform / runtime.workflow runtime.chat runtime.autonomy / runtime.process"
    " / runtime.ai",
    "workspace": "workspace / workspace.settings",
    "knowledge": "knowledge / knowledge.rag knowledge.references knowledge.skills / knowledge.documents",
    "store": "store",
    "tools": "tools.upstream / tools",
    "agents": "agents / agents.domain / agents.plan agents.blackboard",
    "models": "models / models.llm / models.prompts",
    "base": "base / base.observe base.introspection base.sealing / base.bounded_answers base.errors base.events"
    " base.caller base.colours base.cores base.files base.handshake base.hosts base.secrecy"
    " base.strict_json / base.words base.lazy base.type_expressions",
}
"""The wings of the library from the highest to the lowest, and the floors of rooms in each, from the highest too."""
FLOORS = {
    room: -number for number, rooms in enumerate(" / ".join(WINGS.values()).split(" / ")) for room in rooms.split()
}
ABOVE = {"": 1, "__main__": 1, "chat": 1, "errors": 1, "events": 1, "workflow": 1, "testing": 2}
"""The package itself, `python -m goalport` and the modules that only offer a room to users import every room; testing
may use them all, and nothing imports it."""

SDK_ROOMS = frozenset({"server.auth", "server.doors.mcp", "tools.upstream", "testing"})
"""The rooms that send and receive MCP messages, and the one that reads the token of a request. All others know the
types of the protocol (`mcp_types`) alone."""


def room_of(file: SourceFile) -> str:
    """The room of the library that a file belongs to; the package's own `__init__` is the empty name."""
    inside = file.path.relative_to(LIBRARY)
    return _room_at([*inside.parts[:-1], *([] if inside.stem == "__init__" else [inside.stem])])


def _room_at(parts: Sequence[str]) -> str:
    """The innermost room at a place; the wing or module where there is none."""
    places = (".".join(parts[:depth]) for depth in range(3, 0, -1))
    return next((each for each in places if each in FLOORS), parts[0] if parts else "")


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
                yield f"{file.at(each.line)}: {_named(room)} imports {_named(target or '')}, which is not below it"


def _target(each: Imported) -> str | None:
    package, _, rest = each.name.partition(".")
    if package != "goalport" or rest == "__version__":
        return None
    room = _room_at(rest.split("."))
    return room if room in FLOORS | ABOVE else ""


def _named(room: str) -> str:
    return room or "the package itself"


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
    providers = _providers()
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


_providers = cache(packages_distributions)


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
