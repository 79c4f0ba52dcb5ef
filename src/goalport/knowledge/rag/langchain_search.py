"""Search by meaning in the vector stores of LangChain: Chroma, Pinecone, Qdrant, Weaviate, Milvus, Neo4j and others.

Filters that all stores treat alike are passed to the store, and all filters are applied again to its results. LangChain
is not imported here: the code that creates a store has done so. Above: `ToolishRag`. User guide, section 3.12.8.
"""

import json
import logging
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar, assert_never, cast
from uuid import NAMESPACE_URL, uuid5

from goalport.base.caller import Caller
from goalport.knowledge.documents import Chunk, ContentElement
from goalport.knowledge.documents.content import element_id
from goalport.knowledge.rag.search import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Containing,
    Equal,
    Filter,
    Not,
    OneOf,
    SimilarityResult,
    TextSimilaritySearchRequest,
    UriPrefix,
    Value,
)

T = TypeVar("T", bound=ContentElement)
_log = logging.getLogger(__name__)
_PLACE: Final = "goalport"
"""The metadata key for a chunk's ids and position, as JSON."""
_PLACES: Final = ("id", "urtext", "parent_id", "root_id", "path", "number", "start", "end")
_COMPARED: Final[Mapping[type, tuple[str, Callable[[Any, Any], bool]]]] = {
    Equal: ("eq", operator.eq),
    AtLeast: ("gte", operator.ge),
    AtMost: ("lte", operator.le),
}
_MOST: Final = 10_000
"""The most results that are requested if the store cannot apply a filter itself."""


class LangChainVectorSearch:
    """`LangChainVectorSearch(Chroma("manuals", embeddings), translate=chroma_filter, readable=…)`.

    `readable` returns the filter for a caller, such as `lambda caller: OneOf("team", tuple(caller.scopes))`; None: the
    caller may find all. `translate` converts a filter to arguments of the store: `chroma_filter`, `qdrant_filter`, or a
    function for `Equal`, `AtLeast`, `AtMost`, `AllOf` and `AnyOf`. For other filters, more results are requested from
    the store, and filtered here. `source`, `title` and `start_index` in a text's metadata are its URI and position.
    """

    def __init__(
        self,
        store: Any,
        *,
        translate: Callable[[Filter], Mapping[str, Any]] | None = None,
        readable: Callable[[Caller], Filter | None] = lambda _caller: None,
    ) -> None:
        self._store = store
        # The public method puts all texts into a warning if a score is not between 0 and 1.
        self._search = store._asimilarity_search_with_relevance_scores  # noqa: SLF001 - see above
        self._translate, self._readable = translate, readable

    async def add(self, chunks: Sequence[Chunk], metadata: Mapping[str, Value] | None = None) -> None:
        """Store chunks, with `metadata` added to their own. A chunk replaces the stored chunk with its id.

        Metadata other than texts, numbers and booleans are left out, since few stores accept them.
        """
        metadatas: list[dict[str, Any]] = []
        for each in chunks:
            kept = {key: value for key, value in each.metadata.items() if isinstance(value, str | int | float)}
            place = json.dumps({name: getattr(each, name) for name in _PLACES})
            where = {"source": each.uri, "title": " > ".join(each.path), _PLACE: place}
            metadatas.append(kept | where | dict(metadata or {}))
        ids = [str(uuid5(NAMESPACE_URL, each.id)) for each in chunks]
        await self._store.aadd_texts([each.text for each in chunks], metadatas, ids=ids)

    async def vector_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        filters = (request.filter, self._readable(request.caller))
        wanted = AllOf(tuple(each for each in filters if each is not None))
        waiting, conjuncts = list[Filter]([wanted]), list[Filter]()
        while waiting:
            part = waiting.pop(0)
            if isinstance(part, AllOf):
                waiting[:0] = part.filters
            else:
                conjuncts.append(part)
        if not issubclass(Chunk, kind) or any(isinstance(each, OneOf) and not each.values for each in conjuncts):
            return ()  # for example, for a caller without any scope
        said = [each for each in map(_comparison, conjuncts) if each is not None]
        whole = said[0] if len(said) == 1 else AllOf(tuple(said))
        arguments = self._translate(whole) if self._translate and said else dict[str, Any]()
        count = request.top_k
        while True:
            found = await self._search(request.query, count, **arguments)
            results = [SimilarityResult(_chunk(text), min(max(float(score), 0.0), 1.0)) for text, score in found]
            kept = [each for each in results if _fits(wanted, each.match)]
            if len(kept) >= request.top_k or len(found) < count:
                break
            if count >= _MOST:
                _log.warning("Only the %d nearest texts of a vector store were looked at; others may fit too.", count)
                break
            count = min(10 * count, _MOST)
        best = [each for each in kept if each.score >= request.similarity_threshold]
        return cast("Sequence[SimilarityResult[T]]", best[: request.top_k])


def chroma_filter(wanted: Filter) -> Mapping[str, Any]:
    """The arguments for a filter in Chroma, and in stores with the same syntax: Pinecone, PGVector and Neo4j."""
    return {"filter": _translated(wanted, "$and", "$or", lambda key, how, value: {key: {f"${how}": value}})}


def qdrant_filter(wanted: Filter) -> Mapping[str, Any]:
    """The arguments for a filter in Qdrant."""

    def compared(key: str, how: str, value: Value) -> dict[str, Any]:
        wanted = {"match": {"value": value}} if how == "eq" else {"range": {how: value}}
        return {"key": f"metadata.{key}", **wanted}

    conditions = {"must": [_translated(wanted, "must", "should", compared)]}
    return {"filter": import_module("qdrant_client.models").Filter.model_validate(conditions)}


def _translated(wanted: Filter, both: str, either: str, compared: Callable[[str, str, Value], Any]) -> Any:
    match wanted:
        case AllOf(filters) | AnyOf(filters):
            name = both if isinstance(wanted, AllOf) else either
            return {name: [_translated(each, both, either, compared) for each in filters]}
        case Equal(key, value) | AtLeast(key, value) | AtMost(key, value):
            return compared(key, _COMPARED[type(wanted)][0], value)
        case _:
            raise TypeError(f"Expected comparisons, and what joins them, but came {wanted!r}.")


def _comparison(wanted: Filter) -> Filter | None:
    """The filter in a form that all stores treat alike; None: they differ, as on missing keys or parts of texts."""
    match wanted:
        case Equal(key, str() | int()) | AtLeast(key, int() | float()) | AtMost(key, int() | float()):
            return wanted if re.fullmatch(r"\w+", key) else None
        case OneOf(key, values):
            return _comparison(AnyOf(tuple(Equal(key, each) for each in values)))
        case AnyOf(filters) if filters:
            known = [each for each in map(_comparison, filters) if each is not None]
            return None if len(known) != len(filters) else known[0] if len(known) == 1 else AnyOf(tuple(known))
        case _:
            return None


def _fits(wanted: Filter, chunk: Chunk) -> bool:
    """Whether a chunk fits a filter, as in the stores of goalport."""
    match wanted:
        case Equal(key, value) | AtLeast(key, value) | AtMost(key, value):
            found = cast("Any", chunk.metadata.get(key))
            alike = isinstance(found, str if isinstance(value, str) else int | float)
            return alike and _COMPARED[type(wanted)][1](found, value)
        case OneOf(key, values):
            return any(_fits(Equal(key, each), chunk) for each in values)
        case Containing(key, value):
            found = chunk.metadata.get(key)
            return isinstance(found, str | list) and value in found
        case UriPrefix(prefix):
            return chunk.uri.startswith(prefix)
        case AllOf(filters):
            return all(_fits(each, chunk) for each in filters)
        case AnyOf(filters):
            return any(_fits(each, chunk) for each in filters)
        case Not(inner):
            return not _fits(inner, chunk)
        case _:
            assert_never(wanted)


def _chunk(text: Any) -> Chunk:
    """The chunk for a `Document` of LangChain, whether `add` or another program stored it."""
    metadata, words = dict(text.metadata), str(text.page_content)
    uri, first = str(metadata.get("source", "")), int(metadata.get("start_index") or 0)
    title, root = str(metadata.get("title") or uri), element_id(uri)
    place: dict[str, Any] = {"id": text.id or element_id(uri, words), "parent_id": root, "root_id": root, "number": 0}
    place |= {"urtext": words, "path": [title] if title else [], "start": first, "end": first + len(words)}
    place |= json.loads(metadata.pop(_PLACE, "{}"))
    place["path"] = tuple(place["path"])
    return Chunk(**place, text=words, uri=uri, metadata=metadata)
