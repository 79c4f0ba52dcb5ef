"""Contexts and Ais that answer what a test wrote down, for calling one action by itself."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from goalport import (
    ActionContext,
    Ai,
    OperationContext,
    Provided,
    UserInput,
    achieves_goal,
    action,
    agent,
    run_subagent,
)
from goalport.base.errors import DeclarationError, ModelUnavailable
from goalport.base.events import ProgressUpdated
from goalport.models.llm import AssistantMessage, LlmOptions, SystemMessage, ThinkingDelta, UserMessage
from goalport.models.prompts import Persona, Templates
from goalport.runtime.ai import Determination, StreamedObject
from goalport.testing import FakeEngine, FakeOperationContext, SubProcess
from goalport.tools import ToolGroup, tool


@dataclass(frozen=True)
class Dish:
    name: str
    minutes: int = 10


class Menu(BaseModel):
    dishes: list[Dish]


@dataclass
class Pantry:
    taken: list[str] = field(default_factory=list[str])


@tool
def weigh(what: str) -> int:
    """The weight in grams."""
    return len(what)


CHEF = Persona(name="Ada", persona="a chef", voice="dry", objective="feed people")
SOUP = Dish("Soup", 20)


@agent(description="Cooks")
class Cook:
    @action(tool_groups=["scales"])
    async def think_up(self, wish: UserInput, context: OperationContext) -> Dish:
        ai = context.ai.with_llm(temperature=0.9).with_id("dish").with_prompt_contributors(CHEF).with_tools(weigh)
        return await ai.create_object(f"Think up a dish: {wish.content}", Dish)

    @achieves_goal(description="Serve")
    @action
    async def serve(self, dish: Dish, ai: Ai, pantry: Annotated[Pantry, Provided]) -> Menu:
        pantry.taken.append(dish.name)
        await ai.generate_text(f"How is {dish.name} served?")
        return Menu(dishes=[dish])


async def all_of(pieces: AsyncGenerator[Any]) -> list[Any]:
    async with aclosing(pieces):
        return [piece async for piece in pieces]


async def test_an_action_is_called_by_itself_and_what_it_asked_is_seen() -> None:
    context = FakeOperationContext()
    context.expect_response(SOUP)

    assert await Cook().think_up(UserInput("with beans"), context) is SOUP

    (asked,) = context.llm_invocations
    assert (asked.prompt, asked.verb, asked.output) == ("Think up a dish: with beans", "create_object", Dish)
    assert asked.messages == (UserMessage("Think up a dish: with beans"),)
    assert asked.interaction.llm == LlmOptions(temperature=0.9)
    assert asked.interaction.id == "dish"
    assert asked.interaction.contributors == (CHEF,)
    assert [each.name for each in asked.interaction.tools] == ["weigh"]
    assert asked.interaction.tool_groups == ()


async def test_the_groups_of_the_context_are_its_tools_and_those_of_its_ai() -> None:
    context = FakeOperationContext(tool_groups=[ToolGroup.of("scales", weigh)])
    context.expect_response(SOUP)
    await Cook().think_up(UserInput("any"), context)

    assert context.llm_invocations[0].interaction.tool_groups == ("scales",)
    assert (await context.tool("weigh").call({"what": "salt"})).text == "4"


async def test_every_verb_is_answered_by_what_suits_it() -> None:
    context = FakeOperationContext()
    context.expect_response("Hot", None, SOUP, AssistantMessage("Cold"), "Warm", True, [SOUP], "yes", [[0.5, 1]])
    ai = context.ai

    assert await ai.generate_text("How?") == "Hot"
    assert await ai.create_object_if_possible("Which?", Dish) is None
    assert await ai.create_object_if_possible("Which?", Dish) is SOUP
    assert await ai.respond([UserMessage("Hi"), AssistantMessage("Ho"), UserMessage("How?")]) == AssistantMessage(
        "Cold"
    )
    assert await ai.respond_with_system_prompt([SystemMessage("x")], "Be brief") == AssistantMessage("Warm")
    assert await ai.evaluate_condition("it is hot", "Soup boils.")
    assert await ai.creating(list[Dish]).with_example("One", [SOUP]).from_prompt("Some") == [SOUP]
    assert await ai.create_object("Yes?", Literal["yes", "no"]) == "yes"
    assert await ai.with_embedding_service("small").embed("salt") == [[0.5, 1]]
    assert await ai.embed() == []

    verbs = [each.verb for each in context.llm_invocations]
    assert verbs[3:] == [
        "respond",
        "respond_with_system_prompt",
        "evaluate_condition",
        "creating",
        "create_object",
        "embed",
    ]
    assert [each.prompt for each in context.llm_invocations[2:5]] == ["Which?", "How?", ""]
    assert context.llm_invocations[4].interaction.system_prompt == "Be brief"
    assert (context.llm_invocations[-1].prompt, context.llm_invocations[-1].interaction.embedding_service) == (
        "salt",
        "small",
    )
    context.verify_responses_used()


async def test_a_condition_may_be_unsure() -> None:
    unsure = Determination(result=True, confidence=0.5, explanation="It steams.")
    ai = FakeEngine(unsure, unsure, False).ai
    assert not await ai.evaluate_condition("it is hot", "Soup")
    assert await ai.evaluate_condition("it is hot", "Soup", 0.4)
    assert not await ai.evaluate_condition("it is hot", "Soup")


async def test_text_objects_and_thoughts_stream_as_they_were_written_down() -> None:
    engine = FakeEngine()
    engine.expect_stream("Once ", ThinkingDelta("hm"), "more")
    engine.expect_stream(ThinkingDelta("First a soup"), SOUP, ThinkingDelta("then"), Dish("Cake"))
    engine.expect_response(SOUP)
    streaming = engine.ai.streaming()

    assert await all_of(streaming.text("Tell")) == ["Once ", "more"]
    assert await all_of(streaming.objects_with_thinking("Cook", Dish)) == [
        ThinkingDelta("First a soup"),
        StreamedObject(SOUP),
        ThinkingDelta("then"),
        StreamedObject(Dish("Cake")),
    ]
    assert await all_of(streaming.objects("Cook", Dish)) == [SOUP]
    assert [each.prompt for each in engine.llm_invocations] == ["Tell", "Cook", "Cook"]


async def test_failures_are_raised_also_in_the_middle_of_a_stream() -> None:
    engine = FakeEngine(ModelUnavailable("busy"))
    engine.expect_stream(SOUP, ModelUnavailable("gone"))
    with pytest.raises(ModelUnavailable, match="busy"):
        await engine.ai.generate_text("Hi")
    pieces = engine.ai.streaming().objects("Cook", Dish)
    assert await anext(pieces) == SOUP
    with pytest.raises(ModelUnavailable, match="gone"):
        await anext(pieces)


async def test_too_few_responses_say_what_was_asked() -> None:
    context = FakeOperationContext()
    with pytest.raises(AssertionError, match=r"create_object of Dish .*'Think up.*temperature=0.9.*none left"):
        await Cook().think_up(UserInput("more"), context)


@pytest.mark.parametrize(
    ("response", "kind", "complaint"),
    [
        (Menu(dishes=[]), Dish, "a Dish to answer create_object of Dish .* is of type Menu"),
        ("soup", Dish, "a Dish to answer .* is of type str: 'soup'"),
        ({"name": "Soup"}, Dish, "a Dish to answer .* is of type dict"),
        (None, Dish, "a Dish to answer .* is of type NoneType"),
        ("3", int, "an int to answer .* is of type str"),
        ([SOUP, "cake"], list[Dish], r"a list\[Dish\] to answer"),
    ],
)
async def test_a_response_of_another_type_is_refused(response: object, kind: type[Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        await FakeEngine(response).ai.create_object("Go", kind)


async def test_text_is_text_and_each_text_has_one_vector_and_a_stream_is_for_streaming() -> None:
    engine = FakeEngine(SOUP, [[1.0]])
    engine.expect_stream("a", "b")
    with pytest.raises(AssertionError, match=r"a text to answer generate_text .* is of type Dish"):
        await engine.ai.generate_text("Go")
    with pytest.raises(AssertionError, match=r"2 vectors .* but 1 are next"):
        await engine.ai.embed("a", "b")
    with pytest.raises(AssertionError, match=r"pieces=\('a', 'b'\)"):
        await engine.ai.generate_text("Go")


async def test_a_type_that_no_model_could_give_is_refused_as_by_a_real_one() -> None:
    class Opaque: ...

    with pytest.raises(DeclarationError, match="Opaque"):
        await FakeEngine(Opaque()).ai.create_object("Go", Opaque)


def test_responses_that_nobody_asked_for_are_found() -> None:
    context = FakeOperationContext()
    context.expect_response(SOUP)
    context.expect_stream("a")
    assert context.engine.unused_responses == (SOUP, ("a",))
    with pytest.raises(AssertionError, match=r"nobody asked for these:\n- Dish\(name='Soup', minutes=20\)\n- \('a',\)"):
        context.verify_responses_used()


async def test_templates_are_rendered(tmp_path: Any) -> None:
    (tmp_path / "dish.jinja").write_text("Cook {{ what }}")
    context = FakeOperationContext(templates=Templates(tmp_path))
    context.expect_response(SOUP)
    await context.ai.with_template("dish").create_object(Dish, {"what": "beans"})
    assert context.llm_invocations[0].prompt == "Cook beans"


async def test_an_action_is_performed_with_what_is_on_the_blackboard_and_services() -> None:
    pantry = Pantry()
    context = FakeOperationContext(SOUP, services=[pantry])
    context.expect_response("Hot.")
    assert await context.perform(Cook().serve) == Menu(dishes=[SOUP])
    assert pantry.taken == ["Soup"]
    assert context.llm_invocations[0].prompt == "How is Soup served?"

    with pytest.raises(AssertionError, match="Expected a Dish on the blackboard"):
        await FakeOperationContext(services=[pantry]).perform(Cook().serve)
    with pytest.raises(AssertionError, match="an action or a condition of Cook"):
        await context.perform(Cook().__str__)


async def test_what_an_action_does_to_its_process_is_seen() -> None:
    async def work(context: ActionContext) -> list[int]:
        context.progress("half")
        context += Dish("Cake")
        context["best"] = SOUP
        context.spend(cost=0.5)
        return await context.parallel_map([1, 2], lambda number: number * 2)

    context = FakeOperationContext(Dish("Bread"))
    assert await work(context) == [2, 4]
    assert [each.message for each in context.events if isinstance(each, ProgressUpdated)] == ["half"]
    assert context.blackboard.get("best", Dish) == SOUP
    assert [each.name for each in context.blackboard.objects if isinstance(each, Dish)] == ["Bread", "Cake", "Soup"]
    assert context.process.usage.cost == 0.5
    assert not context.cancelled


async def test_sub_processes_are_answered_and_not_run() -> None:
    context = FakeOperationContext()
    context.expect_response(SOUP, SOUP, "no dish")
    assert await context.as_sub_process(Dish, "Cook", UserInput("beans")) is SOUP
    with context.active():
        assert await run_subagent(Cook, Dish) is SOUP
    assert [(each.agent, each.kind) for each in context.sub_processes] == [("Cook", Dish), (Cook, Dish)]
    assert isinstance(context.sub_processes[0], SubProcess)
    with pytest.raises(AssertionError, match=r"Expected a Dish to answer .* 'no dish'"):
        await context.as_sub_process(Dish, "Cook")
    with pytest.raises(AssertionError, match="none left"):
        await context.as_sub_process(Dish, "Cook")


@pytest.fixture
def kitchen() -> FakeOperationContext:
    """Made by a plain fixture, where no event loop runs."""
    return FakeOperationContext(SOUP)


def test_a_context_can_be_made_where_no_loop_runs(kitchen: FakeOperationContext) -> None:
    kitchen.progress("begun")
    assert kitchen.last(Dish) == SOUP
    assert ProgressUpdated in map(type, kitchen.events)


async def test_a_context_of_a_plain_fixture_works_in_a_test_that_is_async(kitchen: FakeOperationContext) -> None:
    def name(dish: Dish) -> str:
        kitchen.progress(dish.name)
        return dish.name

    assert await kitchen.parallel_map([SOUP, Dish("Cake")], name) == ["Soup", "Cake"]
    told = [each.message for each in kitchen.events if isinstance(each, ProgressUpdated)]
    assert sorted(told) == ["Cake", "Soup"]
    with pytest.raises(AssertionError, match="no process to be started"):
        kitchen.process.platform.start_child(kitchen.process, "FakeAgent.cook", "Cook", Dish, ())
