"""The result of a goal or a tool, as people and programs read it. Below the commands of this room."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from goalport.cli.terminal import show_markdown


def show_result(result: Mapping[str, Any], *, structured: bool) -> None:
    """Print a result of MCP: its texts, or its data as JSON."""
    if structured:
        data = result.get("structuredContent", {"content": result["content"]})
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    for block in result["content"]:
        show_markdown(_told(block))


def _told(block: Mapping[str, Any]) -> str:
    if block["type"] != "text":
        return f"({block['type']} {block.get('mimeType', '')}; --json prints it whole)"
    text: str = block["text"]
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    written = json.dumps(value, indent=2, ensure_ascii=False)
    return f"```json\n{written}\n```" if sys.stdout.isatty() else written
