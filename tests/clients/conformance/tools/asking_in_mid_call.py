"""A tool that asks the client's model while the call is open, as revisions up to 2025-11-25 do it.

It is raw, because goals ask people, and models only through goalport's own models. What a goal can ask is in
`agents/asking`; the twin for 2026-07-28 is in `asking_by_result`.
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

from goalport.server.doors.mcp import raw_tool

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


ARGUMENTS = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}

sampling = raw_tool(
    Tool(name="test_sampling", description="Asks the client's model", input_schema=ARGUMENTS), ask_model
)
