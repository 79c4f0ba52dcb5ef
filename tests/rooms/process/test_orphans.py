"""Sub-processes that nobody waits for any more: they end with what they were started for."""

from dataclasses import dataclass

from anyio import fail_after

from goalport.agents.domain import WaitFor, achieves_goal, action, agent
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionContext, Completed, Failed, ProcessStatus, Waiting, run_subagent


@dataclass(frozen=True)
class Site:
    number: int


@dataclass(frozen=True)
class Permit:
    number: int


@dataclass(frozen=True)
class House:
    number: int


@agent(description="Asks for a permit")
class Office:
    @achieves_goal(description="Give a permit")
    def ask(self, site: Site) -> WaitFor[Permit]:
        return WaitFor.form_submission("May they build?", Permit)


async def test_a_sub_process_that_waits_ends_when_the_action_that_started_it_fails() -> None:
    @agent(description="Builds at many sites")
    class Builder:
        @achieves_goal(description="Build")
        async def build(self, site: Site, context: ActionContext) -> list[Permit]:
            async def permit(number: int) -> Permit:
                if number == 1:
                    return await run_subagent(Office(), Permit)
                child = context.process.children[0]
                while not child.open_questions:
                    await child.wait()
                raise ValueError("The second site is flooded.")

            return await context.parallel_map([1, 2], permit)

    with fail_after(60):
        async with AgentPlatform([Builder]) as platform:
            process = await platform.run("Builder", Site(1))
            assert isinstance(process.outcome, Failed)
            assert "flooded" in process.outcome.reason
            assert [each.status for each in process.children] == [ProcessStatus.KILLED]


async def test_a_sub_process_that_waits_ends_when_its_parent_reaches_its_goal_without_it() -> None:
    @agent(description="Builds")
    class Builder:
        @action
        async def permit(self, site: Site) -> Permit:
            return await run_subagent(Office(), Permit)

        @achieves_goal(description="Build")
        def build(self, site: Site, permit: Permit) -> House:
            return House(permit.number)

    with fail_after(60):
        async with AgentPlatform([Builder]) as platform:
            process = await platform.run("Builder", Site(1))
            assert isinstance(process.outcome, Waiting)
            platform.processes.resume(process, Permit(7))
            assert await process.wait() == Completed(House(7))
            (child,) = process.children
            assert child.status is ProcessStatus.KILLED
            assert child.open_questions == ()
