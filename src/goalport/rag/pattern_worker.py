"""The child process of `patterns`: it matches a regular expression against texts, and says which match first.

It is run as a file by a bare interpreter and imports nothing of goalport. It reads a line of JSON with the pattern, and
then lines with lists of texts; it writes one line when it has enough matches or there are no more texts.
"""

import json
import re
import signal
import sys
from unicodedata import normalize

_MEMORY = 1 << 29
"""Bytes that this process may use."""
_SECONDS = 1.0
"""After how long it is ended while it matches the texts of one line: an honest pattern takes some milliseconds."""


def main() -> None:
    """Read a request, and answer it."""
    _limit()
    asked = json.loads(sys.stdin.buffer.readline())
    try:
        pattern = re.compile(normalize("NFC", asked["pattern"]))
    except (re.error, OverflowError, RecursionError) as error:
        answer = {"problem": str(error)}
    else:
        answer = {"matches": _matches(pattern, asked["most"])}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()


def _matches(pattern: "re.Pattern[str]", most: int) -> "list[int]":
    """The number of each text that matches, however its characters are composed."""
    found: list[int] = []
    number = 0
    for line in sys.stdin.buffer:
        _end_after(_SECONDS)
        for text in json.loads(line):
            if pattern.search(normalize("NFC", text)):
                found.append(number)
                if len(found) == most:
                    return found
            number += 1
        _end_after(0)
    return found


def _end_after(seconds: float) -> None:
    """End this process after a time, even while it matches; 0: not any more."""
    if hasattr(signal, "setitimer"):  # Windows has no such timers
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    main()
