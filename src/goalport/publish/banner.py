"""`helloBanner`: the tool that says which server one has reached, for people who are connecting a client."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from goalport import __version__
from goalport.tools import Tool, ToolResult

__all__ = ["banner"]

_RULE: Final = "~" * 48
_STARTED: Final = datetime.now(UTC)


def banner(server: str) -> Tool:
    """A tool without arguments that answers with six lines."""
    lines = [
        _RULE,
        f"Goalport MCP server {server!r}, asynchronous",
        f"Goalport {__version__}",
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}",
        f"Up since {_STARTED:%Y-%m-%d %H:%M:%S} UTC",
        _RULE,
    ]
    answer = ToolResult.of({"type": "banner", "mode": "ASYNC", "lines": lines})

    async def say(_: Mapping[str, object]) -> ToolResult:
        return answer

    return Tool(
        name="helloBanner",
        title="Hello",
        description="Say which goalport server this is and since when it runs",
        input_schema={"type": "object", "properties": {}},
        handler=say,
        read_only=True,
        idempotent=True,
        open_world=False,
    )
