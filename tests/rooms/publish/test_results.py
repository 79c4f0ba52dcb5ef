import base64
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, ConfigDict

from goalport import Export, achieves_goal, action, agent
from tests.rooms.serve.served import ERAS, Served, published, served, text_of

PIXEL = base64.b64encode(b"pixel").decode()
IMAGE = ImageContent(type="image", data=PIXEL, mime_type="image/png")
SOUND = AudioContent(type="audio", data=PIXEL, mime_type="audio/wav")
PAGE = EmbeddedResource(type="resource", resource=TextResourceContents(uri="note://1", text="a note"))
LINK = ResourceLink(type="resource_link", uri="note://2", name="another note")


class Report(BaseModel):
    content: str
    pages: int


class Numbers(BaseModel):
    smallest: int
    note: str | None = None


@dataclass(frozen=True)
class Point:
    x: int
    y: int


class Longer(Report):
    secret: str = "only for subclasses"


class Opaque:
    def __str__(self) -> str:
        return "an opaque thing"


def answering(output: Any, value: object) -> object:
    async def answer(self: object) -> object:
        return value

    answer.__annotations__ = {"return": output}
    goal = achieves_goal(description="An answer", export=Export(remote=True, name="answer"))
    return agent(name="Answerer", description="Answers")(type("Answerer", (), {"answer": goal(action(answer))}))()


async def answer_in(root: Path, era: str, output: Any, value: object, **settings: Any) -> CallToolResult:
    async with served(root, answering(output, value), **settings) as server, server.client(era) as client:
        result = await client.call_tool("answer", {})
        assert isinstance(result, CallToolResult)
        await _is_valid(server, result)
        return result


async def _is_valid(server: Served, result: CallToolResult) -> None:
    schema = server.state.publication.tools["answer"].tool.output_schema
    if schema is not None and not result.is_error:
        jsonschema.validate(result.structured_content, schema)


@pytest.mark.parametrize("era", ERAS)
async def test_the_text_of_an_object_is_its_content_and_all_of_it_is_structured(tmp_path: Path, era: str) -> None:
    result = await answer_in(tmp_path, era, Report, Report(content="# Title", pages=2))
    assert text_of(result) == "# Title"
    assert result.structured_content == {"content": "# Title", "pages": 2}


@pytest.mark.parametrize("era", ERAS)
async def test_an_object_without_content_is_told_as_json(tmp_path: Path, era: str) -> None:
    result = await answer_in(tmp_path, era, Numbers, Numbers(smallest=1))
    assert text_of(result) == '{"smallest":1,"note":null}'
    assert result.structured_content == {"smallest": 1, "note": None}


@pytest.mark.parametrize(
    ("output", "value", "text", "structured"),
    [
        (str, "plain words", "plain words", {"result": "plain words"}),
        (int, 42, "42", {"result": 42}),
        (list[Point], [Point(1, 2)], '[{"x":1,"y":2}]', {"result": [{"x": 1, "y": 2}]}),
        (Point, Point(3, 4), '{"x":3,"y":4}', {"x": 3, "y": 4}),
        (dict[str, int], {"a": 1}, '{"a":1}', {"a": 1}),
    ],
    ids=["string", "number", "list", "dataclass", "mapping"],
)
@pytest.mark.parametrize("era", ERAS)
async def test_values_of_all_kinds_are_told_and_structured(
    tmp_path: Path, era: str, output: Any, value: object, text: str, structured: object
) -> None:
    result = await answer_in(tmp_path, era, output, value)
    assert (text_of(result), result.structured_content) == (text, structured)


async def test_a_subclass_is_written_as_the_type_that_was_published(tmp_path: Path) -> None:
    result = await answer_in(tmp_path, "auto", Report, Longer(content="x", pages=1))
    assert result.structured_content == {"content": "x", "pages": 1}


async def test_a_value_that_is_not_of_its_declared_type_is_an_error_and_not_a_lie(tmp_path: Path) -> None:
    result = await answer_in(tmp_path, "auto", Numbers, Numbers.model_construct(smallest="many"))
    assert result.is_error
    assert "cannot be written" in text_of(result)


class Measured(BaseModel):
    size: float
    sizes: list[float | None]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("output", "value", "place"),
    [
        (Measured, Measured(size=float("nan"), sizes=[]), "size is nan"),
        (Measured, Measured(size=1, sizes=[None, float("-inf")]), "sizes[1] is -inf"),
        (float, float("inf"), "it is inf"),
    ],
)
async def test_a_number_that_json_does_not_have_is_an_error_that_names_its_place(
    tmp_path: Path, era: str, output: Any, value: object, place: str
) -> None:
    result = await answer_in(tmp_path, era, output, value)
    assert result.is_error
    assert place in text_of(result)
    assert "JSON has no such number" in text_of(result)


async def test_a_null_that_is_meant_is_sent(tmp_path: Path) -> None:
    result = await answer_in(tmp_path, "auto", Measured, Measured(size=1, sizes=[None]))
    assert result.structured_content == {"size": 1.0, "sizes": [None]}


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: Opaque


@pytest.mark.parametrize("output", [Opaque, list[Opaque], Holder, Iterator[int], AsyncIterator[int]])
def test_an_output_that_json_cannot_express_is_refused_with_the_reason(tmp_path: Path, output: Any) -> None:
    publication = published(tmp_path, answering(output, None))
    assert "answer" not in publication.tools
    problem = next(each for each in publication.problems if "Answerer.answer" in each)
    assert "expected a type that can be written as JSON" in problem


class Telephone(BaseModel):
    ring: Callable[[], int]


@dataclass
class Desk:
    phones: list[Telephone]
    content: str = ""


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Holder, "the field 'thing' of Holder is of the type Opaque, which has no JSON"),
        (Desk, "the field 'ring' of Telephone is of the type Callable[[], int], which has no JSON"),
        (dict[str, Desk] | None, "the field 'ring' of Telephone is of the type Callable[[], int]"),
    ],
)
def test_a_field_that_json_cannot_express_is_named_with_its_class(tmp_path: Path, output: Any, words: str) -> None:
    assert words in "\n".join(published(tmp_path, answering(output, None)).problems)


@agent(description="d")
class Operator:
    @achieves_goal(description="g", export=Export(remote=True))
    async def connect(self, desk: Desk) -> str:
        return desk.content


def test_so_is_a_field_of_an_input(tmp_path: Path) -> None:
    (problem,) = published(tmp_path, Operator()).problems
    assert "the field 'ring' of Telephone is of the type Callable[[], int], which has no JSON" in problem
    assert "The input Desk" in problem


MEASURE = """
from pydantic import BaseModel
from goalport import tool

class Size(BaseModel):
    width: float

@tool(export=True)
def measure(width: float = float("inf")) -> Size:
    '''Measure.'''
    return Size(width=width * 0)
"""


async def test_an_exported_tool_sends_no_such_number_either_nor_publishes_one_as_a_default(tmp_path: Path) -> None:
    async with served(tmp_path, files={"tools/sizes.py": MEASURE}) as server, server.client() as client:
        result = await client.call_tool("measure", {})
        schema = server.state.publication.tools["measure"].tool.input_schema
    assert result.is_error
    assert "width is nan" in text_of(result)
    assert "default" not in schema["properties"]["width"]


@pytest.mark.parametrize(
    ("output", "value", "kinds"),
    [
        (ImageContent, IMAGE, ["image"]),
        (AudioContent, SOUND, ["audio"]),
        (list[ImageContent | str], ["Look:", IMAGE], ["text", "image"]),
        (list[EmbeddedResource | ResourceLink], [PAGE, LINK], ["resource", "resource_link"]),
        (Sequence[TextContent | AudioContent], (TextContent(type="text", text="a"), SOUND), ["text", "audio"]),
    ],
    ids=["image", "audio", "text and image", "resources", "sequence"],
)
@pytest.mark.parametrize("era", ERAS)
async def test_content_blocks_pass_through_without_an_output_schema(
    tmp_path: Path, era: str, output: Any, value: object, kinds: list[str]
) -> None:
    result = await answer_in(tmp_path, era, output, value)
    assert [block.type for block in result.content] == kinds
    assert result.structured_content is None


async def test_a_picture_arrives_as_it_was(tmp_path: Path) -> None:
    assert (await answer_in(tmp_path, "auto", ImageContent, IMAGE)).content == [IMAGE]


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_says_which_process_made_it_and_what_it_cost(tmp_path: Path, era: str) -> None:
    result = await answer_in(tmp_path, era, str, "x")
    assert result.meta is not None
    assert result.meta["goalport/processId"]
    assert result.meta["goalport/cost"] == {"usd": 0, "inputTokens": 0, "outputTokens": 0, "modelCalls": 0}
    assert result.meta["goalport/actions"] == 1


BIG = """
from goalport import tool

@tool(export=True)
def repeat(text: str, times: int) -> str:
    '''Repeat a text.'''
    return text * times

@tool(export=True)
def broken() -> str:
    '''Return half a character.'''
    return chr(0xD800)
"""


@pytest.mark.parametrize("era", ERAS)
async def test_an_exported_tool_whose_result_cannot_be_sent_says_so_and_the_next_call_works(
    tmp_path: Path, era: str
) -> None:
    async with served(tmp_path, files={"tools/big.py": BIG}) as server, server.client(era) as client:
        big = await client.call_tool("repeat", {"text": "x" * 1000, "times": 1000})
        assert big.is_error
        assert "Ask for less" in text_of(big)
        assert (await client.call_tool("broken", {})).is_error
        assert text_of(await client.call_tool("repeat", {"text": "ab", "times": 2})) == "abab"


async def test_the_text_of_an_exported_tool_that_its_structure_says_again_does_not_count_twice(tmp_path: Path) -> None:
    async with served(tmp_path, files={"tools/big.py": BIG}) as server, server.client("legacy") as client:
        result = await client.call_tool("repeat", {"text": "x" * 1000, "times": 600})
    assert not result.is_error
    assert result.structured_content == {"result": "x" * 600_000}
    assert text_of(result).startswith("x" * 200_000)
    assert text_of(result).endswith("[This text is cut; the structured content is whole.]")


async def test_a_goal_of_which_only_the_deed_counts_says_that_it_is_done(tmp_path: Path) -> None:
    result = await answer_in(tmp_path, "auto", None, None)
    assert not result.is_error
    assert text_of(result) == "Done."
