"""The bases of states (page on states, "Inheritance"): interfaces, abstract classes and plain marked ones."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pytest

from goalport import (
    AgentPlatform,
    Blackboard,
    PlannerType,
    ProcessOptions,
    State,
    UserInput,
    achieves_goal,
    action,
    agent,
    state,
)
from goalport.runtime import Completed, mistakes_in


@dataclass(frozen=True)
class Output:
    content: str


@state
@runtime_checkable
class Interface(Protocol):
    """Says nothing but that what has it is a state."""


@dataclass(frozen=True)
class FirstOfInterface(Interface):
    @action
    def go(self) -> Interface:
        return LastOfInterface()


@dataclass(frozen=True)
class LastOfInterface(Interface):
    @achieves_goal(description="Be there")
    def end(self) -> Output:
        return Output("interface")


@state
class Phase(ABC):
    @abstractmethod
    @action
    def step(self) -> "Phase": ...


@dataclass(frozen=True)
class FirstPhase(Phase):
    def step(self) -> Phase:
        return LastPhase()


@dataclass(frozen=True)
class LastPhase(Phase):
    def step(self) -> Phase:
        return self

    @achieves_goal(description="Be there")
    def end(self) -> Output:
        return Output("abstract class")


@state
class Marked:
    """A class without fields that is marked."""


@dataclass(frozen=True)
class FirstMarked(Marked):
    @action
    def go(self) -> Marked:
        return LastMarked()


@dataclass(frozen=True)
class LastMarked(Marked):
    @achieves_goal(description="Be there")
    def end(self) -> Output:
        return Output("marked class")


@agent(description="Begins below an interface")
class ByInterface:
    @action
    def begin(self, user_input: UserInput) -> Interface:
        return FirstOfInterface()


@agent(description="Begins below an abstract class")
class ByPhase:
    @action
    def begin(self, user_input: UserInput) -> Phase:
        return FirstPhase()


@agent(description="Begins below a marked class")
class ByMarked:
    @action
    def begin(self, user_input: UserInput) -> Marked:
        return FirstMarked()


@pytest.mark.parametrize(
    ("declared", "content"), [(ByInterface, "interface"), (ByPhase, "abstract class"), (ByMarked, "marked class")]
)
async def test_states_may_share_any_kind_of_base_and_no_check_complains_of_it(declared: type, content: str) -> None:
    platform = AgentPlatform([declared])
    process = await platform.run(declared.__name__, UserInput("go"))
    assert process.outcome == Completed(Output(content))
    assert mistakes_in(platform.agents, platform.groups) == ()


def test_an_abstract_method_is_no_action_until_a_subclass_fills_it_in() -> None:
    (deployed,) = AgentPlatform([ByPhase]).agents
    assert {each.name for each in deployed.actions} == {
        "ByPhase.begin",
        "FirstPhase.step",
        "LastPhase.step",
        "LastPhase.end",
    }


class Concrete(State):
    """A state that is entered itself, and has a subclass."""

    @action
    def log(self, board: Blackboard) -> None:
        board.add(f"logged by {type(self).__name__}")

    @action
    def speak(self, board: Blackboard) -> None:
        board.add("spoken by the base")

    @achieves_goal(description="Be there")
    @action(value=-1)
    def end(self) -> Output:
        return Output("concrete class")


class Below(Concrete):
    def speak(self, board: Blackboard) -> None:
        board.add("spoken below")


@agent(description="Enters one or the other", planner=PlannerType.UTILITY)
class ByConcrete:
    @action
    def begin(self, user_input: UserInput) -> Concrete:
        return Below() if user_input.content == "below" else Concrete()


@pytest.mark.parametrize(
    ("where", "said"),
    [("below", {"logged by Below", "spoken below"}), ("base", {"logged by Concrete", "spoken by the base"})],
)
async def test_what_a_state_inherits_is_done_once_and_as_the_subclass_does_it(where: str, said: set[str]) -> None:
    for planner in (PlannerType.GOAP, PlannerType.UTILITY):
        process = await AgentPlatform([ByConcrete]).run(
            "ByConcrete", UserInput(where), options=ProcessOptions(planner=planner)
        )
        assert process.outcome == Completed(Output("concrete class"))
        if planner is PlannerType.UTILITY:
            assert len(process.blackboard.all(str)) == 2
            assert set(process.blackboard.all(str)) == said
