"""The list of docs/migrating.md: what each section of the original's user guide is here, and where that is tested."""

import re
from collections import defaultdict
from itertools import pairwise
from typing import Final

import pytest
from mcp_types import CallToolResult

from agents.handbook.agent import Handbook
from goalport import AgentPlatform
from goalport.testing import client_of
from tests.docs.fences import ROOT

SECTIONS: Final = 192
"""How many the guide has."""
_CODE: Final = re.compile(r"`([^`]+)`")


def tables() -> tuple[str, str]:
    """The list, and the table of properties below it."""
    page = (ROOT / "docs/migrating.md").read_text(encoding="utf-8")
    sections, _, properties = page.partition("## The sections of Embabel's guide\n")[2].partition("### Properties\n")
    return sections, properties


def rows(table: str) -> list[list[str]]:
    """The cells of each row but those of the headings."""
    found = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in table.splitlines() if line.startswith("| ")]
    return [each for each in found if each[0] not in {"section", "there"}]


LIST: Final = rows(tables()[0])


def number(row: list[str]) -> tuple[int, ...]:
    return tuple(map(int, row[0].split()[0].split(".")))


def test_each_section_is_there_once_and_in_order() -> None:
    numbers = list(map(number, LIST))
    assert len(numbers) == SECTIONS
    assert all(one < other for one, other in pairwise(numbers))
    below: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for each in numbers:
        below[each[:-1]].append(each[-1])
    for parent, last in below.items():
        assert last == list(range(1, len(last) + 1)), parent
        assert not parent or parent in numbers


@pytest.mark.parametrize("row", LIST, ids=lambda row: row[0].split()[0])
def test_a_section_says_what_it_is_here_and_where_that_is_tested(row: list[str]) -> None:
    _, here, tested = row
    assert "missing" not in here
    files = _CODE.findall(tested)
    if not files:
        assert re.fullmatch(r"nothing to have: \w.*", here)
        return
    assert "](" in here or here == "this page"
    for each in files:
        assert re.search(r"^(async )?def test_", (ROOT / "tests" / each).read_text(encoding="utf-8"), re.MULTILINE), (
            each
        )


async def test_what_only_the_guide_calls_so_is_found_by_that_name() -> None:
    """A word that other pages use too may be found there: they say what it is."""
    names = {_in_python(name) for row in [*LIST, *rows(tables()[1])] for name in _CODE.findall(row[0])}
    others = [each for each in (ROOT / "docs").glob("*.md") if each.name != "migrating.md"]
    elsewhere = _in_python("\n".join(each.read_text(encoding="utf-8") for each in [ROOT / "README.md", *others]))
    wanted = sorted(each for each in names if re.fullmatch(r"\w{3,}", each) and each not in elsewhere)
    assert len(wanted) > 100
    async with client_of(AgentPlatform([Handbook()])) as client:
        for word in wanted:
            result = await client.call_tool("search_docs", {"query": word, "limit": 5})
            assert isinstance(result, CallToolResult)
            assert result.structured_content is not None
            assert any(word in _in_python(each["excerpt"]) for each in result.structured_content["hits"]), word


def _in_python(text: str) -> str:
    """Names as code here would have them, so that `max-attempts` is `max_attempts`, and `@Cost` is `cost`."""
    return text.replace("-", "_").strip("@_").lower()
