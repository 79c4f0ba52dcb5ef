"""The page on states: entering, staying, looping, inheriting and passing data along."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import anyio
import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    PlannerType,
    ProcessStatus,
    Provided,
    State,
    UserInput,
    achieves_goal,
    action,
    agent,
    state,
)
from goalport.agents import is_state
from goalport.errors import DeclarationError
from goalport.events import Event, StateEntered
from goalport.runtime import Completed


def ran(process: AgentProcess) -> list[str]:
    return [each.action for each in process.history]


@dataclass(frozen=True)
class Output:
    content: str


@dataclass(frozen=True)
class Customer:
    """Something that is not a state."""

    name: str


@state
@dataclass(frozen=True)
class ProcessingState:
    data: str

    @action
    def process(self) -> "NextState":
        return NextState(self.data.upper())


@state
@dataclass(frozen=True)
class NextState:
    data: str

    @action
    def address(self, customer: Customer) -> "Addressed":
        return Addressed(f"Dear {customer.name}, ")

    @achieves_goal(description="Be processed")
    def end(self, addressed: "Addressed") -> Output:
        return Output(addressed.text + self.data)


@dataclass(frozen=True)
class Addressed:
    text: str


@agent(description="Processes in stages")
class Processor:
    @action
    def begin(self, user_input: UserInput) -> ProcessingState:
        return ProcessingState(user_input.content)


async def test_a_returned_state_hides_the_one_before_and_leaves_everything_else() -> None:
    process = await AgentPlatform([Processor]).run("Processor", Customer("Ann"), UserInput("hello"))
    assert process.outcome == Completed(Output("Dear Ann, HELLO"))
    assert process.blackboard.last(ProcessingState) is None
    assert ProcessingState("hello") in process.blackboard.history
    assert process.blackboard.last(NextState) == NextState("HELLO")
    assert process.blackboard.last(Customer) == Customer("Ann")
    assert process.blackboard.last(UserInput) == UserInput("hello")


async def test_within_a_state_its_actions_are_planned_in_order_as_anywhere() -> None:
    process = await AgentPlatform([Processor]).run("Processor", Customer("Ann"), UserInput("hello"))
    assert ran(process)[1:] == ["ProcessingState.process", "NextState.address", "NextState.end"]


@dataclass(frozen=True)
class UserMessage:
    content: str


@state
@dataclass(frozen=True)
class ChitchatState:
    context: str

    @action(can_rerun=True)
    async def respond(self, message: UserMessage, context: ActionContext) -> "ChitchatState | Farewell":
        said = len(context.blackboard.all(Output))
        context.add(Output(f"{self.context} {said}"))
        return self if said < 2 else Farewell()


@state
@dataclass(frozen=True)
class Farewell:
    @achieves_goal(description="Have talked")
    def leave(self) -> Customer:
        return Customer("gone")


@agent(description="Chats")
class Chats:
    @action
    def begin(self, user_input: UserInput) -> ChitchatState:
        return ChitchatState("small talk")


async def test_returning_itself_a_state_stays_and_the_blackboard_with_it() -> None:
    process = await AgentPlatform([Chats]).run("Chats", UserInput("hi"), UserMessage("one"))
    assert process.outcome == Completed(Customer("gone"))
    assert ran(process) == ["Chats.begin", *["ChitchatState.respond"] * 3, "Farewell.leave"]
    assert [each.content for each in process.blackboard.all(Output)] == ["small talk 0", "small talk 1", "small talk 2"]
    assert process.last(UserMessage) == UserMessage("one")
    assert len({id(each) for each in process.blackboard.history if isinstance(each, ChitchatState)}) == 1


class Transitions:
    """Hears which states are entered, and which are left by that."""

    def __init__(self) -> None:
        self.told: list[tuple[str, tuple[str, ...]]] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, StateEntered):
            self.told.append((event.state, event.left))


async def test_staying_is_no_transition() -> None:
    heard = Transitions()
    await AgentPlatform([Chats], listeners=[heard]).run("Chats", UserInput("hi"), UserMessage("one"))
    assert heard.told == [("ChitchatState", ()), ("Farewell", ("ChitchatState",))]


@state
@dataclass(frozen=True)
class Listening:
    """Answers each message that comes, and waits for the next."""

    context: str

    @action(can_rerun=True, trigger=UserMessage)
    async def respond(self, message: UserMessage, context: ActionContext) -> "Listening":
        context.add(Output(f"{self.context}: {message.content}"))
        return self


@agent(description="Answers messages for as long as there are any", planner=PlannerType.UTILITY)
class Listener:
    @action
    def begin(self, user_input: UserInput) -> Listening:
        return Listening(user_input.content)


async def test_a_state_that_stays_answers_one_message_after_another() -> None:
    async with AgentPlatform([Listener]) as platform:
        process = await platform.run("Listener", UserInput("hm"))
        for content in ("one", "two"):
            platform.processes.resume(process, UserMessage(content))
            with anyio.fail_after(60):
                await process.wait()
        assert process.status is ProcessStatus.STUCK
    assert ran(process) == ["Listener.begin", "Listening.respond", "Listening.respond"]
    assert [each.content for each in process.blackboard.all(Output)] == ["hm: one", "hm: two"]


@state
@dataclass(frozen=True)
class Impatient:
    @action
    async def wait(self, message: UserMessage) -> "Impatient | Farewell":
        return self


async def test_a_state_that_stays_needs_an_action_that_may_run_again() -> None:
    @agent(description="Waits once")
    class Waits:
        @action
        def begin(self, user_input: UserInput) -> Impatient:
            return Impatient()

    process = await AgentPlatform([Waits]).run("Waits", UserInput("hi"), UserMessage("one"))
    assert process.status is ProcessStatus.STUCK
    assert ran(process) == ["Waits.begin", "Impatient.wait"]


class LoopOutcome(State): ...


class Turning(LoopOutcome):
    data: str
    iteration: int

    @action(clear_blackboard=True)
    def process(self) -> LoopOutcome:
        return DoneState(self.data) if self.iteration >= 3 else Turning(self.data + "+", self.iteration + 1)


class DoneState(LoopOutcome):
    data: str

    @achieves_goal(description="Be done")
    def finish(self) -> Output:
        return Output(self.data)


@agent(description="Turns around")
class Turns:
    @action
    def begin(self, user_input: UserInput) -> Turning:
        return Turning(user_input.content, 0)


async def test_a_loop_that_clears_the_blackboard_comes_back_to_its_state_until_it_is_over() -> None:
    process = await AgentPlatform([Turns]).run("Turns", UserInput("x"), Customer("Ann"))
    assert process.outcome == Completed(Output("x+++"))
    assert ran(process).count("Turning.process") == 4
    assert process.blackboard.objects == [DoneState("x+++"), Output("x+++")]


async def test_a_transition_that_clears_the_blackboard_tells_what_it_left() -> None:
    heard = Transitions()
    await AgentPlatform([Turns], listeners=[heard]).run("Turns", UserInput("x"))
    again = ("Turning", ("Turning",))
    assert heard.told == [("Turning", ()), again, again, again, ("DoneState", ("Turning",))]


class Unclear(State): ...


class Once(Unclear):
    iteration: int

    @action
    def process(self) -> Unclear:
        return Over() if self.iteration else Once(self.iteration + 1)


class Over(Unclear):
    @achieves_goal(description="Be over")
    def finish(self) -> Output:
        return Output("over")


async def test_without_clearing_the_action_that_ran_is_passed_over_and_there_is_no_loop() -> None:
    @agent(description="Cannot loop")
    class Stays:
        @action
        def begin(self, user_input: UserInput) -> Once:
            return Once(0)

    process = await AgentPlatform([Stays]).run("Stays", UserInput("x"))
    assert process.status is ProcessStatus.STUCK
    assert ran(process) == ["Stays.begin", "Once.process"]


@state
class Marker:
    """The base alone is marked, as an interface would be."""


@state
class Phase(ABC):
    """A marked abstract class."""

    @abstractmethod
    def name(self) -> str: ...


@dataclass(frozen=True)
class BelowMarker(Marker):
    content: str


@dataclass(frozen=True)
class BelowConcrete(ProcessingState):
    more: int = 0


class BelowPhase(Phase):
    def name(self) -> str:
        return "below"


class Deeper(BelowMarker): ...


class Deepest(Deeper, Customer): ...


@pytest.mark.parametrize("kind", [BelowMarker, BelowConcrete, BelowPhase, Deeper, Deepest, Turning])
def test_being_a_state_is_inherited_from_any_base_at_any_depth(kind: type) -> None:
    assert is_state(kind)
    assert not is_state(Customer)


@state
class Stage:
    """The parent of a choice of states."""


@dataclass(frozen=True)
class AssessStory(Stage):
    content: str

    @action(clear_blackboard=True)
    def assess(self) -> Stage:
        return Done(self.content) if self.content.count("!") > 1 else ReviseStory(self.content)


@dataclass(frozen=True)
class ReviseStory(Stage):
    content: str

    @action(clear_blackboard=True)
    def revise(self) -> AssessStory:
        return AssessStory(self.content + "!")


@dataclass(frozen=True)
class Done(Stage):
    content: str

    @achieves_goal(description="Processing complete")
    @action
    def complete(self) -> Output:
        return Output(self.content)


@agent(description="Tells stories")
class Tells:
    @action
    def begin(self, user_input: UserInput) -> AssessStory:
        return AssessStory(user_input.content)


def test_all_states_below_a_returned_base_are_found_with_their_actions_and_goals() -> None:
    (deployed,) = AgentPlatform([Tells]).agents
    assert {each.name for each in deployed.actions} == {
        "Tells.begin",
        "AssessStory.assess",
        "ReviseStory.revise",
        "Done.complete",
    }
    assert [each.name for each in deployed.goals] == ["Done.complete"]


@pytest.mark.parametrize(("draft", "rounds"), [("so!!", 0), ("so!", 1), ("so", 2)])
async def test_the_object_that_comes_out_decides_which_state_is_entered(draft: str, rounds: int) -> None:
    process = await AgentPlatform([Tells]).run("Tells", UserInput(draft))
    assert process.outcome == Completed(Output("so!!"))
    assert ran(process) == [
        "Tells.begin",
        *["AssessStory.assess", "ReviseStory.revise"] * rounds,
        "AssessStory.assess",
        "Done.complete",
    ]


def test_a_state_class_that_needs_its_surroundings_is_refused() -> None:
    @state
    @dataclass(frozen=True)
    class Inside:
        @achieves_goal(description="g")
        def end(self) -> Output:
            raise AssertionError

    @agent(description="d")
    class Holds:
        @action
        def begin(self, user_input: UserInput) -> Inside:
            raise AssertionError

    with pytest.raises(DeclarationError, match="Inside"):
        AgentPlatform([Holds])


class Archive:
    """A service that a state may use."""

    def __init__(self) -> None:
        self.kept: list[str] = []


@agent(description="Holds its states as nested classes")
class Nests:
    """A class within a class holds no instance: it is a state like any other."""

    greeting = "Hello"

    @state
    @dataclass(frozen=True)
    class Greeted:
        name: str

        @achieves_goal(description="Greet")
        def end(self, component: "Annotated[Nests, Provided]", archive: Annotated[Archive, Provided]) -> Output:
            archive.kept.append(self.name)
            return Output(f"{component.greeting}, {self.name}")

    @action
    def begin(self, user_input: UserInput) -> Greeted:
        return self.Greeted(user_input.content)


async def test_a_nested_class_is_a_state_and_is_provided_with_its_component_and_services() -> None:
    archive = Archive()
    process = await AgentPlatform([Nests], services=[archive]).run("Nests", UserInput("Ann"))
    assert process.outcome == Completed(Output("Hello, Ann"))
    assert archive.kept == ["Ann"]


class Open(State):
    topic: str

    @action
    def dig_deeper(self) -> "Detail":
        return Detail(f"{self.topic} in detail")


class Detail(State):
    """Entered from another state: one within the other."""

    topic: str

    @action
    def resolve(self) -> Addressed:
        return Addressed(self.topic)


@agent(description="Keeps track of a conversation")
class Conversation:
    @action
    def begin(self, user_input: UserInput) -> Open:
        return Open(user_input.content)

    @action
    def note(self, detail: Detail) -> Customer:
        return Customer(f"asked for {detail.topic}")

    @achieves_goal(description="Have talked it over")
    def close(self, addressed: Addressed, customer: Customer) -> Output:
        return Output(f"{customer.name}: {addressed.text}")


async def test_an_action_of_the_agent_may_depend_on_a_state_and_one_state_lead_into_another() -> None:
    process = await AgentPlatform([Conversation]).run("Conversation", UserInput("bees"))
    assert process.outcome == Completed(Output("asked for bees in detail: bees in detail"))
    assert ran(process)[:2] == ["Conversation.begin", "Open.dig_deeper"]
    assert set(ran(process)[2:4]) == {"Detail.resolve", "Conversation.note"}


class Mistaken(State):
    @achieves_goal(description="Be right")
    def end(self) -> Output:
        return "wrong"  # type: ignore[return-value]


@agent(description="Leads to a mistake")
class Leads:
    @action
    def begin(self, user_input: UserInput) -> Mistaken:
        return Mistaken()


async def test_a_mistake_in_a_state_names_the_state_and_not_its_agent() -> None:
    process = await AgentPlatform([Leads]).run("Leads", UserInput("x"))
    assert process.failure
    assert "Mistaken.end (" in process.failure.reason
    assert "Leads.end" not in process.failure.reason
