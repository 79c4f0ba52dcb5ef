"""The shipped adventure as every client plays it, whoever wrote the client. No test is in here.

The script is a generator: it yields calls and is sent what came back, so that clients of any kind can follow it.
It reads what it needs from the text, as a model does, and holds the structured content against it where there is some.
"""

import json
import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from tests.agents.adventure.nights import DOOR, EGYPT, LEAVE_TEA, LID, TEA, TO_TEA
from tests.clients.conversation import text_of

PLAY, STATUS, ANSWER, CANCEL = TOOLS = ("play_adventure", "process_status", "process_answer", "process_cancel")
CALL = re.compile(r"call (?P<tool>\w+) with (?P<arguments>\{.*?\})\.(?:\s|$)")
QUESTION = re.compile(r"^Question (?P<id>\S+): ", re.MULTILINE)
SCHEMA = re.compile(r"valid against this JSON Schema: (?P<schema>\{.*\})$", re.MULTILINE)


@dataclass(frozen=True)
class Request:
    """One call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    answers: Sequence[Any] = ()
    """What the person does with the forms that are shown meanwhile, one after another."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def wire(self) -> dict[str, Any]:
        """The params of tools/call, and what the person does."""
        return {"name": self.tool, "arguments": self.arguments, "_meta": self.meta, "answers": self.answers}


@dataclass(frozen=True)
class Heard:
    """What a client shows of an answer."""

    text: str
    failed: bool
    structured: Mapping[str, Any] | None
    """None where there is none, or where the client passes on text only."""
    asked: Sequence[Mapping[str, Any]] = ()
    """The params of the forms that were shown meanwhile."""
    error: str = ""
    """Why the client gave no result."""

    @classmethod
    def of(cls, result: Mapping[str, Any], asked: Sequence[Mapping[str, Any]] = ()) -> "Heard":
        """The result of a call as it is on the wire."""
        return cls(text_of(result), bool(result.get("isError")), result.get("structuredContent"), asked)

    @classmethod
    def told(cls, report: Mapping[str, Any]) -> "Heard":
        """What a client that runs as a process reports of a call."""
        if "error" in report:
            return cls("", failed=True, structured=None, asked=report["asked"], error=report["error"])
        return cls.of(report["result"], report["asked"])


Script = Generator[Request, Heard]
Steps = Generator[Request, Heard, Heard]


def play(call: Callable[[Request], Heard]) -> None:
    """Have a client that is called from here play both nights."""
    follow(two_nights(), call)


def follow(script: Script, call: Callable[[Request], Heard]) -> None:
    """Have a client that is called from here make the calls of a script."""
    request = next(script, None)
    while request:
        try:
            request = script.send(call(request))
        except StopIteration:
            return


async def follow_async(script: Script, call: Callable[[Request], Awaitable[Heard]]) -> None:
    """The same for a client that is awaited."""
    request = next(script, None)
    while request:
        try:
            request = script.send(await call(request))
        except StopIteration:
            return


@dataclass(frozen=True)
class Standing:
    """How a night stands, by what a handle says."""

    process: Mapping[str, str]
    question: str
    schema: Mapping[str, Any] | None
    """What the answer must fit; None for a confirmation."""

    @classmethod
    def read(cls, heard: Heard) -> "Standing":
        assert not heard.failed, heard
        assert "Do not call play_adventure again" in heard.text
        calls = calls_in(heard.text)
        question, schema = QUESTION.search(heard.text), SCHEMA.search(heard.text)
        assert question, heard
        standing = cls(calls[CANCEL], question["id"], json.loads(schema["schema"]) if schema else None)
        assert calls.keys() == {ANSWER, CANCEL}
        if heard.structured is not None:
            standing.check(heard.structured)
        return standing

    def check(self, structured: Mapping[str, Any]) -> None:
        assert {"processId": structured["processId"]} == self.process
        assert structured["status"] == "waiting"
        (question,) = structured["questions"]
        assert question["id"] == self.question
        assert question["schema"] == (self.schema or {"type": "boolean"})

    def form(self, choice: str) -> Request:
        """The answer to a form, checked as a host would."""
        data = {"choice": choice}
        assert self.schema
        jsonschema.validate(data, self.schema)
        return Request(ANSWER, {**self.process, "answer": data})

    def look(self) -> Request:
        return Request(STATUS, {**self.process, "waitSeconds": 5})


def calls_in(text: str) -> Mapping[str, Mapping[str, str]]:
    """The arguments of the calls that the text of a handle names, by their tools."""
    return {each["tool"]: json.loads(each["arguments"]) for each in CALL.finditer(text)}


def a_night() -> Script:
    """One game to its end without a mistake, for clients that are a program of their own for each call."""
    hall = Standing.read((yield Request(PLAY, {"name": "Ada"})))
    lid = yield from drink_tea(Standing.read((yield hall.form(TO_TEA))))
    check_tale((yield Request(ANSWER, {**lid.process, "answer": True})))


def two_nights() -> Script:
    """One game to its end, with every mistake on the way; another in between that is given up."""
    tea_room = yield from begin_with_mistakes()
    yield from give_up_another()
    yield from end_with_tea(tea_room)


def begin_with_mistakes() -> Generator[Request, Heard, Standing]:
    hall = Standing.read((yield Request(PLAY, {"name": "Ada"})))
    wrong = yield Request(ANSWER, {**hall.process, "answer": {"choice": "wake the walrus"}})
    assert wrong.failed
    assert "choice" in wrong.text
    assert DOOR in wrong.text
    assert Standing.read((yield hall.look())) == hall, "the question stays"

    tea_room = Standing.read((yield hall.form(TO_TEA)))
    assert (tea_room.process, tea_room.question == hall.question) == (hall.process, False)

    again = yield Request(ANSWER, {**hall.form(EGYPT).arguments, "questionId": hall.question})
    assert again.failed
    assert f"Question {hall.question} is answered already" in again.text
    assert tea_room.question in again.text, "it says what is asked now"
    return tea_room


def end_with_tea(tea_room: Standing) -> Script:
    still = Standing.read((yield tea_room.look()))
    assert still == tea_room, "what went wrong elsewhere changed nothing here"
    lid = yield from drink_tea(still)
    odd = yield Request(ANSWER, {**lid.process, "answer": {"choice": LID}})
    assert odd.failed
    assert "should be yes or no" in odd.text
    check_tale((yield Request(ANSWER, {**lid.process, "answer": True})))
    check_tale((yield lid.look()))
    late = yield Request(ANSWER, {**lid.process, "answer": True})
    assert late.failed
    assert f"It is done: {STATUS} gives its result." in late.text


def drink_tea(standing: Standing) -> Generator[Request, Heard, Standing]:
    """From the tea room to the lid, which only a yes opens."""
    for choice in (TEA, LEAVE_TEA, EGYPT, LID):
        standing = Standing.read((yield standing.form(choice)))
    assert standing.schema is None
    return standing


def give_up_another() -> Script:
    hall = Standing.read((yield Request(PLAY, {"name": "Robin"})))
    room = Standing.read((yield hall.form(EGYPT)))
    lid = Standing.read((yield room.form(LID)))
    room = Standing.read((yield Request(ANSWER, {**lid.process, "answer": False})))
    assert room.schema, "after a no, another question"
    ended = yield Request(CANCEL, room.process)
    assert not ended.failed, ended
    assert "was stopped" in ended.text
    gone = yield room.look()
    assert gone.failed
    assert "was stopped" in gone.text
    late = yield room.form(LID)
    assert late.failed
    assert "Nothing more can be answered" in late.text
    late = yield Request(ANSWER, {**room.form(LID).arguments, "questionId": room.question})
    assert late.failed
    assert "has ended: killed" in late.text


def check_tale(heard: Heard) -> None:
    assert not heard.failed, heard
    assert heard.text.startswith("Tea for two"), heard
    assert heard.text.endswith("Ending 2 of 5, after 5 choices.")
    if heard.structured is not None:
        assert heard.structured == {"content": heard.text, "ending": "tea", "choices": 5}
