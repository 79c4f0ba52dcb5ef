"""A server that wants a person to sign in: a process that calls it asks for that, and goes on when it is done."""

import json
import logging
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, Ai, UserInput, achieves_goal, action, agent
from goalport.agents.domain.wait_for import UrlVisit
from goalport.base.caller import Caller
from goalport.runtime.platform import UpstreamServers
from goalport.runtime.process import AgentProcess, Completed, ProcessStatus
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel
from goalport.tools import ToolGroupRequirement
from goalport.tools.upstream import GroupConfig, McpConfig, ServerConfig
from goalport.tools.upstream.config import OAuthConfig
from tests.rooms.upstream.connected import QUICK
from tests.rooms.upstream.signing_in import Doorkeeper, doorkeeper, free_port
from tests.rooms.upstream.test_signing_in import browser


@dataclass(frozen=True)
class Greeting:
    content: str


@agent(description="Greets")
class Greeter:
    @achieves_goal(description="The greeting")
    @action(tool_groups=["doors"])
    async def greet(self, said: UserInput, context: ActionContext) -> Greeting:
        (tool,) = (each for each in context.tools if each.name == "headers")
        result = await tool.call({})
        return Greeting(result.text)


@agent(description="Greets, if it can")
class Careful:
    @achieves_goal(description="The greeting")
    @action(tool_group_requirements=[ToolGroupRequirement("doors", tools=("headers",))])
    async def greet(self, said: UserInput, context: ActionContext) -> Greeting:
        return Greeting((await context.tool("headers").call({})).text)


@agent(description="Has a model greet")
class Prompter:
    @achieves_goal(description="The greeting")
    @action
    async def greet(self, said: UserInput, ai: Ai) -> Greeting:
        texts = [await ai.with_tool_groups("doors").generate_text(said.content) for _ in range(2)]
        return Greeting(" and ".join(texts))


def upstream(keeper: Doorkeeper, folder: Path, port: int, **oauth: Any) -> UpstreamServers:
    server = ServerConfig(
        "guarded", "http", url=f"{keeper.address}/mcp", oauth=OAuthConfig(redirect_port=port, **oauth)
    )
    config = McpConfig({"guarded": server}, {"doors": GroupConfig("doors", ("guarded",))})
    return UpstreamServers(config, folder, timing=QUICK, start_seconds=20)


@asynccontextmanager
async def signed_out(folder: Path, **oauth: Any) -> AsyncGenerator[tuple[Doorkeeper, AgentPlatform]]:
    """A platform whose server knows nobody any more who had signed in once."""
    port = free_port()
    async with doorkeeper() as keeper:
        before = upstream(keeper, folder, port, **oauth)
        before.show_sign_in = browser
        async with before:
            pass
        async with AgentPlatform([Greeter], upstream=upstream(keeper, folder, port, **oauth)) as platform:
            keeper.sign_everybody_out()
            yield keeper, platform


@asynccontextmanager
async def never_signed_in(
    folder: Path, *agents: object, models: Sequence[ScriptedModel] = (), **oauth: Any
) -> AsyncGenerator[tuple[Doorkeeper, AgentPlatform]]:
    """A platform whose server nobody has ever signed in to, so that its tools are not known."""
    async with doorkeeper() as keeper:
        servers = upstream(keeper, folder, free_port(), **oauth)
        async with AgentPlatform(agents or [Greeter], upstream=servers, models=models) as platform:
            yield keeper, platform


def left_by_a_crash(store: Path) -> Path:
    """A copy of a store as it is on the disk now, as if the program that uses it had ended at once."""
    copy = store.with_suffix(".crashed")
    with closing(sqlite3.connect(store)) as before, closing(sqlite3.connect(copy)) as after:
        before.backup(after)
    return copy


async def settled(process: AgentProcess) -> None:
    with anyio.fail_after(60):
        while process.status not in {ProcessStatus.WAITING, ProcessStatus.COMPLETED, ProcessStatus.FAILED}:
            await process.changed()


async def asked(platform: AgentPlatform, caller: str = "ada", agent: str = "Greeter") -> tuple[AgentProcess, str]:
    """A process that waits for a sign-in, and where that is done."""
    process = platform.start(agent, UserInput("hello"), caller=Caller(caller, "https://id.example"))
    await settled(process)
    assert process.status is ProcessStatus.WAITING, process.outcome
    (question,) = process.open_questions
    assert question.message == "guarded asks: Sign in, so that it can be called for you."
    assert isinstance(question.wait, UrlVisit)
    assert question.wait.calls_back
    return process, question.wait.address


async def completed(process: AgentProcess) -> None:
    with anyio.fail_after(60):
        while process.status is not ProcessStatus.COMPLETED:
            await process.changed()


async def greeting(process: AgentProcess) -> dict[str, str]:
    """The headers that the server saw in the end, without the place in the trace, since each process has its own."""
    await completed(process)
    assert isinstance(process.outcome, Completed)
    assert isinstance(process.outcome.value, Greeting)
    assert process.outcome.value.content.startswith("{"), process.outcome.value.content
    seen: dict[str, str] = json.loads(process.outcome.value.content)
    return {name: value for name, value in seen.items() if name != "traceparent"}


async def test_a_process_asks_for_a_sign_in_and_goes_on_by_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with signed_out(tmp_path) as (keeper, platform):
        process, address = await asked(platform)
        await browser(address)
        seen = await greeting(process)
        assert seen["authorization"].removeprefix("Bearer ") in keeper.tokens
        again = platform.start("Greeter", UserInput("hello"))
        assert await greeting(again) == seen
    ours = "\n".join(each.getMessage() for each in caplog.records if each.name.startswith("goalport"))
    assert "access-token" not in ours
    assert "state=" not in ours


async def test_whoever_declines_to_sign_in_is_not_asked_again_and_the_tool_says_so(tmp_path: Path) -> None:
    async with signed_out(tmp_path) as (_, platform):
        process, _ = await asked(platform)
        (question,) = process.open_questions
        await platform.answer(process.id, question.id, False)
        await completed(process)
    assert "a person was asked to sign in to the server 'guarded' and declined" in str(process.outcome)


async def test_one_sign_in_answers_all_processes_that_ask_for_it(tmp_path: Path) -> None:
    async with signed_out(tmp_path) as (_, platform):
        first, address = await asked(platform, "ada")
        second = platform.start("Greeter", UserInput("hello"), caller=Caller("bob", "https://id.example"))
        await settled(second)
        assert [each.wait for each in second.open_questions] == [each.wait for each in first.open_questions]
        await browser(address)
        assert await greeting(first) == await greeting(second)


async def test_each_caller_signs_in_where_the_server_is_to_know_them_apart(tmp_path: Path) -> None:
    async with signed_out(tmp_path, per_caller=True) as (_, platform):
        tokens: dict[str, str] = {}
        for caller in ("ada", "bob"):
            process, address = await asked(platform, caller)
            await browser(address)
            tokens[caller] = (await greeting(process))["authorization"]
        assert tokens["ada"] != tokens["bob"]
        for caller in ("bob", "ada"):
            process = platform.start("Greeter", UserInput("hello"), caller=Caller(caller, "https://id.example"))
            assert (await greeting(process))["authorization"] == tokens[caller]
        nobody = platform.start("Greeter", UserInput("hello"))
        await settled(nobody)
        assert "wants to know who calls, and this call is nobody's" in str(nobody.outcome)
        bob = Caller("bob", "https://id.example")
        assert (await platform.erase(bob, dry_run=True)).sign_ins == 1
        assert len(list((tmp_path / "oauth").iterdir())) == 3
        assert (await platform.erase(bob)).sign_ins == 1
        assert (await platform.erase(bob)).sign_ins == 0
        _, address = await asked(platform, "bob")
        assert address
    assert len(list((tmp_path / "oauth").iterdir())) == 3
    assert not any("access-token" in each.read_text() for each in (tmp_path / "oauth").iterdir())


async def test_a_process_asks_for_the_first_sign_in_and_goes_on_with_tools_that_nobody_knew(tmp_path: Path) -> None:
    async with never_signed_in(tmp_path) as (_, platform):
        assert platform.groups.find("doors") is None
        first, address = await asked(platform, "ada")
        second, same = await asked(platform, "bob")
        assert address == same
        await browser(address)
        assert await greeting(first) == await greeting(second)
        assert [each.name for each in platform.groups.groups[0].tools] == ["headers", "hello"]


async def test_each_caller_signs_in_first_where_the_server_is_to_know_them_apart(tmp_path: Path) -> None:
    tokens: dict[str, str] = {}
    async with never_signed_in(tmp_path, per_caller=True) as (_, platform):
        for caller in ("ada", "bob"):
            process, address = await asked(platform, caller)
            await browser(address)
            tokens[caller] = (await greeting(process))["authorization"]
    assert tokens["ada"] != tokens["bob"]


async def test_an_action_that_requires_the_tools_asks_for_the_first_sign_in_or_fails(
    tmp_path: Path,
) -> None:
    async with never_signed_in(tmp_path, Careful) as (_, platform):
        declined, _ = await asked(platform, agent="Careful")
        await platform.answer(declined.id, None, False)
        await settled(declined)
        assert "cannot run. The tool group 'doors' cannot be used now." in str(declined.outcome)
        process, address = await asked(platform, agent="Careful")
        await browser(address)
        await greeting(process)


async def test_a_prompt_that_names_a_group_asks_for_the_first_sign_in_once_in_its_action(tmp_path: Path) -> None:
    model = ScriptedModel(["Hello", "Good day", "Hello", "Good day"])
    async with never_signed_in(tmp_path, Prompter, models=[model]) as (_, platform):
        declined, _ = await asked(platform, agent="Prompter")
        await platform.answer(declined.id, None, False)
        await settled(declined)
        assert isinstance(declined.outcome, Completed)
        assert declined.outcome.value == Greeting("Hello and Good day")
        process, address = await asked(platform, agent="Prompter")
        await browser(address)
        await completed(process)
        assert [[each.name for each in call.tools] for call in model.calls] == [[], [], *[["headers", "hello"]] * 2]


async def test_after_a_crash_a_yes_gets_a_new_page(tmp_path: Path) -> None:
    port = free_port()
    async with doorkeeper() as keeper:
        file = tmp_path / "store.db"
        async with (
            SqliteProcessStore(file) as store,
            AgentPlatform([Greeter], upstream=upstream(keeper, tmp_path, port), store=store) as one,
        ):
            process, address = await asked(one)
            with anyio.fail_after(60):
                while await store.find(process.id) is None:
                    await anyio.sleep(0.01)
            crashed = left_by_a_crash(file)
            process.kill("The program has ended.")
        async with (
            SqliteProcessStore(crashed) as store,
            AgentPlatform([Greeter], upstream=upstream(keeper, tmp_path, port), store=store) as two,
        ):
            again = await two.process(process.id)
            (question,) = again.open_questions
            assert isinstance(question.wait, UrlVisit)
            assert not question.wait.calls_back, "no page calls back any more, so a person may say yes"
            await two.answer(again.id, question.id, True)
            with anyio.fail_after(60):
                while not (pages := [each.wait for each in again.open_questions]):
                    await again.changed()
            (page,) = pages
            assert isinstance(page, UrlVisit)
            assert page.calls_back
            assert page.address != address
            await browser(page.address)
            assert (await greeting(again))["authorization"].removeprefix("Bearer ") in keeper.tokens
