"""`Tool` objects for tools of upstream servers: definitions are cleaned, limited and pinned, results are limited.

The limits keep a server from flooding memory and the context of a model. A tool's definition is part of a prompt, so a
server that changes it after people have read it can attack the model. Therefore the first list of a pinned server is
trusted, and tools that are new or changed later are withheld until `trust`. The file of pins is read again when another
process has written it. `upstream_groups` filters and renames these tools; `upstream_server` makes the calls.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from goalport.base.errors import UnknownName
from goalport.base.files import replace_file
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, shortened, validation_problems, visible
from goalport.tools import Tool, ToolResult, identity

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, Tool as Definition
    from pydantic import BaseModel

T = TypeVar("T", bound="BaseModel")
PINS_FILE: Final = "tool-pins.json"
"""The name of the file of pins in the data folder."""
_FIELDS: Final = {"name", "title", "description", "input_schema", "output_schema", "annotations"}
_CHANGED: Final = "it is not as it was when it was trusted"
_NEW: Final = "it is new"
_RECORD: Final = TypeAdapter(dict[str, dict[str, dict[str, str]]])
"""By server and tool: the `trusted` fingerprint, and a different one that was `seen` later, if any."""
_DESCRIPTION_CHARACTERS: Final = 4_000
_TITLE_CHARACTERS: Final = 200
_NAME_CHARACTERS: Final = 256
_SCHEMA_BYTES: Final = 200_000
_SCHEMA_LEVELS: Final = 30
_SCHEMA_TEXTS: Final = ("description", "title")
"""Keywords of a schema whose texts models read."""
_SCHEMA_TEXT_CHARACTERS: Final = 1_000
MOST_OF_RESULT: Final = 1_000_000
"""The most characters of all blocks of one result, including data in base64."""
_MOST_FAULTS: Final = 3
_OTHERS: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""The required members of a page other than its entries."""
LISTS: Final = {
    "tools": ("tools/list", "tool"),
    "resources": ("resources/list", "resource"),
    "resourceTemplates": ("resources/templates/list", "template"),
    "prompts": ("prompts/list", "prompt"),
}
"""The method that requests a list, and the noun for an entry, by the key of the list in a page."""
_ENTRY_BYTES: Final = 10_000
CUT: Final = "[The result was too long, and not all of it is here. Ask for less.]"
"""The text that is added to a result that was too long."""


class Pins:
    """The fingerprints of trusted definitions, in a file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._record: dict[str, dict[str, dict[str, str]]] = {}
        self._read_at: object = None
        self._unreadable = ""

    @property
    def stamp(self) -> tuple[int, int] | None:
        """Modification time and inode of the file, which change when it is written; None: there is no file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def withheld(self, server: str, prints: Mapping[str, str]) -> Mapping[str, str]:
        """The tools that must not be used, with the reason. Records `prints`; the first list of a server is trusted."""
        self._load()
        if self._unreadable:
            return dict.fromkeys(prints, self._unreadable)
        if not prints:
            return {}
        entries = self._record.get(server)
        if entries is None:
            now = {name: {"trusted": found} for name, found in prints.items()}
        else:
            now = {name: dict(entry) for name, entry in entries.items()}
            for name, found in prints.items():
                entry = now.setdefault(name, {})
                now[name] = {"trusted": found} if entry.get("trusted") == found else {**entry, "seen": found}
        if now != entries:
            self._record[server] = now
            try:
                self._save()
            except OSError as error:
                # Without the file, nothing is trusted; the next call reads the file again.
                self._read_at = None
                reason = f"what is trusted cannot be written to {self.path} ({error.strerror or type(error).__name__})"
                return dict.fromkeys(prints, reason)
        return {name: _CHANGED if "trusted" in now[name] else _NEW for name in prints if "seen" in now[name]}

    def why_untrusted(self, server: str, tool: str, found: str) -> str:
        """Why a tool with this fingerprint must not be used; empty: it may be. Records nothing, unlike `withheld`."""
        self._load()
        if self._unreadable or server not in self._record:
            return self._unreadable
        trusted = self._record[server].get(tool, {}).get("trusted")
        return "" if trusted == found else _NEW if trusted is None else _CHANGED

    def trust(self, server: str, tool: str) -> None:
        """Trust the definition of a tool that was seen last. Raises `UnknownName` for a tool that was never listed."""
        self._load()
        entries = self._record.get(server)
        if entries is None:
            raise UnknownName("pinned server", server, self._record)
        if tool not in entries:
            raise UnknownName("pinned tool", tool, entries)
        entry = entries[tool]
        entries[tool] = {"trusted": entry.get("seen", entry.get("trusted", ""))}
        self._save()

    def _load(self) -> None:
        stamp = self.stamp
        if stamp is None or stamp != self._read_at:
            self._record, reason = {}, ""
            try:
                self._record = {} if stamp is None else _RECORD.validate_json(self.path.read_bytes())
            except ValidationError:
                reason = "holds something else"
            except OSError as error:
                reason = f"cannot be read ({type(error).__name__})"
            remove = f"what is trusted is not known: {self.path} {reason}. Remove it to trust everything anew."
            self._unreadable = remove if reason else ""
        self._read_at = stamp

    def _save(self) -> None:
        replace_file(self.path, json.dumps(self._record, indent=2, sort_keys=True))
        self._read_at = self.stamp


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A request to call a tool, read a resource or get a prompt; the result of each is a `ToolResult`."""

    own_name: str
    """The server's name of the tool or prompt, or the URI of the resource."""
    arguments: Mapping[str, object]
    name: str = ""
    """The name that the caller knows."""
    repeatable: bool = False
    """Whether calling it twice does no harm: it is read-only or idempotent."""
    rename: Callable[[str], str] = identity
    """Converts the server's name of any of its tools to the name that the caller knows."""
    kind: Literal["tool", "resource", "prompt"] = "tool"

    @property
    def shown(self) -> str:
        return self.name or self.own_name


CallTool = Callable[[ToolRequest], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class _Handler:
    """Calls a tool of a server: `request` is complete except for the arguments."""

    call: CallTool
    request: ToolRequest

    def renamed(self, name: str) -> "_Handler":
        return replace(self, request=replace(self.request, name=name))

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        return await self.call(replace(self.request, arguments=arguments))


@dataclass(frozen=True)
class UpstreamTool:
    """One tool of a server: its definition, and a `Tool` with the name that the server uses."""

    server: str
    definition: "Definition"
    tool: Tool

    @property
    def name(self) -> str:
        """The server's name of the tool."""
        return self.definition.name

    @property
    def key(self) -> tuple[str, str]:
        """The server, and its name of the tool."""
        return self.server, self.definition.name

    def named(self, rename: Callable[[str], str]) -> Tool:
        """The tool renamed by `rename`, which also renames the other tools of its server in texts of results."""
        name, handler = rename(self.name), self.tool.handler
        assert isinstance(handler, _Handler)
        request = replace(handler.request, name=name, rename=rename)
        return replace(self.tool, name=name, handler=replace(handler, request=request))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of name, texts, schemas and annotations, which models and hosts read, as sorted JSON."""
        plain = self.definition.model_dump(mode="json", by_alias=True, include=_FIELDS, exclude_none=True)
        written = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return f"v2:sha256:{hashlib.sha256(written.encode()).hexdigest()}"


def valid_entries(page: Mapping[str, Any], key: str, revision: str, most: int) -> tuple[list[Any], list[str]]:
    """The entries in a page of a list that are valid in a revision of MCP, and a sentence for each invalid entry.

    `key` is one of `LISTS`. If any entry is invalid, the page is cut at `most` entries.
    """
    from mcp_types import methods

    method, what = LISTS[key]

    def faults_of(page: dict[str, Any]) -> tuple[str, ...]:
        try:
            methods.parse_server_result(method, revision, page)
        except ValidationError as error:
            return validation_problems(error, page, repeated=False)
        return ()

    if not faults_of({**page}):
        return page[key], []
    kept: list[Any] = []
    rejected: list[str] = []
    for number, each in enumerate(page[key][:most], 1):
        if faults := faults_of({key: [each], **_OTHERS}):
            name = cast("dict[str, object]", each).get("name") if isinstance(each, dict) else None
            called = repr(cleaned(name, 80)) if isinstance(name, str) else f"number {number} of its list"
            lines = (line.removeprefix(f"{key}[0]").lstrip(".: ") for line in shortened(faults, _MOST_FAULTS))
            rejected.append(f"the {what} {called} is left out: {'; '.join(lines)}")
        else:
            kept.append(each)
    return kept, rejected


def tools_of_list(
    server: str, definitions: "Iterable[Definition]", call: CallTool, before: Iterable[UpstreamTool] = ()
) -> tuple[tuple[UpstreamTool, ...], tuple[str, ...]]:
    """The tools of a server's list, and a sentence for each tool that cannot be offered.

    A tool whose definition has not changed is the same object as in `before`, the tools of the last list.
    """
    known = {each.name: each for each in before}
    found: dict[str, UpstreamTool] = {}
    rejected: list[str] = []
    for each in definitions:
        same = known.get(each.name)
        reason = "another one has the same name" if each.name in found else ""
        if not reason and same is not None and same.definition == each:
            found[each.name] = same
        elif not reason:
            try:
                found[each.name] = UpstreamTool(server, each, _tool(server, each, call))
            except ValueError as error:
                reason = str(error)
        if reason:
            rejected.append(f"the tool {cleaned(each.name, 80)!r} is left out: {reason}")
    return tuple(found.values()), tuple(rejected)


def _tool(server: str, definition: "Definition", call: CallTool) -> Tool:
    """The `Tool` for a definition. Raises `ValueError` if it cannot be offered."""
    name, hints = definition.name, definition.annotations
    if not name.strip() or {"\n", "\t"} & {*name} or len(name) > _NAME_CHARACTERS or cleaned(name, len(name)) != name:
        raise ValueError("its name is empty, too long, or has characters that cannot be seen")
    if definition.execution is not None and definition.execution.task_support == "required":
        raise ValueError("it can be called as a task only, which goalport does not do")
    schemas = [_clean(each or {}, _SCHEMA_LEVELS) for each in (definition.input_schema, definition.output_schema)]
    if any(len(to_json(each)) > _SCHEMA_BYTES for each in schemas):
        raise ValueError(f"a schema of more than {_SCHEMA_BYTES:,} bytes")
    repeatable = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
    title = definition.title or (hints.title if hints else None) or ""
    return Tool(
        name=name,
        description=hide_known(cleaned(definition.description or title or name, _DESCRIPTION_CHARACTERS)),
        input_schema=schemas[0],
        handler=_Handler(call, ToolRequest(name, {}, name, repeatable)),
        title=hide_known(cleaned(title, _TITLE_CHARACTERS)),
        output_schema=schemas[1] or None,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        idempotent=hints.idempotent_hint if hints else None,
        open_world=hints.open_world_hint if hints else None,
        # The server checks its arguments, and its result tells the model what is wrong.
        checks_arguments=True,
        server=server,
    )


def reader_of(server: str, call: CallTool) -> UpstreamTool:
    """The tool that lists and reads the resources of a server, by `call`."""
    from mcp_types import Tool as Definition, ToolAnnotations

    described = (
        f"Read a resource of the server {server!r} by its URI, as the list of its resources or a link in a result has "
        "it. Without a URI you get that list."
    )
    uri = {"type": "string", "description": "The URI; leave it out for the list"}
    definition = Definition(
        name=f"read_resource_of_{server}",
        description=described,
        input_schema={"type": "object", "properties": {"uri": uri}},
        annotations=ToolAnnotations(read_only_hint=True),
    )
    return UpstreamTool(server, definition, _tool(server, definition, call))


def cleaned_list(listed: Iterable[T]) -> tuple[T, ...]:
    """Resources, templates or prompts with cleaned texts and without icons.

    Entries are omitted if they are too deep or too long, or their URI or name is a duplicate, empty or not printable.
    """
    found: dict[str, T] = {}
    for each in listed:
        with suppress(ValueError):
            plain = each.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"icons", "meta"})
            address = next(plain[key] for key in ("uri", "uriTemplate", "name") if key in plain)
            clean = _clean(plain, _SCHEMA_LEVELS)
            if address.strip() and address.isprintable() and len(to_json(clean)) <= _ENTRY_BYTES:
                found.setdefault(address, each.model_validate(clean))
    return tuple(found.values())


def uris_of(template: str) -> Callable[[str], bool]:
    """A function that says whether a URI matches a URI template; no URI matches an invalid template."""
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    try:
        form = UriTemplate.parse(template)
    except InvalidUriTemplate:
        return lambda _: False
    return lambda uri: form.match(uri) is not None


def _clean(value: object, depth: float = inf) -> Any:
    """JSON data without invisible characters. With a `depth`, descriptions and titles also lose secrets and are cut.

    Raises `ValueError` if the data is nested more deeply.
    """
    if not depth:
        raise ValueError(f"a schema of more than {_SCHEMA_LEVELS} levels")
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        texts = () if depth == inf else _SCHEMA_TEXTS
        # A title is a text; a property may be called `title` too, and then it is a schema.
        return {
            visible(name): hide_known(cleaned(member, _SCHEMA_TEXT_CHARACTERS))
            if name in texts and isinstance(member, str)
            else _clean(member, depth - 1)
            for name, member in members.items()
        }
    if isinstance(value, list | tuple):
        return [_clean(each, depth - 1) for each in cast("Sequence[object]", value)]
    return visible(value) if isinstance(value, str) else value


def result_of(result: "CallToolResult", note: str = "") -> ToolResult:
    """The result of a call: the server's content, cut at the limit, then our sentence `note`."""
    from mcp_types import TextContent

    blocks: list[ContentBlock] = []
    left, cut = MOST_OF_RESULT, False
    for each in result.content:
        # The size of a block is that of its JSON, but with text or data counted without escapes.
        inner: Any = getattr(each, "resource", each)
        text = getattr(inner, "text", None)
        payloads = (text, getattr(inner, "data", None), getattr(inner, "blob", None))
        payload = next((one for one in payloads if isinstance(one, str)), "")
        over = len(each.model_dump_json()) - len(to_json(payload).decode()) + len(payload) - left
        if over <= 0:
            blocks.append(each)
            left = -over
            continue
        cut = True
        if isinstance(text, str) and over < len(text):
            short = inner.model_copy(update={"text": text[:-over]})
            blocks.append(short if inner is each else each.model_copy(update={"resource": short}))
            left = 0
    blocks = [each.model_validate(_clean(each.model_dump(by_alias=True))) for each in blocks]
    structured: object = _clean(result.structured_content)
    data = "" if structured is None else to_json(structured).decode()
    if len(data) > MOST_OF_RESULT:
        structured, cut = None, True
    elif data and all(each.type == "text" and not each.text for each in blocks):
        blocks = [TextContent(type="text", text=data)]
    blocks.extend(TextContent(type="text", text=each) for each in (CUT if cut else "", note) if each)
    first = blocks[0] if blocks else None
    # A first block that is only text becomes the text of the result; other blocks stay in order.
    plain = isinstance(first, TextContent) and first.annotations is None and first.meta is None
    return ToolResult(
        text=first.text if plain and isinstance(first, TextContent) else "",
        blocks=tuple(blocks[1:] if plain else blocks),
        artifact=structured,
        is_error=result.is_error,
        structured=cast("dict[str, object]", structured) if isinstance(structured, dict) else None,
    )
