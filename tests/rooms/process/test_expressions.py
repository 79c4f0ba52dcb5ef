"""Preconditions as expressions: what they may look at, and how no, yes and no answer are told apart."""

from dataclasses import dataclass, field
from typing import Annotated

import pytest

from goalport.agents.domain import Named, achieves_goal, action, agent, component
from goalport.base.errors import DeclarationError
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, Completed, ProcessStatus
from tests.rooms.toy_domain import Parcel


@dataclass(frozen=True)
class Item:
    name: str
    price: float
    fragile: bool = False


@dataclass(frozen=True)
class Gift(Item):
    pass


@dataclass(frozen=True)
class PurchaseOrder:
    items: list[Item]
    tags: list[str] = field(default_factory=list[str])
    address: dict[str, str] = field(default_factory=dict[str, str])
    customer: str | None = None
    _secret: str = "hidden"

    @property
    def total(self) -> float:
        return sum(each.price for each in self.items)


ORDER = PurchaseOrder(
    [Item("vase", 90, fragile=True), Gift("card", 30)], ["rush", "x"], {"city": "Ghent"}, customer="Ann"
)


async def run(expression: str, *inputs: object, **bindings: object) -> AgentProcess:
    @agent(description="Sends parcels")
    class Sender:
        @achieves_goal(description="Send")
        @action(pre=[f"expr: {expression}"])
        async def send(self, order: PurchaseOrder) -> Parcel:
            return Parcel(order.items[0].name)

    return await AgentPlatform([Sender]).run("Sender", *inputs, bindings=bindings)


@pytest.mark.parametrize(
    "expression",
    [
        "purchase_order.total > 100 and 'x' in purchase_order.tags",
        "purchaseOrder.total == 120",
        "not (purchase_order.total < 100 or purchase_order.customer is none)",
        "purchase_order.items[0].price >= 90 and purchase_order.address['city'] != 'Rome'",
        "purchase_order.items | size == 2 and purchase_order.tags | length == 2",
        "purchase_order.items | selectattr('price', 'gt', 50) | size == 1",
        "purchase_order.items | select('instance_of', 'Gift') | size > 0",
        "purchase_order.items | any('fragile') and not purchase_order.items | all('fragile')",
        "purchase_order.items | all('price', 'lt', 100)",
        "purchase_order.items | map(attribute='fragile') | any",
        "purchase_order.items[1] is instance_of('Item') and purchase_order is instance_of('PurchaseOrder')",
        "purchase_order.tags[0].startswith('ru')",
        "PurchaseOrder.total > 100",
        "voucher is not defined",
        "voucher is not defined or voucher.used",
        "result is not defined",
    ],
)
async def test_an_action_runs_when_its_expression_holds(expression: str) -> None:
    assert (await run(expression, ORDER)).outcome == Completed(Parcel("vase"))


@pytest.mark.parametrize(
    "expression",
    [
        "purchase_order.total > 1000",
        "voucher.used",
        "not voucher.used",
        "voucher",
        "voucher == 1",
        "voucher.items | any",
        "voucher | size == 0",
        "range(3) | any",
    ],
)
async def test_a_name_that_nothing_bears_makes_the_answer_no(expression: str) -> None:
    process = await run(expression, ORDER)
    assert process.status is ProcessStatus.STUCK
    assert process.outcome
    assert process.outcome.reason.endswith(
        f"it needs condition expr: {expression} to be true, but no action makes it true."
    )


@pytest.mark.parametrize(
    "expression",
    [
        "purchase_order.weight > 3",
        "purchase_order.total > 'a'",
        "purchase_order.total / 0 > 1",
        "purchase_order.total",
        "none",
        "purchase_order.items | any('colour')",
        "purchase_order['_secret'] == 'hidden'",
        "purchase_order.tags.append('y') is none",
        "9 ** 100 ** 100 ** 100 ** 100 > 1",
        "9 ** (9 ** 9) > 1",
        "'x' * 10000000000 == 'y'",
        "10000000000 * [1] == []",
        "'%09999999999d' % 1 == ''",
        "'%1000000000d' | format(1) == ''",
        "'{:1000000000}'.format(1) == ''",
        "'a' | center(1000000000) == ''",
        "'a'.ljust(1000000000) == ''",
        "[1] | batch(1000000000, 0) | list == []",
    ],
)
async def test_an_expression_that_fails_is_no_answer_at_all(expression: str) -> None:
    process = await run(expression, ORDER)
    assert process.status is ProcessStatus.STUCK
    assert process.outcome
    assert "to be true, but asking for it failed: " in process.outcome.reason


async def test_a_binding_comes_before_the_newest_object_of_a_class() -> None:
    bound = await run("purchase_order.total > 100 and budget < 50", ORDER, purchase_order=ORDER, budget=49)
    assert isinstance(bound.outcome, Completed)
    bound = await run("voucher.total < 100", ORDER, voucher=PurchaseOrder([Item("pin", 1)]))
    assert isinstance(bound.outcome, Completed)
    newest = await run("purchase_order.total > 100", ORDER, PurchaseOrder([Item("pin", 1)]))
    assert newest.status is ProcessStatus.STUCK


@agent(description="Orders and sends")
class Shop:
    @action(post=["expr:   basket.total > 100 "], output_binding="basket")
    async def order(self, item: Item) -> PurchaseOrder:
        return PurchaseOrder([item])

    @achieves_goal(description="Send")
    @action(pre=["expr: basket.total > 100"])
    async def send(self, order: Annotated[PurchaseOrder, Named("basket")]) -> Parcel:
        return Parcel(order.items[0].name)


async def test_an_expression_that_an_action_promises_is_asked_for_real_once_it_has_run() -> None:
    platform = AgentPlatform([Shop])
    assert isinstance((await platform.run("Shop", Item("vase", 101))).outcome, Completed)
    process = await platform.run("Shop", Item("pin", 1))
    assert [each.action for each in process.history] == ["Shop.order"]
    assert process.status is ProcessStatus.STUCK


async def test_explaining_a_plan_says_that_it_relies_on_an_expression() -> None:
    @component
    class Lender:
        @action(pre=["expr: basket.total > 100"])
        async def wrap(self, order: PurchaseOrder) -> Item:
            return order.items[0]

    platform = AgentPlatform([Shop, Lender])
    told = platform.explain("send", given=[Item])
    assert told.plan is not None
    assert [each.name for each in platform.agents] == ["Shop"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("expr: order.total >", "an expression that can be compiled"),
        ("expr:", "an expression that can be compiled"),
        ("expr: a b", "an expression that can be compiled"),
        ("expr: a }} {{ b", "an expression that can be compiled"),
        ("expr: a | nonsense", "nonsense"),
        ("expr: order._secret == 1", "_secret is private"),
        ("spel:order.total > 100", "Write `expr: …`"),
    ],
)
def test_an_expression_that_cannot_be_read_is_refused_with_its_method_and_the_fix(name: str, said: str) -> None:
    @agent(description="Refused")
    class Refused:
        @achieves_goal(description="Never")
        @action(pre=[name])
        async def never(self, item: Item) -> Parcel:
            return Parcel(item.name)

    with pytest.raises(DeclarationError, match=r"Refused\.never") as caught:
        AgentPlatform([Refused])
    assert said in str(caught.value)
    assert "expr:" in caught.value.fix
