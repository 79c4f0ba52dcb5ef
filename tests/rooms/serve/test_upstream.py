"""Publishing tools of upstream servers: which are, which are not and why, and what their callers hear."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import ElicitResult, InputRequiredResult

from goalport.base.caller import ANONYMOUS
from goalport.runtime.process import DirectCalls, Listeners
from goalport.server.doors.mcp.server import make_server
from goalport.server.publish.exported_tools import FunctionTool
from goalport.server.publish.output import WrittenResult
from goalport.server.publish.publication import Publication
from goalport.server.site import create_app, startup_report
from tests.rooms.serve.askers import Answering, Visiting
from tests.rooms.serve.served import ERAS, Served, state_of, text_of
from tests.rooms.upstream.connected import MARK, PLAIN, nothing_left_behind
from tests.rooms.upstream.signing_in import doorkeeper

OWN = """
from goalport import ToolGroup, tool

@tool(export=True)
def echo(text: str) -> str:
    '''Say it again.'''
    return f"ours: {text}"

@tool
def shout(text: str) -> str:
    '''Say it loudly.'''
    return text.upper()

group = ToolGroup.of("loud", shout, exports=True)
"""


def server_entry(*options: str, **env: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", "-E", PLAIN, *options], "env": {MARK: str(os.getpid()), **env}}


def mortal(folder: Path, name: str) -> dict[str, Any]:
    """A server that does not start while there is a file of its name in the folder."""
    script = 'if [ -e "$0" ]; then exit 1; fi; exec "$@"'
    entry = server_entry(WHO=name)
    return {**entry, "command": "/bin/sh", "args": ["-c", script, str(folder / name), *command(entry)]}


def command(entry: dict[str, Any]) -> list[str]:
    return [entry["command"], *entry["args"]]


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that another task of this loop brings about."""
    with anyio.fail_after(60):
        while not holds():
            await anyio.sleep(0.01)


@asynccontextmanager
async def wired(
    root: Path, groups: object, servers: Mapping[str, object] | None = None, own: str = OWN, **settings: Any
) -> AsyncGenerator[Served]:
    """A server in memory with tools of its own and those of upstream servers, of one if none is given."""
    config = {"mcpServers": servers or {"plain": server_entry()}, "toolGroups": groups}
    files = {"tools/own.py": own, "mcp_config.json": json.dumps(config), "agents/__init__.py": ""}
    with nothing_left_behind():
        state = state_of(root, files=files, upstream_wait_seconds=20, **settings)
        try:
            async with state.publisher.connected():
                yield Served(state, make_server(state)[0])
        finally:
            await state.platform.aclose()


async def test_a_server_starts_in_the_folder_of_the_workspace(tmp_path: Path) -> None:
    entry = server_entry()
    servers = {"plain": {**entry, "command": "/bin/sh", "args": ["-c", 'pwd > here; exec "$@"', "sh", *command(entry)]}}
    async with wired(tmp_path, {}, servers):
        assert (tmp_path / "here").read_text().strip() == str(tmp_path)


async def test_groups_publish_nothing_by_themselves(tmp_path: Path) -> None:
    async with wired(tmp_path, {"theirs": {"naming": {"prefix": "their_"}}}) as server:
        assert set(server.state.publication.tools) == {"echo", "shout", "helloBanner"}


async def test_a_tool_of_others_never_displaces_one_of_ours(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["echo", "pid"], "exports": True}}
    async with wired(tmp_path, groups) as server, server.client() as client:
        publication = server.state.publication
        assert set(publication.tools) == {"echo", "pid", "shout", "helloBanner", "process_result"}
        (problem,) = publication.problems
        assert problem == (
            "The tool echo of the tool group theirs is not published: the exported tool echo is called so too. Rename "
            "it in the naming of its group."
        )
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "ours: hi"


async def test_of_two_groups_with_a_name_the_first_publishes_its_tool(tmp_path: Path) -> None:
    groups = {"a": {"include": ["pid"], "exports": True}, "b": {"include": ["pid"], "exports": True}}
    async with wired(tmp_path, groups) as server:
        assert "pid" in server.state.publication.tools
        (problem,) = server.state.publication.problems
        assert problem.startswith("The tool pid of the tool group b is not published: the tool pid of the tool group a")


WHO = {"include": ["environment", "die"], "exports": True}


async def who(client: Client, name: str = "environment") -> str:
    return json.loads(text_of(await client.call_tool(name, {})))["WHO"]


async def test_a_name_stays_with_its_group_while_the_server_is_down(tmp_path: Path) -> None:
    servers = {name: mortal(tmp_path, name) for name in ("one", "two")}
    groups = {"a": {**WHO, "servers": ["one"]}, "b": {**WHO, "servers": ["two"]}}
    async with wired(tmp_path, groups, servers) as server, server.client() as client:
        publication = server.state.publication
        assert await who(client) == "one"
        (tmp_path / "one").touch()
        await client.call_tool("die", {})
        await until(lambda: server.state.publication is not publication)
        assert "environment" not in [each.name for each in (await client.list_tools(cache_mode="refresh")).tools]
        refused = await client.call_tool("environment", {})
        assert refused.is_error
        assert text_of(refused).startswith("environment: the server 'one' is down; it is tried again ")
        assert len(server.state.publication.problems) == len(publication.problems)

        (tmp_path / "one").unlink()
        await until(lambda: "environment" in server.state.publication.tools)
        assert await who(client) == "one"


async def test_a_name_stays_with_whoever_had_it_first(tmp_path: Path) -> None:
    servers = {name: mortal(tmp_path, name) for name in ("one", "two")}
    (tmp_path / "one").touch()
    both: dict[str, Any] = {**WHO, "servers": ["one", "two"], "naming": {"prefix": "c_"}}
    groups = {"a": {**WHO, "servers": ["one"]}, "b": {**WHO, "servers": ["two"]}, "c": both}
    async with wired(tmp_path, groups, servers) as server, server.client() as client:
        assert (await who(client), await who(client, "c_environment")) == ("two", "two")
        (tmp_path / "one").unlink()
        await until(lambda: "The tool environment of the tool group a" in str(server.state.publication.problems))
        assert (await who(client), await who(client, "c_environment")) == ("two", "two")
        clash = "'environment' of the server 'two' and 'environment' of 'one' are both called 'c_environment'"
        assert any(clash in each for each in server.state.publication.warnings)


ASKS_WHO = """
import json
from pydantic import BaseModel
from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent
from goalport.tools import ToolGroupRequirement

class Told(BaseModel):
    content: str

@agent(description="Tells who answers")
class Teller:
    @achieves_goal(description="Tell", export=Export(remote=True, name="tell", starting_input_types=[UserInput]))
    @action(tool_groups=["a", "b"])
    async def tell(self, said: UserInput, context: ActionContext) -> Told:
        found = next((each for each in context.tools if each.name == "environment"), None)
        return Told(content=json.loads((await found.call({})).text)["WHO"] if found else "nobody")

@agent(description="Cannot do without")
class Needing:
    @achieves_goal(description="Need", export=Export(remote=True, name="need", starting_input_types=[UserInput]))
    @action(tool_group_requirements=[ToolGroupRequirement("a")])
    async def need(self, said: UserInput) -> Told:
        return Told(content="done")
"""


async def test_an_action_is_given_no_tool_of_another_group_in_place_of_one_that_is_down(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "teller.py").write_text(ASKS_WHO)
    servers = {name: mortal(tmp_path, name) for name in ("one", "two")}
    groups = {"a": {**WHO, "servers": ["one"]}, "b": {"servers": ["two"]}}
    async with wired(tmp_path, groups, servers) as server, server.client() as client:
        assert text_of(await client.call_tool("tell", {"content": "who?"})) == "one"
        (tmp_path / "one").touch()
        await client.call_tool("die", {})
        await until(lambda: server.platform.groups.find("a") is None)
        assert text_of(await client.call_tool("tell", {"content": "who?"})) == "nobody"


async def test_what_a_server_wrote_that_is_down_reaches_no_client(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "teller.py").write_text(ASKS_WHO)
    script = "echo signed in with swordfish >&2; exit 3"
    servers = {"one": {"command": "/bin/sh", "args": ["-c", script]}, "two": server_entry()}
    groups = {"a": {**WHO, "servers": ["one"]}, "b": {"servers": ["two"]}}
    async with wired(tmp_path, groups, servers) as server, server.client() as client:
        stuck = await client.call_tool("need", {"content": "now"})
        assert stuck.is_error
        assert "The server 'one' is down; it is tried again" in text_of(stuck)
        assert "swordfish" not in str(stuck)
        told = "\n".join(startup_report(server.state.publisher))
        assert "upstream server one: down: " in told
        assert "swordfish" in told


async def test_errors_speak_of_a_tool_by_the_name_that_it_is_published_under(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["refuse", "lie"], "naming": {"prefix": "their_"}, "exports": True}}
    servers = {"plain": server_entry("--odd-tools")}
    async with wired(tmp_path, groups, servers) as server, server.client() as client:
        assert text_of(await client.call_tool("their_refuse", {})).startswith(
            "their_refuse: the server 'plain' refused"
        )
        lie = text_of(await client.call_tool("their_lie", {}))
        assert lie.startswith("their_lie: what the server 'plain' answered is no result: ")
        assert "tool lie" not in lie


async def test_a_tool_that_can_only_be_called_as_a_task_is_left_out_with_a_note(tmp_path: Path) -> None:
    groups = {"theirs": {"exclude": ["echo"], "exports": True}}
    servers = {"plain": server_entry("--odd-tools", "--revision", "2025-11-25")}
    async with wired(tmp_path, groups, servers) as server:
        assert "either" in server.state.publication.tools
        assert "long" not in server.state.publication.tools
        (report,) = server.platform.upstream.reports()
        assert (
            "the tool 'long' is left out: it can be called as a task only, which goalport does not do" in report.notes
        )


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("asking", ["ask", "ask_later"])
async def test_the_question_of_a_published_tool_is_asked_through_the_client_that_called(
    tmp_path: Path, era: str, asking: str
) -> None:
    person = Answering.with_({"sign": "Leo"})
    groups = {"theirs": {"include": ["ask*", "echo"], "naming": {"prefix": "their_"}, "exports": True}}
    async with wired(tmp_path, groups) as server, server.client(era, elicitation_callback=person) as client:
        with anyio.fail_after(60):
            result = await client.call_tool(f"their_{asking}", {})
        assert json.loads(text_of(result)) == {"action": "accept", "content": {"sign": "Leo"}}
        assert len(result.content) == 1
        assert text_of(await client.call_tool("their_echo", {"text": "well"})) == "well"
    assert person.asked == ["plain asks: Which sign?"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_no_to_the_question_of_a_published_tool_reaches_its_server(tmp_path: Path, era: str) -> None:
    groups = {"theirs": {"include": ["ask"], "exports": True}}
    person = Answering.with_("decline")
    async with wired(tmp_path, groups) as server, server.client(era, elicitation_callback=person) as client:
        with anyio.fail_after(60):
            result = await client.call_tool("ask", {})
        assert json.loads(text_of(result)) == {"action": "decline"}


@pytest.mark.parametrize("era", ERAS)
async def test_the_address_of_a_published_tool_is_opened_by_the_client_that_called(tmp_path: Path, era: str) -> None:
    person = Visiting()
    groups = {"theirs": {"include": ["ask_page"], "exports": True}}
    servers = {"plain": server_entry("--revision", "2025-11-25")}
    async with wired(tmp_path, groups, servers) as server, server.client(era, elicitation_callback=person) as client:
        with anyio.fail_after(60):
            result = await client.call_tool("ask_page", {"text": "https://example.com/{process_id}"})
        assert json.loads(text_of(result)) == {"action": "accept"}
    assert person.seen == ["https://example.com/%7Bprocess_id%7D"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_question_of_a_published_tool_is_declined_where_the_client_cannot_be_asked(
    tmp_path: Path, era: str
) -> None:
    groups = {"theirs": {"include": ["ask"], "exports": True}}
    async with wired(tmp_path, groups) as server, server.client(era) as client:
        result = await client.call_tool("ask", {})
        assert text_of(result).startswith('{"action": "decline"}')
        assert "there is nobody to ask" in str(result.content[-1])


async def test_a_call_of_a_published_tool_whose_client_does_not_come_back_is_cancelled(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["ask_later", "cancelled"], "exports": True}}
    async with (
        wired(tmp_path, groups, state_ttl_seconds=1) as server,
        server.client(elicitation_callback=Answering.with_()) as client,
    ):
        begun = await client.session.call_tool("ask_later", {}, allow_input_required=True)
        assert isinstance(begun, InputRequiredResult)
        await until(lambda: not server.state.suspended_calls)
        with anyio.fail_after(60):
            while len(json.loads(text_of(await client.call_tool("cancelled", {})))) != 1:
                pass


async def test_an_answer_to_a_published_tool_that_comes_again_begins_no_other_call(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["ask_later"], "exports": True}}
    async with wired(tmp_path, groups) as server, server.client(elicitation_callback=Answering.with_()) as client:
        begun = await client.session.call_tool("ask_later", {}, allow_input_required=True)
        assert isinstance(begun, InputRequiredResult)
        (question,) = begun.input_requests or {}
        answers: Any = {question: ElicitResult(action="accept", content={"sign": "Leo"})}
        repeat = partial(client.session.call_tool, "ask_later", {}, request_state=begun.request_state)
        assert "Leo" in text_of(await repeat(input_responses=answers))
        again = await repeat(input_responses=answers)
        assert again.is_error
        assert "call the tool again" in text_of(again)


async def test_only_what_changed_is_published_anew(tmp_path: Path) -> None:
    async with wired(tmp_path, {"theirs": {"exclude": ["echo"], "exports": True}}) as server, server.client() as client:
        before = server.state.publication
        await client.call_tool("change", {"text": "brand_new"})
        await until(lambda: "brand_new" in server.state.publication.tools)
        after = server.state.publication
        assert len(before.of_groups.present) > 10
        assert all(after.tools[name] is tool for name, tool in before.of_groups.present.items())


async def test_a_pinned_tool_that_is_another_now_is_not_called_though_it_is_published(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["echo", "change"], "naming": {"prefix": "their_"}, "exports": True}}
    servers = {"plain": {**server_entry(), "pin": True}}
    async with wired(tmp_path, groups, servers) as server, server.client() as client:
        before = server.state.publication
        assert text_of(await client.call_tool("their_echo", {"text": "hi"})) == "hi"
        await client.call_tool("their_change", {"text": "echo"})
        await until(lambda: server.state.publication is not before)
        assert "their_echo is withheld until somebody trusts it" in str(await called(before, "their_echo"))
        assert text_of(await client.call_tool("their_echo", {})).startswith("their_echo is withheld")
        assert "their_echo" not in server.state.publication.tools


async def called(publication: Publication, name: str) -> WrittenResult:
    tool = publication.tools[name]
    assert isinstance(tool, FunctionTool)
    return await tool.call({}, DirectCalls(ANONYMOUS, Listeners()), tells_errors=False)


async def test_a_tool_of_a_group_whose_name_does_not_fit_is_told_and_the_others_are_published(tmp_path: Path) -> None:
    odd = "Tool.of(shout, name='so odd'), Tool.of(shout, name='x' * 65)"
    own = f"{OWN}\nfrom goalport import Tool\nodd = ToolGroup.of('odd', {odd}, exports=True)\n"
    async with wired(tmp_path, {}, own=own) as server:
        publication = server.state.publication
        assert set(publication.tools) == {"echo", "shout", "helloBanner"}
        assert [each.partition(" is not published: ")[0] for each in publication.problems] == [
            "The tool so odd of the tool group odd",
            f"The tool {'x' * 65} of the tool group odd",
        ]


async def test_a_tool_whose_calls_a_person_has_to_agree_to_is_not_published(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["pid", "fail"], "exports": True, "approve": {"pid": "always"}}}
    async with wired(tmp_path, groups) as server:
        assert {"fail"} == set(server.state.publication.tools) - {"echo", "shout", "helloBanner", "process_result"}
        assert "a person may have to be asked for its calls" in server.state.publication.problems[0]


@pytest.mark.parametrize("era", ERAS)
async def test_a_silent_tool_is_heard_of_and_what_it_tells_goes_on_from_there(tmp_path: Path, era: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    groups = {"theirs": {"include": ["progress", "never"], "exports": True}}
    async with wired(tmp_path, groups, heartbeat_seconds=0.01) as server, server.client(era) as client:
        assert text_of(await client.call_tool("progress", {}, progress_callback=note)) == "done"
    said = [each for each in told if each[2] in {"step 1", "step 2"}]
    assert [message for _, _, message in said] == ["step 1", "step 2"]
    amounts = [progress for progress, _, _ in told]
    assert amounts == sorted(set(amounts))
    first, second = said
    assert second[0] - first[0] == 1
    assert second[1] == second[0]


@pytest.mark.parametrize("era", ERAS)
async def test_of_very_many_messages_about_progress_some_are_passed_on_and_the_call_has_its_result(
    tmp_path: Path, era: str
) -> None:
    told: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    groups = {"theirs": {"include": ["progress"], "exports": True}}
    servers = {"plain": {**server_entry(), "timeout": 60}}
    async with wired(tmp_path, groups, servers) as server, server.client(era) as client:
        assert text_of(await client.call_tool("progress", {"count": 20_000}, progress_callback=note)) == "done"
    assert 100 < len(told) < 10_000


async def test_a_server_that_floods_us_is_dropped_with_the_reason_and_comes_back(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["progress", "pid"], "exports": True}}
    servers = {"plain": {**server_entry(), "shutdownTimeout": 0.1, "timeout": 50}}
    async with wired(tmp_path, groups, servers) as server, server.client() as client:
        before = text_of(await client.call_tool("pid", {}))
        flooded = await client.call_tool("progress", {"count": 10_000_000})
        assert flooded.is_error
        assert "went away during the call (it sent more than 25,000 messages" in text_of(flooded)
        upstream = server.platform.upstream
        await until(lambda: "more than 25,000 messages" in upstream.reports()[0].last_error)
        await until(lambda: "pid" in server.state.publication.tools)
        assert text_of(await client.call_tool("pid", {})) != before


async def test_an_error_of_the_tool_is_an_error_for_the_caller(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["fail", "lie"], "exports": True}}
    async with wired(tmp_path, groups) as server, server.client() as client:
        failed = await client.call_tool("fail", {})
        assert (failed.is_error, text_of(failed)) == (True, "It cannot be done: try less")
        assert (await client.call_tool("lie", {})).is_error


async def test_the_report_tells_of_groups_servers_and_what_is_probably_not_meant(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["pid", "ecko"], "exports": True}, "lost": {"servers": ["plane"]}}
    async with wired(tmp_path, groups) as server:
        state = server.state
        told = "\n".join(startup_report(state.publisher))
    assert "  tool group theirs: up, 1 tool, published\n" in told
    assert "  tool group lost: down, 0 tools. There is no server 'plane' in mcp_config.json.\n" in told
    assert "  tool group loud: up, 1 tool, published\n" in told
    assert "  upstream server plain: up, 2025-06-18, 20 tools\n" in told
    assert "  warning: Tool group 'theirs': include 'ecko' matches no tool. Did you mean 'echo'?" in told
    assert "tool group 'lost' names the server 'plane'" in told
    assert "tool group math" not in told


async def test_an_app_for_any_server_connects_them_with_its_lifespan(tmp_path: Path) -> None:
    config = {"mcpServers": {"plain": server_entry()}, "toolGroups": {"theirs": {"include": ["pid"], "exports": True}}}
    (tmp_path / "mcp_config.json").write_text(json.dumps(config))
    state = state_of(tmp_path, upstream_wait_seconds=20)
    app = create_app(state.platform, state.publisher.workspace, state.settings)
    with nothing_left_behind():
        client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")
        async with app.router.lifespan_context(app), client:
            told = (await client.get("/health")).json()
    assert told["toolGroups"]["theirs"] == {"status": "up", "tools": 1}
    assert told["tools"] == 3  # with the companion for large results
    assert not state.platform.upstream.connected


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", ["text", "data", "error", "failure"])
async def test_what_a_server_says_of_our_credential_does_not_reach_a_client(tmp_path: Path, way: str, era: str) -> None:
    async with doorkeeper() as keeper:
        oauth = {"clientId": "us", "clientSecret": "our-client-secret", "issuer": keeper.address}
        entry = {"url": f"{keeper.address}/mcp", "auth": "oauth", "oauth": oauth, "headers": {"X-Key": "our-api-key"}}
        groups = {"theirs": {"exports": True}}
        async with wired(tmp_path, groups, {"guarded": entry}) as server, server.client(era) as client:
            result = await client.call_tool("headers", {"as": way})
    assert "***" in text_of(result)
    assert "our-api-key" not in result.model_dump_json()
    assert "access-token-1" not in result.model_dump_json()


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_that_is_too_large_for_one_answer_is_a_link_to_its_pages(tmp_path: Path, era: str) -> None:
    groups = {"theirs": {"include": ["huge", "rows"], "exports": True}}
    servers = {"plain": server_entry("--odd-tools")}
    async with wired(tmp_path, groups, servers) as server, server.client(era) as client:
        await client.list_tools()
        for tool, count in (("huge", 950_000), ("rows", 9_500)):
            link: Any = await client.call_tool(tool, {"count": count})
            assert not link.is_error
            assert "process_result" in text_of(link)
            large: Any = link.structured_content
            pages = [
                (await client.call_tool("process_result", {"processId": large["processId"], "page": page})).content[1]
                for page in range(1, large["pages"] + 1)
            ]
            whole = "".join(each.text for each in pages if each.type == "text")
            assert whole == "x" * count if tool == "huge" else json.loads(whole) == {"rows": ["x" * 99] * count}
        assert [each.name for each in server.state.platform.agents.all] == []
