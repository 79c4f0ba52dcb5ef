"""Starting agents from programs (sections 3.14 to 3.16): by agent, by the type that is wanted, at once or later."""

import logging
from dataclasses import dataclass
from typing import Annotated

import anyio
import pytest

from goalport import (
    AgentInvocation,
    AgentPlatform,
    Blackboard,
    Budget,
    Named,
    ProcessOptions,
    ProcessStatus,
    achieves_goal,
    action,
    agent,
)
from goalport.errors import GoalportError, ProcessEnded, ProcessFailed, ProcessKilled, ProcessStuck
from goalport.runtime import Completed, Invoked, MaxActions, Verbosity


@dataclass(frozen=True)
class TravelRequest:
    to: str


@dataclass(frozen=True)
class Preferences:
    by: str


@dataclass(frozen=True)
class Route:
    text: str


@dataclass(frozen=True)
class TravelPlan:
    text: str


@dataclass(frozen=True)
class Postcard:
    text: str


class Gate:
    """Holds the work up until a test lets it go on."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.opened = anyio.Event()

    async def has_begun(self) -> None:
        with anyio.fail_after(60):
            await self.begun.wait()


@agent(description="Plans travels")
class TravelAgent:
    def __init__(self, gate: Gate | None = None) -> None:
        self.gate = gate

    @action
    async def find_route(self, request: TravelRequest, preferences: Preferences | None) -> Route:
        if self.gate:
            self.gate.begun.set()
            await self.gate.opened.wait()
        if request.to == "nowhere":
            raise ValueError("There is no such place")
        return Route(f"to {request.to} by {preferences.by if preferences else 'foot'}")

    @achieves_goal(description="Plan a travel")
    async def plan(self, route: Route) -> TravelPlan:
        return TravelPlan(route.text)


@agent(description="Writes home")
class Writer:
    @achieves_goal(description="Write a postcard")
    async def write(self, request: TravelRequest) -> Postcard:
        return Postcard(f"Greetings from {request.to}")


ROME = TravelRequest("Rome")
BY_FOOT = TravelPlan("to Rome by foot")


async def test_a_process_is_created_from_named_bindings_and_started() -> None:
    async with AgentPlatform([TravelAgent()]) as platform:
        process = platform.start("TravelAgent", bindings={"input": ROME}, options=ProcessOptions())
        assert process.status is ProcessStatus.NOT_STARTED
        assert process.blackboard.get("input") == ROME
        with anyio.fail_after(60):
            assert await process.wait() == Completed(BY_FOOT)
    assert process.last(TravelPlan) == BY_FOOT
    assert process.result_of_type(TravelPlan) == BY_FOOT


async def test_a_process_is_created_from_objects_and_run_to_its_end() -> None:
    process = await AgentPlatform([TravelAgent()]).run("TravelAgent", ROME, Preferences("train"))
    assert process.last(TravelPlan) == TravelPlan("to Rome by train")


async def test_an_agent_is_found_by_the_type_that_is_wanted() -> None:
    platform = AgentPlatform([TravelAgent(), Writer])
    assert await AgentInvocation.on(platform).returning(TravelPlan).invoke(ROME) == BY_FOOT
    assert await AgentInvocation.on(platform).returning(Postcard).invoke(ROME) == Postcard("Greetings from Rome")


async def test_named_inputs_are_bound_under_their_names() -> None:
    @agent(description="Wants them by name")
    class ByName:
        @achieves_goal(description="Plan")
        async def plan(
            self, request: Annotated[TravelRequest, Named()], preferences: Annotated[Preferences, Named()]
        ) -> TravelPlan:
            return TravelPlan(f"to {request.to} by {preferences.by}")

    inputs = {"request": ROME, "preferences": Preferences("boat")}
    found = await AgentInvocation.on(AgentPlatform([ByName])).returning(TravelPlan).invoke(**inputs)
    assert found == TravelPlan("to Rome by boat")


def test_a_program_without_an_event_loop_invokes_too() -> None:
    assert AgentInvocation.on(AgentPlatform([TravelAgent()])).returning(TravelPlan).invoke_sync(ROME) == BY_FOOT


async def test_options_shape_the_run(caplog: pytest.LogCaptureFixture) -> None:
    invocation = AgentInvocation.on(AgentPlatform([TravelAgent()])).returning(TravelPlan)
    with caplog.at_level(logging.INFO, "goalport.process"):
        await invocation.with_options(ProcessOptions(verbosity=Verbosity(show_planning=True))).invoke(ROME)
    assert "TravelAgent.find_route" in caplog.text
    for limit in (ProcessOptions(budget=Budget(actions=1)), ProcessOptions(early_termination=MaxActions(1))):
        with pytest.raises(ProcessEnded, match="1 action"):
            await invocation.with_options(limit).invoke(ROME)


async def test_a_process_may_start_from_a_blackboard_and_leaves_it_as_it_is() -> None:
    board = Blackboard()
    board.add(Route("prepared"))
    process = await AgentPlatform([TravelAgent()]).run("TravelAgent", options=ProcessOptions(blackboard=board))
    assert process.outcome == Completed(TravelPlan("prepared"))
    assert [each.action for each in process.history] == ["TravelAgent.plan"]
    assert board.objects == [Route("prepared")]


async def test_no_agent_for_a_type_is_an_error() -> None:
    with pytest.raises(GoalportError, match="No agent has a goal that gives Route"):
        await AgentInvocation.on(AgentPlatform([TravelAgent()])).returning(Route).invoke(ROME)


async def test_an_agent_that_is_deployed_no_more_is_not_found() -> None:
    platform = AgentPlatform([TravelAgent(), Writer])
    platform.undeploy("Writer")
    with pytest.raises(GoalportError, match="No agent has a goal that gives Postcard"):
        await AgentInvocation.on(platform).returning(Postcard).invoke(ROME)


async def test_what_cannot_be_had_is_raised_by_its_kind() -> None:
    invocation = AgentInvocation.on(AgentPlatform([TravelAgent()])).returning(TravelPlan)
    with pytest.raises(ProcessFailed, match="There is no such place"):
        await invocation.invoke(TravelRequest("nowhere"))
    with pytest.raises(ProcessStuck, match="TravelRequest"):
        await invocation.invoke(Preferences("train"))


class TripJobs:
    """What a web application does: start and return at once, be asked how it stands, cancel, forget what is done."""

    def __init__(self, platform: AgentPlatform) -> None:
        self.invocation = AgentInvocation.on(platform).returning(TravelPlan)
        self.active: dict[str, Invoked[TravelPlan]] = {}

    def plan_trip(self, request: TravelRequest) -> str:
        job = self.invocation.invoke_async(request)
        self.active[job.process.id] = job
        return job.process.id

    async def status(self, job_id: str) -> dict[str, object]:
        job = self.active.get(job_id)
        if job is None:
            return {"status": "not found"}
        if job.process.outcome is None:
            return {"status": "in_progress"}
        del self.active[job_id]
        try:
            return {"status": "completed", "result": await job.result()}
        except ProcessKilled:
            return {"status": "cancelled"}
        except ProcessEnded as error:
            return {"status": "failed", "error": str(error)}

    def cancel(self, job_id: str) -> bool:
        job = self.active.get(job_id)
        if job is None or job.process.outcome is not None:
            return False
        job.cancel()
        return True

    async def settled(self, job_id: str) -> dict[str, object]:
        with anyio.fail_after(60):
            await self.active[job_id].process.wait()
        return await self.status(job_id)


async def test_a_long_run_is_followed_by_its_job() -> None:
    gate = Gate()
    async with AgentPlatform([TravelAgent(gate)]) as platform:
        jobs = TripJobs(platform)
        good, bad = jobs.plan_trip(ROME), jobs.plan_trip(TravelRequest("nowhere"))
        await gate.has_begun()
        assert await jobs.status(good) == {"status": "in_progress"}
        gate.opened.set()
        assert await jobs.settled(good) == {"status": "completed", "result": BY_FOOT}
        failed = await jobs.settled(bad)
    assert failed["status"] == "failed"
    assert "There is no such place" in str(failed["error"])
    assert await jobs.status(good) == {"status": "not found"}
    assert jobs.active == {}


async def test_a_long_run_can_be_cancelled_once() -> None:
    gate = Gate()
    async with AgentPlatform([TravelAgent(gate)]) as platform:
        jobs = TripJobs(platform)
        job = jobs.plan_trip(ROME)
        await gate.has_begun()
        assert jobs.cancel(job)
        assert await jobs.settled(job) == {"status": "cancelled"}
        assert not jobs.cancel(job)


async def test_an_asynchronous_invocation_is_awaited_like_any_other() -> None:
    async with AgentPlatform([TravelAgent()]) as platform:
        assert await AgentInvocation.on(platform).returning(TravelPlan).invoke_async(ROME) == BY_FOOT
