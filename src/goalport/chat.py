"""Conversations with agents."""

from goalport.runtime.chat import *  # noqa: F403
from goalport.runtime.chat import __all__ as __all__  # noqa: PLC0414
