"""Services that a workspace declares, in one program: how each kind is made, shared, failed and left."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from goalport import AgentPlatform, UserInput
from goalport.runtime.process import AgentProcess, Completed, Failed
from goalport.workspace import load_workspace, workspace_importer
from goalport.workspace.settings import load_settings

BEGIN = """
import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from goalport import Ai, UserInput, achieves_goal, agent, service

notes: list[str] = []
begun, allowed = asyncio.Event(), asyncio.Event()

class Base: ...

@dataclass(frozen=True)
class Text:
    content: str
"""
KINDS = """
@service
class Both(Base):
    async def __aenter__(self) -> "Both":
        notes.append("both")
        return self

    async def __aexit__(self, *_: object) -> None:
        notes.append("no both")

@service
class Plain:
    def __init__(self, both: Both) -> None:
        self.both = both

    def __enter__(self) -> "Plain":
        notes.append("plain")
        return self

    def __exit__(self, *_: object) -> None:
        notes.append("no plain")

class Awaited(Base): ...

@service
async def awaited(plain: Plain) -> Awaited:
    notes.append("awaited")
    return Awaited()

@agent(description="Asks a model")
class Kinds:
    def __init__(self, ai: Ai, awaited: Awaited) -> None:
        self.ai, self.awaited = ai, awaited

    @achieves_goal(description="Text")
    def text(self, user_input: UserInput, both: Both, plain: Plain) -> Text:
        assert plain.both is both
        return Text(f"{notes}")
"""
AMBIGUOUS = """
@agent(description="Asks for either")
class Either:
    def __init__(self, base: Base) -> None: ...

    @achieves_goal(description="Text")
    def text(self, user_input: UserInput) -> Text:
        return Text("")
"""
SLOW = """
class Slow: ...

@service
async def slow() -> AsyncIterator[Slow]:
    notes.append("opens")
    begun.set()
    await allowed.wait()
    if "fails" in notes:
        raise ValueError("no luck")
    yield Slow()
    raise OSError("the line is cut")

@agent(description="Waits")
class Waiter:
    @achieves_goal(description="Text")
    async def text(self, user_input: UserInput, slow: Slow) -> Text:
        return Text("done")
"""


@pytest.fixture(autouse=True)
def leave_no_modules(tmp_path: Path) -> Iterator[None]:
    with workspace_importer(tmp_path):
        yield


def platform_of(root: Path, text: str, *services: object) -> AgentPlatform:
    (root / "agents").mkdir()
    (root / "agents/one.py").write_text(BEGIN + text)
    return AgentPlatform.from_workspace(load_workspace(root), load_settings(root, store="memory"), services=services)


def module() -> ModuleType:
    return sys.modules["goalport_workspace.agents.one"]


def failure(process: AgentProcess) -> str:
    assert isinstance(process.outcome, Failed)
    return process.outcome.reason


async def test_each_kind_is_entered_in_order_and_left_in_reverse(tmp_path: Path) -> None:
    async with platform_of(tmp_path, KINDS) as platform:
        assert platform.problems == ()
        process = await platform.run("Kinds", UserInput("x"))
        assert isinstance(process.outcome, Completed)
        assert vars(module())["notes"] == ["both", "plain", "awaited"]
        assert platform.agents.scope("Kinds").durable_goals, "it asks a model, though it was not constructed at first"
    assert vars(module())["notes"][3:] == ["no plain", "no both"]


async def test_a_base_class_of_two_services_is_refused_with_both_of_them(tmp_path: Path) -> None:
    (problem,) = platform_of(tmp_path, KINDS + AMBIGUOUS).problems

    assert "A Base is given by " in problem
    assert "one.py:17: Both and by " in problem


async def test_a_listener_that_does_not_say_its_type_is_a_problem_and_the_rest_is_served(tmp_path: Path) -> None:
    untyped = "\nfrom goalport.workspace import listener\n\n@listener\ndef untyped():\n    return None\n"
    platform = platform_of(tmp_path, SLOW + untyped)
    (problem,) = platform.problems
    assert "expected a class as the return annotation" in problem
    assert len(platform.agents) == 1


async def test_who_needs_it_first_may_be_killed_and_others_get_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with platform_of(tmp_path, SLOW) as platform:
        first, second = (platform.start("Waiter", UserInput("x")) for _ in range(2))
        async with asyncio.timeout(5):
            await vars(module())["begun"].wait()
            first.kill("enough")
            vars(module())["allowed"].set()
            assert isinstance(await second.wait(), Completed)
        assert vars(module())["notes"] == ["opens"]
    (warned,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "slow failed when it was left: OSError: the line is cut" in warned.getMessage()


async def test_one_that_failed_is_tried_again_when_it_is_needed_again(tmp_path: Path) -> None:
    async with platform_of(tmp_path, SLOW) as platform:
        vars(module())["notes"].append("fails")
        vars(module())["allowed"].set()
        assert "one.py:19: slow could not be made: ValueError: no luck, in line 25" in failure(
            await platform.run("Waiter", UserInput("x"))
        )
        vars(module())["notes"].clear()
        assert isinstance((await platform.run("Waiter", UserInput("x"))).outcome, Completed)


async def test_what_a_program_gives_takes_the_place_and_the_other_is_never_made(tmp_path: Path) -> None:
    async with platform_of(tmp_path, SLOW) as platform:
        given: object = vars(module())["Slow"]()
        workspace = load_workspace(tmp_path)
        settings = load_settings(tmp_path, store="memory")
        async with AgentPlatform.from_workspace(workspace, settings, services=[given]) as other:
            assert isinstance((await other.run("Waiter", UserInput("x"))).outcome, Completed)
            assert other.service(type(given)) is given
        assert platform.service(type(given)) is None
    assert vars(module())["notes"] == []
