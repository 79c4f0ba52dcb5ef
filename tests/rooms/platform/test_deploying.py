"""Deploying and asking: what cannot work together is said when it is deployed, and results are found by any type."""

import gc
from typing import Annotated
from weakref import ref

import pytest

from goalport.domain import Provided, achieves_goal, action, agent, component, condition, cost, read_agent
from goalport.errors import DeclarationError, DeploymentError, GoalportError, ProcessEnded, UnknownName
from goalport.platform import AgentInvocation, AgentPlatform
from tests.rooms.toy_domain import Invoice, Order, Receipt


class Clock:
    """A service."""


@agent(description="d")
class Bills:
    @achieves_goal(description="g")
    async def bill(self, order: Order) -> Invoice:
        return Invoice(order.item)


@agent(description="d")
class BillsAll:
    @achieves_goal(description="g")
    async def bill_all(self, order: Order) -> list[Invoice]:
        return [Invoice(order.item)]


@agent(description="d")
class Either:
    @achieves_goal(description="g")
    async def either(self, order: Order) -> Invoice | Receipt:
        return Receipt(order.item)


async def test_a_result_may_be_asked_for_by_any_type() -> None:
    both = AgentInvocation.on(AgentPlatform([Bills, BillsAll]))
    assert await both.returning(list[Invoice]).invoke(Order("tea")) == [Invoice("tea")]
    assert await both.returning(Invoice).invoke(Order("tea")) == Invoice("tea")
    assert await AgentInvocation.on(AgentPlatform([Either])).returning(Receipt).invoke(Order("tea")) == Receipt("tea")
    with pytest.raises(GoalportError, match=r"gives list\[Receipt\]\. Goals here give: Invoice, list\[Invoice\]"):
        await both.returning(list[Receipt]).invoke(Order("tea"))


async def test_a_result_of_another_type_is_said_to_be_missing() -> None:
    process = await AgentPlatform([Bills]).run("Bills", Order("tea"))
    with pytest.raises(ProcessEnded, match=r"there is no int \| str"):
        process.result_of_type(int | str)  # type: ignore[arg-type]


def test_a_goal_that_is_not_deployed_is_unknown() -> None:
    with pytest.raises(UnknownName, match=r"BillsAll\.bill_all"):
        AgentPlatform([Bills]).explain(read_agent(BillsAll).goals[0])


def test_an_agent_whose_goals_were_explained_is_freed_when_it_is_undeployed() -> None:
    bills = Bills()
    freed, platform = ref(bills), AgentPlatform([bills])
    assert platform.explain("bill", platform.starting_types("bill")).plan is not None
    platform.undeploy("Bills")
    del bills
    gc.collect()
    assert freed() is None


def test_conditions_and_costs_get_their_services_too_or_are_refused() -> None:
    @component
    class Asks:
        @condition
        def early(self, clock: Annotated[Clock, Provided]) -> bool:
            return True

    @component
    class Prices:
        @cost
        def effort(self, clock: Annotated[Clock, Provided]) -> float:
            return 1

        @action(cost_method="effort")
        def pay(self, invoice: Invoice) -> Receipt:
            return Receipt(invoice.text)

    AgentPlatform([Asks, Prices], services=[Clock()])
    for declared, name in ((Asks, "early"), (Prices, "effort")):
        with pytest.raises(DeploymentError, match=f"{name}.*Clock.*services="):
            AgentPlatform([declared])


def test_components_that_clash_are_refused_when_they_are_deployed_and_harm_no_agent() -> None:
    @component
    class One:
        @condition
        def ready(self) -> bool:
            return True

    @component
    class Other:
        @condition
        def ready(self) -> bool:
            return True

    platform = AgentPlatform([Bills, One])
    with pytest.raises(DeclarationError, match="'ready'"):
        platform.deploy(Other)
    assert [each.name for each in platform.agents.components] == ["One"]
    assert platform.explain("bill", [Order]).plan is not None
    with pytest.raises(DeclarationError, match="'ready'"):
        AgentPlatform([One, Other])
