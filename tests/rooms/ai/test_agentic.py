"""Agentic tools: a tool that asks a model itself, as part of whatever called it."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from opentelemetry.trace import get_tracer

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    Ai,
    Budget,
    McpToolExport,
    ProcessOptions,
    Tool,
    ToolGroup,
    ToolObject,
    UserInput,
    achieves_goal,
    action,
    agent,
    tool,
)
from goalport.base.errors import DeclarationError, ModelUnavailable, ReplanRequested, TerminateAction
from goalport.base.events import ToolCalled
from goalport.models.llm import LlmOptions, ModelCall, TokenUsage, ToolReply
from goalport.runtime.ai import AgenticTool, LlmOperations, MaxLength
from goalport.runtime.process import Completed, Terminated
from goalport.testing import FakeOperationContext, ScriptedModel, calls_tool, contains
from goalport.testing.models import ScriptedModels
from goalport.tools import Parameter, ToolResult, prefixed
from tests.rooms.ai.scripted import Watched, ai_with, scripted
from tests.spans import recorded_spans

CENT = TokenUsage(input_tokens=60, output_tokens=40, cost=0.01)


@tool
def add(a: float, b: float) -> str:
    """Add two numbers."""
    return f"{a + b:g}"


@dataclass(frozen=True)
class Found:
    """What a tool found, which only the program sees whole."""

    what: str


@tool
def find(what: str) -> ToolResult:
    """Find something."""
    return ToolResult.of_artifact(f"found {what}", Found(what))


MATHS = AgenticTool("maths", "Solves problems").with_parameters(Parameter("problem")).with_tools(add)
FINDER = AgenticTool("finder", "Finds things").with_tools(find)


def replies_to(call: ModelCall) -> list[ToolReply]:
    return [each for each in call.messages if isinstance(each, ToolReply)]


async def test_a_model_calls_a_tool_behind_which_another_model_calls_tools() -> None:
    ai, model = scripted(
        calls_tool("maths", problem="1 + 2"),
        calls_tool("add", a=1, b=2),
        "It makes 3",
        "The answer is 3",
    )

    assert await ai.with_tools(MATHS).generate_text("What is 1 + 2?") == "The answer is 3"

    outer, inner, again, last = model.calls
    assert [each.name for each in outer.tools] == ["maths"]
    assert outer.tools[0].input_schema["required"] == ["problem"]
    assert [each.name for each in inner.tools] == ["add"]
    system, user = inner.messages
    assert "Solves problems" in system.content
    assert user.content == '{"problem":"1 + 2"}'
    assert [each.content for each in replies_to(again)] == ["3"]
    assert [each.content for each in replies_to(last)] == ["It makes 3"]


async def test_what_it_costs_and_does_belongs_to_the_operation_that_called_it() -> None:
    watched = Watched()
    model = ScriptedModel([calls_tool("maths", problem="1 + 2"), calls_tool("add", a=1, b=2), "3", "3"], usage=CENT)

    await ai_with(model, operation=watched).with_tools(MATHS).generate_text("Add")

    assert [usage for _, usage in watched.spent] == [CENT] * 4
    assert [(each.tool, each.process_id, each.action) for each in watched.told(ToolCalled)] == [
        ("maths", "process-1", "write_up"),
        ("add", "process-1", "write_up"),
    ]
    assert watched.turns == ["", "maths", "", "add", "", ""]


@pytest.mark.parametrize(
    ("calls", "artifact"),
    [
        ([calls_tool("find", what="a")], Found("a")),
        ([calls_tool("find", what="a"), calls_tool("find", what="b")], [Found("a"), Found("b")]),
        ([calls_tool("find"), calls_tool("find", what="b")], Found("b")),
        ([calls_tool("none")], None),
    ],
)
async def test_what_its_tools_gave_is_its_artifact(calls: list[object], artifact: object) -> None:
    seen: list[object] = []

    async def look(inside: Tool, arguments: Any) -> ToolResult:
        result = await inside.call(arguments)
        seen.append(result.artifact)
        return result

    ai, _ = scripted(calls_tool("finder"), calls, "done", "ok")
    await ai.with_tools(FINDER.with_layer(look)).generate_text("Find")
    assert seen == [artifact]


async def test_what_tools_within_its_tools_gave_is_not_its_artifact() -> None:
    seen: list[object] = []

    async def look(inside: Tool, arguments: Any) -> ToolResult:
        result = await inside.call(arguments)
        seen.append(result.artifact)
        return result

    outer = AgenticTool("outer", "Has things found").with_tools(FINDER, add).with_layer(look)
    ai, _ = scripted(calls_tool("outer"), calls_tool("finder"), calls_tool("find", what="a"), "one", "two", "three")
    assert await ai.with_tools(outer).generate_text("Find") == "three"
    assert seen == [Found("a")]


async def test_where_no_model_can_be_asked_the_result_says_so() -> None:
    result = await MATHS.call({"problem": "1 + 2"})
    assert result.is_error
    assert "Call it in an action" in result.text


async def test_the_inner_model_gets_arguments_as_their_types_say_and_defaults_with_them() -> None:
    digits, day = Parameter("digits", int, required=False, default=2), Parameter("day", date, required=False)
    exact = MATHS.with_parameters(digits, day)
    first, second = calls_tool("maths", problem="pi"), calls_tool("maths", problem="pi", digits="4")
    ai, model = scripted(first, "3.14", second, "3", "3")
    assert await ai.with_tools(exact).generate_text("Go") == "3"
    assert [call.messages[1].content for call in (model.calls[1], model.calls[3])] == [
        '{"problem":"pi","digits":2}',
        '{"problem":"pi","digits":4}',
    ]


async def test_arguments_that_do_not_fit_reach_no_model() -> None:
    ai, model = scripted(calls_tool("maths", problme="1 + 2"), "I could not")
    assert await ai.with_tools(MATHS).generate_text("Add") == "I could not"
    assert len(model.calls) == 2
    assert "problme" in replies_to(model.calls[1])[0].content


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (AgenticTool("idle", "Has nothing"), "There are no tools to work with."),
        (
            AgenticTool("idle", "Has no group").with_tool_groups("web"),
            "There are no tools to work with in the groups 'web'.",
        ),
    ],
)
async def test_without_tools_the_result_is_an_error(without: Tool, said: str) -> None:
    ai, model = scripted(calls_tool("idle"), "I could not")
    assert await ai.with_tools(without).generate_text("Go") == "I could not"
    (reply,) = replies_to(model.calls[1])
    assert reply.is_error
    assert reply.content == f"The tool 'idle' came to no result: {said}"


async def test_a_model_that_fails_is_a_result_for_the_model_that_called() -> None:
    ai, model = scripted(calls_tool("maths", problem="1"), ModelUnavailable("It is down."), "I could not")
    assert await ai.with_tools(MATHS).generate_text("Add") == "I could not"
    (reply,) = replies_to(model.calls[2])
    assert reply.is_error
    assert reply.content == "The tool 'maths' came to no result: It is down."


@pytest.mark.parametrize("signal", [ReplanRequested("another way"), TerminateAction("enough")])
async def test_what_steers_the_process_passes_through(signal: Exception) -> None:
    @tool
    def steer() -> str:
        raise signal

    ai, _ = scripted(calls_tool("outer"), calls_tool("steer"))
    with pytest.raises(type(signal)):
        await ai.with_tools(AgenticTool("outer", "Steers").with_tools(steer)).generate_text("Go")


async def test_one_that_calls_itself_comes_to_an_end() -> None:
    group = ToolGroup("circle", (AgenticTool("again", "Goes on").with_tool_groups("circle"),))
    model = ScriptedModel([*[calls_tool("again")] * 6, *["out"] * 6])

    assert await ai_with(model, groups=[group]).with_tool_groups("circle").generate_text("Go") == "out"

    (refused,) = replies_to(model.calls[6])
    assert refused.is_error
    assert "more than 5 deep: again → again" in refused.content


async def test_it_asks_the_model_that_it_names_and_says_what_it_is_told_to() -> None:
    models = ScriptedModels()
    models.when_generate_text(contains("Go")).then_reply(calls_tool("maths", problem="1"), "done")
    models.when_generate_text(contains("problem")).then_return("1")
    careful = MATHS.with_llm("careful", temperature=0.0).with_system_prompt("Check twice.")

    assert await AgentPlatform(models=models).ai.with_tools(careful).generate_text("Go") == "done"

    _, inner, _ = models.calls
    assert inner.options == LlmOptions(model="careful", temperature=0.0)
    assert inner.messages[0].content == "Check twice."
    assert models.llm_invocations[1].interaction.id == "maths"


def idle() -> None:
    """Do nothing."""


async def test_copies_leave_what_they_were_made_of_as_it_was() -> None:
    more = MATHS.with_tools(find).with_llm(temperature=0.5).with_parameters(Parameter("digits", int, required=False))
    renamed = more.with_name("sums").with_description("Adds up").with_note("Slowly.").with_tools(idle)

    assert MATHS.input_schema["required"] == ["problem"]
    assert list(more.input_schema["properties"]) == ["problem", "digits"]  # type: ignore[call-overload]
    ai, model = scripted(calls_tool("sums", problem="1"), "1", "one")
    await ai.with_tools(renamed).generate_text("Add")
    assert [each.name for each in model.calls[1].tools] == ["add", "find", "idle"]
    assert "Adds up\n\nSlowly." in model.calls[1].messages[0].content


async def test_objects_without_tools_are_passed_over_and_lists_of_objects_are_refused() -> None:
    class Finders:
        @tool
        def seek(self, what: str) -> str:
            """Seek."""
            return what

    mixed = AgenticTool("mixed", "Mixes").with_tool_objects(
        Finders(), 42, ToolObject(Finders(), naming=prefixed("my_"))
    )
    ai, model = scripted(calls_tool("mixed"), "done", "done")
    await ai.with_tools(mixed).generate_text("Go")
    assert [each.name for each in model.calls[1].tools] == ["seek", "my_seek"]
    with pytest.raises(DeclarationError, match="one by one"):
        mixed.with_tool_objects([Finders()])


def test_two_parameters_of_one_name_are_refused() -> None:
    with pytest.raises(DeclarationError, match="different names"):
        MATHS.with_parameters(Parameter("problem"))


def test_what_has_a_layer_around_it_is_changed_no_more() -> None:
    async def through(inside: Tool, arguments: Any) -> ToolResult:
        return await inside.call(arguments)

    layered = MATHS.with_layer(through)
    assert isinstance(layered, AgenticTool)
    with pytest.raises(DeclarationError, match="with_layer"):
        layered.with_tools(find)


async def test_tools_of_one_name_inside_are_a_failure_of_the_tool_and_not_of_the_prompt() -> None:
    clashing = AgenticTool("clashing", "Clashes").with_tools(add, Tool.of(find, name="add"))
    ai, model = scripted(calls_tool("clashing"), "I could not")
    assert await ai.with_tools(clashing).generate_text("Go") == "I could not"
    assert "two are called 'add'" in replies_to(model.calls[1])[0].content


async def test_the_time_that_tools_have_does_not_count_for_it() -> None:
    hasty = LlmOperations(tool_timeout=0.000_001)
    model = ScriptedModel([calls_tool("idle"), "all done", "ok"])
    ai = ai_with(model, settings=hasty)
    idle = AgenticTool("idle", "Thinks").with_tools(add)
    assert await ai.with_tools(idle).generate_text("Go") == "ok"
    assert [each.content for each in replies_to(model.calls[2])] == ["all done"]


async def test_while_texts_stream_it_is_called_between_the_turns() -> None:
    ai, model = scripted(calls_tool("maths", problem="1 + 2"), calls_tool("add", a=1, b=2), "3", "It is 3")
    pieces = [each async for each in ai.with_tools(MATHS).streaming().text("Add")]
    assert "".join(pieces) == "It is 3"
    assert len(model.calls) == 4


@dataclass(frozen=True)
class Answer:
    text: str


@agent(description="Answers")
class Answering:
    def __init__(self, inner: Tool) -> None:
        self.inner = inner

    @achieves_goal(description="An answer")
    @action
    async def answer(self, user_input: UserInput, ai: Ai) -> Answer:
        return Answer(await ai.with_tools(self.inner).generate_text(user_input.content))


async def test_in_an_action_its_prompt_may_be_made_of_the_process() -> None:
    def prompt(process: AgentProcess) -> str:
        said = process.blackboard.last(UserInput)
        return f"Help with {said.content if said else 'nothing'} in {process.agent.name}"

    model = ScriptedModel([calls_tool("maths", problem="1"), "1", "one"], usage=CENT)
    told = MATHS.with_system_prompt("Unused").with_system_prompt_creator(prompt)
    process = await AgentPlatform([Answering(told)], models=model).run("Answering", UserInput("sums"))

    assert process.outcome == Completed(Answer("one"))
    assert model.calls[1].messages[0].content == "Help with sums in Answering"
    assert process.ledger.by_action["Answering.answer"].cost == pytest.approx(0.03)


async def test_outside_of_a_process_a_prompt_that_is_made_of_one_is_an_error() -> None:
    ai, model = scripted(calls_tool("maths", problem="1"), "I could not")
    await ai.with_tools(MATHS.with_system_prompt_creator(lambda process: process.id)).generate_text("Go")
    (reply,) = replies_to(model.calls[1])
    assert reply.is_error
    assert "there is none here" in reply.content


async def test_the_budget_ends_the_process_between_two_turns_inside() -> None:
    model = ScriptedModel([calls_tool("maths", problem="1"), calls_tool("add", a=1, b=1), "2", "two"], usage=CENT)
    options = ProcessOptions(budget=Budget(cost=0.02))
    process = await AgentPlatform([Answering(MATHS)], models=model).run("Answering", UserInput("sums"), options=options)
    assert isinstance(process.outcome, Terminated)
    assert "0.02 USD is used up" in process.outcome.reason
    assert model.unused == 2


@agent(description="Calls a tool of its group by itself")
class Direct:
    @achieves_goal(description="An answer")
    @action(tool_groups=["sums"])
    async def answer(self, user_input: UserInput, context: ActionContext) -> Answer:
        result = await context.tool("maths").call({"problem": user_input.content})
        assert not result.is_error, result.text
        return Answer(result.text)


async def test_an_action_calls_it_without_a_model_in_between() -> None:
    model = ScriptedModel([calls_tool("add", a=1, b=2), "3"], usage=CENT)
    platform = AgentPlatform([Direct], models=model, tool_groups=[ToolGroup("sums", (MATHS,))])
    process = await platform.run("Direct", UserInput("1 + 2"))
    assert process.outcome == Completed(Answer("3"))
    assert process.usage.cost == pytest.approx(0.02)


async def test_the_context_of_a_unit_test_answers_it() -> None:
    context = FakeOperationContext(UserInput("1 + 2"), tool_groups=[ToolGroup("sums", (MATHS,))])
    context.expect_response("3")
    assert await context.perform(Direct().answer) == Answer("3")
    assert context.llm_invocations[0].prompt == '{"problem":"1 + 2"}'


async def test_the_guards_of_the_platform_look_at_what_it_asks() -> None:
    model = ScriptedModel([calls_tool("maths", problem="x" * 90), "I could not"])
    ai = AgentPlatform(models=model, guards=[MaxLength(50)]).ai
    assert await ai.with_tools(MATHS).generate_text("Go") == "I could not"
    (reply,) = replies_to(model.calls[1])
    assert "came to no result: MaxLength" in reply.content


async def test_its_spans_stand_in_that_of_the_call() -> None:
    model = ScriptedModel([calls_tool("maths", problem="1 + 2"), calls_tool("add", a=1, b=2), "3", "3"])
    with recorded_spans() as spans:
        with get_tracer("goalport").start_as_current_span("above"):
            await ai_with(model).with_tools(MATHS).generate_text("Add")
        assert spans.parent("execute_tool maths") == "above"
        assert spans.parent("execute_tool add") == "execute_tool maths"
        assert spans.names.count("chat scripted") == 4


async def test_a_function_that_is_a_tool_may_ask_models_itself() -> None:
    async def translate(text: str, ai: Ai) -> str:
        """Translate."""
        return await ai.generate_text(f"In Latin: {text}")

    made = Tool.of(translate)
    assert list(made.input_schema["properties"]) == ["text"]  # type: ignore[call-overload]
    watched = Watched()
    model = ScriptedModel([calls_tool("translate", text="I came"), "veni", "It is veni"], usage=CENT)
    ai = ai_with(model, operation=watched)
    assert await ai.with_tools(made).generate_text("Translate") == "It is veni"
    assert model.calls[1].messages[-1].content == "In Latin: I came"
    assert [usage for _, usage in watched.spent] == [CENT] * 3
    result = await made.call({"text": "I saw"})
    assert result.is_error
    assert "The tool needs an Ai" in result.text


async def test_a_tool_may_look_at_the_action_and_the_process_that_it_is_called_in() -> None:
    def where(context: ActionContext, process: AgentProcess, of: str = "") -> str:
        """Say where."""
        return f"{context.action} of {process.agent.name}{of}"

    model = ScriptedModel([calls_tool("where"), "There"])
    process = await AgentPlatform([Answering(Tool.of(where))], models=model).run("Answering", UserInput("Where?"))
    assert process.outcome == Completed(Answer("There"))
    assert [each.content for each in replies_to(model.calls[1])] == ["Answering.answer of Answering"]
    result = await Tool.of(where).call({})
    assert result.is_error


async def test_published_over_mcp_it_is_listed_and_says_why_it_does_nothing() -> None:
    export = McpToolExport.from_tool_object(ToolObject(MATHS))
    assert [each.name for each in export.tools()] == ["maths"]
    result = await export.tools()[0].call({"problem": "1"})
    assert result.is_error
