"""The errors that goalport raises and knows; all that it raises are `GoalportError`."""

from goalport.base.errors import *  # noqa: F403
from goalport.base.errors import __all__ as __all__  # noqa: PLC0414
