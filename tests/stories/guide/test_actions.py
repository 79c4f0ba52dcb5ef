"""What actions, conditions and costs may declare (sections 3.6.1 to 3.6.4), each example of the guide once."""

from dataclasses import dataclass
from enum import Enum

import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    Blackboard,
    OperationContext,
    PlannerType,
    ProcessStatus,
    UserInput,
    achieves_goal,
    action,
    agent,
    condition,
    cost,
)
from goalport.errors import DeclarationError
from goalport.runtime import Completed
from goalport.testing import plan_of


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


@dataclass(frozen=True)
class RawDocument:
    content: str


@dataclass(frozen=True)
class Style:
    loud: bool


@dataclass(frozen=True)
class ProcessedDocument:
    content: str


@dataclass(frozen=True)
class FinalOutput:
    content: str


@agent(description="Works on documents in several steps")
class DocumentProcessor:
    @action(clear_blackboard=True)
    def preprocess(self, document: RawDocument) -> ProcessedDocument:
        return ProcessedDocument(document.content.strip())

    @achieves_goal(description="Bring a document into its final form")
    @action
    def transform(self, document: ProcessedDocument, raw: RawDocument | None, style: Style | None) -> FinalOutput:
        assert (raw, style) == (None, None)
        return FinalOutput(document.content.upper())


async def test_clearing_the_blackboard_leaves_only_the_output_to_later_steps() -> None:
    process = await AgentPlatform([DocumentProcessor]).run(
        "DocumentProcessor", RawDocument("  draft "), Style(loud=True)
    )
    assert process.outcome == Completed(FinalOutput("DRAFT"))
    assert process.blackboard.objects == [ProcessedDocument("draft"), FinalOutput("DRAFT")]


def test_clearing_the_blackboard_on_the_action_of_a_goal_is_refused() -> None:
    @agent(description="d")
    class Clears:
        @achieves_goal(description="g")
        @action(clear_blackboard=True)
        def transform(self, document: RawDocument) -> FinalOutput:
            raise AssertionError

    with pytest.raises(DeclarationError, match="clear_blackboard"):
        AgentPlatform([Clears])


@dataclass(frozen=True)
class LargeDataSet:
    size: int


@dataclass(frozen=True)
class ProcessedData:
    by: str


@agent(description="Works on data, at a cost that depends on it")
class DataProcessor:
    def __init__(self) -> None:
        self.seen: list[int | None] = []

    @cost(name="processing_cost")
    def compute_processing_cost(self, data: LargeDataSet | None) -> float:
        self.seen.append(data.size if data else None)
        return 0.9 if data is not None and data.size > 1000 else 0.1

    @achieves_goal(description="Process at once")
    @action(cost_method="processing_cost")
    def process(self, user_input: UserInput) -> ProcessedData:
        return ProcessedData("whole")

    @achieves_goal(description="Process a sample")
    @action(cost=0.5)
    def sample(self, user_input: UserInput) -> ProcessedData:
        return ProcessedData("sample")


@pytest.mark.parametrize(
    ("given", "by"), [((), "whole"), ((LargeDataSet(10),), "whole"), ((LargeDataSet(2000),), "sample")]
)
async def test_a_cost_is_computed_while_planning_from_what_is_there(given: tuple[LargeDataSet, ...], by: str) -> None:
    declared = DataProcessor()
    process = await AgentPlatform([declared]).run("DataProcessor", UserInput("go"), *given)
    assert process.outcome == Completed(ProcessedData(by))
    assert declared.seen[0] == (given[0].size if given else None)


def test_a_cost_method_takes_domain_objects_only_where_they_may_be_missing() -> None:
    @agent(description="d")
    class Strict:
        @cost
        def price(self, data: LargeDataSet) -> float:
            raise AssertionError

        @achieves_goal(description="g")
        @action(cost_method="price")
        def process(self, user_input: UserInput) -> ProcessedData:
            raise AssertionError

    with pytest.raises(DeclarationError, match=r"data: LargeDataSet \| None|optional"):
        AgentPlatform([Strict])


async def test_a_cost_method_may_look_at_the_whole_blackboard() -> None:
    @agent(description="d")
    class Looks(DataProcessor):
        @cost(name="processing_cost")
        def compute_processing_cost(self, blackboard: Blackboard) -> float:  # type: ignore[override]
            return 100 if len(blackboard.objects) > 2 else 0.1

    platform = AgentPlatform([Looks])
    few = await platform.run("Looks", UserInput("go"))
    many = await platform.run("Looks", UserInput("go"), LargeDataSet(1), LargeDataSet(2))
    assert (few.outcome, many.outcome) == (Completed(ProcessedData("whole")), Completed(ProcessedData("sample")))


class Priority(Enum):
    HIGH = 1.0
    MEDIUM = 0.6
    LOW = 0.2


@dataclass(frozen=True)
class Task:
    name: str
    priority: Priority


@dataclass(frozen=True)
class Result:
    text: str


@agent(description="Weighs what it could do by what is known now", planner=PlannerType.UTILITY)
class PrioritizedAgent:
    @cost(name="urgency_value")
    def compute_urgency(self, task: Task | None) -> float:
        return 0.5 if task is None else task.priority.value

    @achieves_goal(description="Process a task that matters")
    @action(value_method="urgency_value")
    def process_task(self, task: Task) -> Result:
        return Result(f"Processed: {task.name}")

    @action(value=0.5)
    def have_tea(self, task: Task) -> ProcessedData:
        return ProcessedData("tea")


@pytest.mark.parametrize(
    ("priority", "order"),
    [
        (Priority.HIGH, ["process_task"]),
        (Priority.MEDIUM, ["process_task"]),
        (Priority.LOW, ["have_tea", "process_task"]),
    ],
)
async def test_a_value_is_computed_while_choosing(priority: Priority, order: list[str]) -> None:
    process = await AgentPlatform([PrioritizedAgent]).run("PrioritizedAgent", Task("dishes", priority))
    assert process.outcome == Completed(Result("Processed: dishes"))
    assert ran(process) == order


@agent(description="Repairs until it works")
class Repairs:
    """A custom condition that an action may bring about, and one that depends on it."""

    def __init__(self, blows: int) -> None:
        self.blows = blows
        self.looked = 0

    @condition(name="it_works")
    def works(self, context: OperationContext) -> bool:
        self.looked += 1
        return len(context.blackboard.all(Task)) > self.blows

    @action(post=["it_works"], can_rerun=True)
    def hit(self, user_input: UserInput, context: ActionContext) -> None:
        context.add(Task("hit", Priority.LOW))

    @achieves_goal(description="Hand it back")
    @action(pre=["it_works"])
    def hand_back(self, user_input: UserInput) -> Result:
        return Result("works")


async def test_what_may_hold_afterwards_is_planned_on_and_then_looked_at_for_real() -> None:
    repairs = Repairs(blows=2)
    process = await AgentPlatform([repairs]).run("Repairs", UserInput("radio"))
    assert process.outcome == Completed(Result("works"))
    assert ran(process) == ["hit", "hit", "hit", "hand_back"]
    assert repairs.looked >= 4


async def test_without_the_promise_the_planner_takes_a_condition_never_to_come_true() -> None:
    @agent(description="d")
    class Forgets(Repairs):
        @action(can_rerun=True)
        def hit(self, user_input: UserInput, context: ActionContext) -> None:
            context.add(Task("hit", Priority.LOW))

    process = await AgentPlatform([Forgets(blows=0)]).run("Forgets", UserInput("radio"))
    assert process.status is ProcessStatus.STUCK
    assert ran(process) == []
    assert process.outcome
    assert "condition it_works to be true" in process.outcome.reason


@agent(description="Adds what is nice to have")
class NiceToHave:
    @achieves_goal(description="Write")
    def write(self, style: Style | None, context: OperationContext, document: RawDocument) -> FinalOutput:
        loud = style is not None and style.loud
        return FinalOutput(document.content.upper() if loud else document.content)


@pytest.mark.parametrize(("given", "content"), [((), "hm"), ((Style(loud=True),), "HM")])
async def test_an_optional_parameter_is_filled_when_it_can_be(given: tuple[Style, ...], content: str) -> None:
    process = await AgentPlatform([NiceToHave]).run("NiceToHave", RawDocument("hm"), *given)
    assert process.outcome == Completed(FinalOutput(content))


async def test_an_action_may_ask_for_nothing_at_all() -> None:
    @agent(description="d")
    class Starts:
        @action
        def begin(self) -> RawDocument:
            return RawDocument(" from nothing ")

    @agent(description="d")
    class Complete(Starts, DocumentProcessor): ...

    process = await AgentPlatform([Complete]).run("Complete")
    assert process.outcome == Completed(FinalOutput("FROM NOTHING"))


def test_actions_and_conditions_of_a_base_class_are_those_of_the_agent() -> None:
    @agent(description="d")
    class Special(Repairs): ...

    assert plan_of(Special(1), given=[UserInput]) == ["hand_back"]
    (deployed,) = AgentPlatform([Special(1)]).agents
    assert {each.name for each in deployed.actions} == {"Special.hit", "Special.hand_back"}
    assert [each.name for each in deployed.conditions] == ["it_works"]


def test_two_conditions_of_one_name_are_refused() -> None:
    @agent(description="d")
    class Twice(Repairs):
        @condition(name="it_works")
        def really(self) -> bool:
            return True

    with pytest.raises(DeclarationError, match="it_works"):
        AgentPlatform([Twice(1)])


async def test_an_action_runs_once_unless_it_may_run_again() -> None:
    @agent(description="d")
    class Once(Repairs):
        @action(post=["it_works"])
        def hit(self, user_input: UserInput, context: ActionContext) -> None:
            context.add(Task("hit", Priority.LOW))

    process = await AgentPlatform([Once(blows=2)]).run("Once", UserInput("radio"))
    assert process.status is ProcessStatus.STUCK
    assert ran(process) == ["hit"]
