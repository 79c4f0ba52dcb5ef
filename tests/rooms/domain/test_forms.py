"""The forms in which types may be written in signatures, and those that are refused with the fix."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from typing import Annotated, Any, NewType, Protocol, runtime_checkable

import pytest
from typing_extensions import TypeAliasType

from goalport.agents.blackboard import matcher, related
from goalport.agents.domain import (
    Input,
    Named,
    Provided,
    ProvidedInput,
    achieves_goal,
    agent,
    read_action,
    read_agent,
)
from goalport.base.errors import DeclarationError
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Completed


@dataclass(frozen=True)
class Order:
    item: str


@dataclass(frozen=True)
class Invoice:
    text: str


MaybeOrder = TypeAliasType("MaybeOrder", Order | None)
UserId = NewType("UserId", str)
OrderId = NewType("OrderId", str)


@runtime_checkable
class HasItem(Protocol):
    item: str


def twice_annotated(order: Annotated[Annotated[Order, Named("first")] | None, "the first"]) -> Invoice:
    raise AssertionError


def by_alias(order: MaybeOrder) -> Invoice:
    raise AssertionError


def by_new_type(user: UserId) -> Invoice:
    raise AssertionError


def with_counts(counts: Counter[str]) -> Invoice:
    raise AssertionError


def with_nothing(nothing: tuple[()]) -> Invoice:
    raise AssertionError


def with_annotated_elements(orders: list[Annotated[Order, "each"]]) -> Invoice:
    raise AssertionError


def with_default_service(name: str, order: Annotated[Order, Provided] = Order("tea")) -> Invoice:
    raise AssertionError


INPUTS: list[tuple[Callable[..., Any], object]] = [
    (twice_annotated, Input("order", Order, "first", required=False)),
    (by_alias, Input("order", Order, required=False)),
    (by_new_type, Input("user", str)),
    (with_counts, Input("counts", Counter[str])),
    (with_nothing, Input("nothing", tuple[()])),
    (with_annotated_elements, Input("orders", list[Annotated[Order, "each"]])),
]


@pytest.mark.parametrize(("function", "wanted"), INPUTS)
def test_a_type_may_be_written_in_many_forms(function: Callable[..., Any], wanted: object) -> None:
    assert read_action(function).parameters == (wanted,)


def test_a_provided_parameter_keeps_its_default() -> None:
    parameter = read_action(with_default_service).parameters[1]
    assert parameter == ProvidedInput("order", Order, required=False, default=Order("tea"))


def test_what_comes_out_may_be_awaitable_annotated_and_an_alias() -> None:
    def later(order: Order) -> Awaitable[Annotated[Invoice, "soon"]]:
        raise AssertionError

    def perhaps(invoice: Invoice) -> MaybeOrder:
        raise AssertionError

    assert read_action(later).outputs.exits == ((Invoice,),)
    found = read_action(perhaps).outputs
    assert (found.exits, found.may_decline) == (((Order,),), True)


def two_ids(user: UserId, order: OrderId) -> Invoice:
    raise AssertionError


def by_position(order: Order, /) -> Invoice:
    raise AssertionError


def malformed(order: "Order[") -> Invoice:  # type: ignore[name-defined] # noqa: F722
    raise AssertionError


def absent(order: "pytest.Nowhere") -> Invoice:  # type: ignore[name-defined]
    raise AssertionError


MISTAKES: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (two_ids, ("'user' and 'order' are both str", "Named(")),
    (by_position, ("'order' can only be given by position", "`/`")),
    (malformed, ("an annotation that Python can read", "Order[")),
    (absent, ("an annotation that Python can read", "Nowhere")),
]


@pytest.mark.parametrize(("function", "words"), MISTAKES)
def test_a_form_that_cannot_work_is_refused_with_its_place(
    function: Callable[..., Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(DeclarationError) as caught:
        read_action(function)
    assert "test_forms.py:" in str(caught.value)
    for each in words:
        assert each in str(caught.value)


async def test_marks_count_above_and_below_staticmethod_and_classmethod() -> None:
    @agent(description="d")
    class Static:
        @achieves_goal(description="one")
        @staticmethod
        def bill(order: Order) -> Invoice:
            return Invoice(order.item)

    @agent(description="d")
    class OfClass:
        @achieves_goal(description="one")
        @classmethod
        def bill(cls, order: Order) -> Invoice:
            return Invoice(f"{cls.__name__} {order.item}")

    platform = AgentPlatform([Static, OfClass])
    assert (await platform.run("Static", Order("tea"))).outcome == Completed(Invoice("tea"))
    assert (await platform.run("OfClass", Order("tea"))).outcome == Completed(Invoice("OfClass tea"))


async def test_an_action_built_by_hand_may_be_a_partial_or_a_callable_object() -> None:
    def bill(order: Order, prefix: str) -> Invoice:
        return Invoice(prefix + order.item)

    class Bills:
        async def __call__(self, order: Order) -> Invoice:
            return Invoice(order.item)

    for function in (partial(bill, prefix="1 "), Bills()):
        action = read_action(function, name="bill")
        assert action.inputs == (Input("order", Order),)
        assert action.outputs.exits == ((Invoice,),)
    assert "test_forms.py:" in str(read_action(partial(bill, prefix="1 ")).origin)


def test_the_reader_does_not_use_up_an_iterator_by_looking_into_it() -> None:
    numbers = iter([1, 2])
    assert matcher(Iterator[int])(numbers)
    assert list(numbers) == [1, 2]


async def test_a_protocol_with_data_is_met_by_what_has_the_data() -> None:
    @agent(description="d")
    class Bills:
        @achieves_goal(description="g")
        def bill(self, item: HasItem) -> Invoice:
            return Invoice(item.item)

    assert (await AgentPlatform([Bills]).run("Bills", Order("tea"))).outcome == Completed(Invoice("tea"))
    assert related(Order, HasItem)
    assert not related(Invoice, HasItem)


def test_a_mark_counts_above_and_below_other_decorators() -> None:
    def logged(function: Callable[..., Invoice]) -> Callable[..., Invoice]:
        @wraps(function)
        def logging(*arguments: Any, **named: Any) -> Invoice:
            return function(*arguments, **named)

        return logging

    @agent(description="d")
    class Wrapped:
        @achieves_goal(description="one")
        @logged
        def above(self, order: Order) -> Invoice:
            raise AssertionError

        @logged
        @achieves_goal(description="two")
        def below(self, order: Order) -> Invoice:
            raise AssertionError

    assert [each.short_name for each in read_agent(Wrapped).goals] == ["above", "below"]


def test_an_agent_may_be_frozen_or_without_a_dict() -> None:
    @agent(description="d")
    @dataclass(frozen=True, slots=True)
    class Slotted:
        rate: float = 1

        @achieves_goal(description="g")
        def bill(self, order: Order) -> Invoice:
            raise AssertionError

    assert read_agent(Slotted(rate=2)).actions[0].name == "Slotted.bill"
