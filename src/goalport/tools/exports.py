"""Tools that are published over MCP directly, like goals, and the resources that belong to them.

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
    """One page of a list of resources."""

    resources: Sequence[ListedResource]
    after: str = ""
    """The cursor of the next page; empty: this is the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """A URI template (RFC 6570) of resources."""

    uri: str
    name: str
    description: str
    media_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResource:
    """The content of a resource: a text, or bytes."""

    content: str | bytes
    media_type: str
    meta: Mapping[str, object] = field(default_factory=dict[str, object])
    """Metadata for the client, sent as `_meta` in MCP."""


@runtime_checkable
class ResourceProvider(Protocol):
    """Provides resources. For a caller who may not read a resource, it does not exist.

    The methods raise a `GoalportError` if the resources cannot be reached now.
    """

    @property
    def namespace(self) -> str:
        """The prefix of all its URIs; URIs of other providers do not begin with it."""
        ...

    @property
    def description(self) -> str:
        """A few words that say what it provides."""
        ...

    def templates(self) -> Sequence[ResourceTemplate]:
        """The templates of its URIs."""
        ...

    async def list_resources(self, caller: Caller, /, *, limit: int, after: str = "") -> ResourcePage:
        """At most `limit` resources, from the beginning or from `ResourcePage.after` of an earlier page."""
        ...

    async def read_resource(self, uri: str, caller: Caller, /) -> ReadResource | None:
        """The resource at a URI of its namespace; None: it does not exist for this caller. Raises `BadInput`."""
        ...

    async def complete(self, variable: str, typed: str, given: Mapping[str, str], caller: Caller, /) -> Sequence[str]:
        """Completions of what a person has typed for a variable of its templates (`completion/complete`).

        Values begin with `typed`, or have a name like it. `given` has the known values of the other variables.
        """
        ...


class NamedTools(Protocol):
    """An object with tools, a name and a description, such as an `LlmReference` of the package `references`."""

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
    """The providers of resources that are published with the tools."""
    scopes: Sequence[str] | None = None
    """The scopes that a client needs for all of these tools and resources; None: each has its own."""

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
        """Export several tool objects; if two tools get the same name, the first is kept."""
        wrapped = (each if isinstance(each, ToolObject) else ToolObject(each) for each in tool_objects)
        return cls(tuple(wrapped), naming, filter, scopes=scopes)

    @classmethod
    def from_llm_reference(
        cls, reference: NamedTools, *, naming: Naming = identity, scopes: Sequence[str] | None = None
    ) -> "McpToolExport":
        """Export the tools of a reference, prefixed with its name (`reference_prefix`). User guide, section 3.24.1.

        The description of each tool begins with the description of the reference, which clients see nowhere else.
        Documents and skills are exported as resources too, each to the callers who may read it.
        """
        return cls.from_llm_references([reference], naming=naming, scopes=scopes)

    @classmethod
    def from_llm_references(
        cls, references: Iterable[NamedTools], *, naming: Naming = identity, scopes: Sequence[str] | None = None
    ) -> "McpToolExport":
        """Export several references, each with its own prefix; if one has `as_published()`, its value is exported."""
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
        """The published tools, sorted by name; of several tools with the same name only the first."""
        found = ToolObject(*self.tool_objects, naming=self.naming, filter=self.filter).tools()
        if self.scopes is not None:
            found = tuple(replace(each, scopes=self.scopes) for each in found)
        return tuple(sorted(found, key=lambda each: each.name))

    def duplicates(self) -> tuple[str, ...]:
        """The names that more than one tool has; only the first of these tools is published."""
        return duplicate_names(tool for _, tool in named_tools(self.tool_objects, self.naming, self.filter))
