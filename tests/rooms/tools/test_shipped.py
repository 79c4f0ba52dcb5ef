"""The tools that this repository ships with, as a client and an agent get them."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import available_timezones

import anyio
import pytest

from goalport.tools import ToolGroup, ToolResult
from goalport.workspace import Workspace, load_workspace, workspace_importer

SHIPPED = Path(__file__).parents[3] / "tools"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with workspace_importer(tmp_path):
        shutil.copytree(SHIPPED, tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        yield load_workspace(tmp_path)


async def exported(workspace: Workspace, name: str, **arguments: object) -> ToolResult:
    (found,) = [each for each in workspace.exported_tools() if each.name == name]
    with anyio.fail_after(60):
        return await found.call(arguments)


async def from_group(workspace: Workspace, name: str, **arguments: object) -> str:
    (group,) = workspace.values(ToolGroup)
    (found,) = [each for each in group.tools if each.name == name]
    with anyio.fail_after(60):
        return (await found.call(arguments)).text


def test_clients_get_the_clock_and_the_calculator_without_rounding(workspace: Workspace) -> None:
    assert workspace.problems == ()
    assert [each.name for each in workspace.exported_tools()] == [
        "calc_add",
        "calc_divide",
        "calc_largest",
        "calc_mean",
        "calc_multiply",
        "calc_smallest",
        "calc_subtract",
        "current_time",
        "days_between",
    ]


def test_a_model_is_told_what_each_tool_is_for(workspace: Workspace) -> None:
    for each in workspace.exported_tools():
        assert each.description[0].isupper()
        assert each.title
        assert each.read_only


def test_agents_get_the_whole_calculator_as_the_group_math(workspace: Workspace) -> None:
    (group,) = workspace.values(ToolGroup)

    names = "add subtract multiply divide mean smallest largest round_to round_down round_up"
    assert (group.role, [each.name for each in group.tools]) == ("math", names.split())


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("add", {"a": 1, "b": 2.5}, "3.5"),
        ("subtract", {"a": 1, "b": 2.5}, "-1.5"),
        ("multiply", {"a": "4", "b": "0.5"}, "2.0"),
        ("divide", {"a": 1, "b": 4}, "0.25"),
        ("divide", {"a": 1, "b": 0}, "1.0 cannot be divided by zero. Call again with another divisor."),
        ("mean", {"numbers": [1, 2, 6]}, "3.0"),
        ("smallest", {"numbers": [3, -1, 2]}, "-1.0"),
        ("largest", {"numbers": [3, -1, 2]}, "3.0"),
        ("round_to", {"number": 2.345, "digits": 1}, "2.3"),
        ("round_down", {"number": -1.5}, "-2"),
        ("round_up", {"number": -1.5}, "-1"),
    ],
)
async def test_the_calculator_calculates(
    workspace: Workspace, name: str, arguments: dict[str, object], text: str
) -> None:
    assert await from_group(workspace, name, **arguments) == text


async def test_the_mean_of_nothing_is_asked_for_in_vain(workspace: Workspace) -> None:
    assert "numbers: should have at least 1 item" in await from_group(workspace, "mean", numbers=[])


@pytest.mark.skipif(not available_timezones(), reason="this machine has no time zone database")
async def test_the_time_is_now_in_the_zone_that_was_asked_for(workspace: Workspace) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    here = await exported(workspace, "current_time")
    there = await exported(workspace, "current_time", zone="Asia/Kathmandu")

    assert here.structured is not None
    assert there.structured is not None
    assert here.structured["zone"] == "UTC"
    assert str(there.structured["iso"]).endswith("+05:45")
    for each in (here, there):
        assert before <= datetime.fromisoformat(str((each.structured or {})["iso"])) <= datetime.now(UTC)


@pytest.mark.skipif(not available_timezones(), reason="this machine has no time zone database")
@pytest.mark.parametrize("zone", ["Europe/Madird", "../etc/passwd", "", "Nowhere"])
async def test_an_unknown_zone_is_explained(workspace: Workspace, zone: str) -> None:
    result = await exported(workspace, "current_time", zone=zone)

    assert result.is_error
    assert result.text.startswith(f"There is no time zone {zone!r}. ")
    assert ("Europe/Madrid" in result.text) == (zone == "Europe/Madird")


async def test_days_are_counted_with_leap_years(workspace: Workspace) -> None:
    forward = await exported(workspace, "days_between", first="2024-02-28", second="2024-03-10")
    backward = await exported(workspace, "days_between", first="2024-03-01", second="2024-02-28")

    assert forward.structured == {"days": 11, "weeks": 1, "remaining_days": 4}
    assert backward.structured == {"days": -2, "weeks": 0, "remaining_days": 2}
    assert (await exported(workspace, "days_between", first="yesterday", second="2024-02-28")).is_error
