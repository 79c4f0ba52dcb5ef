"""Facts checked by several models, through the official client: the models are scripted, the web is a tool."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult

from agents.fact_checker.agent import FactChecker
from agents.fact_checker.facts import Assertions, FactChecks, Finding
from agents.fact_checker.verdicts import consolidated
from goalport import AgentInvocation, AgentPlatform, Budget, ProcessOptions, ToolGroup, UserInput, tool
from goalport.errors import ModelUnavailable
from goalport.models import ModelCall, ModelCard, Models, ModelsSettings
from goalport.runtime import Terminated
from goalport.testing import McpClient, ScriptedModel, calls_tool, plan_of
from tests.providers import Providers

SUN, COWS = "The Sun is a star.", "Cows can fly."
SAID = {"content": "As everybody knows, the Sun is a star and cows can fly."}
ENCYCLOPEDIA = {"url": "https://pedia.example/sun", "title": "The [Sun]"}


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"About {query}: {ENCYCLOPEDIA['url']}"


WEB = ToolGroup.of("web", search)


def says(verdict: str, confidence: float = 0.9, why: str = "So I read.", *links: object) -> dict[str, object]:
    return {"verdict": verdict, "confidence": confidence, "explanation": why, "links": links}


def model(name: str, opinions: Mapping[str, object], *, finds: Sequence[str] = (SUN, COWS)) -> ScriptedModel:
    """A model that finds these assertions in any text, and has an opinion about each; an exception is raised."""

    def reply(call: ModelCall) -> object:
        asked = prompt(call)
        if "Check this assertion" not in asked:
            return {"claims": finds}
        return next(opinion for claim, opinion in opinions.items() if claim in asked)

    return ScriptedModel([reply] * 20, card=ModelCard(name=name, provider="test"))


def both(one: ScriptedModel, other: ScriptedModel) -> Models:
    return Models(ModelsSettings(llms={"best": one.card.name, "cheapest": other.card.name}), models=[one, other])


def prompt(call: ModelCall) -> str:
    return call.messages[-1].content


async def checked(
    mcp_client: McpClient,
    models: object,
    arguments: dict[str, Any] = SAID,
    *,
    checker: FactChecker | None = None,
    groups: Sequence[ToolGroup] = (),
    told: list[str] | None = None,
) -> CallToolResult:
    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if told is not None:
            told.append(message or "")

    name = "check_facts" if "content" in arguments else "check_facts_from_assertions"
    with anyio.fail_after(60):
        async with mcp_client(checker or FactChecker(), models=models, tool_groups=groups) as client:
            result = await client.call_tool(name, arguments, progress_callback=hear)
    assert isinstance(result, CallToolResult)
    return result


def structured(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content


def verdicts(result: CallToolResult) -> list[tuple[str, str]]:
    return [(each["claim"], each["verdict"]) for each in structured(result)["checks"]]


AGREES = {SUN: says("true"), COWS: says("false", 1.0, "They walk.")}


async def test_each_model_with_a_role_checks_each_assertion_and_their_verdicts_become_one(
    mcp_client: McpClient,
) -> None:
    gullible = model("gullible", {SUN: says("true", 0.7), COWS: says("true", 0.8, "A cow once did.")})
    told: list[str] = []
    result = await checked(mcp_client, both(model("strict", AGREES), gullible), told=told)
    assert verdicts(result) == [(SUN, "true"), (COWS, "disputed")]
    sun, cows = structured(result)["checks"]
    assert (sun["confidence"], cows["confidence"]) == (0.8, 0.8)
    assert cows["explanation"] == "gullible says true: A cow once did. strict says false: They walk."
    assert [(each["checker"], each["verdict"]) for each in cows["findings"]] == [
        ("strict", "false"),
        ("gullible", "true"),
    ]
    content = structured(result)["content"]
    assert content.startswith("**1 true, 1 disputed.** Checked by strict and gullible.")
    assert f"2. **Disputed** (80%): {COWS}" in content
    assert any(each.startswith("4/4 ") for each in told)
    assert any(f"gullible: {COWS}" in each for each in told)
    assert result.meta is not None
    assert result.meta["goalport/cost"]["modelCalls"] == 5


async def test_without_roles_one_model_is_asked_twice_at_two_temperatures(mcp_client: McpClient) -> None:
    alone = model("alone", AGREES)
    result = await checked(mcp_client, alone)
    assert structured(result)["checkers"] == ["alone at temperature 0", "alone at temperature 0.7"]
    assert sorted(each.options.temperature or 0 for each in alone.calls[1:]) == [0, 0, 0.7, 0.7]


async def test_a_model_counts_once_whatever_its_roles_and_not_when_it_cannot_be_asked() -> None:
    roles = {"best": "alone", "cheapest": "alone", "away": "openai:gpt-4.1"}
    models = Models(ModelsSettings(llms=roles), models=[model("alone", AGREES)], environment={})
    async with AgentPlatform([FactChecker()], models=models) as platform:
        checks = await AgentInvocation.on(platform).returning(FactChecks).invoke(Assertions(claims=[SUN]))
    assert checks.checkers == ["alone at temperature 0", "alone at temperature 0.7"]


async def test_the_models_may_be_chosen(mcp_client: McpClient) -> None:
    chosen = model("chosen", AGREES)
    models = Models(models=[model("other", {}), chosen])
    result = await checked(mcp_client, models, checker=FactChecker(["chosen"]))
    assert structured(result)["checkers"] == ["chosen"]
    assert len(chosen.calls) == 2


async def test_given_assertions_are_checked_as_they_are_and_each_once(mcp_client: McpClient) -> None:
    alone = model("alone", AGREES)
    given = {"claims": [SUN, COWS, " the sun is  a star. "]}
    result = await checked(mcp_client, alone, given, checker=FactChecker(["alone"]))
    assert verdicts(result) == [(SUN, "true"), (COWS, "false")]
    assert len(alone.calls) == 2


async def test_the_web_is_searched_where_there_is_one_and_its_pages_are_linked(mcp_client: McpClient) -> None:
    found = says("true", 1.0, "The encyclopedia says so.", ENCYCLOPEDIA)
    searching = ScriptedModel([calls_tool("search", query="Sun"), found])
    checker, given = FactChecker(["scripted"]), {"claims": [SUN]}
    result = await checked(mcp_client, searching, given, checker=checker, groups=[WEB])
    assert structured(result)["searched"] is True
    assert structured(result)["checks"][0]["links"] == [ENCYCLOPEDIA]
    assert "- [The \\[Sun\\]](<https://pedia.example/sun>)" in structured(result)["content"]
    assert "Note" not in structured(result)["content"]
    assert [each.name for each in searching.calls[0].tools] == ["search"]


async def test_without_the_web_the_result_says_so_and_has_no_links(mcp_client: McpClient) -> None:
    remembering = model("alone", {SUN: says("true", 1.0, "I remember.", ENCYCLOPEDIA)})
    result = await checked(mcp_client, remembering, {"claims": [SUN]})
    assert structured(result)["searched"] is False
    assert structured(result)["checks"][0]["links"] == []
    assert "could not search the web" in structured(result)["content"]
    assert "Give no links" in prompt(remembering.calls[0])


async def test_a_model_that_fails_is_noted_and_ends_nothing(mcp_client: McpClient) -> None:
    away = ModelUnavailable("It is away.")
    flaky = model("flaky", {SUN: says("true"), COWS: away})
    told: list[str] = []
    result = await checked(mcp_client, both(model("strict", AGREES), flaky), told=told)
    assert verdicts(result) == [(SUN, "true"), (COWS, "false")]
    assert "flaky gave an answer for 1 of 2." in structured(result)["content"]
    assert any("It is away." in each for each in told)


async def test_when_no_model_answers_the_call_fails_and_says_why(mcp_client: McpClient) -> None:
    away = model("alone", {SUN: ModelUnavailable("It is away.")})
    result = await checked(mcp_client, away, {"claims": [SUN]})
    assert result.is_error
    assert "It is away." in str(result.content)


async def test_a_text_without_assertions_costs_one_request_and_says_so(mcp_client: McpClient) -> None:
    silent = model("alone", {}, finds=[])
    result = await checked(mcp_client, silent, {"content": "Hello!"})
    assert structured(result)["checks"] == []
    assert "no factual assertion" in structured(result)["content"]
    assert len(silent.calls) == 1


async def test_an_empty_text_costs_nothing(mcp_client: McpClient) -> None:
    unasked = model("alone", {})
    result = await checked(mcp_client, unasked, {"content": " \n"})
    assert "no factual assertion" in structured(result)["content"]
    assert unasked.calls == []


async def test_no_more_assertions_are_checked_than_the_agent_allows(mcp_client: McpClient) -> None:
    eager = model("alone", AGREES)
    result = await checked(mcp_client, eager, checker=FactChecker(["alone"], most_assertions=1))
    assert verdicts(result) == [(SUN, "true")]
    assert "Give 1 at most" in prompt(eager.calls[0])


@pytest.mark.parametrize("arguments", [SAID, {"claims": [SUN]}])
async def test_without_a_model_the_call_says_what_to_set(mcp_client: McpClient, arguments: dict[str, Any]) -> None:
    models = Models(ModelsSettings(), environment={})
    result = await checked(mcp_client, models, arguments)
    assert result.is_error
    assert "_API_KEY" in str(result.content)


async def test_a_budget_ends_the_checks() -> None:
    dear = model("alone", AGREES)
    async with AgentPlatform([FactChecker()], models=dear) as platform:
        options = ProcessOptions(budget=Budget(cost=0.0015))
        process = await platform.run("FactChecker", UserInput(SAID["content"]), options=options)
    assert isinstance(process.outcome, Terminated)
    assert len(dear.calls) <= 3


def test_the_plan_begins_with_what_is_given() -> None:
    assert plan_of(FactChecker(), given=[UserInput]) == ["find_assertions", "check_facts"]
    assert plan_of(FactChecker(), given=[Assertions]) == ["check_facts"]


def finding(verdict: str, confidence: float) -> Finding:
    return Finding.model_validate({**says(verdict, confidence), "claim": SUN, "checker": "m"})


@pytest.mark.parametrize(
    ("opinions", "verdict", "confidence"),
    [
        ([("true", 1.0), ("true", 0.5)], "true", 0.75),
        ([("true", 0.9), ("false", 0.1)], "true", 0.45),
        ([("false", 0.8), ("true", 0.8)], "disputed", 0.8),
        ([("true", 0.8), ("unverifiable", 0.4)], "true", 0.4),
        ([("true", 0.2), ("unverifiable", 0.9)], "unverifiable", 0.45),
        ([("true", 0.0), ("false", 0.0)], "unverifiable", 0.0),
        ([], "unverifiable", 0.0),
    ],
)
def test_the_side_with_more_confidence_wins_unless_the_other_has_a_quarter_of_it(
    opinions: list[tuple[str, float]], verdict: str, confidence: float
) -> None:
    check = consolidated(SUN, [finding(*each) for each in opinions])
    assert (check.verdict, check.confidence) == (verdict, confidence)
    assert check.explanation


async def test_two_providers_are_asked_over_http(mcp_client: McpClient, aimock: Providers) -> None:
    aimock.answer("Find the distinct factual assertions", content={"claims": [SUN, COWS]})
    aimock.answer({"userMessage": SUN, "model": "gpt-4.1-mini"}, content=says("true"))
    aimock.answer({"userMessage": COWS, "model": "gpt-4.1-mini"}, content=says("false"))
    aimock.answer({"userMessage": SUN, "model": "claude-haiku-4-5"}, content=says("true", 0.7))
    aimock.answer({"userMessage": COWS, "model": "claude-haiku-4-5"}, content=says("true", 0.8))
    roles = {"best": "anthropic:claude-haiku-4-5", "cheapest": "openai:gpt-4.1-mini"}
    models = Models(ModelsSettings(llms=roles), environment=aimock.environment)
    result = await checked(mcp_client, models)
    await models.aclose()
    assert verdicts(result) == [(SUN, "true"), (COWS, "disputed")]
    assert len(aimock.requests()) == 5
