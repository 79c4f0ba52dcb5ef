"""News by star sign through the official client: the model is scripted, the web is a tool of the test."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult

from agents.star_news.agent import COLUMNIST, StarNewsFinder
from agents.star_news.horoscopes import Almanac
from agents.star_news.news import NewsStories, NewsStory, Writeup
from agents.star_news.people import SIGNS, Sign, StarPerson
from goalport import AgentPlatform, ToolGroup, UserInput, tool
from goalport.errors import ToolError
from goalport.events import Event, ModelCalled
from goalport.models import ModelCall, SystemMessage, ToolReply, UserMessage
from goalport.runtime import Stuck
from goalport.testing import McpClient, ScriptedModel, calls_tool, plan_of
from goalport.testing.scripted import Script

LYNDA = StarPerson(name="Lynda", sign="Scorpio")
STORY = NewsStory(url="https://news.example/otters", title="Otters elect a mayor", summary="She juggles.")
STORIES = NewsStories(items=[STORY])
WRITEUP = Writeup(content="Dear Lynda, [otters](https://news.example/otters)!")
SAID = {"content": "Lynda is a Scorpio, find news for her"}


@tool
def search(query: str) -> str:
    """Search the web."""
    if "broken" in query:
        raise ToolError("The search engine is away.")
    return f"1. {STORY.title} ({STORY.url})"


WEB = ToolGroup.of("web", search)


class Oracle:
    async def daily(self, sign: Sign, /) -> str:
        return f"A fine day for a {sign}."


def finder() -> StarNewsFinder:
    return StarNewsFinder(Oracle(), story_count=3)


def declines(missing: str) -> dict[str, object]:
    return {"result": None, "failure": missing}


def found(person: object) -> dict[str, object]:
    return {"result": person, "failure": None}


async def call(
    mcp_client: McpClient,
    replies: Sequence[Script],
    arguments: dict[str, Any],
    *,
    tool_name: str = "find_star_news",
    groups: Sequence[ToolGroup] = (WEB,),
) -> tuple[CallToolResult, ScriptedModel]:
    model = ScriptedModel(list(replies))
    with anyio.fail_after(60):
        async with mcp_client(finder(), models=model, tool_groups=groups) as client:
            result = await client.call_tool(tool_name, arguments)
    assert isinstance(result, CallToolResult)
    return result, model


def prompt(asked: ModelCall) -> str:
    return next(each.content for each in asked.messages if isinstance(each, UserMessage))


def text(result: CallToolResult) -> str:
    return "".join(getattr(each, "text", "") for each in result.content)


async def test_a_sentence_becomes_a_write_up_with_links(mcp_client: McpClient) -> None:
    replies = [found(LYNDA), calls_tool("search", query="surprising elections"), STORIES, WRITEUP]
    result, model = await call(mcp_client, replies, SAID)
    assert not result.is_error, result
    assert result.structured_content == {"content": WRITEUP.content}
    assert text(result) == WRITEUP.content
    assert model.unused == 0
    assert result.meta is not None
    cost = result.meta["goalport/cost"]
    assert cost == {"usd": pytest.approx(0.004), "inputTokens": 400, "outputTokens": 40, "modelCalls": 4}
    assert result.meta["goalport/actions"] == 4


async def test_each_prompt_holds_what_the_steps_before_have_found(mcp_client: McpClient) -> None:
    _, model = await call(mcp_client, [found(LYNDA), calls_tool("search", query="luck"), STORIES, WRITEUP], SAID)
    person, news, searched, writeup = model.calls
    assert SAID["content"] in prompt(person)
    for words in ("Lynda", "sign Scorpio", "A fine day for a Scorpio.", "find 3 relevant news stories"):
        assert words in prompt(news)
    assert isinstance(searched.messages[-1], ToolReply)
    assert STORY.url in searched.messages[-1].content
    assert f"- [{STORY.title}]({STORY.url}): {STORY.summary}" in prompt(writeup)
    assert "A fine day for a Scorpio." in prompt(writeup)


async def test_only_the_search_for_news_is_offered_the_web(mcp_client: McpClient) -> None:
    _, model = await call(mcp_client, [found(LYNDA), STORIES, WRITEUP], SAID)
    assert [[each.name for each in asked.tools] for asked in model.calls] == [[], ["search"], []]


async def test_the_columnist_is_creative_and_nobody_else_is(mcp_client: McpClient) -> None:
    _, model = await call(mcp_client, [found(LYNDA), STORIES, WRITEUP], SAID)
    assert [asked.options.temperature for asked in model.calls] == [None, None, 0.9]
    introduced = [COLUMNIST.contribution() in _system(asked) for asked in model.calls]
    assert introduced == [False, False, True]


def _system(asked: ModelCall) -> str:
    return "\n".join(each.content for each in asked.messages if isinstance(each, SystemMessage))


async def test_who_gives_the_person_saves_a_request_of_the_model(mcp_client: McpClient) -> None:
    given = {"name": "Lynda", "sign": "scorpio"}
    result, model = await call(mcp_client, [STORIES, WRITEUP], given, tool_name="find_star_news_from_star_person")
    assert not result.is_error, result
    assert "Lynda is an astrology believer with the sign Scorpio." in prompt(model.calls[0])


async def test_a_sentence_that_tells_no_sign_is_an_error_that_says_what_was_not_done(mcp_client: McpClient) -> None:
    result, model = await call(mcp_client, [declines("the star sign")], {"content": "News for Lynda, please"})
    assert result.is_error
    assert "StarNewsFinder.extract_star_person" in text(result)
    assert "other input" in text(result)
    assert len(model.calls) == 1


@pytest.mark.parametrize("sign", ["Ophiuchus", "", "the Dragon"])
async def test_a_sign_that_is_none_is_refused_with_those_that_there_are(mcp_client: McpClient, sign: str) -> None:
    given = {"name": "Lynda", "sign": sign}
    result, model = await call(mcp_client, [], given, tool_name="find_star_news_from_star_person")
    assert result.is_error
    assert "- sign: should be" in text(result)
    assert all(each in text(result) for each in SIGNS)
    assert model.calls == []


async def test_a_model_that_makes_a_sign_up_is_told_the_signs_and_may_correct_itself(mcp_client: McpClient) -> None:
    wrong = found({"name": "Lynda", "sign": "Ophiuchus"})
    result, model = await call(mcp_client, [wrong, found(LYNDA), STORIES, WRITEUP], SAID)
    assert not result.is_error, result
    told = model.calls[1].messages[-1]
    assert isinstance(told, UserMessage)
    assert "Scorpio" in told.content


async def test_a_story_whose_address_is_a_script_is_not_passed_on(mcp_client: McpClient) -> None:
    bad = {"items": [{"url": "javascript:alert(1)", "title": "Click", "summary": "me"}]}
    result, _ = await call(mcp_client, [found(LYNDA), bad, bad], SAID)
    assert result.is_error
    assert "items" in text(result)


async def test_a_search_that_fails_is_told_to_the_model_and_ends_nothing(mcp_client: McpClient) -> None:
    none = NewsStories(items=[])
    result, model = await call(mcp_client, [found(LYNDA), calls_tool("search", query="broken"), none, WRITEUP], SAID)
    assert not result.is_error, result
    assert "The search engine is away." in str(model.calls[2].messages[-1])
    assert "None was found today" in prompt(model.calls[3])


async def test_without_the_web_no_model_is_asked_and_the_reason_says_what_to_configure(mcp_client: McpClient) -> None:
    result, model = await call(mcp_client, [], SAID, groups=[])
    assert result.is_error
    assert "it needs the tool group web, but there is none: put such a ToolGroup into tools/" in text(result)
    assert "Tell whoever runs it" in text(result)
    assert model.calls == []


async def test_the_group_may_be_there_for_other_roles_and_the_web_is_still_missing() -> None:
    platform = AgentPlatform([finder()], models=ScriptedModel([]), tool_groups=[ToolGroup.of("maths", search)])
    process = await platform.run("StarNewsFinder", LYNDA)
    assert isinstance(process.outcome, Stuck)
    assert "web" in process.outcome.reason


def test_the_plan_begins_with_what_is_not_known_yet() -> None:
    rest = ["retrieve_horoscope", "find_news", "write_up"]
    assert plan_of(finder(), given=[UserInput], tool_groups=[WEB]) == ["extract_star_person", *rest]
    assert plan_of(finder(), given=[StarPerson], tool_groups=[WEB]) == rest
    with pytest.raises(AssertionError, match="there is none: put such a ToolGroup into tools/"):
        plan_of(finder(), given=[StarPerson])


async def test_prompts_are_told_under_the_names_of_their_actions() -> None:
    heard: list[str] = []

    class Ears:
        def on_event(self, event: Event, /) -> None:
            if isinstance(event, ModelCalled):
                heard.append(event.action)

    model = ScriptedModel([STORIES, WRITEUP])
    await AgentPlatform([finder()], models=model, tool_groups=[WEB], listeners=[Ears()]).run("StarNewsFinder", LYNDA)
    assert heard == ["StarNewsFinder.find_news", "StarNewsFinder.write_up"]


async def test_the_almanac_says_the_same_all_day_and_something_else_to_others_and_tomorrow() -> None:
    today, tomorrow = (Almanac(lambda day=day: date(2026, 11, day)) for day in (21, 22))
    first = {sign: await today.daily(_sign(sign)) for sign in SIGNS}
    assert first == {sign: await today.daily(_sign(sign)) for sign in SIGNS}
    assert len(set(first.values())) == len(SIGNS)
    later = {sign: await tomorrow.daily(_sign(sign)) for sign in SIGNS}
    assert all(first[sign] != later[sign] for sign in SIGNS)


def _sign(name: str) -> Sign:
    return StarPerson.model_validate({"name": "Somebody", "sign": name}).sign


@pytest.mark.parametrize(("written", "sign"), [(" LEO ", "Leo"), ("Scorpius", "Scorpio"), ("capricornus", "Capricorn")])
def test_a_sign_may_be_spelled_as_people_spell_it(written: str, sign: str) -> None:
    assert _sign(written) == sign


async def test_the_shipped_agent_needs_no_network_for_its_horoscopes(agent_platform: AgentPlatform) -> None:
    assert agent_platform.problems == ()
    agent, goal = agent_platform.agents.goal("find_star_news")
    assert (agent.name, goal.export.name) == ("StarNewsFinder", "find_star_news")
    (owner,) = {each.owner for each in agent.actions}
    assert await owner.horoscopes.daily("Leo")  # type: ignore[union-attr]
