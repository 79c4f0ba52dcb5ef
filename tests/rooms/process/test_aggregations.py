"""Parameters that are put together of several objects on the blackboard."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

from goalport.agents.domain import Aggregation, Export, achieves_goal, action, agent, condition, cost
from goalport.base.errors import DeclarationError
from goalport.runtime.platform import AgentPlatform, mistakes_in
from goalport.runtime.process import Completed, Stuck
from tests.rooms.toy_domain import Person

T = TypeVar("T")


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


@dataclass(frozen=True)
class Pair(Aggregation, Generic[T]):
    one: T
    home: Home


class Line(Aggregation):
    """Somebody in a line, which begins with somebody else where that has been put together."""

    person: Person
    before: "Line | None" = None


class Street(Aggregation):
    household: Household


async def test_one_that_is_generic_is_put_together_too() -> None:
    @agent(description="Visits")
    class Visitor:
        @achieves_goal(description="Visit")
        async def visit(self, pair: Pair[Pet]) -> Letter:
            return Letter(f"{pair.one.name} in {pair.home.city}")

    platform = AgentPlatform([Visitor])
    assert platform.explain("visit", [Pet, Home]).plan is not None
    assert (await platform.run("Visitor", Pet("Rex"), Home("Ulm"))).outcome == Completed(Letter("Rex in Ulm"))
    assert isinstance((await platform.run("Visitor", Person("Ada"), Home("Ulm"))).outcome, Stuck)


async def test_a_part_that_is_an_aggregation_itself_has_to_be_there_as_a_whole() -> None:
    @agent(description="Goes")
    class Goer:
        @achieves_goal(description="Go")
        async def go(self, line: Line) -> Letter:
            return Letter(f"{line.person.name} after {line.before and line.before.person.name}")

        @achieves_goal(description="Look")
        async def look(self, street: Street) -> list[Letter]:
            return [Letter(street.household.person.name)]

    platform = AgentPlatform([Goer])
    assert (await platform.run("Goer", Person("Ada"))).outcome == Completed(Letter("Ada after None"))
    process = await platform.run("Goer", Person("Ada"), Line(Person("Bob")))
    assert process.outcome == Completed(Letter("Bob after Bob"))
    assert platform.explain("look", [Person, Home]).plan is None
    assert platform.explain("look", [Household]).plan is not None


async def test_a_cost_that_looks_at_one_is_foreseen_only_while_it_cannot_be_put_together() -> None:
    @agent(description="Moves")
    class Mover:
        @cost
        def far(self, household: Household | None) -> float:
            return 0.2 if household is None else 0.7

        @achieves_goal(description="Move")
        @action(cost_method="far", cost=0.5)
        async def move(self, person: Person) -> Letter:
            return Letter(person.name)

    platform = AgentPlatform([Mover])
    alone, with_home = (platform.explain("move", given) for given in ([Person], [Person, Home]))
    assert alone.plan is not None
    assert with_home.plan is not None
    assert (alone.plan.cost, with_home.plan.cost) == (0.2, 0.5)
    assert "far looks at a Household" in with_home.notes[0]
