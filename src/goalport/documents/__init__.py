"""Documents: how they are read, what one is made of, and how it is cut for a search. User guide, section 3.12.4.

Below: nothing of the library but words and errors. Above: `rag` stores and searches documents, `references` show them.
"""

from goalport.documents.chunker import Chunker, ChunkerConfig, ChunkTransformer
from goalport.documents.content import (
    Chunk,
    ContainerSection,
    ContentElement,
    ContentRoot,
    LeafSection,
    NavigableDocument,
    Section,
    element_id,
)
from goalport.documents.folder import Folder, FolderLimits, FoundLine
from goalport.documents.github import ArchiveLimits, GitHubArchives, GitHubCopy, GitHubPlace
from goalport.documents.html_text import read_html
from goalport.documents.limits import ReadingLimits
from goalport.documents.markdown import read_markdown
from goalport.documents.plain_text import read_plain_text
from goalport.documents.reader import DocumentReader
from goalport.documents.refresh import Freshness, RefreshPolicy
from goalport.documents.web import WebContent, WebFetcher, WebLimits
from goalport.documents.yaml_text import YamlText, read_yaml

__all__ = [
    "ArchiveLimits",
    "Chunk",
    "ChunkTransformer",
    "Chunker",
    "ChunkerConfig",
    "ContainerSection",
    "ContentElement",
    "ContentRoot",
    "DocumentReader",
    "Folder",
    "FolderLimits",
    "FoundLine",
    "Freshness",
    "GitHubArchives",
    "GitHubCopy",
    "GitHubPlace",
    "LeafSection",
    "NavigableDocument",
    "ReadingLimits",
    "RefreshPolicy",
    "Section",
    "WebContent",
    "WebFetcher",
    "WebLimits",
    "YamlText",
    "element_id",
    "read_html",
    "read_markdown",
    "read_plain_text",
    "read_yaml",
]
