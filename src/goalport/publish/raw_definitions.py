"""Raw definitions: tools, prompts, resources and templates that are published as they are and answer by themselves.

Only data: the door that publishes them calls the handlers with its own context. `serve.raw` makes them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import Prompt, Resource, ResourceTemplate, Tool

__all__ = ["Handler", "RawPrompt", "RawResource", "RawTemplate", "RawTool"]

Handler = Callable[..., Awaitable[Any]]
"""Takes the context of a door and the parameters of a request, and answers with a result of that door."""


@dataclass(frozen=True, slots=True)
class RawTool:
    """A tool whose definition is published as it is."""

    tool: Tool
    handler: Handler


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt whose definition is published as it is."""

    prompt: Prompt
    handler: Handler


@dataclass(frozen=True, slots=True)
class RawResource:
    """A resource at one address."""

    resource: Resource
    handler: Handler


@dataclass(frozen=True, slots=True)
class RawTemplate:
    """Resources at all addresses of one form."""

    template: ResourceTemplate
    handler: Handler
    matches: Callable[[str], bool]
    """Whether a URI has the form."""
