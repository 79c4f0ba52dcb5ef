"""Conditions put together of others, by name and in expressions; and which condition is asked first."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import pytest

from goalport.agents.domain import achieves_goal, action, agent, component, condition
from goalport.base.errors import DeclarationError
from goalport.runtime.platform import AgentPlatform, mistakes_in
from goalport.runtime.process import AgentProcess, Completed, OperationContext, ProcessStatus, Stuck
from tests.rooms.toy_domain import Parcel


@dataclass(frozen=True)
class Order:
    total: int = 7


Answer = Literal["yes", "no", "unknown"]
VALUES: Mapping[Answer, bool | None] = {"yes": True, "no": False, "unknown": None}


def fitting(answer: Answer) -> str:
    """An expression that comes to this: one that fails has no answer."""
    return {"yes": "order.total == 7", "no": "order.total == 8", "unknown": "order.weight > 1"}[answer]


async def run(pre: str, *, asked: list[str] | None = None, **answers: bool) -> AgentProcess:
    asking = asked if asked is not None else []

    class Conditions:
        @condition
        def a(self) -> bool:
            asking.append("a")
            return answers.get("a", False)

        @condition
        def b(self) -> bool:
            asking.append("b")
            return answers.get("b", False)

        @condition
        def c(self) -> bool:
            asking.append("c")
            return answers.get("c", False)

    @agent(description="Sends")
    class Sender(Conditions):
        @achieves_goal(description="Send")
        @action(pre=[pre])
        async def send(self, order: Order) -> Parcel:
            return Parcel(str(order.total))

    return await AgentPlatform([Sender]).run("Sender", Order())


FORMULAS = (
    # for a, b, c: yes yes yes, yes yes no, yes no yes, …, no no no
    ("!a", "00001111"),
    ("not a", "00001111"),
    ("! a", "00001111"),
    ("a and b", "11000000"),
    ("a or b", "11111100"),
    ("a OR b", "11111100"),
    ("a or b and c", "11111000"),
    ("(a or b) and c", "10101000"),
    ("not (a and b)", "00111111"),
    ("!(a or b) or c", "10101011"),
    ("!a and (b or !c)", "00001101"),
    ("((a)) and !!b", "11000000"),
    ("a and !a or b", "11001100"),
)


@pytest.mark.parametrize(("formula", "outcomes"), FORMULAS)
@pytest.mark.parametrize("in_expression", [False, True])
async def test_a_formula_holds_as_it_reads(formula: str, outcomes: str, *, in_expression: bool) -> None:
    if in_expression:
        formula = f"expr: {formula.lower().replace('!', 'not ')}"
    for (a, b, c), outcome in zip(product((True, False), repeat=3), outcomes, strict=True):
        process = await run(formula, a=a, b=b, c=c)
        wanted = ProcessStatus.COMPLETED if outcome == "1" else ProcessStatus.STUCK
        assert (process.status, (a, b, c)) == (wanted, (a, b, c))


@pytest.mark.parametrize("left", list(VALUES))
@pytest.mark.parametrize("right", list(VALUES))
@pytest.mark.parametrize("operator", ["and", "or"])
@pytest.mark.parametrize("negated", [False, True])
async def test_what_has_no_answer_makes_neither_a_formula_nor_its_opposite_true(
    left: Answer, right: Answer, operator: str, *, negated: bool
) -> None:
    both = {VALUES[left], VALUES[right]}
    decisive = operator == "or"  # a yes decides an or, a no decides an and
    known = decisive if decisive in both else None if None in both else not decisive
    joined = f"{fitting(left)} {operator} {fitting(right)}"
    # A name of a condition lets the expression be taken apart; alone it would be asked as a whole.
    process = await run(f"expr: a and {'not ' if negated else ''}({joined})", a=True)
    holds = known is not None and known is not negated
    assert (process.status is ProcessStatus.COMPLETED) is holds


async def test_only_what_matters_is_asked_and_nothing_twice() -> None:
    asked: list[str] = []
    assert (await run("a or b", asked=asked, a=True)).status is ProcessStatus.COMPLETED
    assert set(asked) == {"a"}
    asked.clear()
    assert (await run("a and b", asked=asked, b=True)).status is ProcessStatus.STUCK
    assert asked == ["a"]


async def test_a_stuck_process_says_which_part_is_missing() -> None:
    process = await run("!a and b", a=True, b=True)
    assert isinstance(process.outcome, Stuck)
    assert "condition a to be false" in process.outcome.reason


async def test_a_name_in_an_expression_may_be_a_condition_beside_objects() -> None:
    assert (await run("expr: a and order.total > 5", a=True)).outcome == Completed(Parcel("7"))
    assert (await run("expr: a and order.total > 7", a=True)).status is ProcessStatus.STUCK
    assert (await run("expr: not a and (order.total + 1) > 7", a=False)).outcome == Completed(Parcel("7"))
    assert (await run("expr: 'a or b' == 'a or b' and a", a=True)).outcome == Completed(Parcel("7"))
    assert (await run("expr: (b or a) and voucher is not defined", a=True)).outcome == Completed(Parcel("7"))
    assert (await run("expr: voucher.used or a", a=True)).outcome == Completed(Parcel("7"))


async def test_an_action_may_promise_that_a_condition_ceases_or_that_several_hold() -> None:
    seen: list[dict[str, bool]] = []

    @agent(description="Works")
    class Worker:
        @action(post=["busy and !rested"])
        async def begin(self, order: Order) -> None: ...

        @action(pre=["busy and !rested"], post=["!busy", "rested"])
        async def finish(self, order: Order, context: OperationContext) -> None:
            seen.append(dict(context.blackboard.conditions))

        @achieves_goal(description="Send")
        @action(pre=["!busy and rested"])
        async def send(self, order: Order, context: OperationContext) -> Parcel:
            seen.append(dict(context.blackboard.conditions))
            return Parcel(str(order.total))

    process = await AgentPlatform([Worker]).run("Worker", Order())
    assert process.outcome == Completed(Parcel("7"))
    assert seen == [{"busy": True, "rested": False}, {"busy": False, "rested": True}]
    assert [each.action for each in process.history] == ["Worker.begin", "Worker.finish", "Worker.send"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pre": ["a or"]}, "a part is missing"),
        ({"pre": ["and"]}, "a part is missing"),
        ({"pre": ["(a"]}, "a parenthesis is not closed"),
        ({"pre": ["a) or b"]}, "nothing can follow before ')'"),
        ({"pre": [""]}, "a part is missing"),
        ({"post": ["a or b"]}, "it does not say what becomes of a single condition"),
        ({"pre": [" and ".join(f"(a{n} or b{n})" for n in range(9))]}, "more than 64 alternatives"),
    ],
)
def test_what_is_no_formula_is_told_when_the_class_is_read(settings: dict[str, Any], words: str) -> None:
    @agent(description="Odd")
    class Odd:
        @achieves_goal(description="Send")
        @action(**settings)
        async def send(self, order: Order) -> Parcel:
            return Parcel(str(order))

    with pytest.raises(DeclarationError) as raised:
        AgentPlatform([Odd])
    assert words in str(raised.value)
    assert "Odd.send" in str(raised.value)


async def test_a_condition_may_bear_the_words_of_a_formula_as_its_name() -> None:
    @agent(description="Names oddly")
    class Odd:
        @condition(name="now or never")
        def odd(self) -> bool:
            return True

        @achieves_goal(description="Send")
        @action(pre=["now or never"])
        async def send(self, order: Order) -> Parcel:
            return Parcel(str(order.total))

    assert (await AgentPlatform([Odd]).run("Odd", Order())).outcome == Completed(Parcel("7"))


async def test_conditions_of_components_stand_in_formulas_too() -> None:
    @component
    class Shared:
        @condition
        def rush(self) -> bool:
            return True

    @agent(description="Sends")
    class Sender:
        @achieves_goal(description="Send")
        @action(pre=["expr: rush and order.total == 7", "!calm"])
        async def send(self, order: Order) -> Parcel:
            return Parcel(str(order.total))

    assert (await AgentPlatform([Shared, Sender]).run("Sender", Order())).outcome == Completed(Parcel("7"))


def test_check_names_the_part_that_nobody_decides() -> None:
    @agent(description="Misspells")
    class Sender:
        @condition
        def rush(self) -> bool:
            return True

        @achieves_goal(description="Send")
        @action(pre=["rush and !rsuh"])
        async def send(self, order: Order) -> Parcel:
            return Parcel(str(order))

    platform = AgentPlatform([Sender])
    (mistake,) = mistakes_in(platform.agents, platform.groups)
    assert "'rsuh'" in str(mistake)


@pytest.mark.parametrize(("dear", "cheap", "first"), [(0.9, 0.1, "cheap"), (0.1, 0.9, "dear"), (0.0, 0.0, "dear")])
@pytest.mark.parametrize("formula", ["dear and cheap", "dear or cheap"])
async def test_of_several_conditions_the_one_of_least_cost_is_asked_first(
    dear: float, cheap: float, first: str, formula: str
) -> None:
    asked: list[str] = []

    @agent(description="Sends")
    class Sender:
        @condition(name="dear", cost=dear)
        async def is_dear(self) -> bool:
            asked.append("dear")
            return "or" in formula

        @condition(name="cheap", cost=cheap)
        async def is_cheap(self) -> bool:
            asked.append("cheap")
            return "or" in formula

        @achieves_goal(description="Send")
        @action(pre=[formula])
        async def send(self, order: Order) -> Parcel:
            return Parcel(str(order.total))

    await AgentPlatform([Sender]).run("Sender", Order())
    assert asked[0] == first
    assert set(asked) == {first}


@pytest.mark.parametrize("cost", [-1, "much", float("nan"), None])
def test_a_cost_of_a_condition_is_a_number_from_0_up(cost: Any) -> None:
    with pytest.raises(TypeError, match="cost"):
        condition(cost=cost)


@pytest.mark.parametrize("pre", [["a and not a"], ["a", "!a"], ["!(a or b)", "a or b"]])
def test_conditions_that_can_never_hold_together_are_refused(pre: list[str]) -> None:
    @agent(description="Sends")
    class Sender:
        @achieves_goal(description="Send")
        @action(pre=pre)
        async def send(self, order: Order) -> Parcel:
            return Parcel("")

    with pytest.raises(DeclarationError, match="can never hold together"):
        AgentPlatform([Sender])
