"""Exported tools that return content blocks: audio, an embedded resource, and several at once."""

from mcp_types import AudioContent, ContentBlock, EmbeddedResource, ImageContent, TextContent, TextResourceContents

from goalport import McpToolExport, ToolObject, tool
from goalport.tools import prefixed

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SILENCE = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="


def resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


class Media:
    """Answers in every kind of content block that is not plain text."""

    @tool
    def audio_content(self) -> AudioContent:
        """Returns a moment of silence."""
        return AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")

    @tool
    def embedded_resource(self) -> EmbeddedResource:
        """Returns a resource with its content."""
        return resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")

    @tool
    def multiple_content_types(self) -> list[ContentBlock]:
        """Returns a text, an image and a resource."""
        return [
            TextContent(type="text", text="Multiple content types test:"),
            ImageContent(type="image", data=PIXEL, mime_type="image/png"),
            resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ]


exports = McpToolExport.from_tool_object(ToolObject(Media(), naming=prefixed("test_")))
