from pathlib import Path

import pytest
from pydantic import BaseModel

from goalport import AgentProcess, Export, achieves_goal, action, agent, condition
from goalport.base.errors import NonRetryable
from tests.rooms.serve.served import ERAS, served, text_of


class Wish(BaseModel):
    text: str


class Half(BaseModel):
    text: str


class Fulfilled(BaseModel):
    content: str


@agent(description="Fulfils wishes")
class Fairy:
    def __init__(self, trouble: str) -> None:
        self.trouble = trouble

    @condition
    def is_willing(self) -> bool:
        return self.trouble != "unwilling"

    @action(pre=["is_willing"])
    async def begin(self, wish: Wish) -> Half | None:
        if self.trouble == "broken":
            raise NonRetryable("the wand is broken (token=s3cret is not in here)")
        if self.trouble == "killed":
            process = AgentProcess.current()
            assert process is not None
            process.kill("An operator stopped it")
        if self.trouble == "terminated":
            process = AgentProcess.current()
            assert process is not None
            process.terminate("Its time is up")
        return Half(text=wish.text) if self.trouble != "declines" else None

    @achieves_goal(description="A wish come true", export=Export(remote=True, name="fulfil"))
    @action
    async def fulfil(self, half: Half) -> Fulfilled:
        return Fulfilled(content=half.text)


async def told(root: Path, era: str, trouble: str) -> str:
    async with served(root, Fairy(trouble)) as server, server.client(era) as client:
        result = await client.call_tool("fulfil", {"text": "rain"})
        assert result.is_error
        assert result.meta is not None
        assert result.meta["goalport/processId"]
        return text_of(result)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("unwilling", ["fulfil cannot be reached", "other input"]),
        ("broken", ["fulfil failed", "the wand is broken", "Fairy.begin", "unchanged"]),
        ("killed", ["fulfil was stopped", "An operator stopped it.", "call it again"]),
        ("terminated", ["fulfil was ended before it was done", "Its time is up."]),
    ],
)
async def test_why_there_is_no_result_is_told_in_sentences_to_act_on(
    tmp_path: Path, era: str, trouble: str, words: list[str]
) -> None:
    text = await told(tmp_path, era, trouble)
    for word in words:
        assert word in text
    assert "Traceback" not in text
    assert ".." not in text


@pytest.mark.parametrize(("trouble", "level"), [("broken", ["WARNING"]), ("unwilling", ["WARNING"]), ("killed", [])])
async def test_what_went_wrong_is_in_the_log_of_the_server(
    tmp_path: Path, trouble: str, level: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    await told(tmp_path, "auto", trouble)
    lines = [each for each in caplog.records if each.name == "goalport.server.doors.mcp.calls"]
    assert [each.levelname for each in lines] == level


async def test_a_step_that_could_not_is_no_crash(tmp_path: Path) -> None:
    assert "fulfil" in await told(tmp_path, "auto", "declines")
