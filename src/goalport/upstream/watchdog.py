"""Ends the process groups of stdio servers when goalport itself is killed and cannot do it.

One shell per set of servers reads the ids of the groups from a pipe. The pipe closes when goalport ends, however it
ends; the shell then ends the groups that are still listed. Most servers have exited by then, as their stdin closes.
Above: `stdio`, which lists its processes here.
"""

import os
import subprocess
from contextlib import suppress

__all__ = ["Watchdog"]

_SCRIPT = """
groups=
while read -r what group; do
  case $what in
    +) groups="$groups $group" ;;
    -) kept=
       for each in $groups; do [ "$each" = "$group" ] || kept="$kept $each"; done
       groups=$kept ;;
  esac
done
[ -n "$groups" ] || exit 0
for each in $groups; do kill -s TERM -- "-$each"; done
sleep 2
for each in $groups; do kill -s KILL -- "-$each"; done
"""


class Watchdog:
    """The process groups that end with this process. The shell starts with the first one."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """End this process group when this process ends. It has the id of its first process."""
        if self._shell is None:
            # Where there is no shell, servers have to notice for themselves that nobody is there any more.
            with suppress(OSError):
                self._shell = _started()
        self._tell(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Leave this process group alone: it has ended."""
        self._tell(f"- {group}\n")

    def close(self) -> None:
        """End the shell; every group has been forgotten by now."""
        if self._shell is None:
            return
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        self._shell.wait(timeout=5)
        self._shell = None

    def _tell(self, line: str) -> None:
        # A shell that somebody ended must not take the servers' connections with it.
        with suppress(OSError):
            if self._shell is not None and self._shell.stdin is not None:
                os.write(self._shell.stdin.fileno(), line.encode())


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - a script of ours, with nothing of others in it
        ["/bin/sh", "-c", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Out of reach of what ends this process's own group, such as Ctrl-C in a terminal.
        start_new_session=True,
    )
