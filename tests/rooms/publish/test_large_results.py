"""Results that do not fit into an answer: successes whose values are read in pages, by resource or by tool."""

import json
import re
from pathlib import Path
from typing import Any, Literal

import anyio
import jsonschema
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ImageContent, ResourceLink, TextContent, TextResourceContents
from pydantic import BaseModel

from goalport import ActionContext, Export, achieves_goal, agent
from tests.rooms.publish.test_results import IMAGE, Numbers, Report, answering
from tests.rooms.serve.askers import call
from tests.rooms.serve.served import ERAS, Served, published, served, text_of

EACH_ERA = pytest.mark.parametrize("era", ERAS)
LETTERS = pytest.mark.parametrize(
    "letter", ["a", '"', "é", "\x01", "😀"], ids=["ascii", "quote", "accent", "control", "emoji"]
)


def link_in(server: Served, result: CallToolResult) -> dict[str, Any]:
    """The link in a result, which has to be a success and what was published."""
    assert not result.is_error, result
    schema = server.state.publication.tools["answer"].tool.output_schema
    if schema is not None:
        jsonschema.validate(result.structured_content, schema)
    assert result.structured_content is not None
    return result.structured_content


async def pages_by_tool(client: Client, link: dict[str, Any]) -> list[str]:
    """The pages, each by the call that the one before names."""
    pages: list[str] = []
    tool, arguments = link["next"]["tool"], link["next"]["arguments"]
    while True:
        result = await call(client, tool, **arguments)
        guide, page = result.content
        assert isinstance(guide, TextContent)
        assert isinstance(page, TextContent)
        assert len(json.dumps(result.model_dump(mode="json"))) < 60_000
        pages.append(page.text)
        found = re.search(r"call (\w+) with (.*)\.$", guide.text)
        if found is None:
            assert guide.text.endswith("It is the last.")
            break
        tool, arguments = found[1], json.loads(found[2])
    return pages


async def page_of(client: Client, uri: str) -> TextResourceContents | None:
    try:
        content = (await client.read_resource(uri)).contents[0]
    except MCPError:
        return None
    assert isinstance(content, TextResourceContents)
    return content


@EACH_ERA
@LETTERS
async def test_a_result_that_is_too_big_is_a_link_whose_pages_are_not(tmp_path: Path, era: str, letter: str) -> None:
    whole = letter * 60_000
    async with served(tmp_path, answering(str, whole), max_result_bytes=50_000) as server, server.client(era) as client:
        result = await call(client, "answer")
        link = link_in(server, result)
        assert (link["status"], link["next"]["tool"]) == ("completed", "process_result")
        assert "Do not call answer again" in text_of(result)
        assert isinstance(result.content[-1], ResourceLink)
        texts = await pages_by_tool(client, link)
        pages = [await page_of(client, f"{link['uri']}/{number}") for number in range(1, len(texts) + 2)]
    assert "".join(texts) == whole
    assert link["pages"] == len(texts)
    assert [each.text for each in pages if each is not None] == texts
    assert pages[0] is not None
    assert pages[0].meta == {"goalport/page": 1, "goalport/pages": len(texts)}
    assert pages[-1] is None


@EACH_ERA
async def test_a_text_counts_once_against_the_limit(tmp_path: Path, era: str) -> None:
    whole = "x" * 800_000
    async with served(tmp_path, answering(str, whole)) as server, server.client(era) as client:
        result = await call(client, "answer")
        assert not result.is_error
        assert result.structured_content == {"result": whole}
        assert len(json.dumps(result.model_dump(mode="json"))) < 1_000_000
        text = text_of(result)
        assert text.startswith("x" * 10_000)
        found = re.search(r"call process_result with (\{.*\})\.\]$", text)
        assert found is not None
        page = await call(client, "process_result", **json.loads(found[1]))
        assert text_of(page).endswith("x" * 50_000)


@EACH_ERA
@LETTERS
async def test_a_short_text_beside_much_structure_is_cut_no_further_than_it_must(
    tmp_path: Path, era: str, letter: str
) -> None:
    report = Report(content=letter * 4_000, pages=2)
    reporter = answering(Report, report)
    async with served(tmp_path, reporter, max_result_bytes=80_000) as server, server.client(era) as client:
        result = await call(client, "answer")
    assert result.structured_content == {"content": letter * 4_000, "pages": 2}
    assert (text_of(result) == letter * 4_000) is (letter != "😀")


async def test_a_result_whose_text_and_structure_fit_together_is_sent_whole(tmp_path: Path) -> None:
    whole = "x" * 400_000
    async with served(tmp_path, answering(str, whole)) as server, server.client("legacy") as client:
        result = await call(client, "answer")
    assert (text_of(result), result.structured_content) == (whole, {"result": whole})


async def test_a_big_result_can_be_read_whole_with_its_structure(tmp_path: Path) -> None:
    report = Report(content="x" * 2_000, pages=7)
    async with served(tmp_path, answering(Report, report), max_result_bytes=1_000) as server, server.client() as client:
        content = await page_of(client, link_in(server, await call(client, "answer"))["uri"])
    assert content is not None
    assert content.mime_type == "application/json"
    assert Report.model_validate_json(content.text) == report


async def test_big_content_blocks_are_a_link_too(tmp_path: Path) -> None:
    picture = ImageContent(type="image", data="a" * 4_000, mime_type="image/png")
    painter = answering(list[ImageContent], [picture])
    async with served(tmp_path, painter, max_result_bytes=2_000) as server, server.client() as client:
        link = link_in(server, await call(client, "answer"))
        (text,) = await pages_by_tool(client, link)
    assert json.loads(text) == [picture.model_dump(mode="json", by_alias=True, exclude_none=True)]


async def test_a_page_that_there_is_not_is_refused_with_their_number(tmp_path: Path) -> None:
    writer = answering(str, "x" * 20_000)
    async with served(tmp_path, writer, max_result_bytes=9_000) as server, server.client() as client:
        link = link_in(server, await call(client, "answer"))
        beyond = await call(client, "process_result", processId=link["processId"], page=99)
        none = await call(client, "process_result", processId=link["processId"], page=0)
    assert beyond.is_error
    assert f"has the pages 1 to {link['pages']}; came 99." in text_of(beyond)
    assert "page: should be at least 1" in text_of(none)


class Nothing(BaseModel):
    content: str


@agent(description="Is not done")
class Endless:
    @achieves_goal(description="Nothing", export=Export(remote=True, name="answer", long=True, wait_budget=0.05))
    async def wait(self, context: ActionContext) -> Nothing:
        await anyio.sleep_forever()
        return Nothing(content="")


async def test_what_has_no_result_says_how_it_stands(tmp_path: Path) -> None:
    async with served(tmp_path, Endless()) as server, server.client() as client:
        handle: Any = (await call(client, "answer")).structured_content
        refused = await call(client, "process_result", processId=handle["processId"])
        assert refused.is_error
        assert "has no result to read. It is running: process_status tells how it goes on" in text_of(refused)


class Small(BaseModel):
    size: Literal["s", "m"]
    number: int | None
    point: tuple[float, float]


@pytest.mark.parametrize(
    ("output", "large"),
    [
        (str, True),
        (list[int], True),
        (Report, True),
        (Numbers, True),
        (dict[str, int], True),
        (int, False),
        (Small, False),
    ],
)
def test_a_goal_says_that_its_result_may_be_a_link_unless_it_is_always_small(
    tmp_path: Path,
    output: Any,
    large: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    found = published(tmp_path, answering(output, None))
    schema = found.tools["answer"].tool.output_schema or {}
    assert ("LargeResult" in [each.get("title") for each in schema.get("anyOf", ())]) is large
    assert ("process_result" in found.tools) is large


async def test_a_picture_below_the_limit_is_no_link(tmp_path: Path) -> None:
    async with served(tmp_path, answering(ImageContent, IMAGE)) as server, server.client() as client:
        assert (await call(client, "answer")).content == [IMAGE]
