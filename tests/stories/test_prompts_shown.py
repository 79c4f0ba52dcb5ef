"""What models are sent is what is shown: all of it, once, and then what is new."""

from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from anyio.to_thread import run_sync

from goalport import AgentPlatform, Ai, ProcessOptions, UserInput, achieves_goal, agent
from goalport.events import Event, ModelCalled
from goalport.models import Image, Message, UserMessage
from goalport.testing import ScriptedModel
from tests.programs import ran
from tests.rooms.llm.servers import chat, serving
from tests.rooms.toy_domain import Story
from tests.stories.servers import workspace

SHOP = '''
from dataclasses import dataclass
from goalport import Ai, UserInput, achieves_goal, agent, tool
from goalport.models import Persona
from goalport.knowledge import Reference

@dataclass(frozen=True)
class Offer:
    text: str
    price: int

class Stock:
    @tool
    def count(self, what: str) -> int:
        """How many are there."""
        return 7

@agent(description="Sells")
class Seller:
    @achieves_goal(description="An offer")
    async def offer(self, user_input: UserInput, ai: Ai) -> Offer:
        ai = ai.with_prompt_contributors(Persona("Ada", "a grocer", "kind", "sell pears"))
        ai = ai.with_references(Reference("rules", "The rules of the house", "Never sell figs."))
        ai = ai.with_system_prompt("You sell fruit.").with_tool_objects(Stock())
        return await ai.creating(Offer).with_example("a good one", Offer("Plums", 3)).from_prompt(user_input.content)
'''
SETTINGS = """
[models]
default_llm = "house"

[[models.custom]]
name = "house"
base_url = "{address}/v1"
contributors = ["You are the house model."]
"""
COUNT = {"id": "c1", "type": "function", "function": {"name": "count", "arguments": '{"what": "pears"}'}}
OFFER = '{"text": "Seven pears", "price": 9}'


def texts_in(body: dict[str, Any]) -> list[str]:
    """The texts that a provider got: of messages, and about tools."""
    about = [each["function"] for each in body.get("tools", ())]
    said = [each.get("content") for each in body["messages"]]
    return [*filter(None, said), *(each["name"] for each in about), *(each["description"] for each in about)]


async def test_the_terminal_shows_each_text_that_the_provider_gets(tmp_path: Path) -> None:
    async with serving(chat(None, (10, 5), tool_calls=[COUNT]), chat(OFFER, (10, 5))) as provider:
        files = {"agents/seller.py": SHOP, "server/settings.toml": SETTINGS.format(address=provider.address)}
        done = await run(workspace(tmp_path, files))

    assert done.returncode == 0, done.stderr
    shown = [line.strip() for line in done.stderr.splitlines()]
    first, second = provider.bodies
    for text in (*texts_in(first), *texts_in(second)):
        for line in filter(None, map(str.strip, text.splitlines())):
            assert any(line in each for each in shown), line
    for once in ("You sell fruit.", "You are the house model.", "Never sell figs.", "I want pears"):
        assert sum(once in line for line in shown) == 1, once
    assert "(as before: system prompt, tools, form of the answer, 1 message)" in shown
    assert 'calls count {"what": "pears"}' in shown


async def run(root: Path) -> "CompletedProcess[str]":
    wanted = ["--goal", "offer", "--workspace", str(root), "--input", '{"content": "I want pears"}', "-p"]
    return await run_sync(ran, ["run", *wanted])


@agent(description="Talks")
class Talker:
    @achieves_goal(description="A talk")
    async def talk(self, user_input: UserInput, ai: Ai) -> Story:
        said: list[Message] = []
        for number in range(_TURNS):
            said.append(UserMessage(f"This is sentence {number}"))
            said.append(await ai.with_id("talk").with_system_prompt("Be brief").respond(said))
        image = Image("image/png", b"x")
        await ai.with_id("talk").respond([*said, UserMessage("Look", (image,))])
        return Story("done")


_TURNS = 30


class Prompts:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: Event, /) -> None:
        if isinstance(event, ModelCalled):
            self.seen.append(event.prompt)


async def test_a_conversation_is_in_the_events_once_however_often_it_is_sent() -> None:
    model, prompts = ScriptedModel([f"Answer {number}" for number in range(_TURNS + 1)]), Prompts()
    platform = AgentPlatform([Talker], models=model)
    await platform.run("Talker", UserInput("go"), options=ProcessOptions(listeners=[prompts]))

    assert prompts.seen[0] == "system prompt:\nBe brief\n\nuser:\nThis is sentence 0"
    assert prompts.seen[2] == (
        "(as before: system prompt, 3 messages)\n\nassistant:\nAnswer 1\n\nuser:\nThis is sentence 2"
    )
    assert prompts.seen[-1].startswith("(as before: 59 messages)\n\nsystem prompt:\n(none)\n\nassistant:\nAnswer 29")
    assert prompts.seen[-1].endswith("user:\nLook\n(an image, image/png)")
    everything = "".join(prompts.seen)
    assert all(everything.count(f"sentence {number}\n") <= 1 for number in range(_TURNS))


async def test_the_same_question_is_shown_each_time_that_it_is_asked() -> None:
    prompts = Prompts()
    platform = AgentPlatform(models=ScriptedModel(["One", "Two"]), listeners=[prompts])
    for _ in range(2):
        await platform.ai.generate_text("Well?")

    assert prompts.seen == ["user:\nWell?"] * 2
