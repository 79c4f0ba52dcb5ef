"""The model `test`: agents are tried with it by hand, without a key and without a network."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from goalport.models.llm import CustomModel, LlmOptions, Models, ModelsSettings, UserMessage
from goalport.models.llm.model import ModelCall
from tests.rooms.cli.conftest import Command
from tests.stories.servers import READY, program, workspace

STARS = """
from typing import Annotated, Literal
from pydantic import BaseModel, Field
from goalport import Ai, Export, UserInput, achieves_goal, action, agent, tool

class Person(BaseModel):
    name: str
    sign: Literal["Leo", "Virgo"]
    luck: Annotated[int, Field(ge=3, le=10)]
    friends: list["Person"] = []

class Horoscope(BaseModel):
    text: str
    asked: list[str]

class Sky:
    def __init__(self):
        self.asked = []

    @tool
    def look_up(self, sign: str) -> str:
        "Look a sign up."
        self.asked.append(sign)
        return "It shines."

@agent(description="Tells what the stars say")
class Stars:
    @action
    async def who(self, said: UserInput, ai: Ai) -> Person | None:
        return await ai.create_object_if_possible(f"Who is this? {said.content}", Person)

    @achieves_goal(description="Tell", export=Export(remote=True, name="tell", starting_input_types=[UserInput]))
    @action
    async def tell(self, person: Person, ai: Ai) -> Horoscope:
        sky = Sky()
        text = await ai.with_tool_objects(sky).generate_text(f"Tell {person.name} what look_up says of {person.sign}.")
        return Horoscope(text=text, asked=sky.asked)
"""


def test_an_agent_runs_without_a_key(tmp_path: Path, goalport: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    root = workspace(tmp_path, {"agents/stars.py": STARS})
    ran = goalport("run", "Lynda is a Leo", "--model", "test", "--workspace", str(root), "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)["result"]
    assert told["text"] == "This is the test model, and it was asked: Tell name what look_up says of Leo."
    assert told["asked"] == ["sign"]
    assert "asks test" in ran.err


PAINTER = """
from goalport import Ai, UserInput, achieves_goal, agent

@agent(description="Paints pictures of animals")
class Painter:
    @achieves_goal(description="Paint a picture")
    async def paint(self, said: UserInput, ai: Ai) -> str:
        return await ai.generate_text(f"Paint {said.content}")
"""


@pytest.mark.parametrize(("sentence", "told"), [("Paint an animal", "asked: Paint"), ("What do the stars say?", "Leo")])
def test_it_chooses_the_agent_whose_words_fit(tmp_path: Path, goalport: Command, sentence: str, told: str) -> None:
    root = workspace(tmp_path, {"agents/stars.py": STARS, "agents/painter.py": PAINTER})
    ran = goalport("run", sentence, "--model", "test", "--workspace", str(root))
    assert (ran.code, told in ran.out) == (0, True), ran.err


async def test_a_server_that_listens_to_others_warns_of_it(tmp_path: Path) -> None:
    root = workspace(tmp_path, {"agents/stars.py": STARS})
    own = {"GOALPORT_MODELS__DEFAULT_LLM": "test", "GOALPORT_AUTH__INSECURE_NO_AUTH": "true"}
    for host, warned in (("127.0.0.1", False), ("0.0.0.0", True)):  # noqa: S104 - it is about this
        command = ["serve", "--workspace", str(root), "--port", "0", "--host", host]
        async with program(command, {**os.environ, **own}) as (_, heard):
            assert ("makes everything up" in await heard.until(READY)) == warned


async def test_it_streams_and_costs_nothing() -> None:
    model = Models(ModelsSettings(default_llm="test")).choose(LlmOptions())
    pieces: list[Any] = [each async for each in model.stream(ModelCall(messages=(UserMessage("Hello"),)))]
    assert "".join(each.text for each in pieces[:-1]) == pieces[-1].message.content
    assert pieces[-1].usage.cost == 0
    assert Models(ModelsSettings(default_llm="test")).problems() == ()


async def test_a_model_of_the_settings_may_have_its_name() -> None:
    own = CustomModel(name="test", provider="mine", base_url="http://127.0.0.1:9/v1")
    assert Models(ModelsSettings(custom=(own,))).choose(LlmOptions(model="test")).card.provider == "mine"
