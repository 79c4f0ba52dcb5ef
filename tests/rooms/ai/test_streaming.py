"""Streams: text as it comes, objects as soon as they are whole, and what becomes of those that are wrong."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from anyio import fail_after
from pydantic import BaseModel, Field

from goalport.base.errors import InvalidModelOutput
from goalport.base.events import ModelCalled, ModelReplied, ToolCalled, ToolReturned
from goalport.models.llm import AssistantMessage, ModelCall, ModelReply, TextDelta, ThinkingDelta
from goalport.runtime.ai import LlmOperations, StreamedObject
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import tool
from tests.rooms.ai.scripted import Watched, ai_with
from tests.spans import recorded_spans


class Month(BaseModel):
    name: str
    degrees: Annotated[int, Field(gt=-50, lt=60)]


JULY, AUGUST = Month(name="July {hot}", degrees=33), Month(name='August "}', degrees=34)
LINES = f"{JULY.model_dump_json()}\n{AUGUST.model_dump_json()}\n"


@tool
def thermometer(month: str) -> int:
    """The temperature."""
    return 33


@tool(return_direct=True)
def hottest() -> Month:
    """The hottest month."""
    return JULY


async def _all(pieces: AsyncGenerator[Any]) -> list[Any]:
    with fail_after(60):
        async with aclosing(pieces):
            return [piece async for piece in pieces]


async def test_text_comes_piece_by_piece() -> None:
    ai = ai_with(ScriptedModel(["Once upon a time"]))
    assert await _all(ai.streaming().text("Tell")) == ["Once ", "upon ", "a ", "time"]


async def test_objects_come_one_by_one_each_as_soon_as_it_is_whole() -> None:
    written: list[str] = []

    class Slow(ScriptedModel):
        async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
            for char in LINES:
                written.append(char)
                yield TextDelta(char)
            yield ModelReply(message=AssistantMessage(LINES))

    objects = ai_with(Slow()).streaming().objects("The hottest months", Month)
    async with aclosing(objects):
        assert await anext(objects) == JULY
        assert "".join(written) == JULY.model_dump_json()
        assert await anext(objects) == AUGUST
        assert [each async for each in objects] == []


async def test_a_model_is_asked_for_lines_of_json_with_the_schema_and_its_rules() -> None:
    model = ScriptedModel([LINES])
    await _all(ai_with(model).streaming().objects("The hottest months", Month))
    system = model.calls[0].messages[0]
    assert "JSON Lines" in system.content
    assert '"exclusiveMaximum": 60' in system.content
    assert model.calls[0].messages[-1].content == "The hottest months"


@pytest.mark.parametrize(
    "written",
    [
        LINES,
        f"Here they are:\n```json\n{LINES}```\nEnjoy!",
        f"[{JULY.model_dump_json(indent=2)},\n{AUGUST.model_dump_json()}]",
        f'{{"result": [{JULY.model_dump_json()}, {AUGUST.model_dump_json()}]}}'.removeprefix('{"result": '),
        f"<think>Is it {{hot}}?\n</think>{LINES}",
        f"\n\n<thinking>\n{LINES}</thinking>\n{LINES.strip()}",
    ],
)
async def test_what_a_model_writes_around_its_objects_does_no_harm(written: str) -> None:
    ai = ai_with(ScriptedModel([written]))
    assert await _all(ai.streaming().objects("The hottest months", Month)) == [JULY, AUGUST]


@pytest.mark.parametrize(
    ("kind", "written", "values"),
    [
        (int, "1\n2\n\n3", [1, 2, 3]),
        (str, '"a b"\nplain words\n', ["a b", "plain words"]),
        (Literal["x", "y"], "```\nx\ny\n```", ["x", "y"]),
        (list[int], '[1, 2]\n{"result": [3]}\n', [[1, 2], [3]]),
        (Month | int, f"5\n{JULY.model_dump_json()}", [5, JULY]),
    ],
)
async def test_values_of_any_type_are_streamed(kind: Any, written: str, values: list[object]) -> None:
    assert await _all(ai_with(ScriptedModel([written])).streaming().objects("Go", kind)) == values


@pytest.mark.parametrize("written", ["", " \n", "[]"])
async def test_a_model_may_have_nothing_to_give(written: str) -> None:
    assert await _all(ai_with(ScriptedModel([written])).streaming().objects("Go", Month)) == []


async def test_thoughts_come_between_the_objects_for_who_wants_them() -> None:
    reply = AssistantMessage(JULY.model_dump_json(), thinking="It is hot.")
    pieces = await _all(ai_with(ScriptedModel([reply])).streaming().objects_with_thinking("Go", Month))
    assert pieces == [ThinkingDelta("It "), ThinkingDelta("is "), ThinkingDelta("hot."), StreamedObject(JULY)]
    assert await _all(ai_with(ScriptedModel([reply])).streaming().objects("Go", Month)) == [JULY]


async def test_an_object_that_breaks_the_rules_is_asked_for_once_more_by_itself() -> None:
    model = ScriptedModel(['{"name": "July", "degrees": 330}\n' + AUGUST.model_dump_json(), JULY])
    assert await _all(ai_with(model).streaming().objects("Go", Month)) == [JULY, AUGUST]
    said = model.calls[1].messages
    assert said[-2].content == '{"name": "July", "degrees": 330}'
    assert "degrees" in said[-1].content
    assert "60" in said[-1].content
    assert model.calls[1].output is not None


async def test_an_object_that_stays_wrong_ends_the_stream_after_those_before_it() -> None:
    model = ScriptedModel([JULY.model_dump_json() + '{"name": "x"}', '{"name": "y"}'])
    objects = ai_with(model).streaming().objects("Go", Month)
    async with aclosing(objects):
        assert await anext(objects) == JULY
        with pytest.raises(InvalidModelOutput, match="Expected the model to give a Month") as caught:
            await anext(objects)
    assert caught.value.value == '{"name": "y"}'


async def test_an_object_that_is_no_json_is_asked_for_once_more_too() -> None:
    model = ScriptedModel(['{"name": July}', JULY])
    assert await _all(ai_with(model).streaming().objects("Go", Month)) == [JULY]


async def test_a_reply_without_objects_is_asked_for_again_and_given_up_in_the_end() -> None:
    settings = LlmOperations(data_binding_max_attempts=3, data_binding_fixed_backoff_millis=0)
    again = ScriptedModel(["I would rather not", "No", LINES])
    assert await _all(ai_with(again, settings=settings).streaming().objects("Go", Month)) == [JULY, AUGUST]
    never = ScriptedModel(["I would rather not"] * 3)
    with pytest.raises(InvalidModelOutput, match=r"it holds no whole object. Its last answer was 'I would rather not'"):
        await _all(ai_with(never, settings=settings).streaming().objects("Go", Month))


async def test_an_object_that_was_cut_off_is_an_error() -> None:
    objects = ai_with(ScriptedModel([LINES + '{"name": "Sep'])).streaming().objects("Go", Month)
    async with aclosing(objects):
        assert [await anext(objects), await anext(objects)] == [JULY, AUGUST]
        with pytest.raises(InvalidModelOutput, match="cut off before its end"):
            await anext(objects)


async def test_an_object_that_was_cut_off_is_asked_for_again_while_nothing_was_given() -> None:
    settings = LlmOperations(data_binding_max_attempts=2, data_binding_fixed_backoff_millis=0)
    model = ScriptedModel(['{"name": "Sep', LINES])
    assert await _all(ai_with(model, settings=settings).streaming().objects("Go", Month)) == [JULY, AUGUST]
    full = ModelReply(message=AssistantMessage('{"name": "Sep'), finish="length")
    with pytest.raises(InvalidModelOutput, match="cut off before its end"):
        await _all(ai_with(ScriptedModel([full]), settings=settings).streaming().objects("Go", Month))


async def test_an_object_whose_repair_is_no_json_ends_the_stream() -> None:
    model = ScriptedModel(['{"name": "x"}', "Sorry"])
    with pytest.raises(InvalidModelOutput, match="it is no JSON"):
        await _all(ai_with(model).streaming().objects("Go", Month))


@pytest.mark.parametrize(
    ("kind", "words", "value"), [(Month, "Let me see {", JULY), (int, "Let me see.\n", 33), (int, "Let me see.", 33)]
)
async def test_words_before_a_tool_call_are_no_objects(kind: Any, words: str, value: object) -> None:
    asks = AssistantMessage(words, calls=(calls_tool("thermometer", month="July"),))
    ai = ai_with(ScriptedModel([asks, value])).with_tools(thermometer)
    assert await _all(ai.streaming().objects("Go", kind)) == [value]


async def test_tools_are_called_between_the_turns_of_a_stream_and_each_turn_is_told_before_them() -> None:
    watched = Watched()
    model = ScriptedModel([calls_tool("thermometer", month="July"), JULY.model_dump_json()])
    ai = ai_with(model, operation=watched).with_tools(thermometer)
    assert await _all(ai.streaming().objects("Go", Month)) == [JULY]
    assert model.calls[1].messages[-1].content == "33"
    assert [type(each) for each in watched.events] == [
        ModelCalled,
        ModelReplied,
        ToolCalled,
        ToolReturned,
        ModelCalled,
        ModelReplied,
    ]
    assert len(watched.spent) == 2


async def test_what_a_tool_returns_directly_is_given_as_it_is() -> None:
    ai = ai_with(ScriptedModel([calls_tool("hottest")] * 2)).with_tools(hottest)
    assert await _all(ai.streaming().objects("Go", Month)) == [JULY]
    assert [Month.model_validate_json(each) for each in await _all(ai.streaming().text("Go"))] == [JULY]


@tool(return_direct=True)
def months() -> list[Month]:
    """The hottest months."""
    return [JULY, AUGUST]


@tool(return_direct=True)
def written() -> str:
    """The hottest months as they are kept."""
    return LINES


async def test_several_objects_that_a_tool_returns_directly_are_each_given() -> None:
    for kept in (months, written):
        ai = ai_with(ScriptedModel([calls_tool(kept.__name__)])).with_tools(kept)
        assert await _all(ai.streaming().objects("Go", Month)) == [JULY, AUGUST]
    ai = ai_with(ScriptedModel([calls_tool("months")])).with_tools(months)
    with pytest.raises(InvalidModelOutput, match="Expected the model to give an int"):
        await _all(ai.streaming().objects("Go", int))


async def test_a_stream_that_is_closed_early_ends_the_request_of_the_model() -> None:
    closed: list[bool] = []

    class Endless(ScriptedModel):
        async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
            try:
                while True:
                    yield TextDelta("word ")
            finally:
                closed.append(True)

    watched = Watched()
    text = ai_with(Endless(), operation=watched).streaming().text("Go")
    async with aclosing(text):
        assert await anext(text) == "word "
        assert not closed
    assert closed
    assert watched.told(ModelReplied)[0].error is not None


async def test_a_streamed_request_has_a_span_with_what_it_cost() -> None:
    with recorded_spans() as spans:
        await _all(ai_with(ScriptedModel(["Hello"])).streaming().text("Go"))
        told = spans.attributes("chat scripted")
    assert told["gen_ai.request.stream"] is True
    assert told["operation.cost"] == 0.001


async def test_a_template_is_filled_with_the_variables_of_a_stream(tmp_path: Path) -> None:
    (tmp_path / "hot.jinja").write_text("The hottest months in {{ place }}")
    model = ScriptedModel(["July"])
    ai = ai_with(model, templates=tmp_path).with_template("hot")
    assert await _all(ai.streaming().text({"place": "Florida"})) == ["July"]
    assert model.calls[0].messages[-1].content == "The hottest months in Florida"
    with pytest.raises(TypeError, match="variables"):
        await _all(ai.streaming().objects("Go", Month))
    with pytest.raises(TypeError, match="with_template"):
        await _all(ai_with(model).streaming().text({"place": "Florida"}))
