"""The child process of `patterns`: it matches a regular expression against texts, and says where the first matches are.

It is run as a file by a bare interpreter and imports nothing of goalport. It reads a line of JSON with the pattern, and
then lines with lists of texts; it writes one line when it has enough matches or there are no more texts.
"""

import json
import re
import sys

_MEMORY = 1 << 29
"""Bytes that this process may use."""


def main() -> None:
    """Read a request, and answer it."""
    _limit()
    asked = json.loads(sys.stdin.buffer.readline())
    try:
        pattern = re.compile(asked["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        answer = {"problem": str(error)}
    else:
        answer = {"matches": _matches(pattern, asked["most"])}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()


def _matches(pattern: "re.Pattern[str]", most: int) -> "list[tuple[int, int, int]]":
    """The number of each text that matches, and where its first match begins and ends."""
    found: list[tuple[int, int, int]] = []
    number = 0
    for line in sys.stdin.buffer:
        for text in json.loads(line):
            match = pattern.search(text)
            if match is not None:
                found.append((number, *match.span()))
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
