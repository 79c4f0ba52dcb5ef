"""Models that answer by rules, with everything above a model for real."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, Field

from goalport import AgentPlatform, Ai, LlmOptions, UserInput, achieves_goal, action, agent
from goalport.base.errors import InvalidModelOutput, ModelUnavailable, ProcessEnded
from goalport.models.llm import AssistantMessage, ModelCall, ThinkingDelta, UserMessage
from goalport.runtime.ai import Determination, StreamedObject
from goalport.testing import ScriptedModel, ScriptedModels, UnexpectedPrompt, calls_tool, contains, matches, streams
from goalport.tools import tool


@dataclass(frozen=True)
class Dish:
    name: str
    minutes: int = 10


class Rating(BaseModel):
    stars: int = Field(le=5)


class Course(Enum):
    MAIN = "main"


SOUP, CAKE = Dish("Soup", 20), Dish("Cake", 60)


@pytest.fixture
def models() -> ScriptedModels:
    return ScriptedModels()


@pytest.fixture
def ai(models: ScriptedModels) -> Ai:
    return AgentPlatform(models=models).ai


async def all_of(pieces: AsyncGenerator[Any]) -> list[Any]:
    async with aclosing(pieces):
        return [piece async for piece in pieces]


async def test_prompts_are_told_apart_by_text_pattern_function_type_and_settings(
    models: ScriptedModels, ai: Ai
) -> None:
    models.when_create_object(contains("beans", "salt"), Dish).then_return(SOUP)
    models.when_create_object(contains("beans"), Rating).then_return(Rating(stars=3))
    models.when_generate_text("Beans?").then_return("Yes")
    models.when_generate_text(matches(r"^Cook\b.*now$")).then_return("Soon")
    models.when_generate_text(str.isupper).then_return("Loud")
    models.when_generate_text(str.isupper, lambda asked: asked.llm.temperature == 0).then_return("loud")

    assert await ai.create_object("salt and beans", Dish) == SOUP
    assert await ai.create_object("salt and beans", Rating) == Rating(stars=3)
    assert await ai.generate_text("Beans?") == "Yes"
    assert await ai.generate_text("Cook\nit now") == "Soon"
    assert await ai.generate_text("COOK") == "Loud"
    assert await ai.with_llm(temperature=0).generate_text("COOK") == "loud"


async def test_every_type_and_every_verb_can_be_answered(models: ScriptedModels, ai: Ai) -> None:
    models.when_create_object(contains(""), list[Dish]).then_return([SOUP, CAKE])
    models.when_create_object(contains(""), Course).then_return(Course.MAIN)
    models.when_create_object(contains(""), int | str).then_return(3)
    models.when_create_object(contains(""), Dish).then_return(None, SOUP)
    models.when_evaluate_condition(contains("it is hot", "steam")).then_return(
        True, Determination(result=True, confidence=0.1, explanation="?"), False
    )
    models.when_embed("salt").then_return([0.5, 1.0])
    models.when_embed(contains("sugar")).then_return([2.0]).then_raise(ModelUnavailable("busy"))

    assert await ai.create_object("Go", list[Dish]) == [SOUP, CAKE]
    assert await ai.create_object("Go", Course) is Course.MAIN
    assert await ai.create_object("Go", int | str) == 3
    assert await ai.create_object_if_possible("Go", Dish) is None
    assert await ai.create_object_if_possible("Go", Dish) == SOUP
    judged = [await ai.evaluate_condition("it is hot", "It steams.") for _ in range(3)]
    assert judged == [True, False, False]
    assert await ai.embed("salt", "brown sugar") == [[0.5, 1.0], [2.0]]
    with pytest.raises(ModelUnavailable):
        await ai.embed("sugar")
    assert (await ai.creating(Dish).from_messages([UserMessage("x")])).minutes == 20
    models.verify_evaluate_condition_matching(contains("hot"), times=3)
    models.verify_embed_matching(contains("sugar"), times=2)


async def test_answers_come_in_order_and_the_last_is_repeated(models: ScriptedModels, ai: Ai) -> None:
    models.when_generate_text("Hi").then_return("one", "two").then_raise(ModelUnavailable("busy")).then_return("last")
    assert [await ai.generate_text("Hi"), await ai.generate_text("Hi")] == ["one", "two"]
    with pytest.raises(ModelUnavailable, match="busy"):
        await ai.generate_text("Hi")
    assert [await ai.generate_text("Hi"), await ai.generate_text("Hi")] == ["last", "last"]


async def test_tools_are_called_for_real_and_all_turns_are_one_interaction(models: ScriptedModels, ai: Ai) -> None:
    weighed: list[str] = []

    @tool
    def weigh(what: str) -> int:
        """The weight in grams."""
        weighed.append(what)
        return 250

    models.when_generate_text(contains("How heavy")).then_reply(
        calls_tool("weigh", what="flour"), lambda call: f"It is {call.messages[-1].content} grams."
    )
    assert await ai.with_tools(weigh).generate_text("How heavy is it?") == "It is 250 grams."
    assert weighed == ["flour"]
    assert [each.name for each in models.calls[0].tools] == ["weigh"]
    assert (len(models.calls), len(models.llm_invocations)) == (2, 1)
    models.verify_generate_text_matching(contains("heavy"), lambda asked: [t.name for t in asked.tools] == ["weigh"])
    models.verify_no_more_interactions()


async def test_what_breaks_rules_is_repaired_for_real(models: ScriptedModels, ai: Ai) -> None:
    models.when_create_object(contains("Rate"), Rating).then_reply({"stars": 9}).then_return(Rating(stars=5))
    assert await ai.create_object("Rate it", Rating) == Rating(stars=5)
    assert "at most 5" in models.calls[1].messages[-1].content
    models.when_create_object(contains("Rate"), Rating).then_reply({"stars": 9})
    with pytest.raises(InvalidModelOutput):
        await ai.create_object("Rate it", Rating)


async def test_streams_come_in_the_pieces_that_were_written_down(models: ScriptedModels, ai: Ai) -> None:
    models.when_generate_text("Tell").then_stream(ThinkingDelta("hm"), "On", "ce ").then_return("a b")
    models.when_create_object("Cook", Dish).then_stream(SOUP, ThinkingDelta("more?"), CAKE)
    models.when_create_object("Courses", Course).then_stream(Course.MAIN, Course.MAIN)
    models.when_create_object("Break", Dish).then_stream(SOUP, ModelUnavailable("gone"))
    streaming = ai.streaming()

    assert await all_of(streaming.text("Tell")) == ["On", "ce "]
    assert await all_of(streaming.text("Tell")) == ["a ", "b"]
    assert await all_of(streaming.objects_with_thinking("Cook", Dish)) == [
        StreamedObject(SOUP),
        ThinkingDelta("more?"),
        StreamedObject(CAKE),
    ]
    assert await all_of(streaming.objects("Courses", Course)) == [Course.MAIN, Course.MAIN]
    pieces = streaming.objects("Break", Dish)
    assert await anext(pieces) == SOUP
    with pytest.raises(ModelUnavailable, match="gone"):
        await anext(pieces)


async def test_a_scripted_model_streams_pieces_too_and_gives_them_whole_to_others() -> None:
    written = streams(ThinkingDelta("hm"), "Once ", SOUP)
    broken = streams("Once", ModelUnavailable("gone"))
    model = ScriptedModel([written, written, broken, AssistantMessage("a b", thinking="so so")])
    ai = AgentPlatform(models=model).ai

    assert await all_of(ai.streaming().text("Go")) == ["Once ", '{"name":"Soup","minutes":20}\n']
    assert await ai.generate_text("Go") == 'Once {"name":"Soup","minutes":20}\n'
    with pytest.raises(ModelUnavailable, match="gone"):
        await ai.generate_text("Go")
    assert await all_of(ai.streaming().text("Go")) == ["a ", "b"]
    assert model.unused == 0


async def test_what_has_no_rule_shows_the_prompt_and_the_rules(models: ScriptedModels, ai: Ai) -> None:
    models.when_create_object(contains("soup"), Dish).then_return(SOUP)
    models.when_generate_text(str.isupper)
    with pytest.raises(UnexpectedPrompt) as caught:
        await ai.with_llm("gpt-4.1", temperature=0.5).with_tool_groups("web").create_object("Bake a cake", Dish)
    assert str(caught.value) == (
        "A model was asked for what no rule is for:\n"
        "- create_object of Dish with the prompt 'Bake a cake' "
        "(model='gpt-4.1', temperature=0.5, tool_groups=('web',))\n"
        "There are rules for:\n"
        "- a Dish, with a prompt that contains 'soup'\n"
        "- text, with a prompt for which isupper says yes (no answer yet: add `.then_return(…)`)"
    )


@pytest.mark.parametrize("wrong", [CAKE.__dict__, "cake", Rating(stars=1), 3])
def test_an_answer_of_another_type_is_refused_where_it_is_written(models: ScriptedModels, wrong: Any) -> None:
    with pytest.raises(AssertionError, match="Expected an answer for a Dish, with the prompt 'Cook', but came"):
        models.when_create_object("Cook", Dish).then_return(wrong)
    with pytest.raises(AssertionError, match="but came"):
        models.when_create_object("Cook", Dish).then_stream(wrong)


@dataclass(frozen=True)
class Stew(Dish):
    meat: str = "lamb"


class Renamed(BaseModel):
    stars: int = Field(validation_alias="starsIn", serialization_alias="starsOut")


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (Dish, Stew("Stew"), r"read as Dish\(name='Stew', minutes=10\)"),
        (Renamed, Renamed.model_validate({"starsIn": 3}), "cannot be read"),
        (bytes, b"\xff", "cannot be written"),
    ],
)
def test_an_answer_that_json_does_not_carry_is_refused_where_it_is_written(
    models: ScriptedModels, kind: type[Any], value: Any, read: str
) -> None:
    with pytest.raises(AssertionError, match=f"{read}.*then_reply"):
        models.when_create_object("Cook", kind).then_return(value)


async def test_what_json_does_not_carry_can_be_said_in_json(models: ScriptedModels, ai: Ai) -> None:
    models.when_create_object("Cook", Renamed).then_reply({"starsIn": 3})
    assert (await ai.create_object("Cook", Renamed)).stars == 3


async def test_a_model_may_be_asked_without_an_ai(models: ScriptedModels) -> None:
    models.when_generate_text("Hi").then_return("Ho")
    reply = await models.choose(LlmOptions(model="some:model")).reply(ModelCall(messages=(UserMessage("Hi"),)))
    assert (reply.message.content, reply.model, reply.usage.cost) == ("Ho", "model", 0.001)
    models.verify_generate_text_matching("Hi")


def test_texts_and_vectors_must_be_such(models: ScriptedModels) -> None:
    wrong: Any = SOUP
    with pytest.raises(AssertionError, match="an answer for text"):
        models.when_generate_text("Cook").then_return(wrong)
    with pytest.raises(AssertionError, match="an answer for text"):
        models.when_generate_text("Cook").then_return(None)
    with pytest.raises(AssertionError, match="an answer for a vector"):
        models.when_embed("Cook").then_return(wrong)


@agent(description="Cooks")
class Cook:
    @action
    async def think_up(self, wish: UserInput, ai: Ai) -> Dish:
        return await ai.with_llm(role="best", temperature=0.9).create_object(f"Think up: {wish.content}", Dish)

    @achieves_goal(description="Judge")
    async def judge(self, dish: Dish, ai: Ai) -> Rating:
        text = await ai.with_llm("openai:gpt-4.1").generate_text(f"Rate {dish.name}")
        return Rating(stars=len(text))


async def test_a_platform_asks_them_whatever_model_its_actions_name(models: ScriptedModels) -> None:
    models.when_create_object(contains("Think up"), Dish).then_return(SOUP)
    models.when_generate_text(contains("Rate Soup")).then_return("****")
    process = await AgentPlatform([Cook], models=models).run("Cook", UserInput("beans"))

    assert process.result_of_type(Rating) == Rating(stars=4)
    assert set(process.ledger.by_model) == {"best", "gpt-4.1"}
    assert process.usage.cost == pytest.approx(0.002)
    models.verify_create_object_matching(contains("beans"), Dish, lambda asked: asked.llm.temperature == 0.9)
    with pytest.raises(AssertionError, match=r"nothing else .*\n- generate_text with the prompt 'Rate Soup'"):
        models.verify_no_more_interactions()
    models.verify_generate_text_matching(contains("Rate"), lambda asked: not asked.tool_groups)
    models.verify_no_more_interactions()


async def test_an_agent_that_asks_what_nobody_foresaw_fails_with_the_prompt(models: ScriptedModels) -> None:
    process = await AgentPlatform([Cook], models=models).run("Cook", UserInput("beans"))
    with pytest.raises(ProcessEnded, match=r"no rule is for.*Think up: beans"):
        process.result_of_type(Rating)
    with pytest.raises(UnexpectedPrompt, match="Think up: beans"):
        models.verify_expected()


async def test_a_verification_that_fails_shows_what_was_asked(models: ScriptedModels, ai: Ai) -> None:
    with pytest.raises(AssertionError, match=r"asked for once, but it was never. What was asked for:\n- nothing"):
        models.verify_generate_text_matching("Hi")
    models.when_generate_text(contains("")).then_return("x")
    await ai.generate_text("Hello")
    await ai.generate_text("Hello")
    with pytest.raises(AssertionError, match=r"Expected text, with the prompt 'Hi', .*\n- generate_text .* 'Hello'"):
        models.verify_generate_text_matching("Hi")
    with pytest.raises(AssertionError, match="a Dish, with a prompt that matches 'H' and settings that are looked at"):
        models.verify_create_object_matching(matches("H"), Dish, lambda _: True)
    models.verify_generate_text_matching("Hello", times=2)


async def test_every_way_to_choose_a_model_finds_one(models: ScriptedModels, ai: Ai) -> None:
    assert models.choose(LlmOptions(first_of=("a", "b"))).card.name == "a"
    assert models.choose(LlmOptions(auto=True)).card.name == "scripted"
    assert models.choose(LlmOptions(model="anthropic:x")).card.provider == "anthropic"
    assert models.why_not_ready("whatever") == ""
    assert models.problems() == ()
