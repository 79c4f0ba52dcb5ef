"""The tool loop: a model calls tools until it answers, and nothing that goes wrong in a tool ends it."""

import base64
from threading import current_thread, main_thread

import anyio
import pytest
from mcp_types import EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents

from goalport.base.errors import ModelRefused, ReplanRequested, TerminateAction, ToolError, ToolNotFound, TooManyTurns
from goalport.base.events import ModelCalled, ModelReplied, ToolCalled, ToolReturned
from goalport.models.llm import (
    AssistantMessage,
    Image,
    ModelCall,
    ModelCard,
    ModelReply,
    TokenUsage,
    ToolCall,
    ToolReply,
)
from goalport.runtime.ai import LlmOperations
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import ToolResult, tool
from tests.rooms.ai.scripted import Watched, ai_with, scripted


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def replies_to(call: ModelCall) -> list[ToolReply]:
    return [each for each in call.messages if isinstance(each, ToolReply)]


async def test_the_model_sees_a_tool_and_gets_its_result_and_answers() -> None:
    ai, model = scripted(calls_tool("add", a=1, b=2), "It is 3")

    assert await ai.with_tools(add).generate_text("What is 1 + 2?") == "It is 3"

    (spec,) = model.calls[0].tools
    assert (spec.name, spec.description) == ("add", "Add two numbers.")
    assert spec.input_schema["required"] == ["a", "b"]
    assert [reply.content for reply in replies_to(model.calls[1])] == ["3.0"]


async def test_numbers_that_a_model_sent_as_text_are_numbers_to_the_tool() -> None:
    ai, model = scripted(calls_tool("add", a="1", b="2.5"), "done")

    await ai.with_tools(add).generate_text("Add")

    assert replies_to(model.calls[1])[0].content == "3.5"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{not json", "no JSON"),
        ('"half a pair: \ud83d"', "no JSON"),
        (f'{{"a": "x", "b": {"9" * 5_000}}}', "no JSON"),
        ("[1, 2]", "JSON object"),
        ('{"a": "many", "b": 2}', "a: "),
        ('{"a": 1}', "b: required, but missing"),
    ],
)
async def test_malformed_arguments_go_back_to_the_model_with_the_reason(written: str, said: str) -> None:
    ai, model = scripted(ToolCall("1", "add", written), calls_tool("add", a=1, b=2), "3")

    assert await ai.with_tools(add).generate_text("Add") == "3"

    first = replies_to(model.calls[1])[0]
    assert first.is_error
    assert said in first.content


async def test_a_tool_that_fails_tells_the_model_and_not_the_program() -> None:
    def divide(a: float, b: float) -> float:
        if b == 0:
            raise ToolError("Nothing can be divided by zero.")
        return a / b

    def explode() -> str:
        raise RuntimeError("boom")

    ai, model = scripted([calls_tool("divide", a=1, b=0), calls_tool("explode")], "I could not")

    assert await ai.with_tools(divide, explode).generate_text("Divide") == "I could not"

    first, second = replies_to(model.calls[1])
    assert (first.content, first.is_error) == ("Nothing can be divided by zero.", True)
    assert "boom" in second.content


async def test_results_stand_in_the_order_of_the_calls_though_the_first_ends_last() -> None:
    second_is_done = anyio.Event()

    async def slow() -> str:
        await second_is_done.wait()
        return "slow"

    async def quick() -> str:
        second_is_done.set()
        return "quick"

    ai, model = scripted([calls_tool("slow"), calls_tool("quick")], "done")

    with anyio.fail_after(60):
        await ai.with_tools(slow, quick).generate_text("Go")

    assert [(each.call_id, each.content) for each in replies_to(model.calls[1])] == [
        ("call_slow", "slow"),
        ("call_quick", "quick"),
    ]


async def test_calls_wait_for_one_another_where_the_settings_say_so() -> None:
    running: list[str] = []

    async def one(name: str) -> str:
        running.append(name)
        await anyio.lowlevel.checkpoint()
        assert running == [name]
        running.remove(name)
        return name

    model = ScriptedModel([[calls_tool("one", name="a"), calls_tool("one", name="b")], "done"])
    ai = ai_with(model, settings=LlmOperations(parallel_tools=False))

    await ai.with_tools(one).generate_text("Go")

    assert [each.content for each in replies_to(model.calls[1])] == ["a", "b"]


async def test_a_sync_tool_runs_beside_the_event_loop() -> None:
    def where() -> bool:
        return current_thread() is main_thread()

    ai, model = scripted(calls_tool("where"), "done")

    await ai.with_tools(where).generate_text("Where?")

    assert replies_to(model.calls[1])[0].content == "false"


async def test_a_tool_that_takes_too_long_is_given_up_and_the_model_told() -> None:
    gone = anyio.Event()

    async def hang() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            gone.set()
        return "never"

    model = ScriptedModel([calls_tool("hang"), "I go on without"])
    ai = ai_with(model, settings=LlmOperations(tool_timeout=0.01))

    with anyio.fail_after(60):
        assert await ai.with_tools(hang).generate_text("Go") == "I go on without"

    assert gone.is_set()
    assert "within 0.01 seconds" in replies_to(model.calls[1])[0].content


async def test_images_and_other_blocks_of_a_result_reach_the_model() -> None:
    def look() -> ToolResult:
        return ToolResult(
            text="A picture:",
            blocks=(
                ImageContent(type="image", data=base64.b64encode(b"pixels").decode(), mime_type="image/png"),
                TextContent(type="text", text="and words"),
                ResourceLink(type="resource_link", name="map", uri="file:///map"),
                EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///x", text="inside")),
            ),
        )

    ai, model = scripted(calls_tool("look"), "I see")

    await ai.with_tools(look).generate_text("Look")

    (reply,) = replies_to(model.calls[1])
    assert [(image.media_type, image.data) for image in reply.images] == [("image/png", b"pixels")]
    assert reply.content == "A picture:\nand words\n[map: file:///map]\ninside"


async def test_a_model_without_eyes_is_told_of_the_images_of_a_tool() -> None:
    def look() -> ImageContent:
        return ImageContent(type="image", data=base64.b64encode(b"pixels").decode(), mime_type="image/png")

    model = ScriptedModel([calls_tool("look"), "x"], card=ModelCard(name="blind", provider="test", vision=False))

    await ai_with(model).with_tools(look).generate_text("Look")

    (reply,) = replies_to(model.calls[1])
    assert (reply.content, reply.images) == ("[an image of type image/png, which you cannot see]", ())


async def test_a_tool_that_returns_directly_ends_the_loop_with_its_text() -> None:
    @tool(return_direct=True)
    def final() -> str:
        return "exactly this"

    ai, model = scripted([calls_tool("add", a=1, b=1), calls_tool("final")])

    assert await ai.with_tools(final, add).generate_text("Go") == "exactly this"
    assert model.unused == 0


async def test_a_direct_tool_that_fails_leaves_the_answer_to_the_model() -> None:
    @tool(return_direct=True)
    def final() -> str:
        raise ToolError("not now")

    ai, _ = scripted(calls_tool("final"), "then I say it")

    assert await ai.with_tools(final).generate_text("Go") == "then I say it"


async def test_an_unknown_tool_is_answered_with_the_names_that_are_near() -> None:
    def web_search(query: str) -> str:
        return f"found {query}"

    ai, model = scripted(calls_tool("search", query="x"), calls_tool("web_search", query="x"), "found it")

    assert await ai.with_tools(web_search, add).generate_text("Search") == "found it"

    first = replies_to(model.calls[1])[0]
    assert first.is_error
    assert first.content == "There is no tool 'search'. Did you mean 'web_search'?"


async def test_a_model_that_will_not_learn_which_tools_there_are_is_stopped() -> None:
    ai, model = scripted(*[calls_tool("nonsense")] * 4)

    with pytest.raises(ToolNotFound, match=r"'nonsense'.*add"):
        await ai.with_tools(add).generate_text("Go")

    assert len(model.calls) == 4


async def test_a_known_tool_in_between_is_forgiveness() -> None:
    wrong, right = calls_tool("nonsense"), calls_tool("add", a=1, b=1)
    ai, _ = scripted(wrong, wrong, wrong, right, wrong, "done")

    assert await ai.with_tools(add).generate_text("Go") == "done"


async def test_a_model_that_never_answers_is_stopped_after_the_turns_that_are_allowed() -> None:
    model = ScriptedModel([calls_tool("add", a=1, b=1)] * 30)

    with pytest.raises(TooManyTurns, match="20 turns"):
        await ai_with(model).with_tools(add).generate_text("Go")

    assert len(model.calls) == 20


async def test_a_signal_of_a_tool_passes_at_once_and_cancels_those_beside_it() -> None:
    cancelled = anyio.Event()

    async def wait() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return "never"

    async def replan() -> str:
        raise ReplanRequested("the world has changed")

    ai, model = scripted([calls_tool("wait"), calls_tool("replan")])

    with anyio.fail_after(60), pytest.raises(ReplanRequested, match="the world has changed"):
        await ai.with_tools(wait, replan).generate_text("Go")

    assert cancelled.is_set()
    assert len(model.calls) == 1


async def test_a_signal_from_within_a_tools_own_task_group_passes_too() -> None:
    async def replan() -> None:
        raise ReplanRequested("deep inside")

    async def delegate() -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(replan)
        return "never"

    ai, _ = scripted(calls_tool("delegate"))

    with pytest.raises(ReplanRequested, match="deep inside"):
        await ai.with_tools(delegate).generate_text("Go")


async def test_what_failed_within_a_tools_own_task_group_is_told_to_the_model() -> None:
    async def explode() -> None:
        raise RuntimeError("boom")

    async def delegate() -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(explode)
        return "never"

    ai, model = scripted(calls_tool("delegate"), "done")

    await ai.with_tools(delegate).generate_text("Go")

    assert "RuntimeError: boom" in replies_to(model.calls[1])[0].content


async def test_a_spent_budget_ends_the_loop_before_the_next_turn() -> None:
    operation = Watched(ends_before=2, signal=TerminateAction("The budget is spent."))
    model = ScriptedModel([calls_tool("add", a=1, b=2), "never asked for"])

    with pytest.raises(TerminateAction, match="budget"):
        await ai_with(model, operation=operation).with_tools(add).generate_text("Go")

    assert operation.turns == ["", "add"]
    assert model.unused == 1


async def test_cancelling_reaches_the_request_and_the_tool() -> None:
    asked, cancelled = anyio.Event(), list[str]()

    async def hang() -> str:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append("tool")
        return "never"

    ai, _ = scripted(calls_tool("hang"))
    async with anyio.create_task_group() as group:
        group.start_soon(ai.with_tools(hang).generate_text, "Go")
        with anyio.fail_after(60):
            await asked.wait()
        group.cancel_scope.cancel()

    assert cancelled == ["tool"]


async def test_every_turn_and_call_is_told_and_counted() -> None:
    operation = Watched()
    model = ScriptedModel([calls_tool("add", a=1, b=2), "It is 3"], usage=TokenUsage(input_tokens=7, cost=0.5))

    await ai_with(model, operation=operation).with_id("sum").with_tools(add).generate_text("What is 1 + 2?")

    called, replied = operation.told(ModelCalled), operation.told(ModelReplied)
    assert [(each.interaction, each.turn) for each in called] == [("sum", 1), ("sum", 2)]
    assert called[0].prompt.startswith("tools:\nadd: ")
    assert called[0].prompt.endswith("\n\nuser:\nWhat is 1 + 2?")
    assert called[1].prompt == (
        '(as before: tools, 1 message)\n\nassistant:\n\ncalls add {"a":1,"b":2}\n\nresult of add:\n3.0'
    )
    assert [(each.reply, each.tool_calls, each.input_tokens) for each in replied] == [
        ("", ("add",), 7),
        ("It is 3", (), 7),
    ]
    assert [(each.process_id, each.action) for each in replied] == [("process-1", "write_up")] * 2
    assert operation.told(ToolCalled)[0].arguments == '{"a":1,"b":2}'
    assert [(each.result, each.is_error) for each in operation.told(ToolReturned)] == [("3.0", False)]
    assert sum(usage.cost for _, usage in operation.spent) == 1.0


async def test_a_call_of_a_tool_that_is_not_there_is_told_too() -> None:
    operation = Watched()
    model = ScriptedModel([calls_tool("nonsense"), "done"])

    await ai_with(model, operation=operation).with_tools(add).generate_text("Go")

    assert [(each.tool, each.is_error) for each in operation.told(ToolReturned)] == [("nonsense", True)]
    assert operation.turns == ["", ""]


async def test_a_request_that_is_cancelled_is_told_as_such() -> None:
    asked = anyio.Event()

    class Slow(ScriptedModel):
        async def reply(self, call: ModelCall, /) -> ModelReply:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

    operation = Watched()
    async with anyio.create_task_group() as group:
        group.start_soon(ai_with(Slow(), operation=operation).generate_text, "Go")
        with anyio.fail_after(60):
            await asked.wait()
        group.cancel_scope.cancel()

    assert [each.error for each in operation.told(ModelReplied)] == ["cancelled"]


async def test_a_request_that_fails_is_told_with_its_error() -> None:
    operation = Watched()
    ai = ai_with(ScriptedModel([ModelRefused("wrong key")]), operation=operation)

    with pytest.raises(ModelRefused):
        await ai.generate_text("Hello")

    assert [each.error for each in operation.told(ModelReplied)] == ["wrong key"]


async def test_a_refusal_is_an_error_with_the_models_words() -> None:
    refusal = ModelReply(message=AssistantMessage("I cannot help with that."), finish="refusal")
    ai, _ = scripted(refusal)

    with pytest.raises(ModelRefused, match="I cannot help with that"):
        await ai.generate_text("Do something bad")


async def test_an_empty_reply_is_taken_as_it_is() -> None:
    ai, _ = scripted("")

    assert await ai.generate_text("Say nothing") == ""


async def test_an_empty_reply_is_asked_about_once_where_the_settings_say_so() -> None:
    model = ScriptedModel(["", "sorry", "", ""])
    ai = ai_with(model, settings=LlmOperations(empty_reply="nudge"))

    assert await ai.generate_text("Talk") == "sorry"
    assert await ai.generate_text("Talk") == ""


async def test_thoughts_and_native_parts_go_back_to_the_model_with_the_results() -> None:
    thought = AssistantMessage("", (calls_tool("add", a=1, b=1),), thinking="I should add", native=["signed"])
    ai, model = scripted(thought, "2")

    await ai.with_tools(add).generate_text("1 + 1?")

    assert thought in model.calls[1].messages


async def test_a_model_without_eyes_is_not_shown_a_users_images() -> None:
    model = ScriptedModel(["never"], card=ModelCard(name="blind", provider="test", vision=False))

    with pytest.raises(ModelRefused, match="'blind' takes no images"):
        await ai_with(model).with_images(Image("image/png", b"x")).generate_text("What is this?")


async def test_a_model_is_nudged_again_when_it_has_called_tools_in_between() -> None:
    model = ScriptedModel(["", calls_tool("add", a=1, b=2), "", "three"])
    ai = ai_with(model, settings=LlmOperations(empty_reply="nudge")).with_tools(add)

    assert await ai.generate_text("1 + 2?") == "three"
    assert "with what the tools gave" in str(model.calls[-1].messages[-1])
