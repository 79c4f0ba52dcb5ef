"""A process that was recorded runs again in a test, without models, servers and people."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from goalport import ActionContext, AgentPlatform, Ai, UserInput, achieves_goal, action, agent
from goalport.base.errors import BadInput
from goalport.runtime.process import Completed
from goalport.store import exported
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import Recording, ScriptedModel, calls_tool
from goalport.tools import Tool, ToolGroup, ToolResult


@dataclass(frozen=True)
class Place:
    city: str


@dataclass(frozen=True)
class Weather:
    text: str


@dataclass(frozen=True)
class Trip:
    text: str


@agent(description="Knows the weather")
class Forecaster:
    @achieves_goal(description="The weather")
    @action
    async def look(self, place: Place, ai: Ai) -> Weather:
        return Weather(await ai.generate_text(f"The weather in {place.city}?"))


@agent(description="Plans trips")
class Planner:
    wording = "Which city is meant?"

    @action(tool_groups=["maps"])
    async def find(self, user_input: UserInput, ai: Ai, context: ActionContext) -> Place:
        city = await ai.generate_text(f"{self.wording} {user_input.content}")
        return Place(f"{city} {await context.ask('How many days?', int)}")

    @action
    async def forecast(self, place: Place, context: ActionContext) -> Weather:
        return await context.as_sub_process(Weather, Forecaster(), place)

    @achieves_goal(description="A trip")
    @action
    async def plan(self, place: Place, weather: Weather, ai: Ai) -> Trip:
        return Trip(await ai.generate_text(f"A trip to {place.city}, {weather.text}"))


class Reworded(Planner):
    wording = "What city is it?"


def maps() -> ToolGroup:
    async def locate(arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult.of("41.9, 12.5")

    schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
    return ToolGroup("maps", (Tool("locate", "Finds places", schema, locate),))


def models() -> ScriptedModel:
    return ScriptedModel([calls_tool("locate", name="Rome"), "Rome", "Sunny", "Walk"])


async def recorded(folder: Path, *, keep_journals: bool = True) -> dict[str, Any]:
    store = SqliteProcessStore(folder / "processes.db")
    agents = [Planner(), Forecaster()]
    given: dict[str, Any] = {"models": models(), "tool_groups": [maps()], "keep_journals": keep_journals}
    async with store, AgentPlatform(agents, store=store, **given) as platform:
        process = await platform.run("Planner", UserInput("The eternal one"))
        await platform.answer(process.id, response=3)
        assert await process.wait() == Completed(Trip("Walk"))
        await process.rest()
        family, _ = await store.family(process.id)
    return json.loads(json.dumps(exported(family, version="test")))


async def test_a_recorded_process_goes_the_same_way_again(tmp_path: Path) -> None:
    recording = Recording(await recorded(tmp_path))
    (given,) = recording.inputs
    assert isinstance(given, UserInput)
    assert given.content == "The eternal one"
    assert recording.result == Trip("Walk")
    replay = await recording.replay(Planner(), Forecaster(), tool_groups=[maps()], exact=True)
    assert replay.process.outcome == Completed(Trip("Walk"))
    assert replay.changes == ()
    assert [each.action for each in replay.process.history] == ["Planner.find", "Planner.forecast", "Planner.plan"]


async def test_servers_are_not_needed_and_other_requests_are_told(tmp_path: Path) -> None:
    data = await recorded(tmp_path)
    data = json.loads(json.dumps(data).replace("Planner", "Reworded"))
    replay = await Recording(data).replay(Reworded(), Forecaster())
    assert replay.process.outcome == Completed(Trip("Walk"))
    assert "Reworded.find asked a model for something else: 'What city is it? The eternal one'" in replay.changes[0]
    with pytest.raises(AssertionError, match="go the recorded way"):
        await Recording(data).replay(Reworded(), Forecaster(), exact=True)


async def test_a_process_that_was_not_recorded_cannot_be_replayed(tmp_path: Path) -> None:
    data = await recorded(tmp_path, keep_journals=False)
    with pytest.raises(BadInput, match="keep_journals = true"):
        Recording(data)
    with pytest.raises(BadInput, match="its format is None"):
        Recording({})
