"""How tools end their action or the whole process, and how often a platform has failures tried again."""

from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel
import pytest

from goalport.agents.domain import RetryPolicy, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import ReplanRequested, TerminateAction, TerminateAgent
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    AgentProcess,
    ProcessOptions,
    ProcessStatus,
    Terminated,
    run_subagent,
)
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import Tool, tool
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings
from tests.rooms.toy_domain import Draft, Reply


@tool
async def give_up(why: str) -> str:
    """End everything."""
    raise TerminateAgent(why)


@tool
async def stop() -> str:
    """End the action."""
    raise TerminateAction("Enough of this action.")


@tool
async def turn_back() -> str:
    """Want another plan."""
    raise ReplanRequested("Another way")


@agent(description="Asks a model")
class Asker:
    def __init__(self, *tools: Tool) -> None:
        self.tools = tools

    @action
    async def draft(self, user_input: UserInput, context: ActionContext) -> Draft:
        return Draft(await context.ai.with_tools(*self.tools).generate_text(user_input.content))

    @achieves_goal(description="Answer")
    async def answer(self, draft: Draft) -> Reply:
        raise AssertionError(draft)


def steps(process: AgentProcess) -> list[tuple[str, str]]:
    return [(each.action.rpartition(".")[2], each.status) for each in process.history]


async def test_a_tool_that_a_model_calls_may_terminate_the_process() -> None:
    model = ScriptedModel([calls_tool("give_up", why="Nobody pays for this.")])
    platform = AgentPlatform([Asker(Tool.of(give_up))], models=model)
    process = await platform.run("Asker", UserInput("Go"))
    assert process.outcome == Terminated("Nobody pays for this.")
    assert process.status is ProcessStatus.TERMINATED
    assert steps(process) == [("draft", "terminated")]


@pytest.mark.parametrize("other", [stop, turn_back])
async def test_of_several_tools_at_once_the_one_that_ends_the_process_counts(other: object) -> None:
    both = anyio.Event()

    async def first() -> str:
        both.set()
        return await (stop if other is stop else turn_back)()

    async def second() -> str:
        with anyio.CancelScope(shield=True):
            await both.wait()
        return await give_up("All of it.")

    model = ScriptedModel([[calls_tool("first"), calls_tool("second")]])
    tools = Tool.of(first, description="d"), Tool.of(second, description="d")
    process = await AgentPlatform([Asker(*tools)], models=model).run("Asker", UserInput("Go"))
    assert process.outcome == Terminated("All of it.")


async def test_terminating_ends_what_the_process_had_started() -> None:
    @agent(description="Waits for a person")
    class Patient:
        @achieves_goal(description="Wait")
        async def wait(self, user_input: UserInput) -> WaitFor[Draft]:
            return WaitFor.form_submission(user_input.content, Draft)

    children: list[AgentProcess] = []

    @agent(description="Starts another and gives up")
    class Parent:
        @achieves_goal(description="Answer")
        async def start(self, user_input: UserInput, context: ActionContext) -> Reply:
            async def wait() -> None:
                await run_subagent(Patient(), Draft)

            async def leave() -> None:
                while not context.process.open_questions:
                    await anyio.lowlevel.checkpoint()
                children.extend(context.process.children)
                raise TerminateAgent(f"No {user_input.content}.")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
                tasks.start_soon(wait)
            raise AssertionError

    with anyio.fail_after(60):
        process = await AgentPlatform([Parent]).run("Parent", UserInput("tea"))
    assert process.outcome == Terminated("No tea.")
    assert [each.status.ended for each in children] == [True]


async def test_a_signal_out_of_a_task_group_of_the_action_counts() -> None:
    @agent(description="Does it in a group")
    class Grouped:
        @achieves_goal(description="Answer")
        async def answer(self, user_input: UserInput) -> Reply:
            async def leave() -> None:
                raise TerminateAgent(f"No {user_input.content}.")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
                tasks.start_soon(anyio.sleep_forever)
            raise AssertionError

    process = await AgentPlatform([Grouped]).run("Grouped", UserInput("tea"))
    assert process.outcome == Terminated("No tea.")


async def test_one_of_several_actions_at_once_may_terminate_the_process() -> None:
    @dataclass(frozen=True)
    class Picture:
        name: str

    @agent(description="Does two things")
    class Two:
        @action
        async def draft(self, user_input: UserInput) -> Draft:
            raise TerminateAgent("Stop")

        @action
        async def draw(self, user_input: UserInput) -> Picture:
            return Picture(user_input.content)

        @achieves_goal(description="Answer")
        async def answer(self, draft: Draft, picture: Picture) -> Reply:
            raise AssertionError((draft, picture))

    process = await AgentPlatform([Two]).run("Two", UserInput("x"), options=ProcessOptions(concurrent=True))
    assert process.outcome == Terminated("Stop")
    assert sorted(steps(process)) == [("draft", "terminated"), ("draw", "succeeded")]


@agent(description="Fails")
class Flaky:
    def __init__(self) -> None:
        self.calls: list[str] = []

    @action
    async def draft(self, user_input: UserInput) -> Draft:
        self.calls.append("draft")
        raise LookupError(user_input.content)

    @action(retry=RetryPolicy(attempts=2, first_delay=0, every_error=True), cost=1)
    async def guess(self, user_input: UserInput) -> Draft:
        self.calls.append("guess")
        raise LookupError(user_input.content)

    @achieves_goal(description="Answer")
    async def answer(self, draft: Draft) -> Reply:
        return Reply(draft.text)


async def test_a_platform_says_how_often_failures_are_tried_again_of_actions_that_do_not() -> None:
    flaky = Flaky()
    patient = RetryPolicy(attempts=4, first_delay=0, every_error=True)
    process = await AgentPlatform([flaky], retry=patient).run("Flaky", UserInput("x"))
    assert process.status is ProcessStatus.FAILED
    assert flaky.calls == ["draft"] * 4 + ["guess"] * 2


async def test_a_workspaces_settings_say_how_often_failures_are_tried_again(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "settings.toml").write_text("[retry]\nattempts = 3\nfirst_delay = 0\nevery_error = true\n")
    flaky = Flaky()
    platform = AgentPlatform.from_workspace(load_workspace(tmp_path), load_settings(tmp_path))
    platform.deploy(flaky)
    await platform.run("Flaky", UserInput("x"))
    assert flaky.calls == ["draft"] * 3 + ["guess"] * 2
