"""What goalport is measured against: the SDK's low-level server with one constant tool. `python -m benchmarks.bare`.

As shipped it runs as the SDK's examples do: asyncio, h11, the collector's defaults. `--tuned` gives it all that
goalport gives itself below the handler: uvloop, httptools, a frozen heap, answers as one JSON body, neither access log
nor server header, the schema by name, no tracing middleware.
"""

import argparse
import gc
from collections.abc import Mapping
from typing import Any

import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.applications import Starlette

from benchmarks.listening import listen

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OUTPUT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = Tool(name="greet", description="Greet a person", input_schema=SCHEMA, output_schema=OUTPUT)
ANSWER = CallToolResult(
    content=[TextContent(type="text", text='{"text":"Hello, Ada!"}')], structured_content={"text": "Hello, Ada!"}
)


async def list_tools(_context: ServerRequestContext[Any], _params: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[TOOL])


async def call_tool(_context: ServerRequestContext[Any], _params: CallToolRequestParams) -> CallToolResult:
    return ANSWER


def schema_of(name: str) -> Mapping[str, Any] | None:
    return SCHEMA if name == TOOL.name else None


def as_shipped() -> Starlette:
    return Server("bare", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()


def with_tuning() -> Starlette:
    server: Server[Any] = Server(
        "tuned", get_tool_input_schema=schema_of, on_list_tools=list_tools, on_call_tool=call_tool
    )
    server.middleware.clear()
    return server.streamable_http_app(json_response=True)


def serve(app: Starlette, *, tuned: bool) -> None:
    """Serve an app on a free port until the process is told to end."""
    config = uvicorn.Config(
        app,
        loop="uvloop" if tuned else "asyncio",
        http="httptools" if tuned else "h11",
        log_level="warning",
        access_log=not tuned,
        server_header=not tuned,
    )
    if tuned:
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 50, 50)
    uvicorn.Server(config).run(sockets=[listen()])


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.bare")
    parser.add_argument("--tuned", action="store_true")
    tuned: bool = parser.parse_args().tuned
    serve(with_tuning() if tuned else as_shipped(), tuned=tuned)


if __name__ == "__main__":
    main()
