"""Parameters that are put together of several objects on the blackboard."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from goalport.domain import Aggregation, Export, achieves_goal, action, agent, condition
from goalport.errors import DeclarationError
from goalport.platform import AgentPlatform, mistakes_in
from goalport.process import Completed, Stuck


@dataclass(frozen=True)
class Person:
    name: str


@dataclass(frozen=True)
class Home:
    city: str


@dataclass(frozen=True)
class Pet:
    name: str


@dataclass(frozen=True)
class Letter:
    text: str


class Household(Aggregation):
    person: Person
    home: Home
    pet: Pet | None
    motto: str = "none"


class Family(BaseModel, Aggregation, frozen=True):
    people: list[Person]
    home: Home


@agent(description="Writes letters")
class Writer:
    @action
    async def find_home(self, person: Person) -> Home:
        return Home(f"the city of {person.name}")

    @achieves_goal(description="A letter", export=Export(remote=True, starting_input_types=[Person, Household]))
    async def write(self, household: Household) -> Letter:
        pet = household.pet.name if household.pet else "no pet"
        return Letter(f"{household.person.name}, {household.home.city}, {pet}, {household.motto}")


async def test_a_parameter_is_put_together_of_the_newest_objects() -> None:
    platform = AgentPlatform([Writer])
    process = await platform.run("Writer", Person("Ada"))
    assert process.outcome == Completed(Letter("Ada, the city of Ada, no pet, none"))
    assert [each.action for each in process.history] == ["Writer.find_home", "Writer.write"]

    process = await platform.run("Writer", Person("Ada"), Home("Rome"), Pet("Rex"), Home("Oslo"))
    assert process.outcome == Completed(Letter("Ada, Oslo, Rex, none"))


async def test_while_a_part_is_missing_the_parameter_is_too() -> None:
    process = await AgentPlatform([Writer]).run("Writer", Home("Rome"))
    assert isinstance(process.outcome, Stuck)
    assert "it needs a Person" in process.outcome.reason


async def test_an_object_that_was_put_together_brings_its_parts() -> None:
    process = await AgentPlatform([Writer]).run("Writer", Household(Person("Bob"), Home("Bonn"), Pet("Tom")))
    assert process.outcome == Completed(Letter("Bob, Bonn, Tom, none"))
    assert process.last(Home) == Home("Bonn")


async def test_a_model_may_be_one_and_conditions_may_take_one() -> None:
    @agent(description="Counts")
    class Counter:
        @condition
        def large(self, family: Family) -> bool:
            return len(family.people) > 1

        @achieves_goal(description="Count")
        @action(pre=["large"])
        def count(self, family: Family | None) -> Letter:
            return Letter(f"{len(family.people)} in {family.home.city}" if family else "nobody")

    platform = AgentPlatform([Counter])
    process = await platform.run("Counter", [Person("a"), Person("b")], Home("Ulm"))
    assert process.outcome == Completed(Letter("2 in Ulm"))
    for given in ([[Person("a")], Home("Ulm")], [[Person("a"), Person("b")]]):
        assert isinstance((await platform.run("Counter", *given)).outcome, Stuck)


def test_plans_are_foreseen_from_the_parts_and_from_the_whole() -> None:
    platform = AgentPlatform([Writer])
    assert not list(mistakes_in(platform.agents, platform.groups))
    for given in ([Person], [Household], [Person, Home]):
        assert platform.explain("write", given).plan is not None
    assert platform.explain("write", [Home]).plan is None


class Empty(Aggregation):
    pass


class Vague(Aggregation):
    thing: Any


@agent(description="Odd")
class TakesEmpty:
    @achieves_goal(description="Odd")
    def odd(self, whole: Empty) -> Letter:
        return Letter(str(whole))


@agent(description="Odd")
class TakesVague:
    @achieves_goal(description="Odd")
    def odd(self, whole: Vague) -> Letter:
        return Letter(str(whole))


@pytest.mark.parametrize(
    ("kind", "words"), [(TakesEmpty, "Empty has no fields"), (TakesVague, "any object would match")]
)
def test_what_cannot_be_put_together_is_told_when_it_is_read(kind: type, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        AgentPlatform([kind])
