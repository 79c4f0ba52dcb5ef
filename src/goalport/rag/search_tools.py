"""The tools by which a model searches: one class for each kind of search, which is offered where the store can do it.

Names and parameters are those of the user guide, section 3.12.6. Above: `toolish_rag`, which offers them and is told
what they show.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Protocol, cast

from pydantic import Field

from goalport.caller import Caller
from goalport.documents import Chunk, ContainerSection, ContentElement, ContentRoot, LeafSection
from goalport.errors import BadInput
from goalport.rag.filters import Filter
from goalport.rag.passages import LONGEST, Passage, as_text, passage_of, passages_of, pieces_of
from goalport.rag.rows import leaves_of
from goalport.rag.search import (
    ExpansionMethod,
    FinderOperations,
    HybridSearch,
    RegexSearchOperations,
    ResultExpander,
    SearchOperations,
    SectionReader,
    SimilarityResult,
    TextSearch,
    TextSimilaritySearchRequest,
    VectorSearch,
    supports,
)
from goalport.tools import Parameter, Tool
from goalport.words import excerpt, folded, one_line

__all__ = ["Audience", "tools_for"]

_MOST: Final = 100
_VECTOR_THRESHOLD: Final = 0.25
_NEIGHBOURS: Final = 2
_LISTED: Final = 200
_LOOKED_AT: Final = 1_000
"""Documents that are looked at together for a title."""
_Count = Annotated[int, Field(ge=1, le=_MOST)]
_Threshold = Annotated[float | None, Field(ge=0, le=1)]
_Neighbours = Annotated[int | None, Field(ge=1, le=20)]
_TOP_K: Final = Parameter("topK", _Count, "How many results you want at most; 5 to 10 is usual.")
_NOTHING: Final = (
    "0 results: try other words, fewer of them, or another kind of search before you say that it is not there."
)
_HANDLER = Callable[[Mapping[str, Any]], Awaitable[str]]


class Audience(Protocol):
    """For whom tools search, and who is told what was shown."""

    @property
    def filter(self) -> Filter | None:
        """What has to hold of everything that is found."""
        ...

    @property
    def current_caller(self) -> Caller:
        """On whose behalf is searched now."""
        ...

    def show(self, tool: str, query: str, passages: Sequence[Passage], /) -> Sequence[Passage]:
        """Note what a model is shown, and return it as it is shown."""
        ...


def tools_for(operations: SearchOperations, audience: Audience) -> tuple[Tool, ...]:
    """The tools for what a store can do, and no others."""
    return tuple(
        tool
        for protocol, make in _TOOLS.items()
        if supports(operations, protocol)
        for tool in make(cast("Any", operations), audience)
    )


def _tool(name: str, description: str, parameters: Sequence[Parameter], handler: _HANDLER) -> Tool:
    made = Tool.of(handler, name=name, description=description, parameters=parameters)
    return replace(made, read_only=True, destructive=False, idempotent=True, open_world=False)


@dataclass(frozen=True, slots=True)
class _Search:
    """The handler of a search for a query."""

    name: str
    search: Callable[[TextSimilaritySearchRequest, type[Chunk]], Awaitable[Sequence[SimilarityResult[Chunk]]]]
    audience: Audience
    threshold: float = 0.0

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        given = arguments.get("threshold")
        request = TextSimilaritySearchRequest(
            query=arguments["query"],
            top_k=arguments["topK"],
            similarity_threshold=self.threshold if given is None else given,
            filter=self.audience.filter,
            caller=self.audience.current_caller,
        )
        passages = passages_of(await self.search(request, Chunk))
        passages = self.audience.show(self.name, request.query, passages)
        return as_text(passages) if passages else _NOTHING


def _vector(operations: VectorSearch, audience: Audience) -> Sequence[Tool]:
    words = f"The least similarity of a result, from 0 to 1; leave it out for {_VECTOR_THRESHOLD}."
    threshold = Parameter("threshold", _Threshold, words, required=False)
    query = Parameter("query", str, "A question, or a sentence as the document may have it.")
    description = "Find passages by meaning, also where they use other words than the query. Returns the most similar."
    handler = _Search("vectorSearch", operations.vector_search, audience, _VECTOR_THRESHOLD)
    return [_tool("vectorSearch", description, [query, _TOP_K, threshold], handler)]


def _text(operations: TextSearch, audience: Audience) -> Sequence[Tool]:
    query = Parameter("query", str, "Words, or a query in the syntax that the description says.")
    description = f"Find passages by the words in them. Returns the best fits first. {operations.lucene_syntax_notes}"
    words = "The least score of a result, from 0 to 1; leave it out for all."
    threshold = Parameter("threshold", _Threshold, words, required=False)
    handler = _Search("textSearch", operations.text_search, audience)
    return [_tool("textSearch", description, [query, _TOP_K, threshold], handler)]


def _hybrid(operations: HybridSearch, audience: Audience) -> Sequence[Tool]:
    query = Parameter("query", str, "A question, in the words in which the documents may answer it.")
    description = (
        "Find passages by words and by meaning at once; first comes what both find. The search to begin with when you "
        "do not know the words of the documents."
    )
    handler = _Search("hybridSearch", operations.hybrid_search, audience)
    return [_tool("hybridSearch", description, [query, _TOP_K], handler)]


def _regex(operations: RegexSearchOperations, audience: Audience) -> Sequence[Tool]:
    async def search(arguments: Mapping[str, Any]) -> str:
        regex = arguments["regex"]
        caller = audience.current_caller
        found = await operations.regex_search(regex, arguments["topK"], Chunk, filter=audience.filter, caller=caller)
        passages = passages_of(found)
        passages = audience.show("regexSearch", regex, passages)
        return as_text(passages) if passages else _NOTHING

    description = (
        "Find passages in which a regular expression matches, for what has a fixed shape: error codes, identifiers, "
        "dates. Returns the first matches in the order of the documents."
    )
    regex = Parameter("regex", str, r"A regular expression of Python, for example ERR-\d{4}. (?i) ignores case.")
    return [_tool("regexSearch", description, [regex, _TOP_K], search)]


def _expander(operations: ResultExpander, audience: Audience) -> Sequence[Tool]:
    async def broaden(arguments: Mapping[str, Any]) -> str:
        given = arguments.get("chunksToAdd")
        count = _NEIGHBOURS if given is None else given
        element, wanted, caller = arguments["chunkId"], audience.filter, audience.current_caller
        method = ExpansionMethod.SEQUENCE
        found = await operations.expand_result(element, method, count, filter=wanted, caller=caller)
        passages = [passage_of(each) for each in found if isinstance(each, Chunk)]
        passages = audience.show("broadenChunk", element, passages)
        return as_text(passages, "chunk") if passages else "No adjacent chunks found for this section."

    async def zoom_out(arguments: Mapping[str, Any]) -> str:
        element, wanted, caller = arguments["id"], audience.filter, audience.current_caller
        found = await operations.expand_result(element, ExpansionMethod.ZOOM_OUT, 1, filter=wanted, caller=caller)
        passages = await _around(operations, found, element, audience)
        passages = audience.show("zoomOut", element, passages)
        return as_text(passages, "section") if passages else "No parent section found."

    chunk = Parameter("chunkId", str, "The id of a passage that a search returned.")
    added = Parameter(
        "chunksToAdd", _Neighbours, f"How many on either side; leave it out for {_NEIGHBOURS}.", required=False
    )
    element = Parameter("id", str, "The id of a passage or of a section.")
    return [
        _tool("broadenChunk", "Read a passage with those before and after it.", [chunk, added], broaden),
        _tool("zoomOut", "Read the whole section around a passage, or the one around a section.", [element], zoom_out),
    ]


async def _around(
    operations: ResultExpander, found: Sequence[ContentElement], element: str, audience: Audience
) -> list[Passage]:
    """The passages of the section around an element; of a document, those of all its sections."""
    wanted, caller = audience.filter, audience.current_caller
    for each in found:
        if isinstance(operations, SectionReader):
            read = await operations.read_section(each.id, filter=wanted, caller=caller)
            if read is not None:
                return list(pieces_of(read.leaves, read.uri))
        if isinstance(each, LeafSection | ContainerSection):
            return list(pieces_of(leaves_of(each), await _uri_of(operations, element, audience)))
    return []


async def _uri_of(operations: ResultExpander, chunk: str, audience: Audience) -> str:
    """The address of a chunk's document; empty if the store does not find chunks by id."""
    if not isinstance(operations, FinderOperations):
        return ""
    wanted, caller = audience.filter, audience.current_caller
    found = await operations.find_by_id(chunk, Chunk, filter=wanted, caller=caller)
    return found.uri if found is not None else ""


def _sections(operations: SectionReader, audience: Audience) -> Sequence[Tool]:
    async def list_sections(arguments: Mapping[str, Any]) -> str:
        wanted, caller = audience.filter, audience.current_caller
        document, after = arguments.get("document"), arguments.get("after") or ""
        if not document:
            roots = await operations.list_documents(limit=_LISTED, after=after, filter=wanted, caller=caller)
            lines = _lines(roots)
            more = [f"There may be more: list those after {one_line(roots[-1].uri)}."] if len(roots) == _LISTED else []
            return "\n".join(["Documents:" if lines else "There are no documents.", *lines, *more])
        found = await operations.list_sections(document, filter=wanted, caller=caller)
        if not found:
            document = await _id_of(operations, document, audience)
            found = await operations.list_sections(document, filter=wanted, caller=caller)
        lines = [f"- id {each.id}: {one_line(' > '.join(each.path))} ({each.characters} characters)" for each in found]
        head = f"Sections of {one_line(found[0].uri)}:" if found else "No sections: it is none of the documents."
        return excerpt("\n".join([head, *lines]), LONGEST)

    async def read_section(arguments: Mapping[str, Any]) -> str:
        element, offset = arguments["id"], arguments.get("offset") or 0
        wanted, caller = audience.filter, audience.current_caller
        read = await operations.read_section(element, filter=wanted, caller=caller)
        if read is None:
            named = await _id_of(operations, element, audience)
            read = await operations.read_section(named, filter=wanted, caller=caller)
        if read is None:
            return "There is no such section."
        passages = list(pieces_of(read.leaves, read.uri, offset))
        passages = audience.show("readSection", element, passages)
        upto = offset + sum(len(each.text) for each in passages)
        left = sum(len(each.text) for each in read.leaves) - upto
        more = f"\n\n{left} more characters: read on with offset {upto}." if left > 0 else ""
        return f"{as_text(passages, 'section')}{more}"

    words = "The address or title of a document; leave it out to list documents."
    document = Parameter("document", str, words, required=False)
    after = Parameter("after", str, "The address after which to go on listing documents.", required=False)
    section = Parameter("id", str, "The id of a section, from listSections; or the address or title of a document.")
    offset = Parameter("offset", Annotated[int, Field(ge=0)], "How many characters to skip.", required=False)
    return [
        _tool("listSections", "List the documents, or the sections of one.", [document, after], list_sections),
        _tool("readSection", "Read a section as it stands in its document.", [section, offset], read_section),
    ]


async def _id_of(operations: SectionReader, named: str, audience: Audience) -> str:
    """The id of the document with this address or title, or else what was given. Raises `BadInput` for several."""
    wanted, after, found = folded(one_line(named)), "", list[ContentRoot]()
    caller = audience.current_caller
    while roots := await operations.list_documents(
        limit=_LOOKED_AT, after=after, filter=audience.filter, caller=caller
    ):
        for each in roots:
            if each.uri == named:
                return each.id
            found += [each] if folded(one_line(each.title)) == wanted else []
        if len(roots) < _LOOKED_AT:
            break
        after = roots[-1].uri
    if len(found) > 1:
        head = f"{len(found)} documents have this title. Name the address of the one that you mean:"
        raise BadInput("\n".join([head, *_lines(found[:_LISTED])]))
    return found[0].id if found else named


def _lines(documents: Sequence[ContentRoot]) -> list[str]:
    return [f"- {one_line(each.uri)}: {one_line(each.title)}" for each in documents]


_TOOLS: Final[Mapping[type, Callable[[Any, Audience], Sequence[Tool]]]] = {
    VectorSearch: _vector,
    TextSearch: _text,
    HybridSearch: _hybrid,
    RegexSearchOperations: _regex,
    ResultExpander: _expander,
    SectionReader: _sections,
}
"""The tools for each kind of search."""
