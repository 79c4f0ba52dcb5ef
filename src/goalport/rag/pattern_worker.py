"""The child process of `patterns`: it matches a regular expression against texts, and says which match first.

It is run as a file by a bare interpreter and imports nothing of goalport. It reads a line of JSON with the pattern, and
then lines with lists of texts; it writes one line when it has enough matches or there are no more texts.
"""

import json
import re
import sys
from unicodedata import normalize

_MEMORY = 1 << 29
"""Bytes that this process may use."""


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
        for text in json.loads(line):
            if pattern.search(normalize("NFC", text)):
                found.append(number)
                if len(found) == most:
                    return found
            number += 1
    return found


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    main()
