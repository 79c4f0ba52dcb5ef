"""The tool `achieve` of a real server: a sentence comes in, the goal that fits is found and reached."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from tests.providers import Providers
from tests.stories.servers import Running, running

TRIPS = """
from dataclasses import dataclass
from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent

@dataclass(frozen=True)
class Trip:
    city: str
    nights: int

@dataclass(frozen=True)
class Booking:
    content: str

@dataclass(frozen=True)
class Length:
    nights: int

@dataclass(frozen=True)
class Song:
    content: str

@agent(description="Books trips")
class Trips:
    @achieves_goal(description="Book a trip to a city", export=Export(remote=True, name="book_trip",
                   starting_input_types=[Trip]))
    def book(self, trip: Trip) -> Booking:
        return Booking(f"{trip.nights} nights in {trip.city}")

@agent(description="Sings")
class Singer:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Length]:
        return WaitFor.form_submission("How many verses?", Length)

    @achieves_goal(description="Sing a song", export=Export(remote=True, name="sing"))
    def sing(self, user_input: UserInput, length: Length) -> Song:
        return Song(f"{user_input.content}: {'la ' * length.nights}".strip())

@agent(description="Keeps secrets")
class Secret:
    @achieves_goal(description="Tell a secret", export=Export(name="tell_secret"))
    def tell(self, user_input: UserInput) -> Song:
        return Song("secret")
"""
FILES = {"agents/trips.py": TRIPS}
MODEL = "openai:gpt-4.1-mini"
SETTINGS = {"models__default_llm": MODEL, "front_tool": "true"}


@pytest.fixture(scope="module", autouse=True)
def environment(provider_process: Providers) -> Iterator[None]:
    """All servers here ask the providers that tests tell what to answer."""
    with pytest.MonkeyPatch.context() as variables:
        for name, value in provider_process.environment.items():
            variables.setenv(name, value)
        yield


def serving(root: Path, mode: str) -> Any:
    return running(root, FILES, models__default_llm=MODEL, front_tool=mode)


def rates(**confidence: float) -> dict[str, object]:
    return {"ratings": [{"name": name, "confidence": each} for name, each in confidence.items()]}


async def achieve(server: Running, said: str, **options: Any) -> CallToolResult:
    with anyio.fail_after(60):
        async with server.client("http", "auto", **options) as client:
            result = await client.call_tool("achieve", {"content": said})
    assert isinstance(result, CallToolResult)
    return result


async def test_a_sentence_becomes_the_input_of_the_goal_that_fits(server: Running, aimock: Providers) -> None:
    aimock.answer("Which of these candidates", content=rates(book_trip=0.95, sing=0.1))
    aimock.answer("Take a Trip", content={"result": {"city": "Oslo", "nights": 2}, "failure": None})
    result = await achieve(server, "Two nights in Oslo, please")
    assert not result.is_error, result
    assert result.structured_content is not None
    told = result.structured_content
    assert told["content"] == "2 nights in Oslo"
    assert told["goal"] == "book_trip"
    assert told["why"].startswith("book_trip was chosen with a confidence of 0.95, before sing (0.10)")
    assert told["result"] == {"content": "2 nights in Oslo"}
    asked = str(aimock.requests())
    assert "tell_secret" not in asked, "what is not published cannot be chosen"
    assert len(aimock.requests()) == 2


async def test_its_questions_are_asked_as_those_of_any_goal(server: Running, aimock: Providers) -> None:
    aimock.answer("Which of these candidates", content=rates(book_trip=0.2, sing=0.9))

    async def person(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert params.message == "How many verses?"
        return ElicitResult(action="accept", content={"nights": 2})

    result = await achieve(server, "Sing something", elicitation_callback=person)
    assert result.structured_content is not None, result
    assert result.structured_content["content"] == "Sing something: la la"
    assert len(aimock.requests()) == 1, "the choice is not paid again after the answer"


async def test_details_that_the_sentence_lacks_are_asked_for(tmp_path: Path, aimock: Providers) -> None:
    aimock.answer("Which of these candidates", content=rates(book_trip=0.9, sing=0.1))
    aimock.answer("Take a Trip", content={"result": None, "failure": "No city is named."})

    async def person(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"city": "Rome", "nights": 3})

    async with serving(tmp_path, "open") as server:
        result = await achieve(server, "Book a trip", elicitation_callback=person)
    assert result.structured_content is not None, result
    assert result.structured_content["content"] == "3 nights in Rome"


async def test_what_fits_nothing_is_an_error_that_names_the_nearest(server: Running, aimock: Providers) -> None:
    aimock.answer("Which of these candidates", content=rates(book_trip=0.3, sing=0.1))
    result = await achieve(server, "Bake a cake")
    empty = await achieve(server, "  ")
    assert result.is_error
    assert "No goal fits well enough. The nearest are book_trip (0.30): Book a trip to a city" in str(result.content)
    assert empty.is_error
    assert "the text is empty" in str(empty.content)


async def test_it_is_not_there_unless_the_setting_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, "false") as server, Client(f"{server.address}/mcp") as client:
        assert "achieve" not in {each.name for each in (await client.list_tools()).tools}
