"""Raw handlers: tools, prompts, resources and templates that need all of the protocol, written by users.

A handler gets the SDK's own context and params and answers with the SDK's own results, so everything that the protocol
has is within reach. goalport adds nothing but its place in the lists and an answer for a handler that breaks.
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

from goalport.publish.publisher import ListKind
from goalport.publish.raw_definitions import RawPrompt, RawResource, RawTemplate, RawTool

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
    """A tool that answers by itself; bind it to a name at the top level of a module in `tools/` or `agents/`."""
    return RawTool(tool, handler)


def raw_prompt(prompt: Prompt, handler: GetPrompt) -> RawPrompt:
    """A prompt that answers by itself, as `raw_tool`."""
    return RawPrompt(prompt, handler)


def raw_resource(resource: Resource, handler: ReadResource) -> RawResource:
    """A resource that answers by itself, as `raw_tool`."""
    return RawResource(resource, handler)


def raw_template(template: ResourceTemplate, handler: ReadResource) -> RawTemplate:
    """Resources of one form (RFC 6570) that answer by themselves, as `raw_tool`; the handler reads `params.uri`."""
    form = UriTemplate.parse(template.uri_template)
    return RawTemplate(template, handler, lambda uri: form.match(uri) is not None)


async def changed(context: Context, *kinds: ListKind) -> None:
    """Publish anew and tell every client which lists changed: "tools", "prompts", "resources"."""
    await context.lifespan_context.publisher.republish(*kinds)


async def resource_updated(context: Context, uri: str) -> None:
    """Tell the clients that asked for it that a resource changed."""
    await context.lifespan_context.notifications.updated(uri)
