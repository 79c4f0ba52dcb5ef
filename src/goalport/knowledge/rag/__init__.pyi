from goalport.knowledge.rag.document_folder import DocumentFolder as DocumentFolder
from goalport.knowledge.rag.document_store import (
    DocumentIndex as DocumentIndex,
    DocumentStore as DocumentStore,
    IndexInfo as IndexInfo,
    StoredDocument as StoredDocument,
)
from goalport.knowledge.rag.embeddings import TableEmbeddings as TableEmbeddings
from goalport.knowledge.rag.filters import (
    AllOf as AllOf,
    AnyOf as AnyOf,
    AtLeast as AtLeast,
    AtMost as AtMost,
    Containing as Containing,
    Equal as Equal,
    Filter as Filter,
    Not as Not,
    OneOf as OneOf,
    UriPrefix as UriPrefix,
)
from goalport.knowledge.rag.ingestion import (
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
from goalport.knowledge.rag.passages import Passage as Passage
from goalport.knowledge.rag.postgres_store import PostgresDocumentStore as PostgresDocumentStore
from goalport.knowledge.rag.search import (
    CoreSearchOperations as CoreSearchOperations,
    ExpansionMethod as ExpansionMethod,
    FinderOperations as FinderOperations,
    HybridSearch as HybridSearch,
    RegexSearchOperations as RegexSearchOperations,
    ResultExpander as ResultExpander,
    SearchOperations as SearchOperations,
    SectionOutline as SectionOutline,
    SectionReader as SectionReader,
    SectionText as SectionText,
    SelectiveOperations as SelectiveOperations,
    SimilarityResult as SimilarityResult,
    TextSearch as TextSearch,
    TextSimilaritySearchRequest as TextSimilaritySearchRequest,
    TypeRetrievalOperations as TypeRetrievalOperations,
    VectorSearch as VectorSearch,
    find_chunks as find_chunks,
    supports as supports,
)
from goalport.knowledge.rag.sqlite_store import SqliteDocumentStore as SqliteDocumentStore
from goalport.knowledge.rag.toolish_rag import (
    ResultsEvent as ResultsEvent,
    ResultsListener as ResultsListener,
    ShownPassages as ShownPassages,
    ToolishRag as ToolishRag,
    TryHyDE as TryHyDE,
)
