"""Every rule of the house holds here, and every rule can fail: each is shown a small repository that breaks it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house import distribution, failures, floors, rooms, sizes, state, words
from tests.house.tree import ROOT

Rule = Callable[[Path], Iterable[str]]

RULES: tuple[Rule, ...] = (
    distribution.documented_commands_exist,
    distribution.locks_agree,
    distribution.locks_pin_with_hashes_and_no_address,
    distribution.the_guide_for_contributors_is_short,
    distribution.the_guide_for_contributors_names_files_that_are_there,
    distribution.version_and_changelog_agree,
    failures.only_the_edges_catch_everything,
    failures.tests_take_no_short_cuts,
    floors.agents_stand_alone,
    floors.imports_point_downwards,
    floors.nothing_of_ours_hides_under_type_checking,
    floors.the_sdk_stays_where_messages_go,
    floors.workspace_folders_are_no_packages,
    sizes.classes_are_small,
    sizes.files_are_short,
    sizes.functions_are_short,
    sizes.signatures_are_short,
    state.state_is_changed_by_its_owner,
    words.classes_are_named_after_a_thing,
    words.modules_are_named_after_a_thing,
    words.modules_say_what_they_are,
    words.nothing_is_a_stub,
    words.nothing_is_left_for_later,
    words.rooms_say_what_is_public,
)


@dataclass(frozen=True)
class Case:
    rule: Rule
    path: str
    text: str
    says: str = ""
    """A part of the one complaint; empty: there is none."""


def lines(count: int, line: str = "x = 1\n") -> str:
    return line * count


PYPROJECT = '[project]\ndependencies = ["pydantic>=2"]\n[dependency-groups]\ndev = ["pytest"]\n'
PINNED = f"pydantic==2.1 --hash=sha256:{'0' * 64}\n"
PINNED_TOOLS = PINNED + f"pytest==9.0 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}\n"
EVERYWHERE = {
    "pyproject.toml": PYPROJECT,
    "requirements.lock": PINNED,
    "requirements-dev.lock": PINNED_TOOLS,
    "CHANGELOG.md": "# Changelog\n\n## [1.2.0] - Unreleased\n\n## [1.1.0]\n",
    "CONTRIBUTING.md": "Run `make test`.\n",
    "Makefile": "test: x\n\tpytest\n",
    "src/goalport/__init__.py": '"""A library."""\n\n__version__ = "1.2.0"\n',
}

DOWN = floors.imports_point_downwards
HIDDEN = floors.nothing_of_ours_hides_under_type_checking
SDK = floors.the_sdk_stays_where_messages_go
ALONE = floors.agents_stand_alone
SIGNATURES = sizes.signatures_are_short
EDGES = failures.only_the_edges_catch_everything
SHORT_CUTS = failures.tests_take_no_short_cuts
STUB = words.nothing_is_a_stub
PUBLIC = words.rooms_say_what_is_public
THING = words.classes_are_named_after_a_thing
OWNED = state.state_is_changed_by_its_owner
LOCKS = distribution.locks_pin_with_hashes_and_no_address
AGREE = distribution.locks_agree
VERSION = distribution.version_and_changelog_agree
COMMANDS = distribution.documented_commands_exist

PLAN, SERVE, BOARD, PROCESS = (
    "src/goalport/agents/plan/astar.py",
    "src/goalport/server/doors/mcp/server.py",
    "src/goalport/agents/blackboard/edge.py",
    "src/goalport/runtime/process/edge.py",
)
AGENT, AGENT_FOLDER = "agents/one.py", "agents/two/__init__.py"
SEVEN = "a, b, c, d, e, f, g"
HALVES = "def _half():\n    return 1\ndef _all():\n    return 2\n"

BROKEN = (
    Case(DOWN, PLAN, "from goalport.runtime.process import tick", "agents.plan imports runtime.process, which is not"),
    Case(DOWN, PLAN, "import goalport.runtime.process.tick", "astar.py:1: agents.plan imports runtime.process"),
    Case(DOWN, PLAN, "def f():\n    from goalport.runtime import process", "astar.py:2: agents.plan imports runtime"),
    Case(DOWN, PLAN, "from ...server.web import door", "agents.plan imports server.web"),
    Case(DOWN, PLAN, "from ... import cli", "agents.plan imports cli"),
    Case(DOWN, PLAN, "from importlib import import_module\nimport_module('goalport.cli')", "agents.plan imports cli"),
    Case(DOWN, PLAN, "from goalport.agents.blackboard import x", "agents.plan imports agents.blackboard"),
    Case(DOWN, PLAN, "from goalport import UserInput", "imports the package itself"),
    Case(DOWN, "src/goalport/store/codec.py", "from goalport import cli", "store imports cli"),
    Case(DOWN, SERVE, "from goalport.server.doors.rest import door", "doors.mcp imports server.doors.rest"),
    Case(DOWN, "src/goalport/cli/app.py", "import goalport.testing", "cli imports testing"),
    Case(DOWN, "src/goalport/__init__.py", "from goalport import testing", "the package itself imports testing"),
    Case(DOWN, "src/goalport/garage/car.py", "x = 1", "garage is no room yet; place it on a floor"),
    Case(
        HIDDEN,
        PLAN,
        "if TYPE_CHECKING:\n    from goalport.base.errors import X",
        "astar.py:2: goalport.base.errors.X under",
    ),
    Case(HIDDEN, PLAN, "if typing.TYPE_CHECKING:\n    from . import x", "goalport.agents.plan.x under TYPE_CHECKING"),
    Case(SDK, PLAN, "from mcp.shared.inbound import x", "astar.py:1: agents.plan imports mcp.shared.inbound.x"),
    Case(SDK, PLAN, "def f():\n    import mcp", "astar.py:2: agents.plan imports mcp; only server.auth,"),
    Case(ALONE, AGENT, "import tools", "agent one imports tools"),
    Case(ALONE, AGENT, "from goalport_workspace.tools.maths import add", "imports goalport_workspace.tools.maths.add"),
    Case(ALONE, AGENT, "from . import two", "agent one imports agents.two"),
    Case(ALONE, AGENT_FOLDER, "from ..one import x", "agent two imports agents.one.x"),
    Case(ALONE, AGENT_FOLDER, "from agents.one import x", "agent two imports agents.one.x"),
    Case(ALONE, AGENT, "import pluggy", "agent one imports pluggy"),
    Case(ALONE, AGENT, "import server.app", "agent one imports server.app"),
    Case(floors.workspace_folders_are_no_packages, "agents/__init__.py", "", "agents/__init__.py: remove it"),
    Case(floors.workspace_folders_are_no_packages, "tools/__init__.py", "", "tools/__init__.py: remove it"),
    Case(sizes.files_are_short, PLAN, lines(801), "801 lines, at most 800"),
    Case(sizes.files_are_short, "tests/rooms/test_plan.py", lines(501), "501 lines, at most 500"),
    Case(sizes.functions_are_short, PLAN, "def f():\n" + lines(60, "    x = 1\n"), "f has 61 lines, at most 60"),
    Case(sizes.functions_are_short, AGENT, "class A:\n  async def f():\n" + lines(60, "    x = 1\n"), "f has 61 lines"),
    Case(SIGNATURES, PLAN, f"def f({SEVEN}, h): ...", "f takes 8 parameters, at most 7"),
    Case(SIGNATURES, PLAN, f"def f({SEVEN}, **rest): ...", "f takes 8 parameters"),
    Case(SIGNATURES, PLAN, f"class A:\n    def f(self, {SEVEN}, h): ...", "f takes 8 parameters"),
    Case(SIGNATURES, PLAN, f"class A:\n    @staticmethod\n    def f({SEVEN}, h): ...", "f takes 8 parameters"),
    Case(sizes.classes_are_small, PLAN, "class A:\n" + lines(400, "    x = 1\n"), "A has 401 lines, at most 400"),
    Case(
        sizes.classes_are_small,
        PLAN,
        "class A:\n" + "".join(f"    def f{number}(self): ...\n" for number in range(21)),
        "A has 21 methods, at most 20",
    ),
    Case(OWNED, BOARD, "def f(question):\n    question.status = 'open'", "edge.py:2: changes question.status"),
    Case(OWNED, BOARD, "class A:\n    def f(self):\n        self.journal.parked = 1", "changes self.journal.parked"),
    Case(OWNED, BOARD, "def f(journal):\n    journal.results['a'] = 1", "changes journal.results"),
    Case(OWNED, BOARD, "def f(journal):\n    del journal.results['a']", "changes journal.results"),
    Case(OWNED, BOARD, "def f(process):\n    process.usage += 1", "changes process.usage"),
    Case(OWNED, BOARD, "def f(process):\n    process.plan, b = 1, 2", "changes process.plan"),
    Case(OWNED, BOARD, "def f(board):\n    board.stated.clear()", "changes board.stated"),
    Case(words.modules_are_named_after_a_thing, "src/goalport/agents/plan/utils.py", "", "utils says nothing"),
    Case(words.modules_are_named_after_a_thing, "agents/one/common/x.py", "", "common says nothing"),
    Case(THING, PLAN, "class ToolManager: ...", "class ToolManager; Manager says nothing"),
    Case(THING, PLAN, "class _BasePlan: ...", "Base says nothing"),
    Case(THING, PLAN, "class MCPImpl: ...", "Impl says nothing"),
    Case(words.modules_say_what_they_are, PLAN, "x = 1", "astar.py: no docstring"),
    Case(words.modules_say_what_they_are, "tools/maths.py", "# comment", "tools/maths.py: no docstring"),
    Case(PUBLIC, "src/goalport/agents/plan/__init__.py", "x = 1", "plan/__init__.py: no __all__"),
    Case(words.nothing_is_left_for_later, PLAN, "x = 1  # TODO: y", "astar.py:1: TODO"),
    Case(words.nothing_is_left_for_later, "tests/test_x.py", "# FIXME", "FIXME"),
    Case(STUB, PLAN, "def f() -> None: ...", "f does nothing"),
    Case(
        STUB, AGENT, 'class A:\n    def f(self):\n        "Text."\n        raise NotImplementedError', "f does nothing"
    ),
    Case(EDGES, PLAN, "try: x\nexcept Exception: y", "astar.py:2: catches everything"),
    Case(EDGES, PLAN, "try: x\nexcept: y", "catches everything"),
    Case(EDGES, PLAN, "try: x\nexcept (ValueError, BaseException) as e: y", "catches everything"),
    Case(EDGES, PLAN, "try: x\nexcept* Exception: y", "catches everything"),
    Case(EDGES, PLAN, "with contextlib.suppress(Exception): y", "catches everything"),
    Case(EDGES, AGENT, "try: x\nexcept builtins.Exception: y", "catches everything"),
    Case(EDGES, SERVE, lines(2, "try: x\nexcept Exception: y\n"), "server.py:4: catches everything"),
    Case(SHORT_CUTS, "tests/test_x.py", "from unittest.mock import Mock", "test_x.py:1: a mock"),
    Case(SHORT_CUTS, "tests/test_x.py", "@pytest.mark.xfail\ndef test(): ...", "an expected failure"),
    Case(SHORT_CUTS, "tests/test_x.py", "time.sleep(1)", "a sleep"),
    Case(LOCKS, "requirements.lock", "pydantic==2.1\n", "expected name==version with hashes, found 'pydantic==2.1'"),
    Case(LOCKS, "requirements.lock", f"--index-url https://x.test/simple\n{PINNED}", "found '--index-url"),
    Case(LOCKS, "tests/clients/one.lock", f"a @ https://x.test/a.whl --hash=sha256:{'0' * 64}", "found 'a @ https"),
    Case(LOCKS, "tests/clients/node/package-lock.json", '{"resolved": "https://x.test/a.tgz"}', "names addresses"),
    Case(AGREE, "requirements.lock", "", "requirements.lock: has None, pyproject.toml wants pydantic>=2"),
    Case(AGREE, "requirements-dev.lock", PINNED, "requirements-dev.lock: has None, pyproject.toml wants pytest"),
    Case(
        AGREE,
        "requirements-dev.lock",
        PINNED_TOOLS.replace("2.1", "2.2"),
        "requirements-dev.lock: pydantic 2.2, but 2.1 in requirements.lock",
    ),
    Case(VERSION, "CHANGELOG.md", "## [1.1.0]\n", "__version__ is 1.2.0, the top of CHANGELOG.md is 1.1.0"),
    Case(VERSION, "src/goalport/__init__.py", "x = 1", "__version__ is None"),
    Case(COMMANDS, "README.md", "Run `make coffee`.", "README.md: shows `make coffee`"),
    Case(COMMANDS, "docs/start.md", "```\n$ make coffee\n```", "docs/start.md: shows `make coffee`"),
    Case(distribution.the_guide_for_contributors_is_short, "CONTRIBUTING.md", lines(100), "100 lines, fewer than 100"),
    Case(
        distribution.the_guide_for_contributors_names_files_that_are_there,
        "CONTRIBUTING.md",
        "See `src/goalport` and `<name>/x.py`.\nA car: `garage/car.py`",
        "CONTRIBUTING.md:2: there is no garage/car.py here or in src/goalport",
    ),
)

KEPT = (
    Case(
        DOWN,
        SERVE,
        "from goalport.runtime.process import x\nfrom goalport.server.doors.mcp.y import Y\nimport starlette",
    ),
    Case(DOWN, SERVE, "from goalport import __version__"),
    Case(DOWN, "src/goalport/testing/client.py", "from goalport import Ai\nfrom goalport.cli import main"),
    Case(DOWN, "src/goalport/__main__.py", "from goalport.cli import main"),
    Case(HIDDEN, PLAN, "if TYPE_CHECKING:\n    from collections.abc import Iterator"),
    Case(SDK, SERVE, "from mcp.server import Server"),
    Case(SDK, PLAN, "from mcp_types import Tool"),
    Case(
        ALONE,
        AGENT,
        "import json, pydantic.types\nfrom goalport.agents.plan import x\nfrom goalport_workspace.agents.one import y",
    ),
    Case(ALONE, AGENT_FOLDER, "from .census import x\nfrom . import y\nfrom agents.two import z"),
    Case(sizes.files_are_short, PLAN, lines(800)),
    Case(sizes.files_are_short, "tests/clients/node/node_modules/x.py", lines(900)),
    Case(sizes.functions_are_short, PLAN, "def f():\n" + lines(39, "    x = 1\n")),
    Case(SIGNATURES, PLAN, f"class A:\n    def f(self, {SEVEN}): ...\n    def with_x(self, {SEVEN}, *, h): ..."),
    Case(SIGNATURES, PLAN, f"def f(x, *, {SEVEN}, h): ...\nclass A:\n    def __init__(self, {SEVEN}, h): ..."),
    Case(sizes.classes_are_small, PLAN, "class Blackboard:\n" + lines(300, "    x = 1\n")),
    Case(THING, PLAN, "class UtilityPlanner: ...\nclass Implementation(BaseModel): ...\nclass Managers: ..."),
    Case(OWNED, PLAN, "def f(question):\n    question.status = 'open'"),
    Case(OWNED, BOARD, "def f(process):\n    process.blackboard.add(1)\n    plan = {}\n    plan['a'] = 1"),
    Case(OWNED, BOARD, "class A:\n    def f(self, other):\n        self.a = 1\n        other.a = 1"),
    Case(words.modules_are_named_after_a_thing, "tests/types/test_x.py", ""),
    Case(words.nothing_is_left_for_later, AGENT, 'words = ("TODO", "FIXME")'),
    Case(STUB, PLAN, "class A(Protocol):\n    def f(self): ...\n@overload\ndef g(x): ...\ndef g(x): return x"),
    Case(PUBLIC, PLAN, "x = 1"),
    Case(EDGES, PLAN, "try: x\nexcept ValueError: y"),
    Case(EDGES, SERVE, "try: x\nexcept Exception: y\n"),
    Case(EDGES, PROCESS, lines(3, "try: x\nexcept Exception: y\n")),
    Case(AGREE, "requirements.lock", PINNED),
    Case(LOCKS, "requirements.lock", PINNED_TOOLS.replace(" \\\n", " ; sys_platform != 'win32' \\\n", 1)),
    Case(VERSION, "README.md", ""),
    Case(COMMANDS, "README.md", "Users make mistakes; `make test` finds them.\n"),
)


def repository(root: Path, case: Case) -> Path:
    for path, text in (EVERYWHERE | {case.path: case.text}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def named(case: Case) -> str:
    return f"{case.rule.__name__}: {case.path}"


def test_the_house_keeps_its_rules() -> None:
    complaints = [f"{rule.__name__}: {each}" for rule in RULES for each in rule(ROOT)]  # one test parses all files once
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("case", BROKEN, ids=named)
def test_a_broken_rule_is_one_complaint_that_says_where_and_why(case: Case, tmp_path: Path) -> None:
    (complaint,) = case.rule(repository(tmp_path, case))
    assert case.says in complaint


@pytest.mark.parametrize("case", KEPT, ids=named)
def test_what_a_rule_allows_is_no_complaint(case: Case, tmp_path: Path) -> None:
    assert list(case.rule(repository(tmp_path, case))) == []


def test_the_size_of_the_library_is_written_down_as_it_is(tmp_path: Path) -> None:
    assert list(sizes.the_library_is_as_large_as_written_down(ROOT)) == []
    repository(tmp_path, Case(SIGNATURES, PLAN, lines(997)))
    assert list(sizes.the_library_is_as_large_as_written_down(tmp_path, 1000)) == []
    (grown,) = sizes.the_library_is_as_large_as_written_down(tmp_path, 999)
    assert "1000 lines, at most 999" in grown
    (shrunk,) = sizes.the_library_is_as_large_as_written_down(tmp_path, 2000)
    assert "1000 lines, 2000 are written down" in shrunk


def test_into_how_many_parts_the_library_is_cut_is_written_down(tmp_path: Path) -> None:
    assert list(sizes.the_library_has_as_few_parts_as_written_down(ROOT)) == []
    repository(tmp_path, Case(SIGNATURES, PLAN, lines(5) + HALVES + "_half()\n"))  # beside the package's own two lines
    most = sizes.Parts(modules=2, functions_per_1000_lines=153.8, percent_called_once=50.0)
    assert list(sizes.the_library_has_as_few_parts_as_written_down(tmp_path, most)) == []
    less = sizes.Parts(modules=1, functions_per_1000_lines=153.7, percent_called_once=49.9)
    told = "\n".join(sizes.the_library_has_as_few_parts_as_written_down(tmp_path, less))
    assert "modules 2, at most 1;" in told
    assert "functions_per_1000_lines 153.8, at most 153.7;" in told
    assert "percent_called_once 50.0, at most 49.9;" in told


def test_the_report_counts_rooms_and_names_what_may_be_more_parts_than_ideas(tmp_path: Path) -> None:
    repository(
        tmp_path,
        Case(SIGNATURES, PLAN, '"""A.\n\nB."""\n\nfrom goalport.agents.plan.cut import cut\n\n\ncut()  # now\n'),
    )
    (tmp_path / "src/goalport/agents/plan/cut.py").write_text(
        "def cut():\n    return _half() + _all() + _all()\n" + HALVES
    )
    assert rooms.Room("agents.plan", 2, 14, 8, 3, 1) in rooms.rooms(tmp_path)
    assert list(rooms.modules_of_one_user(tmp_path)) == [
        "goalport.agents.plan.cut (6 lines) is used by goalport.agents.plan.astar alone"
    ]
    assert list(rooms.functions_called_once(tmp_path)) == ["src/goalport/agents/plan/cut.py:3: _half"]
    assert "| agents.plan | 2 | 14 | 8 | 3 | 1 (33.3 %) |" in rooms.report(tmp_path)


def test_each_rule_is_seen_to_fail() -> None:
    assert {case.rule for case in BROKEN} == set(RULES)
