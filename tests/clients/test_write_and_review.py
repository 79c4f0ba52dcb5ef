"""One story, finished through five clients: forms in mid-call, forms between calls, tools alone, REST, a terminal.

Each has the person ask for a change, sees the revised story, accepts it, and gets the review. Only the model is
scripted, over HTTP.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from tests.clients.playing import ANSWER, Heard, Request, Script, calls_in, follow, follow_async
from tests.clients.python_client import MODES, Person, tools_of
from tests.clients.running import CLIENTS, ROOT, Served, environment, obeying, serving
from tests.clients.test_mcpo import bridged, caller
from tests.providers import Providers
from tests.rooms.serve.askers import Answering
from tests.rooms.serve.following_tasks import FollowingTasks
from tests.terminals import ENTER, on_terminal

TOOL = "write_and_review_story"
IDEA = {"content": "a heron that learns to read"}
FIRST, SECOND = "A heron learned to read.", "A heron learned to read, and laughed."
COMMENTS = ["It should laugh.", "I like it."]
ANSWERS = [{"comments": each} for each in COMMENTS]
REVIEW = "Short and sweet."
CONTENT = f"{SECOND}\n\n*Ottoline Marchbanks:* {REVIEW}"


@pytest.fixture(scope="module", autouse=True)
def models(provider_process: Providers) -> Iterator[None]:
    """A model that writes, understands comments, revises and reviews, for all programs that are started here."""
    provider_process.forget()
    # A request to revise has the comments in it too, so it comes first.
    provider_process.answer("Revise a short story", content={"text": SECOND})
    provider_process.answer("Write a short story", content={"text": FIRST})
    provider_process.answer("Review this short story", content=REVIEW)
    for comment, acceptable in zip(COMMENTS, (False, True), strict=True):
        provider_process.answer(comment, content={"acceptable": acceptable})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in provider_process.environment.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def stories(models: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The repository's own workspace, with those models."""
    with serving(ROOT, tmp_path_factory.mktemp("stories")) as server:
        yield server


def with_forms() -> Script:
    """A client that shows forms makes one call."""
    heard = yield Request(TOOL, IDEA, ANSWERS)
    check_asked(each["message"] for each in heard.asked)
    check_story(heard.structured)


def with_tools_alone() -> Script:
    """A client that shows none answers each question by a call of its own, in the words of the answer before."""
    heard = yield Request(TOOL, IDEA)
    asked: list[str] = []
    for answer in ANSWERS:
        assert not heard.failed, heard
        asked.append(heard.text)
        heard = yield Request(ANSWER, {**calls_in(heard.text)[ANSWER], "answer": answer})
    check_asked(asked)
    assert heard.text == CONTENT
    if heard.structured is not None:
        check_story(heard.structured)


def check_asked(asked: Iterable[str]) -> None:
    first, second = asked
    assert FIRST in first
    assert SECOND in second


def check_story(story: Mapping[str, Any] | None) -> None:
    assert story is not None
    assert (story["content"], story["story"], story["review"]) == (CONTENT, SECOND, REVIEW)
    assert story["revisions"] == 1


@pytest.mark.parametrize("era", MODES)
async def test_a_story_is_finished_with_forms_of_the_python_client(stories: Served, era: str) -> None:
    """In mid-call in revision 2025-11-25, by `input_required` in 2026-07-28."""
    person = Person()
    with anyio.fail_after(60):
        async with Client(stories.target("http")[0], mode=MODES[era], elicitation_callback=person) as client:
            await follow_async(with_forms(), tools_of(client, person))


def test_a_story_is_finished_with_forms_of_a_typescript_client(node: str, stories: Served, tmp_path: Path) -> None:
    script = str(CLIENTS / "node" / "client_2.mjs")
    with obeying([node, script, "show", "http", "modern", *stories.target("http")], tmp_path) as tell:
        follow(with_forms(), lambda request: Heard.told(tell(request.wire)))


async def test_a_story_is_finished_as_a_task(stories: Served) -> None:
    person = Answering.with_(*ANSWERS)
    extension = FollowingTasks(person)
    target = stories.target("http")[0]
    with anyio.fail_after(60):
        async with Client(target, extensions=[extension], elicitation_callback=person) as client:
            result = await client.call_tool(TOOL, IDEA)
    check_asked(person.asked)
    check_story(result.structured_content)
    assert len(extension.tasks) == 1
    assert extension.statuses.count("input_required") == 2
    assert extension.statuses[-1] == "completed"


def test_a_story_is_finished_with_tools_alone_through_mcpo(mcpo: str, stories: Served, tmp_path: Path) -> None:
    with bridged(mcpo, "http", stories, tmp_path) as client:
        follow(with_tools_alone(), caller(client))


def test_a_story_is_finished_with_tools_alone_by_fastmcp(fastmcp_python: str, stories: Served, tmp_path: Path) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    with obeying([fastmcp_python, script, "obey", "http", "legacy", *stories.target("http")], tmp_path) as tell:
        follow(with_tools_alone(), lambda request: Heard.told(tell(request.wire)))


def test_a_story_is_finished_over_rest(stories: Served) -> None:
    with httpx2.Client(base_url=stories.address, timeout=60, trust_env=False) as http:
        state = http.post("/api/v1/process", json={"goal": TOOL, "input": IDEA})
        asked: list[str] = []
        for answer in ANSWERS:
            assert state.status_code == 202, state.text
            asked.append(state.json()["prompt"])
            given = {"awaitableId": state.json()["awaitableId"], "response": answer}
            state = http.post(state.json()["links"]["continue"], json=given)
    assert state.status_code == 200, state.text
    check_asked(asked)
    check_story(state.json()["result"])


def test_a_story_is_finished_on_a_terminal(tmp_path: Path) -> None:
    command = ["run", "--goal", TOOL, "--input", json.dumps(IDEA)]
    with on_terminal(command, environment(tmp_path, TERM="xterm"), cwd=ROOT) as screen:
        for story, comment in zip((FIRST, SECOND), COMMENTS, strict=True):
            screen.until(story).press(comment, ENTER)
        screen.until(REVIEW)
        assert screen.ended() == 0
