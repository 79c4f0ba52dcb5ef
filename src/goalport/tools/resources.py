"""Resources that an export publishes beside its tools: what clients list, find by a template, and read by a URI.

This module says what a provider of resources has to do, in plain data. Documents and skills are such providers; above,
`publish` lists what they provide and the MCP server reads it, each time on behalf of the caller of the request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from goalport.base.caller import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedResource:
    """A resource in the list that clients see."""

    uri: str
    name: str
    title: str = ""
    """A name for people."""
    description: str = ""
    media_type: str = ""
    size: int | None = None
    """The number of bytes, if it is known."""


@dataclass(frozen=True, slots=True)
class ResourcePage:
    """A part of a list of resources."""

    resources: Sequence[ListedResource]
    after: str = ""
    """What the next part is asked for with; empty: there is no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """A URI template (RFC 6570) of resources."""

    uri: str
    name: str
    description: str
    media_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResource:
    """What is at a URI: a text, or bytes."""

    content: str | bytes
    media_type: str
    meta: Mapping[str, object] = field(default_factory=dict[str, object])
    """What else a client may want to know; MCP calls it `_meta`."""


@runtime_checkable
class ResourceProvider(Protocol):
    """Provides resources. What a caller may not read is not there for that caller.

    The methods raise errors of goalport where the resources cannot be reached now.
    """

    @property
    def namespace(self) -> str:
        """What the URIs of its resources, and of no others, begin with."""
        ...

    @property
    def description(self) -> str:
        """A few words that say what it provides."""
        ...

    def templates(self) -> Sequence[ResourceTemplate]:
        """The templates of its URIs."""
        ...

    async def list_resources(self, caller: Caller, /, *, limit: int, after: str = "") -> ResourcePage:
        """At most `limit` resources, from the beginning or from where an earlier page has ended."""
        ...

    async def read_resource(self, uri: str, caller: Caller, /) -> ReadResource | None:
        """What is at a URI of its namespace; None: there is nothing for this caller. Raises `BadInput`."""
        ...

    async def complete(self, variable: str, typed: str, given: Mapping[str, str], caller: Caller, /) -> Sequence[str]:
        """Values for a variable of its templates that begin with, or are called like, what a person has typed.

        `given` has the values of the other variables, as far as they are known.
        """
        ...
