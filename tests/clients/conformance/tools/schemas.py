"""Tools whose point is their input schema: an argument that is a header too, and keywords of JSON Schema 2020-12."""

from typing import Annotated, Any

from mcp.server.context import ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult, TextContent, Tool
from pydantic import Field

from goalport import tool
from goalport.server.doors.mcp import raw_tool

KEYWORDS: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool(name="test_header_argument", export=True)
def in_region(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str:
    """Takes an argument that is sent as a header too."""
    return f"Called in the region {region!r}"


async def echo(_: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=f"Called with {params.arguments}")])


# Raw, because goalport inlines `$defs` and publishes no keyword such as `allOf` or `if`, which some clients refuse.
keywords = raw_tool(
    Tool(name="json_schema_2020_12_tool", description="Tool with JSON Schema 2020-12 features", input_schema=KEYWORDS),
    echo,
)
