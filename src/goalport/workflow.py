"""Ready-made agents and parts of actions, and builders of agents."""

from goalport.runtime.workflow import *  # noqa: F403
from goalport.runtime.workflow import __all__ as __all__  # noqa: PLC0414
