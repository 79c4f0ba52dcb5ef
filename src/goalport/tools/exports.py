"""Tools that are published over MCP as they are, beside the goals, and the resources that belong to them.

An `McpToolExport` at the top level of a module in `tools/` is found and served; this module itself serves nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast, runtime_checkable

from goalport.base.caller import Caller, require_scopes
from goalport.tools.definition import Tool, ToolObject, duplicate_names, everything, named_tools
from goalport.tools.groups import ToolGroup
from goalport.tools.naming import Naming, identity, prefixed, reference_prefix


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


class NamedTools(Protocol):
    """An object that has tools, and says what they are for, such as an `LlmReference` of the package `references`."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    def tools(self) -> Sequence[Tool]: ...


@dataclass(frozen=True)
class McpToolExport:
    """What to publish. The naming of each tool object is applied first, then that of the export.

    The filter of an export sees the tools' original names, as the filters of tool objects do.
    """

    tool_objects: tuple[ToolObject, ...]
    naming: Naming = identity
    filter: Callable[[str], bool] = everything
    resources: tuple[ResourceProvider, ...] = ()
    """Provide the resources that are published beside the tools."""
    scopes: Sequence[str] | None = None
    """The scopes that a client needs for each of the tools and resources; None: each has its own."""

    def __post_init__(self) -> None:
        require_scopes("scopes", self.scopes)

    @classmethod
    def from_tool_object(
        cls,
        tool_object: object,
        *,
        naming: Naming = identity,
        filter: Callable[[str], bool] = everything,
        scopes: Sequence[str] | None = None,
    ) -> "McpToolExport":
        """Export a tool object, or any object with `@tool` methods."""
        return cls.from_tool_objects([tool_object], naming=naming, filter=filter, scopes=scopes)

    @classmethod
    def from_tool_objects(
        cls,
        tool_objects: Iterable[object],
        *,
        naming: Naming = identity,
        filter: Callable[[str], bool] = everything,
        scopes: Sequence[str] | None = None,
    ) -> "McpToolExport":
        """Export several; where two tools get one name, the first is kept."""
        wrapped = (each if isinstance(each, ToolObject) else ToolObject(each) for each in tool_objects)
        return cls(tuple(wrapped), naming, filter, scopes=scopes)

    @classmethod
    def from_llm_reference(
        cls, reference: NamedTools, *, naming: Naming = identity, scopes: Sequence[str] | None = None
    ) -> "McpToolExport":
        """Export the tools of a reference, with the prefix that its name gives. User guide, section 3.24.1.

        The description of each tool begins with that of the reference, of which a client knows nothing else.
        Documents and skills are exported as resources too, each to the callers who may read it.
        """
        return cls.from_llm_references([reference], naming=naming, scopes=scopes)

    @classmethod
    def from_llm_references(
        cls, references: Iterable[NamedTools], *, naming: Naming = identity, scopes: Sequence[str] | None = None
    ) -> "McpToolExport":
        """Export several references, each with its own prefix. Of one with `as_published()`, clients get that."""
        shown = [cast("NamedTools", getattr(each, "as_published", lambda each=each: each)()) for each in references]
        tool_objects: list[ToolObject] = []
        for each in shown:
            about = each.description.rstrip(" .\n")
            lead = f"{about}. " if about else ""
            tools = (replace(inner, description=f"{lead}{inner.description}") for inner in each.tools())
            tool_objects.append(ToolObject(*tools, naming=prefixed(reference_prefix(each.name))))
        return cls(
            tuple(tool_objects),
            naming,
            resources=tuple(each for each in shown if isinstance(each, ResourceProvider)),
            scopes=scopes,
        )

    @classmethod
    def from_tool_group(
        cls,
        group: ToolGroup,
        *,
        naming: Naming = identity,
        filter: Callable[[str], bool] = everything,
        scopes: Sequence[str] | None = None,
    ) -> "McpToolExport":
        """Export the tools that a group has now."""
        return cls((ToolObject(*group.tools),), naming, filter, scopes=scopes)

    def tools(self) -> tuple[Tool, ...]:
        """The published tools, sorted by name; of several tools with one name only the first."""
        found = ToolObject(*self.tool_objects, naming=self.naming, filter=self.filter).tools()
        if self.scopes is not None:
            found = tuple(replace(each, scopes=self.scopes) for each in found)
        return tuple(sorted(found, key=lambda each: each.name))

    def duplicates(self) -> tuple[str, ...]:
        """The names that more than one tool has; of each, only the first tool is published."""
        return duplicate_names(tool for _, tool in named_tools(self.tool_objects, self.naming, self.filter))
