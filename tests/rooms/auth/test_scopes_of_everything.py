"""For any scopes of callers and of what is published, what is listed is exactly what can be used."""

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from goalport import Export, McpToolExport, ToolObject, UserInput, achieves_goal, agent, tool
from goalport.base.caller import Caller
from goalport.server.auth import Access
from goalport.server.auth.access import granted
from goalport.server.doors.mcp.server import GoalServer, make_server
from goalport.server.doors.mcp.state import McpState
from goalport.server.publish.publisher import Publisher
from goalport.tools.upstream.config import read_config
from tests.rooms.auth.tokens import spoken
from tests.rooms.serve.served import ERAS, state_of, text_of

EVERY = ("goals:read", "goals:write", "a", "b")
"""The scopes in this test; nothing implies another here but the scope to write that to read."""


def subsets(scopes: Iterable[str]) -> list[tuple[str, ...]]:
    each = list(scopes)
    return list(chain.from_iterable(combinations(each, number) for number in range(len(each) + 1)))


def of_everything() -> str:
    """A module that exports a tool, a prompt, a resource and a template for each set of scopes."""
    lines = ["from mcp_types import *", "from goalport import tool", "from goalport.server.doors.mcp.raw import *"]
    lines += ["async def say(context, params): return GetPromptResult(messages=[])"]
    lines += ["async def read(context, params): return ReadResourceResult(contents=[])"]
    for number, scopes in enumerate(subsets(EVERY)):
        lines += [
            f"@tool(export=True, scopes={[*scopes]})",
            f"def tool{number}() -> str: return 'done'",
            f"prompt{number} = raw_prompt(Prompt(name='prompt{number}'), say, scopes={[*scopes]})",
            f"resource{number} = raw_resource(Resource(uri='at://{number}', name='r'), read, scopes={[*scopes]})",
            f"form{number} = ResourceTemplate(uri_template='in{number}://{{id}}', name='t')",
            f"template{number} = raw_template(form{number}, read, scopes={[*scopes]})",
        ]
    return "\n".join(lines)


@asynccontextmanager
async def connected(server: GoalServer, era: str, *scopes: str) -> AsyncGenerator[Client]:
    """A client whose requests come with these scopes, as the guard before a door leaves it."""
    grant = await spoken().grant_of(f"ada={'+'.join(scopes)}")
    with granted({}, grant, "token"):
        async with Client(server, mode=era) as client:
            yield client


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_listed_is_exactly_what_can_be_used(tmp_path: Path, era: str) -> None:
    publisher = state_of(tmp_path, files={"tools/all.py": of_everything()}, page_size=1_000).publisher
    server, _ = make_server(McpState(publisher, Access(publisher, spoken())))
    async with publisher.platform:
        for scopes in subsets(EVERY):
            async with connected(server, era, *scopes) as client:
                if not {"goals:read", "goals:write"} & {*scopes}:
                    with pytest.raises(MCPError, match="needs the scope goals:read"):
                        await client.list_tools()
                    continue
                assert await listed(client) == await used(client)


async def listed(client: Client) -> set[str]:
    templates = (await client.list_resource_templates()).resource_templates
    return {
        *(each.name for each in (await client.list_tools()).tools if each.name.startswith("tool")),
        *(each.name for each in (await client.list_prompts()).prompts),
        *(each.uri for each in (await client.list_resources()).resources if each.uri.startswith("at://")),
        *(each.uri_template for each in templates if each.uri_template.startswith("in")),
    }


async def used(client: Client) -> set[str]:
    found = set[str]()
    for number in range(2 ** len(EVERY)):
        if not (await client.call_tool(f"tool{number}")).is_error:
            found.add(f"tool{number}")
        for name, using in (
            (f"prompt{number}", client.get_prompt(f"prompt{number}")),
            (f"at://{number}", client.read_resource(f"at://{number}")),
            (f"in{number}://{{id}}", client.read_resource(f"in{number}://7")),
        ):
            try:
                await using
            except MCPError as refused:
                assert "your credential does not have" in str(refused)  # noqa: PT017 - most of them are not refused
            else:
                found.add(name)
    return found


@agent(description="Tells what it may")
class Talker:
    @achieves_goal(description="Words", export=Export(remote=True, name="talk", read_only=True))
    def talk(self, said: UserInput) -> str:
        return said.content


async def test_without_an_authentication_no_scope_is_checked(tmp_path: Path) -> None:
    state = state_of(tmp_path, files={"tools/all.py": of_everything()}, page_size=1_000)
    async with state.platform, Client(make_server(state)[0]) as client:
        assert await listed(client) == await used(client)
        assert len(await listed(client)) == 4 * 2 ** len(EVERY)


class Kitchen:
    @tool(read_only=True)
    def peek(self) -> str:
        """Look into the pot"""
        return "soup"

    @tool
    def stir(self) -> str:
        """Stir"""
        return "stirred"


def test_an_export_gives_all_its_tools_its_scopes() -> None:
    own = McpToolExport.from_tool_object(Kitchen())
    cook = McpToolExport.from_tool_objects([ToolObject(Kitchen())], scopes=["cook"])
    assert [each.scopes for each in own.tools()] == [None, None]
    assert [each.scopes for each in cook.tools()] == [["cook"], ["cook"]]


@pytest.mark.parametrize("scopes", ["finance", ["a b"], ['"'], [""], [7], 7, ["ä"]])
def test_what_is_no_list_of_scopes_is_refused_where_it_is_written(scopes: Any) -> None:
    with pytest.raises(TypeError, match="list of scopes"):
        Export(scopes=scopes)
    with pytest.raises(TypeError, match="list of scopes"):
        tool(scopes=scopes)


def test_a_group_says_its_scopes_in_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "mcp_config.json"
    groups: dict[str, Any] = {"a": {"scopes": ["cook"]}, "b": {}, "c": {"scopes": ["a b"]}, "d": {"scopes": []}}
    path.write_text(json.dumps({"toolGroups": groups}))
    config = read_config(path, {})
    assert {role: each.scopes for role, each in config.groups.items()} == {
        "a": ("cook",),
        "b": None,
        "c": None,
        "d": (),
    }
    (problem,) = config.problems
    assert "tool group 'c' has no tools: Expected scopes to be a list of scopes" in problem.message
    assert config.groups["c"].exclude == ("*",)


async def test_the_sentence_of_a_refusal_names_all_that_is_missing(tmp_path: Path) -> None:
    publisher = state_of(tmp_path, files={"tools/all.py": of_everything()}).publisher
    server, _ = make_server(McpState(publisher, Access(publisher, spoken())))
    async with publisher.platform, connected(server, "auto", "goals:read", "a") as client:
        refused = await client.call_tool(f"tool{2 ** len(EVERY) - 1}")
    assert text_of(refused) == (
        "This needs the scopes b and goals:write, which your credential does not have. Calling again does not help: ask"
        " whoever runs this server for a credential that has them."
    )


async def test_views_follow_what_is_published(tmp_path: Path) -> None:
    publisher: Publisher = state_of(tmp_path).publisher
    server, _ = make_server(McpState(publisher, Access(publisher, spoken())))
    async with publisher.platform, connected(server, "auto", "goals:read") as client:
        assert "talk" not in {each.name for each in (await client.list_tools()).tools}
        publisher.platform.deploy(Talker())
        await publisher.republish("tools")
        assert "talk" in {each.name for each in (await client.list_tools(cache_mode="refresh")).tools}


@agent(description="Moves money")
class Mover:
    @achieves_goal(description="Move money", export=Export(remote=True, name="move", scopes=["finance:write"]))
    def move(self, said: UserInput) -> str:
        return "moved"


def test_where_callers_are_authenticated_the_front_tool_may_start_what_its_caller_may(tmp_path: Path) -> None:
    publisher = state_of(tmp_path, Talker(), Mover()).publisher
    goals = [goal for each in publisher.platform.agents for goal in each.goals]
    reader, payer = Caller("ada", scopes=frozenset({"goals:read"})), Caller("bob", scopes=frozenset({"finance:write"}))

    def started_by(caller: Caller) -> list[str]:
        return [each.short_name for each in goals if publisher.platform.may_start(caller, each)]

    assert started_by(reader) == ["talk", "move"]
    Access(publisher, spoken())
    assert (started_by(reader), started_by(payer)) == (["talk"], ["move"])
