"""A process that the server's agents of today cannot read can be cancelled by its caller all the same."""

from pathlib import Path

import anyio
import pytest

from goalport import Export, UserInput, achieves_goal, agent
from goalport.runtime.process import Killed
from tests.rooms.platform.test_left_behind import Coin, Mint
from tests.rooms.serve.served import served


@agent(description="Finds coins")
class Finder:
    @achieves_goal(description="A coin", export=Export(remote=True, long=True))
    async def find(self, user_input: UserInput) -> Coin:
        return Coin(1)


@pytest.mark.parametrize("runs", [True, False], ids=["that another server runs", "that nobody runs"])
async def test_a_process_is_cancelled_where_its_agent_is_not_known(tmp_path: Path, *, runs: bool) -> None:
    async with served(tmp_path, mint := Mint(), store="sqlite") as first:
        process = first.platform.start("Mint", UserInput("gold"))
        with anyio.fail_after(60):
            await mint.begun.wait()
            if not runs:
                await first.platform.aclose()
            async with served(tmp_path, Finder(), store="sqlite") as second, second.client() as client:
                status = await client.call_tool("process_status", {"processId": process.id})
                assert "the agent of process" in str(status.content)
                result = await client.call_tool("process_cancel", {"processId": process.id})
                assert result.structured_content == {"processId": process.id, "status": "killed", "questions": []}
                assert dict(await second.platform.store.counts()) == {"killed": 1}
                again = await client.call_tool("process_cancel", {"processId": process.id})
                assert "the agent of process" in str(again.content)
            assert not runs or await process.wait() == Killed("Its caller cancelled it.")
