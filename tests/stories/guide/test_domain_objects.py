"""Domain objects with behaviour of their own (sections 3.4, 4.1 and 3.29.2): used in code, and as tools on purpose."""

from dataclasses import dataclass, field

import pytest

from goalport import (
    ActionContext,
    AgentInvocation,
    AgentPlatform,
    Tool,
    ToolGroup,
    UserInput,
    achieves_goal,
    action,
    agent,
    tool,
)
from goalport.runtime import ProcessStatus


@dataclass
class Customer:
    name: str
    orders: list[float] = field(default_factory=list[float])
    level: int = 1

    @tool(description="The customer's discount in percent")
    def loyalty_discount(self) -> float:
        return min(5.0 * len(self.orders), 20.0)

    @tool(description="Whether the customer may have premium service")
    def is_premium_eligible(self) -> bool:
        return sum(self.orders) > 1000

    def update_loyalty_level(self) -> None:
        self.level += 1


@dataclass(frozen=True)
class Recommendation:
    text: str


@agent(description="Recommends something to customers")
class Recommends:
    @achieves_goal(description="Recommend")
    @action(tool_groups=["catalogue"])
    async def recommend(self, customer: Customer, context: ActionContext) -> Recommendation:
        offered = ", ".join(each.name for each in context.tools)
        service = "premium" if customer.is_premium_eligible() else "standard"
        return Recommendation(f"{customer.name}: {service}, {customer.loyalty_discount():g} %, tools: {offered}")


def find(topic: str) -> str:
    """Find in the catalogue."""
    return topic


ANN = Customer("Ann", [600, 700])


async def test_an_action_uses_what_an_object_can_do_and_a_plan_rests_on_the_object() -> None:
    platform = AgentPlatform([Recommends], tool_groups=[ToolGroup.of("catalogue", find)])
    found = await AgentInvocation.on(platform).returning(Recommendation).invoke(ANN)
    assert found.text.startswith("Ann: premium, 10 %")
    assert (await platform.run("Recommends", UserInput("Ann"))).status is ProcessStatus.STUCK


async def test_marked_methods_are_no_tools_of_an_action_unless_somebody_says_so() -> None:
    platform = AgentPlatform([Recommends], tool_groups=[ToolGroup.of("catalogue", find)])
    found = await AgentInvocation.on(platform).returning(Recommendation).invoke(ANN)
    assert found.text.endswith("tools: find")


async def test_only_marked_methods_become_tools_of_an_object_and_they_answer_for_it() -> None:
    tools = {each.name: each for each in Tool.from_instance(ANN)}
    assert set(tools) == {"loyalty_discount", "is_premium_eligible"}
    assert (await tools["loyalty_discount"].call({})).text == "10.0"
    assert tools["is_premium_eligible"].description == "Whether the customer may have premium service"


@dataclass(frozen=True)
class SupportInput:
    customer_id: int
    query: str


@dataclass(frozen=True)
class SupportOutput:
    advice: str
    block_card: bool
    risk: int


class CustomerRepository:
    def find_by_id(self, customer_id: int) -> Customer | None:
        return {123: ANN}.get(customer_id)


@agent(description="Supports the customers of a bank")
@dataclass(frozen=True)
class SupportAgent:
    """An agent may be a frozen record of the services that it uses."""

    customers: CustomerRepository

    @achieves_goal(description="Help a customer with a query")
    @action
    async def support_customer(self, support_input: SupportInput) -> SupportOutput:
        customer = self.customers.find_by_id(support_input.customer_id)
        if customer is None:
            return SupportOutput("Customer not found", block_card=False, risk=0)
        stolen = "stolen" in support_input.query
        return SupportOutput(f"{customer.name}, here is help", block_card=stolen, risk=9 if stolen else 1)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (SupportInput(1, "hello"), SupportOutput("Customer not found", block_card=False, risk=0)),
        (SupportInput(123, "my balance?"), SupportOutput("Ann, here is help", block_card=False, risk=1)),
        (SupportInput(123, "card stolen"), SupportOutput("Ann, here is help", block_card=True, risk=9)),
    ],
)
async def test_a_record_of_services_is_an_agent(asked: SupportInput, answer: SupportOutput) -> None:
    platform = AgentPlatform([SupportAgent(CustomerRepository())])
    assert await AgentInvocation.on(platform).returning(SupportOutput).invoke(asked) == answer
