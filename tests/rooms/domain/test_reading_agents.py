"""Reading classes: what their methods, parameters and return types come to, and how mistakes are explained."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest

from goalport.agents.domain import (
    Agent,
    Export,
    GoalMark,
    Injected,
    Input,
    Named,
    Provided,
    ProvidedInput,
    SomeOf,
    achieves_goal,
    action,
    agent,
    component,
    condition,
    cost,
    read_action,
    read_agent,
    read_goal,
)
from goalport.base.errors import DeclarationError
from tests.rooms.toy_domain import Order


@dataclass(frozen=True)
class Invoice:
    total: float


@dataclass(frozen=True)
class Receipt:
    total: float


@dataclass(frozen=True)
class Parcels(SomeOf):
    order: Order | None = None
    receipt: Receipt | None = None


class Clock:
    """A service."""


def only_action(declared: object, *services: type) -> Any:
    return read_agent(declared, frozenset(services)).actions[0]


def reading(declared: object, *services: type) -> str:
    with pytest.raises(DeclarationError) as caught:
        read_agent(declared, frozenset(services))
    return str(caught.value)


def test_an_agent_is_named_after_its_class_and_its_actions_after_their_methods() -> None:
    @agent(description="Bills orders")
    class Billing:
        @achieves_goal(description="Bill an order")
        def bill(self, order: Order) -> Invoice:
            """Write the invoice."""
            return Invoice(1)

    read = read_agent(Billing())
    assert (read.name, read.description) == ("Billing", "Bills orders")
    assert [each.name for each in read.actions] == ["Billing.bill"]
    assert read.actions[0].description == "Write the invoice."
    assert read.goals[0].name == "Billing.bill"
    assert read.goals[0].output is Invoice


def test_achieves_goal_alone_makes_an_action_and_the_order_of_decorators_does_not_matter() -> None:
    @agent(description="d")
    class Both:
        @action(cost=0.3)
        @achieves_goal(description="one")
        def first(self, order: Order) -> Invoice:
            return Invoice(1)

        @achieves_goal(description="two")
        @action(cost=0.4)
        def second(self, order: Order) -> Receipt:
            return Receipt(1)

    read = read_agent(Both)
    assert [each.settings.cost for each in read.actions] == [0.3, 0.4]
    assert [each.description for each in read.goals] == ["one", "two"]


def test_parameters_are_inputs_services_or_provided_and_only_required_inputs_are_preconditions() -> None:
    @agent(description="d")
    class Reader:
        @achieves_goal(description="g")
        def run(
            self,
            order: Order,
            maybe: Invoice | None,
            named: Annotated[Receipt, Named("final")],
            own: Annotated[list[Receipt], Named()],
            me: "Annotated[Reader, Provided]",
            clock: Clock,
            extra: tuple[Order, ...] = (),
        ) -> Receipt:
            return Receipt(0)

    globals()["Reader"] = Reader
    try:
        parameters = only_action(Reader, Clock).parameters
    finally:
        del globals()["Reader"]
    assert parameters == (
        Input("order", Order),
        Input("maybe", Invoice, required=False),
        Input("named", Receipt, "final"),
        Input("own", list[Receipt], "own"),
        ProvidedInput("me", Reader),
        Injected("clock", Clock),
        Input("extra", tuple[Order, ...], required=False, default=()),
    )


def test_return_types_give_exits() -> None:
    @agent(description="d")
    class Exits:
        @action
        def maybe(self, order: Order) -> Invoice | None: ...

        @action
        def either(self, order: Order) -> Invoice | Receipt:
            return Receipt(1)

        @action
        def some(self, order: Order) -> Parcels:
            return Parcels()

        @action
        async def nothing(self, order: Order) -> None: ...

        @achieves_goal(description="g")
        async def many(self, order: Order) -> list[Invoice]:
            return []

    maybe, either, some, nothing, many = (each.outputs for each in read_agent(Exits).actions)
    assert (maybe.exits, maybe.may_decline) == (((Invoice,),), True)
    assert (either.exits, either.may_decline) == (((Invoice,), (Receipt,)), False)
    assert some.exits == ((Parcels, Order, Receipt),)
    assert nothing.exits == ()
    assert many.exits == ((list[Invoice],),)


def test_members_of_base_classes_and_mixins_count_and_an_override_keeps_its_marks() -> None:
    class Audited(ABC):
        @condition
        def audited(self) -> bool:
            return True

        @action(cost=0.5)
        @abstractmethod
        def check(self, order: Order) -> Receipt: ...

    class Loads:
        @action
        def load(self, order: Order) -> Invoice:
            return Invoice(1)

    @agent(description="d")
    class Whole(Loads, Audited):
        def check(self, order: Order) -> Receipt:
            return Receipt(2)

        @achieves_goal(description="g")
        def finish(self, invoice: Invoice, receipt: Receipt) -> Parcels:
            return Parcels()

    read = read_agent(Whole())
    assert {each.name for each in read.actions} == {"Whole.load", "Whole.check", "Whole.finish"}
    assert read.action("Whole.check").settings.cost == 0.5
    assert [each.name for each in read.conditions] == ["audited"]


def test_costs_are_found_by_name_and_their_inputs_are_optional() -> None:
    @agent(description="d")
    class Priced:
        @cost(name="price")
        def compute(self, order: Order | None) -> float:
            return 1

        @achieves_goal(description="g")
        @action(cost_method="price")
        def run(self, order: Order) -> Invoice:
            return Invoice(1)

    found = only_action(Priced).cost
    assert found is not None
    assert found.name == "price"


def test_a_component_needs_no_goal_and_no_description() -> None:
    @component
    class Lends:
        @action
        def lend(self, order: Order) -> Invoice:
            return Invoice(1)

    read = read_agent(Lends)
    assert read.component
    assert read.goals == ()


def test_an_agent_built_by_hand_is_as_good_as_a_class() -> None:
    def bill(order: Order) -> Invoice:
        return Invoice(1)

    step = read_action(bill)
    goal = read_goal(step, GoalMark(description="Bill", value=0, tags=(), examples=(), export=Export(remote=True)))
    built = Agent("ByHand", "Bills", actions=(step,), goals=(goal,))
    assert read_agent(built) is built
    assert built.action("bill").inputs == (Input("order", Order),)


def test_an_agent_built_by_hand_has_one_goal_for_each_action() -> None:
    read = read_agent(with_step(bill_for))
    (goal,) = read.goals
    elsewhere = replace(goal, export=Export(remote=True, name="elsewhere"))
    with pytest.raises(DeclarationError, match=r"Faulty: expected goals of different names, but two .*'Faulty\.step'"):
        replace(read, goals=(goal, elsewhere))


def with_step(step: Callable[..., Any]) -> type:
    step.__name__ = step.__qualname__ = "step"
    return agent(description="d")(type("Faulty", (), {"step": achieves_goal(description="g")(step)}))


def bill_for(self: object, order: Order) -> Invoice:
    raise AssertionError


def unannotated(self: object, order) -> Invoice:  # noqa: ANN001  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    raise AssertionError


def silent(self: object, order: Order):  # noqa: ANN201
    raise AssertionError


def catch_all(self: object, **orders: Order) -> Invoice:
    raise AssertionError


def untyped(self: object, order: Any) -> Invoice:
    raise AssertionError


def a_union(self: object, order: Order | Receipt) -> Invoice:
    raise AssertionError


def twins(self: object, one: Order, two: Order) -> Invoice:
    raise AssertionError


def half_named_twins(self: object, one: Order, two: Annotated[Order, Named("two")]) -> Invoice:
    raise AssertionError


def unresolvable(self: object, order: "Nowhere") -> Invoice:  # type: ignore[name-defined] # noqa: F821
    raise AssertionError


class Partless(SomeOf):
    """Has no fields."""


def without_parts(self: object, order: Order) -> Partless:
    raise AssertionError


def gives_anything(self: object, order: Order) -> Any:
    raise AssertionError


MISTAKES: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (unannotated, ("a type for the parameter 'order'", "order: SomeType")),
    (silent, ("a return annotation", "there is none")),
    (catch_all, ("named one by one", "**orders")),
    (untyped, ("a type of your own for the parameter 'order'", "Any")),
    (a_union, ("one type for the parameter 'order'", "union of 2")),
    (twins, ("'one' and 'two' are both Order", "Named(")),
    (half_named_twins, ("'one' and 'two' are both Order", "Named(")),
    (unresolvable, ("'Nowhere' is not there", "module level")),
    (without_parts, ("Partless has no fields", "part: T | None = None")),
    (gives_anything, ("as return type", "Any")),
]


@pytest.mark.parametrize(("step", "words"), MISTAKES)
def test_a_mistake_in_a_signature_names_the_place_and_the_fix(step: Callable[..., Any], words: tuple[str, ...]) -> None:
    said = reading(with_step(step))
    assert "Faulty.step" in said
    assert "test_reading_agents.py:" in said
    for each in words:
        assert each in said


def test_mistakes_of_whole_classes_are_explained() -> None:
    @agent(description="d")
    class Aimless:
        @action
        def run(self, order: Order) -> Invoice:
            return Invoice(1)

    @agent(description=" ")
    class Mute(Aimless): ...

    @agent(description="d")
    class Needy:
        def __init__(self, clock: Clock) -> None: ...

    class Unmarked: ...

    assert "at least one goal" in reading(Aimless)
    assert "or use @component or PlannerType.UTILITY." in reading(Aimless)
    assert "a description of the agent" in reading(Mute)
    assert "needy = Needy(…)" in reading(Needy)
    assert "@agent(description=" in reading(Unmarked())


def test_mistakes_in_settings_are_explained() -> None:
    def agent_with(**settings: Any) -> type:
        def run(self: object, order: Order) -> Invoice:
            raise AssertionError

        marked = achieves_goal(description="g")(action(**settings)(run))
        return agent(description="d")(type("Set", (), {"run": marked}))

    assert "a finite cost, from 0 up" in reading(agent_with(cost=-1))
    assert "a finite value" in reading(agent_with(value=float("nan")))
    assert "called 'price'" in reading(agent_with(cost_method="price"))
    with pytest.raises(TypeError, match="pre to be a list of names"):
        agent_with(pre="approved")
    assert "Clear the blackboard in an earlier action" in reading(agent_with(clear_blackboard=True))


def test_conditions_return_bool_and_costs_take_only_optional_inputs() -> None:
    @component
    class BadCondition:
        @condition
        def ready(self, order: Order) -> str:
            return "yes"

    @component
    class BadCost:
        @cost
        def price(self, order: Order) -> float:
            return 1

    @component
    class Twice:
        @condition(name="same")
        def one(self) -> bool:
            return True

        @condition(name="same")
        def two(self) -> bool:
            return True

    assert "returns bool" in reading(BadCondition)
    assert "order: Order | None" in reading(BadCost)
    assert "are both called 'same'" in reading(Twice)


class Kitchen:
    class Receipt:
        """Another one than that of the module."""

    def Order(self) -> "Order":  # noqa: N802 - called like a type of the module
        return Order("soup")

    def bill(self, order: "Order") -> "Receipt":
        return Kitchen.Receipt()  # pyright: ignore[reportReturnType]


def test_a_nested_class_hides_a_type_of_its_module_and_a_method_does_not() -> None:
    billed = read_action(Kitchen().bill)
    assert [each.type for each in billed.inputs] == [Order]
    assert billed.outputs.type is Kitchen.Receipt
