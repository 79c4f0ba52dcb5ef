"""A question becomes the reply in words, and the next message is read as its answer."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from openai import NotFoundError
from pydantic import BaseModel, Field, SecretStr

from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from goalport.runtime.process.questions import Question
from goalport.server.publish.questions_in_words import Answer, Unclear, in_words, read_answer
from tests.rooms.openai_api.chats import Chats, chats, history


@dataclass(frozen=True)
class Order:
    what: str


@dataclass(frozen=True)
class Address:
    street: str
    number: int
    floor: int = 0


class Login(BaseModel):
    token: SecretStr


@dataclass(frozen=True)
class Sent:
    content: str


@chatbot(description="Sends what is ordered")
class Shop:
    @action(trigger=UserMessage, can_rerun=True, cost=0.1)
    async def order(self, message: UserMessage, context: ActionContext) -> WaitFor[Order] | None:
        if message.content.endswith("?"):
            await context.send_message("Good question.")
            return None
        await context.send_message("Gladly.")
        return WaitFor.confirmation(Order(message.content), f"Really send {message.content}?")

    @action(trigger=UserMessage, can_rerun=True, cost=0.9)
    async def explain(self, context: ActionContext) -> None:
        await context.send_message("It is cheap.")

    @action(trigger=Order, can_rerun=True)
    async def send(self, order: Order, context: ActionContext) -> None:
        await context.send_message(f"Sent: {order.what}")


@agent(description="Delivers")
class Courier:
    @action
    def ask(self, said: UserInput) -> WaitFor[Address]:
        return WaitFor.form_submission(f"Where does {said.content} go?", Address)

    @achieves_goal(description="A delivery", export=Export(remote=True, name="deliver"))
    def deliver(self, said: UserInput, to: Address) -> Sent:
        return Sent(f"{said.content} to {to.number} {to.street}, floor {to.floor}")


async def _say(server: Chats, model: str, *said: str) -> str:
    headers = {} if model == "deliver" else {"x-conversation-id": "order"}
    create = server.openai.chat.completions.create
    reply = await create(model=model, messages=history(*said), extra_headers=headers)
    return reply.choices[0].message.content or ""


async def test_a_chatbot_asks_in_its_reply_and_takes_the_next_message_as_the_answer(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop) as server:
        said = ["tea"]
        asked = await _say(server, "Shop", *said)
        assert asked.startswith("Gladly.\n\nReally send tea?\n\nAnswer yes or no.\n\n(Question q-")
        said += [asked, "maybe"]
        unclear = await _say(server, "Shop", *said)
        assert unclear.startswith("That is neither a yes nor a no.\n\nReally send tea?")
        said += [unclear, "Yes, please"]
        assert await _say(server, "Shop", *said) == "Sent: tea"
        said += ["Sent: tea", "milk"]
        assert (await _say(server, "Shop", *said)).startswith("Gladly.\n\nReally send milk?")
        stored = await server.web.platform.store.conversations.messages("order")
        assert [each.role for each in stored] == [
            *["user", "assistant", "assistant"],
            *["user", "assistant"] * 2,
            *["user", "assistant", "assistant"],
        ]


async def test_a_no_is_an_answer_and_a_question_in_return_is_none(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop) as server:
        asked = await _say(server, "Shop", "tea")
        reply = await _say(server, "Shop", "tea", asked, "How much is it?")
        assert reply.startswith("It is cheap.\n\nReally send tea?")
        said = ["tea", asked, "How much is it?", reply]
        assert await _say(server, "Shop", *said, "no, too much") == ""
        session = await server.web.platform.chatbots["Shop"].find_session("order")
        assert session is not None
        assert not session.questions


async def test_a_client_that_has_not_seen_the_answer_goes_on_at_the_end(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop) as server:
        asked = await _say(server, "Shop", "tea")
        session = await server.web.platform.chatbots["Shop"].find_session("order")
        assert session is not None
        await (await session.answer(response=True)).result()
        assert await _say(server, "Shop", "tea", asked, "Is it good?") == "Good question."
        texts = [each.text for each in await server.web.platform.store.conversations.messages("order")]
        assert texts[-3:] == ["Sent: tea", "Is it good?", "Good question."]


CLOSED = "This question is answered already, and nothing was done about your answer: Really send tea?\n\n"


async def test_an_answer_that_comes_too_late_begins_nothing_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop) as server:
        asked = await _say(server, "Shop", "tea")
        session = await server.web.platform.chatbots["Shop"].find_session("order")
        assert session is not None
        await (await session.answer(response=True)).result()
        said = ["tea", asked, "No, thanks"]
        closed, again = [await _say(server, "Shop", *said) for _ in range(2)]
        assert closed.startswith(CLOSED)
        assert again == closed
        said += [closed, "milk"]
        asked = await _say(server, "Shop", *said)
        assert asked.startswith("Gladly.\n\nReally send milk?")
        assert await _say(server, "Shop", *said, asked, "yes") == "Sent: milk"
        assert len(await server.web.platform.processes.records()) == 1
        texts = [each.text for each in await server.web.platform.store.conversations.messages("order")]
        assert [each for each in texts if each.startswith("Sent")] == ["Sent: tea", "Sent: milk"]
        assert texts.index("Sent: tea") < texts.index("No, thanks") < texts.index("milk") < texts.index("Sent: milk")


async def test_another_answer_in_place_of_the_first_comes_too_late_as_well(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop) as server:
        asked = await _say(server, "Shop", "tea")
        assert await _say(server, "Shop", "tea", asked, "yes") == "Sent: tea"
        for answer in ("no", "yes"):
            assert (await _say(server, "Shop", "tea", asked, answer)).startswith(CLOSED)
        assert (await _say(server, "Shop", "tea", asked, "maybe milk")).startswith("Gladly.\n\nReally send maybe milk?")


async def test_a_late_answer_is_known_without_the_id_of_the_conversation(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop) as server:

        async def say(*said: str) -> str:
            reply = await server.openai.chat.completions.create(model="Shop", messages=history(*said))
            return reply.choices[0].message.content or ""

        asked = await say("tea")
        assert await say("tea", asked, "yes") == "Sent: tea"
        closed = await say("tea", asked, "no")
        assert closed.startswith(CLOSED)
        assert (await say("tea", asked, "no", closed, "milk")).startswith("Gladly.\n\nReally send milk?")
        assert len(await server.web.platform.store.conversations.list()) == 1


async def test_a_response_to_a_late_answer_begins_nothing(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop, Courier) as server:
        create = server.openai.responses.create
        asked = await create(model="Shop", input="tea")
        closed = asked
        for answer, reply in (("yes", "Sent: tea"), ("no", CLOSED), ("yes", CLOSED)):
            closed = await create(model="Shop", input=answer, previous_response_id=asked.id)
            assert closed.output_text.startswith(reply)
        after = await create(model="Shop", input="milk", previous_response_id=closed.id)
        assert after.output_text.startswith("Gladly.\n\nReally send milk?")

        asked = await create(model="deliver", input="tea")
        for answer in ("street: Elm\nnumber: 5", "street: Oak\nnumber: 7"):
            told = await create(model="deliver", input=answer, previous_response_id=asked.id)
            assert told.output_text == "tea to 5 Elm, floor 0"
        assert len(await server.web.platform.processes.records()) == 2
        asked = await create(model="deliver", input="milk", previous_response_id=told.id)
        assert asked.output_text.startswith("Where does milk go?")


async def test_an_answer_is_found_without_the_id_of_the_conversation(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop) as server:
        create = server.openai.chat.completions.create
        asked = (await create(model="Shop", messages=history("tea"))).choices[0].message.content or ""
        reply = await create(model="Shop", messages=history("tea", asked, "yes"))
        assert reply.choices[0].message.content == "Sent: tea"
        assert len(await server.web.platform.store.conversations.list()) == 1


async def test_a_goal_asks_for_its_fields_and_goes_on_with_them(tmp_path: Path) -> None:
    async with chats(tmp_path, Courier) as server:
        asked = await _say(server, "deliver", "a parcel")
        assert asked.startswith("Where does a parcel go?\n\nAnswer with a line for each of these:\n- street")
        assert "- floor (default: 0)" in asked
        wrong = await _say(server, "deliver", "a parcel", asked, "street: Elm\nnumber: many")
        assert "number" in wrong.split("Where does")[0]
        for answer in ("Street: Elm\nnumber: 5\nfloor: 2", '{"street": "Elm", "number": 5, "floor": 2}'):
            again = await _say(server, "deliver", "a parcel")
            assert await _say(server, "deliver", "a parcel", again, answer) == "a parcel to 5 Elm, floor 2"


async def test_a_response_that_asks_is_answered_by_the_one_that_follows_it(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop, Courier) as server:
        create = server.openai.responses.create
        for model, answer, reply in (
            ("Shop", "yes", "Sent: tea"),
            ("deliver", "street: Elm\nnumber: 5", "tea to 5 Elm"),
        ):
            asked = await create(model=model, input="tea")
            assert "(Question q-" in asked.output_text
            answered = await create(model=model, input=answer, previous_response_id=asked.id)
            assert answered.output_text.startswith(reply)
            with pytest.raises(NotFoundError):
                await create(
                    model=model, input=answer, previous_response_id=asked.id, extra_headers={"caller": "somebody else"}
                )


class Size(Enum):
    SMALL = 1
    LARGE = 2


class Parcel(BaseModel):
    to: Address
    size: Size
    again: bool = False
    tags: list[str] = []


GO = WaitFor.confirmation(Order("tea"), "Go?")
SECRET = WaitFor.form_submission("Which token?", Login)
WHICH = WaitFor.choice("Which?", [Order("Red tea"), Order("Green tea")], Order, label=lambda order: order.what)
WHERE = WaitFor.form_submission("Where?", Address)
PAGE = WaitFor.url("Pay", "https://pay.example.com")
SEND = WaitFor.form_submission("Send it?", Parcel)
DRAFTED = Parcel(to=Address("Elm", 5), size=Size.LARGE, again=True)
DRAFT = WaitFor.form_submission("Send it so?", Parcel, prefill=DRAFTED)
SENT = DRAFTED.model_copy(update={"tags": ["a", "b"]})


@pytest.mark.parametrize(
    ("wait", "text", "expected"),
    [
        (GO, "Yes!", Answer(True)),
        (GO, "no, thanks", Answer(False)),
        (GO, "hmm", None),
        (GO, "Ok, but not today", None),
        (GO, "sure, if it is cheap", None),
        (GO, "yes, don\u2019t", None),
        (SECRET, "token: abc", None),
        (SECRET, "skip", Answer(declined="The person said: skip")),
        (PAGE, "done", Answer(True)),
        (PAGE, "no", Answer(declined="The person said: no")),
        (WHICH, "green TEA", Answer("Green tea")),
        (WHICH, "2.", Answer("Green tea")),
        (WHICH, "3", None),
        (WHICH, "Cancel", Answer(declined="The person said: Cancel")),
        (WHERE, "Number: 5\n- street = Elm", Answer(Address("Elm", 5))),
        (WHERE, "Elm 5", None),
        (WHERE, "skip", Answer(declined="The person said: skip")),
        (SEND, "to.street: Elm\nTo.Number: 5\nsize: large\nagain: yes\ntags: a, b", Answer(SENT)),
        (SEND, '{"to": {"street": "Elm", "number": 5}, "size": 2, "again": true, "tags": ["a", "b"]}', Answer(SENT)),
        (SEND, '{"to": ' + "[" * 100_000, None),
        (DRAFT, "tags: a, b", Answer(SENT)),
        (DRAFT, "Yes.", Answer(DRAFTED)),
        (DRAFT, "That is not what I want", None),
    ],
)
def test_an_answer_is_read_as_people_write_it(wait: WaitFor[object], text: str, expected: Answer | None) -> None:
    question = Question.of("calm-owl-000000000000", "Act.ask", wait)
    assert in_words(question).startswith(question.message)
    reading = read_answer(question, text)
    assert isinstance(reading, Unclear) if expected is None else reading == expected


class Booking(BaseModel):
    nights: Annotated[int, Field(ge=1, le=14)]
    room: Annotated[str, Field(pattern="^[A-Z][0-9]+$", max_length=4, description="Which room")]
    board: Literal["half", "full"] = "half"
    guests: Annotated[float, Field(gt=0, multiple_of=0.5)] | None = None
    day: date
    name: Annotated[str, Field(min_length=1)]
    keys: Annotated[list[Literal["front", "back"]], Field(min_length=1)]


PARCEL = """Answer with a line for each of these:
- to.street
- to.number
- to.floor (default: 0)
- size: Size (Small, Large)
- again (yes or no; default: no)
- tags (optional)"""
BOOKING = """Answer with a line for each of these:
- nights (at least 1; at most 14)
- room: Which room (at most 4 characters; match the pattern ^[A-Z][0-9]+$)
- board (half, full; default: half)
- guests (more than 0; a multiple of 0.5; optional)
- day (a date, such as 2026-11-22)
- name
- keys (front, back; at least 1 item)"""


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Booking, BOOKING),
        (Parcel, PARCEL),
        (Annotated[int, Field(ge=1, lt=10)], "(at least 1; less than 10)"),
        (Literal["half", "full"], "(half, full)"),
    ],
)
def test_a_question_says_what_its_fields_may_be_before_anybody_errs(kind: Any, told: str) -> None:
    wait: WaitFor[object] = WaitFor.form_submission("Please?", kind)
    question = Question.of("calm-owl-000000000000", "Act.ask", wait)
    asked = in_words(question).split("\n\n")
    assert asked[1] == told


def test_a_question_shows_the_draft_of_its_answer() -> None:
    drink = WaitFor.input("Drink?", prefill="Tea")
    assert "(default: Tea)" in in_words(Question.of("calm-owl-000000000000", "Act.ask", drink))
    told = in_words(Question.of("calm-owl-000000000000", "Act.ask", DRAFT))
    assert "- to.street (default: Elm)\n" in told
    assert "- size: Size (Small, Large; default: Large)\n- again (yes or no; default: yes)\n" in told


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        (WHERE, "a" + " " * 100_000 + "b"),
        (WHERE, "a\n" + " " * 100_000 + "- b"),
        (WHICH, "1" * 5000),
    ],
)
def test_a_hostile_answer_is_read_as_fast_as_any_other(wait: WaitFor[object], text: str) -> None:
    question = Question.of("calm-owl-000000000000", "Act.ask", wait)
    assert isinstance(read_answer(question, text), Unclear)


async def test_nobody_answers_a_question_that_they_were_not_shown(tmp_path: Path) -> None:
    async with chats(tmp_path, Shop) as server:
        session = await server.web.platform.chatbots["Shop"].create_session(conversation_id="order")
        await session.on_user_message(UserMessage("tea"))
        reply = await _say(server, "Shop", "tea", "Gladly.", "Yes")
        assert "Sent" not in reply
        assert "Really send tea?" in reply


@chatbot(description="Asks before it says anything")
class Asker:
    @action(trigger=UserMessage, can_rerun=True)
    async def order(self, message: UserMessage) -> WaitFor[Order]:
        return WaitFor.confirmation(Order(message.content), f"Really send {message.content}?")

    @action(trigger=Order, can_rerun=True)
    async def send(self, order: Order, context: ActionContext) -> None:
        await context.send_message(f"Sent: {order.what}")


async def test_a_question_that_no_reader_has_waited_for_is_asked_when_the_message_comes_again(tmp_path: Path) -> None:
    async with chats(tmp_path, Asker) as server:
        session = await server.web.platform.chatbots["Asker"].create_session(conversation_id="order")
        await session.on_user_message(UserMessage("tea"))
        before = session.process_id
        asked = await _say(server, "Asker", "tea")
        assert asked.startswith("Really send tea?")
        assert await _say(server, "Asker", "tea", asked, "yes") == "Sent: tea"
        assert session.process_id == before
