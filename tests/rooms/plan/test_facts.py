from typing import Annotated, Optional

import pytest

from goalport.agents.plan import Available, Fact, GroupAvailable, HasRun, Holds, LastResult


class StarPerson: ...


class Order: ...


class UserInput: ...


class UnpaidBill: ...


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (Available(StarPerson), "a StarPerson"),
        (Available(StarPerson, "thing_one"), "a StarPerson named thing_one"),
        (Available(Order), "an Order"),
        (Available(UserInput), "a UserInput"),
        (Available(UnpaidBill), "an UnpaidBill"),
        (Available(list[Order]), "a list[Order]"),
        (Available(dict[str, list[Order]]), "a dict[str, list[Order]]"),
        (Available(Order | None), "an Order | None"),
        (Available(Optional[Order]), "an Order | None"),  # noqa: UP045
        (Available("Dynamic"), "a Dynamic"),
        (LastResult(UserInput), "a UserInput as the last result"),
        (HasRun("retrieve_horoscope"), "retrieve_horoscope has run"),
        (Holds("user_verified"), "condition user_verified"),
        (GroupAvailable("web"), "tool group web"),
        (GroupAvailable("web", ("fetch", "search")), "tool group web with fetch, search"),
    ],
)
def test_a_fact_names_itself_as_people_would(fact: Fact, words: str) -> None:
    assert str(fact) == words


def test_facts_are_values() -> None:
    assert Available(list[Order]) == Available(list[Order], "it")
    assert {Available(Order), Available(Order), LastResult(Order), HasRun("Order"), Holds("Order")} == {
        Available(Order),
        LastResult(Order),
        HasRun("Order"),
        Holds("Order"),
    }
    assert Available(Annotated[Order, 1]) != Available(Order)
