"""A call of an upstream server's tool that goes on while the action that made it is parked.

A server may ask a person in the middle of a call, and wants the answer in the same call. So such calls run in a task of
their own: the action waits for it, and is parked when the server asks; begun again, it finds the call where it was. A
call lives as long as the program and the action; after that it is made anew.
"""

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, cast

from goalport.process.questions import Question
from goalport.tools import ToolResult
from goalport.upstream.calls import call_hooks

__all__ = ["Asker", "OpenCall"]


class Asker(Protocol):
    """Who asks people for a call, and hears of it."""

    def pose(self, message: str, schema: Mapping[str, object], /) -> Question:
        """Put a question to a person. Raises `ToolError` when it cannot be put."""
        ...

    def withdraw(self, question: Question, /) -> None:
        """Nobody needs the answer any more, if there is none yet."""
        ...

    async def progress(self, done: float, of: float | None, message: str | None, /) -> None:
        """The server says how far it is."""
        ...


class OpenCall:
    """A call in a task of its own, begun when this is made."""

    def __init__(self, run: Callable[[], Awaitable[ToolResult]], asker: Asker) -> None:
        self._asker = asker
        self._asked: dict[str, tuple[Question, Future[Question]]] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(run))
        self._task.add_done_callback(self._ended)

    async def result(self) -> ToolResult | None:
        """What the call gave; None: it cannot go on before a person has answered."""
        while True:
            if self._task.done():
                return self._task.result()
            if self._deliver():
                return None
            self._news.clear()
            await self._news.wait()

    def cancel(self) -> None:
        """End the call; from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _run(self, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        with call_hooks(ask=self._ask, progress=self._asker.progress):
            return await run()

    async def _ask(self, message: str, schema: Mapping[str, object]) -> Mapping[str, object] | None:
        question = self._asker.pose(message, schema)
        answered: Future[Question] = self._loop.create_future()
        self._asked[question.id] = question, answered
        self._news.set()
        try:
            return cast("Mapping[str, object] | None", (await answered).answer)
        finally:
            del self._asked[question.id]
            self._asker.withdraw(question)

    def _deliver(self) -> bool:
        """Pass on the answers that there are; whether one is lacking."""
        lacking = False
        for question, answered in self._asked.values():
            if question.status == "open":
                lacking = True
            elif not answered.done():
                answered.set_result(question)
        return lacking

    def _ended(self, task: "asyncio.Task[ToolResult]") -> None:
        if not task.cancelled():
            task.exception()  # it is told where the result is asked for, if anybody asks
        self._news.set()
