"""Upstream servers of a test that are objects in memory, with the groups of a configuration."""

from dataclasses import dataclass
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from goalport import AgentPlatform, Ai, Export, UserInput, achieves_goal, action, agent
from goalport.testing import McpClient, ScriptedModel, calls_tool, client_of, upstream_of
from goalport.tools.upstream import GroupConfig, McpConfig, NamingConfig, ServerConfig

pytest_plugins = ["pytester"]

TRACKER = MCPServer("tracker")


@TRACKER.tool()
def find_issue(number: int) -> str:
    """Find an issue."""
    return f"Issue {number}: the cat"


@TRACKER.tool()
def delete_issue(number: int) -> str:
    """Delete an issue."""
    return f"{number} is gone"


class Pizza(BaseModel):
    name: str


@dataclass(frozen=True)
class Answer:
    content: str


@agent(description="Answers")
class Clerk:
    @achieves_goal(description="The answer", export=Export(remote=True, name="ask", starting_input_types=[UserInput]))
    @action(tool_groups=["tracker"])
    async def ask(self, user_input: UserInput, ai: Ai) -> Answer:
        return Answer(await ai.generate_text(user_input.content))


async def test_agents_of_a_test_have_the_tools_of_a_server_in_memory(mcp_client: McpClient) -> None:
    model = ScriptedModel([calls_tool("find_issue", number=7), "It is the cat."])
    async with mcp_client(Clerk, models=model, upstream={"tracker": TRACKER}) as client:
        result: Any = await client.call_tool("ask", {"content": "What is 7?"})
    assert result.structured_content == {"content": "It is the cat."}
    assert "Issue 7: the cat" in model.calls[1].messages[-1].content


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_client_outside_of_pytest_has_options_and_the_filters_and_names_of_a_group(era: str) -> None:
    group = GroupConfig("tracker", ("issues",), include=("find_*",), naming=NamingConfig(prefix="my_"))
    upstream = upstream_of({"issues": TRACKER}, McpConfig(groups={"tracker": group}))
    model = ScriptedModel([calls_tool("my_find_issue", number=7), "It is the cat."])
    platform = AgentPlatform([Clerk], models=model, upstream=upstream)
    async with client_of(platform, options={"mode": era}) as client:
        await client.call_tool("ask", {"content": "What is 7?"})
    assert [each.name for each in model.calls[0].tools] == ["my_find_issue"]


async def test_a_server_in_memory_speaks_the_revision_of_its_entry() -> None:
    shop = MCPServer("shop")

    @shop.tool()
    async def order(context: Context) -> str:
        return (await context.elicit("Which pizza?", Pizza)).action

    entry = ServerConfig("shop", "stdio", protocol_version="2025-11-25")
    group = GroupConfig("shop", ("shop",), exports=True)
    platform = AgentPlatform(upstream=upstream_of({"shop": shop}, McpConfig({"shop": entry}, {"shop": group})))
    async with client_of(platform) as client:
        assert (await client.call_tool("order", {})).structured_content == {"result": "decline"}


TESTS = """
import pytest
from mcp.server.mcpserver import MCPServer

server = MCPServer("tracker")
for name in ("find_issue", "delete_issue"):
    server.add_tool(lambda: "the cat", name=name)

async def test_the_groups_are_those_of_the_workspace(mcp_client):
    async with mcp_client(upstream={"issues": server}) as client:
        names = {each.name for each in (await client.list_tools()).tools}
        assert names == {"my_find_issue", "helloBanner", "process_result"}
        assert "the cat" in str(await client.call_tool("my_find_issue", {}))
"""
CONFIG = """{
  "mcpServers": {
    "issues": {"url": "https://issues.invalid/mcp", "headers": {"Authorization": "Bearer ${ISSUES_TOKEN}"}},
    "other": {"command": "goalport-no-such"}
  },
  "toolGroups": {"tracker": {
    "servers": ["issues", "other"], "include": ["find_*"], "naming": {"prefix": "my_"}, "exports": true, "pin": true
  }}
}"""


def test_a_workspace_keeps_its_groups_and_reaches_no_server(pytester: pytest.Pytester) -> None:
    pytester.mkdir("agents")
    (pytester.path / "mcp_config.json").write_text(CONFIG)
    (pytester.path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nanyio_mode = 'auto'\n")
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=1)
