"""How each MCP client is given a key: in its file, by a variable that its file names, or by a store of its own.

A file in a project may be committed, so it names a variable wherever the client can read one. A file in the home of a
user holds the key itself, because programs that a desktop starts have no variables of a shell. Above: `connect`; below:
`clients`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from goalport.cli.clients import Client, Entry, Scope
from goalport.server.auth.key_file import KEY_VARIABLE

_BRIDGED: Final = "GOALPORT_AUTHORIZATION"
_ASKED: Final = "goalport-key"


def in_headers(entry: Entry, key: str) -> Entry:
    return {**entry, "headers": {"Authorization": f"Bearer {key}"}}


def in_headers_alone(entry: Entry, key: str) -> Entry:
    """For opencode, which would look for a login first."""
    return {**in_headers(entry, key), "oauth": False}


def by_variable(entry: Entry, _: str) -> Entry:
    """For Codex, which refuses a token in its file."""
    return {**entry, "bearer_token_env_var": KEY_VARIABLE}


def bridged(entry: Entry, key: str) -> Entry:
    """For mcp-remote. Some hosts split an argument at its space, so the header's value comes from the environment."""
    arguments = [*cast("Sequence[str]", entry["args"]), "--header", f"Authorization:${{{_BRIDGED}}}"]
    return {**entry, "args": arguments, "env": {_BRIDGED: f"Bearer {key}"}}


def of_open_webui(entry: Entry, key: str) -> Entry:
    return {**entry, "auth_type": "bearer", "key": key}


@dataclass(frozen=True)
class _Way:
    """The way by which one client gets a key."""

    put: Callable[[Entry, str], Entry] = in_headers
    """The entry with the key, or with what stands for it."""
    reference: str = ""
    """What stands for the key in the file; empty: the client can read no variable there."""
    always: bool = False
    """Whether the reference stands in a user's own file too."""
    inputs: Sequence[Mapping[str, Any]] = ()
    """What the client asks the user for, as its file declares it."""
    then: str = f"Set the variable {KEY_VARIABLE} to the key where {{title}} is started: export {KEY_VARIABLE}=…"


_WAYS: Final[Mapping[str, _Way]] = {
    "claude-desktop": _Way(bridged),
    "claude-code": _Way(reference=f"${{{KEY_VARIABLE}}}"),
    "cursor": _Way(reference=f"${{env:{KEY_VARIABLE}}}"),
    "vscode": _Way(
        reference=f"${{input:{_ASKED}}}",
        always=True,
        inputs=({"type": "promptString", "id": _ASKED, "description": "Key of the goalport server", "password": True},),
        then="VS Code asks for the key when it first starts the server, and keeps it in its own store of secrets.",
    ),
    "codex": _Way(by_variable, reference=KEY_VARIABLE, always=True),
    "gemini": _Way(reference=f"${{{KEY_VARIABLE}}}"),
    "qwen": _Way(reference=f"${{{KEY_VARIABLE}}}"),
    "opencode": _Way(in_headers_alone, reference=f"{{env:{KEY_VARIABLE}}}"),
    "fast-agent": _Way(reference=f"${{{KEY_VARIABLE}}}"),
    "open-webui": _Way(of_open_webui),
}
"""All others take headers, and read no variables in them."""


@dataclass(frozen=True)
class KeyInClient:
    """A client's entry with a key, and what else its file and its user need for it."""

    entry: Entry
    inputs: Sequence[Mapping[str, Any]]
    then: str
    """What the user does with the key; empty: nothing."""
    is_written: bool
    """Whether the entry holds the key itself."""


def key_in(client: Client, entry: Entry, scope: Scope | None, key: str) -> KeyInClient:
    """The entry of a client in a file of this scope with a key."""
    way = _WAYS.get(client.name, _Way())
    if way.reference and (way.always or scope == "project"):
        return KeyInClient(way.put(entry, way.reference), way.inputs, way.then.format(title=client.title), False)
    return KeyInClient(way.put(entry, key), (), "", True)
