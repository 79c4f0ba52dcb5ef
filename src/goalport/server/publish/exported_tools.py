"""Exported tools as MCP tools: functions and methods of the workspace, and the tools of exported groups.

A call runs the tool directly, for the caller of the request and without a process or a plan. `goalport.tools` reads
functions and validates arguments; this module makes the MCP definitions and results, and decides which tools of groups
are published. A tool of a group never gets the name of a tool of this server. If two groups have tools of one name, the
group that had the name before keeps it, even while its tool cannot be called. `publication` is above.
Only this module of the room catches every exception that users' types raise. `doors.mcp.state` does so for handlers.
"""

import logging
import platform as machine
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic_core import PydanticSerializationError

from goalport import __version__, tools
from goalport.base.errors import GoalportError, Signal, ToolError
from goalport.base.words import error_summary, first_line
from goalport.runtime.platform import AgentPlatform
from goalport.server.publish.calls import logged
from goalport.server.publish.handle import LARGE, with_alternatives
from goalport.server.publish.output import (
    WrittenResult,
    blocks_of,
    may_be_large,
    refuse_bytes,
    text_block,
    without_secrets,
)
from goalport.server.publish.portability import name_fault, portable
from goalport.tools.upstream import GroupConfig
from goalport.tools.upstream.connection import Listing
from goalport.tools.upstream.tool import CUT, uris_of
from goalport.tools.upstream.upstream_groups import ToolServer, final_name

if TYPE_CHECKING:
    from mcp_types import GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool, ToolAnnotations

_RULE: Final = "~" * 48
_STARTED: Final = datetime.now(UTC)
T = TypeVar("T")
_log = logging.getLogger(__name__)


def read_or_note(read: Callable[[], T], problems: list[str], told: str = "") -> T | None:
    """Return what `read` returns. If it raises any exception, append the reason to `problems` and return None.

    `told` is put before the reason.
    """
    try:
        return read()
    except Exception as bug:
        _log.debug("A declaration cannot be read.", exc_info=True)
        problems.append(told + first_line(str(bug) if isinstance(bug, GoalportError) else error_summary(bug)))
        return None


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """One exported tool with its MCP definition."""

    tool: "Tool"
    exported: tools.Tool

    @classmethod
    def of(cls, exported: tools.Tool) -> "FunctionTool":
        """The exported tool with its MCP definition. Raises `TypeError` if its output schema holds bytes."""
        from mcp_types import Tool

        schema = None
        if exported.output_schema is not None:
            refuse_bytes(dict(exported.output_schema))
            schema = portable(exported.output_schema)
            # The schema of another server's tool does not know that a large result is replaced by a link here.
            if exported.server and may_be_large(schema):
                schema = with_alternatives(schema, LARGE)
        tool = Tool(
            name=exported.name,
            title=exported.title or None,
            description=exported.description,
            input_schema=portable(exported.input_schema),
            output_schema=schema,
            annotations=annotations_of(exported),
        )
        return cls(tool, exported)

    async def call(self, arguments: Mapping[str, object], site: tools.CallSite, *, tells_errors: bool) -> WrittenResult:
        """Run the tool and return its result; bad arguments and failures become error results for the model.

        `site` has the caller, and receives the events of the tool.
        """
        return self.written(await self.result(arguments, site), tells_errors=tells_errors)

    async def result(self, arguments: Mapping[str, object], site: tools.CallSite) -> tools.ToolResult:
        """Run the tool: the first half of `call`."""
        try:
            with tools.calling_from(site):
                return await self.exported.call(arguments)
        except Signal as signal:  # signals steer a process, and this call has none
            return tools.ToolResult.of_error(str(signal))

    def written(self, result: tools.ToolResult, *, tells_errors: bool) -> WrittenResult:
        """The result as it is sent: the second half of `call`."""
        if result.error is not None:
            told = logged(self.tool.name, result.error, tells_errors=tells_errors)
            return WrittenResult.of([text_block(told)], is_error=True)
        content, is_error = without_secrets(blocks_of(result)), result.is_error
        if not is_error and self.tool.output_schema is not None and result.structured is None:
            content.append(text_block("The tool did not give the structured result that it promises."))
            is_error = True
        try:
            structured = None if is_error else without_secrets(result.structured)
            return WrittenResult.of(content, structured, is_error=is_error)
        except PydanticSerializationError as error:
            told = f"The result of {self.tool.name} cannot be written: {error}."
            return WrittenResult.of([text_block(told)], is_error=True)


def annotations_of(hints: Any) -> "ToolAnnotations | None":
    """The MCP annotations for the hints of an export or a tool; None if it gives no hints."""
    from mcp_types import ToolAnnotations

    names = ("read_only", "destructive", "idempotent", "open_world")
    known = {f"{name}_hint": value for name in names if (value := getattr(hints, name)) is not None}
    return ToolAnnotations(**known) if known else None


def banner(server: str, description: str = "") -> tools.Tool:
    """The tool `helloBanner`, which answers with a few lines about the server named `server`.

    It is the only exported tool that comes with goalport.
    """
    lines = [
        _RULE,
        f"Goalport MCP server {server!r}, asynchronous",
        *([description] if description else []),
        f"Goalport {__version__}",
        f"{machine.python_implementation()} {machine.python_version()} on {machine.system()} {machine.machine()}",
        f"Up since {_STARTED:%Y-%m-%d %H:%M:%S} UTC",
        _RULE,
    ]
    answer = tools.ToolResult.of({"type": "banner", "mode": "ASYNC", "lines": lines})

    async def say(_: Mapping[str, object]) -> tools.ToolResult:
        return answer

    return tools.Tool(
        name="helloBanner",
        title="Hello",
        description="Say which goalport server this is and since when it runs",
        input_schema={"type": "object", "properties": {}},
        handler=say,
        read_only=True,
        idempotent=True,
        open_world=False,
    )


@dataclass(frozen=True, slots=True)
class GroupTools:
    """The tools of one exported group at one moment, and what else its servers publish."""

    present: tuple[tools.Tool, ...] = ()
    absent: tuple[tools.Tool, ...] = ()
    """Tools that belong to the group and cannot be called now."""
    listings: tuple[tuple[ToolServer, Listing], ...] = ()
    """The resources and prompts of its servers that are published too."""


@dataclass(frozen=True, slots=True)
class PublishedGroups:
    """Which tools of exported groups are published, which are absent, and which could not be published."""

    groups: Mapping[str, GroupTools]
    """The groups from which this was made, by role."""
    present: dict[str, FunctionTool] = field(default_factory=dict[str, FunctionTool])
    absent: dict[str, FunctionTool] = field(default_factory=dict[str, FunctionTool])
    """Tools that are not listed, since their server is down or they are not trusted; a call gets that reason."""
    roles: dict[str, str] = field(default_factory=dict[str, str])
    """The role of the group that each name belongs to, even while its tool is absent."""
    problems: list[str] = field(default_factory=list[str])
    """Tools that are not published, and why."""


def exported_groups(platform: AgentPlatform) -> Mapping[str, GroupTools]:
    """What exported groups have now, by role."""
    groups = {each.role: GroupTools(each.tools) for each in platform.groups.groups if each.exports}
    for role, config in platform.upstream.groups.config.items():
        if config.exports:
            present = groups[role].present if role in groups else ()
            listings = tuple(platform.upstream.groups.listings(role))
            groups[role] = GroupTools(present, platform.groups.absent(role), listings)
    return dict(sorted(groups.items()))


def publish_groups(
    groups: Mapping[str, GroupTools], taken: Mapping[str, str], before: PublishedGroups | None
) -> PublishedGroups:
    """Publish tools of groups under names that are not in `taken` (name to owner); reuse unchanged ones of `before`."""
    published, claims = PublishedGroups(groups), dict[str, list[tuple[str, tools.Tool, bool]]]()
    before = before or PublishedGroups({})
    for role, group in groups.items():
        for is_absent, members in ((False, group.present), (True, group.absent)):
            for tool in members:
                claims.setdefault(tool.name, []).append((role, tool, is_absent))
    for name, claimed in claims.items():
        winner = next((each for each in claimed if each[0] == before.roles.get(name)), claimed[0])
        for claim in claimed:
            role, tool, is_absent = claim
            told = f"The tool {name} of the tool group {role} is not published: "
            owner = taken.get(name) or ("" if claim is winner else f"the tool {name} of the tool group {winner[0]}")
            if owner:
                fault = f"{owner} is called so too. Rename it in the naming of its group."
            elif tool.may_ask:
                fault = (
                    "a person may have to be asked for its calls, which only a process can do, and a client's call has"
                    " none."
                )
            else:
                fault = name_fault(name)
            if fault:
                published.problems.append(told + fault)
                continue
            made = before.present.get(name) or before.absent.get(name)
            if made is None or made.exported is not tool:
                made = read_or_note(partial(FunctionTool.of, tool), published.problems, told)
            if made is not None:
                published.roles[name] = role
                (published.absent if is_absent else published.present)[name] = made
    return published


Handler = Callable[..., Awaitable[Any]]
"""Takes the SDK's request context and the parameters of a request, and returns the SDK's result."""


@dataclass(frozen=True, slots=True)
class RawTool:
    """A tool whose definition is published unchanged."""

    tool: "Tool"
    handler: Handler
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: those that the tool's annotations ask for."""


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt whose definition is published unchanged."""

    prompt: "Prompt"
    handler: Handler
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None, here and below: the scope to read."""


@dataclass(frozen=True, slots=True)
class RawResource:
    """A resource at one URI."""

    resource: "Resource"
    handler: Handler
    scopes: Sequence[str] | None = None

    @property
    def address(self) -> str:
        return self.resource.uri


@dataclass(frozen=True, slots=True)
class RawTemplate:
    """Resources at all URIs of one URI template."""

    template: "ResourceTemplate"
    handler: Handler
    matches: Callable[[str], object]
    """Returns a true value for a URI that matches the template."""
    scopes: Sequence[str] | None = None

    @property
    def address(self) -> str:
        return self.template.uri_template


_SCHEME: Final = re.compile(r"(?!goalport:)[A-Za-z][A-Za-z0-9+.-]*:")
"""The scheme of a URI, but not `goalport:`, under which this server has resources itself."""


def upstream_listings(
    groups: Mapping[str, GroupTools], config: Mapping[str, GroupConfig]
) -> Iterator[RawPrompt | RawResource | RawTemplate]:
    """The prompts, resources and resource templates that the servers of exported groups publish.

    Each scheme of a listed URI also gets a template for all its URIs: results may link to unlisted resources.
    If several servers use a scheme, the first one is read. These templates come last, so that they hide no others.
    """
    from mcp_types import ResourceTemplate

    schemes: dict[str, RawTemplate] = {}
    for role, group in groups.items():
        for server, listing in group.listings:
            naming, scopes, read = config[role].naming, config[role].scopes, partial(_read, server)
            for each in listing.prompts:
                named = each.model_copy(update={"name": final_name(each.name, naming)})
                yield RawPrompt(named, partial(_prompt, server, each.name), scopes)
            words = f"Any resource of the server {server.name!r}, such as one that a result has a link to"
            for uri, each in (
                *((each.uri, each) for each in listing.resources),
                *((each.uri_template, each) for each in listing.templates),
            ):
                if scheme := _SCHEME.match(uri):
                    begin = scheme[0]
                    any_ = ResourceTemplate(uri_template=f"{begin}{{+rest}}", name=server.name, description=words)
                    schemes.setdefault(begin, RawTemplate(any_, read, re.compile(re.escape(begin)).match, scopes))
                    if isinstance(each, ResourceTemplate):
                        yield RawTemplate(each, read, uris_of(uri), scopes)
                    else:
                        yield RawResource(each, read, scopes)
    yield from schemes.values()


async def _read(server: ToolServer, _: object, params: Any) -> "ReadResourceResult":
    from mcp_types import ReadResourceResult

    uri = str(params.uri)
    result = await server.fetch("resource", uri, {})
    contents = [each.resource for each in result.blocks if each.type == "resource"]
    if any(each.type == "text" and each.text == CUT for each in result.content):
        raise ToolError(f"{uri[:200]} is too long to be passed on.")
    written = ReadResourceResult(contents=contents).model_dump(mode="json", by_alias=True)
    return ReadResourceResult.model_validate(without_secrets(written))


async def _prompt(server: ToolServer, name: str, _: object, params: Any) -> "GetPromptResult":
    from mcp_types import GetPromptResult

    result = await server.fetch("prompt", name, params.arguments or {})
    if result.structured is None:
        raise ToolError(f"{name} is too long to be passed on.")
    return GetPromptResult.model_validate(without_secrets(result.structured))
