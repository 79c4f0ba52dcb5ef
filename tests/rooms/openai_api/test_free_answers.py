"""Answers in free words, which a cheap model reads where the settings name one."""

from dataclasses import dataclass
from pathlib import Path

from goalport import ActionContext, action
from goalport.chat import chatbot
from goalport.errors import Declined
from goalport.llm import UserMessage
from tests.rooms.openai_api.chats import chats, history

CHEAP = '''
from goalport.errors import ModelRefused
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


ANSWERS = {
    "the fifth house in Elm Street": "To 5 Elm Street.",
    "somewhere in Elm Street": "The answer needs correcting:\n- number: required, but missing\n\nWhere to?",
    "a nonsensical place": "The answer needs correcting:\n- street: required, but missing",
    "in words that no model knows": "The answer needs correcting:\n- street: required, but missing",
    "I would rather not say": "As you like.",
    "lovely weather today": "Indeed.\n\nWhere to?",
}


async def test_a_cheap_model_reads_what_an_answer_says(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "cheap.py").write_text(CHEAP)
    async with chats(tmp_path, Courier, models={"llms": {"cheapest": "scripted"}}) as server:

        async def say(conversation: str, *said: str) -> str:
            create, headers = server.openai.chat.completions.create, {"x-conversation-id": conversation}
            reply = await create(model="Courier", messages=history(*said), extra_headers=headers)
            return reply.choices[0].message.content or ""

        for number, (answer, reply) in enumerate(ANSWERS.items()):
            asked = await say(f"parcel {number}", "a parcel")
            assert asked.startswith("Where to?")
            assert (await say(f"parcel {number}", "a parcel", asked, answer)).startswith(reply)
