"""Raw handlers: tools, prompts, resources and templates that users write against the MCP SDK.

A handler gets the SDK's own context and params and returns the SDK's own result, so it can use all of the protocol.
goalport only adds it to the lists, and answers with an error if the handler raises.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.uri_template import UriTemplate

from goalport.base.caller import require_scopes
from goalport.server.publish.exported_tools import RawPrompt, RawResource, RawTemplate, RawTool
from goalport.server.publish.publisher import ListKind

Context = ServerRequestContext[Any, Any]
Wire = dict[str, Any]
CallTool = Callable[
    [Context, types.CallToolRequestParams], Awaitable[types.CallToolResult | types.InputRequiredResult | Wire]
]
GetPrompt = Callable[
    [Context, types.GetPromptRequestParams], Awaitable[types.GetPromptResult | types.InputRequiredResult | Wire]
]
ReadResource = Callable[
    [Context, types.ReadResourceRequestParams], Awaitable[types.ReadResourceResult | types.InputRequiredResult | Wire]
]


def raw_tool(tool: types.Tool, handler: CallTool, *, scopes: Sequence[str] | None = None) -> RawTool:
    """A tool with a raw handler; assign it to a name at the top level of a module in `tools/` or `agents/`.

    `scopes` are what a caller needs; by default they follow from the annotations of the tool.
    """
    require_scopes("scopes", scopes)
    return RawTool(tool, handler, scopes)


def raw_prompt(prompt: types.Prompt, handler: GetPrompt, *, scopes: Sequence[str] | None = None) -> RawPrompt:
    """A prompt with a raw handler; assign it like a `raw_tool`. By default a caller needs the scope to read."""
    require_scopes("scopes", scopes)
    return RawPrompt(prompt, handler, scopes)


def raw_resource(
    resource: types.Resource, handler: ReadResource, *, scopes: Sequence[str] | None = None
) -> RawResource:
    """A resource with a raw handler; assign it like a `raw_tool`. By default a caller needs the scope to read."""
    require_scopes("scopes", scopes)
    return RawResource(resource, handler, scopes)


def raw_template(
    template: types.ResourceTemplate, handler: ReadResource, *, scopes: Sequence[str] | None = None
) -> RawTemplate:
    """The resources of a URI template (RFC 6570); assign it like a `raw_tool`. The handler reads `params.uri`."""
    require_scopes("scopes", scopes)
    form = UriTemplate.parse(template.uri_template)
    return RawTemplate(template, handler, lambda uri: form.match(uri) is not None, scopes)


async def changed(context: Context, *kinds: ListKind) -> None:
    """Publish again and notify all clients that these lists changed: "tools", "prompts" or "resources"."""
    await context.lifespan_context.publisher.republish(*kinds)


async def resource_updated(context: Context, uri: str) -> None:
    """Notify the clients that subscribed to a resource that it changed."""
    await context.lifespan_context.notifications.updated(uri)
