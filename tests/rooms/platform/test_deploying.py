"""Deploying and asking: what cannot work together is said when it is deployed, and results are found by any type."""

import gc
from abc import ABC, abstractmethod
from typing import Annotated, Any
from weakref import ref

import pytest

from goalport.agents.domain import Provided, achieves_goal, action, agent, component, condition, cost, read_agent
from goalport.base.errors import DeclarationError, DeploymentError, GoalportError, ProcessEnded, UnknownName
from goalport.runtime.platform import AgentInvocation, AgentPlatform
from goalport.testing import plan_of
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


@pytest.mark.parametrize("given", [Bills, Bills(), "Bills", read_agent(Bills)])
def test_one_agent_in_place_of_a_list_is_told(given: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected agents to be a list, but got .*Bills.*Write AgentPlatform\(\[…\]\)"):
        AgentPlatform(given)


def test_an_abstract_agent_is_told_with_what_it_lacks() -> None:
    @agent(description="d")
    class Sketch(ABC):
        @abstractmethod
        def think(self) -> None: ...

        @achieves_goal(description="g")
        async def bill(self, order: Order) -> Invoice:
            return Invoice(order.item)

    with pytest.raises(DeclarationError, match=r"Sketch \(.*py:\d+\): .*it is abstract: it lacks think"):
        AgentPlatform([Sketch])


def test_a_process_needs_an_event_loop_and_says_so() -> None:
    with pytest.raises(GoalportError, match=r"running event loop.*there is none.*invoke_sync"):
        AgentPlatform([Bills]).start("Bills", Order("tea"))


@pytest.mark.parametrize(("first", "name"), [("tea", Bills), (Order("tea"), "Bills"), (Order("tea"), Bills())])
async def test_an_agent_among_the_inputs_is_told(first: Any, name: Any) -> None:
    with pytest.raises(
        TypeError, match=r"Expected an agent and then its inputs, but got .*tea.* first\. Write '?Bills"
    ):
        await AgentPlatform([Bills]).run(first, name)


async def test_what_names_no_agent_stays_unknown_where_no_input_does() -> None:
    with pytest.raises(UnknownName, match=r"Unknown agent 'Bils'\. Did you mean 'Bills'"):
        await AgentPlatform([Bills]).run("Bils", Order("tea"))


def test_an_object_in_place_of_its_type_is_told_where_a_plan_is_asked_for() -> None:
    with pytest.raises(TypeError, match=r"given to hold types, but got Order\(.*Write the class, not an instance"):
        plan_of(Bills, given=[Order("tea")])


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
