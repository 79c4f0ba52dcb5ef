"""Inputs of unusual types and names: bare lists, NewTypes, literals, fixed tuples, names that nobody asked for."""

from dataclasses import dataclass
from typing import Literal, NewType

import pytest

from goalport.agents.blackboard import Blackboard
from goalport.agents.domain import UserInput, achieves_goal, action, agent, cost, state
from goalport.base.errors import UnknownName
from goalport.base.events import Event, ObjectBound
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Completed, Failed, OperationContext, ProcessOptions
from goalport.testing import plan_of
from tests.rooms.toy_domain import Horoscope, Person, Writeup

UserId = NewType("UserId", str)
Level = Literal["low", "high"]


async def test_a_list_without_an_element_type_takes_any_list() -> None:
    @agent(description="d")
    class Counts:
        @action
        def people(self, user_input: UserInput) -> list[Person]:
            return [Person(each) for each in user_input.content.split()]

        @achieves_goal(description="g")
        def write(self, things: list) -> Writeup:  # type: ignore[type-arg]
            return Writeup(str(len(things)))  # pyright: ignore[reportUnknownArgumentType]

    process = await AgentPlatform([Counts]).run("Counts", UserInput("Ada Bo"))
    assert process.outcome == Completed(Writeup("2"))


async def test_lists_of_literals_and_lists_of_objects_are_told_apart() -> None:
    @agent(description="d")
    class Grades:
        @action
        def grade(self, user_input: UserInput) -> list[Level]:
            return ["low"]

        @action
        def name(self, user_input: UserInput) -> list[Person]:
            return [Person(user_input.content)]

        @achieves_goal(description="g")
        def write(self, levels: list[Level], people: list[Person]) -> Writeup:
            return Writeup(f"{levels[0]} {people[0].name}")

    process = await AgentPlatform([Grades]).run("Grades", UserInput("Ada"))
    assert process.outcome == Completed(Writeup("low Ada"))


async def test_options_among_the_inputs_are_refused_with_where_they_belong() -> None:
    @agent(description="d")
    class Greets:
        @achieves_goal(description="g")
        def write(self, user_input: UserInput) -> Writeup:
            return Writeup(user_input.content)

    with pytest.raises(TypeError, match=r"but got ProcessOptions\. Write options=…"):
        await AgentPlatform([Greets]).run("Greets", UserInput("Ada"), ProcessOptions())


async def test_a_new_type_is_taken_for_the_type_that_it_names() -> None:
    @agent(description="d")
    class Greets:
        @action
        def identify(self, user_input: UserInput) -> UserId:
            return UserId(user_input.content)

        @achieves_goal(description="g")
        def write(self, user: UserId) -> Writeup:
            return Writeup(f"user {user}")

    process = await AgentPlatform([Greets]).run("Greets", UserInput("ada"))
    assert process.outcome == Completed(Writeup("user ada"))


async def test_a_literal_takes_only_the_values_that_it_lists() -> None:
    @agent(description="d")
    class Alarms:
        @action
        def measure(self, user_input: UserInput) -> list[Level]:
            return user_input.content.split()  # type: ignore[return-value]

        @achieves_goal(description="g")
        def write(self, levels: list[Level]) -> Writeup:
            return Writeup(" ".join(levels))

    platform = AgentPlatform([Alarms])
    assert (await platform.run("Alarms", UserInput("high low"))).outcome == Completed(Writeup("high low"))
    assert isinstance((await platform.run("Alarms", UserInput("high medium"))).outcome, Failed)


async def test_a_fixed_tuple_is_told_from_one_of_other_types_or_another_length() -> None:
    @agent(description="d")
    class Pairs:
        @action
        def one(self, user_input: UserInput) -> tuple[Person, int]:
            return Person(user_input.content), 1

        @action
        def other(self, user_input: UserInput) -> tuple[Person, Person]:
            return Person("a"), Person("b")

        @achieves_goal(description="g")
        def write(self, numbered: tuple[Person, int], pair: tuple[Person, Person]) -> Writeup:
            return Writeup(f"{numbered[0].name} {numbered[1]} {pair[1].name}")

    process = await AgentPlatform([Pairs]).run("Pairs", UserInput("Ada"))
    assert process.outcome == Completed(Writeup("Ada 1 b"))


async def test_a_named_output_serves_parameters_that_ask_for_no_name() -> None:
    @agent(description="d")
    class Named:
        @action(output_binding="guest")
        def invite(self, user_input: UserInput) -> Person:
            return Person(user_input.content)

        @achieves_goal(description="g")
        def write(self, person: Person) -> Writeup:
            return Writeup(person.name)

    platform = AgentPlatform([Named])
    assert [step.rpartition(".")[2] for step in plan_of(Named, given=[UserInput])] == ["invite", "write"]
    assert (await platform.run("Named", UserInput("Ada"))).outcome == Completed(Writeup("Ada"))


async def test_what_is_put_on_the_blackboard_is_told_with_its_name_and_type() -> None:
    told: list[tuple[str, str]] = []

    class Ears:
        def on_event(self, event: Event, /) -> None:
            if isinstance(event, ObjectBound):
                told.append((event.name, event.type_name.rpartition(".")[2]))

    @agent(description="d")
    class Named:
        @action(output_binding="guest")
        def invite(self, user_input: UserInput) -> Person:
            return Person(user_input.content)

        @achieves_goal(description="g")
        def write(self, person: Person, context: OperationContext) -> Writeup:
            context.blackboard["mood"] = Horoscope("sunny")
            return Writeup(person.name)

    await AgentPlatform([Named], listeners=[Ears()]).run(
        "Named", UserInput("Ada"), bindings={"mood": Horoscope("dull")}
    )
    assert told == [
        ("it", "UserInput"),
        ("mood", "Horoscope"),
        ("guest", "Person"),
        ("mood", "Horoscope"),
        ("it", "Writeup"),
    ]


def test_a_cleared_blackboard_has_no_last_result_so_that_no_trigger_fires() -> None:
    board = Blackboard()
    board.add(Person("Ada"))
    board.set_condition("checked", True)
    board.clear()
    assert board.last_result is None
    assert board.get_condition("checked") is None
    assert board.last(Person) is None


@state
@dataclass(frozen=True)
class Sorting:
    text: str

    @cost
    def slow_cost(self, horoscope: Horoscope | None) -> float:
        return 0.1 if horoscope is not None else 9.0

    @achieves_goal(description="slow")
    @action(cost_method="slow_cost")
    def slow(self) -> Writeup:
        return Writeup(f"slow {self.text}")

    @achieves_goal(description="quick")
    @action(cost=1.0)
    def quick(self) -> Writeup:
        return Writeup(f"quick {self.text}")


async def test_a_cost_method_of_a_state_decides_between_its_actions() -> None:
    @agent(description="d")
    class Sorts:
        @action
        def begin(self, user_input: UserInput) -> Sorting:
            return Sorting(user_input.content)

    platform = AgentPlatform([Sorts])
    assert (await platform.run("Sorts", UserInput("a"))).outcome == Completed(Writeup("quick a"))
    sunny = await platform.run("Sorts", UserInput("a"), Horoscope("sunny"))
    assert sunny.outcome == Completed(Writeup("slow a"))


async def test_an_inherited_action_is_dropped_by_setting_its_name_to_none() -> None:
    class Walks:
        @achieves_goal(description="go")
        @action
        def go(self, user_input: UserInput) -> Writeup:
            return Writeup("walked")

    @agent(description="d")
    class Flies(Walks):
        go = None  # type: ignore[assignment]

        @achieves_goal(description="fly")
        @action
        def fly(self, user_input: UserInput) -> Writeup:
            return Writeup("flew")

    platform = AgentPlatform([Flies])
    process = await platform.run("Flies", UserInput("home"))
    assert process.outcome == Completed(Writeup("flew"))
    assert platform.explain("Flies.fly", [UserInput]).steps[0].operator.name == "Flies.fly"
    with pytest.raises(UnknownName, match="go"):
        platform.explain("Flies.go", [UserInput])
