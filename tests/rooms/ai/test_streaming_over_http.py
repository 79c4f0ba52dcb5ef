"""Streams of real adapters over HTTP: objects, thoughts and text of several providers, and an end that is early."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from anyio import fail_after
from pydantic import BaseModel

from goalport.models.llm import Models, ThinkingDelta
from goalport.runtime.ai import Ai, LlmEngine, StreamedObject
from goalport.tools import ToolGroupResolver, tool
from tests.providers import Providers


class Month(BaseModel):
    name: str
    degrees: int


MONTHS = [Month(name="July", degrees=33), Month(name="August", degrees=34)]
LINES = "\n".join(each.model_dump_json() for each in MONTHS)
MODELS = ["openai:gpt-4.1-mini", "openai-responses:gpt-5-mini", "anthropic:claude-opus-4-8", "gemini:gemini-2.5-flash"]


@pytest.fixture
async def ai(aimock: Providers) -> AsyncGenerator[Ai]:
    models = Models(environment=aimock.environment)
    yield Ai(LlmEngine(models, lambda: ToolGroupResolver(())))
    await models.aclose()


@pytest.mark.parametrize("model", MODELS)
async def test_objects_and_text_are_streamed_by_every_kind_of_provider(aimock: Providers, ai: Ai, model: str) -> None:
    aimock.answer("hottest months", content=LINES)
    streaming = ai.with_llm(model).streaming()
    with fail_after(60):
        assert [each async for each in streaming.objects("The hottest months", Month)] == MONTHS
        assert "".join([each async for each in streaming.text("The hottest months")]) == LINES


@pytest.mark.parametrize("model", ["openai-responses:gpt-5-mini", "anthropic:claude-opus-4-8"])
async def test_thoughts_are_streamed_before_the_objects(aimock: Providers, ai: Ai, model: str) -> None:
    aimock.answer("hottest months", content=LINES, reasoning="Summer is hot.")
    pieces = [each async for each in ai.with_llm(model).streaming().objects_with_thinking("The hottest months", Month)]
    thoughts = "".join(each.text for each in pieces if isinstance(each, ThinkingDelta))
    assert thoughts == "Summer is hot."
    assert [each.value for each in pieces if isinstance(each, StreamedObject)] == MONTHS
    assert isinstance(pieces[0], ThinkingDelta)


@tool
def thermometer(month: str) -> int:
    """The temperature."""
    return 33


@pytest.mark.parametrize("model", MODELS)
async def test_tools_are_called_in_a_stream(aimock: Providers, ai: Ai, model: str) -> None:
    aimock.answer(
        {"userMessage": "hottest months", "hasToolResult": False},
        toolCalls=[{"name": "thermometer", "arguments": {"month": "July"}}],
    )
    aimock.answer({"hasToolResult": True}, content=LINES)
    streaming = ai.with_llm(model).with_tools(thermometer).streaming()
    with fail_after(60):
        assert [each async for each in streaming.objects("The hottest months", Month)] == MONTHS
    assert "33" in str(aimock.requests()[-1])


@pytest.mark.parametrize("model", MODELS)
async def test_a_stream_that_is_closed_early_leaves_nothing_open(aimock: Providers, ai: Ai, model: str) -> None:
    aimock.answer("hottest months", {"latency": 20}, content=LINES * 50)
    objects = ai.with_llm(model).streaming().objects("The hottest months", Month)
    with fail_after(60):
        async with aclosing(objects):
            assert await anext(objects) == MONTHS[0]
