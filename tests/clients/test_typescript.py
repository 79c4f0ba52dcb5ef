"""The clients of the TypeScript SDK, 1.x and 2.x, over every transport and in the eras that they know."""

import json
from pathlib import Path

import pytest

from tests.clients.asking import a_question_that_is_open, every_story, leaving
from tests.clients.conversation import REVISIONS, check
from tests.clients.playing import Heard, follow, play
from tests.clients.running import CLIENTS, ROOT, Served, obeying, run, serving


@pytest.mark.parametrize(
    ("transport", "sdk", "era"),
    [("sse", "1", "legacy"), ("sse", "2", "legacy"), ("stdio", "1", "legacy"), ("stdio", "2", "modern")],
)
def test_a_typescript_client_has_the_whole_conversation(
    node: str, served: Served, tmp_path: Path, transport: str, sdk: str, era: str
) -> None:
    script = str(CLIENTS / "node" / f"client_{sdk}.mjs")
    client = run([node, script, "converse", transport, era, *served.target(transport)], tmp_path)
    assert client.returncode == 0, client.stderr
    check(json.loads(client.stdout), era)


@pytest.mark.parametrize(("transport", "sdk", "era"), [("stdio", "1", "legacy"), ("stdio", "2", "modern")])
def test_a_typescript_client_plays_the_adventure(
    node: str, shipped: Served, tmp_path: Path, transport: str, sdk: str, era: str
) -> None:
    script = str(CLIENTS / "node" / f"client_{sdk}.mjs")
    with obeying([node, script, "obey", transport, era, *shipped.target(transport)], tmp_path) as tell:
        play(lambda request: Heard.told(tell(request.wire)))


def test_a_server_without_sessions_leads_through_the_adventure_too(node: str, tmp_path: Path) -> None:
    script = str(CLIENTS / "node" / "client_1.mjs")
    with serving(ROOT, tmp_path, "--stateless") as server:
        command = [node, script, "obey", "http", "legacy", *server.target("http")]
        with obeying(command, tmp_path) as tell:
            play(lambda request: Heard.told(tell(request.wire)))


@pytest.mark.parametrize(
    ("transport", "sdk", "era"),
    [("http", "1", "legacy"), ("http", "2", "legacy"), ("http", "2", "modern"), ("stdio", "2", "modern")],
)
def test_a_typescript_client_answers_forms(
    node: str, served: Served, tmp_path: Path, transport: str, sdk: str, era: str
) -> None:
    script = str(CLIENTS / "node" / f"client_{sdk}.mjs")
    with obeying([node, script, "show", transport, era, *served.target(transport)], tmp_path) as tell:
        story = every_story(REVISIONS[era], f"typescript-{sdk}-{transport}-{era}")
        follow(story, lambda request: Heard.told(tell(request.wire)))


@pytest.mark.parametrize(("sdk", "era"), [("1", "legacy"), ("2", "modern")])
def test_a_typescript_client_that_goes_away_finds_its_question_again(
    node: str, served: Served, tmp_path: Path, sdk: str, era: str
) -> None:
    command = [node, str(CLIENTS / "node" / f"client_{sdk}.mjs"), "show", "http", era, *served.target("http")]
    key = f"typescript-{sdk}-leaving-{era}"
    left = run(command, tmp_path, typed=json.dumps(leaving(key).wire) + "\n")
    assert (left.returncode, left.stdout) == (0, ""), left.stderr
    with obeying(command, tmp_path) as tell:
        follow(a_question_that_is_open(key), lambda request: Heard.told(tell(request.wire)))
