"""What the platform says of plans that nobody has started."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import pytest

from goalport.agents.domain import (
    Export,
    Named,
    PlannerType,
    UserInput,
    achieves_goal,
    action,
    agent,
    component,
    condition,
)
from goalport.base.errors import DeploymentError, UnknownName
from goalport.runtime.platform import AgentPlatform


@dataclass(frozen=True)
class City:
    name: str


@dataclass(frozen=True)
class Capital(City):
    country: str


@dataclass(frozen=True)
class Period:
    days: int


@dataclass(frozen=True)
class Weather:
    text: str


@dataclass(frozen=True)
class Trip:
    content: str


@agent(description="Plans trips")
class Trips:
    @action(cost=0.5)
    def look(self, city: City, period: Period) -> Weather:
        return Weather("fine")

    @action
    def guess(self, user_input: UserInput) -> Weather:
        return Weather("who knows")

    @achieves_goal(description="Plan a trip")
    def plan(self, city: City, weather: Weather) -> Trip:
        return Trip("go")

    @achieves_goal(
        description="Plan a trip elsewhere", export=Export(name="elsewhere", starting_input_types=[Capital, UserInput])
    )
    def elsewhere(self, city: City) -> Trip:
        return Trip("stay")


def started_from(declared: object, goal: str, *others: object) -> Sequence[object]:
    return AgentPlatform([declared, *others]).starting_types(goal)


def test_a_goal_starts_from_the_types_that_its_plan_needs_and_no_action_makes() -> None:
    assert started_from(Trips, "plan") == (City, UserInput)


def test_declared_start_types_win() -> None:
    assert started_from(Trips, "elsewhere") == (Capital, UserInput)


def test_a_component_that_makes_a_type_makes_it_no_longer_needed() -> None:
    @component
    class Atlas:
        @action
        def find(self, user_input: UserInput) -> City:
            return City(user_input.content)

    assert started_from(Trips, "plan", Atlas) == (UserInput,)


def test_a_subtype_is_good_enough_and_a_supertype_is_not() -> None:
    platform = AgentPlatform([Trips])
    assert platform.explain("elsewhere", [Capital]).plan is not None

    @agent(description="d")
    class Only:
        @achieves_goal(description="g")
        def visit(self, capital: Capital) -> Trip:
            return Trip("go")

    found = AgentPlatform([Only]).explain("visit", [City])
    assert found.plan is None
    assert "Capital" in found.summary()


def test_what_cannot_be_reached_is_explained() -> None:
    @agent(description="d")
    class Circle:
        @action
        def one(self, period: Period) -> Weather:
            return Weather("")

        @action
        def two(self, weather: Weather) -> Period:
            return Period(1)

        @achieves_goal(description="g")
        def finish(self, period: Period) -> Trip:
            return Trip("")

    platform = AgentPlatform([Circle])
    assert platform.starting_types("finish") == ()
    assert "Period" in platform.explain("finish").summary()


def test_collections_are_start_types_too() -> None:
    @agent(description="d")
    class Tours:
        @achieves_goal(description="g")
        def tour(self, cities: list[City]) -> Trip:
            return Trip(cities[0].name)

    assert started_from(Tours, "tour") == (list[City],)


def test_inputs_with_names_of_their_own_are_not_given_by_type() -> None:
    @agent(description="d")
    class Hosts:
        @achieves_goal(description="g")
        def invite(self, home: Annotated[City, Named("home")]) -> Trip:
            return Trip(home.name)

    platform = AgentPlatform([Hosts])
    assert platform.starting_types("invite") == ()
    assert "named home" in platform.explain("invite", [City]).summary()


def test_conditions_count_as_open_and_the_plan_says_so() -> None:
    @agent(description="d")
    class Checks:
        @condition
        def sunny(self) -> bool:
            raise AssertionError

        @achieves_goal(description="g")
        @action(pre=["sunny"])
        def walk(self, city: City) -> Trip:
            return Trip("")

    found = AgentPlatform([Checks]).explain("walk", [City])
    assert found.plan is not None
    assert "sunny" in found.text()


def test_a_condition_on_what_is_made_on_the_way_counts_as_it_will_when_the_plan_is_made() -> None:
    class Walks:
        @condition
        def short(self, trip: Trip) -> bool:
            return True

        @action
        def draw_up(self, city: City) -> Trip:
            return Trip(city.name)

        @achieves_goal(description="g")
        @action(pre=["short"])
        def walk(self, trip: Trip) -> Capital:
            return Capital("", "")

    planned = agent(description="d", name="Planned")(type("Planned", (Walks,), {}))
    watchful = agent(description="d", name="Watchful", planner=PlannerType.UTILITY)(type("Watchful", (Walks,), {}))
    platform = AgentPlatform([planned, watchful])

    assert "no action makes it true" in platform.explain("Planned.walk", [City]).summary()
    assert platform.explain("Watchful.walk", [City]).plan is not None
    assert platform.explain("Planned.walk", [City, Trip]).plan is not None


def test_goals_are_found_by_each_of_their_names_unless_several_bear_one() -> None:
    @agent(description="d")
    class Others:
        @achieves_goal(description="g")
        def plan(self, city: City) -> Trip:
            return Trip("")

    platform = AgentPlatform([Trips, Others])
    assert platform.agents.goal("Trips.elsewhere")[1] == platform.agents.goal("elsewhere")[1]
    with pytest.raises(DeploymentError, match=r"Trips.plan or Others.plan"):
        platform.agents.goal("plan")
    with pytest.raises(UnknownName, match="Did you mean 'elsewhere'"):
        platform.agents.goal("elswhere")
