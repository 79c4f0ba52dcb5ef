"""Goals that ask models, as clients see them: costs in results, handles, progress, and failures in sentences."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from goalport import Ai, Export, UserInput, achieves_goal, action, agent
from goalport.base.errors import SettingsError
from goalport.server.site import startup_report
from goalport.workspace import load_workspace
from tests.rooms.llm.servers import chat, error, serving
from tests.rooms.serve.served import ERAS, served, state_of, text_of

MODELS = """
from goalport.models.llm import TokenUsage
from goalport.testing.scripted import ScriptedModel, calls_tool
house = ScriptedModel([{replies}], usage=TokenUsage(input_tokens=60, output_tokens=40, cost=0.25))
"""
TOOLS = """
from goalport import ToolGroup, tool

@tool
def look_up(word: str) -> str:
    '''Look a word up.'''
    return f"{word} is a word"

words = ToolGroup.of("words", look_up)
"""


class Poem(BaseModel):
    content: str


@agent(description="Writes poems")
class Poet:
    @achieves_goal(description="A poem", export=Export(remote=True, name="write", starting_input_types=[UserInput]))
    @action(tool_groups=["words"])
    async def write(self, user_input: UserInput, ai: Ai) -> Poem:
        return await ai.create_object(f"A poem about {user_input.content}", Poem)


@agent(description="Needs no model")
class Plain:
    @achieves_goal(description="An echo", export=Export(remote=True, name="echo", starting_input_types=[UserInput]))
    async def echo(self, user_input: UserInput) -> Poem:
        return Poem(content=user_input.content)


@agent(description="Writes quickly")
class Hurried:
    @achieves_goal(
        description="A line", export=Export(remote=True, name="scribble", long=False, starting_input_types=[UserInput])
    )
    async def scribble(self, user_input: UserInput, ai: Ai) -> Poem:
        return Poem(content=await ai.generate_text(user_input.content))


def files(*replies: str) -> Mapping[str, str]:
    return {"tools/models.py": MODELS.format(replies=", ".join(replies)), "tools/words.py": TOOLS}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


POEM = """'{"content": "Bees"}'"""


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_tells_what_its_models_cost(tmp_path: Path, era: str) -> None:
    replies = files("calls_tool('look_up', word='bee')", POEM)
    async with served(tmp_path, Poet, files=replies) as server, server.client(era) as client:
        result = await client.call_tool("write", {"content": "bees"})
        assert result.meta is not None
        uri = f"goalport://processes/{result.meta['goalport/processId']}"
        state = (await client.read_resource(uri)).contents[0]

    assert result.structured_content == {"content": "Bees"}
    assert result.meta["goalport/cost"] == {"usd": 0.5, "inputTokens": 120, "outputTokens": 80, "modelCalls": 2}
    assert result.meta["goalport/actions"] == 1
    assert '"tokens": 200' in str(getattr(state, "text", ""))


async def test_progress_names_the_model_and_the_tools_but_not_what_is_said(tmp_path: Path) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total is None or progress <= total
        heard.append(message or "")

    replies = files("calls_tool('look_up', word='secret')", POEM)
    async with served(tmp_path, Poet, files=replies) as server, server.client() as client:
        await client.call_tool("write", {"content": "secret"}, progress_callback=hear)

    assert heard[1:] == ["write asks scripted", "write calls look_up", "1/1 write"]


async def test_a_goal_whose_agent_takes_an_ai_may_answer_with_a_handle_unless_it_says_otherwise(tmp_path: Path) -> None:
    async with served(tmp_path, Poet, Plain, Hurried) as server, server.client() as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}

    def titles(name: str) -> list[object]:
        schema: dict[str, Any] = tools[name].output_schema or {}
        return [each["title"] for each in schema.get("anyOf", [schema])]

    assert titles("write") == ["Poem", "Handle", "LargeResult"]
    assert titles("echo") == titles("scribble") == ["Poem", "LargeResult"]
    assert "process_status" in tools


async def test_a_model_that_takes_long_leaves_a_handle_by_which_the_result_is_had(tmp_path: Path) -> None:
    @agent(description="Writes slowly")
    class Slow:
        @achieves_goal(
            description="A poem",
            export=Export(remote=True, name="write", wait_budget=0.05, starting_input_types=[UserInput]),
        )
        async def write(self, user_input: UserInput, ai: Ai) -> Poem:
            return Poem(content=await ai.generate_text(user_input.content))

    slow = """
import anyio
from goalport.testing.scripted import ScriptedModel

class Slow(ScriptedModel):
    async def reply(self, call):
        await anyio.sleep(0.2)
        return await super().reply(call)

house = Slow(["At last"])
"""
    async with served(tmp_path, Slow, files={"tools/models.py": slow}) as server, server.client() as client:
        handle = await client.call_tool("write", {"content": "x"})
        assert handle.structured_content is not None
        assert handle.structured_content["status"] == "running"
        known = {"processId": handle.structured_content["processId"], "waitSeconds": 5}
        result = await client.call_tool("process_status", known)

    assert text_of(result) == "At last"
    assert result.meta is not None
    assert result.meta["goalport/cost"]["modelCalls"] == 1


async def test_without_a_model_the_rest_is_served_and_a_call_says_what_to_set(tmp_path: Path) -> None:
    async with served(tmp_path, Poet, Plain) as server, server.client() as client:
        assert text_of(await client.call_tool("echo", {"content": "hello"})) == "hello"
        refused = await client.call_tool("write", {"content": "bees"})
        report = list(startup_report(server.state.publisher))

    assert refused.is_error
    assert text_of(refused).startswith("write failed. Poet.write failed: openai has no key. Set OPENAI_API_KEY in")
    assert "Traceback" not in text_of(refused)
    (line,) = (line for line in report if "model " in line)
    assert "model gpt-4.1-mini: not ready. openai has no key. Set OPENAI_API_KEY" in line
    assert "actions of Poet that ask it fail" in line


async def test_a_key_in_the_env_file_makes_the_model_ready_and_no_client_sees_it(
    tmp_path: Path, no_keys: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-hush\nOPENAI_BASE_URL=http://127.0.0.1:9\n")
    no_keys.setenv("GOALPORT_MODELS__PROVIDERS__OPENAI__MAX_ATTEMPTS", "1")
    async with served(tmp_path, Poet) as server, server.client() as client:
        report = list(startup_report(server.state.publisher))
        refused = await client.call_tool("write", {"content": "bees"})

    assert "  model gpt-4.1-mini: ready, for 1 action" in report
    assert refused.is_error
    assert "sk-hush" not in text_of(refused)
    assert "Traceback" not in text_of(refused)


def test_a_role_whose_model_is_not_ready_keeps_the_server_from_starting(tmp_path: Path) -> None:
    settings = {"server/settings.toml": "[models.llms]\nbest = 'anthropic:claude-sonnet-4-6'\nodd = 'nobody-knows'\n"}
    with pytest.raises(SettingsError) as caught:
        state_of(tmp_path, Plain, files=settings)

    first, second = str(caught.value).splitlines()
    assert first.startswith("[models] role 'best' (llms): anthropic has no key. Set ANTHROPIC_API_KEY")
    assert second.startswith("[models] role 'odd' (llms): Unknown model 'nobody-knows'")


async def test_a_model_of_the_workspace_is_read_anew_with_it(tmp_path: Path) -> None:
    asked = {**files(POEM), "agents/poet.py": AGENT}
    async with served(tmp_path, files=asked) as server, server.client() as client:
        assert text_of(await client.call_tool("poet_write", {"content": "x"})) == "Bees"
        (tmp_path / "tools/models.py").write_text(MODELS.format(replies=POEM.replace("Bees", "Wasps")))
        await server.state.publisher.adopt(load_workspace(tmp_path))
        assert text_of(await client.call_tool("poet_write", {"content": "x"})) == "Wasps"


AGENT = """
from pydantic import BaseModel
from goalport import Ai, Export, UserInput, achieves_goal, agent

class Poem(BaseModel):
    content: str

@agent(description="Writes poems")
class Poet:
    def __init__(self, ai: Ai) -> None:
        self.ai = ai

    @achieves_goal(description="A poem", export=Export(remote=True))
    async def write(self, user_input: UserInput) -> Poem:
        return await self.ai.create_object("A poem", Poem)
"""


SETTINGS = """
[models.providers.openai]
base_url = "{address}/v1"
api_key = "k"
backoff_millis = 60_000
"""


async def test_who_waits_for_a_provider_that_does_not_answer_is_told_of_it_everywhere(tmp_path: Path) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    @agent(description="Writes when it can")
    class Patient:
        @achieves_goal(
            description="A line",
            export=Export(remote=True, name="jot", wait_budget=1, starting_input_types=[UserInput]),
        )
        async def jot(self, user_input: UserInput, ai: Ai) -> Poem:
            return Poem(content=await ai.generate_text(user_input.content))

    async with serving(error(500, "Oops"), chat("Bees")) as provider:
        files = {"server/settings.toml": SETTINGS.format(address=provider.address)}
        async with served(tmp_path, Patient, files=files) as server, server.client() as client:
            seen = await client.call_tool("jot", {"content": "bees"}, progress_callback=hear)
            assert seen.structured_content
            known = {"processId": seen.structured_content["processId"]}
            with anyio.fail_after(60):
                while "waitsFor" not in (seen.structured_content or {}):
                    asked = known | {"waitSeconds": 1}
                    seen = await client.call_tool("process_status", asked, progress_callback=hear)
            again = await client.call_tool("process_status", known)
            await client.call_tool("process_cancel", known)
    why = "The model gpt-4.1-mini did not answer, attempt 2 of 10 in 60.0 s: openai:gpt-4.1-mini failed (500): Oops."
    assert why in heard
    for result in (seen, again):
        assert result.structured_content
        assert result.structured_content["waitsFor"] == [why]
        assert why in text_of(result)
