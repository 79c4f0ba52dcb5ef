"""Another model where one fails at run time, and answers that were cut off."""

import logging
from dataclasses import dataclass, field

import pytest

from goalport.base.errors import InvalidModelOutput, ModelError, ModelNotReady, ModelRefused, ModelUnavailable
from goalport.base.events import ModelReplied, ProgressUpdated
from goalport.models.llm import (
    AssistantMessage,
    LlmOptions,
    ModelCall,
    ModelCard,
    ModelReply,
    Models,
    TokenUsage,
    ToolCall,
    UserMessage,
)
from goalport.runtime.ai import Ai, LlmEngine, LlmOperations
from goalport.testing import ScriptedModel
from goalport.tools import ToolGroupResolver
from tests.rooms.ai.scripted import Watched, ai_with, scripted

USED = TokenUsage(input_tokens=1, output_tokens=1)


def first(error: ModelError) -> ScriptedModel:
    """A model that fails."""

    def fails(_: ModelCall) -> str:
        raise error

    return ScriptedModel([fails] * 9, card=ModelCard(name="first", provider="test"))


def second(*replies: object) -> ScriptedModel:
    return ScriptedModel(replies, card=ModelCard(name="second", provider="test"), usage=USED)


def ai_of(operation: Watched, *models: ScriptedModel) -> Ai:
    catalogue = Models(models=models, environment={})
    return Ai(LlmEngine(catalogue, lambda: ToolGroupResolver([]), LlmOperations(), operation))


@pytest.mark.parametrize(
    "error", [ModelUnavailable("Too busy."), ModelRefused("Wrong key."), ModelNotReady("No credentials.")]
)
async def test_when_a_model_fails_the_next_is_asked_and_it_is_told(error: ModelError) -> None:
    operation, other = Watched(), second("Hello", "Hello again")
    ai = ai_of(operation, first(error), other).with_llm("first", temperature=0.5).with_fallback("second")
    assert await ai.generate_text("Hi") == "Hello"
    assert [name for name, _ in operation.spent] == ["second"]
    assert other.calls[0].options.temperature == 0.5
    (told,) = operation.told(ProgressUpdated)
    assert told.message == f"{error} The model second is asked instead."
    assert [piece async for piece in ai.streaming().text("Hi")] == ["Hello ", "again"]


async def test_a_model_that_failed_is_not_asked_again_after_an_object_was_corrected() -> None:
    def fails(_: ModelCall) -> str:
        raise ModelUnavailable("Too busy.")

    def look_up() -> str:
        """Look up."""
        return "Found"

    said = AssistantMessage('{"a": 1}\n{"b": "two"}\n', (ToolCall("1", "look_up", "{}"),))
    reply = ModelReply(message=said, usage=USED)
    broken = ScriptedModel([reply, fails], card=ModelCard(name="first", provider="test"))
    operation, other = Watched(), second('{"b": 2}', '{"c": 3}')
    ai = ai_of(operation, broken, other).with_llm("first").with_fallback("second").with_tools(look_up)
    numbers = ai.streaming().objects("Numbers", dict[str, int])
    assert [each async for each in numbers] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert len(broken.calls) == 2
    assert [name for name, _ in operation.spent] == ["second", "first", "second"]
    assert [bool(each.tools) for each in (*broken.calls, *other.calls)] == [True, False, False, True]


async def test_fallbacks_are_asked_in_order_and_the_last_failure_is_told() -> None:
    ai = ai_of(Watched(), first(ModelUnavailable("Too busy.")), second())
    with pytest.raises(ModelUnavailable, match="Too busy"):
        await ai.with_llm("first").with_fallback("nonsense").generate_text("Hi")
    options = LlmOptions(model="first", temperature=1)
    with pytest.raises(ModelUnavailable, match="Too busy"):
        await ai.with_llm("first").with_fallback("first", options).generate_text("Hi")


async def test_a_model_that_is_not_ready_is_passed_over_where_there_is_a_fallback() -> None:
    ai = ai_of(Watched(), second("Hello")).with_llm("gpt-4.1")
    assert await ai.with_fallback("second").generate_text("Hi") == "Hello"
    with pytest.raises(ModelNotReady, match="OPENAI_API_KEY"):
        await ai.with_fallback("gpt-4.1-mini").generate_text("Hi")


async def test_a_reply_that_is_of_no_use_is_no_reason_to_ask_another_model() -> None:
    other = second("Hello")
    broken = ScriptedModel(["{"] * 10, card=ModelCard(name="first", provider="test"))
    ai = ai_of(Watched(), broken, other).with_llm("first").with_fallback("second")
    with pytest.raises(InvalidModelOutput):
        await ai.create_object("One", list[int])
    assert not other.calls


def cut(*calls: ToolCall, content: str = "") -> ModelReply:
    return ModelReply(message=AssistantMessage(content, calls), finish="length")


@pytest.mark.parametrize("written", ['{"subject": "Ro', "", "{}"])
async def test_arguments_that_were_cut_off_are_told_at_once(written: str) -> None:
    def look_up(subject: str) -> str:
        """Look up."""
        raise AssertionError(subject)

    ai, model = scripted(*[cut(ToolCall("1", "look_up", written))] * 3)
    with pytest.raises(InvalidModelOutput, match=r"call of look_up, but: it was cut off .*max_tokens"):
        await ai.with_tools(look_up).generate_text("Look")
    assert len(model.calls) == 1


@dataclass
class Node:
    name: str
    children: list["Node"] = field(default_factory=list["Node"])


async def test_an_object_inside_of_one_that_was_cut_off_is_not_taken_for_it() -> None:
    ai, model = scripted(cut(content='{"name": "root", "children": [{"name": "a"}, {"na'))
    with pytest.raises(InvalidModelOutput, match=r"give a Node, but: it was cut off .*max_tokens"):
        await ai.create_object("A tree", Node)
    assert len(model.calls) == 1


async def test_a_text_that_was_cut_off_says_so(caplog: pytest.LogCaptureFixture) -> None:
    operation = Watched()
    ai = ai_with(ScriptedModel([cut(content="Once upon"), "All of it", cut(content="Once")]), operation=operation)
    with caplog.at_level(logging.WARNING, "goalport.runtime.ai"):
        answer = await ai.respond([UserMessage("A story")])
        assert (answer.content, answer.finish) == ("Once upon", "length")
        assert (await ai.respond([UserMessage("A story")])).finish == "stop"
        assert await ai.generate_text("A story") == "Once"
    assert [each.finish for each in operation.told(ModelReplied)] == ["length", "stop", "length"]
    assert [each.message.count("cut off by max_tokens") for each in caplog.records] == [1, 1]
