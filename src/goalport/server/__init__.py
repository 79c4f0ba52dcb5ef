"""One ASGI app: who may call, what is offered and how answers look, the door of each protocol, and the workers."""

from goalport.base.lazy import lazy_rooms

__getattr__ = lazy_rooms(__name__, "site")
