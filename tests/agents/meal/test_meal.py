"""A meal through the official client: a model supervises, and does the work of the actions."""

from collections.abc import Sequence
from typing import Any

import anyio
from mcp_types import CallToolResult

from agents.meal.agent import MealPreparation
from agents.meal.kitchen import Cook, Order
from goalport.models import Models, ModelsSettings
from goalport.testing import McpClient, ScriptedModel, calls_tool
from goalport.testing.scripted import Script
from tests.providers import Providers

SAID = {"content": "Nina wants two pizzas"}
ANTONIO = Cook(name="antonio")
PIZZAS = Order(dish="pizza", quantity=2, guest="Nina")
MEAL = {"dish": "pizza", "quantity": 2, "ordered_by": "Nina", "cooked_by": "Antonio"}


def found(order: object, missing: str | None = None) -> dict[str, object]:
    return {"result": order, "failure": missing}


async def prepared(mcp_client: McpClient, models: Any) -> CallToolResult:
    with anyio.fail_after(60):
        async with mcp_client(MealPreparation(), models=models) as client:
            result = await client.call_tool("prepare_meal", SAID)
    assert isinstance(result, CallToolResult)
    return result


async def scripted(mcp_client: McpClient, replies: Sequence[Script]) -> tuple[CallToolResult, ScriptedModel]:
    model = ScriptedModel(list(replies))
    return await prepared(mcp_client, model), model


async def test_cook_and_order_are_found_one_after_the_other_and_the_meal_follows(mcp_client: McpClient) -> None:
    replies = [calls_tool("choose_cook"), ANTONIO, calls_tool("take_order"), found(PIZZAS), "Two pizzas for Nina!"]
    result, model = await scripted(mcp_client, replies)
    assert result.structured_content == {"content": "Two pizzas for Nina!", **MEAL}
    assert model.unused == 0


async def test_an_order_that_nobody_understands_ends_with_the_words_of_the_model(mcp_client: McpClient) -> None:
    replies = [calls_tool("take_order"), found(None, "No dish is named."), "Nothing more can be done.", "Nothing."]
    result, _ = await scripted(mcp_client, replies)
    assert result.is_error
    assert "Nothing." in str(result.content)


async def test_a_provider_is_asked_over_http(mcp_client: McpClient, aimock: Providers) -> None:
    nothing = dict[str, object]()
    both = [{"name": each, "arguments": nothing} for each in ("choose_cook", "take_order")]
    aimock.answer("# Objects that are there", toolCalls=both)
    aimock.answer("Choose the cook", content={"name": "Antonio", "speciality": ""})
    aimock.answer("Take the order", content=found(PIZZAS.model_dump()))
    aimock.answer("announces", content="Two pizzas for Nina!")
    models = Models(ModelsSettings(default_llm="openai:gpt-4.1-mini"), environment=aimock.environment)
    result = await prepared(mcp_client, models)
    assert result.structured_content == {"content": "Two pizzas for Nina!", **MEAL}
    assert len(aimock.requests()) == 4
