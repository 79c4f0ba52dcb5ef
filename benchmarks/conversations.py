"""Conversations with a chatbot: what a turn costs besides its model, idle sessions, and going on after a restart.

The model answers at once, in this process, so that everything measured is goalport. Ratios come from turns that are
measured alternately, in one run.
"""

import asyncio
import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.report import Table
from goalport import ActionContext, AgentPlatform, action
from goalport.base.caller import Caller
from goalport.base.events import MessageDelta
from goalport.models.llm import (
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
from goalport.runtime.chat import ChatSession, Conversation, chatbot
from goalport.store import InMemoryProcessStore, ProcessStore
from goalport.store.sqlite import SqliteProcessStore
from goalport.store.sqlite_file import Synchronous

__all__ = ["conversations"]

_STORES: Final = ("memory", "sqlite", "sqlite, `normal`")
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
        " of the turn has it. With SQLite a turn commits seven times, which takes as long as the disk needs unless"
        " `store_synchronous` is `normal`. A session is idle after a turn. A restart is a new platform on the file of"
        " the one before; it takes until the chatbot has answered one message more. *CPU*: the processor time of all"
        " that. Medians."
    )
    return Table("conversations", "Conversations", ("what", "store", "takes", "CPU", "aim"), rows, [note])


async def _rows(*, quick: bool) -> Sequence[Sequence[str]]:
    turns, idle, restarts = (5, 20, 1) if quick else (200, 1_000, 9)
    rows: list[Sequence[str]] = []
    for store in _STORES:
        async with _platform(store) as (platform, model):
            rows += await _turns(store, platform, model, turns)
    rows += [_idle_elsewhere(store, idle) for store in _STORES[:2]]
    for count in (5, 20) if quick else (200, 1_000):
        rows.append(await _restarted(count, restarts))
    return rows


class _Taken(NamedTuple):
    """How long something took, and for how long it kept the processor busy."""

    seconds: float
    busy: float

    @property
    def cells(self) -> tuple[str, str]:
        return f"{1e3 * self.seconds:.1f} ms", f"{1e3 * self.busy:.1f} ms"


def _median(taken: Sequence[_Taken]) -> _Taken:
    return _Taken(median(each.seconds for each in taken), median(each.busy for each in taken))


async def _measured(work: Awaitable[object]) -> _Taken:
    began, busy = time.perf_counter(), time.process_time()
    await work
    return _Taken(time.perf_counter() - began, time.process_time() - busy)


@asynccontextmanager
async def _platform(store: str, folder: Path | None = None) -> AsyncGenerator[tuple[AgentPlatform, _InstantModel]]:
    async with AsyncExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="goalport-conversations-")))
        kept: ProcessStore = InMemoryProcessStore()
        if store != "memory":
            waits: Synchronous = "full" if store == "sqlite" else "normal"
            kept = await stack.enter_async_context(SqliteProcessStore(place / "processes.db", synchronous=waits))
        model = _InstantModel()
        platform = AgentPlatform([Answering], store=kept, models=Models(models=[model]))
        yield await stack.enter_async_context(platform), model


async def _turns(store: str, platform: AgentPlatform, model: _InstantModel, count: int) -> Sequence[Sequence[str]]:
    """What a turn takes over the model alone, and after how long the first piece of its reply is there."""
    session = await platform.chatbots["Answering"].create_session(_ANN)
    over: list[_Taken] = []
    first: list[float] = []

    async def turn() -> None:
        begun = await session.begin_turn(UserMessage(_QUESTION))
        told = len(first)
        async for each in begun.events():
            if isinstance(each, MessageDelta) and len(first) == told:
                first.append(time.perf_counter() - model.begun_at)
        await begun.result()

    for _ in range(count):
        messages = (*session.conversation.messages, UserMessage(_QUESTION))
        alone, whole = await _measured(platform.ai.respond(messages)), await _measured(turn())
        over.append(_Taken(whole.seconds - alone.seconds, whole.busy - alone.busy))
    return [
        ("first piece of a reply, after the model's", store, f"{1e3 * median(first):.1f} ms", "", "≤ 30 ms"),
        (f"a turn over `Ai.respond`, of {count}", store, *_median(over).cells, "≤ 5 ms"),
    ]


def _idle_elsewhere(store: str, count: int) -> Sequence[str]:
    """What idle sessions keep in a program that has done nothing before."""
    command = [sys.executable, "-m", "benchmarks.conversations", store, str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
    return (f"{count:,} idle sessions", store, done.stdout.strip(), "", "≤ 20 MB and no task")


async def _idle(store: str, count: int) -> str:
    """What sessions keep in memory that have had a turn each."""
    async with _platform(store) as (platform, _):
        await _talk(await platform.chatbots["Answering"].create_session(_ANN), 10)
        tasks, before = len(asyncio.all_tasks()), _resident()
        sessions = [await platform.chatbots["Answering"].create_session(_ANN) for _ in range(count)]
        for each in sessions:
            await _talk(each, 1)
        megabytes, more = (_resident() - before) / 2**20, len(asyncio.all_tasks()) - tasks
        assert all(each.idle for each in sessions)
        return f"{megabytes:.1f} MB and {more or 'no'} task{'s' if more > 1 else ''}"


async def _restarted(turns: int, times: int) -> Sequence[str]:
    with tempfile.TemporaryDirectory(prefix="goalport-conversations-") as folder:
        async with _platform(_STORES[2], Path(folder)) as (platform, _):
            session = await platform.chatbots["Answering"].create_session(_ANN)
            await _talk(session, turns)
        taken = [await _measured(_going_on(Path(folder), session.conversation.id)) for _ in range(times)]
    return (f"restart, and an answer after {2 * turns:,} messages", "sqlite", *_median(taken).cells, "≤ 100 ms")


async def _going_on(folder: Path, conversation_id: str) -> None:
    async with _platform("sqlite", folder) as (platform, _):
        session = await platform.chatbots["Answering"].find_session(conversation_id, _ANN)
        assert session is not None
        await _talk(session, 1)


async def _talk(session: ChatSession, turns: int) -> None:
    for _ in range(turns):
        result = await session.on_user_message(UserMessage(_QUESTION))
        assert not result.failure, result.failure


def _resident() -> int:
    """Bytes of memory that are in use now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    print(asyncio.run(_idle(sys.argv[1], int(sys.argv[2]))))
