"""Documents: how they are read, their sections, and how they are split for a search. User guide, section 3.12.4.

Below: nothing of the library but words and errors. Above: `rag` stores and searches documents, `references` show them.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in __init__.pyi, which pyright does not read for the file beside it.

from goalport.base.lazy import lazy_exports

_MODULES = {
    "chunker": ["ChunkTransformer", "Chunker", "ChunkerConfig"],
    "content": [
        "Chunk",
        "ContainerSection",
        "ContentElement",
        "ContentRoot",
        "LeafSection",
        "NavigableDocument",
        "ReadingLimits",
        "Section",
        "element_id",
        "read_plain_text",
    ],
    "folder": ["Folder", "FolderLimits", "FoundLine"],
    "github": ["ArchiveLimits", "GitHubArchives", "GitHubCopy", "GitHubPlace"],
    "html_text": ["read_html"],
    "markdown": ["YamlText", "read_markdown", "read_yaml"],
    "reader": ["DocumentReader"],
    "refresh": ["RefreshPolicy"],
    "web": ["WebContent", "WebFetcher", "WebLimits"],
}
__all__ = [name for names in _MODULES.values() for name in names]

__getattr__ = lazy_exports(__name__, _MODULES)
