"""Conversations with a chatbot: what a turn costs besides its model, idle sessions, and going on after a restart.

The model answers at once, in this process, so that everything measured is goalport. Ratios come from turns that are
measured alternately, in one run.
"""

import asyncio
import gc
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.report import Table
from goalport import ActionContext, AgentPlatform, action
from goalport.caller import Caller
from goalport.chat import ChatSession, Conversation, chatbot
from goalport.events import MessageDelta
from goalport.llm import (
    AssistantMessage,
    ModelCall,
    ModelCard,
    ModelReply,
    Models,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    UserMessage,
)
from goalport.store import InMemoryProcessStore, ProcessStore
from goalport.store.sqlite import SqliteProcessStore

__all__ = ["conversations"]

_ANN: Final = Caller("ann")
_QUESTION: Final = "Which of the rivers that we talked about is the longest, and how do you know? " * 4
_ANSWER: Final = [f"piece {number} of the answer, " for number in range(20)]


class _InstantModel:
    """A model that answers at once, and notes when it began to."""

    card = ModelCard(name="instant", provider="benchmark")

    def __init__(self) -> None:
        self.begun_at = 0.0

    async def reply(self, _: ModelCall, /) -> ModelReply:
        return self._whole()

    async def stream(self, _: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        self.begun_at = time.perf_counter()
        for each in _ANSWER:
            yield TextDelta(each)
        yield self._whole()

    def _whole(self) -> ModelReply:
        usage = TokenUsage(input_tokens=1000, output_tokens=100)
        return ModelReply(message=AssistantMessage("".join(_ANSWER)), usage=usage, model=self.card.name)


@chatbot(description="Answers with what a model says")
class Answering:
    """It streams the reply of the model."""

    @action(trigger=UserMessage, can_rerun=True)
    async def respond(self, conversation: Conversation, context: ActionContext) -> None:
        """Answer."""
        await context.send_message(context.ai.streaming().respond(conversation.messages))


def conversations(*, quick: bool = False) -> Table:
    """The table of conversations."""
    rows = asyncio.run(_rows(quick=quick))
    note = (
        "The chatbot streams the reply of a model that answers at once, in 20 pieces. A turn is measured against"
        " `Ai.respond` with the same messages, in turns. *First piece*: from when the model gives it to when a reader"
        " of the turn has it. A restart is a new platform on the file of the one before; it takes until the chatbot has"
        " answered one message more, with all messages before it in its prompt. Medians."
    )
    return Table("conversations", "Conversations", ("what", "store", "takes", "aim"), rows, [note])


async def _rows(*, quick: bool) -> Sequence[Sequence[str]]:
    turns, idle, restarts = (5, 20, 1) if quick else (200, 1_000, 9)
    rows: list[Sequence[str]] = []
    for store in ("memory", "sqlite"):
        async with _platform(store) as (platform, model):
            rows += await _turns(store, platform, model, turns)
        async with _platform(store) as (platform, _):
            rows += await _idle(store, platform, idle)
    for count in (20, 200) if quick else (200, 2_000):
        rows.append(await _restarted(count, restarts))
    return rows


@asynccontextmanager
async def _platform(store: str, folder: Path | None = None) -> AsyncGenerator[tuple[AgentPlatform, _InstantModel]]:
    async with AsyncExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="goalport-conversations-")))
        kept: ProcessStore = InMemoryProcessStore()
        if store == "sqlite":
            kept = await stack.enter_async_context(SqliteProcessStore(place / "processes.db"))
        model = _InstantModel()
        platform = AgentPlatform([Answering], store=kept, models=Models(models=[model]))
        yield await stack.enter_async_context(platform), model


async def _turns(store: str, platform: AgentPlatform, model: _InstantModel, count: int) -> Sequence[Sequence[str]]:
    """What a turn takes over the model alone, and after how long the first piece of its reply is there."""
    session = await platform.chatbots["Answering"].create_session(_ANN)
    alone: list[float] = []
    whole: list[float] = []
    first: list[float] = []
    for _ in range(count):
        messages = (*session.conversation.messages, UserMessage(_QUESTION))
        alone.append(await _seconds(lambda messages=messages: platform.ai.respond(messages)))
        began = time.perf_counter()
        turn = await session.begin_turn(UserMessage(_QUESTION))
        async for each in turn.events():
            if isinstance(each, MessageDelta) and len(first) == len(whole):
                first.append(time.perf_counter() - model.begun_at)
        await turn.result()
        whole.append(time.perf_counter() - began)
    over = median(taken - without for taken, without in zip(whole, alone, strict=True))
    return [
        ("first piece of a reply, after the model's", store, _ms(median(first)), "≤ 30 ms"),
        (f"a turn over `Ai.respond`, in a conversation of {count}", store, _ms(over), "≤ 5 ms"),
    ]


async def _idle(store: str, platform: AgentPlatform, count: int) -> Sequence[Sequence[str]]:
    """What sessions keep in memory that have had a turn each."""
    await _talk(await platform.chatbots["Answering"].create_session(_ANN), 1)
    tasks, before = _tasks(), _resident()
    sessions: list[ChatSession] = []
    for _ in range(count):
        sessions.append(await platform.chatbots["Answering"].create_session(_ANN))
        await _talk(sessions[-1], 1)
    megabytes, more = (_resident() - before) / 2**20, _tasks() - tasks
    assert all(each.idle for each in sessions)
    return [(f"{count:,} idle sessions", store, f"{megabytes:.1f} MB and {more} tasks", "≤ 20 MB and no task")]


async def _restarted(turns: int, times: int) -> Sequence[str]:
    with tempfile.TemporaryDirectory(prefix="goalport-conversations-") as folder:
        async with _platform("sqlite", Path(folder)) as (platform, _):
            session = await platform.chatbots["Answering"].create_session(_ANN)
            await _talk(session, turns)
        taken = [await _going_on(Path(folder), session.conversation.id) for _ in range(times)]
    return (f"restart, and turn {turns + 1:,}", "sqlite", _ms(median(taken)), "≤ 100 ms")


async def _going_on(folder: Path, conversation_id: str) -> float:
    began = time.perf_counter()
    async with _platform("sqlite", folder) as (platform, _):
        session = await platform.chatbots["Answering"].find_session(conversation_id, _ANN)
        assert session is not None
        await _talk(session, 1)
        return time.perf_counter() - began


async def _talk(session: ChatSession, turns: int) -> None:
    for _ in range(turns):
        result = await session.on_user_message(UserMessage(_QUESTION))
        assert not result.failure, result.failure


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def _tasks() -> int:
    return len(asyncio.all_tasks())


def _resident() -> int:
    """Bytes of memory that are in use now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


if __name__ == "__main__":
    print(conversations(quick="--quick" in sys.argv).markdown)
