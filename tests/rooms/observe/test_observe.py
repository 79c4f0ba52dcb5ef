"""Telling what happens: log lines, personalities, JSON lines."""

import io
import json
import logging
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from goalport.agents.domain import UserInput, WaitFor, achieves_goal, action, agent
from goalport.base import events
from goalport.base.errors import UnknownName
from goalport.base.events import Event
from goalport.base.observe import PERSONALITIES, JsonLinesListener, LogListener, as_json
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import OperationContext
from tests.rooms.toy_domain import Draft, Story

KINDS = {kind.__name__: kind for kind in get_args(Event)}


@agent(description="Writes")
class Writer:
    @action
    async def draft(self, user_input: UserInput, context: OperationContext) -> Draft:
        context.progress("sharpening a pencil")
        return Draft(user_input.content)

    @action
    async def ask(self, draft: Draft) -> WaitFor[bool]:
        return WaitFor.confirmation(True, "Is it good?")

    @achieves_goal(description="g")
    async def finish(self, draft: Draft, good: bool) -> Story:  # noqa: FBT001 - what a person answered
        return Story(draft.text)


async def test_a_run_reads_as_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "goalport.process")
    platform = AgentPlatform([Writer], listeners=[LogListener()])
    process = await platform.run("Writer", UserInput("x"))
    await platform.answer(process.id, response=True)
    await process.wait()
    text = caplog.text
    for words in (
        "Writer begins for anonymous",
        "1/3 Writer.draft",
        "sharpening a pencil",
        "Is it good?",
        "completed:",
    ):
        assert words in text


@pytest.mark.parametrize("name", PERSONALITIES)
def test_every_line_of_a_personality_names_fields_that_its_event_has(name: str) -> None:
    for kind, line in PERSONALITIES[name].items():
        known = {each.name for each in fields(KINDS[kind])}
        assert {field for _, field, _, _ in Formatter().parse(line) if field} <= known


async def test_a_personality_speaks_in_its_own_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "goalport.process")
    await AgentPlatform([Writer], listeners=[LogListener("hitchhiker")]).run("Writer", UserInput("x"))
    assert "Don't panic: Writer" in caplog.text
    assert "sharpening a pencil" in caplog.text
    mine = LogListener({"ProgressUpdated": "psst: {message}"})
    mine.on_event(events.ProgressUpdated("hello"))
    assert "psst: hello" in caplog.text
    with pytest.raises(UnknownName, match="starwars"):
        LogListener("startrek")


async def test_events_are_json_in_the_order_in_which_they_happen(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with JsonLinesListener(file) as listener:
        process = await AgentPlatform([Writer], listeners=[listener]).run("Writer", UserInput("ä"))
    told = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = [each["event"] for each in told]
    assert kinds[0] == "AgentDeployed"
    assert kinds[-1] == "ProcessFinished"
    assert kinds.index("ActionStarted") < kinds.index("ProgressUpdated") < kinds.index("ActionFinished")
    assert {each["process_id"] for each in told[1:]} == {process.id}
    assert all(datetime.fromisoformat(each["at"]).tzinfo for each in told)
    plan = next(each for each in told if each["event"] == "PlanFormulated")
    assert plan["steps"] == ["Writer.draft", "Writer.ask", "Writer.finish"]


def test_a_stream_is_written_to_and_left_open() -> None:
    stream = io.StringIO()
    JsonLinesListener(stream).close()
    JsonLinesListener(stream).on_event(events.GoalAchieved("g", process_id="p"))
    assert json.loads(stream.getvalue()) == {
        **as_json(events.GoalAchieved("g", process_id="p")),
        "at": json.loads(stream.getvalue())["at"],
    }
