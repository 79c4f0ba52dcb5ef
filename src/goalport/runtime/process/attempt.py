"""One attempt of an action, as the tools and models that it uses see it.

Calls of tools, whoever makes them (a model, the action's own code, another tool), are recorded in the action's journal.
Before a call that needs approval a person is asked; calls of upstream servers go on while their action is parked. The
cost of models is added to the process. Before each turn of a model the process may pause, or end the action. Above:
`context`, which makes these objects for each attempt.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from logging import getLogger
from typing import Any, Final, Protocol

import anyio
from anyio import get_cancelled_exc_class

from goalport.agents.domain import WaitFor
from goalport.base.caller import Caller
from goalport.base.errors import Declined, NonRetryable, TerminateAction, ToolError
from goalport.base.events import Event, ModelReplied, ModelRetried, ProgressUpdated, SourcesShown
from goalport.base.words import excerpt, one_line
from goalport.models.llm import ModelCall, ModelReply, TokenUsage
from goalport.runtime.ai import Operation, ReplyRecord
from goalport.runtime.process.action_progress import (
    PLACE,
    Journal,
    Names,
    OpenCall,
    Parked,
    UnnamedReply,
    at_place,
    fingerprint,
    fingerprint_of_model_call,
    fingerprint_of_tool_call,
)
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import ProcessStatus
from goalport.runtime.process.questions import Question, SchemaSubmission
from goalport.tools import Tool, ToolResult
from goalport.tools.upstream.active_calls import Asked, SignInAddress

_log = getLogger(__name__)
_SHOWN: Final = 2_000
"""The most characters of arguments that a person is shown."""
_LONGEST_REASON: Final = 300
"""The most characters of a model's reason for declining that people are shown."""


class Attempt(Protocol):
    """One attempt of an action; its context implements this."""

    process: AgentProcess
    action: str
    journal: Journal[AgentProcess]
    names: Names

    @property
    def cancelled(self) -> bool: ...

    async def asked(self, name: str, wait: WaitFor[Any], /, *, approval: bool = False) -> Any:
        """Return the answer to a question. Raises `Parked` while there is none, and `Declined` after a no.

        `approval` says that the question is whether a tool may be called.
        """
        ...


def refuse_to_go_on(attempt: Attempt) -> None:
    """Raise `TerminateAction` if the process is to end or its budget is spent, and `NonRetryable` if nobody waits.

    So an attempt that nobody waits for asks no model for nothing.
    """
    if attempt.cancelled:
        raise NonRetryable(f"Process {attempt.process.id} no longer waits for this: no model and no tool is called.")
    line = [attempt.process]
    while line[-1].parent is not None:
        line.append(line[-1].parent)
    for each in reversed(line):  # one above that has spent its budget is ended here, or its turn is
        if each.end_requested is not None:
            raise TerminateAction(each.end_requested.reason)
        if overspent := each.options.overspent(each):
            each.exceed(overspent)
            raise TerminateAction(overspent)


@dataclass(frozen=True, slots=True)
class ActionCalls:
    """Where an attempt of an action calls tools: the `CallSite` of `goalport.tools`."""

    attempt: Attempt

    @property
    def caller(self) -> Caller:
        return self.attempt.process.caller

    def emit(self, event: SourcesShown, /) -> None:
        process = self.attempt.process
        process.emit(replace(event, process_id=process.id, action=self.attempt.action))

    def before_request(self) -> None:
        """Refuse a request of a tool to a model as one of the action is refused: `ActionOperation.before_turn`."""
        refuse_to_go_on(self.attempt)

    def spend(self, model: str, tokens: int, cost: float, seconds: float, /) -> None:
        """Add one request that a tool made to a model to the action, its process and those that started it."""
        usage = TokenUsage(input_tokens=tokens, cost=cost)
        self.attempt.process.spend(usage, action=self.attempt.action, model=model, seconds=seconds)

    def remembers(self, tool: Tool, arguments: Mapping[str, object], /) -> bool:
        """Whether the journal has the result of the next such call."""
        journal, what = self.attempt.journal, fingerprint_of_tool_call(tool.name, arguments)
        return journal.again and self.attempt.names.next("tool", what, peek=True) in journal.results

    async def call(self, tool: Tool, arguments: Mapping[str, object], /) -> ToolResult:
        """Return the result of a call, made now or recorded. Raises `Parked` when a person has to be asked first."""
        journal = self.attempt.journal
        name = self.attempt.names.next("tool", fingerprint_of_tool_call(tool.name, arguments))
        if name in journal.results:
            return journal.results[name]
        if tool.needs_approval and (refusal := await self._refusal(name, tool, arguments)):
            return ToolResult.of_error(refusal)
        with at_place(name):
            try:
                result = await (self._open_call(name, tool, arguments) if tool.server else tool.run(arguments))
            except BaseExceptionGroup:
                if journal.parked:
                    raise Parked from None
                raise
            except get_cancelled_exc_class():
                # Parking another part of the action may cancel this wait, but an open call must not end with it.
                if not journal.parked:
                    journal.end_calls(name)
                raise
        journal.results[name] = result
        journal.calls.pop(name, None)
        await self.attempt.process.store_steps()
        return result

    async def call_once(self, tool: Tool, /) -> ToolResult:
        """Return the result of calling a tool without arguments; only an error is recorded.

        Whoever calls it at the same time shares the call, which therefore goes on when one of them is cancelled.
        """
        journal = self.attempt.journal
        name = f"{journal.key}/once:{tool.name}"
        if name in journal.results:
            return journal.results[name]
        result = await self._open_call(name, tool, {})
        journal.end_calls(name)
        if result.is_error:
            journal.results[name] = result
            await self.attempt.process.store_steps()
        return result

    async def _refusal(self, name: str, tool: Tool, arguments: Mapping[str, object]) -> str:
        """The message for the model when a person did not approve the call; empty when the call may be made."""
        if tool.confirmation is None:
            written = json.dumps(dict(arguments), ensure_ascii=False, default=str)
            of = f" of the server {tool.server!r}" if tool.server else ""
            words = f"May the tool {tool.name!r}{of} be called with {excerpt(written, _SHOWN)}?"
        else:
            words = tool.confirmation(arguments)
        try:
            wait = WaitFor[bool].form_submission(words, bool)
            reason = "" if await self.attempt.asked(name, wait, approval=True) else "The answer was no."
        except Declined as declined:
            reason = declined.reason
        refusal = f"A person was asked whether {tool.name!r} may be called, and it was not: {reason}"
        return f"{refusal} Do without this call." if reason else ""

    async def _open_call(self, name: str, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
        """Return the result of a call that stays open while a person is asked; begin it if there is none yet."""
        journal = self.attempt.journal
        if name not in journal.calls:
            journal.calls[name] = OpenCall(partial(tool.run, arguments), _Asker(self.attempt, tool.server, name))
        result = await journal.calls[name].result()
        if result is None:
            journal.parked = True
            raise Parked
        return result


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks people, through a process, what an upstream server wants to know, and records what a call has begun."""

    attempt: Attempt
    server: str
    name: str
    """That of the call in the journal."""

    @property
    def record(self) -> "_Asker":
        return self

    @property
    def key(self) -> str:
        return fingerprint(f"{self.name}/{self.attempt.journal.attempts}")

    @property
    def begun(self) -> str:
        found = self.attempt.journal.results.get(f"{self.name}/begun")
        return "" if found is None else found.text

    async def note_begun(self, identity: str, /) -> None:
        if identity != self.begun:
            self.attempt.journal.results[f"{self.name}/begun"] = ToolResult.of_text(identity)
            await self.attempt.process.store_steps()

    @property
    def goes_on(self) -> bool:
        # A call that is to end was taken out of the journal before.
        return self.attempt.process.remote or self.name in self.attempt.journal.calls

    def ask(self, message: str, asked: Asked, key: str, /) -> Question:
        questions, name = self.attempt.journal.questions, f"{self.name}/{key}"
        if key and (earlier := questions.get(name)) is not None and earlier.status != "withdrawn":
            return earlier
        wait = wait_for_server(self.server, message, asked)
        question = self.attempt.process.ask(self.attempt.action, wait, in_action=True)
        if key:
            questions[name] = question
        return question

    def withdraw(self, question: Question, /) -> None:
        process = self.attempt.process
        if process.withdraw_question(question) and process.status is ProcessStatus.WAITING:
            process.platform.resume(process)

    async def progress(self, done: float, of: float | None, message: str | None, /) -> None:
        far = f"{done:g}" if of is None else f"{done:g}/{of:g}"
        words = f"{self.server}: {message or far}"
        self.attempt.process.emit(ProgressUpdated(words, process_id=self.attempt.process.id))


def wait_for_server(server: str, message: str, asked: Asked) -> WaitFor[Any]:
    """What a person is asked for an upstream server. Raises `ToolError` if that is not possible."""
    words = f"{server} asks: {message}"
    try:
        if isinstance(asked, SignInAddress | str):
            url = asked.url if isinstance(asked, SignInAddress) else asked
            # Only the addresses of our own actions have placeholders for our ids.
            unfilled = url.replace("{", "%7B").replace("}", "%7D")
            return WaitFor.url(words, unfilled, calls_back=isinstance(asked, SignInAddress))
        if not isinstance(asked.get("properties"), Mapping) or "$ref" in json.dumps(asked, default=str):
            raise TypeError("Expected fields, each described where it stands.")  # noqa: TRY301
        return SchemaSubmission(words, asked)
    except TypeError as error:
        raise ToolError(f"The server {server!r} asked for something that is no form: {error}") from None


@dataclass(frozen=True, slots=True)
class _ReplyRecord:
    """The place in a journal for a model's reply: the `ReplyRecord` of `goalport.runtime`."""

    attempt: Attempt
    name: str

    @property
    def reply(self) -> ModelReply | None:
        return self.attempt.journal.replies.get(self.name)

    async def keep(self, reply: ModelReply, /) -> None:
        self.attempt.journal.replies[self.name] = reply
        await self.attempt.process.store_steps()


class ActionOperation(Operation):
    """An attempt as the operation that a model works for: the `Operation` of `goalport.runtime`."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._process = attempt.process
        self.place = attempt.process.id, attempt.action
        self.prompts = attempt.process.prompts

    def record(self, model: str, call: ModelCall, /) -> ReplyRecord:
        """The record for the reply to a request; it holds the reply already if the action began again."""
        journal = self._attempt.journal
        if journal.again or self._process.durable:
            name = self._attempt.names.next("model", fingerprint_of_model_call(model, call))
            return _ReplyRecord(self._attempt, name)
        reply = UnnamedReply(PLACE.get(), model, call)
        journal.unnamed_replies.append(reply)
        return reply

    def emit(self, event: Event, /) -> None:
        """Emit an event of the process, and note while a provider has to be asked again."""
        if isinstance(event, ModelRetried):
            self._process.progress.waits[event.action] = event.message
        elif isinstance(event, ModelReplied):
            self._process.progress.waits.pop(event.action, None)
        self._process.emit(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Add one request of a model to the action, its process and those that started it."""
        self._process.spend(usage, action=self._attempt.action, model=model, seconds=seconds)

    def decline(self, reason: str, /) -> None:
        """Note why the action may return nothing; the reason is shown when no other way leads to the goal."""
        if words := one_line(reason, _LONGEST_REASON):
            self._process.progress.declined[self._attempt.action] = words
        else:
            self._process.progress.declined.pop(self._attempt.action, None)

    def note_missing(self, role: str, why: str, /) -> None:
        """Log what is missing of a tool group and keep it for the history, once in a run of the action."""
        missing = self._attempt.journal.missing
        if role not in missing:
            missing[role] = why
            _log.warning("%s runs without some of its tools. %s", self._attempt.action or "A condition", why)

    async def before_turn(self, tool: str, /) -> None:
        """Before a call of a tool, pause as long as the run's options say. `tool` is empty before a request of a model.

        Raises what `refuse_to_go_on` raises.
        """
        refuse_to_go_on(self._attempt)
        pause = self._process.options.tool_delay if tool else 0.0
        if pause > 0:
            await anyio.sleep(pause)
            refuse_to_go_on(self._attempt)
