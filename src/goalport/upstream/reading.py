"""`mcp_config.json`: the servers that are used, and the tool groups made of their tools.

Takes the files of Claude Desktop, Cursor and Claude Code (`mcpServers`), of VS Code (`servers` and `inputs`), and a
bare table of servers, and beside them `toolGroups`. Nothing that is wrong raises: it becomes a line of `problems`, and
the rest is usable.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, cast

from goalport.tools import Permission
from goalport.upstream.config import Approval, GroupConfig, McpConfig, NamingConfig
from goalport.upstream.places import read_json
from goalport.upstream.section import Notes, Section, nearest
from goalport.upstream.servers import read_server
from goalport.upstream.variables import Variables

__all__ = ["read_config"]

_SERVERS: Final = ("mcpServers", "servers")
_GROUPS: Final = "toolGroups"
_REACHED_BY: Final = ("command", "url", "serverUrl", "httpUrl")
"""What an entry has that is about a server."""
Style = Literal["identity", "lower", "upper", "snake"]
_APPROVALS: Final = ("never", "always", "destructive")
_STYLES: Final = ("identity", "lower", "upper", "snake")


def read_config(path: Path, environment: Mapping[str, str]) -> McpConfig:
    """Read a file; there need not be one. Variables in it are taken from `environment`."""
    written = read_json(path)
    notes = Notes(written, list(written.problems))
    variables = Variables(environment, path.parent.absolute())
    if not written.is_object:
        if not written.problems:
            notes.add(f"it should be an object with {_SERVERS[0]} and {_GROUPS}.", ())
        return McpConfig(problems=tuple(notes.problems), is_readable=False)
    root = Section(written.data, (), notes, variables)
    declared = dict(_declared(root))
    servers = {name: read_server(name, each) for name, each in declared.items()}
    groups = {role: _group(role, each, tuple(declared)) for role, each in _roles(root)}
    root.ignore("inputs", "$schema")
    root.tell_strangers()
    usable = {name: each for name, each in servers.items() if each is not None}
    return McpConfig(usable, groups, tuple(notes.problems))


def _declared(root: Section) -> Iterator[tuple[str, Section]]:
    """Each entry for a server, wherever they are gathered."""
    seen: set[str] = set()
    root.ignore(*_SERVERS)
    gathered = any(root.get(key)[0] is not None for key in _SERVERS)
    for name, section in [each for key in _SERVERS for each in root.sections(key)] if gathered else _bare(root):
        if name in seen:
            section.notes.add(f"there are two servers called {name!r}; the first is used.", section.at)
        elif not name.strip():
            section.notes.add("a server without a name is left out.", section.at)
        else:
            seen.add(name)
            yield name, section


def _bare(root: Section) -> list[tuple[str, Section]]:
    """The entries of a file that has nothing around them."""
    root.ignore(_GROUPS, "inputs")
    found = root.sections()
    if not any(each.get(*_REACHED_BY)[0] is not None for _, each in found):
        return []
    root.ignore(*(name for name, _ in found))
    return found


def _roles(root: Section) -> Iterator[tuple[str, Section]]:
    for role, section in root.sections(_GROUPS):
        if role.strip():
            yield role, section
        else:
            section.notes.add("a tool group without a role is left out.", section.at)


def _group(role: str, section: Section, declared: tuple[str, ...]) -> GroupConfig:
    """One group. Which servers it names that are not there is noted."""
    servers = section.texts("servers", "server")
    for number, name in enumerate(servers):
        if name not in declared:
            at = (*section.at, "servers", number)
            section.notes.add(
                f"tool group {role!r} names the server {name!r}, which is not there. {nearest(name, declared)}", at
            )
    approvals = cast("dict[str, Approval]", section.choices("approve", _APPROVALS, "always"))
    include = section.texts("include", "includes", "tools")
    exclude = section.texts("exclude", "excludes")
    # Nobody knows what was to be kept away.
    is_unsafe = bool(section.mistakes)
    found = GroupConfig(
        role,
        tuple(dict.fromkeys(servers)) or declared,
        description=section.text("description"),
        include=include,
        exclude=("*",) if is_unsafe else exclude,
        naming=_naming(section.section("naming"), role),
        permissions=frozenset(_permissions(section)),
        approve=approvals.pop("*", "never"),
        approve_tools=approvals,
        provider=section.text("provider"),
        version=section.text("version") or GroupConfig.version,
        pin=section.flag("pin", careful=True),
        exports=section.flag("exports"),
    )
    section.tell_strangers()
    for message, at in section.mistakes:
        section.notes.add(f"tool group {role!r}{' has no tools' if is_unsafe else ''}: {message}", at)
    return found


def _naming(section: Section | None, role: str) -> NamingConfig:
    if section is None:
        return NamingConfig()
    found = NamingConfig(
        prefix=section.text("prefix"),
        suffix=section.text("suffix"),
        rename=section.table("rename"),
        style=cast("Style", section.word("style", _STYLES) or "identity"),
    )
    section.tell_strangers()
    for message, at in section.mistakes:
        section.notes.add(f"naming of the tool group {role!r}: {message}", at)
    return found


def _permissions(section: Section) -> Iterator[Permission]:
    known = {each.value: each for each in Permission}
    for word in section.texts("permissions"):
        if word.lower() in known:
            yield known[word.lower()]
        else:
            section.notes.add(f"unknown permission {word!r}. {nearest(word, known)}", (*section.at, "permissions"))
