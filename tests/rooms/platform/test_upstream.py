"""A platform and its upstream servers: connected while it is entered, judged by configuration before."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from goalport import (
    ActionContext,
    AgentInvocation,
    AgentPlatform,
    Ai,
    ToolGroup,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
)
from goalport.base.errors import ProcessStuck, SettingsError
from goalport.models.llm import SystemMessage
from goalport.runtime.platform import UpstreamServers
from goalport.runtime.process import Completed
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import Tool, ToolGroupRequirement
from goalport.tools.upstream import GroupConfig, McpConfig, NamingConfig, ServerConfig
from goalport.tools.upstream.config import read_config
from tests.rooms.upstream.connected import MARK, PLAIN, QUICK, marked, nothing_left_behind, plain

GROUP = GroupConfig("voices", ("plain",), include=("echo",), naming=NamingConfig(prefix="my_"))


@dataclass(frozen=True)
class Said:
    content: str


@agent(description="Echoes")
class Echo:
    @achieves_goal(description="The echo")
    @action(tool_group_requirements=[ToolGroupRequirement("voices", tools=("my_echo",))])
    async def echo(self, said: UserInput, context: ActionContext) -> Said:
        (tool,) = context.tools
        return Said((await tool.call({"text": said.content})).text)


@agent(description="Asks")
class Asker:
    @achieves_goal(description="The answer")
    @action(tool_groups=["voices"])
    async def ask(self, said: UserInput, ai: Ai) -> Said:
        return Said(await ai.generate_text(said.content))


def config(*servers: ServerConfig, group: GroupConfig = GROUP) -> McpConfig:
    return McpConfig({each.name: marked(each) for each in servers}, {group.role: group})


def quick(given: McpConfig, tmp_path: Path) -> UpstreamServers:
    return UpstreamServers(given, tmp_path, timing=QUICK, start_seconds=20)


async def said(platform: AgentPlatform, words: str = "hello") -> str:
    return (await AgentInvocation.on(platform).returning(Said).invoke(UserInput(words))).content


async def test_actions_use_the_tools_of_upstream_servers_while_the_platform_is_entered(tmp_path: Path) -> None:
    with nothing_left_behind():
        async with AgentPlatform([Echo], upstream=quick(config(plain()), tmp_path)) as platform:
            assert await said(platform) == "hello"
        async with platform:
            assert await said(platform, "again") == "again"


async def test_a_file_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN_SERVER", PLAIN)
    server = {"command": "python3", "args": ["-S", "-E", "${PLAIN_SERVER}"], "env": {MARK: str(os.getpid())}}
    group = {"include": ["echo"], "naming": {"prefix": "my_"}}
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"plain": server}, "toolGroups": {"voices": group}}))
    with nothing_left_behind():
        async with AgentPlatform([Echo], upstream=file) as platform:
            assert await said(platform) == "hello"


@pytest.mark.parametrize("groups", [{}, {"others": {"servers": ["plane"]}}])
async def test_in_a_file_of_another_host_each_server_is_a_group_of_its_own_name(
    tmp_path: Path, groups: dict[str, object]
) -> None:
    entry = {"command": sys.executable, "args": ["-S", "-E", PLAIN], "env": {MARK: str(os.getpid())}}
    file = tmp_path / "claude_desktop_config.json"
    file.write_text(json.dumps({"mcpServers": {"voices": entry, "plane": entry}, "toolGroups": groups}))
    model = ScriptedModel([calls_tool("echo", text="hello"), "done"])
    with nothing_left_behind():
        servers = quick(read_config(file, {}), tmp_path)
        async with AgentPlatform([Asker], models=model, upstream=servers) as platform:
            assert await said(platform) == "done"
            assert {each.role for each in platform.upstream.groups.reports()} == {"voices", *(groups or {"plane"})}
    assert model.calls[1].messages[-1].content == "hello"


async def test_a_server_of_a_declared_group_is_no_group_of_its_own(tmp_path: Path) -> None:
    voices = plain(name="voices")
    group = GroupConfig("others", ("voices",), include=("echo",))
    async with AgentPlatform(upstream=quick(config(voices, group=group), tmp_path)) as platform:
        assert [each.role for each in platform.upstream.groups.reports()] == ["others"]


async def test_a_model_is_offered_the_tools_under_their_final_names(tmp_path: Path) -> None:
    model = ScriptedModel(["done"])
    async with AgentPlatform([Asker], models=model, upstream=quick(config(plain()), tmp_path)) as platform:
        assert await said(platform) == "done"
    assert [each.name for each in model.calls[0].tools] == ["my_echo"]


async def test_an_action_whose_server_is_down_is_stuck_and_the_log_has_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    absent = plain(command="goalport-no-such")
    async with AgentPlatform([Echo], upstream=quick(config(absent), tmp_path)) as platform:
        with pytest.raises(ProcessStuck) as caught:
            await said(platform)
        explained = platform.explain("echo", [UserInput]).text()
    for words in (str(caught.value), explained):
        assert "t needs the tool group voices with my_echo, but it cannot be used now: The server 'plain' is" in words
        assert "is down; it is tried again" in words
    assert "Upstream server 'plain' is down: there is no command 'goalport-no-such'" in caplog.text


@agent(description="Echoes in vain")
class Misled:
    @achieves_goal(description="The echo")
    @action(tool_group_requirements=[ToolGroupRequirement("voices", tools=("my_ecko",))])
    async def echo(self, said: UserInput) -> Said:
        return Said(said.content)


async def test_a_requirement_for_a_tool_that_the_group_lacks_says_so(tmp_path: Path) -> None:
    async with AgentPlatform([Misled], upstream=quick(config(plain()), tmp_path)) as platform:
        with pytest.raises(ProcessStuck) as caught:
            await said(platform)
        explained = platform.explain("echo", [UserInput]).text()
    for words in (str(caught.value), explained):
        assert "The tool group 'voices' lacks my_ecko. It has my_echo: add the missing ones to the group" in words


async def test_an_action_that_only_names_the_group_runs_without_its_tools_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel(["done"])
    absent = plain(command="goalport-no-such")
    async with AgentPlatform([Asker], models=model, upstream=quick(config(absent), tmp_path)) as platform:
        process = await platform.run("Asker", UserInput("hello"))
    (why,) = process.history[0].missing_tools
    assert process.outcome == Completed(Said("done"))
    assert why.startswith("The tool group 'voices' cannot be used now. The server 'plain' is down; it is tried again")
    assert caplog.text.count("voices") == caplog.text.count(f"Asker.ask runs without some of its tools. {why}") == 1
    assert not model.calls[0].tools
    told = model.calls[0].messages[0]
    assert isinstance(told, SystemMessage)
    assert told.content.startswith("Some of your tools are missing now. The tool group 'voices' cannot be used")
    assert "say what you could not do" in told.content


async def test_a_part_of_a_group_that_is_away_is_told_to_the_model_and_in_the_history(tmp_path: Path) -> None:
    model = ScriptedModel(["done", "done"])
    absent = plain(command="goalport-no-such", name="absent")
    group = replace(GROUP, servers=("plain", "absent"))
    for servers in ((plain(), absent), (plain(), replace(absent, disabled=True))):
        upstream = quick(config(*servers, group=group), tmp_path)
        async with AgentPlatform([Asker], models=model, upstream=upstream) as platform:
            process = await platform.run("Asker", UserInput("hello"))
        told = model.calls[-1].messages[0]
        assert [each.name for each in model.calls[-1].tools] == ["my_echo"]
        if servers[1].disabled:
            assert not isinstance(told, SystemMessage)
            assert process.history[0].missing_tools == ()
        else:
            words = "The tool group 'voices' lacks a part of its tools. The server 'absent' is down; it is tried again"
            assert words in told.content
            assert process.history[0].missing_tools[0].startswith(words)


@agent(description="Asks twice")
class AsksPeople:
    @achieves_goal(description="The answer")
    @action(tool_groups=["voices"])
    async def ask(self, said: UserInput, ai: Ai, context: ActionContext) -> Said:
        thought = await ai.generate_text(said.content)
        return Said(f"{thought}, {await context.ask(WaitFor.form_submission('Really?', bool))}")


async def test_a_model_is_not_asked_again_because_other_words_say_what_is_missing(tmp_path: Path) -> None:
    model = ScriptedModel(["once"])
    absent = plain(command="goalport-no-such")
    async with AgentPlatform(
        [AsksPeople], models=model, upstream=UpstreamServers(config(absent), tmp_path, 20)
    ) as platform:
        process = await platform.run("AsksPeople", UserInput("hello"))
        said_then = model.calls[0].messages[0].content
        with anyio.fail_after(20):
            while platform.groups.lacking("voices") in said_then:
                await anyio.sleep(0.01)
        await platform.answer(process.id, response=True)
        assert await process.wait() == Completed(Said("once, True"))
    assert len(model.calls) == 1


async def test_before_it_is_entered_plans_count_on_what_is_configured_and_processes_do_not(tmp_path: Path) -> None:
    platform = AgentPlatform([Echo], upstream=quick(config(plain()), tmp_path))
    assert platform.explain("echo", [UserInput]).plan is not None
    with pytest.raises(ProcessStuck, match="The upstream servers are not connected: enter the platform"):
        await said(platform)
    await platform.aclose()


async def test_a_group_in_code_goes_before_one_of_the_configuration(tmp_path: Path) -> None:
    async def answer(_: object) -> str:
        return "from code"

    tool = Tool.of(answer, name="my_echo", input_schema={"type": "object"})
    group = ToolGroup("voices", (tool,))
    async with AgentPlatform([Echo], tool_groups=[group], upstream=quick(config(plain()), tmp_path)) as platform:
        assert await said(platform) == "from code"
        assert "Two tool groups play the role 'voices'" in platform.groups.clashes[0]


async def test_a_required_server_that_is_not_there_keeps_a_platform_from_being_entered(tmp_path: Path) -> None:
    absent = plain(command="goalport-no-such", name="absent", required=True)
    platform = AgentPlatform(upstream=quick(config(plain(), absent), tmp_path))
    with nothing_left_behind():
        with pytest.raises(SettingsError, match="The required server 'absent' is down: there is no command"):
            await platform.__aenter__()
        assert not platform.upstream.connected


async def test_whoever_gives_up_entering_leaves_no_process_behind(tmp_path: Path) -> None:
    given = config(plain(), plain("--mute", name="silent", connect_timeout=600))
    with nothing_left_behind():
        with anyio.move_on_after(0.5) as scope:
            async with AgentPlatform(upstream=UpstreamServers(given, tmp_path, start_seconds=600)):
                pass
        assert scope.cancelled_caught


async def test_another_task_may_close_what_one_has_entered(tmp_path: Path) -> None:
    with nothing_left_behind():
        platform = AgentPlatform([Echo], upstream=quick(config(plain()), tmp_path))
        await asyncio.create_task(platform.__aenter__())
        assert await said(platform) == "hello"
        await asyncio.create_task(platform.aclose())
        await platform.aclose()


async def test_the_state_of_a_group_is_that_of_its_servers(tmp_path: Path) -> None:
    absent = plain(command="goalport-no-such", name="absent")
    group = replace(GROUP, servers=("plain", "absent"))
    async with AgentPlatform(upstream=quick(config(plain(), absent, group=group), tmp_path)) as platform:
        (report,) = platform.upstream.groups.reports()
        assert (report.role, report.status, report.servers) == ("voices", "degraded", ("plain", "absent"))
        assert report.why.startswith("The server 'absent' is down; it is tried again")
    assert [each.status for each in platform.upstream.groups.reports()] == ["down"]


async def test_math_is_there_and_whoever_plays_it_goes_before() -> None:
    assert AgentPlatform().groups.find("math") is not None
    own = ToolGroup("math", ())
    platform = AgentPlatform(tool_groups=[own])
    assert platform.groups.find("math") is own
    assert not platform.groups.clashes


async def test_nothing_is_connected_where_nothing_is_configured(tmp_path: Path) -> None:
    async with AgentPlatform(upstream=UpstreamServers(McpConfig(), tmp_path)) as platform:
        assert not platform.upstream.connected


@pytest.mark.parametrize(("allowed", "says"), [(True, "Something"), (False, "not supported")])
async def test_a_server_has_our_model_asked_only_where_its_entry_allows_it(
    tmp_path: Path,
    allowed: bool,  # noqa: FBT001
    says: str,
) -> None:
    model = ScriptedModel(["Something"])
    group = replace(GROUP, include=("sample",))
    upstream = UpstreamServers(config(plain(sampling=allowed), group=group), tmp_path, 20)
    async with AgentPlatform(models=model, upstream=upstream) as platform:
        (tool,) = platform.groups.groups[-1].tools
        result = await tool.call({})
    assert says in result.text
    assert [each.messages[-1].content for each in model.calls] == (["Say something"] if allowed else [])
