"""Documents: what one is made of, from its sections to the chunks that are searched. User guide, section 3.12.4.

Below: nothing of the library but words and errors. Above: `rag` stores and searches documents, `references` show them.
"""

from goalport.documents.content import (
    Chunk,
    ContainerSection,
    ContentElement,
    ContentRoot,
    LeafSection,
    NavigableDocument,
    Section,
)

__all__ = [
    "Chunk",
    "ContainerSection",
    "ContentElement",
    "ContentRoot",
    "LeafSection",
    "NavigableDocument",
    "Section",
]
