"""Replies of a chatbot, shown to their end on the terminal, with the questions that they ask.

Ctrl-C stops a reply. They run on the event loop of a runner. Above: `chat`; below: `chat_view` and the forms.
"""

import asyncio
import json
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from goalport.base.errors import AlreadyAnswered
from goalport.base.secrecy import traceback_of
from goalport.base.words import cleaned, visible
from goalport.cli.chat_view import ChatView
from goalport.cli.dialogues import Dialogue, Question, Reply, ReplyEnd
from goalport.cli.options import DEBUG
from goalport.cli.prompts import Unanswered
from goalport.cli.questions import answer_of
from goalport.cli.terminal import say, show_json, show_lines


class Replies:
    """Shows the replies in a dialogue.

    Parameters: `attended` says whether somebody is there to be asked. `structured`: print each reply as JSON.
    """

    def __init__(self, runner: asyncio.Runner, view: ChatView, *, attended: bool, structured: bool = False) -> None:
        self.runner, self.attended = runner, attended
        self._view, self._structured = view, structured
        self.stopped = False
        """Whether the last one was stopped with Ctrl-C."""
        self.finished = False
        """Whether the conversation reached its goal with the last one."""
        self.failed = False
        """Whether one of them has failed, was stopped, or asked what nobody here could answer."""

    def show(self, dialogue: Dialogue, begun: Coroutine[Any, Any, Reply | None]) -> None:
        """Show a reply to its end, with the questions that it asks. Raises what beginning it raises."""
        self.stopped = False
        self._settle(dialogue, self.runner.run(self._followed(begun)))

    def ask(self, dialogue: Dialogue) -> None:
        """Ask what is open, and show what comes of the answers."""
        self._settle(dialogue, ReplyEnd(questions=dialogue.questions))

    def fail(self, reason: str, error: BaseException | None = None) -> None:
        """Say what went wrong; with `--debug`, the traceback of the exception before it."""
        self.failed = True
        self._view.end_lines()
        if error is not None and DEBUG.get():
            say(visible(traceback_of(error)))
        say(f"error: {reason}")

    def _settle(self, dialogue: Dialogue, end: ReplyEnd | None) -> None:
        while end is not None:
            self._conclude(dialogue, end)
            if not (end.questions and self.attended):
                return
            try:
                end = self.runner.run(self._asked(dialogue, end.questions[0]))
            except Unanswered:
                say("The question stays open: /answer asks it again.")
                return

    async def _followed(self, begun: Coroutine[Any, Any, Reply | None]) -> ReplyEnd | None:
        """Show a reply while it comes; None: there is none, or it was stopped with Ctrl-C, which cancels this task."""
        reply = None
        try:
            reply = await begun
            if reply is None:
                return None
            async with aclosing(reply.events()) as events:
                async for each in events:
                    self._view.on_event(each)
            return await reply.end()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            self.stopped = self.failed = True
            self._view.end_lines()
            say("Stopped." if reply is None else reply.cancel())
            if reply is not None:
                await reply.end()
            return None
        finally:
            self._view.end_lines()

    async def _asked(self, dialogue: Dialogue, question: Question) -> ReplyEnd | None:
        """Ask a question here, and show what comes of the answer. Raises `Unanswered`."""

        async def send(answer: object) -> Reply | None:
            return await dialogue.answer(question["id"], answer)

        async def status() -> str:
            return await dialogue.status(question["id"])

        try:
            reply = await answer_of(question, send, status)
        except AlreadyAnswered as error:
            say(str(error))
            reply = await dialogue.follow()

        async def begun() -> Reply | None:
            return reply

        return await self._followed(begun())

    def _conclude(self, dialogue: Dialogue, end: ReplyEnd) -> None:
        if self._structured:
            told = {"reply": "\n\n".join(end.texts), "questions": [*end.questions], "failure": end.failure}
            show_json({"conversation": dialogue.id, **told, "finished": end.finished}, None)
        if end.failure:
            self.fail(end.failure, end.error)
        self.finished = end.finished
        if end.finished:
            say("The conversation has reached its goal. /new begins another one.")
        if end.questions and not self.attended:
            self.failed = True
            for each in end.questions:
                self._ask_nobody(each)

    def _ask_nobody(self, question: Question) -> None:
        schema = json.dumps(question.get("schema"), ensure_ascii=False)
        if not self._structured:
            show_lines([cleaned(question["message"], len(question["message"]))])
        say(f"This is a question: `/answer JSON` answers it. Schema: {schema}")
