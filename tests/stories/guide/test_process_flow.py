"""The life of a process (section 3.2, and the newer page on it): statuses, records, the loop of looking and acting."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    ProcessStatus,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
    condition,
)
from goalport.runtime import Completed, MaxActions, ProcessOptions


@dataclass(frozen=True)
class Route:
    stops: tuple[str, ...]


@dataclass(frozen=True)
class Closure:
    stop: str


@dataclass(frozen=True)
class Detour:
    around: str


@dataclass(frozen=True)
class Arrival:
    by: str


@agent(description="Drives somewhere")
class Driver:
    """Finds out on the way whether the road is open."""

    def __init__(self, closed: str = "") -> None:
        self.closed = closed

    @condition
    def open(self, route: Route) -> bool:
        return self.closed not in route.stops

    @action
    async def plan_route(self, user_input: UserInput) -> Route:
        return Route(tuple(user_input.content.split()))

    @action(cost=0.6)
    async def find_detour(self, route: Route) -> Detour:
        return Detour(self.closed)

    @achieves_goal(description="Arrive by the planned road")
    @action(pre=["open"], cost=0.1)
    async def drive(self, route: Route) -> Arrival:
        return Arrival("road")

    @achieves_goal(description="Arrive by a detour")
    @action(cost=0.1)
    async def drive_around(self, detour: Detour) -> Arrival:
        return Arrival(f"around {detour.around}")


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


@pytest.mark.parametrize(
    ("closed", "by", "steps"),
    [("Ulm", "road", ["plan_route", "drive"]), ("Bern", "around Bern", ["plan_route", "find_detour", "drive_around"])],
)
async def test_the_situation_is_looked_at_again_after_each_action(closed: str, by: str, steps: list[str]) -> None:
    process = await AgentPlatform([Driver(closed)]).run("Driver", UserInput("Basel Bern"))
    assert process.outcome == Completed(Arrival(by))
    assert ran(process) == steps


async def test_a_process_has_an_id_a_timed_history_and_its_goal() -> None:
    platform = AgentPlatform([Driver("Ulm")])
    before = datetime.now(UTC)
    one = await platform.run("Driver", UserInput("Basel Bern"))
    two = await platform.run("Driver", UserInput("Basel Bern"))
    assert one.id != two.id
    assert await platform.process(one.id) is one
    assert one.goal
    assert one.goal.name == "Driver.drive"
    starts = [each.started_at for each in one.history]
    assert [before, *starts] == sorted([before, *starts])
    assert all(each.seconds >= 0 for each in one.history)
    assert (one.parent, one.failure) == (None, None)


@agent(description="Is asked before it drives")
class Careful:
    @action
    async def ask(self, user_input: UserInput) -> WaitFor[Route]:
        return WaitFor.confirmation(Route((user_input.content,)), "Shall I go?")

    @achieves_goal(description="Arrive")
    async def drive(self, route: Route) -> Arrival:
        if route.stops == ("nowhere",):
            raise ValueError("There is no such place")
        return Arrival(route.stops[0])


async def test_a_process_passes_through_the_statuses_of_its_life() -> None:
    async with AgentPlatform([Careful]) as platform:
        process = platform.start("Careful", UserInput("Bern"))
        assert process.status is ProcessStatus.NOT_STARTED
        await process.wait()
        assert process.status is ProcessStatus.WAITING
        await platform.answer(process.id, response=True)
        await process.wait()
        assert process.status is ProcessStatus.COMPLETED


async def test_a_process_that_cannot_go_on_failed_and_keeps_why() -> None:
    process = await AgentPlatform([Careful]).run("Careful", Route(("nowhere",)))
    assert process.status is ProcessStatus.FAILED
    assert process.failure
    assert (process.failure.action, "no such place" in process.failure.reason) == ("Careful.drive", True)


async def test_a_policy_terminates_and_a_person_kills() -> None:
    async with AgentPlatform([Driver("Bern"), Careful]) as platform:
        options = ProcessOptions(early_termination=MaxActions(1))
        terminated = await platform.run("Driver", UserInput("Basel Bern"), options=options)
        killed = await platform.run("Careful", UserInput("Bern"))
        killed.kill("No longer wanted.")
    assert terminated.status is ProcessStatus.TERMINATED
    assert ran(terminated) == ["plan_route"]
    assert killed.status is ProcessStatus.KILLED


@agent(description="Sends somebody else")
class Sender:
    @achieves_goal(description="Send a driver")
    async def send(self, user_input: UserInput, context: ActionContext) -> Closure:
        return Closure((await context.as_sub_process(Arrival, "Driver")).by)


async def test_a_nested_process_refers_to_the_one_that_started_it() -> None:
    process = await AgentPlatform([Sender, Driver("Ulm")]).run("Sender", UserInput("Basel Bern"))
    assert process.outcome == Completed(Closure("road"))
    (child,) = process.children
    assert child.parent is process
    assert (child.status, ran(child)) == (ProcessStatus.COMPLETED, ["plan_route", "drive"])
