"""Agents as people declare them, the typed blackboard, and the planners, which do no input or output."""

from goalport.base.lazy import lazy_rooms

__getattr__ = lazy_rooms(__name__, "blackboard", "domain", "plan")
