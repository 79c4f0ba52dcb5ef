"""How many cores this program may use: those that the system lets it run on, within the share of its container.

Who starts several processes asks for it. Above: the settings.
"""

import math
import os
import sys
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
"""Where Linux tells how much processor time a group of processes may use, such as a container."""
_OWN_GROUP: Final = Path("/proc/self/cgroup")


def usable_cores(groups: Path = _GROUPS, own_group: Path = _OWN_GROUP) -> int:
    """The number of cores, at least 1; a share that is no whole number of cores is rounded up."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    share = min((_limit(each) for each in _own_groups(groups, own_group)), default=math.inf)
    return cores if share == math.inf else max(1, min(cores, math.ceil(share)))


def _own_groups(groups: Path, own_group: Path) -> tuple[Path, ...]:
    """The folders of the group of this process and of those around it; of version 1 of control groups, none."""
    try:
        _, found, name = own_group.read_text(encoding="utf-8").rpartition("0::/")
    except OSError:
        return ()
    own = groups / name.strip()
    return tuple(each for each in (own, *own.parents) if found and each.is_relative_to(groups))


def _limit(group: Path) -> float:
    """How many cores' time a group may use; infinite without a limit."""
    try:
        quota, period = (group / "cpu.max").read_text(encoding="utf-8").split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # there is no such file, or it says max
        return math.inf
