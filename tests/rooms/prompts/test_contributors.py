"""What contributors add to a system prompt, each time it is asked for."""

from datetime import date
from typing import cast

import pytest

from goalport.models.prompts import (
    Conditional,
    CurrentDate,
    KnowledgeCutoffDate,
    Persona,
    PromptContributor,
    RoleGoalBackstory,
    Text,
    contribution_of,
)


@pytest.mark.parametrize(
    ("contributor", "text"),
    [
        (Text("Be brief."), "Be brief."),
        (
            Persona("Alex", "A careful analyst", "Clear and friendly", "to make numbers plain"),
            (
                "You are Alex.\nYour persona: A careful analyst.\n"
                "Your objective is to make numbers plain.\nYour voice: Clear and friendly."
            ),
        ),
        (
            RoleGoalBackstory("Engineer", "Code that lasts", "Ten years of it"),
            "Role: Engineer\nGoal: Code that lasts\nBackstory: Ten years of it",
        ),
        (CurrentDate(lambda: date(2026, 2, 3)), "Current date: 2026-02-03"),
        (KnowledgeCutoffDate(date(2025, 6, 1)), "Knowledge cutoff: 2025-06-01"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_contributor_says(contributor: PromptContributor, text: str) -> None:
    assert contribution_of(contributor) == text


def test_the_current_date_is_that_of_the_call() -> None:
    days = iter([date(2026, 1, 1), date(2026, 1, 2)])
    today = CurrentDate(lambda: next(days))
    assert [contribution_of(today), contribution_of(today)] == ["Current date: 2026-01-01", "Current date: 2026-01-02"]
    assert contribution_of(CurrentDate()).startswith("Current date: 20")


def test_a_condition_is_asked_at_each_call() -> None:
    answers = iter([True, False, False])
    either = Conditional(lambda: next(answers), "yes", "no")
    assert [contribution_of(either), contribution_of(either)] == ["yes", "no"]
    assert contribution_of(Conditional(lambda: False, "yes")) == ""


def test_a_property_is_as_good_as_a_method() -> None:
    class Shop:
        @property
        def contribution(self) -> str:
            return "We sell bread."

    assert contribution_of(cast("PromptContributor", Shop())) == "We sell bread."


def test_a_contribution_that_is_no_text_is_refused_with_what_to_do() -> None:
    class Later:
        async def contribution(self) -> str:
            return "text"

    with pytest.raises(TypeError, match=r"contribution of Later to be a text, but it gave coroutine\. Write a plain"):
        contribution_of(cast("PromptContributor", Later()))
    with pytest.raises(TypeError, match="it gave int"):
        contribution_of(cast("PromptContributor", Text(cast("str", 3))))
