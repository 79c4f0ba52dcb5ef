"""A goal as a model: what a person says last is its input, and its result is the reply.

Below: processes of goals, and how their results are written. Above: the handlers.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import final

from goalport.base.caller import Caller
from goalport.base.errors import HandedOver, StoreError, ToolError
from goalport.base.events import ProgressUpdated
from goalport.models.llm import Message, UserMessage
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import Runs, Watch
from goalport.runtime.process import AgentProcess, Completed, Outcome, Waiting
from goalport.server.doors.openai.models import GoalModel
from goalport.server.doors.openai.questions import in_words
from goalport.server.doors.openai.replies import Note, Piece, ReplyEnd, Text
from goalport.server.doors.openai.response_ids import ResponseId
from goalport.server.publish.answers import reason_of, text_of


async def start(platform: AgentPlatform, model: GoalModel, said: Sequence[Message], caller: Caller) -> AgentProcess:
    """Start a process from the last message. Raises `BadInput` if that is no input of the goal, and `StoreError`."""
    last = said[-1]
    assert isinstance(last, UserMessage)
    objects = model.tool.arguments.begin({model.field: last.content})
    process = await platform.start_stored(model.tool.agent, *objects, goals=model.tool.goals, caller=caller)
    assert process is not None  # only a call that is made `once` gives none
    return process


def response_of(process: AgentProcess) -> ResponseId:
    """The id of the response that tells how the process goes on now; with each answer of a person, it is another."""
    return ResponseId(process.id, str(sum(each.status != "open" for each in process.questions)))


@final
class GoalReply:
    """The result of a process as a reply; its progress comes as notes."""

    def __init__(self, platform: AgentPlatform, process: AgentProcess, model: GoalModel, runs: Runs) -> None:
        self._platform = platform
        self._process = process
        self._model = model
        self._watch = Watch(runs.of(process, detached=model.tool.policy.detached))
        self._failure = ""

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The progress, and then the result, or what a person has to answer."""
        news: asyncio.Queue[str | None] = asyncio.Queue()
        following, ending = asyncio.create_task(self._follow(news)), asyncio.create_task(self._process.wait())
        # A process that waits goes on telling of itself once it is answered, but this reply ends.
        ending.add_done_callback(lambda _: following.cancel() if self._process.open_questions else None)
        following.add_done_callback(lambda _: news.put_nowait(None))
        try:
            while (progress := await news.get()) is not None:
                yield Note(progress)
            outcome = await ending
            self._watch.end()
            yield Text(self._text_of(outcome))
        finally:
            following.cancel()
            ending.cancel()

    async def _follow(self, news: "asyncio.Queue[str | None]") -> None:
        with suppress(HandedOver, StoreError):  # waiting for the end tells of them too
            async with aclosing(self._platform.events(self._process.id)) as events:
                async for each in events:
                    if isinstance(each.event, ProgressUpdated):
                        news.put_nowait(each.event.message)

    async def end(self) -> ReplyEnd:
        """What the process has cost, and whether it has failed."""
        return ReplyEnd(self._process.usage, self._failure)

    def leave(self) -> None:
        """Stop the process if nobody else waits for it, unless its goal is detached."""
        self._watch.leave()

    def _text_of(self, outcome: Outcome) -> str:
        if isinstance(outcome, Waiting):
            return "\n\n".join(map(in_words, self._process.open_questions))
        if not isinstance(outcome, Completed):
            self._failure = reason_of(outcome, self._model.name) or ""
            return ""
        try:
            return text_of(self._model.tool.policy.output, self._model.name, outcome.value)
        except ToolError as error:
            self._failure = str(error)
            return ""
