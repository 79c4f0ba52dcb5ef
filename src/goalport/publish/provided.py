"""The resources that exports provide, such as documents and skills: who provides them, and what MCP calls them.

This module makes definitions and contents and sends nothing. `publication` is above, and so is the MCP server, which
lists and reads the resources on behalf of its callers.
"""

from base64 import b64encode
from collections.abc import Iterable

from mcp_types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

from goalport import tools
from goalport.secrecy import hide_known

__all__ = ["contents_of", "listed", "providers", "templates_of"]


def providers(exports: Iterable[tools.McpToolExport], problems: list[str]) -> dict[str, tools.ResourceProvider]:
    """What provides resources, by namespace and sorted by it; two of one namespace are appended to `problems`."""
    found: dict[str, tools.ResourceProvider] = {}
    for export in exports:
        for each in export.resources:
            if not each.templates():
                continue
            if found.setdefault(each.namespace, each) is not each:
                problems.append(
                    f"Two exports have resources at {each.namespace}; those of the first are published. Give the"
                    " other reference another name."
                )
    return {namespace: found[namespace] for namespace in sorted(found)}


def templates_of(provider: tools.ResourceProvider) -> list[ResourceTemplate]:
    """The templates as clients list them."""
    return [
        ResourceTemplate(
            uri_template=each.uri,
            name=each.name,
            description=each.description or None,
            mime_type=each.media_type or None,
        )
        for each in provider.templates()
    ]


def listed(resource: tools.ListedResource) -> Resource:
    """A resource as clients list it."""
    return Resource(
        uri=resource.uri,
        name=resource.name,
        title=resource.title or None,
        description=resource.description or None,
        mime_type=resource.media_type or None,
        size=resource.size,
    )


def contents_of(uri: str, read: tools.ReadResource) -> TextResourceContents | BlobResourceContents:
    """What was read as a client gets it."""
    meta, media, content = dict(read.meta) or None, read.media_type, read.content
    if isinstance(content, bytes):
        return BlobResourceContents(uri=uri, mime_type=media, blob=b64encode(content).decode(), _meta=meta)
    return TextResourceContents(uri=uri, mime_type=media, text=hide_known(content), _meta=meta)
