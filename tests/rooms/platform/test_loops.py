"""Loops: `goalport check` tells of those that can go round once only, and of no others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from goalport.agents.domain import State, UserInput, WaitFor, achieves_goal, action, agent
from goalport.runtime.platform import AgentPlatform, mistakes_in


@dataclass(frozen=True)
class Draft: ...


@dataclass(frozen=True)
class Comments: ...


@dataclass(frozen=True)
class Accepted: ...


@dataclass(frozen=True)
class Unknown: ...


def told(*declared: object) -> list[str]:
    platform = AgentPlatform(declared)
    return [str(each) for each in mistakes_in(platform.agents, platform.groups)]


def critic(reviewing: dict[str, Any], revising: dict[str, Any]) -> object:
    @agent(description="Writes until the critic is content")
    class Critic:
        @action
        def write(self, user_input: UserInput) -> Draft:
            return Draft()

        @action(**reviewing)
        def review(self, draft: Draft) -> Accepted | Comments:
            return Accepted()

        @action(**revising)
        def revise(self, draft: Draft, comments: Comments) -> Draft:
            return draft

        @achieves_goal(description="A draft that the critic accepts")
        def done(self, draft: Draft, accepted: Accepted) -> Draft:
            return draft

    return Critic()


def test_a_loop_of_objects_that_forgets_it_is_told_of_with_the_way_out() -> None:
    (mistake,) = told(critic({}, {}))
    assert "Critic.review" in mistake
    assert "expected to run again when it is reached by way of Critic.review → Comments" in mistake
    assert "`can_rerun=True` here, or `clear_blackboard=True` where each round begins anew" in mistake


@pytest.mark.parametrize(
    "loop",
    [
        lambda: critic({"can_rerun": True}, {"can_rerun": True}),
        lambda: critic({}, {"clear_blackboard": True}),
    ],
)
def test_a_loop_that_can_go_round_is_no_mistake(loop: Callable[[], object]) -> None:
    assert told(loop()) == []


class Stage(State): ...


class Asking(Stage):
    @action
    def ask(self) -> WaitFor[Comments]:
        return WaitFor.form_submission("?", Comments)

    @action
    def judge(self, comments: Comments) -> "Ending | Asking":
        return Ending()


class Ending(Stage):
    @achieves_goal(description="Accepted")
    def end(self) -> Accepted:
        return Accepted()


@agent(description="Asks until somebody is content")
class Asks:
    @action
    def begin(self, user_input: UserInput) -> Asking:
        return Asking()


def test_a_loop_of_states_that_forgets_it_is_told_of() -> None:
    assert any("Asking.judge" in each and "Asking.judge → Asking" in each for each in told(Asks()))


@agent(description="Looks somebody up")
class LooksUp:
    @action
    def look_up(self, user_input: UserInput) -> Draft | Unknown:
        return Unknown()

    @achieves_goal(description="A draft")
    def end(self, draft: Draft) -> Accepted:
        return Accepted()


def test_an_exit_that_leads_nowhere_is_no_loop() -> None:
    assert told(LooksUp()) == []
