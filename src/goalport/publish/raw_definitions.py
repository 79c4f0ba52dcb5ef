"""Raw definitions: tools, prompts, resources and templates whose handlers users write against the MCP SDK.

This module holds data only: `serve.raw` makes the definitions, and `serve` calls the handlers.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import Prompt, Resource, ResourceTemplate, Tool

__all__ = ["Handler", "RawPrompt", "RawResource", "RawTemplate", "RawTool"]

Handler = Callable[..., Awaitable[Any]]
"""Takes the SDK's request context and the parameters of a request, and returns the SDK's result."""


@dataclass(frozen=True, slots=True)
class RawTool:
    """A tool whose definition is published unchanged."""

    tool: Tool
    handler: Handler


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt whose definition is published unchanged."""

    prompt: Prompt
    handler: Handler


@dataclass(frozen=True, slots=True)
class RawResource:
    """A resource at one URI."""

    resource: Resource
    handler: Handler


@dataclass(frozen=True, slots=True)
class RawTemplate:
    """Resources at all URIs of one URI template."""

    template: ResourceTemplate
    handler: Handler
    matches: Callable[[str], bool]
    """Whether a URI matches the template."""
