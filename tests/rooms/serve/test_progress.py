import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import LoggingLevel, LoggingMessageNotificationParams
from pydantic import BaseModel

from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent
from goalport.base.errors import Retryable
from goalport.base.events import ActionFinished, ActionRetried, ActionStarted, ProgressUpdated
from goalport.runtime.process import Killed
from goalport.server.doors.mcp.notifications import without_deprecations
from goalport.server.doors.mcp.requests import Progress
from tests.rooms.serve.served import ERAS, Served, served

Told = tuple[float, float | None, str | None]


class Draft(BaseModel):
    text: str


class Review(BaseModel):
    text: str


class Story(BaseModel):
    content: str


@agent(description="Writes stories")
class Writer:
    def __init__(self, hold: asyncio.Event | None = None, *, stumbles: bool = False) -> None:
        self.hold = hold
        self.stumbles = stumbles

    @action
    async def draft(self, said: UserInput, context: ActionContext) -> Draft:
        context.progress("halfway through the draft")
        context.progress("nearly there \ud800" + "x" * 10_000)
        return Draft(text=said.content)

    @action
    def review(self, draft: Draft, context: ActionContext) -> Review:
        context.progress("read in a thread")
        return Review(text=draft.text)

    @achieves_goal(description="A story", export=Export(remote=True, name="write_story"))
    @action
    async def write(self, review: Review) -> Story:
        if self.hold is not None:
            await self.hold.wait()
        if self.stumbles:
            self.stumbles = False
            raise Retryable("out of ink")
        return Story(content=review.text)


async def progress_of(server: Served, era: str) -> list[Told]:
    told: list[Told] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with server.client(era) as client:
        await client.call_tool("write_story", {"content": "x"}, progress_callback=note)
        with anyio.fail_after(60):
            while not any("3/3" in (message or "") for _, _, message in told):
                await anyio.sleep(0.01)
    return told


@pytest.mark.parametrize("era", ERAS)
async def test_each_action_and_each_message_moves_the_progress_on(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Writer()) as server:
        told = await progress_of(server, era)
    amounts = [progress for progress, _, _ in told]
    assert amounts == sorted(set(amounts))
    messages = [message or "" for _, _, message in told]
    assert [message for message in messages if "/" in message] == ["1/3 draft", "2/3 review", "3/3 write"]
    assert "halfway through the draft" in messages
    assert "read in a thread" in messages
    assert all(total == 3 for _, total, _ in told[1:])
    assert max(map(len, messages)) < 1_000


@pytest.mark.parametrize("era", ERAS)
async def test_an_attempt_that_failed_is_told(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Writer(stumbles=True)) as server:
        assert any("failed at attempt 1" in (message or "") for _, _, message in await progress_of(server, era))


@pytest.mark.parametrize("era", ERAS)
async def test_a_silent_action_is_heard_of_at_each_heartbeat(tmp_path: Path, era: str) -> None:
    hold = asyncio.Event()
    beats: list[Told] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        if "still at write" in (message or ""):
            beats.append((progress, total, message))
            if len(beats) == 3:
                hold.set()

    async with served(tmp_path, Writer(hold), heartbeat_seconds=0.02) as server, server.client(era) as client:
        with anyio.fail_after(60):
            await client.call_tool("write_story", {"content": "x"}, progress_callback=note)
    amounts = [progress for progress, _, _ in beats]
    assert amounts == sorted(set(amounts))
    assert all(2 < amount < 3 for amount in amounts)


@pytest.mark.parametrize("era", ERAS)
async def test_the_first_message_names_the_process(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Writer()) as server:
        told = await progress_of(server, era)
        process = await server.process()
    assert told[0] == (0, None, f"process {process.id} begins")


@agent(description="Talks without a pause")
class Talker:
    @achieves_goal(description="A story", export=Export(remote=True, name="talk"))
    @action
    async def talk(self, said: UserInput, context: ActionContext) -> Story:
        for number in range(50):
            context.progress(f"word {number}")
            await anyio.wait_all_tasks_blocked()
        return Story(content=said.content)


@pytest.mark.parametrize("era", ERAS)
async def test_there_is_no_heartbeat_where_there_is_news(tmp_path: Path, era: str) -> None:
    told: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with served(tmp_path, Talker(), heartbeat_seconds=30) as server, server.client(era) as client:
        with anyio.fail_after(60):
            await client.call_tool("talk", {"content": "x"}, progress_callback=note)
    assert "word 49" in told
    assert not [each for each in told if each.startswith("still ")]


@agent(description="Watches without being heard")
class Breaker:
    def __init__(self) -> None:
        self.hold = asyncio.Event()

    @achieves_goal(description="A story", export=Export(remote=True, name="hold"))
    @action
    async def hold_on(self, said: UserInput) -> Story:
        await self.hold.wait()
        return Story(content=said.content)


async def test_a_call_that_breaks_while_it_is_watched_leaves_nothing_running(tmp_path: Path) -> None:
    async def note(progress: float, total: float | None, message: str | None) -> None: ...

    async with served(tmp_path, Breaker()) as server, server.client() as client:
        state = server.state
        state.settings = state.settings.model_copy(update={"heartbeat_seconds": "no number"})
        with anyio.fail_after(60):
            assert (await client.call_tool("hold", {"content": "x"}, progress_callback=note)).is_error
            outcome = await (await server.process()).wait()
    assert isinstance(outcome, Killed)


SLOW = """
import anyio
from goalport import tool

@tool(export=True)
async def wait(seconds: float) -> str:
    '''Wait.'''
    await anyio.sleep(seconds)
    return "waited"
"""


@pytest.mark.parametrize("era", ERAS)
async def test_an_exported_tool_that_takes_its_time_is_heard_of_too(tmp_path: Path, era: str) -> None:
    told: list[Told] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    files = {"tools/slow.py": SLOW}
    async with served(tmp_path, files=files, heartbeat_seconds=0.01) as server, server.client(era) as client:
        assert not (await client.call_tool("wait", {"seconds": 0.2}, progress_callback=note)).is_error
    assert len(told) >= 2
    assert [progress for progress, _, _ in told] == list(range(1, len(told) + 1))
    assert "still at wait" in (told[0][2] or "")


async def test_progress_only_grows_whatever_happens() -> None:
    told: list[Told] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def no_log(level: LoggingLevel, text: str) -> None: ...

    progress = Progress(note, no_log, None, heartbeat_seconds=0.01)
    with progress.heartbeats("waits"), anyio.fail_after(60):
        while not told:
            await anyio.lowlevel.checkpoint()
    before = len(told)
    await progress.begin("begins")
    events: list[Any] = [
        ProgressUpdated("planning"),
        ActionStarted("A.one", 1, 2),
        ActionRetried("A.one", 1, 0.2, "down"),
        ActionFinished("A.one", 1, 2, "failed", 0.1),
        ActionStarted("A.two", 2, 4),
        ProgressUpdated("again"),
        ActionFinished("A.two", 2, 4, "declined", 0.1),
    ]
    for each in events:
        await progress.event(each)
    amounts = [amount for amount, _, _ in told]
    assert amounts == sorted(set(amounts))
    base = told[before][0]
    assert (base + 1, base + 2, "1/2 one failed") in told
    assert told[-1] == (base + 2, base + 4, "2/4 two declined")


async def test_who_asks_for_no_progress_is_told_nothing(tmp_path: Path) -> None:
    messages: list[object] = []

    async def note(message: object) -> None:
        messages.append(message)

    async with served(tmp_path, Writer()) as server, server.client("legacy", message_handler=note) as client:
        await client.call_tool("write_story", {"content": "x"})
    assert not messages


async def logged(server: Served, era: str, **options: Any) -> list[LoggingMessageNotificationParams]:
    lines: list[LoggingMessageNotificationParams] = []

    async def note(line: LoggingMessageNotificationParams) -> None:
        lines.append(line)

    level = options.pop("level", None)
    async with server.client(era, logging_callback=note, **options) as client:
        if level is not None:
            with without_deprecations():
                await client.set_logging_level(level)  # pyright: ignore[reportDeprecated]
        await client.call_tool("write_story", {"content": "x"})
        with anyio.fail_after(60):
            await anyio.wait_all_tasks_blocked()
    return lines


@pytest.mark.parametrize(("level", "least"), [("debug", {"debug", "info", "warning"}), ("warning", {"warning"})])
async def test_a_handshake_client_gets_the_log_from_the_level_it_sets(
    tmp_path: Path, level: str, least: set[str]
) -> None:
    async with served(tmp_path, Writer(stumbles=True)) as server:
        lines = await logged(server, "legacy", level=level)
    assert {line.level for line in lines} == least
    assert any("out of ink" in str(line.data) for line in lines)


async def test_a_client_of_the_newest_revision_gets_it_when_its_request_says_so(tmp_path: Path) -> None:
    async with served(tmp_path, Writer(stumbles=True)) as server:
        with without_deprecations():
            lines = await logged(server, "auto", log_level="info")
    assert {line.level for line in lines} == {"info", "warning"}


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_gets_a_log_unasked(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Writer(stumbles=True)) as server:
        assert not await logged(server, era)
