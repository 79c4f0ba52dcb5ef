"""An exported tool beside the goal."""

from goalport import McpToolExport, ToolObject, tool


@tool
def count_letters(text: str) -> int:
    """Count the letters of a text."""
    return sum(character.isalpha() for character in text)


exports = McpToolExport.from_tool_object(ToolObject(count_letters))
