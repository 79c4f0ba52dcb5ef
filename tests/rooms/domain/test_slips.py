"""Slips of the pen in declarations: each is told when the class is read, or at its line, and none is passed over."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, singledispatchmethod
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from pydantic import JsonValue

from goalport.agents.domain import (
    RetryPolicy,
    SomeOf,
    State,
    WaitFor,
    achieves_goal,
    action,
    agent,
    chatbot,
    component,
    condition,
    cost,
    parts_of,
    read_agent,
    state,
)
from goalport.base.errors import DeclarationError
from goalport.base.introspection import hidden_methods

T = TypeVar("T")


@dataclass(frozen=True)
class Order:
    total: int


@dataclass(frozen=True)
class Invoice:
    total: int


def reading(declared: object) -> str:
    with pytest.raises(DeclarationError) as caught:
        read_agent(declared)
    return str(caught.value)


mark_anything: Callable[[object], object] = action  # type: ignore[assignment]

SETTINGS: list[tuple[Callable[[], object], str]] = [
    (lambda: agent(description="d", planner="utility"), "planner to be a PlannerType, but got 'utility'"),  # type: ignore[arg-type]
    (lambda: agent(description="d", opaque="no"), "opaque to be True or False, but got 'no'"),  # type: ignore[arg-type]
    (lambda: action(trigger="Order"), "trigger to be a type, but got 'Order'"),  # type: ignore[arg-type]
    (lambda: action(tool_group_requirements=["web"]), r"Write required_tool_groups=\[\"web\"\]"),  # type: ignore[list-item]
    (lambda: action(required_tool_groups="web"), "required_tool_groups to be a list of names, but got 'web'"),
    (lambda: action(cost=10**400), "cost to be a number"),
    (lambda: condition(name=5), "name to be a string, but got 5"),  # type: ignore[arg-type]
    (lambda: agent(descripton="d"), "settings of @agent, but got 'descripton'. Did you mean 'description'?"),  # type: ignore[call-overload]
    (lambda: chatbot(descripton="d"), "settings of @chatbot, but got 'descripton'. Did you mean 'description'?"),  # type: ignore[call-overload]
    (lambda: action(can_rerum=True), "settings of @action, but got 'can_rerum'. Did you mean 'can_rerun'?"),  # type: ignore[call-overload]
    (lambda: agent(component=True), "settings of @agent, but got 'component'. Known: name, description"),  # type: ignore[call-overload]
    (lambda: achieves_goal(with_step), r'Write @achieves_goal\(description="…"\), with parentheses'),  # type: ignore[arg-type]
    (lambda: achieves_goal("g"), r'Write @achieves_goal\(description="…"\), with parentheses'),  # type: ignore[arg-type]
    (lambda: cost(name=5), "name to be a string, but got 5"),  # type: ignore[arg-type]
    (lambda: RetryPolicy(attempts=0), "attempts to be a whole number from 1 up, but got 0"),
    (lambda: RetryPolicy(attempts="3"), "attempts to be a whole number from 1 up, but got '3'"),  # type: ignore[arg-type]
    (lambda: RetryPolicy(first_delay=-1), "first_delay to be a number of seconds from 0 up, but got -1"),
    (lambda: RetryPolicy(factor=float("nan")), "factor to be a number from 0 up, but got nan"),
    (lambda: mark_anything(property(lambda _: Order(1))), "a property"),
    (lambda: mark_anything(cached_property(lambda _: Order(1))), "a property"),
    (lambda: WaitFor.form_submission("?", None), "the type of the answer, but got None"),  # type: ignore[arg-type]
    (lambda: WaitFor.form_submission("?", type(None)), "the type of the answer, but got <class 'NoneType'>"),
    (lambda: WaitFor.form_submission("?", Order, expires_in=-1), "expires_in"),
    (lambda: WaitFor.form_submission("?", Order, expires_in=float("inf")), "None, for never"),
    (lambda: WaitFor.confirmation(Order(1), "?", expires_in=1e18), "expires_in"),
    (lambda: WaitFor.confirmation(Order(1), "?", expires_in="5"), "expires_in"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("declare", "said"), SETTINGS)
def test_a_setting_of_another_kind_is_refused_at_its_line(declare: Callable[[], object], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        declare()


def test_a_goal_whose_value_is_no_finite_number_is_refused() -> None:
    @agent(description="d")
    class Odd:
        @achieves_goal(description="g", value=float("nan"))
        def bill(self, order: Order) -> Invoice:
            return Invoice(order.total)

    said = reading(Odd)
    assert "a finite value" in said
    assert "Odd.bill" in said


def test_a_mark_on_what_a_property_calls_is_not_passed_over() -> None:
    @component
    class Props:
        @property
        @action
        def order(self) -> Order:
            return Order(1)

    @component
    class Cached:
        @cached_property
        @action
        def order(self) -> Order:
            return Order(1)

    for each in (Props, Cached):
        said = reading(each)
        assert f"{each.__name__}.order" in said
        assert "Drop" in said


class Elsewhere:
    """What some libraries put in place of an object that is there only later."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("not yet")


class Endless:
    """What has every attribute, each a new one of its kind."""

    def __getattr__(self, name: str) -> "Endless":
        return Endless()


def test_attributes_of_any_kind_stand_beside_actions() -> None:
    @agent(description="d")
    class Biller:
        proxy = Elsewhere()
        endless = Endless()

        @property
        def broken(self) -> Order:
            raise RuntimeError("broken")

        @achieves_goal(description="g")
        def bill(self, order: Order) -> Invoice:
            return Invoice(order.total)

    assert [each.short_name for each in read_agent(Biller()).actions] == ["bill"]


@dataclass(frozen=True)
class Lost(SomeOf):
    order: "Nowhere | None" = None  # type: ignore[name-defined] # noqa: F821


class Ask(WaitFor):  # type: ignore[type-arg]
    pass


class Generalist(Generic[T]):
    @achieves_goal(description="g")
    def bill(self, order: T) -> Invoice:
        raise AssertionError


def with_step(step: Callable[..., Any]) -> type:
    step.__name__ = step.__qualname__ = "step"
    return agent(description="d")(type("Faulty", (), {"step": achieves_goal(description="g")(step)}))


def lost_part(self: object, order: Order) -> Lost:
    raise AssertionError


def bare_wait(self: object, order: Order) -> WaitFor:  # type: ignore[type-arg]
    raise AssertionError


def own_wait(self: object, order: Order) -> Ask:
    raise AssertionError


def takes_wait(self: object, order: WaitFor[Order]) -> Invoice:
    raise AssertionError


def generates(self: object, order: Order) -> Invoice:  # type: ignore[misc]
    yield Invoice(order.total)  # type: ignore[misc]


async def generates_later(self: object, order: Order) -> Invoice:  # type: ignore[misc]
    yield Invoice(order.total)  # type: ignore[misc]


def json(self: object, order: dict[str, JsonValue]) -> Invoice:
    raise AssertionError


STEPS: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (lost_part, ("'Nowhere' in Lost is not there", "module level")),
    (bare_wait, ("Write `WaitFor[T]`", "WaitFor alone")),
    (own_wait, ("class Ask(WaitFor[T])", "Ask alone")),
    (takes_wait, ("'order'", "Take what the answer comes to: `order: Order`")),
    (generates, ("yield", "list[Invoice]")),
    (generates_later, ("yield", "list[Invoice]")),
    (json, ("'order'", "it is dict[str, JsonValue].", "Use a class")),
    (Generalist[Order].bill, ("'order'", "nothing says what T is", "in place of T")),
]


@pytest.mark.parametrize(("step", "words"), STEPS)
def test_a_slip_in_a_signature_names_the_place_and_the_fix(step: Callable[..., Any], words: tuple[str, ...]) -> None:
    said = reading(with_step(step))
    assert "Faulty.step" in said
    assert "test_slips.py:" in said
    for each in words:
        assert each in said


def test_what_gives_an_iterator_may_yield() -> None:
    @component
    class Stream:
        @action
        def numbers(self, order: Order) -> Iterator[Invoice]:
            yield Invoice(order.total)

        @action
        async def later(self, invoice: Invoice) -> AsyncIterator[Order]:
            yield Order(invoice.total)

    assert len(read_agent(Stream).actions) == 2


def test_two_costs_of_one_name_are_refused_with_both_places() -> None:
    @component
    class Twice:
        @cost(name="price")
        def one(self) -> float:
            return 1

        @cost(name="price")
        def two(self) -> float:
            return 2

    said = reading(Twice)
    assert "Twice.one" in said
    assert "Twice.two" in said
    assert "both called 'price'" in said


@state
@dataclass(frozen=True, slots=True)
class Phase: ...


@dataclass(frozen=True, slots=True)
class Over(Phase):
    order: Order

    @achieves_goal(description="g")
    def bill(self) -> Invoice:
        return Invoice(self.order.total)


def test_a_state_with_slots_is_one_state_although_python_makes_its_class_twice() -> None:
    @agent(description="d")
    class Biller:
        @action
        def begin(self, order: Order) -> Phase:
            return Over(order)

    assert [each.name for each in read_agent(Biller).actions] == ["Biller.begin", "Over.bill"]


class Shared(State):
    order: Order

    @condition
    def large(self) -> bool:
        return self.order.total > 1

    @achieves_goal(description="g")
    @action(pre=["large"])
    def bill(self) -> Invoice:
        return Invoice(self.order.total)


def test_a_component_may_lead_to_the_states_of_an_agent() -> None:
    @agent(description="d")
    class Biller:
        @action
        def begin(self, order: Order) -> Shared:
            return Shared(order)

    @component
    class Corrector:
        @action
        def again(self, invoice: Invoice) -> Shared:
            return Shared(Order(invoice.total))

    @component
    class Doubler:
        @action
        def twice(self, invoice: Invoice) -> Shared:
            return Shared(Order(2 * invoice.total))

    lent = [read_agent(Corrector), read_agent(Doubler)]
    together = read_agent(Biller).with_components(lent)
    names = [each.name for each in together.actions]
    assert names == ["Biller.begin", "Shared.bill", "Corrector.again", "Doubler.twice"]
    assert [each.name for each in together.conditions] == ["large"]


class Parts(SomeOf):
    words: str | None = None


class More(Parts):
    number: int | None = None


@dataclass(frozen=True)
class Most(More):
    other: bool | None = None


def test_a_result_of_several_parts_needs_no_decorator_and_may_have_one() -> None:
    most = Most("a", 1, other=True)
    assert (most.words, most.number, most.other) == ("a", 1, True)
    assert More(number=2) == More(None, 2)
    assert Parts("x").words == "x"
    with pytest.raises(AttributeError):
        setattr(Parts("x"), "words", "y")  # noqa: B010 - a checker would refuse to set it


def made(base: type, decorator: Callable[[type[Any]], type[Any]]) -> Any:
    return decorator(type("Made", (base,), {"__annotations__": {"words": str | None}, "words": None}))


@pytest.mark.parametrize("decorator", [dataclass, dataclass(frozen=True), dataclass(kw_only=True)])
def test_a_result_of_several_parts_is_what_a_decorator_above_it_makes_of_it(decorator: Any) -> None:
    result = made(SomeOf, decorator)
    assert result(words="x") == result(words="x")
    assert list(parts_of(result(words="x"))) == [("x", str | None)]
    assert result.__dataclass_params__.frozen is (decorator(type("Plain", (), {})).__dataclass_params__.frozen)


def test_a_state_is_a_frozen_dataclass_already_and_stays_one() -> None:
    stage = made(State, dataclass)
    with pytest.raises(AttributeError):
        stage("x").words = "y"
    with pytest.raises(TypeError, match="Cannot overwrite attribute"):
        made(State, dataclass(frozen=True))


@agent(description="Bills")
class Twice:
    @action
    def bill(self, order: Order) -> Invoice:  # type: ignore[reportRedeclaration] - the slip
        return Invoice(order.total)

    @property
    def due(self) -> int:
        return 1

    @due.setter
    def due(self, days: int) -> None: ...

    @singledispatchmethod
    def shown(self, what: object) -> str:
        return str(what)

    @shown.register(int)
    def _(self, what: int) -> str:
        return f"{what} EUR"

    @shown.register
    def _(self, what: float) -> str:
        return f"{what:.2f} EUR"

    @achieves_goal(description="An invoice")
    @action
    def bill(self, order: Order) -> Invoice:  # noqa: F811 - as above
        return Invoice(-order.total)


def test_two_methods_of_one_name_are_told_with_both_lines() -> None:
    assert [name for name, *_ in hidden_methods(Twice)] == ["bill"]
    told = reading(Twice())
    found = re.search(r"bill is defined in line (\d+) and again in line (\d+), and Python keeps the second alone", told)
    assert found, told
    lines = Path(__file__).read_text().splitlines()
    assert [lines[int(each) - 1].strip()[:4] for each in found.groups()] == ["def ", "def "]
