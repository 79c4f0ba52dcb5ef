from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from goalport import Export, achieves_goal, action, agent
from goalport.server.site import startup_report
from goalport.server.site.app import Site
from tests.rooms.serve.served import served, state_of


class Person(BaseModel):
    name: str


class Mood(BaseModel):
    tone: str


class Poem(BaseModel):
    content: str


@agent(description="Writes")
class Writer:
    @achieves_goal(description="A poem", export=Export(remote=True, name="write", starting_input_types=[Person]))
    @action
    async def write(self, person: Person) -> Poem:
        return Poem(content=person.name)

    @achieves_goal(description="A poem for ourselves")
    @action
    async def scribble(self, mood: Mood) -> Poem:
        return Poem(content=mood.tone)

    @achieves_goal(description="", export=Export(remote=True, name="w" * 70))
    @action
    async def ramble(self, person: Person) -> Poem:
        return Poem(content=person.name)


@agent(description="Wants too much")
class Dreamer:
    @achieves_goal(description="A mood", export=Export(remote=True, name="dream", starting_input_types=[Person]))
    @action
    async def dream(self, poem: Poem) -> Mood:
        return Mood(tone=poem.content)


FILES = {
    "tools/maths.py": """
from mcp_types import Resource, Tool
from goalport import ToolGroup, tool
from goalport.server.doors.mcp import raw_resource, raw_tool

@tool(export=True)
def add(a: int, b: int) -> int:
    '''Add.'''
    return a + b

maths = ToolGroup.of("maths", add)

async def handle(context, params):
    return {}

raw = raw_tool(Tool(name="raw", input_schema={"type": "object"}), handle)
one = raw_resource(Resource(uri="note://1", name="one"), handle)
other = raw_resource(Resource(uri="note://1", name="other"), handle)
""",
    "agents/broken.py": "\n1 / 0\n",
}


def lines(root: Path, address: str = "") -> list[str]:
    publisher = state_of(root, Writer(), Dreamer(), files=FILES).publisher
    return list(startup_report(publisher, address, Site(publisher).doors))


def test_each_goal_is_reported_under_its_name_or_with_the_reason_why_not(tmp_path: Path) -> None:
    told = lines(tmp_path)
    assert "  write: goal Writer.write of Writer, from name" in told
    assert any(each.startswith("  not published: goal Writer.scribble of Writer, it is not remote") for each in told)
    assert any("goal Dreamer.dream of Dreamer, from Person it cannot be reached" in each for each in told)


def test_tools_groups_and_raw_handlers_are_reported(tmp_path: Path) -> None:
    told = lines(tmp_path)
    assert {"  exported tools: helloBanner, add", "  raw tools: raw", "  tool group maths: up, 1 tool"} <= set(told)
    assert "  tools of goalport itself: process_result" in told


def test_what_matters_first_is_told_first(tmp_path: Path) -> None:
    beginnings = [
        "Goalport",
        "  write: goal",
        "  not published: ",
        "  problem: ",
        "  warning: ",
        "  Connect a client: ",
        "  Streamable HTTP",
        "  REST",
        "  exported tools: ",
        "  tool group maths: up",
    ]
    told = lines(tmp_path, "http://127.0.0.1:8080")
    places = [next(number for number, line in enumerate(told) if line.startswith(each)) for each in beginnings]
    assert places == sorted(places)


SWITCHED_OFF = '{"mcpServers": {"fetch": {"command": "uvx", "args": ["mcp-server-fetch"], "disabled": true}}}'


async def test_a_group_whose_servers_are_switched_off_is_not_down(tmp_path: Path) -> None:
    async with served(tmp_path, files={"mcp_config.json": SWITCHED_OFF}) as server:
        told = [each for each in startup_report(server.state.publisher) if "group" in each or "server" in each]
    assert told == [
        "  tool group fetch: disabled, 0 tools",
        "  tool group web: disabled, 0 tools",
        "  upstream server fetch: disabled",
    ]


def test_problems_come_with_file_and_line_and_warnings_with_the_clients(tmp_path: Path) -> None:
    told = lines(tmp_path)
    assert any("broken.py:2: ZeroDivisionError" in each and "problem" in each for each in told)
    assert any("70 characters" in each and "problem" in each for each in told)
    assert any("raw" in each and "no description" in each and "warning" in each for each in told)


KEEPER = """
from goalport import UserInput, achieves_goal, agent

class Lost: ...

@agent(description="Keeps nothing")
class Keeper:
    @achieves_goal(description="Something")
    def keep(self, user_input: UserInput) -> Lost:
        return Lost()
"""


@pytest.mark.parametrize(("store", "warned"), [("memory", False), ("sqlite", True)])
def test_what_the_store_of_the_server_cannot_write_is_a_warning(tmp_path: Path, store: str, *, warned: bool) -> None:
    state = state_of(tmp_path, files={"agents/keepers.py": KEEPER}, store=store)
    told = [each for each in startup_report(state.publisher) if "Lost" in each]
    assert [each.startswith("  warning: ") and ": Keeper.keep (" in each for each in told] == [True] * warned


def test_two_resources_with_one_address_are_a_problem(tmp_path: Path) -> None:
    assert any("note://1" in each and "problem" in each for each in lines(tmp_path))


def test_how_to_connect_is_told_for_each_kind_of_client(tmp_path: Path) -> None:
    told = "\n".join(lines(tmp_path, "http://127.0.0.1:8080"))
    for words in (
        "http://127.0.0.1:8080/mcp",
        "http://127.0.0.1:8080/sse",
        "mcp-remote",
        "Open WebUI",
        "goalport connect",
    ):
        assert words in told
    assert "stdin" in "\n".join(lines(tmp_path))


@pytest.mark.parametrize(("store", "said"), [("memory", True), ("sqlite", False)])
def test_a_server_whose_auto_workers_are_one_process_says_why(tmp_path: Path, store: str, *, said: bool) -> None:
    state = state_of(tmp_path, files=FILES, workers="auto", store=store)
    told = startup_report(state.publisher, "http://127.0.0.1:8080", ())
    assert any("workers is auto" in each and 'store = "sqlite"' in each for each in told) is said


OPEN = {"auth": {"insecure_no_auth": True}}
WORDS = {"host": "Nobody is authenticated", "allowed_hosts": "DNS rebinding", "allowed_origins": "every web page"}


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"host": "0.0.0.0", **OPEN}, {"host"}),  # noqa: S104 - nothing is bound
        ({"host": "::", **OPEN}, {"host"}),
        ({"host": "192.0.2.7", **OPEN}, {"host"}),
        ({"host": "0.0.0.0", "auth": {"keys": True}}, set[str]()),  # noqa: S104
        ({"public_url": "https://agents.example.com"}, {"host"}),
        ({"public_url": "https://agents.example.com", "auth": {"keys": True}}, set[str]()),
        ({"allowed_hosts": ["*"]}, {"allowed_hosts"}),
        ({"allowed_origins": ["*"]}, {"allowed_origins"}),
        ({"host": "localhost", "allowed_hosts": ["agents.example.com"]}, {"host"}),
        ({"host": "localhost", "allowed_hosts": ["agents.example.com"], "auth": {"keys": True}}, set[str]()),
        ({"host": "localhost", "allowed_hosts": ["localhost:*"]}, set[str]()),
        ({"host": "::1"}, set[str]()),
        ({"host": "127.0.0.2"}, set[str]()),
    ],
)
def test_the_report_warns_of_settings_that_let_others_in(
    tmp_path: Path, settings: dict[str, Any], names: set[str]
) -> None:
    state = state_of(tmp_path, **settings)
    told = list(startup_report(state.publisher, "http://127.0.0.1:8080", Site(state.publisher).doors))
    warnings = "".join(line for line in told if line.startswith("  warning: "))
    assert {name for name, words in WORDS.items() if words in warnings} == names
    over_stdio = "".join(startup_report(state.publisher))
    assert not any(words in over_stdio for words in WORDS.values())


def test_clients_are_told_the_address_by_which_they_reach_the_server(tmp_path: Path) -> None:
    state = state_of(tmp_path, public_url="https://agents.example.com/", auth={"keys": True})
    first, *lines = startup_report(state.publisher, "http://127.0.0.1:8081", Site(state.publisher).doors)
    assert "on http://127.0.0.1:8081/mcp" in first
    assert any("goalport connect claude-code --url https://agents.example.com/mcp --key KEY" in line for line in lines)
    assert not any("8081" in line or "../" in line for line in lines)


@pytest.mark.parametrize(
    ("auth", "ways"),
    [
        ({}, []),
        ({"keys": True}, ["a key"]),
        (
            {"keys": True, "issuers": [{"issuer": "https://login.example.com/acme"}]},
            ["a key", "a token of https://login.example.com/acme"],
        ),
        (
            {"trusted_proxies": ["10.0.0.7"], "proxy_user_header": "X-Forwarded-User"},
            ["the header X-Forwarded-User of a proxy at 10.0.0.7"],
        ),
    ],
)
def test_the_report_says_how_callers_authenticate(tmp_path: Path, auth: dict[str, Any], ways: list[str]) -> None:
    state = state_of(tmp_path, auth=auth)
    told = startup_report(state.publisher, "http://127.0.0.1:8080", Site(state.publisher).doors)
    said = [line.removeprefix("  Callers authenticate by ") for line in told if "Callers authenticate by" in line]
    assert [line.partition(":")[0] if line.startswith("a key") else line for line in said] == ways


def test_a_problem_of_several_lines_stays_one_entry(tmp_path: Path) -> None:
    files = {"agents/loud.py": "raise ValueError('first\\nproblem: second')"}
    state = state_of(tmp_path, files=files)
    told = "\n".join(startup_report(state.publisher)).splitlines()
    assert told[0].endswith("1 tool, 0 prompts")
    assert "first" in told[1]
    assert all(line.startswith("  ") for line in told[1:])
    assert not any(line.startswith("problem: second") for line in told)
