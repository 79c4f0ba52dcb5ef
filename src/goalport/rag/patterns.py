r"""Regular expressions that models write, matched in a child process that is ended when it takes too long.

Python's `re` cannot be interrupted, and keeps every other thread waiting while it matches: `(a+)+$` over a long text
would hold the server for hours. A thread with a time limit does not help against that, a look at the pattern finds only
some of the bad ones, and engines without backtracking are another dialect. A child costs some 20 ms, and bounds the
memory and the time to compile a pattern too. Above: the stores.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

from goalport.errors import BadInput
from goalport.words import first_line

__all__ = ["PatternMatch", "matches"]

_WORKER: Final = Path(__file__).with_name("pattern_worker.py")
_LONGEST: Final = 1_000
_CHARACTERS: Final = 200_000
"""How many characters of texts are sent at once."""


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """Where a text has its first match."""

    number: int
    """That of the text, from 0."""
    start: int
    end: int


def matches(regex: str, texts: Iterable[str], most: int, seconds: float) -> list[PatternMatch]:
    """The first texts that match. It blocks, so it is called in a thread.

    Raises `BadInput` for a pattern that is none, and for one that is not done with the texts in time.
    """
    if len(regex) > _LONGEST:
        raise BadInput(
            f"Expected a pattern of at most {_LONGEST} characters, but it has {len(regex)}. Write a shorter one."
        )
    with subprocess.Popen(  # noqa: S603 - our own file, by this interpreter
        [sys.executable, "-I", "-S", str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdin is not None
        timer = Timer(seconds, child.kill)
        timer.start()
        try:
            written = _exchange(child, regex, texts, most)
        finally:
            timer.cancel()
            child.kill()
            with suppress(OSError):  # what nobody reads any more
                child.stdin.close()
    if not written:
        raise BadInput(
            f"The pattern {first_line(regex, 80)!r} was not done after {seconds:g} s, or took too much memory. Repeat "
            "nothing that itself repeats, as in (a+)+, and look for a part that is always there."
        )
    answer = json.loads(written)
    if "problem" in answer:
        raise BadInput(
            f"The pattern {first_line(regex, 80)!r} is no regular expression of Python: {answer['problem']}."
        )
    return [PatternMatch(*each) for each in answer["matches"]]


def _exchange(child: "subprocess.Popen[bytes]", regex: str, texts: Iterable[str], most: int) -> bytes:
    """Send the texts, and read the answer. A child that has enough, or was ended, reads no more of them."""
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(BrokenPipeError, OSError):
        child.stdin.write(json.dumps({"pattern": regex, "most": most}).encode() + b"\n")
        for batch in _batches(texts):
            child.stdin.write(json.dumps(batch).encode() + b"\n")
            child.stdin.flush()
        child.stdin.close()
    return child.stdout.read()


def _batches(texts: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size > _CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
