"""Raw handlers: tools, prompts, resources and templates that users write against the MCP SDK.

A handler gets the SDK's own context and params and returns the SDK's own result, so it can use all of the protocol.
goalport only adds it to the lists, and answers with an error if the handler raises.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.uri_template import UriTemplate
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)

from goalport.publish.publication import RawPrompt, RawResource, RawTemplate, RawTool
from goalport.publish.publisher import ListKind

__all__ = [
    "changed",
    "raw_prompt",
    "raw_resource",
    "raw_template",
    "raw_tool",
    "resource_updated",
]

Context = ServerRequestContext[Any, Any]
Wire = dict[str, Any]
CallTool = Callable[[Context, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult | Wire]]
GetPrompt = Callable[[Context, GetPromptRequestParams], Awaitable[GetPromptResult | InputRequiredResult | Wire]]
ReadResource = Callable[
    [Context, ReadResourceRequestParams], Awaitable[ReadResourceResult | InputRequiredResult | Wire]
]


def raw_tool(tool: Tool, handler: CallTool) -> RawTool:
    """A tool with a raw handler; assign it to a name at the top level of a module in `tools/` or `agents/`."""
    return RawTool(tool, handler)


def raw_prompt(prompt: Prompt, handler: GetPrompt) -> RawPrompt:
    """A prompt with a raw handler; assign it as a `raw_tool`."""
    return RawPrompt(prompt, handler)


def raw_resource(resource: Resource, handler: ReadResource) -> RawResource:
    """A resource with a raw handler; assign it as a `raw_tool`."""
    return RawResource(resource, handler)


def raw_template(template: ResourceTemplate, handler: ReadResource) -> RawTemplate:
    """The resources of a URI template (RFC 6570); assign it as a `raw_tool`. The handler reads `params.uri`."""
    form = UriTemplate.parse(template.uri_template)
    return RawTemplate(template, handler, lambda uri: form.match(uri) is not None)


async def changed(context: Context, *kinds: ListKind) -> None:
    """Publish again and notify all clients that these lists changed: "tools", "prompts" or "resources"."""
    await context.lifespan_context.publisher.republish(*kinds)


async def resource_updated(context: Context, uri: str) -> None:
    """Notify the clients that subscribed to a resource that it changed."""
    await context.lifespan_context.notifications.updated(uri)
