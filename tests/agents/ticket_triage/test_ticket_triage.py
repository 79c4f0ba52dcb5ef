"""Tickets as a support team would give them to `triage_ticket`, through the official client."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, TextContent

from agents.ticket_triage.agent import TicketTriage
from agents.ticket_triage.rules import RULES, Rules
from goalport import AgentPlatform
from goalport.events import ActionFinished, Event
from goalport.testing import McpClient, client_of

TICKETS: dict[str, tuple[dict[str, str], str, str]] = {
    "outage": ({"subject": "Your site is down", "body": "We get 502 since this morning."}, "on-call", "urgent"),
    "security": ({"subject": "Was I hacked?", "body": "Somebody else sees my data."}, "security-response", "urgent"),
    "billing": ({"subject": "Refund", "body": "I was charged twice, invoice #INV-2041."}, "billing", "normal"),
    "access": ({"subject": "Locked out", "body": "I cannot log in since I have a new phone."}, "accounts", "normal"),
    "bug": ({"subject": "Crashes", "body": "It crashes when I open a file."}, "engineering-triage", "normal"),
    "question": ({"subject": "How do I export my data?", "body": "As CSV, please."}, "support", "low"),
}


async def triage(mcp_client: McpClient, agent: object = None, **ticket: str) -> dict[str, Any]:
    with anyio.fail_after(60):
        async with mcp_client(agent or TicketTriage()) as client:
            result = await client.call_tool("triage_ticket", ticket)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    assert result.structured_content is not None
    assert isinstance(result.content[0], TextContent)
    assert result.content[0].text == result.structured_content["content"]
    return result.structured_content


@pytest.mark.parametrize("route", TICKETS)
async def test_a_ticket_goes_where_its_words_say(mcp_client: McpClient, route: str) -> None:
    ticket, queue, priority = TICKETS[route]
    found = await triage(mcp_client, **ticket)
    assert (found["route"], found["queue"], found["priority"]) == (route, queue, priority)
    assert found["reason"].startswith(f"{route} has the highest score")
    assert found["next_steps"]
    assert found["reply"].startswith("Hello,")


async def test_the_reason_names_the_phrases_their_weights_and_the_routes_that_lost(mcp_client: McpClient) -> None:
    ticket = {"subject": "Invoice is wrong", "body": "The invoice is from production. Is it possible to pay later?"}
    found = await triage(mcp_client, **ticket, tier="premium")
    assert found["reason"] == (
        "billing has the highest score, 6: «invoice*» in the subject (6). Others: bug 2, question 3."
        " Priority urgent: normal for the route, one step up for «production»; +1 for the tier premium."
    )


@pytest.mark.parametrize(("tier", "hours"), [("free", 48), ("standard", 24), ("premium", 2)])
async def test_the_tier_decides_how_soon_somebody_answers(mcp_client: McpClient, tier: str, hours: float) -> None:
    found = await triage(mcp_client, subject="Refund", tier=tier)
    assert found["reply_within_hours"] == hours


async def test_what_no_rule_speaks_for_is_a_question_that_a_person_answers(mcp_client: McpClient) -> None:
    found = await triage(mcp_client, subject="Greetings", body="From the seaside.", customer="Ada")
    assert found["route"] == "question"
    assert found["reason"].startswith("No rule speaks for another route")
    assert found["reply"].startswith("Hello Ada,")
    assert "in person" in found["reply"]


async def test_a_question_is_answered_with_the_articles_that_fit(mcp_client: McpClient) -> None:
    found = await triage(mcp_client, subject="How can I use the API to export?", body="With a token and webhooks.")
    api, export = found["reply"].index("Using the API"), found["reply"].index("Exporting your data")
    assert api < export


async def test_a_bug_report_is_asked_for_what_it_leaves_out(mcp_client: McpClient) -> None:
    bare = await triage(mcp_client, subject="It crashes")
    assert "the version that is used, the steps that lead to it and the exact error message" in bare["reply"]
    full = await triage(
        mcp_client, subject="Crash", body="Version 2.14.1 says ValueError when I save. See https://example.com/log."
    )
    assert "It would help us" not in full["reply"]
    assert full["references"] == ["version 2.14.1", "error ValueError", "address https://example.com/log"]
    assert full["next_steps"][0] == "Search the known bugs for version 2.14.1, error ValueError."


async def test_an_account_is_not_touched_before_it_is_clear_who_asks(mcp_client: McpClient) -> None:
    found = await triage(mcp_client, subject="Refund for order A-77120", body="Invoice #2041 too")
    assert "owns the account" in found["next_steps"][0]
    assert found["next_steps"][1] == "Look up number A-77120 and number 2041."
    assert "please tell us its number" in (await triage(mcp_client, subject="Refund"))["reply"]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_one_tool_stands_for_all_ways_of_handling(era: str) -> None:
    async with client_of(AgentPlatform([TicketTriage()]), options={"mode": era}) as client:
        tools = (await client.list_tools()).tools
        assert [each.name for each in tools if "ticket" in each.name] == ["triage_ticket"]
        for ticket, _, _ in TICKETS.values():
            assert not (await client.call_tool("triage_ticket", ticket)).is_error


async def test_clues_are_sought_before_the_route_because_they_are_worth_more(mcp_client: McpClient) -> None:
    steps: list[str] = []

    class Steps:
        def on_event(self, event: Event) -> None:
            if isinstance(event, ActionFinished):
                steps.append(event.action)

    async with mcp_client(TicketTriage(), listeners=[Steps()]) as client:
        await client.call_tool("triage_ticket", {"subject": "Refund"})
    assert steps == [
        "TicketTriage.find_clues",
        "TicketTriage.gauge",
        "TicketTriage.route",
        "AccountMatter.look_up",
    ]


@pytest.mark.parametrize(
    ("ticket", "words"),
    [
        ({}, "subject: required, but missing"),
        ({"subject": ""}, "subject"),
        ({"subject": "x", "tier": "gold"}, "tier: should be 'free', 'standard' or 'premium'; came 'gold'"),
        ({"subject": "x", "text": "y"}, "text: unknown"),
    ],
)
async def test_what_is_no_ticket_is_refused_in_words(mcp_client: McpClient, ticket: dict[str, str], words: str) -> None:
    async with mcp_client(TicketTriage()) as client:
        result = await client.call_tool("triage_ticket", ticket)
    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    assert words in result.content[0].text


def rules(tmp_path: Path, old: str, new: str) -> Path:
    text = RULES.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "rules.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


async def test_a_team_adds_a_route_in_the_file_alone(mcp_client: McpClient, tmp_path: Path) -> None:
    route = """
[[route]]
name = "press"
handling = "answer"
queue = "communications"
priority = "high"
reply = "Thank you for your interest."
phrases = { "journalist" = 9 }
"""
    added = Rules.read(rules(tmp_path, "# What may answer", f"{route}\n# What may answer"))
    found = await triage(mcp_client, TicketTriage(added), subject="A journalist asks")
    assert (found["queue"], found["priority"]) == ("communications", "high")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('otherwise = "question"', 'otherwise = "anything"', "otherwise = 'anything' names no route"),
        ('name = "outage"', 'name = "security"', "a name of its own"),
        ("low = 72", "", "hours says nothing of low"),
        ('handling = "escalate"', 'handling = "ignore"', "handling"),
        ("least_score = 2", "least_scores = 2", "least_scores"),
        ("least_score = 2", "least_score =", "rules.toml need correcting: Invalid value"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Rules.read(rules(tmp_path, old, new))
