"""Raw definitions: what is published unchanged, with a handler that answers the SDK's requests for it.

Users write them with `doors.mcp.raw`, and here they are made of what upstream servers list. `doors.mcp` calls the
handlers.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mcp_types import GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool

from goalport.base.errors import ToolError
from goalport.server.publish.exported_tools import GroupTools, without_secrets
from goalport.tools.upstream import GroupConfig
from goalport.tools.upstream.tool import CUT, uris_of
from goalport.tools.upstream.upstream_groups import ToolServer, final_name

Handler = Callable[..., Awaitable[Any]]
"""Takes the SDK's request context and the parameters of a request, and returns the SDK's result."""


@dataclass(frozen=True, slots=True)
class RawTool:
    """A tool whose definition is published unchanged."""

    tool: Tool
    handler: Handler
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: those that the tool's annotations ask for."""


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt whose definition is published unchanged."""

    prompt: Prompt
    handler: Handler
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: the scope to read."""


@dataclass(frozen=True, slots=True)
class RawResource:
    """A resource at one URI."""

    resource: Resource
    handler: Handler
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: the scope to read."""

    @property
    def address(self) -> str:
        return self.resource.uri


@dataclass(frozen=True, slots=True)
class RawTemplate:
    """Resources at all URIs of one URI template."""

    template: ResourceTemplate
    handler: Handler
    matches: Callable[[str], bool]
    """Whether a URI matches the template."""
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: the scope to read."""

    @property
    def address(self) -> str:
        return self.template.uri_template


_SCHEME: Final = re.compile(r"(?!goalport:)[A-Za-z][A-Za-z0-9+.-]*:")
"""The scheme of a URI, unless it is that of the resources of a goalport: such a one has them itself."""


def passed_on(
    groups: Mapping[str, GroupTools], config: Mapping[str, GroupConfig]
) -> Iterator[RawPrompt | RawResource | RawTemplate]:
    """What exported groups publish beside their tools.

    For each scheme in the list of a server there is a template too: a link in a result may lead to what is not listed.
    If several servers have a scheme, it leads to the first. These templates are last, so that they hide no others.
    """
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
                    any_ = ResourceTemplate(uri_template=f"{scheme[0]}{{+rest}}", name=server.name, description=words)
                    begins = partial(_begins, scheme[0])
                    schemes.setdefault(scheme[0], RawTemplate(any_, read, begins, scopes))
                    if isinstance(each, ResourceTemplate):
                        yield RawTemplate(each, read, uris_of(uri), scopes)
                    else:
                        yield RawResource(each, read, scopes)
    yield from schemes.values()


def _begins(scheme: str, uri: str) -> bool:
    return uri.startswith(scheme)


async def _read(server: ToolServer, _: object, params: Any) -> ReadResourceResult:
    uri = str(params.uri)
    result = await server.fetch("resource", uri, {})
    contents = [each.resource for each in result.blocks if each.type == "resource"]
    if any(each.type == "text" and each.text == CUT for each in result.content):
        raise ToolError(f"{uri[:200]} is too long to be passed on.")
    return ReadResourceResult.model_validate(
        without_secrets(ReadResourceResult(contents=contents).model_dump(mode="json", by_alias=True))
    )


async def _prompt(server: ToolServer, name: str, _: object, params: Any) -> GetPromptResult:
    result = await server.fetch("prompt", name, params.arguments or {})
    if result.structured is None:
        raise ToolError(f"{name} is too long to be passed on.")
    return GetPromptResult.model_validate(without_secrets(result.structured))
