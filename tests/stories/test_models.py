"""Goals that ask models, called by the official client: server and provider are processes, all talk is HTTP."""

import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult
from starlette.responses import JSONResponse, Response

from tests.providers import Providers
from tests.rooms.llm.servers import Answer, StrangeServer, error, serving, silence
from tests.stories.cooks import FILES
from tests.stories.papers import HEADLINE, Paper, newspaper
from tests.stories.servers import Running, running

STAR_NEWS = Path(__file__).parents[2] / "agents" / "star_news"
SAID = {"content": "Lynda is a Scorpio, find news for her"}
USAGE = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
DOLLARS = 1_000 * 0.4e-6 + 100 * 1.6e-6
"""What that costs with gpt-4.1-mini."""
TELLER = """
from pydantic import BaseModel
from goalport import Ai, Export, achieves_goal, action, agent

class Topic(BaseModel):
    name: str

class Story(BaseModel):
    content: str

@agent(description="Tells stories")
class Teller:
    @achieves_goal(description="A story", export=Export(remote=True, name="tell", wait_budget=30))
    @action
    async def tell(self, topic: Topic, ai: Ai) -> Story:
        return await ai.create_object(f"Tell a story about {topic.name}", Story)

@agent(description="Begins stories")
class Beginner:
    @achieves_goal(description="A story", export=Export(remote=True, name="begin", wait_budget=0.2))
    @action
    async def begin(self, topic: Topic, ai: Ai) -> Story:
        return await ai.create_object(f"Tell a story about {topic.name}", Story)
"""
OTTER = {"name": "an otter"}
IMPATIENT = """
[models.providers.openai]
max_attempts = 3
backoff_millis = 1
"""


def teller(environment: Mapping[str, str]) -> dict[str, str]:
    """A workspace that asks a model, beside one agent that does not; keys and addresses are in its .env."""
    keys = "".join(f"{name}={value}\n" for name, value in environment.items())
    own = {"agents/teller.py": TELLER, "server/settings.toml": IMPATIENT, ".env": keys}
    return {**FILES, **own}


def openai_at(address: str) -> dict[str, str]:
    return {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": f"{address}/v1"}


def says(content: str) -> Answer:
    """A chat completion, as OpenAI gives it."""

    async def answer(request: dict[str, Any]) -> Response:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        about = {"id": "c1", "object": "chat.completion", "created": 1, "model": request["model"]}
        return JSONResponse({**about, "choices": [choice], "usage": USAGE})

    return answer


async def call(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult:
    with anyio.fail_after(60):
        result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    return result


def text(result: CallToolResult) -> str:
    return "".join(getattr(each, "text", "") for each in result.content)


@pytest.fixture(scope="module", autouse=True)
def no_keys_of_this_machine() -> Iterator[None]:
    """Only what a test puts into its workspace counts."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
async def paper() -> AsyncGenerator[Paper]:
    async with newspaper() as paper:
        yield paper


@pytest.fixture(scope="module")
async def with_aimock(
    provider_process: Providers, paper: Paper, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Running]:
    """A server whose models are aimock's."""
    folder = tmp_path_factory.mktemp("workspace")
    shutil.copytree(STAR_NEWS, folder / "agents" / "star_news")
    async with running(folder, {"tools/web.py": paper.tools, **teller(provider_process.environment)}) as server:
        yield server


@pytest.fixture(scope="module")
async def provider() -> AsyncGenerator[StrangeServer]:
    """A provider that each test tells how to answer."""
    async with serving(silence) as server:
        yield server


@pytest.fixture(scope="module")
async def with_provider(provider: StrangeServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Running]:
    """A server whose models are that provider's."""
    folder = tmp_path_factory.mktemp("workspace")
    async with running(folder, teller(openai_at(provider.address))) as server:
        yield server


def tell_star_news(aimock: Providers, story: str) -> None:
    """What the provider answers to each prompt of the agent."""
    news = "relevant news stories"
    found = {"items": [{"url": story, "title": HEADLINE, "summary": "She wants more fish."}]}
    person = {"result": {"name": "Lynda", "sign": "Scorpio"}, "failure": None}
    aimock.answer("Create a person", content=person, usage=USAGE)
    aimock.answer({"userMessage": news, "toolResultContains": "more fish"}, content=found, usage=USAGE)
    read = [{"name": "read_page", "arguments": {"url": story}}]
    aimock.answer({"userMessage": news, "toolResultContains": HEADLINE}, toolCalls=read, usage=USAGE)
    search = [{"name": "search", "arguments": {"query": "surprising elections"}}]
    aimock.answer({"userMessage": news, "hasToolResult": False}, toolCalls=search, usage=USAGE)
    aimock.answer("Write something amusing", content={"content": f"Vote [otter]({story})!"}, usage=USAGE)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_star_news_are_found_with_the_tools_of_a_group_and_the_result_tells_what_it_cost(
    with_aimock: Running, paper: Paper, aimock: Providers, era: str
) -> None:
    paper.asked.clear()
    tell_star_news(aimock, paper.story)
    async with with_aimock.client("http", era) as client:
        result = await call(client, "find_star_news", SAID)
    assert not result.is_error, result
    assert paper.asked == ["search surprising elections", "otters"]
    assert result.structured_content == {"content": f"Vote [otter]({paper.story})!"}
    assert result.meta is not None
    cost = result.meta["goalport/cost"]
    assert cost == {"usd": pytest.approx(5 * DOLLARS), "inputTokens": 5_000, "outputTokens": 500, "modelCalls": 5}
    assert result.meta["goalport/actions"] == 4
    offered = [[each["function"]["name"] for each in asked.get("tools", ())] for asked in aimock.requests()]
    assert offered == [[], *[["search", "read_page"]] * 3, []]
    assert "Traceback" not in with_aimock.heard.text


async def test_without_a_key_all_is_served_and_who_asks_a_model_is_told_what_to_set(tmp_path: Path) -> None:
    async with running(tmp_path, teller({})) as server, server.client("http", "auto") as client:
        result = await call(client, "tell", OTTER)
        assert result.is_error
        assert "openai has no key. Set OPENAI_API_KEY in the environment or in .env" in text(result)
        meal = await call(client, "cook", {"seconds": 0})
        assert meal.structured_content == {"content": "done"}
    assert "Traceback" not in server.heard.text


async def test_a_provider_that_is_busy_is_asked_again(with_aimock: Running, aimock: Providers) -> None:
    busy = {"message": "Slow down", "type": "rate_limit_error"}
    aimock.answer({"userMessage": "an otter", "sequenceIndex": 0}, error=busy, status=429)
    aimock.answer("an otter", content={"content": "Once upon a river"}, usage=USAGE)
    async with with_aimock.client("http", "auto") as client:
        result = await call(client, "tell", OTTER)
    assert result.structured_content == {"content": "Once upon a river"}
    assert [each["response"]["status"] for each in aimock.journal()] == [429, 200]
    assert result.meta is not None
    assert result.meta["goalport/cost"]["modelCalls"] == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error(401, "Incorrect API key provided: sk-se***"), "OPENAI_API_KEY"),
        (error(500, "The machine is on fire"), "asked 3 times"),
        (says("This is no story."), "Story"),
    ],
    ids=["wrong key", "always broken", "never an object"],
)
async def test_what_a_provider_gets_wrong_is_told_in_a_sentence(
    with_provider: Running, provider: StrangeServer, answer: Answer, words: str
) -> None:
    provider.answer(answer)
    async with with_provider.client("http", "auto") as client:
        result = await call(client, "tell", OTTER)
    assert result.is_error
    assert text(result).startswith("tell failed. Teller.tell failed: ")
    assert words in text(result)
    assert "sk-secret" not in text(result) + with_provider.heard.text
    assert "Traceback" not in text(result) + with_provider.heard.text


async def test_a_provider_that_is_not_there_is_told_in_a_sentence_with_its_address(tmp_path: Path) -> None:
    files = teller(openai_at("http://127.0.0.1:9"))
    async with running(tmp_path, files) as server, server.client("http", "auto") as client:
        result = await call(client, "tell", OTTER)
        meal = await call(client, "cook", {"seconds": 0})
    assert result.is_error
    assert "cannot be reached at http://127.0.0.1:9/v1" in text(result)
    assert "Traceback" not in text(result) + server.heard.text
    assert meal.structured_content == {"content": "done"}


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_that_gives_up_ends_the_request_at_the_provider(
    with_provider: Running, provider: StrangeServer, era: str
) -> None:
    provider.answer(silence)
    with anyio.fail_after(60):
        async with with_provider.client("http", era) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, client, "tell", OTTER)
                await provider.asked.wait()
                tasks.cancel_scope.cancel()
            await provider.gone.wait()
            await call(client, "cook", {"seconds": 0})  # the SDK's client fails if an answer comes while it closes
    assert len(provider.bodies) == 1


async def test_a_goal_whose_model_takes_its_time_answers_with_a_handle_and_then_with_its_result(
    with_provider: Running, provider: StrangeServer
) -> None:
    released = anyio.Event()

    async def slowly(request: dict[str, Any]) -> Response:
        await released.wait()
        return await says('{"content": "At last"}')(request)

    provider.answer(slowly)
    async with with_provider.client("http", "auto") as client:
        begun = await call(client, "begin", OTTER)
        assert begun.structured_content is not None
        assert begun.structured_content["status"] == "running"
        released.set()
        handle = {"processId": begun.structured_content["processId"], "waitSeconds": 20}
        end = await call(client, "process_status", handle)
    assert end.structured_content == {"content": "At last"}
    assert end.meta is not None
    assert end.meta["goalport/cost"]["modelCalls"] == 1
