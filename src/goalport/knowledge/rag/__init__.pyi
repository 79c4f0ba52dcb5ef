from goalport.knowledge.rag.index import DocumentIndex as DocumentIndex
from goalport.knowledge.rag.ingestion import (
    DocumentFolder as DocumentFolder,
    DocumentIngestion as DocumentIngestion,
    IngestedDocument as IngestedDocument,
    Outcome as Outcome,
    RefreshPolicies as RefreshPolicies,
)
from goalport.knowledge.rag.langchain_search import (
    LangChainVectorSearch as LangChainVectorSearch,
    chroma_filter as chroma_filter,
    qdrant_filter as qdrant_filter,
)
from goalport.knowledge.rag.postgres_store import PostgresDocumentStore as PostgresDocumentStore
from goalport.knowledge.rag.search import (
    AllOf as AllOf,
    AnyOf as AnyOf,
    AtLeast as AtLeast,
    AtMost as AtMost,
    Containing as Containing,
    CoreSearchOperations as CoreSearchOperations,
    DocumentStore as DocumentStore,
    Equal as Equal,
    ExpansionMethod as ExpansionMethod,
    Filter as Filter,
    HybridSearch as HybridSearch,
    IndexInfo as IndexInfo,
    Not as Not,
    OneOf as OneOf,
    RegexSearchOperations as RegexSearchOperations,
    ResultExpander as ResultExpander,
    SearchLimits as SearchLimits,
    SearchOperations as SearchOperations,
    SectionOutline as SectionOutline,
    SectionReader as SectionReader,
    SectionText as SectionText,
    SelectiveOperations as SelectiveOperations,
    SimilarityResult as SimilarityResult,
    StoredDocument as StoredDocument,
    TextSearch as TextSearch,
    TextSimilaritySearchRequest as TextSimilaritySearchRequest,
    UriPrefix as UriPrefix,
    VectorSearch as VectorSearch,
    find_chunks as find_chunks,
    supports as supports,
)
from goalport.knowledge.rag.sqlite_store import SqliteDocumentStore as SqliteDocumentStore
from goalport.knowledge.rag.toolish_rag import (
    Passage as Passage,
    ResultsEvent as ResultsEvent,
    ResultsListener as ResultsListener,
    ShownPassages as ShownPassages,
    ToolishRag as ToolishRag,
    TryHyDE as TryHyDE,
)
from goalport.knowledge.rag.vectors import TableEmbeddings as TableEmbeddings
