"""FastMCP's client, from an environment of its own. Over HTTP, `test_fleet` has it talk to two servers at once."""

import json
from pathlib import Path

import pytest

from tests.clients.asking import a_question_that_is_open, a_task, every_story, leaving, no_task
from tests.clients.conversation import REVISIONS, check
from tests.clients.playing import Heard, follow, play
from tests.clients.running import CLIENTS, Served, obeying, run, serving
from tests.docs.fences import ADDRESS, fences, write_files


@pytest.mark.parametrize(("transport", "era"), [("sse", "legacy"), ("stdio", "modern")])
def test_the_client_of_fastmcp_has_the_whole_conversation(
    fastmcp_python: str, served: Served, tmp_path: Path, transport: str, era: str
) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    client = run([fastmcp_python, script, "converse", transport, era, *served.target(transport)], tmp_path)
    assert client.returncode == 0, client.stderr
    check(json.loads(client.stdout), era)


@pytest.mark.parametrize(("transport", "era"), [("stdio", "modern")])
def test_the_client_of_fastmcp_plays_the_adventure(
    fastmcp_python: str, shipped: Served, tmp_path: Path, transport: str, era: str
) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    with obeying([fastmcp_python, script, "obey", transport, era, *shipped.target(transport)], tmp_path) as tell:
        play(lambda request: Heard.told(tell(request.wire)))


@pytest.mark.parametrize("era", REVISIONS)
def test_the_client_of_fastmcp_answers_forms(fastmcp_python: str, served: Served, tmp_path: Path, era: str) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    with obeying([fastmcp_python, script, "show", "http", era, *served.target("http")], tmp_path) as tell:
        story = every_story(REVISIONS[era], f"fastmcp-{era}")
        follow(story, lambda request: Heard.told(tell(request.wire)))


@pytest.mark.parametrize("era", REVISIONS)
def test_a_client_of_fastmcp_that_goes_away_finds_its_question_again(
    fastmcp_python: str, served: Served, tmp_path: Path, era: str
) -> None:
    command = [fastmcp_python, str(CLIENTS / "fastmcp_client.py"), "show", "http", era, *served.target("http")]
    key = f"fastmcp-leaving-{era}"
    left = run(command, tmp_path, typed=json.dumps(leaving(key).wire) + "\n")
    assert (left.returncode, left.stdout) == (0, ""), left.stderr
    with obeying(command, tmp_path) as tell:
        follow(a_question_that_is_open(key), lambda request: Heard.told(tell(request.wire)))


def test_the_client_of_fastmcp_follows_tasks(fastmcp_python: str, served: Served, tmp_path: Path) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    with obeying([fastmcp_python, script, "follow", "http", "modern", *served.target("http")], tmp_path) as tell:
        for story in (a_task(), every_story("2026-07-28", "fastmcp-tasks")):
            follow(story, lambda request: Heard.told(tell(request.wire)))


def test_without_tasks_the_client_of_fastmcp_is_refused_what_needs_them(
    fastmcp_python: str, served: Served, tmp_path: Path
) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    with obeying([fastmcp_python, script, "show", "http", "modern", *served.target("http")], tmp_path) as tell:
        follow(no_task(), lambda request: Heard.told(tell(request.wire)))


def test_the_task_in_the_page_on_waiting_is_followed_as_it_is_written_there(
    fastmcp_python: str, tmp_path: Path
) -> None:
    page = "docs/waiting.md"
    (program,) = fences(page, "py")
    write_files(page, tmp_path)
    with serving(tmp_path, tmp_path) as server:
        client = run([fastmcp_python, "-c", program.text.replace(ADDRESS, server.address)], tmp_path)
    assert (client.returncode, client.stdout) == (0, "{'content': 'Oslo, 180 euros'}\n"), client.stderr
