"""What an action has done so far and what it waits for, so that it can begin again without doing anything twice.

An action that has to wait for a person in its middle is parked: its coroutine ends, and once there is an answer it
begins anew and finds here what its models replied, what its tools gave, the processes that it started and the answers
of people. A call is found again by what it is (which model is told what, which tool gets which arguments), by how often
the same was done before, and by the item of `parallel_map` or the tool that it belongs to: not by a bare number, which
calls that run at once would get in another order. So what fits no record is simply done anew.

Above: `context` and `call_site` record; `invoke` makes a journal for an action and drops it when the action is over.
"""

import json
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from pydantic_core import to_json

from goalport.llm import AssistantMessage, Image, Message, ModelCall, ModelReply, ToolReply, UserMessage
from goalport.process.open_call import OpenCall
from goalport.process.questions import Question
from goalport.tools import Interruption, ToolResult

__all__ = [
    "Child",
    "Heard",
    "Journal",
    "Names",
    "Parked",
    "at_place",
    "print_of_arguments",
    "print_of_model_call",
    "print_of_question",
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


@dataclass(slots=True)
class Heard:
    """A reply of a model that has no name yet: most actions never begin again, and naming takes its time."""

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
        self.heard: list[Heard] = []
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
        for each in self.heard:
            with at_place(each.place):
                name = names.next("model", print_of_model_call(each.model, each.call))
            if each.reply is not None:
                self.replies[name] = each.reply
        self.heard.clear()

    def hear(self, model: str, call: ModelCall) -> Heard:
        """A place for the reply to a request of a first attempt."""
        heard = Heard(_place.get(), model, call)
        self.heard.append(heard)
        return heard

    def forget_work(self) -> list[Question]:
        """Forget what a failed attempt was told and given, so that the next one does not fail for the same reason.

        Its models are asked again, its tools called again, and people asked again who had agreed to a call: those
        questions are returned. What it asked people itself stays answered, and what it started stays its own.
        """
        approvals = list(self.approvals.values())
        self.heard.clear()
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


def print_of_arguments(tool: str, arguments: Mapping[str, object]) -> str:
    """What tells calls of tools apart."""
    written = json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False, default=repr)
    return f"{tool}-{_digest((written,))}"


def print_of_question(message: str) -> str:
    """What tells questions apart."""
    return _digest((message,))


def print_of_model_call(model: str, call: ModelCall) -> str:
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
