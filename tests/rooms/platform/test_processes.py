"""The processes of a platform: how many threads they take, which goal a sub-process pursues, how they are found."""

import threading
from dataclasses import dataclass

import anyio

from goalport.agents.domain import UserInput, achieves_goal, action, agent
from goalport.runtime.platform import AgentInvocation, AgentPlatform
from goalport.runtime.process import Completed, run_subagent


@dataclass(frozen=True)
class Brief:
    text: str


@dataclass(frozen=True)
class Report:
    text: str


@dataclass(frozen=True)
class Joke:
    text: str


@dataclass(frozen=True)
class Summary:
    text: str


class Crowd:
    """Counts who is in it at once. Everybody stays a little while, to be met by whoever comes too."""

    def __init__(self, too_many: int) -> None:
        self._too_many, self._here, self.most = too_many, 0, 0
        self._lock, self._crowded = threading.Lock(), threading.Event()

    def visit(self) -> None:
        with self._lock:
            self._here += 1
            self.most = max(self.most, self._here)
            if self._here >= self._too_many:
                self._crowded.set()
        self._crowded.wait(0.2)
        with self._lock:
            self._here -= 1


async def test_no_more_actions_run_in_threads_at_once_than_the_platform_allows() -> None:
    crowd = Crowd(too_many=3)

    @agent(description="d")
    class Visits:
        @achieves_goal(description="g")
        def visit(self, user_input: UserInput) -> Report:
            crowd.visit()
            return Report(user_input.content)

    async with AgentPlatform([Visits], max_threads=2) as platform:
        processes = [platform.start("Visits", UserInput(str(number))) for number in range(6)]
        with anyio.fail_after(60):
            ends = [await process.wait() for process in processes]
    assert ends == [Completed(Report(str(number))) for number in range(6)]
    assert crowd.most == 2


async def test_a_sub_process_pursues_the_goal_that_gives_what_is_wanted_and_no_other() -> None:
    ran: list[str] = []

    @agent(description="Has two goals, of which the first is the cheaper one")
    class Entertainer:
        @achieves_goal(description="A joke")
        @action(cost=0.1)
        def joke(self, brief: Brief) -> Joke:
            ran.append("joke")
            return Joke("ha")

        @achieves_goal(description="A report")
        @action(cost=5.0)
        def report(self, brief: Brief) -> Report:
            ran.append("report")
            return Report(brief.text)

    @agent(description="d")
    class Chief:
        @achieves_goal(description="g")
        async def delegate(self, user_input: UserInput) -> Report:
            return await run_subagent(Entertainer(), Report, Brief(user_input.content))

    async with AgentPlatform([Chief]) as platform:
        process = await platform.run("Chief", UserInput("bees"))
    assert process.outcome == Completed(Report("bees"))
    assert ran == ["report"]


async def test_of_goals_that_may_give_the_type_those_that_surely_do_are_pursued() -> None:
    ran: list[str] = []

    @agent(description="Has two goals that may give a report, of which the uncertain one is cheaper")
    class Writer:
        @achieves_goal(description="A joke or a report")
        @action(cost=0.1)
        def improvise(self, brief: Brief) -> Joke | Report:
            ran.append("improvise")
            return Joke("ha")

        @achieves_goal(description="A report")
        @action(cost=5.0)
        def report(self, brief: Brief) -> Report:
            ran.append("report")
            return Report(brief.text)

    @agent(description="d")
    class Chief:
        @achieves_goal(description="g")
        async def delegate(self, user_input: UserInput) -> Summary:
            return Summary((await run_subagent(Writer(), Report, Brief(user_input.content))).text)

    async with AgentPlatform([Chief, Writer]) as platform:
        assert (await platform.run("Chief", UserInput("bees"))).outcome == Completed(Summary("bees"))
        assert await AgentInvocation.on(platform).returning(Report).invoke(Brief("ants")) == Report("ants")
        assert ran == ["report", "report"]
        assert await AgentInvocation.on(platform).returning(Joke).invoke(Brief("ants")) == Joke("ha")
