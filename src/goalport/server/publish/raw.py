"""Raw definitions: what is published unchanged, with a handler that answers the SDK's requests for it.

Users write them with `serve.raw`, and `passed_on` makes them of what upstream servers list. `serve` calls the handlers.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_types import Prompt, Resource, ResourceTemplate, Tool

Handler = Callable[..., Awaitable[Any]]
"""Takes the SDK's request context and the parameters of a request, and returns the SDK's result."""


@dataclass(frozen=True, slots=True)
class RawTool:
    """A tool whose definition is published unchanged."""

    tool: Tool
    handler: Handler
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: those that the tool's annotations ask for."""


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt whose definition is published unchanged."""

    prompt: Prompt
    handler: Handler
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: the scope to read."""


@dataclass(frozen=True, slots=True)
class RawResource:
    """A resource at one URI."""

    resource: Resource
    handler: Handler
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: the scope to read."""

    @property
    def address(self) -> str:
        return self.resource.uri


@dataclass(frozen=True, slots=True)
class RawTemplate:
    """Resources at all URIs of one URI template."""

    template: ResourceTemplate
    handler: Handler
    matches: Callable[[str], bool]
    """Whether a URI matches the template."""
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs; None: the scope to read."""

    @property
    def address(self) -> str:
        return self.template.uri_template
