"""What models may read: documents, search in them, references and skills."""

from goalport.base.lazy import lazy_rooms

__getattr__ = lazy_rooms(__name__, "documents", "rag", "references", "skills")
