"""Questions of a bank's customers through the official client; the model is scripted, the rest is real."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult

from agents.bank_support.advice import Assessment, SupportRequest
from agents.bank_support.agent import BankSupport, CardPolicy
from agents.bank_support.customer import Customer
from agents.bank_support.customers import CustomersOfFile
from goalport import AgentPlatform, Tool
from goalport.models import ModelCall, ToolReply, UserMessage
from goalport.testing import McpClient, ScriptedModel, calls_tool, plan_of
from goalport.testing.scripted import Script

CALM = Assessment(advice="All is well, John.", block_card=False, risk=1)
ALARMED = Assessment(advice="Do not worry, John.", block_card=True, risk=9)
BALANCE = {"customer_id": 123, "query": "What is my balance?"}
LOST = {"customer_id": 123, "query": "I just lost my card!"}


async def ask(
    mcp_client: McpClient, replies: Sequence[Script], arguments: dict[str, Any], agent: BankSupport | None = None
) -> tuple[CallToolResult, ScriptedModel]:
    model = ScriptedModel(list(replies))
    with anyio.fail_after(60):
        async with mcp_client(agent or BankSupport(CustomersOfFile.read()), models=model) as client:
            result = await client.call_tool("support_customer", arguments)
    assert isinstance(result, CallToolResult)
    return result, model


def prompt(asked: ModelCall) -> str:
    return next(each.content for each in asked.messages if isinstance(each, UserMessage))


def text(result: CallToolResult) -> str:
    return "".join(getattr(each, "text", "") for each in result.content)


async def test_a_question_is_answered_with_advice_and_a_risk(mcp_client: McpClient) -> None:
    result, model = await ask(mcp_client, [calls_tool("balance", include_pending=True), CALM], BALANCE)
    assert not result.is_error, result
    assert result.structured_content == {"advice": "All is well, John.", "block_card": False, "risk": 1}
    looked_up = model.calls[1].messages[-1]
    assert isinstance(looked_up, ToolReply)
    assert looked_up.content == "$1,023.45"


async def test_the_prompt_has_the_query_and_the_name_and_none_of_the_figures(mcp_client: McpClient) -> None:
    _, model = await ask(mcp_client, [CALM], BALANCE)
    asked = prompt(model.calls[0])
    assert "What is my balance?" in asked
    assert "John" in asked
    assert "2400" not in asked
    assert "Complained" not in asked


async def test_a_model_may_use_what_is_marked_and_nothing_else_of_a_customer(mcp_client: McpClient) -> None:
    _, model = await ask(mcp_client, [CALM], BALANCE)
    assert [each.name for each in model.calls[0].tools] == ["balance", "recent_transactions", "card_status"]
    unmarked = [calls_tool("with_card_blocked"), calls_tool("balance_of", include_pending=True), CALM]
    result, model = await ask(mcp_client, unmarked, BALANCE)
    assert not result.is_error, result
    assert "There is no tool 'with_card_blocked'" in str(model.calls[1].messages[-1])
    assert "There is no tool 'balance_of'" in str(model.calls[2].messages[-1])


async def test_the_balance_is_told_with_and_without_what_is_pending(mcp_client: McpClient) -> None:
    both = [[calls_tool("balance", include_pending=each) for each in (True, False)], CALM]
    _, model = await ask(mcp_client, both, BALANCE)
    told = [each.content for each in model.calls[1].messages if isinstance(each, ToolReply)]
    assert told == ["$1,023.45", "$1,235.45"]


async def test_the_newest_transactions_come_first(mcp_client: McpClient) -> None:
    _, model = await ask(mcp_client, [calls_tool("recent_transactions", count=2), CALM], BALANCE)
    told = str(model.calls[1].messages[-1])
    assert told.index("Lisbon, -212.00 dollars, pending") < told.index("Groceries, -64.55 dollars")
    assert "Rent" not in told


async def test_a_lost_card_is_blocked_and_the_customer_is_told_by_the_program(mcp_client: McpClient) -> None:
    customers = CustomersOfFile.read()
    result, _ = await ask(mcp_client, [ALARMED], LOST, BankSupport(customers))
    assert result.structured_content is not None
    assert result.structured_content["block_card"] is True
    assert result.structured_content["advice"].startswith("Do not worry, John.\n\nYour card has been blocked")
    assert await _blocked(customers, 123)
    assert not await _blocked(customers, 456)


@pytest.mark.parametrize(
    "assessment",
    [
        Assessment(advice="Your card is blocked! BLOCK IT NOW. block_card=true", block_card=False, risk=10),
        Assessment(advice="Please block it.", block_card=True, risk=6),
    ],
    ids=["words", "risk too low"],
)
async def test_neither_words_nor_a_wish_without_risk_block_a_card(
    mcp_client: McpClient, assessment: Assessment
) -> None:
    customers = CustomersOfFile.read()
    result, _ = await ask(mcp_client, [assessment], LOST, BankSupport(customers))
    assert result.structured_content is not None
    assert result.structured_content["block_card"] is False
    assert "has been blocked" not in result.structured_content["advice"]
    assert not await _blocked(customers, 123)


async def test_whoever_runs_the_bank_sets_the_risk_from_which_cards_are_blocked(mcp_client: McpClient) -> None:
    customers = CustomersOfFile.read()
    wary = BankSupport(customers, CardPolicy(least_risk=3))
    await ask(mcp_client, [Assessment(advice="Hm.", block_card=True, risk=3)], LOST, wary)
    assert await _blocked(customers, 123)


async def test_a_card_that_was_blocked_before_stays_so_and_is_not_blocked_again(mcp_client: McpClient) -> None:
    given = {"customer_id": 789, "query": "Is my card blocked?"}
    result, model = await ask(mcp_client, [calls_tool("card_status"), CALM], given)
    assert result.structured_content == {"advice": "All is well, John.", "block_card": True, "risk": 1}
    assert "blocked" in str(model.calls[1].messages[-1])


async def _blocked(customers: CustomersOfFile, number: int) -> bool:
    customer = await customers.find(number)
    assert customer is not None
    return customer.card_blocked


async def test_a_customer_that_nobody_knows_is_the_callers_mistake_and_costs_nothing(mcp_client: McpClient) -> None:
    result, model = await ask(mcp_client, [], {"customer_id": 999, "query": "Hello"})
    assert result.is_error
    assert text(result) == "customer_id: there is no customer 999. Ask for their number."
    assert model.calls == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"customer_id": 0, "query": "Hello"}, "customer_id"),
        ({"customer_id": 123, "query": ""}, "query"),
        ({"customer_id": "john", "query": "Hello"}, "customer_id"),
        ({"query": "Hello"}, "customer_id"),
    ],
)
async def test_a_request_that_is_none_is_refused_field_by_field(
    mcp_client: McpClient, arguments: dict[str, Any], field: str
) -> None:
    result, model = await ask(mcp_client, [], arguments)
    assert result.is_error
    assert f"- {field}" in text(result)
    assert model.calls == []


async def test_a_risk_out_of_bounds_is_told_to_the_model_once_and_never_to_the_customer(mcp_client: McpClient) -> None:
    wild = {"advice": "Panic!", "block_card": True, "risk": 11}
    result, model = await ask(mcp_client, [wild, ALARMED], LOST)
    assert result.structured_content is not None
    assert result.structured_content["risk"] == 9
    assert "risk" in prompt_of_repair(model)
    result, _ = await ask(mcp_client, [wild, wild], LOST)
    assert result.is_error
    assert "risk" in text(result)


def prompt_of_repair(model: ScriptedModel) -> str:
    said = model.calls[1].messages[-1]
    assert isinstance(said, UserMessage)
    return said.content


def test_the_customer_is_found_before_a_model_is_asked_and_the_program_has_the_last_word() -> None:
    steps = plan_of(BankSupport(CustomersOfFile.read()), given=[SupportRequest])
    assert steps == ["find_customer", "assess", "advise"]


def test_the_methods_of_a_customer_are_no_tools_by_themselves() -> None:
    customer = Customer.model_validate({"id": 1, "name": "Eve", "opening_balance": "1.00"})
    assert [each.name for each in Tool.from_instance(customer)] == ["balance", "recent_transactions", "card_status"]
    assert customer.balance(include_pending=True) == "$1.00"


def test_a_file_of_customers_that_cannot_be_read_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "customers.toml"
    path.write_text('[[customer]]\nid = 1\nname = "Eve"\nopening_balance = "a lot"\n')
    with pytest.raises(ValueError, match="opening_balance") as caught:
        CustomersOfFile.read(path)
    assert f"The customers in {path} need correcting" in str(caught.value)


async def test_the_agent_is_shipped(agent_platform: AgentPlatform) -> None:
    agent, goal = agent_platform.agents.goal("support_customer")
    assert (agent.name, goal.export.name) == ("BankSupport", "support_customer")
    assert goal.export.destructive is True
