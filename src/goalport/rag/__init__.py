"""Retrieval: documents are stored, searched by words, meaning and pattern, and shown to models. User guide, 3.12.

Below: `documents`, `llm` for embeddings, and `tools`. Above: `ai` takes a `ToolishRag` as a reference.
"""

from goalport.rag.document_store import DocumentIndex, DocumentStore, StoredDocument
from goalport.rag.embedding_state import IndexInfo
from goalport.rag.embeddings import TableEmbeddings
from goalport.rag.filters import AllOf, AnyOf, AtLeast, AtMost, Containing, Equal, Filter, Not, OneOf, UriPrefix
from goalport.rag.ingestion import DocumentIngestion, IngestedDocument, Outcome, RefreshPolicies
from goalport.rag.passages import Passage
from goalport.rag.search import (
    CoreSearchOperations,
    ExpansionMethod,
    FinderOperations,
    HybridSearch,
    RegexSearchOperations,
    ResultExpander,
    SearchOperations,
    SectionOutline,
    SectionReader,
    SectionText,
    SelectiveOperations,
    SimilarityResult,
    TextSearch,
    TextSimilaritySearchRequest,
    TypeRetrievalOperations,
    VectorSearch,
    supports,
)
from goalport.rag.sqlite_store import SqliteDocumentStore
from goalport.rag.toolish_rag import ResultsEvent, ResultsListener, ToolishRag, TryHyDE

__all__ = [
    "AllOf",
    "AnyOf",
    "AtLeast",
    "AtMost",
    "Containing",
    "CoreSearchOperations",
    "DocumentIndex",
    "DocumentIngestion",
    "DocumentStore",
    "Equal",
    "ExpansionMethod",
    "Filter",
    "FinderOperations",
    "HybridSearch",
    "IndexInfo",
    "IngestedDocument",
    "Not",
    "OneOf",
    "Outcome",
    "Passage",
    "RefreshPolicies",
    "RegexSearchOperations",
    "ResultExpander",
    "ResultsEvent",
    "ResultsListener",
    "SearchOperations",
    "SectionOutline",
    "SectionReader",
    "SectionText",
    "SelectiveOperations",
    "SimilarityResult",
    "SqliteDocumentStore",
    "StoredDocument",
    "TableEmbeddings",
    "TextSearch",
    "TextSimilaritySearchRequest",
    "ToolishRag",
    "TryHyDE",
    "TypeRetrievalOperations",
    "UriPrefix",
    "VectorSearch",
    "supports",
]
