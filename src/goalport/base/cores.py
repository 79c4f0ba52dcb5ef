"""How many cores this program may use: those that the system lets it run on, within the share of its container.

Who starts several processes asks for it. Above: the settings.
"""

import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
"""Where Linux tells how much processor time a group of processes may use, such as a container."""
_OWN_GROUP: Final = Path("/proc/self/cgroup")


def usable_cores(groups: Path = _GROUPS, own_group: Path = _OWN_GROUP) -> int:
    """The number of cores, at least 1; a share that is no whole number of cores is rounded up."""
    cores: float = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    with suppress(OSError):
        # Of version 1 of control groups there is no such line, and no group has the limits.
        _, found, name = own_group.read_text(encoding="utf-8").rpartition("0::/")
        own = groups / name.strip()
        for group in (own, *own.parents) if found else ():
            # Without a limit there is no such file, or it says max.
            with suppress(OSError, ValueError):
                quota, period = (group / "cpu.max").read_text(encoding="utf-8").split()
                cores = min(cores, int(quota) / int(period)) if group.is_relative_to(groups) else cores
    return max(1, math.ceil(cores))
