"""Resolvers of one's own: they fill the parameters that they claim, before everything else, and plans ignore those."""

import inspect
from dataclasses import dataclass
from typing import Annotated

from goalport.agents.domain import achieves_goal, action, agent, condition, cost, state
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionContext, ArgumentResolver, Completed, Failed, OperationContext
from tests.rooms.toy_domain import Parcel


@dataclass(frozen=True)
class Order:
    text: str


@dataclass(frozen=True)
class Clock:
    shows: str


class Clocks:
    """Fills every parameter that is a clock."""

    def __init__(self, shows: str) -> None:
        self.shows = shows

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        return parameter.annotation is Clock

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        return Clock(f"{parameter.name} of {context.process.agent.name}: {self.shows}")


class Headers:
    """Fills what is marked with `Header`."""

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        return any(isinstance(each, Header) for each in getattr(parameter.annotation, "__metadata__", ()))

    def resolve(self, parameter: inspect.Parameter, _: ActionContext, /) -> object:
        (header,) = parameter.annotation.__metadata__
        return {"x-tenant": "acme"}[header.name]


@dataclass(frozen=True)
class Header:
    name: str


@agent(description="Sends")
class Sender:
    @condition
    async def open(self, clock: Clock) -> bool:
        return clock.shows.endswith("noon")

    @cost
    async def price(self, clock: Clock) -> float:
        return float(len(clock.shows))

    @achieves_goal(description="Send")
    @action(pre=["open"], cost_method="price")
    async def send(
        self, order: Order, clock: Clock, tenant: Annotated[str, Header("x-tenant")], context: OperationContext
    ) -> Parcel:
        return Parcel(f"{order.text} for {tenant} at {clock.shows} by {context.process.agent.name}")


async def test_a_resolver_fills_what_it_claims_and_the_blackboard_the_rest() -> None:
    platform = AgentPlatform([Sender], services=[Clocks("noon"), Headers()])
    process = await platform.run("Sender", Order("pins"))
    assert process.outcome == Completed(Parcel("pins for acme at clock of Sender: noon by Sender"))
    assert platform.starting_types("send") == (Order,)


async def test_the_first_resolver_that_claims_a_parameter_counts_and_it_comes_before_the_blackboard() -> None:
    platform = AgentPlatform([Sender], services=[Clocks("noon"), Clocks("midnight"), Headers()])
    process = await platform.run("Sender", Clock("teatime"), Order("pins"))
    assert process.outcome == Completed(Parcel("pins for acme at clock of Sender: noon by Sender"))


async def test_a_resolver_that_fails_fails_the_action() -> None:
    class Broken(Headers):
        def resolve(self, parameter: inspect.Parameter, _: ActionContext, /) -> object:
            raise LookupError(parameter.name)

    process = await AgentPlatform([Sender], services=[Clocks("noon"), Broken()]).run("Sender", Order("pins"))
    assert isinstance(process.outcome, Failed)
    assert process.outcome.reason == "Sender.send failed: LookupError: tenant"


@state
@dataclass(frozen=True)
class Packed:
    text: str

    @achieves_goal(description="Hand over")
    async def hand_over(self, clock: Clock) -> Parcel:
        return Parcel(f"{self.text}, {clock.shows}")


@agent(description="Packs")
class Packer:
    @action
    async def pack(self, order: Order) -> Packed:
        return Packed(order.text)


async def test_the_actions_of_states_have_resolved_parameters_too() -> None:
    process = await AgentPlatform([Packer], services=[Clocks("noon")]).run("Packer", Order("pins"))
    assert process.outcome == Completed(Parcel("pins, clock of Packer: noon"))


def test_what_resolvers_look_like_is_a_protocol() -> None:
    assert isinstance(Clocks("noon"), ArgumentResolver)
    assert not isinstance(object(), ArgumentResolver)
