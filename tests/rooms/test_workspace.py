"""Loading a workspace: what is imported, what is found in it, and what its author is told."""

import sys
from pathlib import Path

import pytest

from goalport.base.errors import WorkspaceError
from goalport.tools import McpToolExport, Tool, ToolGroup
from goalport.workspace import Workspace, load_workspace, workspace_importer

AGENT = """
from goalport.agents.domain import achieves_goal, agent

@agent(description="Greets")
class {name}:
    @achieves_goal(description="Greet")
    def greet(self) -> str:
        return "hello"
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


@pytest.fixture(autouse=True)
def leave_no_modules(tmp_path: Path) -> object:
    with workspace_importer(tmp_path):
        yield


def names(workspace: Workspace) -> list[str]:
    return [each.name for each in workspace.modules]


def told(workspace: Workspace) -> list[str]:
    return [str(each).removeprefix(f"{workspace.root}/") for each in workspace.problems]


def test_modules_and_packages_load_in_the_order_of_their_names_agents_first(tmp_path: Path) -> None:
    files = ["agents/b.py", "agents/a/__init__.py", "agents/a/part.py", "tools/c.py", "agents/_private.py"]
    files += ["agents/.hidden.py", "agents/notes.txt", "agents/prompts/a.jinja", "agents/__pycache__/x.py"]

    workspace = load_workspace(write(tmp_path, dict.fromkeys(files, "value = 1")))

    assert names(workspace) == ["agents.a", "agents.b", "tools.c"]
    assert told(workspace) == []
    assert [each.path.name for each in workspace.modules] == ["__init__.py", "b.py", "c.py"]


def test_modules_are_imported_under_a_name_that_no_installed_package_has(tmp_path: Path) -> None:
    write(tmp_path, {"agents/news.py": "from goalport_workspace.tools.maths import x", "tools/maths.py": "x = 1"})
    installed = sys.modules.get("agents")

    workspace = load_workspace(tmp_path)

    assert sys.modules["goalport_workspace.agents.news"] is workspace.modules[0].module
    assert vars(workspace.modules[0].module)["x"] == 1
    assert sys.modules.get("agents") is installed


def test_an_agent_of_several_files_imports_its_own_relatively(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "agents/report/__init__.py": "from .agent import Report as Report",
            "agents/report/agent.py": "from . import words" + AGENT.format(name="Report"),
            "agents/report/words.py": "",
        },
    )

    workspace = load_workspace(tmp_path)

    assert told(workspace) == []
    assert [type(each).__name__ for each in workspace.agents()] == ["type"]


def test_only_agents_tools_and_server_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, {"agents/a.py": "from goalport_workspace.docs import app", "docs/app.py": ""})

    assert "No module named 'goalport_workspace.docs'" in told(load_workspace(tmp_path))[0]


def test_modules_in_server_are_loaded_but_not_the_app_that_serves_the_workspace(tmp_path: Path) -> None:
    workspace = load_workspace(write(tmp_path, {"server/app.py": "1 / 0", "server/shop.py": "x = 1"}))

    assert (names(workspace), told(workspace)) == (["server.shop"], [])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\ny = (\n", 2, "SyntaxError: '(' was never closed"),
        ("import os\nimport surely_not_there\n", 2, "No module named 'surely_not_there'. Install it where goalport is"),
        ("\nfrom agents.other import x\n", 2, "Modules of a workspace are imported as goalport_workspace.agents"),
        ("def f():\n    return 1 / 0\nf()\n", 2, "ZeroDivisionError: division by zero"),
        ("raise KeyError\n", 1, "KeyError"),
        ("import sys\nsys.exit('bye')\n", 2, "it ends the program when it is imported (exit code bye)"),
        ("import asyncio\nraise asyncio.CancelledError\n", 2, "CancelledError"),
        ("import json\njson.loads('x')\n", 2, "JSONDecodeError: Expecting value"),
        ("from goalport_workspace.agents.b import y\n", 1, "ImportError: cannot import name 'y'"),
        ("from goalport.tools import ToolObject\n\nToolObject([])\n", 3, "Unpack it"),
        ("x = '\0'", None, "null bytes"),
    ],
)
def test_a_module_that_fails_is_reported_with_its_line_and_the_others_load(
    tmp_path: Path, text: str, line: int | None, message: str
) -> None:
    workspace = load_workspace(write(tmp_path, {"agents/a.py": text, "agents/b.py": "x = 1", "tools/c.py": ""}))

    assert names(workspace) == ["agents.b", "tools.c"]
    (problem,) = workspace.problems
    assert (problem.module, problem.path, problem.line) == ("agents.a", workspace.root / "agents" / "a.py", line)
    assert message in problem.message
    assert "Traceback" not in problem.message


def test_an_interruption_by_the_user_is_not_a_problem_of_the_module(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_workspace(write(tmp_path, {"agents/a.py": "raise KeyboardInterrupt"}))


def test_a_failure_inside_a_package_is_reported_in_the_file_where_it_is(tmp_path: Path) -> None:
    write(tmp_path, {"agents/a/__init__.py": "from .part import x", "agents/a/part.py": "\n\n1 / 0\n"})

    assert told(load_workspace(tmp_path)) == ["agents/a/part.py:3: ZeroDivisionError: division by zero"]


def test_what_cannot_be_a_module_is_reported_with_the_fix(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "agents/__init__.py": "x = 1",
            "agents/class.py": "",
            "agents/my-agent.py": "",
            "agents/no_init/agent.py": "",
            "agents/twin.py": "",
            "agents/twin/__init__.py": "x = 1",
            "tools": "",
        },
    )
    (tmp_path / "agents" / "lost.py").symlink_to(tmp_path / "nowhere.py")

    workspace = load_workspace(tmp_path)

    assert names(workspace) == ["agents.twin"]
    assert told(workspace) == [
        "agents/__init__.py: it is not run: agents/ is no package of its own. Move what it says to a module beside it.",
        "agents/class.py: 'class' cannot be the name of a module. Rename it: letters, digits and underscores.",
        "agents/lost.py: there is no such file: it is a link that points nowhere.",
        "agents/my-agent.py: 'my-agent' cannot be the name of a module. Rename it: letters, digits and underscores.",
        "agents/no_init: the folder has Python files but no __init__.py. Add one.",
        "agents/twin.py: the folder twin/ beside it has the same name and hides it. Rename one of them.",
        "tools: should be a folder with modules, but it is a file.",
    ]


def test_an_empty_init_at_the_top_is_harmless(tmp_path: Path) -> None:
    workspace = load_workspace(write(tmp_path, {"agents/__init__.py": "", "agents/a.py": ""}))

    assert (names(workspace), told(workspace)) == (["agents.a"], [])


@pytest.mark.parametrize(("name", "came"), [("missing", "not there"), ("file", "a file")])
def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path, name: str, came: str) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    with pytest.raises(WorkspaceError, match=f"A workspace is a folder, but .*{name} is {came}. `goalport new"):
        load_workspace(tmp_path / name)


def test_an_empty_workspace_is_fine_and_gets_a_hint(tmp_path: Path) -> None:
    workspace = load_workspace(tmp_path)

    assert (workspace.modules, workspace.problems, workspace.agents(), workspace.exported_tools()) == ((), (), (), ())
    assert workspace.hints == (
        f"{tmp_path} has no agents/ folder. Put an agent in agents/NAME.py, or let `goalport new` make an example.",
    )


def test_agents_that_nothing_leads_to_get_a_hint(tmp_path: Path) -> None:
    write(tmp_path, {"agents/a/__init__.py": "", "agents/a/agent.py": AGENT.format(name="A")})

    assert load_workspace(tmp_path).hints == (
        f"{tmp_path}/agents/a/__init__.py defines nothing, so nothing of its folder is served. Import the agent there.",
        f"There is no agent in {tmp_path}/agents. Mark a class with @agent, at the top level of a module there.",
    )


def test_a_workspace_with_an_agent_gets_no_hint(tmp_path: Path) -> None:
    assert load_workspace(write(tmp_path, {"agents/a.py": AGENT.format(name="A")})).hints == ()


def test_a_builder_that_was_never_asked_to_build_its_agent_is_told_of(tmp_path: Path) -> None:
    text = "from goalport.runtime.workflow import AgentBuilder\n\nlenders = AgentBuilder('Lenders', component=True)\n"
    write(tmp_path, {"agents/a.py": text + AGENT.format(name="A"), "agents/b.py": f"{text}lender = lenders.build()\n"})
    assert load_workspace(tmp_path).hints == (
        f"{tmp_path}/agents/a.py: the builder of Lenders was never asked to build its agent. Write .build().",
    )


def test_agents_are_instances_and_classes_without_one_each_once_in_the_order_of_definition(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "agents/a.py": AGENT.format(name="First")
            + AGENT.format(name="Second")
            + AGENT.format(name="Third")
            + "from goalport_workspace.agents.b import Elsewhere, here\nsecond = alias = Second()\nnothing = object()",
            "agents/b.py": AGENT.format(name="Elsewhere") + "here = Elsewhere()\n",
            "tools/c.py": AGENT.format(name="NotAnAgentHere"),
        },
    )

    workspace = load_workspace(tmp_path)

    found = [each.__name__ if isinstance(each, type) else f"{type(each).__name__}()" for each in workspace.agents()]
    assert told(workspace) == []
    assert found == ["First", "Third", "Elsewhere()", "Second()"]


def test_a_class_that_another_module_imports_first_is_still_found_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "agents/a.py": "from goalport_workspace.agents.b import B",
            "agents/b.py": AGENT.format(name="B"),
        },
    )

    assert [getattr(each, "__name__", "") for each in load_workspace(tmp_path).agents()] == ["B"]


def test_a_marked_class_that_is_abstract_is_a_base_and_no_agent(tmp_path: Path) -> None:
    abstract = (
        "from abc import ABC, abstractmethod\nfrom goalport.agents import component\n\n@component\nclass Base(ABC):\n"
    )

    workspace = load_workspace(write(tmp_path, {"agents/a.py": f"{abstract}    @abstractmethod\n    def f(self): ..."}))

    assert workspace.agents() == ()
    (problem,) = workspace.problems
    assert "Base is marked as an agent, but abstract: it lacks f" in str(problem)


def test_programmatic_agents_are_found_like_classes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"agents/a.py": "from goalport.agents.domain import Agent\nmade = Agent(name='Made', description='x')"},
    )

    (made,) = load_workspace(tmp_path).agents()
    assert getattr(made, "name", None) == "Made"


TOOLS = """
from goalport.tools import McpToolExport, ToolGroup, ToolObject, prefixed, tool

@tool(export=True)
def shout(text: str) -> str:
    return text.upper()

@tool
def keep_quiet(text: str) -> str:
    return text

class Calculator:
    @tool
    def add(self, a: int, b: int) -> int:
        return a + b

exports = McpToolExport.from_tool_object(ToolObject(Calculator(), naming=prefixed("calc_")))
group = ToolGroup.of("math", Calculator())
again = group
"""


def test_exports_are_the_marked_functions_and_the_exports_sorted_by_name(tmp_path: Path) -> None:
    write(tmp_path, {"tools/a.py": TOOLS, "tools/b.py": "from goalport_workspace.tools.a import exports, group, shout"})

    workspace = load_workspace(tmp_path)

    assert told(workspace) == []
    assert [each.name for each in workspace.exported_tools()] == ["calc_add", "shout"]
    assert [each.role for each in workspace.values(ToolGroup)] == ["math"]
    assert len(workspace.values(McpToolExport)) == 1


def test_an_exported_tool_that_cannot_be_read_is_reported_with_its_line_and_the_others_are_there(
    tmp_path: Path,
) -> None:
    bad = "\n@tool(export=True)\ndef bad(a): ...\n"
    broken = "broken = McpToolExport.from_tool_object(ToolObject(Calculator(), naming=len))\n"

    workspace = load_workspace(write(tmp_path, {"tools/a.py": TOOLS + bad + broken}))

    assert [each.name for each in workspace.exported_tools()] == ["calc_add", "shout"]
    first, second = workspace.problems
    assert first.line == len(TOOLS.splitlines()) + 2
    assert "a type for the parameter 'a'" in first.message
    assert "expected a name for the tool, but it is 3" in second.message


def test_of_exported_tools_with_one_name_the_first_is_kept_and_the_others_reported(tmp_path: Path) -> None:
    twice = TOOLS + "both = McpToolExport.from_tool_objects([Calculator(), Calculator()])\n"
    write(tmp_path, {"tools/a.py": TOOLS, "tools/b.py": twice})

    workspace = load_workspace(tmp_path)

    assert [each.name for each in workspace.exported_tools()] == ["add", "calc_add", "shout"]
    assert [(each.module, "first is published" in each.message) for each in workspace.problems] == [
        ("tools.b", True)
    ] * 3


def test_a_workspace_made_by_a_program_may_be_empty_or_hold_tools(tmp_path: Path) -> None:
    made = Tool.of(lambda: 1, name="one")

    assert Workspace(tmp_path).exported_tools() == ()
    assert Workspace(tmp_path, exports=(made,)).exported_tools() == (made,)


def test_a_file_that_is_edited_twice_within_a_second_is_loaded_anew_each_time(tmp_path: Path) -> None:
    loaded: list[Workspace] = []
    for number in range(3):
        write(tmp_path, {"agents/a.py": "from .b import number", "agents/b.py": f"number = {number}"})
        loaded.append(load_workspace(tmp_path))

    assert [vars(each.modules[0].module)["number"] for each in loaded] == [0, 1, 2]
    assert list(tmp_path.rglob("__pycache__")) == []


def test_a_file_that_is_added_or_removed_is_seen_by_the_next_load(tmp_path: Path) -> None:
    assert names(load_workspace(write(tmp_path, {"agents/a.py": ""}))) == ["agents.a"]
    assert names(load_workspace(write(tmp_path, {"agents/b.py": ""}))) == ["agents.a", "agents.b"]
    (tmp_path / "agents" / "a.py").unlink()
    assert names(load_workspace(tmp_path)) == ["agents.b"]
    assert "goalport_workspace.agents.a" not in sys.modules


def test_what_is_imported_and_has_not_changed_is_not_imported_again(tmp_path: Path) -> None:
    write(tmp_path, {"agents/a.py": AGENT.format(name="A") + "a = A()"})

    first = load_workspace(tmp_path).agents()
    write(tmp_path, {"tools/b.py": ""})

    assert load_workspace(tmp_path).agents() == first
    assert names(load_workspace(tmp_path)) == ["agents.a", "tools.b"]


def test_a_change_in_one_file_makes_all_classes_anew(tmp_path: Path) -> None:
    write(tmp_path, {"agents/a.py": AGENT.format(name="A"), "agents/b.py": "x = 1"})
    (first,) = load_workspace(tmp_path).agents()

    (second,) = load_workspace(write(tmp_path, {"agents/b.py": "x = 2"})).agents()

    assert first is not second


def test_a_module_of_an_earlier_load_imports_what_it_was_loaded_with(tmp_path: Path) -> None:
    late = """
def absolute():
    from goalport_workspace.agents.b import B
    return B

def relative():
    from . import b
    return b.B

def whole():
    import goalport_workspace.agents.b
    return goalport_workspace.agents.b.B
"""
    write(tmp_path, {"agents/a.py": late, "agents/b.py": "class B: ..."})
    old = load_workspace(tmp_path).modules
    new = load_workspace(tmp_path, fresh=True).modules

    for modules, others in ((old, new), (new, old)):
        theirs = vars(modules[1].module)["B"]
        assert theirs is not vars(others[1].module)["B"]
        for way in ("absolute", "relative", "whole"):
            assert vars(modules[0].module)[way]() is theirs


def test_classes_of_an_earlier_load_live_on_where_they_are_used(tmp_path: Path) -> None:
    write(tmp_path, {"agents/a.py": AGENT.format(name="A") + "a = A()"})

    (first,), (second,) = load_workspace(tmp_path).agents(), load_workspace(tmp_path, fresh=True).agents()

    assert type(first) is not type(second)
    assert type(first).__qualname__ == type(second).__qualname__
    assert getattr(first, "greet", None)


def test_one_workspace_after_the_other_in_one_process(tmp_path: Path) -> None:
    one = load_workspace(write(tmp_path / "one", {"agents/a.py": "from .b import x", "agents/b.py": "x = 1"}))
    two = load_workspace(write(tmp_path / "two", {"agents/a.py": "from .b import x"}))

    assert names(one) == ["agents.a", "agents.b"]
    (problem,) = told(two)
    assert problem.startswith("agents/a.py:1: No module named 'goalport_workspace.agents.b'. There is no such file in ")


def test_the_import_hook_leaves_everything_as_it_was(tmp_path: Path) -> None:
    outer = load_workspace(write(tmp_path / "outer", {"agents/a.py": "x = 'outer'"}))

    with workspace_importer(write(tmp_path / "inner", {"agents/a.py": "x = 'inner'"})):
        import goalport_workspace.agents.a as inner  # pyright: ignore[reportMissingImports]

        assert vars(inner)["x"] == "inner"

    assert sys.modules["goalport_workspace.agents.a"] is outer.modules[0].module
