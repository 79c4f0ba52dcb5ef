"""Retrieval: documents are stored, searched by words, meaning and pattern, and shown to models. User guide, 3.12.

Below: `documents`, `llm` for embeddings, and `tools`. Above: `ai` takes a `ToolishRag` as a reference.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in __init__.pyi, which pyright does not read for the file beside it.

from goalport.base.lazy import lazy_exports

_MODULES = {
    "index": ["DocumentIndex"],
    "ingestion": ["DocumentFolder", "DocumentIngestion", "IngestedDocument", "Outcome", "RefreshPolicies"],
    "langchain_search": ["LangChainVectorSearch", "chroma_filter", "qdrant_filter"],
    "postgres_store": ["PostgresDocumentStore"],
    "search": [
        "AllOf",
        "AnyOf",
        "AtLeast",
        "AtMost",
        "Containing",
        "DocumentStore",
        "Equal",
        "Filter",
        "IndexInfo",
        "Not",
        "OneOf",
        "StoredDocument",
        "UriPrefix",
        "CoreSearchOperations",
        "ExpansionMethod",
        "HybridSearch",
        "RegexSearchOperations",
        "ResultExpander",
        "SearchLimits",
        "SearchOperations",
        "SectionOutline",
        "SectionReader",
        "SectionText",
        "SelectiveOperations",
        "SimilarityResult",
        "TextSearch",
        "TextSimilaritySearchRequest",
        "VectorSearch",
        "find_chunks",
        "supports",
    ],
    "sqlite_store": ["SqliteDocumentStore"],
    "toolish_rag": ["Passage", "ResultsEvent", "ResultsListener", "ShownPassages", "ToolishRag", "TryHyDE"],
    "vectors": ["TableEmbeddings"],
}
__all__ = [name for names in _MODULES.values() for name in names]

__getattr__ = lazy_exports(__name__, _MODULES)
