"""Routing by types, names and triggers: which way a process takes depends on what comes out, and as what."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from goalport.agents.domain import Named, SomeOf, UserInput, achieves_goal, action, agent
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Completed
from tests.rooms.toy_domain import Horoscope, Person, Writeup


class Intent: ...


class Billing(Intent): ...


class Sales(Intent): ...


@dataclass(frozen=True)
class Either(SomeOf):
    billing: Billing | None = None
    sales: Sales | None = None


@agent(description="d")
class Router:
    @action
    def classify(self, user_input: UserInput) -> Intent | None:
        return {"bill": Billing(), "sell": Sales()}.get(user_input.content)

    @action
    def bill(self, intent: Billing) -> Horoscope:
        return Horoscope("billed")

    @action
    def sell(self, intent: Sales) -> Horoscope:
        return Horoscope("sold")

    @achieves_goal(description="g")
    def write(self, horoscope: Horoscope) -> Writeup:
        return Writeup(horoscope.text)


@pytest.mark.parametrize(("said", "done"), [("bill", "billed"), ("sell", "sold")])
async def test_the_subtype_that_comes_out_decides_the_way(said: str, done: str) -> None:
    process = await AgentPlatform([Router]).run("Router", UserInput(said))
    assert process.outcome == Completed(Writeup(done))


@pytest.mark.parametrize(("said", "done"), [("bill", "billed"), ("sell", "sold")])
async def test_unions_and_results_of_several_parts_route_too(said: str, done: str) -> None:
    @agent(description="d")
    class ByUnion(Router):
        def classify(self, user_input: UserInput) -> Billing | Sales:
            return Billing() if user_input.content == "bill" else Sales()

    @agent(description="d")
    class ByParts(Router):
        def classify(self, user_input: UserInput) -> Either:  # type: ignore[override]
            return Either(billing=Billing()) if user_input.content == "bill" else Either(sales=Sales())

    platform = AgentPlatform([ByUnion, ByParts])
    for name in ("ByUnion", "ByParts"):
        assert (await platform.run(name, UserInput(said))).outcome == Completed(Writeup(done))


async def test_collections_are_told_apart_by_their_elements() -> None:
    @agent(description="d")
    class Lists:
        @action
        def people(self, user_input: UserInput) -> list[Person]:
            return [Person(each) for each in user_input.content.split()]

        @action
        def stars(self, people: list[Person]) -> list[Horoscope]:
            return [Horoscope(each.name) for each in people]

        @achieves_goal(description="g")
        def write(self, stars: list[Horoscope]) -> Writeup:
            return Writeup(" ".join(each.text for each in stars))

    process = await AgentPlatform([Lists]).run("Lists", UserInput("a b"))
    assert process.outcome == Completed(Writeup("a b"))


async def test_a_name_tells_objects_of_one_type_apart() -> None:
    @agent(description="d")
    class Names:
        @action(output_binding="guest")
        def invite(self, host: Annotated[Person, Named("host")]) -> Person:
            return Person(f"{host.name}'s guest")

        @achieves_goal(description="g")
        def write(self, host: Annotated[Person, Named("host")], guest: Annotated[Person, Named("guest")]) -> Writeup:
            return Writeup(f"{host.name} and {guest.name}")

    process = await AgentPlatform([Names]).run("Names", bindings={"host": Person("Ada")})
    assert process.outcome == Completed(Writeup("Ada and Ada's guest"))


async def test_a_trigger_fires_for_what_came_last() -> None:
    @agent(description="d")
    class Reacts:
        @achieves_goal(description="one")
        @action(trigger=Person)
        def to_person(self, person: Person, horoscope: Horoscope) -> Writeup:
            return Writeup("person came last")

        @achieves_goal(description="two")
        @action(trigger=Horoscope)
        def to_horoscope(self, person: Person, horoscope: Horoscope) -> Writeup:
            return Writeup("horoscope came last")

    platform = AgentPlatform([Reacts])
    one = await platform.run("Reacts", Person("a"), Horoscope("b"))
    two = await platform.run("Reacts", Horoscope("b"), Person("a"))
    assert one.outcome == Completed(Writeup("horoscope came last"))
    assert two.outcome == Completed(Writeup("person came last"))
