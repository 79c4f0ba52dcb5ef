"""Supervisor agents: a model chooses which of the possible actions run; they are actions like all others."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalport.agents.domain import PlannerType, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import ModelUnavailable
from goalport.models.llm import ModelCall
from goalport.runtime.ai import Ai
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, Completed, Failed, ProcessOptions, ProcessStatus, Stuck, Terminated
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel, calls_tool

pytestmark = pytest.mark.anyio

REQUEST = UserInput("Nina wants two pizzas")


@dataclass(frozen=True)
class Cook:
    name: str


@dataclass(frozen=True)
class Order:
    dish: str
    quantity: int


@dataclass(frozen=True)
class Meal:
    dish: str
    cook: str


@agent(description="Prepares meals", planner=PlannerType.SUPERVISOR)
class Kitchen:
    @action
    def choose_cook(self, user_input: UserInput) -> Cook:
        """Choose who cooks."""
        return Cook("Antonio")

    @action
    def take_order(self, user_input: UserInput) -> Order:
        """Note what is ordered."""
        return Order("pizza", 2)

    @achieves_goal(description="Cook the meal")
    @action
    def prepare_meal(self, cook: Cook, order: Order) -> Meal:
        return Meal(f"{order.quantity} {order.dish}", cook.name)


@dataclass(frozen=True)
class DataRequest:
    topic: str


@dataclass(frozen=True)
class Data:
    topic: str


@dataclass(frozen=True)
class RivalsRequest:
    companies: list[str]


@dataclass(frozen=True)
class Rivals:
    strengths: list[str]


@dataclass(frozen=True)
class ReportRequest:
    topic: str


@dataclass(frozen=True)
class Report:
    title: str


@agent(description="Researches a market", planner=PlannerType.SUPERVISOR)
class Research:
    @action(description="Gather market data", can_rerun=True)
    def gather(self, request: DataRequest) -> Data:
        return Data(request.topic)

    @action(description="Analyze rivals")
    def analyze(self, request: RivalsRequest) -> Rivals:
        return Rivals([f"{each} is cheap" for each in request.companies])

    @achieves_goal(description="Compile all into a report")
    @action
    def compile(self, request: ReportRequest) -> Report:
        return Report(request.topic)


@agent(description="Feeds guests", planner=PlannerType.SUPERVISOR)
class Hotel:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Cook]:
        return WaitFor.form_submission("Who cooks?", Cook)

    @action
    def take_order(self, user_input: UserInput) -> Order:
        return Order("pizza", 1)

    @achieves_goal(description="Serve")
    @action
    def serve(self, cook: Cook, order: Order) -> Meal:
        return Meal(order.dish, cook.name)


async def run(
    declared: object, replies: Sequence[object], *inputs: object, options: ProcessOptions | None = None
) -> tuple[AgentProcess, ScriptedModel]:
    model = ScriptedModel(replies)
    async with AgentPlatform([declared], models=model, options=options) as platform:
        process = await platform.run(type(declared).__name__, *inputs)
        return process, model


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


def prompt(call: ModelCall) -> str:
    return str(call.messages[-1])


async def test_a_model_chooses_actions_and_the_goal_follows_by_itself() -> None:
    both = [calls_tool("choose_cook"), calls_tool("take_order")]
    process, model = await run(Kitchen(), [both], REQUEST)
    assert process.outcome == Completed(Meal("2 pizza", "Antonio"))
    assert sorted(ran(process)[:2]) == ["choose_cook", "take_order"]
    assert len(model.calls) == 1


async def test_it_is_asked_again_after_each_choice_and_sees_what_is_there() -> None:
    process, model = await run(Kitchen(), [calls_tool("choose_cook"), calls_tool("take_order")], REQUEST)
    assert ran(process) == ["choose_cook", "take_order", "prepare_meal"]
    first, second = model.calls
    assert {each.name for each in first.tools} == {"choose_cook", "take_order"}
    assert [each.name for each in second.tools] == ["take_order"]
    assert "Cook the meal" in prompt(first)
    assert "Antonio" not in prompt(first)
    assert "Antonio" in prompt(second)
    assert "Kitchen.choose_cook: succeeded" in prompt(second)


async def test_one_class_runs_under_all_planners_unchanged() -> None:
    for planner in PlannerType:
        both = [calls_tool("choose_cook"), calls_tool("take_order")]
        process, model = await run(Kitchen(), [both], REQUEST, options=ProcessOptions(planner=planner))
        assert process.outcome == Completed(Meal("2 pizza", "Antonio"))
        assert len(model.calls) == (1 if planner is PlannerType.SUPERVISOR else 0)


async def test_the_model_gives_the_inputs_that_are_missing_and_no_others() -> None:
    given = [calls_tool("gather", data_request={"topic": "clouds"}), calls_tool("compile")]
    process, model = await run(Research(), given, ReportRequest("Clouds"))
    assert process.outcome == Completed(Report("Clouds"))
    assert ran(process) == ["gather", "compile"]
    assert process.last(Data) == Data("clouds")
    offered = {each.name: each.input_schema for each in model.calls[0].tools}
    assert offered["gather"]["required"] == ["data_request"]
    assert offered["compile"]["properties"] == {}
    assert next(iter(model.calls[0].tools)).name == "compile", "what is ready comes first"


async def test_an_action_that_may_run_again_can_be_given_another_input() -> None:
    given = [
        calls_tool("gather", data_request={"topic": "clouds"}),
        calls_tool("gather", data_request={"topic": "rain"}),
        "That is all.",
    ]
    process, _ = await run(Research(), given, ReportRequest("Weather"))
    assert process.outcome == Completed(Report("Weather"))
    assert [each.topic for each in process.blackboard.all(Data)] == ["clouds", "rain"]


async def test_calls_with_different_objects_of_one_type_do_not_disturb_one_another() -> None:
    @agent(description="Compares", planner=PlannerType.SUPERVISOR)
    class Twins:
        @action
        def north(self, request: DataRequest) -> Data:
            return Data(f"north {request.topic}")

        @action
        def south(self, request: DataRequest) -> Rivals:
            return Rivals([f"south {request.topic}"])

        @achieves_goal(description="Compare")
        @action
        def compare(self, data: Data, rivals: Rivals) -> Report:
            return Report(f"{data.topic}, {rivals.strengths[0]}")

    both = [calls_tool("north", data_request={"topic": "a"}), calls_tool("south", data_request={"topic": "b"})]
    process, _ = await run(Twins(), [both, calls_tool("south")])
    assert process.outcome == Completed(Report("north a, south a"))


async def test_bad_arguments_and_unknown_tools_are_told_to_the_model() -> None:
    replies = [
        calls_tool("gathr"),
        calls_tool("gather", data_request={"subject": "clouds"}),
        calls_tool("gather", data_request={"topic": "clouds"}),
        "Done.",
    ]
    process, model = await run(Research(), replies, ReportRequest("Clouds"))
    assert process.outcome == Completed(Report("Clouds"))
    assert "topic: required, but missing" in prompt(model.calls[2])


async def test_a_model_that_calls_no_tool_is_told_so_once() -> None:
    process, model = await run(Kitchen(), ["I would begin with the cook.", "Indeed."], REQUEST)
    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason == "The supervisor's model chose no action. It said: Indeed."
    assert "You said: I would begin with the cook." in prompt(model.calls[1])


async def test_the_model_is_asked_so_often_as_max_rounds_says() -> None:
    turns = [calls_tool("gather", data_request={"topic": str(number)}) for number in range(9)]
    options = ProcessOptions(max_rounds=2)
    process, model = await run(Research(), turns, options=options)
    assert isinstance(process.outcome, Terminated)
    assert "asked 2 times" in process.outcome.reason
    assert len(model.calls) == 2


async def test_an_action_that_fails_is_told_and_no_longer_offered() -> None:
    @agent(description="Cooks badly", planner=PlannerType.SUPERVISOR)
    class Burning:
        @action
        def fry(self, user_input: UserInput) -> Cook:
            raise ValueError("smoke")

        @action
        def boil(self, user_input: UserInput) -> Cook:
            return Cook("boiler")

        @achieves_goal(description="Serve")
        @action
        def serve(self, cook: Cook) -> Meal:
            return Meal("soup", cook.name)

    process, model = await run(Burning(), [calls_tool("fry"), calls_tool("boil")], REQUEST)
    assert process.outcome == Completed(Meal("soup", "boiler"))
    assert [each.name for each in model.calls[1].tools] == ["boil"]
    assert "smoke" in prompt(model.calls[1])


async def test_a_model_that_does_not_answer_fails_the_process_with_its_words() -> None:
    process, _ = await run(Kitchen(), [ModelUnavailable("scripted", "overloaded")], REQUEST)
    assert isinstance(process.outcome, Failed)
    assert "The supervisor could not choose an action" in process.outcome.reason


async def test_people_are_asked_as_in_every_process() -> None:
    @agent(description="Asks", planner=PlannerType.SUPERVISOR)
    class Asking:
        @action
        def ask_cook(self, user_input: UserInput) -> WaitFor[Cook]:
            return WaitFor.form_submission("Who cooks?", Cook)

        @achieves_goal(description="Serve")
        @action
        def serve(self, cook: Cook) -> Meal:
            return Meal("soup", cook.name)

    async with AgentPlatform([Asking()], models=ScriptedModel([calls_tool("ask_cook")])) as platform:
        process = await platform.run("Asking", REQUEST)
        assert process.status is ProcessStatus.WAITING
        await platform.answer(process.id, response={"name": "Nina"})
        assert await process.wait() == Completed(Meal("soup", "Nina"))


async def test_what_no_model_can_write_is_no_parameter() -> None:
    class Socket:
        def __init__(self, number: int) -> None:
            self.number = number

    @agent(description="Plugs in", planner=PlannerType.SUPERVISOR)
    class Electrician:
        @action
        def plug(self, socket: Socket) -> Cook:
            return Cook("electric")

        @action
        def find(self, user_input: UserInput) -> Order:
            return Order("soup", 1)

        @achieves_goal(description="Serve")
        @action
        def serve(self, order: Order) -> Meal:
            return Meal(order.dish, "nobody")

    process, model = await run(Electrician(), [calls_tool("find")], REQUEST)
    assert process.outcome == Completed(Meal("soup", "nobody"))
    assert [each.name for each in model.calls[0].tools] == ["find"]


async def test_a_supervisor_that_waits_goes_on_in_another_program(tmp_path: Path) -> None:
    file, asks = tmp_path / "processes.db", ScriptedModel([calls_tool("ask")])
    async with SqliteProcessStore(file) as store, AgentPlatform([Hotel()], models=asks, store=store) as one:
        process = await one.run("Hotel", REQUEST)
        assert process.status is ProcessStatus.WAITING
    model = ScriptedModel([calls_tool("take_order")])
    async with SqliteProcessStore(file) as store, AgentPlatform([Hotel()], models=model, store=store) as other:
        again = await other.answer(process.id, response={"name": "Nina"})
        assert await again.wait() == Completed(Meal("pizza", "Nina"))
    assert "Nina" in prompt(model.calls[0])
    assert again.ledger.requests == 2


async def test_the_cost_of_the_choices_is_part_of_the_process() -> None:
    process, _ = await run(Kitchen(), [[calls_tool("choose_cook"), calls_tool("take_order")]], REQUEST)
    assert process.ledger.by_action["Kitchen.supervisor"].cost == pytest.approx(0.001)


async def test_actions_of_a_supervisor_ask_models_themselves() -> None:
    @agent(description="Writes", planner=PlannerType.SUPERVISOR)
    class Writer:
        @action
        async def think(self, user_input: UserInput, ai: Ai) -> Cook:
            return await ai.create_object("Who?", Cook)

        @achieves_goal(description="Serve")
        @action
        def serve(self, cook: Cook) -> Meal:
            return Meal("soup", cook.name)

    process, _ = await run(Writer(), [calls_tool("think"), Cook("Ada")], REQUEST)
    assert process.outcome == Completed(Meal("soup", "Ada"))
