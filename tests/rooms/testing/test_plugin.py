"""What the pytest plugin gives to tests of agents that ask models, and what it costs everybody else."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from goalport import Ai, Export, UserInput, achieves_goal, agent
from goalport.testing import McpClient, ScriptedModels, contains

pytest_plugins = ["pytester"]

HEAVY = ("goalport.runtime.platform", "mcp", "openai", "pydantic", "pydantic_ai", "starlette", "uvicorn")

AGENT = """
from dataclasses import dataclass
from goalport import Ai, Export, UserInput, achieves_goal, action, agent

@dataclass(frozen=True)
class Rhyme:
    text: str

@agent(description="Rhymes")
class Poet:
    @achieves_goal(description="A rhyme", export=Export(remote=True, name="rhyme", starting_input_types=[UserInput]))
    @action
    async def rhyme(self, user_input: UserInput, ai: Ai) -> Rhyme:
        try:
            text = await ai.with_llm("some-provider:some-model").generate_text(f"Rhyme on {user_input.content}")
        except AssertionError:
            text = "nothing"
        return Rhyme(text)
"""

TESTS = """
import pytest
from goalport import UserInput
from goalport.testing import contains

@pytest.fixture
def poets(scripted_models):
    scripted_models.when_generate_text(contains("frog")).then_return("frog, bog")

async def test_the_platform_asks_them(agent_platform, scripted_models):
    scripted_models.when_generate_text(contains("cat")).then_return("cat, hat")
    process = await agent_platform.run("Poet", UserInput("cat"))
    assert process.outcome.value.text == "cat, hat"
    scripted_models.verify_generate_text_matching("Rhyme on cat")
    scripted_models.verify_no_more_interactions()

async def test_the_client_asks_them_even_if_another_fixture_wants_them(mcp_client, poets):
    async with mcp_client() as client:
        result = await client.call_tool("rhyme", {"content": "frog"})
    assert result.structured_content == {"text": "frog, bog"}

async def test_what_nobody_foresaw(agent_platform, scripted_models):
    process = await agent_platform.run("Poet", UserInput("dog"))
    assert process.outcome.value.text == "nothing"
"""


IMPORTED_AT_THE_TOP = """
from goalport import UserInput
from goalport_workspace.agents.poet import Poet, Rhyme
from goalport.testing import contains
from goalport.workspace import load_workspace

async def test_what_the_platform_makes_is_of_the_imported_class(agent_platform, scripted_models):
    scripted_models.when_generate_text(contains("cat")).then_return("cat, hat")
    process = await agent_platform.run("Poet", UserInput("cat"))
    assert process.outcome.value == Rhyme("cat, hat")

def test_the_workspace_has_the_imported_class(goalport_workspace, pytestconfig):
    assert goalport_workspace.agents() == (Poet,)
    assert load_workspace(pytestconfig.rootpath).agents() == (Poet,)
"""


@pytest.fixture
def workspace(pytester: pytest.Pytester) -> pytest.Pytester:
    (pytester.mkdir("agents") / "poet.py").write_text(AGENT)
    (Path(pytester.path) / "pyproject.toml").write_text("[tool.pytest.ini_options]\nanyio_mode = 'auto'\n")
    return pytester


def test_agents_of_a_workspace_ask_scripted_models_and_what_has_no_rule_fails_the_test(
    workspace: pytest.Pytester,
) -> None:
    workspace.makepyfile(TESTS)
    result = workspace.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*UnexpectedPrompt: A model was asked for what no rule is for:", "*'Rhyme on dog'*"])


def test_a_class_that_a_test_imports_is_the_one_that_the_fixtures_serve(workspace: pytest.Pytester) -> None:
    workspace.makepyfile(IMPORTED_AT_THE_TOP)
    workspace.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=2)


@dataclass(frozen=True)
class Rhyme:
    text: str


@agent(description="Rhymes")
class Poet:
    @achieves_goal(description="A rhyme", export=Export(remote=True, name="rhyme", starting_input_types=[UserInput]))
    async def rhyme(self, user_input: UserInput, ai: Ai) -> Rhyme:
        return Rhyme(await ai.generate_text(f"Rhyme on {user_input.content}"))


async def test_a_client_of_given_agents_asks_them_too(mcp_client: McpClient, scripted_models: ScriptedModels) -> None:
    scripted_models.when_generate_text(contains("cat")).then_return("cat, hat")
    async with mcp_client(Poet) as client:
        result: Any = await client.call_tool("rhyme", {"content": "cat"})
    assert result.structured_content == {"text": "cat, hat"}


async def test_a_client_of_given_agents_may_have_models_of_its_own(
    mcp_client: McpClient, scripted_models: ScriptedModels
) -> None:
    others = ScriptedModels()
    others.when_generate_text(contains("cat")).then_return("cat, mat")
    async with mcp_client(Poet, models=others) as client:
        result: Any = await client.call_tool("rhyme", {"content": "cat"})
    assert result.structured_content == {"text": "cat, mat"}
    assert scripted_models.llm_invocations == []


SHOP = """
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pydantic import BaseModel
from goalport import Export, UserInput, achieves_goal, agent, service, settings

@settings("shop")
class ShopSettings(BaseModel):
    town: str = "Ulm"

@dataclass
class Till:
    total: int = 0

@service
async def till() -> AsyncIterator[Till]:
    raise AssertionError("the real till")
    yield Till()

@dataclass(frozen=True)
class Sum:
    text: str

@agent(description="Sells")
class Shop:
    def __init__(self, till: Till) -> None:
        self.till = till

    @achieves_goal(description="A sum", export=Export(remote=True, name="total"))
    def total(self, user_input: UserInput, till: Till, settings: ShopSettings) -> Sum:
        assert till is self.till
        return Sum(f"{till.total} in {settings.town}")
"""
SHOP_TESTS = """
import pytest
from goalport import UserInput
from goalport.testing import FakeOperationContext
from goalport_workspace.agents.shop import Shop, ShopSettings, Sum, Till

@pytest.fixture
def replaced_services():
    return [Till(3), ShopSettings(town="Bonn")]

async def test_the_platform_has_them(agent_platform):
    process = await agent_platform.run("Shop", UserInput(""))
    assert process.outcome.value.text == "3 in Bonn"

async def test_a_client_may_have_others(mcp_client):
    async with mcp_client(services=[Till(4)]) as client:
        result = await client.call_tool("total", {"content": "x"})
    assert result.structured_content == {"text": "4 in Bonn"}

async def test_an_action_alone_has_those_of_its_context():
    till = Till(5)
    context = FakeOperationContext(UserInput(""), services=[till, ShopSettings()])
    assert await context.perform(Shop(till).total) == Sum("5 in Ulm")
"""


def test_services_and_settings_of_a_workspace_are_replaced(workspace: pytest.Pytester) -> None:
    (Path(workspace.path) / "agents" / "shop.py").write_text(SHOP)
    workspace.makepyfile(SHOP_TESTS)

    workspace.runpytest_subprocess("-p", "anyio", "-n", "0").assert_outcomes(passed=3)


def test_what_the_plugin_imports_is_light() -> None:
    program = "import json, sys, goalport.testing.plugin; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert set(json.loads(done.stdout)).isdisjoint(HEAVY)
