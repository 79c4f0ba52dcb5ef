"""States: stages whose actions count only while their object is there (States guide)."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import BaseModel

from goalport.agents.domain import (
    Provided,
    State,
    UserInput,
    achieves_goal,
    action,
    agent,
    condition,
    read_agent,
    state,
)
from goalport.base.errors import DeclarationError
from goalport.base.events import Event
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, Completed


@dataclass(frozen=True)
class Text:
    content: str


@dataclass(frozen=True)
class Note:
    """Something that is not a state, and stays."""

    text: str


def steps(process: AgentProcess) -> list[str]:
    return [each.action for each in process.history]


class Linear(State): ...


class Draft(Linear):
    text: str

    @action
    def polish(self, note: Note) -> "Polished":
        return Polished(f"{self.text} {note.text}")


class Polished(Linear):
    text: str

    @achieves_goal(description="A polished text")
    def finish(self, note: Note) -> Text:
        return Text(f"{self.text}!")


@agent(description="Writes in stages")
class Stages:
    @action
    def begin(self, user_input: UserInput) -> Draft:
        return Draft(user_input.content)

    @action
    def note(self, user_input: UserInput) -> Note:
        return Note("indeed")


async def test_stages_follow_one_another_and_other_objects_stay() -> None:
    process = await AgentPlatform([Stages]).run("Stages", UserInput("hello"))
    assert process.outcome == Completed(Text("hello indeed!"))
    assert steps(process)[-2:] == ["Draft.polish", "Polished.finish"]
    assert process.last(Draft) is None
    assert process.last(Polished) == Polished("hello indeed")
    assert process.last(Note) == Note("indeed")


class Loop(State): ...


class Counting(Loop):
    data: str
    turn: int

    @action(clear_blackboard=True)
    def count(self) -> Loop:
        return Over(self.data) if self.turn >= 3 else Counting(self.data + "+", self.turn + 1)


class Over(Loop):
    data: str

    @achieves_goal(description="Counted")
    def end(self) -> Text:
        return Text(self.data)


@agent(description="Counts")
class Counter:
    @action
    def begin(self, user_input: UserInput) -> Counting:
        return Counting(user_input.content, 0)


async def test_a_loop_comes_back_to_its_stage_until_it_is_over() -> None:
    process = await AgentPlatform([Counter]).run("Counter", UserInput("x"))
    assert process.outcome == Completed(Text("x+++"))
    assert steps(process) == ["Counter.begin", *["Counting.count"] * 4, "Over.end"]


class Branch(State): ...


class Accepted(Branch):
    @achieves_goal(description="Accepted")
    def celebrate(self) -> Text:
        return Text("accepted")


@state
@dataclass(frozen=True)
class Refused:
    why: str

    @condition
    def harsh(self) -> bool:
        return len(self.why) > 3

    @achieves_goal(description="Refused")
    @action(pre=["harsh"])
    async def mourn(self) -> Text:
        return Text(self.why)


@state
class Pending(BaseModel):
    asked: int = 0

    @action(can_rerun=True)
    def wait(self, judge: "Annotated[Judge, Provided]") -> "Pending | Accepted | Refused":
        return judge.decide(self)


@agent(description="Judges")
class Judge:
    def __init__(self, verdicts: str = "") -> None:
        self.verdicts = list(verdicts)

    @action
    def open(self, user_input: UserInput) -> Pending:
        return Pending()

    def decide(self, pending: Pending) -> "Pending | Accepted | Refused":
        match self.verdicts.pop(0):
            case "a":
                return Accepted()
            case "r":
                return Refused("no way")
            case _:
                return pending


@pytest.mark.parametrize(
    ("verdicts", "content", "waits"), [("a", "accepted", 1), ("r", "no way", 1), ("==a", "accepted", 3)]
)
async def test_a_stage_branches_and_may_stay_where_it_is(verdicts: str, content: str, waits: int) -> None:
    process = await AgentPlatform([Judge(verdicts)]).run("Judge", UserInput("x"))
    assert process.outcome == Completed(Text(content))
    assert steps(process).count("Pending.wait") == waits


class Inner(State):
    @action
    def leave(self) -> Note:
        return Note("left")


@agent(description="Leaves")
class Leaver:
    @action
    def enter(self, user_input: UserInput) -> Inner:
        return Inner()

    @achieves_goal(description="Outside again")
    def outside(self, note: Note) -> Text:
        return Text(note.text)


async def test_a_plain_object_leads_out_to_the_actions_of_the_agent() -> None:
    process = await AgentPlatform([Leaver]).run("Leaver", UserInput("x"))
    assert process.outcome == Completed(Text("left"))


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


async def test_transitions_are_told() -> None:
    heard = Heard()
    await AgentPlatform([Stages], listeners=[heard]).run("Stages", UserInput("hello"))
    told = [event for event in heard.events if type(event).__name__ == "StateEntered"]
    assert [(event.state, event.left) for event in told] == [("Draft", ()), ("Polished", ("Draft",))]  # type: ignore[union-attr]


def test_states_are_frozen_dataclasses_of_their_fields() -> None:
    draft = Draft("x")
    assert draft == Draft(text="x")
    with pytest.raises(AttributeError):
        draft.text = "y"  # type: ignore[misc]
    assert Pending().asked == 0


def test_goals_and_conditions_of_states_are_the_agents() -> None:
    read = read_agent(Judge())
    assert {goal.name for goal in read.goals} == {"Accepted.celebrate", "Refused.mourn"}
    assert [each.name for each in read.conditions] == ["harsh"]


def test_a_state_inside_a_function_is_refused_because_it_could_not_be_found_again() -> None:
    class Local(State):
        @achieves_goal(description="g")
        def end(self) -> Text:
            return Text("")

    @agent(description="d")
    class Holder:
        @action
        def begin(self, user_input: UserInput) -> Local:
            return Local()

    with pytest.raises(DeclarationError, match=r"Local.*inside a function.*Move it out"):
        read_agent(Holder())
