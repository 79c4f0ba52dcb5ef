"""Tools that ask the client something while the call is open, as revisions up to 2025-11-25 do it.

A goal cannot ask the client's model, and asks with no enum of the kind that the specification calls legacy: so these
are raw. What a goal can ask is in `agents/asking`; the 2026-07-28 twins are in `asking_by_result`.
"""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessage,
    TextContent,
    Tool,
)

from goalport.serve import raw_tool

Context = ServerRequestContext[Any, Any]


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


async def ask_model(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    prompt = TextContent(type="text", text=str((params.arguments or {})["prompt"]))
    request = CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[SamplingMessage(role="user", content=prompt)], max_tokens=100)
    )
    channel = ServerMessageMetadata(related_request_id=ctx.request_id)
    reply = await ctx.session.send_request(request, CreateMessageResult, metadata=channel)
    return said(f"LLM response: {reply.content.text if isinstance(reply.content, TextContent) else reply.content}")


async def ask_person(ctx: Context, message: str, properties: dict[str, Any], *required: str) -> CallToolResult:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return said(f"Elicitation completed: action={answer.action}, content={answer.content}")


def titled(value: str, title: str) -> dict[str, str]:
    return {"const": value, "title": title}


async def ask_with_choices(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    options = ["option1", "option2", "option3"]
    values = [titled("value1", "First"), titled("value2", "Second"), titled("value3", "Third")]
    properties: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": values},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": values}},
    }
    return await ask_person(ctx, "Please choose", properties)


def tool(name: str, description: str, *arguments: str) -> Tool:
    properties = {argument: {"type": "string"} for argument in arguments}
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    return Tool(name=name, description=description, input_schema=schema)


sampling = raw_tool(tool("test_sampling", "Asks the client's model", "prompt"), ask_model)
choices = raw_tool(tool("test_elicitation_sep1330_enums", "Asks with every kind of choice"), ask_with_choices)
