"""Prompts with a resource and with an image. They are raw, because a goal's prompt is a text that names its tool."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import (
    ContentBlock,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
    TextResourceContents,
)

from goalport.server.doors.mcp import raw_prompt

Context = ServerRequestContext[Any, Any]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"


def from_user(*blocks: ContentBlock | str) -> GetPromptResult:
    contents = [TextContent(type="text", text=block) if isinstance(block, str) else block for block in blocks]
    return GetPromptResult(messages=[PromptMessage(role="user", content=content) for content in contents])


async def with_resource(_: Context, params: GetPromptRequestParams) -> GetPromptResult:
    resource = TextResourceContents(
        uri=(params.arguments or {})["resourceUri"],
        mime_type="text/plain",
        text="Embedded resource content for testing.",
    )
    return from_user(
        EmbeddedResource(type="resource", resource=resource), "Please process the embedded resource above."
    )


async def with_image(_: Context, __: GetPromptRequestParams) -> GetPromptResult:
    image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
    return from_user(image, "Please analyze the image above.")


def prompt(name: str, description: str, **arguments: str) -> Prompt:
    listed = [PromptArgument(name=key, description=value, required=True) for key, value in arguments.items()]
    return Prompt(name=name, description=description, arguments=listed)


resource = raw_prompt(
    prompt("test_prompt_with_embedded_resource", "A prompt with a resource", resourceUri="The resource to embed"),
    with_resource,
)
image = raw_prompt(prompt("test_prompt_with_image", "A prompt with an image"), with_image)
