from pathlib import Path
from typing import Annotated, Literal

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import BaseModel, ConfigDict, Field

from goalport import Export, UserInput, achieves_goal, action, agent
from goalport.base.errors import BadInput
from goalport.server.publish.published_arguments import PublishedArguments
from tests.rooms.serve.served import ERAS, served, text_of

runs: list[object] = []


class Stop(BaseModel):
    city: str
    nights: int = 1


class Trip(BaseModel):
    traveller: str
    days: int = Field(ge=1, le=30)
    style: Literal["cheap", "grand"] = "cheap"
    stops: list[Stop] = []
    notes: dict[str, str] = {}


class Ticket(BaseModel):
    content: str


@agent(description="Books trips")
class Booker:
    @achieves_goal(description="A ticket", export=Export(remote=True, name="book_trip", starting_input_types=[Trip]))
    @action
    async def book(self, trip: Trip) -> Ticket:
        runs.append(trip)
        if trip.traveller == "nobody":
            raise BadInput("traveller: somebody must travel")
        return Ticket(content=trip.traveller)


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    runs.clear()


async def refusal(root: Path, era: str, arguments: dict[str, object]) -> str:
    async with served(root, Booker()) as server, server.client(era) as client:
        result = await client.call_tool("book_trip", arguments)
        assert result.is_error
        assert result.structured_content is None
        return text_of(result)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"days": 3}, ["- traveller: required, but missing"]),
        ({"traveller": "Ada", "days": "soon"}, ["- days: should be a whole number", "'soon'"]),
        ({"traveller": "Ada", "days": 31}, ["- days: should be at most 30"]),
        ({"traveller": "Ada", "days": 3, "style": "shabby"}, ["- style: should be 'cheap' or 'grand'"]),
        ({"traveller": "Ada", "days": 3, "dayz": 4}, ["- dayz: unknown. Did you mean 'days'?"]),
        ({"traveller": "Ada", "days": 3, "zzz": 4}, ["- zzz: unknown. Known: traveller, days, style, stops, notes."]),
        ({"traveller": "Ada", "days": 3, "stops": [{"nights": 2}]}, ["- stops[0].city: required, but missing"]),
        (
            {"traveller": "Ada", "days": 3, "stops": [{"city": "Rome"}, {"city": "Bari", "night": 2}]},
            ["- stops[1].night: unknown. Did you mean 'nights'?"],
        ),
    ],
)
async def test_what_is_wrong_is_told_a_line_per_field_and_nothing_runs(
    tmp_path: Path, era: str, arguments: dict[str, object], lines: list[str]
) -> None:
    told = await refusal(tmp_path, era, arguments)
    for line in lines:
        assert line in told
    assert not runs


async def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    told = await refusal(tmp_path, "auto", {"traveler": "Ada", "days": "soon", "style": 3})
    assert [line.split(":")[0] for line in told.splitlines()[1:]] == ["- traveler", "- traveller", "- days", "- style"]


async def test_fields_that_a_type_leaves_open_may_have_any_name(tmp_path: Path) -> None:
    async with served(tmp_path, Booker()) as server, server.client() as client:
        result = await client.call_tool("book_trip", {"traveller": "Ada", "days": 1, "notes": {"seat": "window"}})
    assert not result.is_error


async def test_a_number_in_quotation_marks_is_understood(tmp_path: Path) -> None:
    async with served(tmp_path, Booker()) as server, server.client() as client:
        assert not (await client.call_tool("book_trip", {"traveller": "Ada", "days": "3"})).is_error


@pytest.mark.parametrize("era", ERAS)
async def test_thousands_of_mistakes_are_told_in_a_few_lines(tmp_path: Path, era: str) -> None:
    wrong = [{"city": number} for number in range(1_000)]
    told = await refusal(tmp_path, era, {"traveller": "Ada", "days": 3, "stops": wrong})
    assert len(told.splitlines()) < 30
    assert "and 980 more" in told


async def test_a_hundred_thousand_mistakes_are_not_even_listed(tmp_path: Path) -> None:
    told = await refusal(tmp_path, "auto", {"traveller": "Ada", "days": 3, "stops": [1] * 100_000})
    assert "100000 values" in told


async def test_a_huge_value_is_not_sent_back(tmp_path: Path) -> None:
    assert len(await refusal(tmp_path, "auto", {"traveller": "Ada", "days": "x" * 1_000_000})) < 1_000


async def test_a_mistake_that_an_action_finds_is_told_as_it_says_it(tmp_path: Path) -> None:
    assert await refusal(tmp_path, "auto", {"traveller": "nobody", "days": 1}) == "traveller: somebody must travel"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("name", "offer"), [("book_tripp", "Did you mean 'book_trip'?"), ("x" * 10_000, "Known:")])
async def test_a_tool_that_there_is_not_is_a_protocol_error_that_names_the_nearest(
    tmp_path: Path, era: str, name: str, offer: str
) -> None:
    async with served(tmp_path, Booker()) as server, server.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(name, {})
    assert caught.value.code == INVALID_PARAMS
    assert offer in caught.value.message
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_that_there_is_not_is_a_protocol_error(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Booker()) as server, server.client(era) as client:
        with pytest.raises(MCPError, match="book_trip") as caught:
            await client.get_prompt("book", {})
    assert caught.value.code == INVALID_PARAMS


EXPORTED = """
from goalport import tool

@tool(export=True)
def add(a: int, b: int) -> int:
    '''Add two numbers.'''
    return a + b

@tool(export=True)
def divide(a: int, b: int) -> float:
    '''Divide.'''
    return a / b
"""


@pytest.mark.parametrize("era", ERAS)
async def test_exported_functions_refuse_bad_arguments_in_the_same_words(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, files={"tools/maths.py": EXPORTED}) as server, server.client(era) as client:
        result = await client.call_tool("add", {"a": "one", "c": 3})
    assert result.is_error
    assert "- a: should be a whole number" in text_of(result)
    assert "- b: required, but missing" in text_of(result)
    assert "- c: unknown." in text_of(result)


async def test_a_function_that_fails_is_an_error_result_without_a_traceback(tmp_path: Path) -> None:
    async with served(tmp_path, files={"tools/maths.py": EXPORTED}) as server, server.client() as client:
        result = await client.call_tool("divide", {"a": 1, "b": 0})
    assert result.is_error
    assert "ZeroDivisionError" in text_of(result)
    assert "Traceback" not in text_of(result)


async def test_a_tool_that_wants_to_steer_a_process_where_there_is_none_says_why_instead(tmp_path: Path) -> None:
    text = (
        "from goalport import tool\nfrom goalport.errors import TerminateAction\n\n"
        '@tool(export=True)\ndef look() -> str:\n    """Look."""\n    raise TerminateAction("It is too dark.")\n'
    )
    async with served(tmp_path, files={"tools/eyes.py": text}) as server, server.client() as client:
        result = await client.call_tool("look", {})
    assert result.is_error
    assert text_of(result) == "It is too dark."


class Branch(BaseModel):
    name: str
    length: float = 1.0
    twigs: "list[Branch]" = []


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    radius: float


class Square(BaseModel):
    kind: Literal["square"] = "square"
    side: float


class Pond(BaseModel):
    """Allows what it does not name, unlike what is in it."""

    model_config = ConfigDict(extra="allow")
    edge: Circle | None = None


class Garden(BaseModel):
    tree: Branch
    pond: Pond = Pond()
    shape: Circle | Square
    bed: Annotated[Circle | Square, Field(discriminator="kind")] | None = None
    extra: Circle | dict[str, float] | None = None
    sizes: list[float] = []


@agent(description="Plants")
class Gardener:
    @achieves_goal(description="A garden", export=Export(remote=True, name="plant", starting_input_types=[Garden]))
    @action
    async def plant(self, garden: Garden) -> Ticket:
        return Ticket(content=garden.tree.name)


@pytest.mark.parametrize(
    ("odd", "line"),
    [
        ({}, ""),
        ({"tree": {"name": "x", "twigz": []}}, "- tree.twigz: unknown. Did you mean 'twigs'?"),
        ({"tree": {"name": "x", "twigs": [{"name": "y", "nam": "z"}]}}, "- tree.twigs[0].nam: unknown."),
        ({"shape": {"radius": 1, "radiuss": 2}}, "- shape.radiuss: unknown. Did you mean 'radius'?"),
        ({"bed": {"kind": "circle", "radius": 1, "side": 2}}, "- bed.side: unknown."),
        ({"bed": {"kind": "circle", "radius": 1}}, ""),
        ({"extra": {"anything": 2}}, ""),
        ({"pond": {"fish": ["carp"], "edge": {"radius": 2}}}, ""),
        ({"pond": {"fish": 2, "edge": {"radius": 2, "radiuss": 2}}}, "- pond.edge.radiuss: unknown. Did you mean"),
        ({"shape": {"radius": 1, "side": 2}}, ""),
        ({"sizes": [1, "NaN"]}, "- sizes[1]: should be a number that JSON has; came NaN"),
        ({"extra": {"anything": "inf"}}, "- extra.anything: should be a number that JSON has; came inf"),
    ],
)
async def test_fields_that_nothing_knows_are_named_in_unions_and_in_what_contains_itself(
    tmp_path: Path, odd: dict[str, object], line: str
) -> None:
    arguments = {"tree": {"name": "oak"}, "shape": {"side": 1}, **odd}
    async with served(tmp_path, Gardener()) as server, server.client() as client:
        result = await client.call_tool("plant", arguments)
    assert result.is_error == bool(line), text_of(result)
    assert line in text_of(result)
    assert not line or text_of(result).count("\n") == 1


async def test_a_hundred_thousand_unknown_fields_are_not_even_listed(tmp_path: Path) -> None:
    told = await refusal(
        tmp_path, "auto", {"traveller": "Ada", "days": 3, **{f"x{each}": 1 for each in range(100_000)}}
    )
    assert told.endswith("100000 values do not fit the schema")


@pytest.mark.parametrize("starts", [(UserInput,), (UserInput, Garden)])
def test_when_a_user_said_something_is_not_for_the_caller_to_say(starts: tuple[type, ...]) -> None:
    said = {"content": "roses", "timestamp": "2001-01-01T00:00:00Z"}
    garden = {"tree": {"name": "oak"}, "shape": {"side": 1}}
    arguments = PublishedArguments.of(starts)

    with pytest.raises(BadInput, match=r"timestamp: unknown\. Known: content\."):
        arguments.read(said if len(starts) == 1 else {"user_input": said, "garden": garden})
