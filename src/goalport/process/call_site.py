"""Calls of tools in an action, whoever makes them: a model, the action's own code, or another tool.

What a tool gave is written into the action's journal, a person is asked where one has to agree to a call, and calls of
upstream servers go on while their action is parked. Above: `context`, which makes one of these for each attempt.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from anyio import get_cancelled_exc_class

from goalport.domain import WaitFor
from goalport.errors import Declined, ToolError
from goalport.events import ProgressUpdated
from goalport.process.agent_process import AgentProcess
from goalport.process.journal import Journal, Names, Parked, at_place, print_of_arguments
from goalport.process.open_call import OpenCall
from goalport.process.outcome import ProcessStatus
from goalport.process.posing import SchemaSubmission, pose, withdraw
from goalport.process.questions import Question
from goalport.tools import Tool, ToolResult

__all__ = ["ActionCalls"]

_SHOWN: Final = 2_000
"""Characters of arguments that a person is shown."""


class _Attempt(Protocol):
    """One attempt of an action, as its context shows it."""

    process: AgentProcess
    action: str
    journal: Journal[AgentProcess]
    names: Names

    async def asked(self, questions: dict[str, Question], name: str, wait: WaitFor[Any], /) -> Any:
        """The answer to a question. Raises `Parked` while there is none, and `Declined`."""
        ...


@dataclass(frozen=True, slots=True)
class ActionCalls:
    """Where an attempt of an action calls tools: the `CallSite` of `goalport.tools`."""

    attempt: _Attempt

    def remembers(self, tool: Tool, arguments: Mapping[str, object], /) -> bool:
        """Whether the journal has what the next such call gives."""
        journal = self.attempt.journal
        return journal.again and self.attempt.names.peek("tool", _print(tool, arguments)) in journal.results

    async def call(self, tool: Tool, arguments: Mapping[str, object], /) -> ToolResult:
        """What the call gives, or gave. Raises `Parked` when a person has to be asked first."""
        journal = self.attempt.journal
        name = self.attempt.names.next("tool", _print(tool, arguments))
        if name in journal.results:
            return journal.results[name]
        if tool.needs_approval and (refusal := await self._refusal(name, tool, arguments)):
            return ToolResult.of_error(refusal)
        with at_place(name):
            result = await self._run(name, tool, arguments)
        journal.results[name] = result
        return result

    async def _refusal(self, name: str, tool: Tool, arguments: Mapping[str, object]) -> str:
        """Why the call must not be made, for the model that wants it; empty: a person agrees."""
        words = _question(tool, arguments) if tool.confirmation is None else tool.confirmation(arguments)
        try:
            wait = WaitFor[bool].form_submission(words, bool)
            agreed = await self.attempt.asked(self.attempt.journal.approvals, name, wait)
        except Declined as declined:
            return _refused(tool, declined.reason)
        return "" if agreed else _refused(tool, "The answer was no.")

    async def _run(self, name: str, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
        journal = self.attempt.journal
        try:
            return await (self._continued(name, tool, arguments) if tool.server else tool.run(arguments))
        except BaseExceptionGroup:
            if journal.parked:
                raise Parked from None
            raise

    async def _continued(self, name: str, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
        """What a call gives that goes on while a person is asked."""
        calls, journal = self.attempt.journal.calls, self.attempt.journal
        if name not in calls:
            calls[name] = OpenCall(partial(tool.run, arguments), _Asker(self.attempt, tool.server))
        try:
            result = await calls[name].result()
        except get_cancelled_exc_class():
            # Parking another part of the action may cancel this wait, and must not end what goes on meanwhile.
            if not journal.parked:
                calls.pop(name).cancel()
            raise
        if result is None:
            journal.parked = True
            raise Parked
        del calls[name]
        return result


@dataclass(frozen=True, slots=True)
class _Asker:
    """Puts the questions of an upstream server to the people of a process."""

    attempt: _Attempt
    server: str

    def pose(self, message: str, schema: Mapping[str, object], /) -> Question:
        try:
            wait = SchemaSubmission(f"{self.server} asks: {message}", _form(schema))
        except TypeError as error:
            raise ToolError(f"The server {self.server!r} asked for something that is no form: {error}") from None
        return pose(self.attempt.process, self.attempt.action, wait, in_action=True)

    def withdraw(self, question: Question, /) -> None:
        process = self.attempt.process
        if withdraw(process, question) and process.status is ProcessStatus.WAITING:
            process.services.resume(process)

    async def progress(self, done: float, of: float | None, message: str | None, /) -> None:
        far = f"{done:g}" if of is None else f"{done:g}/{of:g}"
        words = f"{self.server}: {message or far}"
        self.attempt.process.emit(ProgressUpdated(words, process_id=self.attempt.process.id))


def _form(schema: Mapping[str, object]) -> Mapping[str, object]:
    """What a server wants filled in, which is flat. Raises `TypeError` for what is not."""
    fields = schema.get("properties")
    if not isinstance(fields, Mapping) or "$ref" in json.dumps(schema, default=str):
        raise TypeError("Expected fields, each described where it stands.")
    return schema


def _print(tool: Tool, arguments: Mapping[str, object]) -> str:
    return print_of_arguments(tool.name, arguments)


def _question(tool: Tool, arguments: Mapping[str, object]) -> str:
    written = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    shown = written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"
    of = f" of the server {tool.server!r}" if tool.server else ""
    return f"May the tool {tool.name!r}{of} be called with {shown}?"


def _refused(tool: Tool, reason: str) -> str:
    return f"A person was asked whether {tool.name!r} may be called, and it was not: {reason} Do without this call."
