"""What an action has done so far and what it waits for, so that it can begin again without doing anything twice.

An action that has to wait for a person in its middle is parked: its coroutine ends, and once there is an answer it
begins anew and finds here what its models replied, what its tools gave, the processes that it started and the answers
of people. A call is found again by what it is (which model is told what, which tool gets which arguments), by how often
the same was done before, and by the item of `parallel_map` or the tool that it belongs to: not by a bare number, which
calls that run at once would get in another order. So what fits no record is simply done anew.

A call of an upstream server's tool may go on while its action is parked: the server asks a person in the middle of the
call, and wants the answer in the same call. Such a call runs in a task of its own (`OpenCall`), where the action finds
it when it begins again. It lives as long as the program and the action; after that it is made anew.

Above: `context` and `attempt` record; the process's progress makes a journal for an action and drops it when the action
is over.
"""

import asyncio
import json
from asyncio import Future
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar, cast

from pydantic_core import to_json

from goalport.llm import AssistantMessage, Image, Message, ModelCall, ModelReply, ToolReply, UserMessage
from goalport.process.questions import Question
from goalport.tools import Interruption, ToolResult
from goalport.upstream.calls import call_hooks

__all__ = [
    "Asker",
    "Child",
    "Journal",
    "Names",
    "OpenCall",
    "Parked",
    "UnnamedReply",
    "at_place",
    "fingerprint_of_arguments",
    "fingerprint_of_model_call",
    "fingerprint_of_question",
]

_place: ContextVar[str] = ContextVar("goalport_place", default="")
"""What the calling code belongs to: an item of `parallel_map`, a call of a tool; empty: the action itself."""


class Parked(Interruption):
    """An action cannot go on until a person has answered: a question of its own, or one of a process that it started.

    No failure, and no `Exception`: whoever swallows it does so in vain, since the action is parked all the same.
    """


class Child(Protocol):
    """A process that an action has started."""

    def kill(self, reason: str = ..., /) -> None: ...


P = TypeVar("P", bound=Child)


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


@dataclass(slots=True)
class UnnamedReply:
    """A reply of a model that has no name yet. Names take time to compute, and most actions never begin again."""

    place: str
    model: str
    call: ModelCall
    reply: ModelReply | None = None

    def keep(self, reply: ModelReply, /) -> None:
        """Write down the reply."""
        self.reply = reply


class Journal(Generic[P]):
    """The records of one action from when it begins until it is over, by the names that `Names` gives."""

    def __init__(self, key: str) -> None:
        self.key = key
        """`process:seq`, in front of each name: the same whenever the action begins again."""
        self.begun = False
        self.again = False
        """Whether the action that runs now had begun before."""
        self.unnamed_replies: list[UnnamedReply] = []
        """The requests of models of the first attempt, in order."""
        self.replies: dict[str, ModelReply] = {}
        """Those of attempts before."""
        self.results: dict[str, ToolResult] = {}
        """Errors too: a model that was told of one has gone another way since."""
        self.questions: dict[str, Question] = {}
        """What the action asked people; the answers are on them."""
        self.approvals: dict[str, Question] = {}
        """Questions whether tools may be called."""
        self.calls: dict[str, OpenCall] = {}
        """Calls of tools that go on while the action is parked. The one thing in here that no program outlives."""
        self.children: dict[str, P] = {}
        self.parked = False
        """Whether the action that runs now has come to where it has to wait."""
        self.waits_for: list[P] = []
        """Processes that it has to wait for."""

    def begin(self) -> None:
        """Note that the action begins, again or not."""
        self.parked = False
        self.waits_for.clear()
        self.again, self.begun = self.begun, True
        names = Names(self.key)
        for each in self.unnamed_replies:
            with at_place(each.place):
                name = names.next("model", fingerprint_of_model_call(each.model, each.call))
            if each.reply is not None:
                self.replies[name] = each.reply
        self.unnamed_replies.clear()

    def note_request(self, model: str, call: ModelCall) -> UnnamedReply:
        """A place for the reply to a request of a first attempt."""
        reply = UnnamedReply(_place.get(), model, call)
        self.unnamed_replies.append(reply)
        return reply

    def forget_work(self) -> list[Question]:
        """Forget what a failed attempt was told and given, so that the next one does not fail for the same reason.

        Its models are asked again, its tools called again, and people asked again who had agreed to a call: those
        questions are returned. What it asked people itself stays answered, and what it started stays its own.
        """
        approvals = list(self.approvals.values())
        self.unnamed_replies.clear()
        self.replies.clear()
        self.results.clear()
        self.end_calls()
        self.approvals.clear()
        return approvals

    def close(self, reason: str) -> None:
        """The action is over: what it has still under way is ended."""
        self.end_calls()
        for child in self.children.values():
            child.kill(reason)
        self.children.clear()

    def end_calls(self) -> None:
        """End the calls that are under way; from any thread."""
        for call in self.calls.values():
            call.cancel()
        self.calls.clear()


class Names:
    """Names for what one run of an action does: the same whenever it does the same again."""

    def __init__(self, journal_key: str) -> None:
        self._journal_key = journal_key
        self._counted: Counter[str] = Counter()

    def next(self, kind: str, what: str = "") -> str:
        """The name of what is done now."""
        name = self._without_number(kind, what)
        self._counted[name] += 1
        return f"{name}#{self._counted[name]}"

    def peek(self, kind: str, what: str = "") -> str:
        """The name that the next of the same would get."""
        name = self._without_number(kind, what)
        return f"{name}#{self._counted[name] + 1}"

    def _without_number(self, kind: str, what: str) -> str:
        return f"{_place.get() or self._journal_key}/{kind}:{what}"


@contextmanager
def at_place(name: str) -> Generator[None]:
    """The time in which everything that is done belongs to what bears this name; empty: to the action itself."""
    token = _place.set(name)
    try:
        yield
    finally:
        _place.reset(token)


def fingerprint_of_arguments(tool: str, arguments: Mapping[str, object]) -> str:
    """What tells calls of tools apart."""
    written = json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False, default=repr)
    return f"{tool}-{_digest((written,))}"


def fingerprint_of_question(message: str) -> str:
    """What tells questions apart."""
    return _digest((message,))


def fingerprint_of_model_call(model: str, call: ModelCall) -> str:
    """What tells requests of models apart: all that is said, the tools that are offered, the form that is wanted."""
    form = "" if call.output is None else to_json(call.output.schema, fallback=repr)
    offered = to_json([each.name for each in call.tools])
    return f"{model}-{_digest((form, offered, *(part for each in call.messages for part in _said(each))))}"


def _said(message: Message) -> Iterable[bytes | str]:
    yield type(message).__name__
    yield message.content
    match message:
        case AssistantMessage():
            yield to_json([(each.name, each.arguments) for each in message.calls])
        case UserMessage(images=images) | ToolReply(images=images):
            yield from map(_seen, images)
        case _:
            pass


def _seen(image: Image) -> bytes:
    return image.data


def _digest(parts: Iterable[bytes | str]) -> str:
    digest = blake2b(digest_size=12)
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()
