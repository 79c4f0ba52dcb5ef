"""Running agents: what actions call, the steps of a process, ready-made agents, conversations, the platform."""

from goalport.base.lazy import lazy_rooms

__getattr__ = lazy_rooms(__name__, "ai", "process", "autonomy", "platform")
