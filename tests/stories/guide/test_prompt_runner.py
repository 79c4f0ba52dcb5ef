"""What a prompt is run with, by the names of the guide (sections 3.8.1, 3.8.2 and 3.9.3), in programs."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from goalport import (
    AgentPlatform,
    Ai,
    LlmOptions,
    OperationContext,
    Persona,
    Tool,
    ToolGroup,
    UserInput,
    achieves_goal,
    action,
    agent,
    tool,
)
from goalport.agents import read_agent
from goalport.errors import DeclarationError, UnknownName
from goalport.models import Image, ModelCall, SystemMessage, ToolReply
from goalport.runtime import SERVICE_TYPES, Context, agent_tool
from goalport.testing import FakeEngine, ScriptedModel, calls_tool
from goalport.tools import ToolResult

WREN = Persona(name="Wren", persona="a poet of few words", voice="gentle", objective="say it in three lines")


@dataclass(frozen=True)
class Town:
    name: str


@dataclass(frozen=True)
class Weather:
    text: str


@dataclass(frozen=True)
class Advice:
    text: str


def system_prompt(call: ModelCall) -> str:
    first = call.messages[0]
    return first.content if isinstance(first, SystemMessage) else ""


def replies(call: ModelCall) -> list[str]:
    return [each.content for each in call.messages if isinstance(each, ToolReply)]


def weather(town: str) -> str:
    """The weather of a town"""
    return f"Rain in {town}"


def shout(text: str) -> str:
    """Says it louder"""
    return text.upper()


async def test_options_say_whom_the_model_plays() -> None:
    model = ScriptedModel(["one", "two", "three", "four"])
    ai = AgentPlatform(models=model).ai.with_system_prompt("Be brief.")
    wren = ai.with_llm(LlmOptions(persona=WREN))

    await wren.generate_text("Hello")
    await wren.with_llm(temperature=0.5).generate_text("Hello")
    await ai.with_llm(persona="A careful analyst").generate_text("Hello")
    await wren.with_llm(persona=None).generate_text("Hello")

    said = f"Be brief.\n\n{WREN.contribution()}"
    assert list(map(system_prompt, model.calls)) == [
        said,
        said,
        "Be brief.\n\nYour persona: A careful analyst",
        "Be brief.",
    ]


def test_options_with_a_persona_can_stand_in_a_file_of_settings() -> None:
    options = LlmOptions(model="m", persona=WREN)
    assert LlmOptions.model_validate_json(options.model_dump_json()) == options
    assert options.but(temperature=0).persona == WREN


async def test_images_tools_and_groups_of_ones_own_are_given_one_by_one() -> None:
    model = ScriptedModel([calls_tool("weather", town="Ghent"), calls_tool("shout", text="hi"), "Done."])
    shouting = ToolGroup.of("shouting", shout)
    ai = AgentPlatform(models=model, tool_groups=[ToolGroup.of("unused", Tool.of(weather, name="unused"))]).ai
    ai = ai.with_image(Image("image/png", b"1")).with_image(Image("image/png", b"2"))
    ai = ai.with_tool(weather).with_tool_group(shouting)
    assert await ai.generate_text("Look") == "Done."

    first = model.calls[0]
    assert [each.name for each in first.tools] == ["weather", "shout"]
    assert [image.data for message in first.messages for image in getattr(message, "images", ())] == [b"1", b"2"]
    assert replies(model.calls[2]) == ["Rain in Ghent", "HI"]


def test_what_is_no_group_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="roles of tool groups, or tool groups"):
        FakeEngine().ai.with_tool_group(weather)  # pyright: ignore[reportArgumentType] - the mistake


@agent(description="Knows the weather of a town")
class Meteorologist:
    @achieves_goal(description="The weather")
    @action
    async def look(self, town: Town) -> Weather:
        return Weather(f"Rain in {town.name}")


@agent(description="Gives advice")
class Adviser:
    """What it is asked is answered by a model that may hand over to other agents."""

    def __init__(self, *agents: object) -> None:
        self.agents = agents

    @achieves_goal(description="Advice")
    @action
    async def advise(self, question: UserInput, ai: Ai) -> Advice:
        return Advice(await ai.with_subagents(*self.agents).generate_text(question.content))


@pytest.mark.parametrize(
    "subagent",
    [
        Meteorologist(),
        read_agent(Meteorologist(), SERVICE_TYPES),
        agent_tool("Meteorologist", Weather, takes=Town, name="meteorologist", description="Knows the weather"),
    ],
    ids=["instance", "agent", "tool"],
)
async def test_a_model_hands_over_to_other_agents(subagent: object) -> None:
    model = ScriptedModel([calls_tool("meteorologist", name="Ghent"), "Take an umbrella."])
    platform = AgentPlatform([Adviser(subagent), Meteorologist()], models=model)
    process = await platform.run("Adviser", UserInput("What shall I wear in Ghent?"))

    assert process.result_of_type(Advice) == Advice("Take an umbrella.")
    assert [each.agent.name for each in process.children] == ["Meteorologist"]
    assert replies(model.calls[1]) == ['{"text":"Rain in Ghent"}']


def test_an_agent_that_cannot_be_handed_over_to_is_refused_where_it_is_written() -> None:
    for ai in (AgentPlatform().ai, FakeEngine().ai):
        with pytest.raises(DeclarationError, match="since it is a name"):
            ai.with_subagent("Meteorologist")
        (found,) = ai.with_subagent(Meteorologist()).interaction.tools
        assert found.name == "meteorologist"


async def test_a_tool_that_is_made_of_a_function_may_answer_directly() -> None:
    model = ScriptedModel([calls_tool("weather", town="Ghent")])
    lookup = Tool.of(weather, return_direct=True)
    assert await AgentPlatform(models=model).ai.with_tool(lookup).generate_text("How is it?") == "Rain in Ghent"
    assert Tool.of(tool(return_direct=True)(weather)).return_direct
    assert not Tool.of(tool(return_direct=True)(weather), return_direct=False).return_direct


async def test_a_failure_has_its_cause_which_no_model_sees(caplog: pytest.LogCaptureFixture) -> None:
    def pay() -> ToolResult:
        """Pay"""
        return ToolResult.of_error("The bank is closed. Try again tomorrow.", ConnectionError("10.0.0.7 is away"))

    model = ScriptedModel([calls_tool("pay"), "Tomorrow."])
    with caplog.at_level(logging.WARNING):
        await AgentPlatform(models=model).ai.with_tool(pay).generate_text("Pay")

    assert replies(model.calls[1]) == ["The bank is closed. Try again tomorrow."]
    (logged,) = [each for each in caplog.records if each.exc_info]
    assert "The bank is closed" in logged.getMessage()
    assert str((logged.exc_info or ("", ""))[1]) == "10.0.0.7 is away"
    result = await Tool.of(pay).call({})
    assert (result.is_error, type(result.cause)) == (True, ConnectionError)


async def test_a_name_is_read_as_it_is_written() -> None:
    @agent(description="Binds")
    class Binder:
        @achieves_goal(description="Bound")
        @action
        async def bind(self, town: Town, context: OperationContext) -> Weather:
            context["next"] = Town("Bruges")
            assert context["next"] == context.blackboard["next"] == Town("Bruges")
            assert "next" in context.blackboard
            assert "nowhere" not in context.blackboard
            with pytest.raises(UnknownName, match=r"'nxt'.*next"):
                context["nxt"]
            context.blackboard.hide(context["next"])
            with pytest.raises(UnknownName, match="next"):
                context.blackboard["next"]
            return Weather("Bound")

    process = await AgentPlatform([Binder()]).run("Binder", Town("Ghent"))
    assert process.result_of_type(Weather) == Weather("Bound")
    with pytest.raises(TypeError, match="not iterable"):
        list(process.blackboard)  # pyright: ignore[reportArgumentType] - the mistake

    context = Context("mine")
    context["town"] = Town("Ghent")
    assert context["town"] == Town("Ghent")
    with pytest.raises(UnknownName, match="town"):
        context["twon"]


class Vowels:
    """An embedding service of one's own."""

    name, dimensions = "vowels", 5

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return [[float(text.count(vowel)) for vowel in "aeiou"] for text in texts]


async def test_an_embedding_service_is_a_model_of_a_platform() -> None:
    for given in (Vowels(), [Vowels()], [ScriptedModel(["Hello"]), Vowels()]):
        platform = AgentPlatform(models=given)
        assert await platform.ai.embed("banana") == [[3.0, 0.0, 0.0, 0.0, 0.0]]
        assert await platform.ai.with_embedding_service("vowels").embed("o") == [[0.0, 0.0, 0.0, 1.0, 0.0]]
    assert await platform.ai.generate_text("Hi") == "Hello"
    with pytest.raises(TypeError, match="Expected models"):
        AgentPlatform(models=[Vowels])  # pyright: ignore[reportArgumentType] - a class is no model yet
