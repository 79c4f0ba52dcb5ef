"""Documents: how they are read, what one is made of, and how it is cut for a search. User guide, section 3.12.4.

Below: nothing of the library but words and errors. Above: `rag` stores and searches documents, `references` show them.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in __init__.pyi, which pyright does not read for the file beside it.

from goalport.base.lazy import lazy_exports

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

__getattr__ = lazy_exports(
    __name__,
    {
        "chunker": ["ChunkTransformer", "Chunker", "ChunkerConfig"],
        "content": [
            "Chunk",
            "ContainerSection",
            "ContentElement",
            "ContentRoot",
            "LeafSection",
            "NavigableDocument",
            "Section",
            "element_id",
        ],
        "folder": ["Folder", "FolderLimits", "FoundLine"],
        "github": ["ArchiveLimits", "GitHubArchives", "GitHubCopy", "GitHubPlace"],
        "html_text": ["read_html"],
        "limits": ["ReadingLimits"],
        "markdown": ["read_markdown"],
        "plain_text": ["read_plain_text"],
        "reader": ["DocumentReader"],
        "refresh": ["Freshness", "RefreshPolicy"],
        "web": ["WebContent", "WebFetcher", "WebLimits"],
        "yaml_text": ["YamlText", "read_yaml"],
    },
)
