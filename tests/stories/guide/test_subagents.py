"""Agents that run other agents, and agents that help themselves on (sections 3.6.10 to 3.6.12 and 3.29.1)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import pytest
from mcp_types import CallToolResult

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    Export,
    ProcessStatus,
    UserInput,
    achieves_goal,
    action,
    agent,
    run_subagent,
)
from goalport.agents import read_agent
from goalport.runtime import Completed, Stuck, StuckCode, StuckResult, mistakes_in
from goalport.testing import client_of


@dataclass(frozen=True)
class Intermediate:
    value: str


@dataclass(frozen=True)
class TaskOutput:
    text: str


@dataclass(frozen=True)
class Secret:
    text: str


@agent(description="Works on an input in two steps")
class InnerSubAgent:
    @action
    def step_one(self, user_input: UserInput) -> Intermediate:
        return Intermediate(user_input.content)

    @achieves_goal(description="Have worked on the input")
    @action
    def step_two(self, data: Intermediate) -> TaskOutput:
        return TaskOutput(data.value.upper())


Delegation = Callable[[ActionContext], Awaitable[TaskOutput]]


@agent(description="Has the work done")
class OuterAgent:
    """The second step takes and gives the same type: it is the goal's own."""

    def __init__(self, delegate: Delegation) -> None:
        self.delegate = delegate

    @action
    async def start(self, user_input: UserInput, context: ActionContext) -> TaskOutput:
        return await self.delegate(context)

    @achieves_goal(description="Be done")
    @action
    async def done(self, output: TaskOutput) -> TaskOutput:
        return output


INNER = InnerSubAgent()


DELEGATIONS: dict[str, Delegation] = {
    "injected instance": lambda _: run_subagent(INNER, TaskOutput),
    "fresh instance": lambda _: run_subagent(InnerSubAgent(), TaskOutput),
    "agent object": lambda _: run_subagent(read_agent(INNER), TaskOutput),
    "as sub-process": lambda context: context.as_sub_process(TaskOutput, read_agent(INNER)),
    "as sub-process of an instance": lambda context: context.as_sub_process(TaskOutput, INNER),
}


@pytest.mark.parametrize("delegate", DELEGATIONS.values(), ids=DELEGATIONS)
async def test_an_agent_delegates_to_another_and_takes_its_result(delegate: Delegation) -> None:
    process = await AgentPlatform([OuterAgent(delegate)]).run("OuterAgent", UserInput("task"))
    assert process.outcome == Completed(TaskOutput("TASK"))
    assert [each.action for each in process.history] == ["OuterAgent.start", "OuterAgent.done"]
    (child,) = process.children
    assert [each.action for each in child.history] == ["InnerSubAgent.step_one", "InnerSubAgent.step_two"]
    assert process.last(Intermediate) is None


@agent(description="Has the same agents work again and again")
class Repeating:
    def __init__(self) -> None:
        self.worker = InnerSubAgent()

    @achieves_goal(description="Have worked")
    async def work(self, user_input: UserInput, context: ActionContext) -> TaskOutput:
        for each in (self.worker, self.worker, InnerSubAgent, InnerSubAgent):
            await context.as_sub_process(TaskOutput, each, user_input)
        return await context.as_sub_process(TaskOutput, InnerSubAgent(), user_input)


async def test_an_instance_or_class_that_works_again_is_read_once() -> None:
    process = await AgentPlatform([Repeating]).run("Repeating", UserInput("x"))
    assert isinstance(process.outcome, Completed)
    same, again, made, once_more, other = [each.scope for each in process.children]
    assert same is again
    assert made is once_more
    assert len({id(same), id(made), id(other)}) == 3


async def test_a_sub_process_sees_what_its_parent_knows_but_not_what_is_hidden() -> None:
    @agent(description="Tells what it sees")
    class Tells:
        @achieves_goal(description="Tell")
        async def tell(self, user_input: UserInput, secret: Secret | None, data: Intermediate) -> TaskOutput:
            return TaskOutput(f"{user_input.content}, {data.value}, {secret}")

    async def delegate(context: ActionContext) -> TaskOutput:
        secret = context.last(Secret)
        assert secret
        context.blackboard.hide(secret)
        return await context.as_sub_process(TaskOutput, "Tells", Intermediate("given"))

    process = await AgentPlatform([OuterAgent(delegate), Tells]).run("OuterAgent", Secret("x"), UserInput("known"))
    assert process.outcome == Completed(TaskOutput("known, given, None"))


@dataclass(frozen=True)
class Dog:
    name: str


@dataclass(frozen=True)
class Frog:
    name: str


@agent(description="Unsticks itself")
class SelfUnstickingAgent:
    called = False

    @achieves_goal(description="The big goal in the sky")
    @action
    async def to_frog(self, dog: Dog) -> Frog:
        return Frog(dog.name)

    def handle_stuck(self, process: AgentProcess) -> StuckResult:
        self.called = True
        process.blackboard.add(Dog("Duke"))
        return StuckResult(StuckCode.REPLAN, "Unsticking myself")


async def test_an_agent_that_is_stuck_may_help_itself() -> None:
    declared = SelfUnstickingAgent()
    process = await AgentPlatform([declared]).run("SelfUnstickingAgent")
    assert process.outcome == Completed(Frog("Duke"))
    assert declared.called


@agent(description="Turns a dog that nobody brought into a frog")
class PublishedAgent(SelfUnstickingAgent):
    @achieves_goal(description="A frog", export=Export(remote=True, name="to_frog", starting_input_types=[UserInput]))
    async def to_published_frog(self, dog: Dog) -> Frog:
        return Frog(dog.name)


async def test_a_goal_that_only_its_agents_help_leads_to_is_published_and_no_mistake() -> None:
    platform = AgentPlatform([PublishedAgent()])
    assert mistakes_in(platform.agents, platform.groups) == ()
    async with client_of(platform) as client:
        result = await client.call_tool("to_frog", {"content": "a frog, please"})
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"name": "Duke"}


async def test_an_agent_that_knows_no_help_stays_stuck() -> None:
    @agent(description="Gives up")
    class GivesUp(SelfUnstickingAgent):
        def handle_stuck(self, process: AgentProcess) -> StuckResult:
            return StuckResult(StuckCode.NO_RESOLUTION, "no dog anywhere")

    process = await AgentPlatform([GivesUp()]).run("GivesUp")
    assert isinstance(process.outcome, Stuck)
    assert process.status is ProcessStatus.STUCK


@dataclass(frozen=True)
class BookRequest:
    topic: str


@dataclass(frozen=True)
class BookOutline:
    title: str
    chapters: tuple[str, ...]


@dataclass(frozen=True)
class Chapter:
    text: str


@dataclass(frozen=True)
class Book:
    chapters: tuple[Chapter, ...]


@agent(description="Outlines a book and writes its chapters side by side")
class BookWriter:
    def __init__(self, max_concurrency: int) -> None:
        self.max_concurrency = max_concurrency
        self.writing = self.most = 0

    @action
    async def create_outline(self, request: BookRequest) -> BookOutline:
        return BookOutline(request.topic, tuple(f"{request.topic} {number}" for number in range(6)))

    @achieves_goal(description="Write a book")
    @action
    async def write_book(self, outline: BookOutline, context: ActionContext) -> Book:
        written = await context.parallel_map(outline.chapters, self.write, max_concurrency=self.max_concurrency)
        return Book(tuple(written))

    async def write(self, chapter: str) -> Chapter:
        self.writing += 1
        self.most = max(self.most, self.writing)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        self.writing -= 1
        return Chapter(chapter)


@pytest.mark.parametrize("at_once", [1, 3])
async def test_items_are_worked_on_side_by_side_and_come_back_in_order(at_once: int) -> None:
    writer = BookWriter(at_once)
    process = await AgentPlatform([writer]).run("BookWriter", BookRequest("bees"))
    assert process.outcome == Completed(Book(tuple(Chapter(f"bees {number}") for number in range(6))))
    assert writer.most == at_once
