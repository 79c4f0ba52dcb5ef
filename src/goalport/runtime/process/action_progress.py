"""The progress of a process's actions, and each action's journal, from which it starts again without repeating work.

An action that has to wait for a person in its middle is parked: its coroutine ends. Once there is an answer, the action
starts again from the top and finds in its journal the replies of its models, the results of its tools, its
sub-processes and the answers of people. A journal record is identified by the step (model and messages, or tool and
arguments), by the number of equal steps before it, and by the item of `parallel_map` or the tool call that the step
belongs to. A plain sequence number would not do, since the order of concurrent calls varies. A step without a record is
run.

An upstream server may ask a person during a tool call and expect the answer in the same call. Such a call continues
while its action is parked: it runs in a task of its own (`OpenCall`), where the action finds it when it starts again.
It ends with the program or the action; after a restart the call is made again.

The fields are set by the modules that run an action: `context`, `execution` and `tick`.
"""

import asyncio
import json
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Annotated, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from pydantic_core import to_json

from goalport.agents.blackboard import Entry
from goalport.base.errors import ModelError, NonRetryable, ProcessEnded, leaves
from goalport.base.secrecy import hide
from goalport.base.words import excerpt, message_of
from goalport.models.llm import (
    AssistantMessage,
    ModelCall,
    ModelReply,
    SystemMessage,
    TokenUsage,
    ToolReply,
    UserMessage,
)
from goalport.runtime.process.ledger import NOTHING
from goalport.runtime.process.questions import Question
from goalport.store import OPEN, closed, persistent
from goalport.tools import ContextValues, Interruption, ToolResult
from goalport.tools.upstream.active_calls import Asked, CallRecord, Progress, call_hooks

PLACE: Final[ContextVar[str]] = ContextVar("goalport_place", default="")
"""The item of `parallel_map` or the tool call that the current code belongs to; empty: the action itself."""
_HALF: Final = 300
"""The number of characters shown from the beginning, and again from the end, of a long failure message."""
MOST_WORDS: Final = 2 * _HALF
"""The most characters of a failure message that are shown."""
_NO_NAMES: Final = frozenset[str]()


@persistent("goalport.process.journal:Step")
class Step(NamedTuple):
    """A step of a finished action, as the history stores it if the platform keeps journals."""

    kind: str
    """`reply` of a model, `result` of a tool, `message` to the user, `question`, `approval`, or `child`: a sub-process
    that the action started."""
    name: str
    value: object
    """The reply, the result or the message; the id of the question or of the process."""


@closed
@dataclass(frozen=True, slots=True)
class ActionInvocation:
    """One run of an action, as an entry of the history."""

    action: str
    started_at: datetime
    seconds: float
    status: str
    """`succeeded`, `declined`, `failed`, `replanned` or `terminated`."""
    error: str | None = None
    usage: TokenUsage = NOTHING
    """The cost of its models, including those of the sub-processes that it started."""
    attempts: int = 1
    """The number of attempts since it last began; all but the last failed."""
    steps: Annotated[tuple[Step, ...], OPEN] = ()
    """The replies, tool results, questions and sub-processes of this run; empty unless the platform keeps journals."""
    missing_tools: tuple[str, ...] = ()
    """For each tool group that was incomplete while it ran: what was missing and why, in a sentence or two."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure in a process, whether or not the process found another way."""

    reason: str
    action: str = ""
    """The name of the action that failed; empty when the process itself could not go on."""
    error: BaseException | None = field(default=None, compare=False, repr=False, metadata={"stored": False})
    """The exception with its traceback, if there is one and callers may see it. It is not stored."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class ActionProgressState:
    """The progress of a process at one moment, without its history, results and journals; see `ActionProgress`."""

    has_run: AbstractSet[str]
    left_out: Mapping[str, str]
    declined: Mapping[str, str]
    waits: Mapping[str, str]
    skipped: AbstractSet[str]
    numbers: Mapping[str, int]
    begun: int
    paused_after: int
    interrupted: AbstractSet[str] = frozenset()


class Parked(Interruption):
    """An action cannot go on until a person has answered its question, or a question of a process that it started.

    It is no failure and no `Exception`. Catching it has no effect: the action is parked nevertheless.
    """


class Child(Protocol):
    """A process that an action has started."""

    def kill(self, reason: str = ..., /) -> None: ...


P = TypeVar("P", bound=Child)


class ActionProgress(Generic[P]):
    """The actions of a process: which have run, are running, are waiting, or will not run again."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.history: list[ActionInvocation] = []
        self.has_run: set[str] = set()
        self.results: dict[str, object] = {}
        """The last return value of each action."""
        self.left_out: dict[str, str] = {}
        """Actions that failed for good, each with the reason."""
        self.declined: dict[str, str] = {}
        """For each action, the reason that a model last gave for not producing the requested output."""
        self.waits: dict[str, str] = {}
        """For each action, what it waits for other than a person, in words: a provider that will be asked again."""
        self.skipped: frozenset[str] = _NO_NAMES
        """Actions that asked for another plan; the next plan leaves them out."""
        self.replanned = set[str]()
        """Actions that asked for another plan since an action has last run."""
        self.failed_conditions: dict[str, str] = {}
        """Conditions that raised an exception at their last evaluation, each with the error's text."""
        self.parked: dict[str, P] = {}
        """For each action that waits for a sub-process, that sub-process, which in turn waits for a person."""
        self.journals: dict[str, Journal[P]] = {}
        """The journals of actions that have begun and are not over."""
        self.triggers: dict[str, Entry] = {}
        """The object that triggered each parked action, for when it continues; no other action reacts to that
        object."""
        self.interrupted: frozenset[str] = _NO_NAMES
        """Non-repeatable actions that were running when the program ended: a person has to decide about them."""
        self.begun = 0
        """The number of actions that have begun so far."""
        self.numbers: dict[str, int] = {}
        """The number of each action that has begun and is not over, from 0 in order of beginning."""
        self.impasses: list[object] = []
        """The states in which no action could run, since an action last ran."""
        self.impasse_after = -1
        """The number of actions that had run when `impasses` was last cleared."""
        self.paused_after = -1
        """The number of actions that had run at the last pause."""

    @property
    def state(self) -> ActionProgressState:
        """The progress now, without history, results and journals."""
        words = dict(self.left_out), dict(self.declined), dict(self.waits)
        numbers = dict(self.numbers), self.begun, self.paused_after
        return ActionProgressState(frozenset(self.has_run), *words, self.skipped, *numbers, self.interrupted)

    def restore(self, state: ActionProgressState, begun: Iterable[tuple[str, int]]) -> None:
        """Take over a stored progress, with an empty journal for each action that has begun.

        `begun`: the actions, with their numbers, that have begun since that state was stored or may not be repeated.
        """
        self.has_run = set(state.has_run)
        self.skipped, self.interrupted = frozenset(state.skipped), frozenset(state.interrupted)
        self.left_out, self.declined, self.waits = dict(state.left_out), dict(state.declined), dict(state.waits)
        self.numbers, self.begun, self.paused_after = dict(state.numbers), state.begun, state.paused_after
        self.journals = {action: Journal(f"{self.process_id}:{number}") for action, number in self.numbers.items()}
        for action, number in begun:
            self.numbers[action], self.begun = number, max(self.begun, number + 1)
            self.journals.setdefault(action, Journal(f"{self.process_id}:{number}")).running = True

    def begin(self, action: str) -> "Journal[P]":
        """Note that an action begins, perhaps again, and return its journal."""
        if action not in self.numbers:
            self.numbers[action], self.begun = self.begun, self.begun + 1
            self.journals[action] = Journal(f"{self.process_id}:{self.numbers[action]}")
        return self.journals[action]

    def end(self, action: str, reason: str) -> "Journal[P]":
        """Note that an action is over, cancel its open calls, and return its journal. Its next run gets a new journal.

        The sub-processes that the action started are killed with `reason`.
        """
        self.numbers.pop(action, None)
        self.triggers.pop(action, None)
        journal = self.journals.pop(action)
        journal.end_calls()
        for child in journal.children.values():
            child.kill(reason)
        return journal

    def unpark(self, child: P) -> bool:
        """Let actions that waited for a sub-process run again. Returns whether there were any."""
        waiting = [action for action, each in self.parked.items() if each is child]
        for action in waiting:
            del self.parked[action]
        return bool(waiting)


class Journal(Generic[P]):
    """The records of one action from its beginning to its end, keyed by the names that `Names` generates."""

    def __init__(self, key: str) -> None:
        self.key = key
        """`process:number`, the prefix of each name: the same whenever the action starts again."""
        self.running = False
        """Whether the action is running, or was running when the program ended."""
        self.attempts = 1
        """The number of attempts since it last began in this program."""
        self.replies: dict[str, ModelReply] = {}
        """The replies of models by name."""
        self.results: dict[str, ToolResult] = {}
        """The results of tools by name. Errors are included, because models have continued with them."""
        self.questions: dict[str, Question] = {}
        """The questions of the action by name; the answers are stored in them."""
        self.approvals: list[str] = []
        """The names of the questions that ask for approval of a tool call."""
        self.messages: dict[str, AssistantMessage] = {}
        """The messages that the action has sent, by name: none of them is sent twice."""
        self.missing: dict[str, str] = {}
        """For each role whose tool group was incomplete while the action ran, a sentence that says what was missing."""
        self.calls: dict[str, OpenCall] = {}
        """Tool calls that continue while the action is parked; the only records that do not survive a restart."""
        self.finished: dict[str, object] = {}
        """The results of finished parts while another part waits for a person; lost when the program ends."""
        self.children: dict[str, P] = {}
        self.parked = False
        """Whether the running action has to wait for an answer or for a sub-process."""
        self.waits_for: list[P] = []
        """The sub-processes that it has to wait for."""

    def begin(self) -> None:
        """Note that an attempt begins."""
        self.parked, self.running = False, True
        self.waits_for.clear()

    @property
    def steps(self) -> Iterator[tuple[str, str, object]]:
        """The steps of the action as tuples of kind, name and value; calls that are still running are omitted."""
        if self.running:
            yield "begun", self.key, int(self.key.rpartition(":")[2])
        yield from (("reply", *each) for each in self.replies.items())
        yield from (("result", *each) for each in self.results.items())
        for name, question in self.questions.items():
            yield "approval" if name in self.approvals else "question", name, question
        yield from (("message", *each) for each in self.messages.items())
        yield from (("child", *each) for each in self.children.items())

    def forget_work(self) -> list[Question]:
        """Forget the replies and results of a failed attempt, so that the next one does not fail for the same reason.

        The next attempt asks models, calls tools and asks for approval again. The earlier approval questions are
        returned. Answers to the action's own questions, sent messages and sub-processes are kept.
        """
        self.attempts += 1
        approvals = [self.questions.pop(name) for name in self.approvals]
        self.end_calls()
        for each in (self.approvals, self.replies, self.results, self.finished):
            each.clear()
        return approvals

    def end_calls(self, *names: str) -> None:
        """Cancel the running calls with these names, or all without names; callable from any thread."""
        for name in names or tuple(self.calls):
            if (call := self.calls.pop(name, None)) is not None:
                call.cancel()


class Names:
    """Generates names for the steps of one run of an action; equal steps get equal names in the next run."""

    def __init__(self, journal_key: str) -> None:
        self._journal_key = journal_key
        self._counted: dict[str, int] = {}

    def next(self, kind: str, what: str = "", *, peek: bool = False) -> str:
        """The name of the next step of this kind. With `peek` the name is not used up."""
        name = f"{PLACE.get() or self._journal_key}/{kind}:{what}"
        number = self._counted.get(name, 0) + 1
        if not peek:
            self._counted[name] = number
        return f"{name}#{number}"


class OpenCall:
    """A tool call in a task of its own, which starts when this object is created.

    Parameters: `ask` puts a question to people, `withdraw` takes it back when the call no longer needs the answer,
    `progress` receives progress reports, and `record` stores what the call has begun on the server.
    """

    def __init__(
        self,
        run: Callable[[], Awaitable[ToolResult]],
        ask: Callable[[str, Asked, str], Question],
        withdraw: Callable[[Question], object],
        progress: Progress,
        record: CallRecord | None = None,
    ) -> None:
        self._put, self._withdraw = ask, withdraw
        self._asked: dict[str, tuple[Question, Future[Question]]] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

        async def with_hooks() -> ToolResult:
            with call_hooks(ask=self._ask, progress=progress, record=record):
                return await run()

        def ended(task: "asyncio.Task[ToolResult]") -> None:
            if not task.cancelled():
                task.exception()  # an error is raised where the result is requested
            self._news.set()

        self._task = self._loop.create_task(with_hooks())
        self._task.add_done_callback(ended)

    async def result(self) -> ToolResult | None:
        """Wait for the result of the call. Returns None if the call needs a person's answer first."""
        while not self._task.done():
            for question, answered in self._asked.values():
                if question.status != "open" and not answered.done():
                    answered.set_result(question)
            if any(question.status == "open" for question, _ in self._asked.values()):
                return None
            self._news.clear()
            await self._news.wait()
        return self._task.result()

    def cancel(self) -> None:
        """Cancel the call; callable from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _ask(self, message: str, asked: Asked, key: str = "", /) -> object:
        question = self._put(message, asked, key)
        answered: Future[Question] = self._loop.create_future()
        self._asked[question.id] = question, answered
        self._news.set()
        try:
            return (await answered).answer
        finally:
            del self._asked[question.id]
            self._withdraw(question)


def at_place(name: str) -> ContextValues:
    """A block in which all steps belong to the item or tool call of this name; empty: to the action itself."""
    return ContextValues((PLACE, name))


def fingerprint(*parts: bytes | str) -> str:
    """A hash of these parts, for comparing their content."""
    digest = blake2b(digest_size=12)
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def fingerprint_of_tool_call(tool: str, arguments: Mapping[str, object]) -> str:
    """A text that is equal for calls of the same tool with equal arguments."""
    return f"{tool}-{fingerprint(json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False, default=repr))}"


def fingerprint_of_model_call(model: str, call: ModelCall) -> str:
    """A text that is equal for equal requests: the messages without notices, the tool names and the output schema."""
    parts: list[bytes | str] = [b"" if call.output is None else to_json(call.output.schema, fallback=repr)]
    parts.append(to_json([each.name for each in call.tools]))
    for message in call.messages:
        content = message.content
        if isinstance(message, SystemMessage) and message.notice:
            content = content.removesuffix(message.notice)
            if not content:
                continue
        parts += [type(message).__name__, content]
        if isinstance(message, AssistantMessage):
            parts.append(to_json([(each.name, each.arguments) for each in message.calls]))
        elif isinstance(message, UserMessage | ToolReply):
            parts += [each.data for each in message.images]
    return f"{model}-{fingerprint(*parts)}"


def in_words(error: BaseException) -> str:
    """A failure in one line, without traceback and secrets; the middle of a long message is cut out."""
    if isinstance(error, BaseExceptionGroup):
        return excerpt("; ".join(map(in_words, leaves(cast("BaseException", error)))), MOST_WORDS)
    text = hide(" ".join((error.reason if isinstance(error, ProcessEnded) else message_of(error)).split()))
    words = text  # messages of these are complete sentences for people
    if not text or not isinstance(error, (ModelError, NonRetryable, ProcessEnded)):
        words = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return words if len(words) <= MOST_WORDS else f"{words[:_HALF]} … {words[-_HALF:]}"
