"""Tools that are published over MCP as they are, beside the goals.

A value of this at the top level of a module in `tools/` is found and served; this module serves nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from goalport.tools.definition import Tool
from goalport.tools.naming import Naming, identity
from goalport.tools.objects import ToolObject, distinct, duplicate_names

__all__ = ["McpToolExport"]


@dataclass(frozen=True)
class McpToolExport:
    """Tools to publish. Each tool object's own naming comes first, then that of the export."""

    tool_objects: tuple[ToolObject, ...]
    naming: Naming = identity

    @classmethod
    def from_tool_object(cls, tool_object: object, *, naming: Naming = identity) -> "McpToolExport":
        """Export a tool object, or any object with `@tool` methods."""
        return cls.from_tool_objects([tool_object], naming=naming)

    @classmethod
    def from_tool_objects(cls, tool_objects: Iterable[object], *, naming: Naming = identity) -> "McpToolExport":
        """Export several; where two tools get one name, the first is kept."""
        wrapped = (each if isinstance(each, ToolObject) else ToolObject(each) for each in tool_objects)
        return cls(tuple(wrapped), naming)

    def tools(self) -> tuple[Tool, ...]:
        """What is published, each name once, sorted by name."""
        return tuple(sorted(distinct(self._renamed()), key=lambda each: each.name))

    def duplicates(self) -> tuple[str, ...]:
        """Names that more than one tool would have; all but the first of these are not published."""
        within = (name for each in self.tool_objects for name in each.duplicates())
        return tuple(dict.fromkeys([*map(self.naming, within), *duplicate_names(self._renamed())]))

    def _renamed(self) -> tuple[Tool, ...]:
        found = (tool for each in self.tool_objects for tool in each.tools())
        return tuple(each.with_name(self.naming(each.name)) for each in found)
