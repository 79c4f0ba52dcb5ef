"""What a client writes to stdin that is no message is answered, and so is what comes after it."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
from mcp_types import INVALID_REQUEST, PARSE_ERROR

from tests.stories.cooks import FILES, META, request
from tests.stories.servers import Spoken, spoken_to

CALL = json.dumps(request("cook", arguments={"seconds": 0}, _meta=META)).encode()
NO_MESSAGES: list[tuple[bytes, str | int | None, int]] = [
    (b"nonsense", None, PARSE_ERROR),
    (b"\xff\xfe", None, PARSE_ERROR),
    (b"{", None, PARSE_ERROR),
    (b'{"id": 8, "method"', 8, PARSE_ERROR),
    (b'{"id": "eight", "params": ' + b"[" * 5_000, "eight", PARSE_ERROR),
    (b"[]", None, INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', None, INVALID_REQUEST),
    (b'{"jsonrpc": "1.0", "id": 8, "method": "ping"}', 8, INVALID_REQUEST),
]


async def say(server: Spoken, *lines: bytes) -> None:
    for line in lines:
        await server.stdin.send(line + b"\n")


async def answers(server: Spoken, number: int) -> list[dict[str, Any]]:
    """So many answers, of which the last one must be the one to CALL."""
    text = b""
    with anyio.fail_after(60):
        while text.count(b"\n") < number:
            text += await server.stdout.receive()
    found = [json.loads(line) for line in text.splitlines()]
    assert found[-1]["result"]["structuredContent"] == {"content": "done"}
    return found[:-1]


async def test_nonsense_on_stdin_is_answered_with_what_is_wrong(tmp_path: Path) -> None:
    async with spoken_to(tmp_path, FILES) as server:
        await say(server, b'{"jsonrpc":"2.0","method":"nothing"}', *(line for line, *_ in NO_MESSAGES), CALL)
        found = await answers(server, len(NO_MESSAGES) + 1)
    told = [(each["id"], each["error"]["code"]) for each in found]
    assert told == [(identity, code) for _, identity, code in NO_MESSAGES]


async def test_a_first_line_that_is_too_deep_is_answered_as_any_other(tmp_path: Path) -> None:
    async with spoken_to(tmp_path, FILES) as server:
        await say(server, b"[" * 100_000, CALL)
        (found,) = await answers(server, 2)
    assert found["error"]["code"] == PARSE_ERROR


async def test_a_line_that_is_too_long_is_refused_and_the_next_ones_are_read(tmp_path: Path) -> None:
    async with spoken_to(tmp_path, FILES, max_body_bytes="1000") as server:
        fitting = CALL + b" " * (1_000 - len(CALL))
        too_long = b'{"jsonrpc": "2.0", "id": 8, "method": "' + b"x" * 200_000 + b'"}'
        await say(server, fitting)
        assert await answers(server, 1) == []
        await say(server, CALL + b" " * (1_001 - len(CALL)), too_long, CALL)
        first, second = await answers(server, 3)
    assert (first["id"], second["id"]) == (7, 8)
    assert {first["error"]["code"], second["error"]["code"]} == {INVALID_REQUEST}
    assert "A line may have 1,000 bytes" in second["error"]["message"]


async def test_a_line_that_never_ends_takes_no_more_than_its_limit(tmp_path: Path) -> None:
    async with spoken_to(tmp_path, FILES, max_body_bytes="1000") as server:
        await say(server, CALL)
        await answers(server, 1)
        before = resident(server.process.pid)
        for _ in range(64):
            await server.stdin.send(b"x" * 1_000_000)
        grown = resident(server.process.pid) - before
        await say(server, b"", CALL)
        await answers(server, 2)
    assert grown < 16_000_000


def resident(pid: int) -> int:
    """How many bytes of memory a process takes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
