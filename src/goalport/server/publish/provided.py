"""The resources that exports and published references provide: who provides them, and what MCP calls them.

Documents and skills provide resources of their own. Of every other reference that `references.yml` publishes, the notes
are a resource, since they are what a model of this program gets of it, beside its tools.

This module makes definitions and contents and sends nothing. `publication` is above, and so is the MCP server, which
lists and reads the resources on behalf of its callers.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote, unquote

from mcp_types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

from goalport import tools
from goalport.base.caller import Caller
from goalport.base.secrecy import hide_known
from goalport.knowledge.references import LlmReference, refreshed
from goalport.server.publish.faults import Fault, read_or_fault

_MARKDOWN: Final = "text/markdown"


def exports_of(references: Iterable[LlmReference], problems: list[str]) -> list[tools.McpToolExport]:
    """The exports of published references; those that cannot be exported are appended to `problems`."""
    exports: list[tools.McpToolExport] = []
    noted: dict[str, LlmReference] = {}
    prefixes: dict[str, str] = {}
    for each in references:
        prefix = tools.reference_prefix(each.name)
        match read_or_fault(partial(tools.McpToolExport.from_llm_reference, each)):
            case Fault(reason):
                problems.append(f"The reference {each.name} is not published: {reason}")
            case export if export.tools() and prefixes.setdefault(prefix, each.name) != each.name:
                problems.append(
                    f"The reference {each.name} is not published: the names of its tools would begin with {prefix}, as "
                    f"those of {prefixes[prefix]} do. Give one of them another name."
                )
            case export:
                exports.append(export)
                if not export.resources:
                    noted[each.name] = each
    return [*exports, tools.McpToolExport((), resources=(PublishedNotes(noted),))] if noted else exports


@dataclass(frozen=True, slots=True)
class PublishedNotes:
    """The notes of references as resources, brought up to date whenever they are read; everybody may read them."""

    references: Mapping[str, LlmReference]
    namespace: str = "goalport://references/"
    description: str = "the notes of references"

    def templates(self) -> Sequence[tools.ResourceTemplate]:
        words = "The notes of a reference: what a model should know of it"
        uri = f"{self.namespace}{{name}}"
        return [tools.ResourceTemplate(uri=uri, name="reference", description=words, media_type=_MARKDOWN)]

    async def list_resources(self, _caller: Caller, /, *, limit: int, after: str = "") -> tools.ResourcePage:
        names = sorted(each for each in self.references if each > after)
        found = [
            tools.ListedResource(
                uri=f"{self.namespace}{quote(each, safe='')}",
                name=each,
                description=self.references[each].description,
                media_type=_MARKDOWN,
            )
            for each in names[:limit]
        ]
        return tools.ResourcePage(found, names[limit - 1] if len(names) > limit else "")

    async def read_resource(self, uri: str, _caller: Caller, /) -> tools.ReadResource | None:
        reference = self.references.get(unquote(uri.removeprefix(self.namespace)))
        if reference is None:
            return None
        await refreshed(reference)
        return tools.ReadResource(content=reference.notes(), media_type=_MARKDOWN)

    async def complete(self, variable: str, typed: str, given: Mapping[str, str], _caller: Caller, /) -> Sequence[str]:
        return sorted(each for each in self.references if variable == "name" and each.startswith(typed))


def providers(exports: Iterable[tools.McpToolExport], problems: list[str]) -> dict[str, tools.ResourceProvider]:
    """What provides resources, by namespace and sorted by it; two of one namespace are appended to `problems`."""
    found: dict[str, tools.ResourceProvider] = {}
    for export in exports:
        for each in export.resources:
            if not each.templates():
                continue
            if found.setdefault(each.namespace, each) is not each:
                problems.append(
                    f"Two exports have resources at {each.namespace}; those of the first are published. Give the"
                    " other reference another name."
                )
    return {namespace: found[namespace] for namespace in sorted(found)}


def templates_of(provider: tools.ResourceProvider) -> list[ResourceTemplate]:
    """The templates as clients list them."""
    return [
        ResourceTemplate(
            uri_template=each.uri,
            name=each.name,
            description=each.description or None,
            mime_type=each.media_type or None,
        )
        for each in provider.templates()
    ]


def listed(resource: tools.ListedResource) -> Resource:
    """A resource as clients list it."""
    return Resource(
        uri=resource.uri,
        name=resource.name,
        title=resource.title or None,
        description=resource.description or None,
        mime_type=resource.media_type or None,
        size=resource.size,
    )


def contents_of(uri: str, read: tools.ReadResource) -> TextResourceContents | BlobResourceContents:
    """What was read as a client gets it."""
    meta, media, content = dict(read.meta) or None, read.media_type, read.content
    if isinstance(content, bytes):
        return BlobResourceContents(uri=uri, mime_type=media, blob=b64encode(content).decode(), _meta=meta)
    return TextResourceContents(uri=uri, mime_type=media, text=hide_known(content), _meta=meta)
