"""Language models behind one interface, and the templates and contributors of prompts."""

from goalport.base.lazy import lazy_rooms

__getattr__ = lazy_rooms(__name__, "llm", "prompts")
