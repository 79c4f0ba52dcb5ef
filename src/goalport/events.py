"""What happens in processes, as records for listeners."""

from goalport.base.events import *  # noqa: F403
from goalport.base.events import __all__ as __all__  # noqa: PLC0414
