"""Tools whose point is their input schema: keywords of JSON Schema 2020-12, and an argument that is a header.

Goalport writes portable schemas from types; these are what a type does not say, so they are raw.
"""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult, TextContent, Tool

from goalport.serve import raw_tool


async def echo(_: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=f"Called with {params.arguments}")])


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
HEADER = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

keywords = raw_tool(
    Tool(name="json_schema_2020_12_tool", description="Tool with JSON Schema 2020-12 features", input_schema=KEYWORDS),
    echo,
)
header = raw_tool(
    Tool(
        name="test_header_argument", description="Takes an argument that is sent as a header too", input_schema=HEADER
    ),
    echo,
)
