"""What a wheel contains, what the package offers at its root, and what importing it costs."""

import ast
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

import goalport
from tests.house.distribution import wheel_contents
from tests.house.floors import FLOORS
from tests.house.tree import ROOT

PLANNED = frozenset(
    [
        "ActionContext",
        "A2aAgent",
        "AgentInvocation",
        "AgentPlatform",
        "AgentProcess",
        "Ai",
        "Blackboard",
        "Budget",
        "Export",
        "LlmOptions",
        "McpToolExport",
        "Named",
        "OperationContext",
        "PlannerType",
        "Persona",
        "PlannerType",
        "ProcessOptions",
        "ProcessStatus",
        "Provided",
        "SomeOf",
        "State",
        "Tool",
        "ToolGroup",
        "ToolObject",
        "UserInput",
        "WaitFor",
        "achieves_goal",
        "action",
        "agent",
        "component",
        "condition",
        "cost",
        "run_subagent",
        "service",
        "settings",
        "state",
        "tool",
    ]
)
"""The plan of the house; a name beyond it is a decision."""
EXPORTED = [
    "A2aAgent",
    "ActionContext",
    "AgentInvocation",
    "AgentPlatform",
    "AgentProcess",
    "Ai",
    "Blackboard",
    "Budget",
    "Export",
    "LlmOptions",
    "McpToolExport",
    "Named",
    "OperationContext",
    "Persona",
    "PlannerType",
    "ProcessOptions",
    "ProcessStatus",
    "Provided",
    "SomeOf",
    "State",
    "Tool",
    "ToolGroup",
    "ToolObject",
    "UserInput",
    "WaitFor",
    "achieves_goal",
    "action",
    "agent",
    "component",
    "condition",
    "cost",
    "run_subagent",
    "service",
    "settings",
    "state",
    "tool",
]
"""What users have today. Taking one away breaks them; adding one is a promise."""
HEAVY = "anthropic mcp openai pydantic_ai sqlalchemy starlette uvicorn"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("goalport-*-py3-none-any.whl")
    return zipfile.ZipFile(built).namelist()


def test_the_wheel_brings_the_whole_package_its_licence_and_nothing_else(wheel: list[str]) -> None:
    assert list(wheel_contents(ROOT, wheel)) == []


def test_a_wheel_with_a_stranger_or_a_gap_is_refused(tmp_path: Path) -> None:
    (tmp_path / "src/goalport/console").mkdir(parents=True)
    (tmp_path / "src/goalport/console/page.html").touch()
    licence = "goalport-1.0.dist-info/licenses/LICENSE"
    whole = ["goalport/py.typed", "goalport/console/page.html", licence]
    assert list(wheel_contents(tmp_path, whole)) == []
    assert [*wheel_contents(tmp_path, [*whole, "agents/star.py"])] == [
        "agents/star.py: a wheel of ours contains goalport/ and its own metadata only"
    ]
    assert [*wheel_contents(tmp_path, [licence])] == [
        "goalport/console/page.html: missing from the wheel",
        "goalport/py.typed: missing from the wheel",
    ]
    assert [*wheel_contents(tmp_path, whole[:2])] == ["LICENSE: missing from the wheel"]


def test_the_root_offers_exactly_the_pinned_names() -> None:
    offered = list(getattr(goalport, "__all__", ()))
    assert offered == EXPORTED == sorted(EXPORTED)
    assert [name for name in offered if not hasattr(goalport, name)] == []


@pytest.mark.parametrize(
    "stub", sorted((ROOT / "src/goalport").rglob("__init__.pyi")), ids=lambda each: each.parent.name
)
def test_type_checkers_are_told_of_the_same_names_as_the_interpreter(stub: Path) -> None:
    package = import_module(".".join(stub.parent.relative_to(ROOT / "src").parts))
    declared = ast.parse(stub.read_text("utf-8"))
    told = list[str]()
    for node in (each for each in ast.walk(declared) if isinstance(each, ast.ImportFrom)):
        room = import_module(node.module or "")
        told += room.__all__ if node.names[0].name == "*" else [each.asname for each in node.names if each.asname]
    assert sorted(told) == sorted(package.__all__)
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_the_pinned_names_are_in_the_plan() -> None:
    assert set(EXPORTED) <= PLANNED


def test_no_room_bears_the_name_of_a_root_export() -> None:
    called = {"settings"}  # this room can be called, and is then the decorator
    assert PLANNED.isdisjoint({*FLOORS, "testing"} - called)


def heavy_after(statement: str) -> list[str]:
    program = f"{statement}\nimport sys\nprint(*sorted(set({HEAVY.split()!r}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    return run.stdout.split()


def test_importing_goalport_brings_no_heavy_library() -> None:
    assert heavy_after("import goalport") == []


def test_a_heavy_library_would_be_seen() -> None:
    assert "starlette" in heavy_after("import goalport, starlette.routing")
