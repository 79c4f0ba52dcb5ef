"""Triggers and what comes out of an action (sections 3.6.6, 3.6.7 and 3.12.14): which way a process takes then."""

from dataclasses import dataclass

import anyio
import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    Blackboard,
    PlannerType,
    ProcessOptions,
    ProcessStatus,
    SomeOf,
    UserInput,
    achieves_goal,
    action,
    agent,
    component,
    cost,
)
from goalport.runtime import Completed

BY_UTILITY = ProcessOptions(planner=PlannerType.UTILITY)


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


@dataclass(frozen=True)
class UserMessage:
    content: str


@dataclass(frozen=True)
class Conversation:
    messages: tuple[UserMessage, ...] = ()


@dataclass(frozen=True)
class Response:
    text: str


@agent(description="Handles messages of a chat")
class ChatAgent:
    @achieves_goal(description="Respond to a message")
    @action(trigger=UserMessage)
    def handle_message(self, message: UserMessage, conversation: Conversation) -> Response:
        return Response(f"Received: {message.content}")


async def test_a_trigger_wants_its_type_to_have_come_last_and_the_rest_to_be_there() -> None:
    platform = AgentPlatform([ChatAgent])
    message, conversation = UserMessage("hi"), Conversation()
    fired = await platform.run("ChatAgent", conversation, message)
    late = await platform.run("ChatAgent", message, conversation)
    alone = await platform.run("ChatAgent", message)
    assert fired.outcome == Completed(Response("Received: hi"))
    assert [late.status, alone.status] == [ProcessStatus.STUCK] * 2


async def test_the_awaited_event_may_come_later() -> None:
    async with AgentPlatform([ChatAgent]) as platform:
        process = await platform.run("ChatAgent", UserMessage("old"), Conversation())
        platform.processes.resume(process, UserMessage("new"))
        with anyio.fail_after(60):
            assert await process.wait() == Completed(Response("Received: new"))


@dataclass(frozen=True)
class EventA:
    number: int = 1


@dataclass(frozen=True)
class EventB:
    number: int = 1


@dataclass(frozen=True)
class Result:
    text: str


@agent(description="Tells two kinds of events apart", planner=PlannerType.UTILITY)
class EventProcessor:
    @action(trigger=EventA)
    def handle_event_a(self, event_a: EventA, event_b: EventB) -> Result:
        return Result("A")

    @achieves_goal(description="Handle event B")
    @action(trigger=EventB)
    def handle_event_b(self, event_a: EventA, event_b: EventB) -> Result:
        return Result("B")


async def test_of_several_reactions_the_one_to_what_just_happened_fires() -> None:
    platform = AgentPlatform([EventProcessor])
    a_last = await platform.run("EventProcessor", EventB(), EventA())
    b_last = await platform.run("EventProcessor", EventA(), EventB())
    only_a = await platform.run("EventProcessor", EventA())
    assert (ran(a_last), a_last.last(Result)) == (["handle_event_a"], Result("A"))
    assert (ran(b_last), b_last.outcome) == (["handle_event_b"], Completed(Result("B")))
    assert ran(only_a) == []


async def test_what_was_bound_under_a_name_can_have_come_last_too() -> None:
    process = await AgentPlatform([ChatAgent]).run(
        "ChatAgent", Conversation(), bindings={"incoming": UserMessage("named")}
    )
    assert process.outcome == Completed(Response("Received: named"))


@component
class ChatActions:
    """Two ways to answer a message: which is better depends on how much there is on the blackboard."""

    @cost
    def effort(self, blackboard: Blackboard) -> float:
        return 100 if len(blackboard.objects) > 5 else 10

    @action(can_rerun=True, trigger=UserMessage, cost_method="effort")
    def think(self, message: UserMessage, context: ActionContext) -> None:
        context.add(Response(f"thought about {message.content}"))

    @action(can_rerun=True, trigger=UserMessage, cost=50)
    def parry(self, message: UserMessage, context: ActionContext) -> None:
        context.add(Response(f"heard {message.content}"))


async def test_a_long_lived_process_answers_each_message_by_its_cheapest_action_once() -> None:
    async with AgentPlatform([ChatActions]) as platform:
        process = await platform.run("ChatActions", UserMessage("one"), options=BY_UTILITY)
        for content in ("two", "three"):
            assert process.status is ProcessStatus.STUCK
            platform.processes.resume(process, UserMessage(content))
            with anyio.fail_after(60):
                await process.wait()
    assert ran(process) == ["think", "think", "think"]
    assert [each.text for each in process.blackboard.all(Response)] == [
        "thought about one",
        "thought about two",
        "thought about three",
    ]
    full = await AgentPlatform([ChatActions]).run(
        "ChatActions", *[Conversation()] * 5, UserMessage("late"), options=BY_UTILITY
    )
    assert ran(full) == ["parry"]


@dataclass(frozen=True)
class Frog:
    name: str


@dataclass(frozen=True)
class Dog:
    name: str


@dataclass(frozen=True)
class Person:
    name: str


@dataclass(frozen=True)
class FrogOrDog(SomeOf):
    frog: Frog | None = None
    dog: Dog | None = None


class ReturnsFrogOrDog:
    def __init__(self, made: FrogOrDog) -> None:
        self.made = made

    @action
    def frog_or_dog(self) -> FrogOrDog:
        return self.made


@agent(description="Makes a prince of a frog")
class Prince(ReturnsFrogOrDog):
    @achieves_goal(description="Make a prince of a frog")
    @action
    def to_person(self, frog: Frog) -> Person:
        return Person(frog.name)


@agent(description="Makes a prince of a frog, a servant of a dog")
class Household(Prince):
    @achieves_goal(description="Make a servant of a dog")
    @action(cost=0.5)
    def to_servant(self, dog: Dog) -> Person:
        return Person(f"{dog.name}, who serves")


async def test_the_field_that_was_set_is_there_for_the_next_action() -> None:
    process = await AgentPlatform([Prince(FrogOrDog(frog=Frog("Kermit")))]).run("Prince")
    assert process.outcome == Completed(Person("Kermit"))
    other = await AgentPlatform([Prince(FrogOrDog(dog=Dog("Duke")))]).run("Prince")
    assert other.status is ProcessStatus.STUCK
    assert other.last(Dog) == Dog("Duke")


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (FrogOrDog(frog=Frog("Kermit")), "Kermit"),
        (FrogOrDog(dog=Dog("Duke")), "Duke, who serves"),
        (FrogOrDog(Frog("Kermit"), Dog("Duke")), "Kermit"),
    ],
)
async def test_several_fields_may_be_set_and_the_best_way_from_there_is_taken(made: FrogOrDog, name: str) -> None:
    process = await AgentPlatform([Household(made)]).run("Household")
    assert process.outcome == Completed(Person(name))


class Intent: ...


class Billing(Intent): ...


class Sales(Intent): ...


@agent(description="Receives people by what they want")
class Reception:
    @action
    def classify(self, user_input: UserInput) -> Intent | None:
        return {"billing": Billing(), "sales": Sales()}.get(user_input.content)

    @achieves_goal(description="Success at billing")
    def bill(self, intent: Billing) -> Result:
        return Result("billing")

    @achieves_goal(description="Success at sales")
    def sell(self, intent: Sales) -> Result:
        return Result("sales")


@agent(description="Receives people, and has a person for the rest")
class StaffedReception(Reception):
    @achieves_goal(description="Success by hand")
    @action(cost=0.9)
    def by_hand(self, user_input: UserInput) -> Result:
        return Result("a person")


@pytest.mark.parametrize(
    ("said", "by", "steps"),
    [
        ("billing", "billing", ["classify", "bill"]),
        ("sales", "sales", ["classify", "sell"]),
        ("what?", "a person", ["classify", "by_hand"]),
    ],
)
async def test_the_subtype_decides_and_nothing_at_all_leads_another_way(said: str, by: str, steps: list[str]) -> None:
    process = await AgentPlatform([StaffedReception]).run("StaffedReception", UserInput(said))
    assert process.outcome == Completed(Result(by))
    assert ran(process) == steps


async def test_nothing_at_all_without_another_way_leaves_the_process_stuck() -> None:
    process = await AgentPlatform([Reception]).run("Reception", UserInput("what?"))
    assert process.status is ProcessStatus.STUCK
    assert ran(process) == ["classify"]
