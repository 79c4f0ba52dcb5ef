"""A report that is written until a critic accepts it, through the official client: the models are scripted."""

from collections.abc import Sequence
from typing import Any

import anyio
from mcp_types import CallToolResult

from agents.researcher.agent import Researcher
from agents.researcher.report import Draft, ResearchPlan, Source, Standard
from goalport import AgentPlatform, Budget, LlmOptions, ProcessOptions, ToolGroup, UserInput, tool
from goalport.errors import ModelRefused, ModelUnavailable
from goalport.models import ModelCall, ModelCard, Models, ModelsSettings, UserMessage
from goalport.runtime import Terminated
from goalport.testing import McpClient, ScriptedModel, calls_tool, plan_of
from goalport.testing.scripted import Script
from goalport.workflow import Feedback
from tests.providers import Providers

SAID = {"content": "Why do cats purr?"}
PLAN = ResearchPlan(question="Why do cats purr?", points=["How they do it", "What for"])
PLANNED = {"result": PLAN, "failure": None}
PAGE = Source(url="https://cats.example/purr", title="On [purring]")
FIRST, SECOND, THIRD = (Draft(title=f"Purring {each}", text=f"They like it {each} times.") for each in (1, 2, 3))
SOURCED = FIRST.model_copy(update={"sources": [PAGE]})


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"About {query}: {PAGE.url}"


WEB = ToolGroup.of("web", search)


async def researched(
    mcp_client: McpClient,
    models: object,
    *,
    researcher: Researcher | None = None,
    groups: Sequence[ToolGroup] = (),
    told: list[str] | None = None,
) -> CallToolResult:
    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if told is not None:
            told.append(message or "")

    with anyio.fail_after(60):
        async with mcp_client(researcher or Researcher(), models=models, tool_groups=groups) as client:
            result = await client.call_tool("research", SAID, progress_callback=hear)
    assert isinstance(result, CallToolResult)
    return result


async def scripted(
    mcp_client: McpClient, *replies: Script, standard: Standard | None = None, told: list[str] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """What is the result, and the prompts that led to it."""
    model = ScriptedModel([PLANNED, *replies])
    result = await researched(mcp_client, model, researcher=Researcher(standard), told=told)
    assert model.unused == 0
    return structured(result), [prompt(each) for each in model.calls]


def structured(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content


def prompt(call: ModelCall) -> str:
    return next(each.content for each in call.messages if isinstance(each, UserMessage))


async def test_a_report_is_revised_as_the_critic_asks_until_it_is_accepted(mcp_client: McpClient) -> None:
    told: list[str] = []
    script = [FIRST, Feedback(0.4, "Say how."), SECOND, Feedback(0.9, "Good.")]
    report, prompts = await scripted(mcp_client, *script, told=told)
    assert (report["accepted"], report["score"], report["rounds"]) == (True, 0.9, 2)
    assert report["content"].startswith("# Purring 2\n\nThey like it 2 times.")
    assert "did not accept" not in report["content"]
    _, write, judge, revise, judge_again = prompts
    for asked, words in (
        (write, [PLAN.question, "How they do it", "600 words"]),
        (judge, [FIRST.text, "What for", "From 0.8"]),
        (revise, ["Revise a draft", FIRST.text, "Say how."]),
        (judge_again, [SECOND.text, "earlier draft with a score of 0.4", "Say how."]),
    ):
        assert [each for each in words if each not in asked] == []
    assert any("round 1 of 3, score 0.4" in each for each in told)
    assert any("round 2 of 3, score 0.9" in each for each in told)


async def test_a_critic_who_is_never_content_ends_with_the_best_draft_and_that_is_said(mcp_client: McpClient) -> None:
    bad = [FIRST, Feedback(0.5, "Dull."), SECOND, Feedback(0.6, "Still dull."), THIRD, Feedback(0.2, "Worse.")]
    report, prompts = await scripted(mcp_client, *bad)
    assert (report["accepted"], report["score"], report["rounds"]) == (False, 0.6, 3)
    assert report["critique"] == "Still dull."
    assert report["content"].startswith("# Purring 2")
    assert "did not accept any of 3 drafts. This is the best, with a score of 0.6. Still dull." in report["content"]
    assert SECOND.text in prompts[5]


async def test_the_best_draft_is_revised_and_not_the_newest(mcp_client: McpClient) -> None:
    script = [FIRST, Feedback(0.5, "Dull."), SECOND, Feedback(0.1, "Worse."), THIRD, Feedback(0.8)]
    report, prompts = await scripted(mcp_client, *script)
    assert report["accepted"] is True
    assert FIRST.text in prompts[5]
    assert SECOND.text not in prompts[5]


async def test_the_standard_says_how_good_how_often_and_how_long(mcp_client: McpClient) -> None:
    standard = Standard(score=0.3, rounds=1, words=50)
    report, prompts = await scripted(mcp_client, FIRST, Feedback(0.2, "Thin."), standard=standard)
    assert "did not accept the only draft" in report["content"]
    assert "50 words" in prompts[1]


async def test_a_critic_who_cannot_score_has_not_accepted_and_loses_no_draft(mcp_client: McpClient) -> None:
    seven = {"score": 7, "text": "Out of ten."}
    report, _ = await scripted(mcp_client, FIRST, seven, seven, SECOND, Feedback(0.9, "Good."))
    assert (report["accepted"], report["rounds"]) == (True, 2)


async def test_a_model_that_fails_later_loses_no_draft(mcp_client: McpClient) -> None:
    report, _ = await scripted(mcp_client, FIRST, Feedback(0.4, "Say how."), ModelUnavailable("It is away."))
    assert (report["accepted"], report["rounds"], report["critique"]) == (False, 1, "Say how.")
    assert report["content"].startswith("# Purring 1")
    assert "because a model failed: It is away." in report["content"]


async def test_a_model_that_fails_before_a_draft_is_judged_is_an_error_that_says_why(mcp_client: McpClient) -> None:
    result = await researched(mcp_client, ScriptedModel([PLANNED, FIRST, ModelRefused("I will not judge.")]))
    assert result.is_error
    assert "I will not judge." in str(result.content)


async def test_the_web_is_searched_where_there_is_one_and_its_pages_are_sources(mcp_client: McpClient) -> None:
    model = ScriptedModel([PLANNED, calls_tool("search", query="purr"), SOURCED, Feedback(1, "Good.")])
    report = structured(await researched(mcp_client, model, groups=[WEB]))
    assert report["searched"] is True
    assert report["sources"] == [PAGE.model_dump()]
    assert "- [On \\[purring\\]](<https://cats.example/purr>)" in report["content"]
    assert "Note" not in report["content"]
    assert [[each.name for each in call.tools] for call in model.calls[:2]] == [[], ["search"]]


async def test_without_the_web_the_report_says_so_and_has_no_sources(mcp_client: McpClient) -> None:
    report, prompts = await scripted(mcp_client, SOURCED, Feedback(1, "Good."))
    assert (report["searched"], report["sources"]) == (False, [])
    assert "could not search the web" in report["content"]
    assert "give no sources" in prompts[1]


async def test_writer_and_critic_may_be_models_of_their_own(mcp_client: McpClient) -> None:
    planner, writer, critic = (
        ScriptedModel([reply], card=ModelCard(name=name, provider="test"))
        for name, reply in (("planner", PLANNED), ("writer", FIRST), ("critic", Feedback(1, "Good.")))
    )
    team = Researcher(writer=LlmOptions(model="writer"), critic=LlmOptions(model="critic"))
    result = await researched(mcp_client, Models(models=[planner, writer, critic]), researcher=team)
    assert structured(result)["accepted"] is True
    assert result.meta is not None
    assert result.meta["goalport/cost"]["modelCalls"] == 3


async def test_a_text_without_a_question_is_an_error_that_says_so(mcp_client: McpClient) -> None:
    model = ScriptedModel([{"result": None, "failure": "It asks nothing."}])
    result = await researched(mcp_client, model)
    assert result.is_error
    assert "plan_report gave nothing (It asks nothing)" in str(result.content)


async def test_without_a_model_the_call_says_what_to_set(mcp_client: McpClient) -> None:
    result = await researched(mcp_client, Models(ModelsSettings(), environment={}))
    assert result.is_error
    assert "_API_KEY" in str(result.content)


async def test_a_budget_ends_the_rounds() -> None:
    model = ScriptedModel([PLANNED, FIRST, Feedback(0.1, "Bad.")] + [SECOND, Feedback(0.1, "Bad.")] * 20)
    async with AgentPlatform([Researcher(Standard(rounds=20))], models=model) as platform:
        options = ProcessOptions(budget=Budget(cost=0.0045))
        process = await platform.run("Researcher", UserInput(SAID["content"]), options=options)
    assert isinstance(process.outcome, Terminated)
    assert len(model.calls) == 5


def test_the_plan_has_two_steps() -> None:
    assert plan_of(Researcher(), given=[UserInput]) == ["plan_report", "research"]


async def test_a_provider_is_asked_over_http(mcp_client: McpClient, aimock: Providers) -> None:
    aimock.answer("Somebody wants a report", content={"result": PLAN.model_dump(), "failure": None})
    aimock.answer("Write a report", content=FIRST.model_dump())
    aimock.answer("Revise a draft", content=SECOND.model_dump())
    aimock.answer("You have judged an earlier draft", content={"score": 0.9, "text": "Good."})
    aimock.answer("Judge a draft", content={"score": 0.4, "text": "Say how."})
    models = Models(ModelsSettings(default_llm="openai:gpt-4.1-mini"), environment=aimock.environment)
    result = await researched(mcp_client, models)
    await models.aclose()
    report = structured(result)
    assert (report["accepted"], report["rounds"], report["score"]) == (True, 2, 0.9)
    assert report["content"].startswith("# Purring 2")
    assert len(aimock.requests()) == 5
