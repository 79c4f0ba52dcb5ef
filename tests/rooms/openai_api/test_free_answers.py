"""Answers in free words, which a cheap model reads where the settings name one."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalport import ActionContext, WaitFor, action
from goalport.base.errors import Declined
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from tests.rooms.openai_api.chats import Chats, chats, history

CHEAP = '''
from goalport.base.errors import ModelRefused
from goalport.testing import ScriptedModel

FOUND = {
    "the fifth house in Elm Street": ("answer", '{"street": "Elm Street", "number": 5}'),
    "somewhere in Elm Street": ("answer", '{"street": "Elm Street"}'),
    "a nonsensical place": ("answer", "nowhere"),
    "I would rather not say": ("refusal", "{}"),
    "lovely weather today": ("something else", "{}"),
}


def reply(call):
    """A title, or what a message is; it does not answer where it knows neither."""
    if call.output is None:
        return "Parcels"
    asked = call.messages[-1].content
    for text, (kind, values) in FOUND.items():
        if text in asked:
            return {"kind": kind, "values": values}
    return ModelRefused("It is asleep.")


model = ScriptedModel([reply] * 20)
'''


@dataclass(frozen=True)
class Address:
    street: str
    number: int


@chatbot(description="Delivers parcels")
class Courier:
    @action(trigger=UserMessage, can_rerun=True, cost=0.1)
    async def deliver(self, context: ActionContext) -> None:
        try:
            to = await context.ask("Where to?", Address)
        except Declined:
            await context.send_message("As you like.")
        else:
            await context.send_message(f"To {to.number} {to.street}.")

    @action(trigger=UserMessage, can_rerun=True, cost=0.9)
    async def chat(self, context: ActionContext) -> None:
        await context.send_message("Indeed.")


class Unreadable:
    """Nothing that can be read from JSON."""


class Handover(WaitFor[Address]):
    @property
    def response_type(self) -> object:
        return Unreadable

    def accept(self, response: Any) -> Address:
        return Address("Elm Street", 5)


@chatbot(description="Asks for what cannot be said")
class Porter:
    @action(trigger=UserMessage, can_rerun=True)
    async def carry(self) -> WaitFor[Address]:
        return Handover("Give it to me")


ANSWERS = {
    "the fifth house in Elm Street": "To 5 Elm Street.",
    "somewhere in Elm Street": "The answer needs correcting:\n- number: required, but missing\n\nWhere to?",
    "a nonsensical place": "The answer needs correcting:\n- street: required, but missing",
    "in words that no model knows": "The answer needs correcting:\n- street: required, but missing",
    "I would rather not say": "As you like.",
    "lovely weather today": "Indeed.\n\nWhere to?",
}


def _with_cheap_model(root: Path, chatbot: object) -> AbstractAsyncContextManager[Chats]:
    (root / "agents").mkdir()
    (root / "agents" / "cheap.py").write_text(CHEAP)
    return chats(root, chatbot, models={"llms": {"cheapest": "scripted"}})


async def _say(server: Chats, model: str, conversation: str, *said: str) -> str:
    create, headers = server.openai.chat.completions.create, {"x-conversation-id": conversation}
    reply = await create(model=model, messages=history(*said), extra_headers=headers)
    return reply.choices[0].message.content or ""


async def test_a_cheap_model_reads_what_an_answer_says(tmp_path: Path) -> None:
    async with _with_cheap_model(tmp_path, Courier) as server:
        for number, (answer, reply) in enumerate(ANSWERS.items()):
            asked = await _say(server, "Courier", f"parcel-{number}", "a parcel")
            assert asked.startswith("Where to?")
            assert (await _say(server, "Courier", f"parcel-{number}", "a parcel", asked, answer)).startswith(reply)


async def test_no_model_reads_what_cannot_be_said_in_words(tmp_path: Path) -> None:
    async with _with_cheap_model(tmp_path, Porter) as server:
        asked = await _say(server, "Porter", "hall", "take this")
        reply = await _say(server, "Porter", "hall", "take this", asked, "here it is")
        assert reply.startswith("This question cannot be answered in words")
