"""A plan is searched for only while the event loop can stand still; what was found in time is not searched again."""

from dataclasses import dataclass, replace

from goalport.agents.domain import achieves_goal, action, agent, read_agent
from goalport.agents.plan import Available, NoPlan, Plan, Problem, WorldState, best_step
from goalport.runtime.process import Scope


@dataclass(frozen=True)
class Egg: ...


@dataclass(frozen=True)
class Chick: ...


@dataclass(frozen=True)
class Hen: ...


@agent(description="Raises hens")
class Farm:
    @action
    def hatch(self, egg: Egg) -> Chick:
        return Chick()

    @achieves_goal(description="Have a hen")
    def raise_up(self, chick: Chick) -> Hen:
        return Hen()


def asked(scope: Scope, deadline: float | None) -> Problem:
    return Problem(
        scope.system, WorldState(frozenset({Available(Egg)})), tuple(scope.plan_goals.values()), deadline=deadline
    )


def farm() -> Scope:
    return Scope(read_agent(Farm()))


def test_an_answer_that_was_found_in_time_is_remembered() -> None:
    scope = farm()

    first = scope.answer(asked(scope, 60.0))

    assert isinstance(first, Plan)
    assert scope.answer(asked(scope, 60.0)) is first
    assert scope.answer(asked(scope, None)) is first


def test_an_answer_for_want_of_time_is_not_remembered() -> None:
    scope = farm()

    hasty = scope.answer(asked(scope, 0.0))

    assert isinstance(hasty, NoPlan)
    assert hasty.timed_out
    assert isinstance(scope.answer(asked(scope, 60.0)), Plan)


def test_each_planner_has_its_own_answers() -> None:
    scope = farm()
    problem = asked(scope, 60.0)

    searched, chosen = scope.answer(problem), scope.answer(problem, best_step)

    assert isinstance(searched, Plan)
    assert isinstance(chosen, Plan)
    assert (len(searched.steps), len(chosen.steps)) == (2, 1)
    assert scope.answer(replace(problem, deadline=None), best_step) is chosen
