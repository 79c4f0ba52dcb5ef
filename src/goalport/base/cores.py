"""How many cores this program may use: its CPU affinity, limited by the CPU quota of its container (Linux).

It decides how many worker processes are started. Above: the settings.
"""

import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
"""Where Linux mounts control groups, whose files limit the processor time of a container."""
_OWN_GROUP: Final = Path("/proc/self/cgroup")


def usable_cores(groups: Path = _GROUPS, own_group: Path = _OWN_GROUP) -> int:
    """The number of cores, at least 1; a quota of 1.5 cores counts as 2."""
    cores: float = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    with suppress(OSError):
        # Version 1 of control groups has no such line; limits of that version are not read.
        _, found, name = own_group.read_text(encoding="utf-8").rpartition("0::/")
        own = groups / name.strip()
        for group in (own, *own.parents) if found else ():
            # Without a limit there is no such file, or it says max.
            with suppress(OSError, ValueError):
                quota, period = (group / "cpu.max").read_text(encoding="utf-8").split()
                cores = min(cores, int(quota) / int(period)) if group.is_relative_to(groups) else cores
    return max(1, math.ceil(cores))
