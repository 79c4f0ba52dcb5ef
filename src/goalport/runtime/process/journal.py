"""The journal of an action: what it has done so far and what it waits for, so that it can begin again without repeats.

An action that has to wait for a person in its middle is parked: its coroutine ends. Once there is an answer the action
begins again and finds here what its models replied, what its tools returned, the processes that it started and the
answers of people. A record is identified by what was done (which model with which messages, which tool with which
arguments), by how often the same was done before, and by the item of `parallel_map` or the tool that it belongs to;
not by a mere sequence number, which concurrent calls would get in another order. What matches no record is done anew.

A call of an upstream server's tool may go on while its action is parked: the server asks a person during the call and
expects the answer in the same call. Such a call runs in a task of its own (`OpenCall`), where the action finds it when
it begins again. It ends with the program or the action; after a restart it is made anew.

Above: `context` and `attempt` write records; the progress of a process makes a journal for each action and drops it
when the action is over.
"""

import asyncio
import json
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from pydantic_core import to_json

from goalport.models.llm import AssistantMessage, Message, ModelCall, ModelReply, SystemMessage, ToolReply, UserMessage
from goalport.runtime.process.questions import Question
from goalport.tools import ContextValue, Interruption, ToolResult
from goalport.tools.upstream.active_calls import Asked, CallRecord, call_hooks

PLACE: Final[ContextVar[str]] = ContextVar("goalport_place", default="")
"""What the calling code belongs to: an item of `parallel_map` or a call of a tool; empty: the action itself."""


class Parked(Interruption):
    """An action cannot go on until a person has answered a question, its own or one of a process that it started.

    It is no failure and no `Exception`. Catching it has no effect: the action is parked nevertheless.
    """


class Child(Protocol):
    """A process that an action has started."""

    def kill(self, reason: str = ..., /) -> None: ...


P = TypeVar("P", bound=Child)


class Asker(Protocol):
    """Asks people questions for a call, and receives its progress."""

    @property
    def record(self) -> CallRecord | None: ...
    def ask(self, message: str, asked: Asked, key: str, /) -> Question: ...
    def withdraw(self, question: Question, /) -> None: ...
    async def progress(self, done: float, of: float | None, message: str | None, /) -> None: ...


class OpenCall:
    """A call that runs in a task of its own, from when this object is made."""

    def __init__(self, run: Callable[[], Awaitable[ToolResult]], asker: Asker) -> None:
        self._asker = asker
        self._asked: dict[str, tuple[Question, Future[Question]]] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(run))
        self._task.add_done_callback(self._ended)

    async def result(self) -> ToolResult | None:
        """Wait for the result of the call; None when the call needs the answer of a person first."""
        while True:
            if self._task.done():
                return self._task.result()
            if self._deliver():
                return None
            self._news.clear()
            await self._news.wait()

    def cancel(self) -> None:
        """End the call; callable from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _run(self, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        with call_hooks(ask=self._ask, progress=self._asker.progress, record=self._asker.record):
            return await run()

    async def _ask(self, message: str, asked: Asked, key: str = "", /) -> object:
        question = self._asker.ask(message, asked, key)
        answered: Future[Question] = self._loop.create_future()
        self._asked[question.id] = question, answered
        self._news.set()
        try:
            return (await answered).answer
        finally:
            del self._asked[question.id]
            self._asker.withdraw(question)

    def _deliver(self) -> bool:
        lacking = False
        for question, answered in self._asked.values():
            if question.status == "open":
                lacking = True
            elif not answered.done():
                answered.set_result(question)
        return lacking

    def _ended(self, task: "asyncio.Task[ToolResult]") -> None:
        if not task.cancelled():
            task.exception()  # an error is raised where the result is requested
        self._news.set()


@dataclass(slots=True)
class UnnamedReply:
    """A reply of a model without a name yet: names take time to compute, and most actions never begin again."""

    place: str
    model: str
    call: ModelCall
    reply: ModelReply | None = None

    async def keep(self, reply: ModelReply, /) -> None:
        self.reply = reply


class Step(NamedTuple):
    """A step of an action that is over, as the history keeps it if journals are kept."""

    kind: str
    """`reply` of a model, `result` of a tool, `message` it sent, `question`, `approval`, or `child`: a process it
    started."""
    name: str
    value: object
    """The reply, the result or the message; the id of the question or of the process."""


class Journal(Generic[P]):
    """The records of one action, from when it begins until it is over, by the names that `Names` gives."""

    def __init__(self, key: str) -> None:
        self.key = key
        """`process:seq`, the prefix of each name: the same whenever the action begins again."""
        self.begun = False
        self.running = False
        """Whether the action runs, or did when the program ended."""
        self.again = False
        """Whether the action has begun before."""
        self.attempts = 1
        """How often it was tried since it last began in this program."""
        self.unnamed_replies: list[UnnamedReply] = []
        """The replies of models to the first run, in the order of the requests."""
        self.replies: dict[str, ModelReply] = {}
        """The replies of models to earlier runs, by name."""
        self.results: dict[str, ToolResult] = {}
        """The results of tools by name, errors included: a model that read one has continued accordingly."""
        self.questions: dict[str, Question] = {}
        """The questions of the action by name; the answers are stored in them."""
        self.messages: dict[str, AssistantMessage] = {}
        """The messages that the action has sent, by name: who has read one is not sent it again."""
        self.missing: dict[str, str] = {}
        """What was missing of tool groups at some time while the action ran, in sentences by their roles."""
        self._approvals: list[str] = []
        """The names of the questions whether a tool may be called."""
        self.calls: dict[str, OpenCall] = {}
        """Calls of tools that go on while the action is parked. Only these records cannot outlive the program."""
        self.finished: dict[str, object] = {}
        """What parts of the action gave that are over, while another waits for a person; in this program only."""
        self.children: dict[str, P] = {}
        self.parked = False
        """Whether the running action has reached a point where it has to wait."""
        self.waits_for: list[P] = []
        """The processes that it has to wait for."""

    def begin(self) -> None:
        self.parked = False
        self.running = True
        self.waits_for.clear()
        self.again, self.begun = self.begun, True
        self.name_replies()

    def rest(self) -> None:
        self.running = False

    def restore(self, waits_for: Iterable[P]) -> None:
        """Stand where the journal of an action stood that had begun; its records are noted again."""
        self.begun, self.waits_for = True, list(waits_for)

    def note_begun(self) -> None:
        self.running = True

    def name_replies(self) -> None:
        if not self.unnamed_replies:
            return
        names = Names(self.key)
        for each in self.unnamed_replies:
            with at_place(each.place):
                name = names.next("model", fingerprint_of_model_call(each.model, each.call))
            if each.reply is not None:
                self.replies[name] = each.reply
        self.unnamed_replies.clear()

    def park(self, child: P | None = None) -> None:
        """Note that the running action has to wait: for the answer to a question, or for a process that it started."""
        self.parked = True
        if child is not None:
            self.waits_for.append(child)

    @property
    def steps(self) -> Iterator[tuple[str, str, object]]:
        """What the action has done, as the kind, the name and the value of each step; calls under way are left out."""
        self.name_replies()
        if self.running:
            yield "begun", self.key, int(self.key.rpartition(":")[2])
        for name, reply in self.replies.items():
            yield "reply", name, reply
        for name, result in self.results.items():
            yield "result", name, result
        for name, question in self.questions.items():
            yield "approval" if name in self._approvals else "question", name, question
        for name, message in self.messages.items():
            yield "message", name, message
        for name, child in self.children.items():
            yield "child", name, child

    @property
    def kept_steps(self) -> tuple[Step, ...]:
        """The steps, for the history: questions and processes by their ids."""
        return tuple(
            Step(kind, name, getattr(value, "id", None) if kind in {"question", "approval", "child"} else value)
            for kind, name, value in self.steps
            if kind != "begun"
        )

    def note_question(self, name: str, question: Question, *, approval: bool = False) -> None:
        """Record a question; `approval` says that it is whether a tool may be called."""
        self.questions[name] = question
        if approval:
            self._approvals.append(name)

    def note_reply(self, name: str, reply: ModelReply) -> None:
        self.replies[name] = reply

    def note_result(self, name: str, result: ToolResult) -> None:
        self.results[name] = result
        self.calls.pop(name, None)

    def note_message(self, name: str, message: AssistantMessage) -> None:
        self.messages[name] = message

    def open_call(self, name: str, run: Callable[[], Awaitable[ToolResult]], asker: Asker) -> OpenCall:
        """The call of that name that goes on while the action is parked; begin it if there is none yet."""
        if name not in self.calls:
            self.calls[name] = OpenCall(run, asker)
        return self.calls[name]

    def end_call(self, name: str) -> None:
        if (call := self.calls.pop(name, None)) is not None:
            call.cancel()

    def note_child(self, name: str, child: P) -> None:
        self.children[name] = child

    def forget_child(self, name: str) -> None:
        """Forget a process that has ended without a result, so that the next run of the action starts another."""
        del self.children[name]

    def note_request(self, model: str, call: ModelCall) -> UnnamedReply:
        """Record a request of the first run and return the place for its reply."""
        reply = UnnamedReply(PLACE.get(), model, call)
        self.unnamed_replies.append(reply)
        return reply

    def forget_work(self) -> list[Question]:
        """Forget the replies and results of a failed attempt, so that the next one does not fail for the same reason.

        Its models are asked again, its tools are called again, and people are asked again for the approval of calls:
        those questions are returned. Answers to its own questions, the messages that it sent and the processes that it
        started are kept.
        """
        self.attempts += 1
        approvals = [self.questions.pop(name) for name in self._approvals]
        self.unnamed_replies.clear()
        self.replies.clear()
        self.results.clear()
        self.finished.clear()
        self.end_calls()
        self._approvals.clear()
        return approvals

    def close(self, reason: str) -> None:
        """End what is still under way, because the action is over."""
        self.end_calls()
        for child in self.children.values():
            child.kill(reason)
        self.children.clear()

    def end_calls(self) -> None:
        """End the calls that are under way; callable from any thread."""
        for call in self.calls.values():
            call.cancel()
        self.calls.clear()


class Names:
    """Gives names to what one run of an action does; the same steps get the same names in the next run."""

    def __init__(self, journal_key: str) -> None:
        self._journal_key = journal_key
        self._counted: dict[str, int] = {}

    def next(self, kind: str, what: str = "") -> str:
        name = self._without_number(kind, what)
        number = self._counted[name] = self._counted.get(name, 0) + 1
        return f"{name}#{number}"

    def peek(self, kind: str, what: str = "") -> str:
        """The name that `next` would return for such a step."""
        name = self._without_number(kind, what)
        return f"{name}#{self._counted.get(name, 0) + 1}"

    def _without_number(self, kind: str, what: str) -> str:
        return f"{PLACE.get() or self._journal_key}/{kind}:{what}"


def id_of_step(name: str) -> str:
    """An id made of the name of a step, for those who must not learn the id of the process."""
    return _digest((name,))


def at_place(name: str) -> ContextValue[str]:
    """A block in which all steps belong to the item or tool of this name; empty: to the action itself."""
    return ContextValue(PLACE, name)


def fingerprint_of_tool_call(tool: str, arguments: Mapping[str, object]) -> str:
    """A hash that identifies a call of a tool."""
    written = json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False, default=repr)
    return f"{tool}-{_digest((written,))}"


def fingerprint_of_question(message: str) -> str:
    """A hash that identifies a question."""
    return _digest((message,))


def fingerprint_of_model_call(model: str, call: ModelCall) -> str:
    """A hash that identifies a request of a model: messages without notices, tools offered, and the output's schema."""
    form = "" if call.output is None else to_json(call.output.schema, fallback=repr)
    offered = to_json([each.name for each in call.tools])
    return f"{model}-{_digest((form, offered, *(part for each in call.messages for part in _contents(each))))}"


def _contents(message: Message) -> Iterable[bytes | str]:
    content = message.content
    if isinstance(message, SystemMessage) and message.notice:
        content = content.removesuffix(message.notice)
        if not content:
            return
    yield type(message).__name__
    yield content
    match message:
        case AssistantMessage():
            yield to_json([(each.name, each.arguments) for each in message.calls])
        case UserMessage(images=images) | ToolReply(images=images):
            yield from (each.data for each in images)
        case _:
            pass


def _digest(parts: Iterable[bytes | str]) -> str:
    digest = blake2b(digest_size=12)
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()
