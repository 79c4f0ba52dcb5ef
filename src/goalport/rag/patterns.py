r"""Regular expressions that models write, matched in a child process that is ended when it takes too long.

Python's `re` cannot be interrupted, and keeps every other thread waiting while it matches: `(a+)+$` over a long text
would hold the server for hours. A thread with a time limit does not help against that, a look at the pattern finds only
some of the bad ones, and engines without backtracking are another dialect. A child costs some 20 ms, and bounds the
memory and the time to compile a pattern too. Above: the stores.
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from goalport.errors import BadInput
from goalport.words import first_line

__all__ = ["check_length", "matches", "too_slow"]

_WORKER: Final = Path(__file__).with_name("pattern_worker.py")
_LONGEST: Final = 1_000


async def matches(regex: str, pages: AsyncIterator[Sequence[str]], most: int, seconds: float) -> list[int]:
    """The numbers, from 0, of the first texts that match; they come page by page, as long as there are not enough.

    Raises `BadInput` for a pattern that is none, and for one that is not done with the texts in time.
    """
    check_length(regex)
    written = await _answer(json.dumps({"pattern": regex, "most": most}), pages, seconds)
    if not written:
        raise too_slow(regex)
    answer = json.loads(written)
    if "problem" in answer:
        raise BadInput(f"{first_line(regex, 80)!r} is no regular expression of Python: {answer['problem']}.")
    return answer["matches"]


def check_length(regex: str) -> None:
    """Raise `BadInput` for a pattern that is too long to be tried."""
    if len(regex) > _LONGEST:
        raise BadInput(f"Expected a pattern of at most {_LONGEST} characters, but it has {len(regex)}. Shorten it.")


def too_slow(regex: str) -> BadInput:
    """That a pattern was given up."""
    return BadInput(
        f"The pattern {first_line(regex, 80)!r} takes too long, or too much memory. Repeat nothing that itself "
        "repeats, as in (a+)+, and look for a part that is always there."
    )


async def _answer(request: str, pages: AsyncIterator[Sequence[str]], seconds: float) -> bytes:
    """What the child answers; nothing if it was ended, because of its time or its memory."""
    command = [sys.executable, "-I", "-S", str(_WORKER)]
    written = b""
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with anyio.move_on_after(seconds):
                await _send(child.stdin, request, pages)
                written = await _received(child.stdout)
                await child.wait()  # the event loop warns of children that `kill` finds ended before it does
        finally:
            with suppress(ProcessLookupError):
                child.kill()
    return written


async def _send(stream: ByteSendStream, request: str, pages: AsyncIterator[Sequence[str]]) -> None:
    """Send the request and the texts. A child that has enough matches, or found a mistake, reads no more of them."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.send(f"{request}\n".encode())
        async for page in pages:
            await stream.send(f"{json.dumps(page)}\n".encode())
        await stream.aclose()


async def _received(stream: ByteReceiveStream) -> bytes:
    parts: list[bytes] = []
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            parts.append(await stream.receive())
    return b"".join(parts)
