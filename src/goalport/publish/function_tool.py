"""An exported function or method as an MCP tool: a call runs it directly, without a process or a plan.

`goalport.tools` reads the function and validates its arguments; this module makes the MCP definition and results of
it. The banner is the only exported tool that comes with goalport.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mcp_types import Tool, ToolAnnotations

from goalport import __version__, tools
from goalport.errors import Signal
from goalport.publish.faults import logged
from goalport.publish.output import Wire, done, failed, refuse_bytes, text_block
from goalport.publish.portable_schemas import portable

__all__ = ["FunctionTool", "annotations_of", "banner"]

_RULE: Final = "~" * 48
_STARTED: Final = datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """One exported tool with its MCP definition."""

    tool: Tool
    exported: tools.Tool

    @classmethod
    def of(cls, exported: tools.Tool) -> "FunctionTool":
        """The exported tool with its MCP definition. Raises `TypeError` if its output schema holds bytes."""
        output = exported.output_schema
        if output is not None:
            refuse_bytes(dict(output))
        tool = Tool(
            name=exported.name,
            title=exported.title or None,
            description=exported.description,
            input_schema=portable(exported.input_schema),
            output_schema=portable(output) if output is not None else None,
            annotations=annotations_of(exported),
        )
        return cls(tool, exported)

    async def call(self, arguments: dict[str, Any], *, tells_errors: bool) -> Wire:
        """Run the tool and return its result; bad arguments and failures become error results for the model."""
        try:
            result = await self.exported.call(arguments)
        except Signal as signal:  # signals steer a process, and this call has none
            result = tools.ToolResult.of_error(str(signal))
        if result.error is not None:
            return failed(text_block(logged(self.tool.name, result.error, tells_errors=tells_errors)))
        content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
        if result.is_error:
            return failed(*content)
        if self.tool.output_schema is not None and result.structured is None:
            return failed(*content, text_block("The tool did not give the structured result that it promises."))
        return done(content, None if result.structured is None else dict(result.structured))


def annotations_of(hints: Any) -> ToolAnnotations | None:
    """The MCP annotations for the hints of an export or a tool; None if it gives no hints."""
    given = {
        "read_only_hint": hints.read_only,
        "destructive_hint": hints.destructive,
        "idempotent_hint": hints.idempotent,
        "open_world_hint": hints.open_world,
    }
    known = {name: value for name, value in given.items() if value is not None}
    return ToolAnnotations(**known) if known else None


def banner(server: str) -> tools.Tool:
    """The tool `helloBanner`, which answers with six lines about the server named `server`."""
    lines = [
        _RULE,
        f"Goalport MCP server {server!r}, asynchronous",
        f"Goalport {__version__}",
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}",
        f"Up since {_STARTED:%Y-%m-%d %H:%M:%S} UTC",
        _RULE,
    ]
    answer = tools.ToolResult.of({"type": "banner", "mode": "ASYNC", "lines": lines})

    async def say(_: Mapping[str, object]) -> tools.ToolResult:
        return answer

    return tools.Tool(
        name="helloBanner",
        title="Hello",
        description="Say which goalport server this is and since when it runs",
        input_schema={"type": "object", "properties": {}},
        handler=say,
        read_only=True,
        idempotent=True,
        open_world=False,
    )
