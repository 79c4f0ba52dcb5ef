"""Mistakes that no single declaration shows: each told with its place, what came, and the fix."""

import re
from dataclasses import dataclass
from typing import Annotated

import pytest

from goalport.agents.domain import (
    Export,
    Named,
    PlannerType,
    UserInput,
    achieves_goal,
    action,
    agent,
    component,
    condition,
)
from goalport.base.errors import DeclarationError, DeploymentError
from goalport.runtime.platform import AgentPlatform, mistakes_in

HERE = r"\(tests/rooms/platform/test_inspection.py:\d+\): expected "


@dataclass(frozen=True)
class Draft: ...


@dataclass(frozen=True)
class Review: ...


@dataclass(frozen=True)
class Book: ...


@dataclass(frozen=True)
class Paper: ...


def told(*declared: object) -> list[str]:
    platform = AgentPlatform(declared)
    return [str(each) for each in mistakes_in(platform.agents, platform.groups)]


def only(*declared: object) -> str:
    (mistake,) = told(*declared)
    return mistake


@agent(description="Writes")
class Fine:
    @condition
    def is_polite(self, user_input: UserInput) -> bool:
        return True

    @condition
    def is_good(self, draft: Draft) -> bool:
        return True

    @action(pre=["is_polite"])
    def write(self, user_input: UserInput) -> Draft:
        return Draft()

    @action(post=["is_good"], can_rerun=True)
    def improve(self, draft: Draft) -> Draft:
        return draft

    @action(trigger=Draft)
    def look(self, draft: Draft, name: Annotated[Paper, Named("paper")]) -> Review:
        return Review()

    @achieves_goal(description="Print it")
    @action(pre=["is_good"])
    def print_it(self, draft: Draft) -> Book:
        return Book()


def test_what_can_work_is_no_mistake() -> None:
    assert told(Fine()) == []


@agent(description="Prints")
class Unreachable:
    @achieves_goal(description="Print", export=Export(starting_input_types=[UserInput]))
    def print_it(self, draft: Draft) -> Book:
        return Book()


def test_a_goal_that_nothing_leads_to_is_told_from_each_start() -> None:
    mistake = only(Unreachable())

    assert re.search(f"Unreachable.print_it {HERE}", mistake)
    assert "a way to the goal Unreachable.print_it from UserInput" in mistake
    assert "it needs a Draft, but no action gives one" in mistake


@agent(description="Prints")
class OfTexts:
    @achieves_goal(description="Print")
    def print_it(self, title: str) -> str:
        return title


def test_a_goal_that_makes_what_it_needs_from_a_text_is_told_to_take_a_class() -> None:
    assert "Take a class of your own in place of str: the planner tells objects apart" in only(OfTexts())


@agent(description="Prints")
class Idle:
    @achieves_goal(description="Print", export=Export(starting_input_types=[UserInput]))
    def print_it(self, user_input: UserInput) -> Book:
        return Book()

    @action
    def review(self, draft: Draft) -> Review:
        return Review()

    @action
    def file(self, review: Review) -> Paper:
        return Paper()


def test_an_action_that_can_never_run_is_told_and_so_is_one_that_depends_on_it() -> None:
    first, second = told(Idle())

    assert re.search(f"Idle.review {HERE}an action that can run", first)
    assert "it needs a Draft, and nothing brings that about" in first
    assert re.search(f"Idle.file {HERE}", second)
    assert "only Idle.review brings that about, which can never run either" in second


@agent(description="Prints")
class Undecided:
    @achieves_goal(description="Print")
    @action(pre=["is_nice"])
    def print_it(self, user_input: UserInput) -> Book:
        return Book()


def test_a_condition_that_nobody_decides_is_told() -> None:
    mistake, unreachable = told(Undecided())

    assert "a way to the goal Undecided.print_it from UserInput" in unreachable
    assert re.search(f"Undecided.print_it {HERE}somebody to decide the condition 'is_nice'", mistake)
    assert 'post=["is_nice"]' in mistake


def printing(*pre: str) -> type:
    """An agent that prints where this holds."""

    @agent(description="Prints")
    class Conditional:
        @condition
        def is_nice(self, user_input: UserInput) -> bool:
            return True

        @condition
        def paid(self, user_input: UserInput) -> bool:
            return True

        @achieves_goal(description="Print")
        @action(pre=pre)
        def print_it(self, user_input: UserInput) -> Book:
            return Book()

    return Conditional


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ("isnice", "Did you mean 'is_nice'?"),
        ("Is_Nice", "Did you mean 'is_nice'?"),
        ("is_nice & paid", 'write pre=["is_nice and paid"]'),
        ("is_nice && paid || ~paid", 'write pre=["is_nice and paid or not paid"]'),
        ("is_nice, paid", 'write pre=["is_nice and paid"]'),
        ("user_input.content == 'x'", "write pre=[\"expr: user_input.content == 'x'\"]"),
    ],
)
def test_a_condition_that_is_written_otherwise_is_told_with_what_to_write(written: str, fix: str) -> None:
    mistake = told(printing(written))[0]

    assert repr(written) in mistake
    assert mistake.rstrip(".").endswith(fix.rstrip("."))


def test_conditions_put_together_by_words_are_no_mistake() -> None:
    assert told(printing("is_nice and paid or not paid")) == []


class Prints:
    @condition
    def is_good(self, draft: Draft) -> bool:
        return True

    @action
    def write(self, user_input: UserInput) -> Draft:
        return Draft()

    @achieves_goal(description="Print")
    @action(pre=["is_good"])
    def print_it(self, draft: Draft) -> Book:
        return Book()


@agent(description="Prints")
class Unposted(Prints): ...


@agent(description="Prints", planner=PlannerType.UTILITY)
class Greedy(Prints): ...


def test_a_condition_on_what_is_made_on_the_way_must_be_posted() -> None:
    mistake, unreachable = told(Unposted())

    assert (
        "from UserInput, but it cannot be reached: it needs condition is_good to be true, but no action makes it true"
        in unreachable
    )
    assert re.search(f"Unposted.print_it {HERE}an action that may make the condition 'is_good'", mistake)
    assert "it looks at a Draft, which is made on the way" in mistake
    assert 'Give Unposted.write, which makes it, post=["is_good"].' in mistake
    assert "needs a UserInput" not in unreachable
    assert "starting_input_types" not in unreachable


def test_a_utility_agent_asks_on_the_way_and_needs_no_post() -> None:
    assert told(Greedy()) == []


@agent(description="Prints")
class Untriggered:
    @achieves_goal(description="Print")
    def print_it(self, user_input: UserInput) -> Book:
        return Book()

    @action(trigger=Paper)
    def react(self, user_input: UserInput) -> Review:
        return Review()


def test_a_trigger_that_nobody_produces_is_told() -> None:
    mistake = only(Untriggered())

    assert re.search(f"Untriggered.react {HERE}an action that makes a Paper, which is the trigger", mistake)


@component
class Reviewing:
    @action(pre=["is_good"])
    def review(self, draft: Draft) -> Review:
        return Review()


def test_an_action_of_a_component_is_judged_by_those_who_may_use_it() -> None:
    assert "'is_good'" in only(Reviewing())
    assert told(Reviewing(), Fine()) == []


@component(name="Elsewhere")
class Lent:
    @action
    def write(self, user_input: UserInput) -> Draft:
        return Draft()


Lent.__name__ = "Fine"


def test_actions_of_one_name_that_are_planned_together_are_refused_with_both_places() -> None:
    for declared in ([Fine(), Lent()], [Lent(), Fine()]):
        with pytest.raises(DeclarationError, match=r"py:\d+\) and .*py:\d+\) are both called 'Fine\.write'"):
            AgentPlatform(declared)


@agent(description="Another", name="Fine")
class Twin(Idle): ...


def test_agents_of_one_name_are_refused_with_both_places() -> None:
    with pytest.raises(
        DeploymentError, match=r"Twin \(tests.*:\d+\) and .*Fine \(tests.*:\d+\) are both called 'Fine'"
    ):
        AgentPlatform([Fine(), Twin()])
