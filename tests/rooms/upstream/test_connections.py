"""Connections to servers that die, hang, lie, shout and come back: only their own tools suffer."""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from goalport.base.errors import SettingsError
from goalport.tools import ToolGroupRequirement, ToolGroupResolver
from goalport.tools.upstream.config import GroupConfig, McpConfig, NamingConfig, ServerConfig
from goalport.tools.upstream.servers import UpstreamServers
from goalport.tools.upstream.upstream_server import ServerState
from tests.rooms.upstream.connected import QUICK, WatchedServers, connected, marked, plain, quiet

UP, DOWN = ServerState.UP, ServerState.DOWN
SLOWER = replace(QUICK, first_delay=0.5)


def state(servers: WatchedServers, name: str = "plain") -> ServerState:
    return servers.server(name).state


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_older_revision_is_spoken(revision: str) -> None:
    async with connected(plain("--revision", revision)) as servers:
        report = servers.server().report()
        assert (report.state, report.protocol) == (UP, revision)
        assert (await servers.call("echo", text="hello")).text == "hello"


async def test_a_server_that_is_killed_in_mid_call_comes_back_by_itself() -> None:
    async with connected(plain()) as servers:
        pid = int((await servers.call("pid")).text)
        results: list[str] = []

        async def call() -> None:
            results.append((await servers.call("never")).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            os.kill(pid, signal.SIGKILL)
        assert "went away during the call" in results[0]
        assert "is not known" in results[0]
        assert int((await servers.call("pid")).text) != pid
        assert servers.server().report().connections == 2


async def test_a_server_that_is_killed_between_calls_is_missed_at_once() -> None:
    async with connected(plain()) as servers:
        os.kill(int((await servers.call("pid")).text), signal.SIGKILL)
        await servers.until(lambda: state(servers) is DOWN)
        assert len(servers.server().tools) > 5
        await servers.until(lambda: state(servers) is UP)


async def test_a_call_is_made_again_only_where_that_does_no_harm(tmp_path: Path) -> None:
    async with connected(plain()) as servers:
        harmless = await servers.call("safe_die", text=str(tmp_path / "first"))
        harmful = await servers.call("die", text=str(tmp_path / "second"))
    assert (harmless.text, harmless.is_error) == ("still alive", False)
    assert harmful.is_error


async def test_a_server_that_never_answers_is_given_up_and_the_others_are_there() -> None:
    silent = plain("--mute", name="silent", connect_timeout=0.4)
    async with connected(plain(), silent) as servers:
        assert (await servers.call("echo", text="hello")).text == "hello"
        report = servers.server("silent").report()
        assert (report.state, report.last_error) == (DOWN, "its tools were not listed within 0.4 s")


async def test_starting_waits_for_slow_servers_only_so_long() -> None:
    with anyio.fail_after(60):
        async with connected(plain("--mute", name="silent", connect_timeout=600), start_seconds=0.2) as servers:
            assert state(servers, "silent") is ServerState.CONNECTING


async def test_a_server_that_hangs_is_found_out_by_its_silence() -> None:
    async with connected(plain("--deaf-to-pings")) as servers:
        await servers.until(lambda: state(servers) is DOWN)
        assert servers.server().last_error == "it gave no sign of life within 0.3 s"
        await servers.until(lambda: state(servers) is UP)


async def asked_of(servers: WatchedServers) -> list[str]:
    """The methods that a server has been asked for so far."""
    return json.loads((await servers.call("asked")).text)


async def test_a_ping_that_is_answered_with_an_error_is_a_sign_of_life() -> None:
    async with connected(plain("--no-pings", "--odd-tools"), timing=replace(QUICK, ping_every=0.05)) as servers:
        with anyio.fail_after(60):
            while (await asked_of(servers)).count("ping") < 2:
                await quiet(0.1)
        assert servers.server().report().connections == 1


async def test_a_list_that_cannot_be_read_again_leaves_the_tools_and_the_connection() -> None:
    async with connected(plain("--list-once")) as servers:
        await servers.call("change", text="brand_new")
        note = "its list of tools changed and could not be read again: try later"
        await servers.until(lambda: servers.server().report().notes == (note,))
        assert (await servers.call("echo", text="well")).text == "well"
        assert servers.server().report().connections == 1


async def test_rubbish_on_stdout_between_messages_is_passed_over_and_the_log_shows_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected(plain("--rubbish", "600")) as servers:
        for number in range(3):
            assert (await servers.call("echo", text=str(number))).text == str(number)
        assert servers.server().report().connections == 1
    assert "no message: 'rubbish 1'" in caplog.text
    assert caplog.text.count("is no message") < 100


async def test_nothing_but_rubbish_on_stdout_ends_the_connection() -> None:
    async with connected(plain("--rubbish", "30000")) as servers:
        assert state(servers) is DOWN
        assert "it sent more than 25,000 messages" in servers.server().last_error


async def test_a_quiet_connection_is_asked_for_signs_of_life_at_its_pace_and_for_nothing_else() -> None:
    async with connected(plain("--odd-tools"), timing=replace(QUICK, ping_every=0.3)) as servers:
        await quiet(1.6)
        asked = await asked_of(servers)
    assert 2 <= asked.count("ping") <= 5
    assert asked.count("tools/list") == 1


async def test_a_connection_that_is_in_use_is_asked_for_no_signs_of_life() -> None:
    async with connected(plain("--odd-tools"), timing=replace(QUICK, ping_every=60)) as servers:
        for _ in range(20):
            await servers.call("echo", text="hello")
        await quiet(0.5)
        assert not {"ping", "tools/list"} & set((await asked_of(servers))[5:])


async def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    async with connected(plain("--flood")) as servers:
        assert state(servers) is DOWN
        assert "a message of more than 16,777,216 bytes" in servers.server().last_error


async def test_the_limit_is_for_each_message_and_not_for_all_of_them() -> None:
    async with connected(plain(max_message_bytes=100_000)) as servers:
        process = (await servers.call("pid")).text
        for _ in range(3):
            assert len((await servers.call("huge", count=60_000)).text) == 60_000
        assert (await servers.call("pid")).text == process
        assert "more than 100,000 bytes" in (await servers.call("huge", count=100_000)).text


async def test_five_thousand_tools_are_listed_page_by_page() -> None:
    async with connected(plain("--tools", "5000")) as servers:
        assert [each.name for each in servers.server().tools] == [f"t{number}" for number in range(5000)]


async def test_a_list_that_never_ends_is_cut() -> None:
    async with connected(plain("--endless")) as servers:
        report = servers.server().report()
    assert (report.tools, report.notes) == (
        10_000,
        ("it lists more than 10,000 tools, of which the first 10,000 are used",),
    )


async def test_a_list_that_goes_round_in_a_circle_is_cut() -> None:
    async with connected(plain("--circle")) as servers:
        report = servers.server().report()
    assert (report.tools, report.notes) == (1, ("its list of tools goes round in a circle, and was cut",))


async def test_a_list_that_changes_is_asked_for_again() -> None:
    async with connected(plain()) as servers:
        await servers.call("change", text="brand_new")
        await servers.until(lambda: "brand_new" in [each.name for each in servers.server().tools])


async def test_a_server_that_ends_again_and_again_is_tried_after_longer_and_longer(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    script = f"open({str(starts)!r}, 'a').write('x')"
    config = ServerConfig("plain", "stdio", command=sys.executable, args=("-S", "-E", "-c", script))
    async with connected(config, timing=replace(QUICK, first_delay=0.5, longest_delay=60)) as servers:
        began = anyio.current_time()
        await servers.until(lambda: len(starts.read_text()) >= 3)
        # Two pauses, each by chance up to a half shorter.
        assert anyio.current_time() - began > 0.7


async def test_a_server_that_ends_at_once_is_told_with_its_last_words() -> None:
    async with connected(plain("--say", "no such database", "--exit", "1")) as servers:
        assert state(servers) is DOWN
        assert "its stderr ends with 'no such database'" in servers.server().last_error


NODE = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/nope.js'
    at Module._load (node:internal/modules/cjs/loader:1038:27)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2"""
NPM = """npm error code E404
npm error 404 Not Found - GET https://registry.example/@no%2fsuch
npm error 404
npm error 404  The requested resource '@no/such@*' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/ada/.npm/_logs/debug-0.log"""
UV = """error: Request failed after 3 retries
  cause: invalid peer certificate: UnknownIssuer
hint: Consider enabling use of system TLS certificates with the `--system-certs` command-line flag"""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (NODE, "Error: Cannot find module '/nope.js'"),
        (NPM, "npm error 404 Not Found - GET https://registry.example/@no%2fsuch"),
        (UV, "cause: invalid peer certificate: UnknownIssuer"),
        ("Error: it is busy: try later\nit ends", "it ends"),
    ],
)
async def test_of_what_node_npm_and_uv_write_last_the_reason_is_told(said: str, shown: str) -> None:
    async with connected(plain("--say", said, "--exit", "1")) as servers:
        assert f"its stderr ends with {shown!r}" in servers.server().last_error


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": "goalport-no-such-command"}, "there is no command 'goalport-no-such-command'"),
        ({"command": f"{sys.executable} -S"}, "move its arguments to `args`"),
        ({"command": "/etc/hostname"}, "the command '/etc/hostname' is no program, or may not be run"),
        ({"cwd": Path("/no/such/folder")}, "there is no folder '/no/such/folder' to start it in"),
    ],
)
async def test_a_command_that_cannot_be_started_is_said(change: dict[str, object], says: str) -> None:
    async with connected(replace(plain(), **change)) as servers:
        assert says in servers.server().last_error


async def test_a_call_of_a_server_that_is_down_says_so() -> None:
    async with connected(plain(), timing=replace(QUICK, wait_for_up=0.1, first_delay=60)) as servers:
        os.kill(int((await servers.call("pid")).text), signal.SIGKILL)
        await servers.until(lambda: state(servers) is DOWN)
        result = await servers.call("echo", text="hello")
    assert result.is_error
    assert "echo: the server 'plain' is down; it is tried again in " in result.text


async def test_a_disabled_server_is_not_started() -> None:
    async with connected(plain(disabled=True)) as servers:
        assert (state(servers), servers.server().tools) == (ServerState.DISABLED, ())


async def test_nothing_starts_without_a_server_that_is_required() -> None:
    config = McpConfig({"plain": marked(plain("--exit", "1", required=True))})
    with pytest.raises(SettingsError, match="The required server 'plain' is down"):
        async with UpstreamServers(config, Path("/nonexistent"), timing=QUICK):
            raise AssertionError("it is entered")


async def test_what_a_server_started_ends_with_it() -> None:
    async with connected(plain("--child")) as servers:
        assert state(servers) is UP


async def test_a_server_that_will_not_end_is_ended() -> None:
    async with connected(plain("--stubborn")) as servers:
        assert state(servers) is UP


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with connected(plain()):
            raise KeyError("mine")


async def test_cancelling_ends_the_servers() -> None:
    with anyio.move_on_after(10) as scope:
        async with connected(plain("--child")) as servers:
            assert state(servers) is UP
            scope.cancel()
            await anyio.Event().wait()
    assert scope.cancelled_caught


async def test_reloading_restarts_only_what_is_different() -> None:
    stays, changes, goes = plain(name="stays"), plain(name="changes"), plain(name="goes")
    async with connected(stays, changes, goes) as servers:
        pids = {name: (await servers.call("pid", name)).text for name in ("stays", "changes")}
        new = [stays, replace(changes, timeout=7), plain(name="new")]
        await servers.all.apply(McpConfig({each.name: marked(each) for each in new}))
        assert list(servers.all.servers) == ["stays", "changes", "new"]
        assert (await servers.call("pid", "stays")).text == pids["stays"]
        assert (await servers.call("pid", "changes")).text != pids["changes"]
        assert [each.state for each in servers.all.reports()] == [UP, UP, UP]


async def test_a_group_of_two_servers_loses_and_regains_the_tools_of_the_one_that_is_killed(tmp_path: Path) -> None:
    pair = GroupConfig("pair", ("one", "two"), include=("one/echo", "two/pid"), naming=NamingConfig(prefix="my_"))
    async with connected(plain(name="one"), plain(name="two"), data=tmp_path, groups=[pair], timing=SLOWER) as servers:

        def names() -> list[str]:
            return [tool.name for group in servers.all.groups.groups() for tool in group.tools]

        resolver = ToolGroupResolver(sources=[servers.all.groups])
        assert names() == ["my_echo", "my_pid"]
        os.kill(int((await servers.call("pid", "two")).text), signal.SIGKILL)
        await servers.until(lambda: names() == ["my_echo"])
        missing = resolver.unmet(ToolGroupRequirement("pair", ("my_pid",)))
        assert missing is not None
        assert "The server 'two' is down" in missing
        await servers.until(lambda: names() == ["my_echo", "my_pid"])
        assert resolver.unmet(ToolGroupRequirement("pair", ("my_pid",))) is None


async def test_two_servers_with_the_same_tools_are_kept_apart() -> None:
    async with connected(plain(name="one", env={"WHO": "one"}), plain(name="two", env={"WHO": "two"})) as servers:
        said = {name: json.loads((await servers.call("environment", name)).text)["WHO"] for name in ("one", "two")}
    assert said == {"one": "one", "two": "two"}


async def test_servers_end_when_goalport_is_killed(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
sys.path.insert(0, {str(Path.cwd())!r})
from tests.rooms.upstream.connected import plain
from goalport.tools.upstream.config import McpConfig
from goalport.tools.upstream.servers import UpstreamServers
from goalport.tools.upstream.tool import ToolRequest
from pathlib import Path

async def main():
    config = McpConfig({{"plain": plain()}})
    async with UpstreamServers(config, Path({str(tmp_path)!r})) as servers:
        print((await servers.servers["plain"].client.call(ToolRequest("pid", {{}}))).text, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    async with await anyio.open_process([sys.executable, "-c", script], stderr=None) as process:
        assert process.stdout is not None
        group = int(await process.stdout.receive())
        process.kill()
        await process.wait()
    with anyio.fail_after(60):
        while group_lives(group):
            await anyio.sleep(0.01)


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_is_shown_without_what_is_secret() -> None:
    config = ServerConfig("s", "http", url="https://me:pw@example.com/mcp?key=abc", headers={"X": "secret-value"})
    assert not {"pw@", "abc", "secret-value"} & set(repr(config).split("'"))
