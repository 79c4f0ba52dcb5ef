"""Agents as tools: what a model calls runs as a process of its own, and comes back as a result."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated

import anyio
import pytest
from pydantic import Field

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    Ai,
    Budget,
    Export,
    ProcessOptions,
    Tool,
    ToolGroup,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
)
from goalport.agents.domain import Agent, read_agent
from goalport.base.errors import DeclarationError
from goalport.base.events import Event, ProcessFinished
from goalport.models.llm import ModelCall, TokenUsage, ToolReply
from goalport.runtime.ai import AgenticTool, UnfoldingTool
from goalport.runtime.process import SERVICE_TYPES, Completed, ProcessStatus, Terminated, agent_tool
from goalport.testing import FakeOperationContext, ScriptedModel, calls_tool
from goalport.tools import Parameter

CENT = TokenUsage(input_tokens=60, output_tokens=40, cost=0.01)


@dataclass(frozen=True)
class Route:
    start: str
    end: str
    on: date = date(2026, 1, 31)


@dataclass(frozen=True)
class Distance:
    km: Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class Answer:
    text: str


@agent(description="Measures how far it is")
class Surveyor:
    @achieves_goal(description="Know a distance")
    @action
    async def measure(self, route: Route, ai: Ai) -> Distance:
        if route.start == route.end:
            raise ValueError("That is no way")
        return Distance(float(await ai.generate_text(f"How far is {route.start} from {route.end} on {route.on}?")))


@agent(description="Plans journeys")
class Planner:
    """What it asks is answered by a model that may call the tool."""

    def __init__(self, *tools: Tool) -> None:
        self.tools = tools

    @achieves_goal(description="An answer")
    @action
    async def answer(self, user_input: UserInput, ai: Ai) -> Answer:
        return Answer(await ai.with_tools(*self.tools).generate_text(user_input.content))


SURVEYOR = Surveyor()
MEASURING = agent_tool(SURVEYOR)


def replies_to(call: ModelCall) -> list[ToolReply]:
    return [each for each in call.messages if isinstance(each, ToolReply)]


def test_its_schema_is_that_of_what_the_agent_begins_with() -> None:
    assert (MEASURING.name, MEASURING.description) == ("surveyor", "Measures how far it is")
    assert MEASURING.input_schema == {
        "type": "object",
        "properties": {
            "start": {"type": "string"},
            "end": {"type": "string"},
            "on": {"type": "string", "format": "date", "default": "2026-01-31"},
        },
        "required": ["start", "end"],
        "additionalProperties": False,
    }


def test_of_what_a_user_says_only_the_words_are_asked_for() -> None:
    properties = agent_tool(Planner()).input_schema["properties"]
    assert list(properties) == ["content"]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "given",
    [
        MEASURING,
        agent_tool(Surveyor(), Distance, takes=Route, name="surveyor"),
        agent_tool(read_agent(SURVEYOR, SERVICE_TYPES)),
        agent_tool("Surveyor", Distance, takes=Route, description="Measures"),
    ],
    ids=["instance", "told", "agent", "name"],
)
async def test_the_agent_runs_in_a_process_of_its_own_that_counts_towards_the_action(given: Tool) -> None:
    model = ScriptedModel([calls_tool("surveyor", start="Ulm", end="Bonn"), "330", "Far"], usage=CENT)
    platform = AgentPlatform([Planner(given), SURVEYOR], models=model)

    process = await platform.run("Planner", UserInput("How far is it?"))

    assert process.outcome == Completed(Answer("Far"))
    (child,) = process.children
    assert child.agent.name == "Surveyor"
    assert child.blackboard.last(UserInput) == UserInput("How far is it?")
    assert process.last(Distance) is None
    assert model.calls[1].messages[-1].content == "How far is Ulm from Bonn on 2026-01-31?"
    assert [each.content for each in replies_to(model.calls[2])] == ['{"km":330.0}']
    assert process.usage.cost == pytest.approx(0.03)


async def test_two_runs_at_once_each_get_their_own_result() -> None:
    def distance(call: ModelCall) -> str:
        return "1" if "Ulm" in call.messages[-1].content else "2"

    calls = [calls_tool("surveyor", start="Ulm", end="Bonn"), calls_tool("surveyor", start="Bern", end="Bonn")]
    model = ScriptedModel([calls, distance, distance, "Far"])
    process = await AgentPlatform([Planner(MEASURING)], models=model).run("Planner", UserInput("How far?"))
    assert process.outcome == Completed(Answer("Far"))
    assert [each.content for each in replies_to(model.calls[3])] == ['{"km":1.0}', '{"km":2.0}']


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"start": "Ulm"}, "end"),
        ({"start": "Ulm", "end": "Bonn", "on": "someday"}, "on: "),
        ({"start": "Ulm", "end": "Bonn", "by": "train"}, "by"),
        ({"start": "Ulm", "end": "Ulm"}, "came to no result: "),
    ],
)
async def test_what_does_not_fit_or_fails_is_a_result_for_the_model(arguments: dict[str, str], said: str) -> None:
    model = ScriptedModel([calls_tool("surveyor", **arguments), "I do not know"])
    process = await AgentPlatform([Planner(MEASURING)], models=model).run("Planner", UserInput("How far?"))
    assert process.outcome == Completed(Answer("I do not know"))
    (reply,) = replies_to(model.calls[1])
    assert reply.is_error
    assert said in reply.content


async def test_outside_of_an_action_the_result_is_an_error() -> None:
    result = await MEASURING.call({"start": "Ulm", "end": "Bonn"})
    assert result.is_error
    assert "outside of" in result.text


async def test_in_a_unit_test_the_context_says_what_comes_out() -> None:
    @agent(description="Calls it directly")
    class Caller:
        @achieves_goal(description="An answer")
        @action(tool_groups=["maps"])
        async def answer(self, user_input: UserInput, context: ActionContext) -> Answer:
            result = await context.tool("surveyor").call({"start": user_input.content, "end": "Bonn"})
            assert isinstance(result.artifact, Distance)
            return Answer(f"{result.artifact.km:g} km")

    context = FakeOperationContext(UserInput("Ulm"), tool_groups=[ToolGroup("maps", (MEASURING,))])
    context.expect_response(Distance(330))
    assert await context.perform(Caller().answer) == Answer("330 km")
    (asked,) = context.sub_processes
    assert asked.inputs == (Route("Ulm", "Bonn"),)


async def test_the_budget_of_the_process_holds_for_the_agent_too() -> None:
    model = ScriptedModel([calls_tool("surveyor", start="Ulm", end="Bonn"), "330", "Far"], usage=CENT)
    options = ProcessOptions(budget=Budget(cost=0.02))
    process = await AgentPlatform([Planner(MEASURING)], models=model).run("Planner", UserInput("?"), options=options)
    assert isinstance(process.outcome, Terminated)
    assert model.unused == 1


@agent(description="Asks somebody")
class Asker:
    @achieves_goal(description="Know what somebody says")
    @action
    def ask(self, route: Route) -> WaitFor[Distance]:
        return WaitFor.form_submission(f"How far is {route.end}?", Distance)


class Ended:
    """Hears when a process is at its end, or waits again."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.news = anyio.Event()

    def on_event(self, event: Event) -> None:
        if isinstance(event, ProcessFinished) and event.process_id == self.process_id:
            self.news.set()


async def answered(platform: AgentPlatform, process: AgentProcess, response: object) -> None:
    """Answer the one question that is open, and wait until the process has come to an end, or waits again."""
    ended = Ended(process.id)
    process.subscribe(ended)
    await platform.answer(process.id, response=response)
    with anyio.fail_after(60):
        await ended.news.wait()


@pytest.mark.parametrize("together", [False, True], ids=["alone", "with others"])
async def test_when_the_agent_asks_a_person_the_action_waits(together: bool) -> None:  # noqa: FBT001 - a parameter
    asks = calls_tool("asker", start="Ulm", end="Bonn")
    measures = calls_tool("surveyor", start="Ulm", end="Bern")

    def reply(call: ModelCall) -> object:
        if "How far is Ulm" in call.messages[-1].content:
            return "5"
        return "Far" if replies_to(call) else [asks, measures] if together else asks

    model = ScriptedModel([reply] * 9)
    platform = AgentPlatform([Planner(agent_tool(Asker()), MEASURING)], models=model)
    process = await platform.run("Planner", UserInput("How far?"))

    assert process.status is ProcessStatus.WAITING
    (question,) = process.open_questions
    assert question.message == "How far is Bonn?"
    await answered(platform, process, {"km": 330})

    assert process.outcome == Completed(Answer("Far"))
    given = [each.content for each in replies_to(model.calls[-1])]
    assert given == ['{"km":330.0}', '{"km":5.0}'][: 1 + together]
    assert len(process.children) == 1 + together


@agent(description="Knows two things")
class Polymath:
    @achieves_goal(description="Know a distance", export=Export(starting_input_types=[Route]))
    @action
    def measure(self, route: Route) -> Distance:
        return Distance(1)

    @achieves_goal(description="Know an answer")
    @action
    def answer(self, user_input: UserInput) -> Answer:
        return Answer("42")


@agent(description="Adds up")
class Adder:
    @achieves_goal(description="Know a sum")
    @action
    def add(self, first: int, second: str) -> Distance:
        return Distance(first + float(second))


def test_of_several_goals_the_type_of_the_result_says_which() -> None:
    assert list(agent_tool(Polymath(), Distance).input_schema["properties"]) == ["start", "end", "on"]  # type: ignore[call-overload]
    with pytest.raises(DeclarationError, match="one type of result, but Distance and Answer"):
        agent_tool(Polymath())


async def test_what_begins_with_several_things_takes_each_by_the_name_of_its_type() -> None:
    adding = agent_tool(Adder())
    assert adding.input_schema["required"] == ["int", "str"]
    model = ScriptedModel([calls_tool("adder", int=1, str="2"), "3"])
    await AgentPlatform([Planner(adding)], models=model).run("Planner", UserInput("1 + 2"))
    assert [each.content for each in replies_to(model.calls[1])] == ['{"km":3.0}']


def test_what_begins_with_no_object_takes_it_by_the_name_of_its_type() -> None:
    counting = agent_tool("Counter", Distance, takes=list[int], description="Counts")
    assert counting.input_schema["properties"] == {"list_int": {"type": "array", "items": {"type": "integer"}}}


def test_a_name_alone_is_not_enough() -> None:
    with pytest.raises(DeclarationError, match="since it is a name"):
        agent_tool("Surveyor", Distance)


def test_an_agent_that_begins_with_nothing_has_to_be_told_what_it_takes() -> None:
    @agent(description="Knows")
    class Oracle:
        @achieves_goal(description="Know")
        @action
        def know(self) -> Answer:
            return Answer("42")

    with pytest.raises(DeclarationError, match="what it begins with"):
        agent_tool(Oracle())
    with pytest.raises(DeclarationError, match="one type of result"):
        agent_tool(Agent("Nobody", "Does nothing"), takes=Route)


async def test_an_agent_that_is_not_deployed_is_a_result_for_the_model() -> None:
    lost = agent_tool("Nowhere", Distance, takes=Route, description="Is not there")
    model = ScriptedModel([calls_tool("nowhere", start="Ulm", end="Bonn"), "I do not know"])
    process = await AgentPlatform([Planner(lost)], models=model).run("Planner", UserInput("How far?"))
    assert process.outcome == Completed(Answer("I do not know"))
    assert "Nowhere" in replies_to(model.calls[1])[0].content


async def test_agents_that_call_one_another_in_a_circle_come_to_an_end() -> None:
    calls = 0

    def reply(call: ModelCall) -> object:
        nonlocal calls
        calls += 1
        return "out" if replies_to(call) else calls_tool("circle", content="again")

    circle = agent_tool("Circle", Answer, takes=UserInput, description="Goes round")
    turning = Planner(circle)
    named = read_agent(turning, SERVICE_TYPES)
    platform = AgentPlatform(
        [Agent("Circle", "Goes round", actions=named.actions, goals=named.goals)], models=ScriptedModel([reply] * 99)
    )
    process = await platform.run("Circle", UserInput("Go"))
    assert process.outcome == Completed(Answer("out"))
    assert calls == 40


async def test_inside_of_agentic_and_unfolding_tools_too_an_agent_asks_a_person_and_nothing_is_done_twice() -> None:
    folded = UnfoldingTool("more", "More tools").with_tools(agent_tool(Asker()), MEASURING)
    scout = AgenticTool("scout", "Finds out").with_tools(folded)
    replies = [
        calls_tool("scout"),
        calls_tool("more"),
        calls_tool("surveyor", start="Ulm", end="Bern"),
        "5",
        calls_tool("asker", start="Ulm", end="Bonn"),
        "It is 330 km",
        "Far",
    ]
    model = ScriptedModel(replies, usage=CENT)
    platform = AgentPlatform([Planner(scout)], models=model)
    process = await platform.run("Planner", UserInput("How far?"))
    assert process.status is ProcessStatus.WAITING
    assert model.unused == 2

    await answered(platform, process, {"km": 330})

    assert process.outcome == Completed(Answer("Far"))
    assert len(process.children) == 2
    assert process.usage.cost == pytest.approx(0.07)
    assert [each.content for each in replies_to(model.calls[5])][1:] == ['{"km":5.0}', '{"km":330.0}']


@pytest.mark.parametrize(("agreed", "text"), [(True, "contents"), (False, "A person was asked")])
async def test_a_tool_that_a_person_has_to_agree_to_is_asked_for_inside_of_an_agentic_tool(
    agreed: bool,  # noqa: FBT001 - a parameter
    text: str,
) -> None:
    def read() -> str:
        return "contents"

    clerk = AgenticTool("clerk", "Reads").with_tools(Tool.of(read).with_approval("always"))
    model = ScriptedModel([calls_tool("clerk"), calls_tool("read"), "I am done", "Done"])
    platform = AgentPlatform([Planner(clerk)], models=model)
    process = await platform.run("Planner", UserInput("Read"))
    assert process.status is ProcessStatus.WAITING

    await answered(platform, process, agreed)

    assert process.outcome == Completed(Answer("Done"))
    assert replies_to(model.calls[2])[0].content.startswith(text)


WORKING = AgenticTool("asked", "Works").with_tools(MEASURING).with_parameters(Parameter("start"), Parameter("end"))


@pytest.mark.parametrize("tool", [WORKING, MEASURING.with_name("asked")], ids=["agentic", "agent"])
async def test_a_person_may_have_to_agree_to_the_whole(tool: Tool) -> None:
    model = ScriptedModel([calls_tool("asked", start="Ulm", end="Bonn"), "Then not"])
    platform = AgentPlatform([Planner(tool.with_approval("always"))], models=model)
    process = await platform.run("Planner", UserInput("Go"))
    assert process.status is ProcessStatus.WAITING

    await answered(platform, process, False)

    assert process.outcome == Completed(Answer("Then not"))
    assert process.children == []
