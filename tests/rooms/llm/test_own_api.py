"""A provider with an API of its own: its entry in the table of providers and one dialect are all that it takes."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, cast

import pytest

from goalport.base.errors import ModelNotReady, ModelUnavailable
from goalport.models.llm import LlmOptions, Models, ModelsSettings
from goalport.models.llm.dialects import Dialect, Endpoint
from goalport.models.llm.providers import PROVIDERS, KnownProvider
from tests.rooms.llm.asking import call, pieces_of
from tests.rooms.llm.servers import Answer, StrangeServer, chat, serving, sse

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model


def toy_model(endpoint: Endpoint, model: str, client: "httpx2.AsyncClient") -> "Model":
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    key = endpoint.api_key.get_secret_value() if endpoint.api_key else ""
    sdk = AsyncOpenAI(api_key=key, base_url=f"{endpoint.base_url}/toys", http_client=client, max_retries=0)
    return OpenAIChatModel(model.upper(), provider=OpenAIProvider(openai_client=sdk))


def toy_dialect() -> Dialect:
    return Dialect(
        model=toy_model,
        embeddings=None,
        imports=("pydantic_ai.models.openai", "openai.resources.chat.completions.completions"),
        stream_end=re.compile(rb'"whole"\s*:\s*true'),
        to_base_url=lambda url: url.rstrip("/"),
    )


@pytest.fixture(autouse=True)
def toy_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = KnownProvider(name="toy", dialect=toy_dialect(), key="TOY_KEY", address="TOY_URL", models="toy-")
    monkeypatch.setitem(cast("dict[str, KnownProvider]", PROVIDERS), "toy", toy)


@asynccontextmanager
async def toy_server(*answers: Answer) -> AsyncGenerator[tuple[StrangeServer, Models]]:
    async with serving(*answers) as server:
        patience = {"max_attempts": 3, "backoff_millis": 1}
        settings = ModelsSettings.model_validate({"providers": {"toy": patience}})
        server.catalogues.append(Models(settings, environment={"TOY_KEY": "k-1", "TOY_URL": f"{server.address}/"}))
        yield server, server.catalogues[-1]


def streamed(text: str, *, whole: bool) -> Answer:
    """A stream whose last event says why the answer ended; only a whole one says so as this API does."""
    about: dict[str, Any] = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    piece = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    ended: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return sse(about | {"choices": [piece]}, about | {"choices": [ended]}, *([{"whole": True}] if whole else []))


async def test_its_model_is_found_by_name_and_answers() -> None:
    async with toy_server(chat("Hello")) as (server, models):
        reply = await models.choose(LlmOptions(model="toy-1")).reply(call("Hello"))
    assert reply.message.content == "Hello"
    assert server.paths == ["/toys/chat/completions"]
    assert (server.bodies[0]["model"], server.headers[0]["authorization"]) == ("TOY-1", "Bearer k-1")


async def test_its_stream_is_whole_when_it_says_so_as_its_api_does() -> None:
    async with toy_server(streamed("Once", whole=True)) as (_, models):
        text, _, reply = await pieces_of(models.choose(LlmOptions(model="toy-1")), call("Tell me a story"))
    assert (text, reply.finish) == ("Once", "stop")


@pytest.mark.parametrize("text", ["", "Once"])
async def test_its_stream_that_is_cut_is_no_answer(text: str) -> None:
    async with toy_server(streamed(text, whole=False)) as (_, models):
        with pytest.raises(ModelUnavailable, match="before it said that it was at its end"):
            await pieces_of(models.choose(LlmOptions(model="toy-1")), call("Tell me a story"))


def test_what_it_lacks_is_said_with_its_name() -> None:
    with pytest.raises(ModelNotReady, match="toy has no embedding models"):
        Models(environment={"TOY_KEY": "k-1", "TOY_URL": "http://127.0.0.1:1"}).embedding("toy-1")
    assert "Set TOY_KEY" in Models(environment={"TOY_URL": "http://127.0.0.1:1"}).why_not_ready("toy-1")
    assert "TOY_URL" in Models(environment={"TOY_KEY": "k-1"}).why_not_ready("toy-1")


REQUIRED = [each.name for each in fields(Dialect) if each.default is MISSING]


@pytest.mark.parametrize("omitted", REQUIRED)
def test_a_dialect_that_omits_a_part_is_refused_where_it_is_written(omitted: str) -> None:
    parts: dict[str, Any] = {name: getattr(toy_dialect(), name) for name in REQUIRED if name != omitted}
    with pytest.raises(TypeError, match=omitted):
        Dialect(**parts)


def test_how_a_stream_ends_and_whether_there_are_embeddings_must_be_said() -> None:
    assert {"model", "embeddings", "imports", "stream_end"} <= {*REQUIRED}
