"""Resources that are not goalport's own: a text, an image, one to watch, and a template.

They are raw, because goals have no resources besides goalport's own (goals, agents, processes): a workspace gives its
own resources by `raw_resource` and `raw_template`.
"""

import json
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import (
    BlobResourceContents,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from goalport.server.doors.mcp import raw_resource, raw_template

Context = ServerRequestContext[Any, Any]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"


def text(params: ReadResourceRequestParams, mime_type: str, content: str) -> ReadResourceResult:
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=mime_type, text=content)])


async def read_text(_: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    return text(params, "text/plain", "This is the content of the static text resource.")


async def read_image(_: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    return ReadResourceResult(contents=[BlobResourceContents(uri=params.uri, mime_type="image/png", blob=PIXEL)])


async def read_watched(_: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    return text(params, "text/plain", "This resource can be subscribed to.")


async def read_item(_: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    item = str(params.uri).removeprefix("test://template/").removesuffix("/data")
    content = json.dumps({"id": item, "templateTest": True, "data": f"Data for ID: {item}"})
    return text(params, "application/json", content)


static_text = raw_resource(
    Resource(uri="test://static-text", name="static-text", description="A text", mime_type="text/plain"), read_text
)
static_image = raw_resource(
    Resource(uri="test://static-binary", name="static-binary", description="An image", mime_type="image/png"),
    read_image,
)
watched = raw_resource(
    Resource(uri="test://watched-resource", name="watched", description="One to watch", mime_type="text/plain"),
    read_watched,
)
item = raw_template(
    ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="item",
        description="One of many",
        mime_type="application/json",
    ),
    read_item,
)
