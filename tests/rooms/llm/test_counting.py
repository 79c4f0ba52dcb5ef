"""What is used is counted: embeddings, streams that nobody read to their end, and replies under other names."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest
from starlette.responses import Response

from goalport import AgentPlatform, Ai, Budget, ProcessOptions, UserInput, achieves_goal, agent
from goalport.base.errors import ModelUnavailable
from goalport.models.llm import ModelCall, Models, TokenUsage, UserMessage
from goalport.runtime.process import ProcessStatus, Terminated
from tests.rooms.llm.asking import call, pieces_of
from tests.rooms.llm.servers import chat, embeddings, serving, sse, stream
from tests.rooms.llm.test_broken_off import CLAUDE, claude_events


@agent(description="Looks for likeness")
class Likeness:
    @achieves_goal(description="How alike")
    async def compare(self, user_input: UserInput, ai: Ai) -> int:
        ai = ai.with_embedding_service("text-embedding-3-small")
        first, second = await ai.embed("cat", "dog")
        await ai.embed("more")
        return len(first) + len(second)


VECTORS = embeddings([1.0], [2.0], tokens=10_000), embeddings([3.0], tokens=5_000)


async def test_embeddings_are_in_the_ledger_with_what_they_cost() -> None:
    async with serving(*VECTORS) as server:
        process = await AgentPlatform([Likeness], models=server.models()).run("Likeness", UserInput("x"))
    assert process.status is ProcessStatus.COMPLETED
    assert process.ledger.requests == 2
    assert process.usage.input_tokens == 15_000
    assert process.usage.cost == pytest.approx(0.0003), "0.02 US dollars a million, as pydantic-ai's data say"


async def test_embeddings_count_towards_a_budget() -> None:
    async with serving(*VECTORS) as server:
        platform = AgentPlatform([Likeness], models=server.models())
        options = ProcessOptions(budget=Budget(tokens=10_000))
        process = await platform.run("Likeness", UserInput("x"), options=options)
    assert isinstance(process.outcome, Terminated)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("vectors", [[[1.0]], [[1.0], [2.0], [3.0]]])
async def test_there_is_a_vector_for_each_text_or_an_error(vectors: list[list[float]]) -> None:
    async with serving(embeddings(*vectors)) as server:
        with pytest.raises(ModelUnavailable, match=f"was given 2 texts, and {len(vectors)} vectors came"):
            await server.models().embedding("text-embedding-3-small").embed(["cat", "dog"])


class Lengths:
    """An embedding service of one's own, that forgets the last text."""

    name: str = "lengths"
    dimensions: int | None = 1

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return [[float(len(each))] for each in texts[:-1]]


async def test_a_service_of_ones_own_is_held_to_it_too() -> None:
    ai = AgentPlatform(models=Models(embeddings=[Lengths()])).ai
    with pytest.raises(ModelUnavailable, match="'lengths' was given 2 texts, and 1 vectors came"):
        await ai.embed("cat", "dog")


@agent(description="Reads the first word only")
class Impatient:
    @achieves_goal(description="A word")
    async def read(self, user_input: UserInput, ai: Ai) -> str:
        async with aclosing(ai.streaming().text(user_input.content)) as pieces:
            async for piece in pieces:
                return piece
        return ""


STORY = stream({"content": "Once "}, {"content": "upon a time "}, {"content": "there was"}, ended=True)


async def test_a_stream_left_early_is_counted_as_far_as_it_was_read() -> None:
    async with serving(STORY) as server:
        platform = AgentPlatform([Impatient], models=server.models())
        process = await platform.run("Impatient", UserInput("Tell me a story, please. " * 100))
    assert process.status is ProcessStatus.COMPLETED
    assert process.ledger.requests == 1
    assert process.usage.input_tokens >= 600
    assert process.usage.output_tokens >= 1
    assert process.usage.cost > 0


async def test_a_stream_that_broke_off_is_counted_as_far_as_it_came() -> None:
    used = {"input_tokens": 40, "output_tokens": 1}
    async with serving(sse(*claude_events(used)[:3])) as server:
        left = list[TokenUsage]()
        asked = ModelCall(messages=(UserMessage("Hello"),), on_partial_usage=left.append)
        with pytest.raises(ModelUnavailable):
            await pieces_of(server.model(CLAUDE, max_attempts=1), asked)
    assert [each.input_tokens for each in left] == [40]


async def test_a_reply_under_another_name_costs_as_the_model_that_was_asked() -> None:
    async def renamed(request: dict[str, Any]) -> Response:
        return await chat("Hello")(request | {"model": "my-deployment-7"})

    async with serving(renamed, chat("Hello")) as server:
        model = server.model("gpt-4.1-mini")
        first, second = await model.reply(call("Hello")), await model.reply(call("Hello"))
    assert first.model == "my-deployment-7"
    assert first.usage.cost == second.usage.cost > 0
