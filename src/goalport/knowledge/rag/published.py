"""Documents as clients of a server get them: resources in Markdown, listed and read on behalf of whoever asks.

A resource is a document, or a section of one, by its id. Long ones are read in pages. Below: the search operations.
Above: `toolish_rag`, and the exports, which publish it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final
from urllib.parse import quote, unquote

from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.base.words import one_line, visible
from goalport.knowledge.documents import ContentRoot, LeafSection
from goalport.knowledge.rag.search import Filter, SearchOperations, SectionReader, supports
from goalport.tools import ListedResource, ReadResource, ResourcePage, ResourceTemplate, Tool

_MARKDOWN: Final = "text/markdown"
_PLACE: Final = re.compile(r"(?P<id>[^/?#]+)(?:\?page=(?P<page>[0-9]{1,6}))?")
_PAGE: Final = 100_000
"""Characters of a page: about 25,000 tokens, the most of one answer that hosts pass to a model."""
_LOOKED_AT: Final = 1_000
"""Documents that are looked at together to complete an id."""
_COMPLETED: Final = 100
"""Ids that complete one: MCP allows no more in an answer."""
_DEEPEST: Final = 6


def namespace_of(reference: str) -> str:
    """What the URIs of the documents of a reference begin with."""
    return f"goalport://documents/{quote(reference, safe='')}/"


def resource_uri(namespace: str, element: str) -> str:
    """The URI of a document or a section."""
    return f"{namespace}{quote(element, safe='')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDocuments:
    """The tools of a reference to documents, and its documents as resources: the `ResourceProvider` of `tools`.

    A store that does not read sections provides no resources.
    """

    name: str
    description: str
    namespace: str
    operations: SearchOperations
    offered: tuple[Tool, ...]
    filter: Filter | None = None
    """What has to hold of everything that is listed and read."""
    caller: Caller | None = None
    """On whose behalf is read; None: whoever asks."""

    def tools(self) -> Sequence[Tool]:
        return self.offered

    def templates(self) -> Sequence[ResourceTemplate]:
        if self._reader is None:
            return ()
        words = (
            f"{self.description}: a document, or a section of one, by the id that searches and lists give. "
            "?page=2 is the second page of a long one."
        )
        return [
            ResourceTemplate(uri=f"{self.namespace}{{id}}", name=self.name, description=words, media_type=_MARKDOWN)
        ]

    async def list_resources(self, caller: Caller, /, *, limit: int, after: str = "") -> ResourcePage:
        """The documents in the order of their addresses; of sections, clients know from searches."""
        roots = await self._documents(caller, limit, after)
        return ResourcePage(
            [
                ListedResource(
                    uri=resource_uri(self.namespace, each.id),
                    name=one_line(each.title) or each.id,
                    description=one_line(each.uri),
                    media_type=_MARKDOWN,
                )
                for each in roots
            ],
            roots[-1].uri if len(roots) == limit else "",
        )

    async def read_resource(self, uri: str, caller: Caller, /) -> ReadResource | None:
        """A document or a section in Markdown, or a page of it. Raises `BadInput` for a page that is not there."""
        place, reader = _PLACE.fullmatch(uri.removeprefix(self.namespace)), self._reader
        if place is None or reader is None:
            return None
        read = await reader.read_section(unquote(place["id"]), filter=self.filter, caller=self.caller or caller)
        if read is None:
            return None
        text, pages = _markdown(read.leaves), list[str]()
        while len(text) > _PAGE:  # cut between lines where there are some
            line = text.rfind("\n", _PAGE // 2, _PAGE)
            end = _PAGE if line < 0 else line + 1
            pages.append(text[:end])
            text = text[end:]
        pages.append(text)
        number = int(place["page"] or 1)
        if not 1 <= number <= len(pages):
            raise BadInput(f"It has the pages 1 to {len(pages)}.")
        shown = visible(pages[number - 1])
        if number < len(pages):
            more = f"{self.namespace}{place['id']}?page={number + 1}"
            shown = f"{shown}\n\n(This is page {number} of {len(pages)}. The next is at {more})"
        meta = {"goalport/page": number, "goalport/pages": len(pages)} if len(pages) > 1 else {}
        return ReadResource(content=shown, media_type=_MARKDOWN, meta=meta)

    async def complete(self, variable: str, typed: str, given: Mapping[str, str], caller: Caller, /) -> Sequence[str]:
        """The ids of documents that begin with what was typed, or have it in their title or address."""
        wanted, found, after = typed.casefold(), list[str](), ""
        while variable == "id" and len(found) <= _COMPLETED:
            roots = await self._documents(caller, _LOOKED_AT, after)
            for each in roots:
                if each.id.startswith(wanted) or wanted in f"{each.title}\n{each.uri}".casefold():
                    found.append(each.id)
            if len(roots) < _LOOKED_AT:
                break
            after = roots[-1].uri
        return found

    @property
    def _reader(self) -> SectionReader | None:
        operations = self.operations
        return operations if supports(operations, SectionReader) and isinstance(operations, SectionReader) else None

    async def _documents(self, caller: Caller, limit: int, after: str = "") -> Sequence[ContentRoot]:
        if self._reader is None:
            return ()
        whose = self.caller or caller
        return await self._reader.list_documents(limit=limit, after=after, filter=self.filter, caller=whose)


def _markdown(leaves: Iterable[LeafSection]) -> str:
    """The texts of sections, below the headings that lead to each."""

    def blocks() -> Iterator[str]:
        before: tuple[str, ...] = ()
        for leaf in leaves:
            shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(before, leaf.path, strict=False))))
            own = len(leaf.path) - 1  # it gets its heading also if it is called as the section before it
            for depth in range(min(shared, own), own + 1):
                yield f"{'#' * min(depth + 1, _DEEPEST)} {one_line(leaf.path[depth])}"
            yield leaf.text
            before = leaf.path

    return "\n\n".join(blocks())
