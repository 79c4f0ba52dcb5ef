"""mcpo, the bridge to OpenAPI through which OpenWebUI calls tools: it passes on text and nothing else."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.clients.playing import Heard, Request, play
from tests.clients.running import Served, environment, started

READY = re.compile(r"Uvicorn running on (?P<address>http://127\.0\.0\.1:\d+)")
KINDS = {"http": ["--server-type", "streamable-http"], "sse": ["--server-type", "sse"], "stdio": []}


@contextmanager
def bridged(mcpo: str, transport: str, served: Served, scratch: Path) -> Generator[httpx2.Client]:
    """An HTTP client of an mcpo that reaches a workspace in one of three ways."""
    command = [mcpo, "--host", "127.0.0.1", "--port", "0", *KINDS[transport], "--", *served.target(transport)]
    with (
        started(command, READY, environment(scratch)) as ready,
        httpx2.Client(base_url=ready["address"], timeout=30) as client,
    ):
        yield client


def caller(client: httpx2.Client) -> Callable[[Request], Heard]:
    """Calls the tools that an mcpo bridges."""

    def call(request: Request) -> Heard:
        answer = client.post(f"/{request.tool}", json=request.arguments)
        # Of an error it makes a message of its own, which quotes ours.
        return Heard(answer.text if answer.is_error else answer.json(), answer.is_error, None)

    return call


@pytest.fixture(scope="module", params=["sse", "stdio"])
def bridge(
    request: pytest.FixtureRequest, mcpo: str, served: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx2.Client]:
    with bridged(mcpo, str(request.param), served, tmp_path_factory.mktemp("mcpo")) as client:
        yield client


def test_mcpo_publishes_every_tool_with_its_arguments(bridge: httpx2.Client) -> None:
    described = bridge.get("/openapi.json").json()
    assert {"/shout", "/count_letters", "/helloBanner"} <= set(described["paths"])
    assert set(described["components"]["schemas"]["shout_form_model"]["properties"]) == {
        "text",
        "times",
        "mood",
        "pause",
    }


def test_mcpo_passes_on_the_text_of_a_goal(bridge: httpx2.Client) -> None:
    answer = bridge.post("/shout", json={"text": "good morning", "times": 2})
    assert (answer.status_code, answer.json()) == (200, "GOOD MORNING GOOD MORNING!")


def test_mcpo_passes_on_the_banner(bridge: httpx2.Client) -> None:
    assert bridge.post("/helloBanner").json()["type"] == "banner"


def test_mcpo_says_what_was_wrong_with_an_argument(bridge: httpx2.Client) -> None:
    # Its own model takes an argument of the right type; that five times is the limit, only the goal's type knows.
    answer = bridge.post("/shout", json={"text": "hello", "times": 50})
    assert answer.is_error
    assert "times" in answer.text


def test_mcpo_does_not_know_other_tools(bridge: httpx2.Client) -> None:
    assert bridge.post("/whisper", json={}).status_code == 404


@pytest.mark.parametrize("transport", ["stdio"])
def test_the_adventure_is_played_through_mcpo(mcpo: str, shipped: Served, tmp_path: Path, transport: str) -> None:
    with bridged(mcpo, transport, shipped, tmp_path) as client:
        play(caller(client))
