"""What exported tools raise that is no `Exception`: it ends the call, not the server."""

from pathlib import Path

import anyio
import pytest

from tests.rooms.serve.served import ERAS, served, text_of

ODD_TOOLS = '''
import asyncio

from goalport import tool


class Odd(BaseException):
    """Of no family."""


@tool(export=True)
def odd() -> str:
    """Break."""
    raise Odd


@tool(export=True)
async def closes() -> str:
    """Break."""
    raise GeneratorExit


@tool(export=True)
async def cancels() -> str:
    """Break."""
    raise asyncio.CancelledError


@tool(export=True)
def fine() -> str:
    """Give an answer."""
    return "fine"
'''


@pytest.mark.parametrize("era", ERAS)
async def test_whatever_an_exported_tool_raises_the_server_answers_on(tmp_path: Path, era: str) -> None:
    with anyio.fail_after(60):
        async with served(tmp_path, files={"tools/odd.py": ODD_TOOLS}) as server, server.client(era) as client:
            for name in ("odd", "closes", "cancels"):
                assert (await client.call_tool(name, {})).is_error
                assert text_of(await client.call_tool("fine", {})) == "fine"
