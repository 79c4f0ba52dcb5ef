"""Tools that a model may call: created from functions and objects, filtered, renamed, grouped and exported.

This package imports nothing of planning, models or servers. Above it, `ai` offers tools to models, `upstream` wraps the
tools of other servers, and `publish` publishes exports; below it are the errors, `secrecy` and `words`.
"""

from typing import TYPE_CHECKING

from goalport.tools.definition import (
    CALL_SITE,
    Approval,
    CallSite,
    Layer,
    Tool,
    ToolMark,
    ToolObject,
    calling_from,
    mark_of,
    tool,
    tools_of,
    with_confirmation,
)
from goalport.tools.exports import (
    ListedResource,
    McpToolExport,
    ReadResource,
    ResourcePage,
    ResourceProvider,
    ResourceTemplate,
)
from goalport.tools.functions import Contained, ContextValues, Interruption, Parameter, in_thread
from goalport.tools.groups import (
    CoreToolGroups,
    Permission,
    ToolGroup,
    ToolGroupRequirement,
    ToolGroupResolver,
    ToolGroupSource,
    math_group,
)
from goalport.tools.naming import (
    NAMING_STYLES,
    Naming,
    composed,
    identity,
    lower,
    prefixed,
    reference_prefix,
    renamed,
    snake,
    suffixed,
    upper,
)
from goalport.tools.results import ToolResult
from goalport.tools.schemas import NotChecked, problems_in_time, schema_fault, schema_problems

if TYPE_CHECKING:
    from mcp_types import ContentBlock as ContentBlock

__all__ = [
    "CALL_SITE",
    "NAMING_STYLES",
    "Approval",
    "CallSite",
    "Contained",
    "ContentBlock",
    "ContextValues",
    "CoreToolGroups",
    "Interruption",
    "Layer",
    "ListedResource",
    "McpToolExport",
    "Naming",
    "NotChecked",
    "Parameter",
    "Permission",
    "ReadResource",
    "ResourcePage",
    "ResourceProvider",
    "ResourceTemplate",
    "Tool",
    "ToolGroup",
    "ToolGroupRequirement",
    "ToolGroupResolver",
    "ToolGroupSource",
    "ToolMark",
    "ToolObject",
    "ToolResult",
    "calling_from",
    "composed",
    "identity",
    "in_thread",
    "lower",
    "mark_of",
    "math_group",
    "prefixed",
    "problems_in_time",
    "reference_prefix",
    "renamed",
    "schema_fault",
    "schema_problems",
    "snake",
    "suffixed",
    "tool",
    "tools_of",
    "upper",
    "with_confirmation",
]


def __getattr__(name: str) -> object:
    """Import `ContentBlock` from the MCP library when it is first asked for."""
    if name == "ContentBlock":
        from mcp_types import ContentBlock

        return ContentBlock
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
