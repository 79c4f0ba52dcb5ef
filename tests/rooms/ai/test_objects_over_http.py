"""Typed objects by real adapters over HTTP: wrapped roots, repairs, tools and declining, with each kind of provider."""

import base64
from collections.abc import AsyncGenerator
from typing import Annotated

import pytest
from anyio import fail_after
from mcp_types import ImageContent
from pydantic import BaseModel, Field

from goalport.base.errors import InvalidModelOutput
from goalport.models.llm import Image, Models
from goalport.runtime.ai import Ai, LlmEngine
from goalport.tools import ToolGroupResolver, tool
from tests.providers import Providers

MODELS = ["openai:gpt-4.1-mini", "openai-responses:gpt-5-mini", "anthropic:claude-opus-4-8", "gemini:gemini-2.5-flash"]
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Month(BaseModel):
    name: Annotated[str, Field(min_length=3)]
    degrees: int


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []


@pytest.fixture(params=MODELS)
async def ai(aimock: Providers, request: pytest.FixtureRequest) -> AsyncGenerator[Ai]:
    """An `Ai` over each provider."""
    models = Models(environment=aimock.environment)
    yield Ai(LlmEngine(models, ToolGroupResolver)).with_llm(request.param)
    await models.aclose()


async def test_lists_unions_and_trees_are_made(aimock: Providers, ai: Ai) -> None:
    july = {"name": "July", "degrees": 33}
    aimock.answer("list", content={"result": [july]})
    aimock.answer("either", content={"result": july})
    aimock.answer("tree", content={"name": "a", "children": [{"name": "b", "children": []}]})

    with fail_after(60):
        assert await ai.create_object("The list", list[Month]) == [Month(name="July", degrees=33)]
        assert await ai.create_object("One of either", Tree | Month) == Month(name="July", degrees=33)
        assert await ai.create_object("A tree", Tree) == Tree(name="a", children=[Tree(name="b")])


async def test_an_object_that_breaks_the_rules_is_repaired_in_the_same_conversation(aimock: Providers, ai: Ai) -> None:
    aimock.answer("does not keep to the rules", content={"name": "July", "degrees": 33})
    aimock.answer("hottest", content={"name": "J", "degrees": 33})

    with fail_after(60):
        month = await ai.create_object("The hottest month", Month)

    assert month == Month(name="July", degrees=33)
    said = str(aimock.requests()[-1]["messages"])
    assert "The hottest month" in said
    assert "at least 3 characters; came 'J'" in said


async def test_an_object_that_stays_wrong_is_an_error(aimock: Providers, ai: Ai) -> None:
    aimock.answer(content={"name": "J", "degrees": 33})

    with fail_after(60), pytest.raises(InvalidModelOutput, match="Month"):
        await ai.create_object("The hottest month", Month)

    assert len(aimock.requests()) == 2


@tool
def thermometer(month: str) -> int:
    """The temperature."""
    return 33


async def test_tools_are_called_on_the_way_to_an_object(aimock: Providers, ai: Ai) -> None:
    aimock.answer({"hasToolResult": True}, content={"name": "July", "degrees": 33})
    aimock.answer(
        "hottest",
        toolCalls=[
            {"name": "thermometer", "arguments": {"month": "July"}},
            {"name": "thermometer", "arguments": {"month": "August"}},
        ],
    )
    ai = ai.with_tools(thermometer)

    with fail_after(60):
        assert await ai.create_object("The hottest month", Month) == Month(name="July", degrees=33)


async def test_a_model_may_say_that_it_knows_too_little(aimock: Providers, ai: Ai) -> None:
    aimock.answer(content={"result": None, "failure": "Where?"})

    with fail_after(60):
        assert await ai.create_object_if_possible("The hottest month", Month) is None


async def test_images_of_users_and_of_tools_are_sent(aimock: Providers, ai: Ai) -> None:
    def look() -> ImageContent:
        return ImageContent(type="image", data=base64.b64encode(PIXEL).decode(), mime_type="image/png")

    aimock.answer({"turnIndex": 1}, content="A pixel")
    aimock.answer({"turnIndex": 0}, toolCalls=[{"name": "look", "arguments": {}}])
    ai = ai.with_tools(look).with_images(Image("image/png", PIXEL))

    with fail_after(60):
        assert await ai.generate_text("What do you see?") == "A pixel"
