"""The shipped adventure, played to each of its ends by the official client."""

from typing import Any

import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult, TextContent

from agents.adventure.agent import NightAtTheMuseum
from agents.adventure.endings import ENDINGS
from goalport import AgentPlatform
from goalport.testing import McpClient, client_of
from tests.agents.adventure.nights import (
    BACK,
    COATS,
    DOOR,
    DOWN,
    EGYPT,
    GAMES,
    GUARD,
    JUMP,
    LEAVE_TEA,
    LID,
    PRINT,
    TEA,
    TO_TEA,
    UP,
    VIEW,
    Night,
)


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("ending", GAMES)
async def test_the_night_ends_in_one_of_five_ways(ending: str, era: str) -> None:
    assert GAMES.keys() == ENDINGS.keys()
    async with client_of(AgentPlatform([NightAtTheMuseum()]), options={"mode": era}) as client:
        night = Night(client)
        tale = await night.play(GAMES[ending])
    assert tale["ending"] == ending
    number = list(ENDINGS).index(tale["ending"]) + 1
    assert tale["content"].endswith(f"Ending {number} of 5, after {tale['choices']} choices.")
    assert night.messages[0].startswith("You wake up on a bench, Ada.")


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_that_shows_forms_gets_the_choices_as_an_enumeration(era: str) -> None:
    shown: list[dict[str, Any]] = []
    answers = iter([*GAMES["flight"]])

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert params.mode == "form"
        shown.append(params.requested_schema)
        return ElicitResult(action="accept", content={"choice": str(next(answers))})

    platform = AgentPlatform([NightAtTheMuseum()])
    async with client_of(platform, options={"mode": era, "elicitation_callback": person}) as client:
        tale = await client.call_tool("play_adventure", {"name": "Ada"})
    assert tale.structured_content is not None
    assert tale.structured_content["ending"] == "flight"
    assert shown[0]["properties"]["choice"]["enum"] == [DOOR, EGYPT, TO_TEA, UP]
    assert shown[0]["required"] == ["choice"]
    assert [each["properties"]["choice"]["enum"][-1] for each in shown] == [UP, LEAVE_TEA, LEAVE_TEA, UP, DOWN]


async def test_the_visitor_is_told_where_they_are_what_they_have_and_what_happened(mcp_client: McpClient) -> None:
    async with mcp_client(NightAtTheMuseum()) as client:
        night = Night(client)
        handle = await night.play([DOOR, UP, JUMP, VIEW, DOWN, TO_TEA, COATS, COATS, TEA, GUARD])
    assert "Locked. The walrus could have told you" in night.messages[1]
    assert "on reflection, you do not" in night.messages[3]
    assert "You can see your house from here" in night.messages[4]
    assert "Your bag is empty." in night.messages[6]
    assert "You find a large umbrella." in night.messages[7]
    assert "Only odd gloves are left." in night.messages[8]
    last = handle["questions"][0]["message"]
    assert "It is 04:30. Your bag holds an umbrella, a pot of tea and a key." in last


async def test_a_no_at_the_sarcophagus_stands_and_the_night_goes_on(mcp_client: McpClient) -> None:
    async with mcp_client(NightAtTheMuseum()) as client:
        night = Night(client)
        handle = await night.play([EGYPT, LID, False, LID, BACK, TO_TEA])
    assert "disappointed" in night.messages[3]
    assert "does not ask twice" in night.messages[4]
    assert handle["status"] == "waiting"


@pytest.mark.parametrize(
    "answers",
    [
        [DOOR] * 12,
        [UP] + [VIEW] * 11,
        [UP] + [JUMP] * 11,
        [TO_TEA] + [TEA, GUARD, COATS] + [TEA] * 8,
        [EGYPT] + [PRINT] * 11,
        [EGYPT, BACK] * 6,
        [UP, DOWN] * 6,
        [TO_TEA, LEAVE_TEA] * 6,
    ],
)
async def test_morning_comes_wherever_one_is(mcp_client: McpClient, answers: list[str]) -> None:
    async with mcp_client(NightAtTheMuseum()) as client:
        tale = await Night(client).play(answers)
    assert (tale["ending"], tale["choices"]) == ("exhibit", 12)


async def test_the_same_answers_lead_to_the_same_night(mcp_client: McpClient) -> None:
    async with mcp_client(NightAtTheMuseum()) as client:
        nights = [Night(client), Night(client)]
        assert await nights[0].play(GAMES["tea"]) == await nights[1].play(GAMES["tea"])
        assert nights[0].messages == nights[1].messages


async def test_a_name_that_is_none_and_a_choice_that_is_none_are_refused(mcp_client: McpClient) -> None:
    async with mcp_client(NightAtTheMuseum()) as client:
        assert (await client.call_tool("play_adventure", {"name": ""})).is_error
        handle = await Night(client).play([])
        answer = {"processId": handle["processId"], "answer": {"choice": "wake the walrus"}}
        refused = await client.call_tool("process_answer", answer)
        assert refused.is_error
        assert isinstance(refused.content[0], TextContent)
        assert "try the front door" in refused.content[0].text
