"""What every client hears from the small workspace, whoever wrote the client. No test is in here.

Each client has the same conversation and reports it as one JSON object; `check` says what must be in it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

Report = Mapping[str, Any]
INVALID_PARAMS = -32602
REVISIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


def check(report: Report, era: str) -> None:
    assert report.get("revision") in {REVISIONS[era], None}
    _check_lists(report)
    _check_results(report)
    _check_progress(report["progress"])
    _check_mistakes(report)


def _check_lists(report: Report) -> None:
    assert report["server"] == "goalport"
    assert {"shout", "count_letters", "helloBanner"} <= set(report["tools"])
    shout = report["tools"]["shout"]
    assert shout["inputSchema"]["required"] == ["text"]
    assert shout["inputSchema"]["properties"]["mood"]["enum"] == ["glad", "angry"]
    assert shout["outputSchema"]["type"] == "object"
    assert "shout" in report["prompts"]
    assert "good morning" in report["prompt"]
    assert "goalport://goals" in report["resources"]
    assert "shout" in report["resource"]


def text_of(result: Report) -> str:
    return "".join(block["text"] for block in result["content"])


def _check_results(report: Report) -> None:
    assert json.loads(text_of(report["banner"]))["type"] == "banner"
    check_goal(report["goal"])


def check_goal(result: Report) -> None:
    assert not result.get("isError")
    assert text_of(result) == "GOOD MORNING GOOD MORNING!"
    assert result["structuredContent"] == {"content": "GOOD MORNING GOOD MORNING!", "words": 4}
    assert result["_meta"]["goalport/processId"]


def _check_progress(steps: list[Report]) -> None:
    amounts = [step["progress"] for step in steps]
    assert amounts, "no progress was shown"
    assert amounts == sorted(set(amounts))
    assert re.match("process .+ begins", steps[0]["message"]), steps
    assert all(re.match("[123]/3 ", step["message"]) for step in steps[1:]), steps


def _check_mistakes(report: Report) -> None:
    assert report["bad"]["isError"]
    assert "times" in text_of(report["bad"])
    assert report["unknown"]["code"] == INVALID_PARAMS
    assert "whisper" in report["unknown"]["message"]
