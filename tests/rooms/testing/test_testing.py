"""What people who write agents get for their own tests."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from goalport import Export, UserInput, achieves_goal, action, agent, component
from goalport.testing import McpClient, plan_of

pytest_plugins = ["pytester"]


@dataclass(frozen=True)
class Guest:
    name: str


@dataclass(frozen=True)
class Greeting:
    content: str


@agent(description="Greets")
class Greeter:
    @action
    async def recognise(self, user_input: UserInput) -> Guest:
        return Guest(user_input.content)

    @achieves_goal(description="Greet", export=Export(remote=True, name="greet"))
    async def greet(self, guest: Guest) -> Greeting:
        return Greeting(f"Hello, {guest.name}!")


@component
class Nothing:
    @action
    async def nothing(self, greeting: Greeting) -> None: ...


def test_the_plan_of_an_agent_is_asserted_without_running_it() -> None:
    assert plan_of(Greeter, given=[UserInput]) == ["recognise", "greet"]
    assert plan_of(Greeter(), given=[Guest], goal="greet", components=[Nothing]) == ["greet"]


def test_a_goal_without_a_plan_fails_the_assertion_with_the_reason() -> None:
    with pytest.raises(AssertionError, match="UserInput"):
        plan_of(Greeter, given=[])


async def test_a_client_in_memory_calls_the_goals_of_given_agents(mcp_client: McpClient) -> None:
    async with mcp_client(Greeter) as client:
        listed = await client.list_tools()
        assert {"greet", "helloBanner"} <= {tool.name for tool in listed.tools}
        result = await client.call_tool("greet", {"content": "Ada"})
    assert not result.is_error
    assert result.structured_content == {"content": "Hello, Ada!"}


async def test_the_client_speaks_the_older_revisions_too(mcp_client: McpClient) -> None:
    async with mcp_client(Greeter(), options={"mode": "legacy"}) as client:
        result = await client.call_tool("greet", {"content": "Bo"})
    assert result.structured_content == {"content": "Hello, Bo!"}


def test_the_workspace_around_the_tests_is_there_to_import_and_to_call(pytester: pytest.Pytester) -> None:
    agents = pytester.mkdir("agents")
    (agents / "shouter.py").write_text(
        """
from dataclasses import dataclass
from goalport import Export, UserInput, achieves_goal, agent

@dataclass(frozen=True)
class Shout:
    content: str

@agent(description="Shouts")
class Shouter:
    @achieves_goal(description="Shout", export=Export(remote=True, name="shout", starting_input_types=[UserInput]))
    async def shout(self, user_input: UserInput) -> Shout:
        return Shout(user_input.content.upper())
"""
    )
    pytester.makepyfile(
        """
from goalport import UserInput
from goalport.testing import plan_of

def test_plan():
    from goalport_workspace.agents.shouter import Shouter
    assert plan_of(Shouter, given=[UserInput]) == ["shout"]

async def test_call(mcp_client):
    async with mcp_client() as client:
        result = await client.call_tool("shout", {"content": "hi"})
    assert result.structured_content == {"content": "HI"}

async def test_platform(agent_platform):
    process = await agent_platform.run("Shouter", UserInput("ho"))
    assert process.outcome.value.content == "HO"
"""
    )
    (Path(pytester.path) / "pyproject.toml").write_text("[tool.pytest.ini_options]\nanyio_mode = 'auto'\n")
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3)
