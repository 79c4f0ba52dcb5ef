import json
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command

BROKEN = """
from goalport import Export, UserInput, achieves_goal, action, agent

class Guest: ...
class Cake: ...
class Party: ...

@agent(description="Cannot bake")
class Baker:
    @action
    def invite(self, user_input: UserInput) -> Guest:
        return Guest()

    @achieves_goal(description="Celebrate", export=Export(remote=True, starting_input_types=[UserInput]))
    @action
    def celebrate(self, guest: Guest, cake: Cake) -> Party:
        return Party()
"""
LONG = """
from goalport import tool

@tool(export=True)
def a_name_that_is_longer_than_some_clients_can_take_it() -> str:
    \"\"\"Says nothing.\"\"\"
    return ""
"""


HINTLESS = """
from goalport import Export, UserInput, achieves_goal, agent

@agent(description="Speaks")
class Speaker:
    @achieves_goal(description="Whisper", export=Export(remote=True, name="whisper"))
    def whisper(self, user_input: UserInput) -> str:
        return user_input.content

    @achieves_goal(description="Shout", export=Export(remote=True, name="shout", read_only=True))
    def shout(self, user_input: UserInput) -> str:
        return user_input.content
"""
ASKING = """
from goalport import Ai

@agent(description="Wonders")
class Wonderer:
    @achieves_goal(description="Wonder", export=Export(remote=True, name="wonder"))
    async def wonder(self, user_input: UserInput, ai: Ai) -> str:
        return await ai.generate_text(user_input.content)
"""


GOALLESS = """
from goalport import PlannerType, UserInput, action, agent

@agent(description="Sorts", planner=PlannerType.UTILITY)
class Sorter:
    @action
    def sort(self, user_input: UserInput) -> list[str]:
        return sorted(user_input.content)
"""


CHATBOT = """
from goalport import action
from goalport.runtime.chat import chatbot
from goalport.models.llm import UserMessage

@chatbot(description="Helps customers")
class Support:
    @action(trigger=UserMessage)
    def respond(self, message: UserMessage) -> None: ...

    @action
    def greet(self) -> None: ...
"""


def test_a_chatbot_is_listed_as_one_and_checked(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "support.py").write_text(CHATBOT)
    at = ("--workspace", str(workspace), "--format", "json")

    kinds = {each["agent"]: each["kind"] for each in json.loads(goalport("agents", *at).out)}
    actions = json.loads(goalport("actions", "--agent", "Support", *at).out)
    checked = goalport("check", *at)
    (problem,), found = json.loads(checked.out)["problems"], json.loads(checked.out)["hints"]

    assert kinds == {"Hello": "agent", "Support": "chatbot"}
    assert {each["action"]: each["trigger"] for each in actions} == {"respond": "UserMessage", "greet": ""}
    assert checked.code == 1
    assert "Support.respond" in problem
    assert "`can_rerun=True`" in problem
    assert ["Support.greet" in each for each in found if "trigger" in each] == [True]


def test_lists_are_lines_with_tabs_in_a_pipe_and_records_as_json(goalport: Command, workspace: Path) -> None:
    lines = goalport("agents", "--workspace", str(workspace)).out.splitlines()
    records = json.loads(goalport("agents", "--workspace", str(workspace), "--format", "json").out)

    assert lines[0].split("\t")[:2] == ["agent", "description"]
    assert lines[1].split("\t")[:2] == ["Hello", "Greet people by their name"]
    assert [record["agent"] for record in records] == ["Hello"]
    assert records[0]["goals"] == ["greet"]


def test_goals_are_listed_with_the_tools_that_they_are_published_as(goalport: Command, workspace: Path) -> None:
    (goal,) = json.loads(goalport("goals", "--workspace", str(workspace), "--format", "json").out)

    assert goal["published_as"] == ["greet", "greet_from_guest"]
    assert goal["starts_from"] == ["UserInput", "Guest"]
    assert goal["makes"] == "Greeting"


def test_goals_that_are_not_published_say_why(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "baker.py").write_text(BROKEN)

    goals = json.loads(goalport("goals", "--workspace", str(workspace), "--agent", "Baker", "--format", "json").out)

    assert [goal["published_as"] for goal in goals] == [[]]
    assert "Cake" in goals[0]["not_published"]


def test_actions_are_listed_with_what_they_need_and_make(goalport: Command, workspace: Path) -> None:
    actions = json.loads(goalport("actions", "--workspace", str(workspace), "--format", "json").out)

    assert [(each["action"], each["needs"], each["makes"]) for each in actions] == [
        ("recognise", ["UserInput"], ["Guest"]),
        ("greet", ["Guest"], ["Greeting"]),
    ]


CONDITIONS = """
from goalport import UserInput, achieves_goal, action, agent, condition

@agent(description="Opens a shop")
class Shop:
    @condition
    def is_day(self, user_input: UserInput) -> bool:
        return True

    @condition(cost=0.5)
    def is_open(self) -> bool:
        return True

    @achieves_goal(description="Sell")
    @action(pre=["is_day and not is_open"])
    def sell(self, user_input: UserInput) -> str:
        return "sold"
"""


def test_conditions_are_listed_with_what_they_read_and_who_asks_for_them(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "shop.py").write_text(CONDITIONS)

    ran = goalport("conditions", "--agent", "Shop", "--workspace", str(workspace), "--format", "json")

    assert json.loads(ran.out) == [
        {"condition": "is_day", "agent": "Shop", "reads": ["UserInput"], "asked_by": ["sell"], "cost": 0.0},
        {"condition": "is_open", "agent": "Shop", "reads": [], "asked_by": ["sell"], "cost": 0.5},
    ]
    assert "Hello has no conditions." in goalport("conditions", "--agent", "Hello", "--workspace", str(workspace)).err


def test_a_workspace_without_agents_says_how_to_get_one(goalport: Command, tmp_path: Path) -> None:
    for arguments in (["agents"], ["goals"], ["actions"], ["actions", "--agent", "Hello"]):
        ran = goalport(*arguments, "--workspace", str(tmp_path))

        assert (ran.code, ran.out) == (0, "")
        assert "There are no agents in " in ran.err
        assert "goalport new DIR" in ran.err


def test_a_workspace_whose_agents_have_no_goals_says_so(goalport: Command, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "sorter.py").write_text(GOALLESS)

    assert "Sorter" in goalport("agents", "--workspace", str(tmp_path)).out
    assert "sort" in goalport("actions", "--workspace", str(tmp_path)).out
    every = goalport("goals", "--workspace", str(tmp_path))
    one = goalport("goals", "--agent", "Sorter", "--workspace", str(tmp_path))
    assert (every.code, every.out, every.err.strip()) == (0, "", "No agent here has goals.")
    assert (one.code, one.out, one.err.strip()) == (0, "", "Sorter has no goals.")


def test_an_agent_that_is_not_there_is_named_with_the_nearest(goalport: Command, workspace: Path) -> None:
    ran = goalport("goals", "--agent", "Helo", "--workspace", str(workspace))

    assert ran.code == 2
    assert "Unknown agent 'Helo'. Did you mean 'Hello'?" in ran.err


def test_a_plan_is_explained_from_each_start(goalport: Command, workspace: Path) -> None:
    ran = goalport("plan", "greet", "--workspace", str(workspace))

    assert ran.code == 0
    first, second = ran.out.split("greet of Hello, from ")[1:]
    assert first.startswith("UserInput: 2 steps")
    assert "recognise" in first
    assert second.startswith("Guest: 1 step")
    assert "recognise" not in second


def test_a_plan_can_be_asked_for_from_other_types(goalport: Command, workspace: Path) -> None:
    ran = goalport("plan", "Hello.greet", "--given", "Guest", "--workspace", str(workspace))

    assert ran.code == 0
    assert ran.out.startswith("greet of Hello, from Guest: 1 step")


def test_where_there_is_no_plan_it_is_said_what_is_missing(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "baker.py").write_text(BROKEN)

    ran = goalport("plan", "celebrate", "--workspace", str(workspace))

    assert ran.code == 1
    assert "Cake" in ran.out


def test_unknown_goals_and_types_are_named_with_the_nearest(goalport: Command, workspace: Path) -> None:
    goal = goalport("plan", "gret", "--workspace", str(workspace))
    kind = goalport("plan", "greet", "--given", "Gust", "--workspace", str(workspace))

    assert (goal.code, kind.code) == (2, 2)
    assert "Unknown goal 'gret'. Did you mean 'greet'" in goal.err
    assert "Unknown type 'Gust'. Did you mean 'Guest'?" in kind.err


def test_a_workspace_without_agents_has_nothing_to_plan(goalport: Command, tmp_path: Path) -> None:
    ran = goalport("plan", "greet", "--workspace", str(tmp_path))

    assert ran.code == 2
    assert "goalport new DIR" in ran.err


def test_check_finds_what_is_wrong_and_what_is_fine(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "baker.py").write_text(BROKEN)
    (workspace / "agents" / "torn.py").write_text("x = 1\nraise RuntimeError('torn')\n")
    (workspace / "tools" / "long.py").write_text(LONG)

    ran = goalport("check", "--workspace", str(workspace))

    problems = [line for line in ran.out.splitlines() if line.startswith("problem: ")]
    warnings = [line for line in ran.out.splitlines() if line.startswith("warning: ")]
    assert ran.code == 1
    assert any("torn.py:2: RuntimeError: torn" in line for line in problems)
    assert any("Baker.celebrate" in line and "Cake" in line for line in problems)
    assert len(problems) == 2
    assert any("longer_than" in line for line in warnings)
    assert ran.out.splitlines()[-1].startswith("2 agents, 2 goals, ")


def test_what_only_some_clients_cannot_take_may_be_allowed(goalport: Command, workspace: Path) -> None:
    (workspace / "tools" / "long.py").write_text(LONG)

    assert goalport("check", "--workspace", str(workspace)).code == 1
    assert goalport("check", "--workspace", str(workspace), "--allow-warnings").code == 0


def test_check_names_the_goals_that_do_not_say_what_they_do(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "hintless.py").write_text(HINTLESS)

    ran = goalport("check", "--workspace", str(workspace))

    (line,) = (each for each in ran.out.splitlines() if "no hints" in each)
    assert "whisper" in line
    assert "shout" not in line
    assert ran.code == 0


HIDDEN = """
from goalport import Export, UserInput, achieves_goal, agent

@agent(description="Keeps to itself")
class Hermit:
    @achieves_goal(description="Pray")
    def pray(self, user_input: UserInput) -> int:
        return 1

    @achieves_goal(description="Sing", export=Export(name="sing"))
    def sing(self, user_input: UserInput) -> str:
        return ""
"""
PLAIN = """
from goalport import Export, achieves_goal, agent

@agent(description="Greets")
class Greeter:
    @achieves_goal(description="Welcome", export=Export(remote=True, name="welcome"))
    def welcome(self, guest: str, gifts: list[str], minutes: float = 1.5) -> int:
        return 1
"""
TWINS = """
from goalport import Export, UserInput, achieves_goal, agent

@agent(description="One")
class One:
    @achieves_goal(description="Go", export=Export(remote=True, name="same"))
    def go(self, user_input: UserInput) -> int:
        return 1

@agent(description="Other")
class Other:
    @achieves_goal(description="Walk", export=Export(remote=True, name="same"))
    def walk(self, user_input: UserInput) -> str:
        return ""
"""


def test_check_names_the_goals_that_no_client_can_call(goalport: Command, workspace: Path) -> None:
    assert "No client can call" not in goalport("check", "--workspace", str(workspace)).out

    (workspace / "agents" / "hermit.py").write_text(HIDDEN)
    (workspace / "agents" / "support.py").write_text(CHATBOT)
    ran = goalport("check", "--workspace", str(workspace))

    assert (
        "note: No client can call Hermit.pray, Hermit.sing: to publish a goal, write"
        " @achieves_goal(…, export=Export(remote=True))."
    ) in ran.out.splitlines()


def test_check_says_which_arguments_are_called_as_pythons_own_types_are(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "greeter.py").write_text(PLAIN)

    ran = goalport("check", "--workspace", str(workspace))

    told = [line for line in ran.out.splitlines() if "named after their types" in line]
    assert told[0].startswith("warning: welcome: an argument is called 'str', since")
    assert told[0].endswith("Take a class of your own with the field `guest: str`.")
    assert told[1].startswith("warning: welcome: an argument is called 'list_str',")
    assert told[1].endswith("with the field `gifts: list[str]`.")
    assert "warning: welcome: nothing can give the parameter `minutes: float`, which always has its" in ran.out
    assert ran.code == 1


def test_a_goal_name_that_several_want_runs_and_plans_none_of_them(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "twins.py").write_text(TWINS)
    at = ("--workspace", str(workspace))

    for command in (("run", "same"), ("run", "--goal", "same"), ("plan", "same")):
        ran = goalport(*command, *at)
        assert (ran.code, ran.out) == (1, "")
        assert "One.go and Other.walk all want to be called 'same'. Use the full name" in ran.err
    assert "all want to be the tool 'same'" in goalport("check", *at).out
    assert goalport("run", "--goal", "Other.walk", "--input", '{"content": "x"}', *at).code == 0


def test_check_answers_programs_in_json(goalport: Command, workspace: Path) -> None:
    found = json.loads(goalport("check", "--workspace", str(workspace), "--format", "json").out)

    assert (found["problems"], found["warnings"], found["agents"], found["goals"]) == ([], [], 1, 1)
    assert {"greet", "greet_from_guest", "roll_dice"} <= set(found["tools"])


def test_an_empty_workspace_is_nothing_to_be_content_with(goalport: Command, tmp_path: Path) -> None:
    ran = goalport("check", "--workspace", str(tmp_path))

    assert ran.code == 1
    assert "warning: There are no agents in " in ran.out


def test_a_workspace_that_only_publishes_documents_or_tools_is_fine(goalport: Command, tmp_path: Path) -> None:
    (tmp_path / "references.yml").write_text("- {type: Documents, name: papers, description: Ours, publish: true}\n")
    ran = goalport("check", "--workspace", str(tmp_path))
    assert (ran.code, "There are no agents" in ran.out) == (0, False)

    (tmp_path / "references.yml").unlink()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "say.py").write_text(
        LONG.replace("a_name_that_is_longer_than_some_clients_can_take_it", "say")
    )
    assert goalport("check", "--workspace", str(tmp_path)).code == 0


def test_on_a_terminal_lists_are_tables_without_their_empty_columns(terminal: Command, workspace: Path) -> None:
    ran = terminal("goals", "--workspace", str(workspace))

    assert ran.code == 0
    assert "greet, greet_from_guest" in ran.out
    assert "published as" in ran.out
    assert "not published" not in ran.out


def test_nothing_is_wrong_with_the_workspace_that_is_shipped(goalport: Command) -> None:
    shipped = Path(__file__).parents[3]
    ran = goalport("check", "--workspace", str(shipped))

    assert (ran.code, ran.out.splitlines()[-1].endswith("nothing is wrong.")) == (0, True), ran.out
    assert "tool group web: not ready. In mcp_config.json, remove the `disabled` of 'fetch'." in ran.out


MANY = (
    """
from goalport import UserInput, achieves_goal, action, agent

class Report: ...

@agent(description="Has long names")
class Archivist:
"""
    + "\n".join(
        f"""    @action
    def a_step_with_quite_a_long_name_{number}(self, user_input: UserInput) -> None: ...
"""
        for number in range(6)
    )
    + """
    @achieves_goal(description="Report")
    def report(self, user_input: UserInput) -> Report:
        return Report()
"""
)


def test_a_name_is_never_broken_in_two_however_narrow_the_terminal(terminal: Command, workspace: Path) -> None:
    (workspace / "agents" / "archivist.py").write_text(MANY)

    ran = terminal("agents", "--workspace", str(workspace))

    for number in range(6):
        assert f"a_step_with_quite_a_long_name_{number}" in ran.out
    assert all(len(line) < 220 for line in ran.out.splitlines())


def test_what_is_wrong_is_marked_on_a_terminal_unless_no_colour_is_wanted(
    terminal: Command, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "tools" / "long.py").write_text(LONG)

    assert "\x1b[33m▲ warning\x1b[0m: " in terminal("check", "--workspace", str(workspace)).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\r\nwarning: " in "\r\n" + terminal("check", "--workspace", str(workspace)).out


def test_what_is_not_ready_is_marked_and_so_is_what_is_only_noted(terminal: Command, workspace: Path) -> None:
    (workspace / "agents" / "hintless.py").write_text(HINTLESS + ASKING)

    out = terminal("check", "--workspace", str(workspace)).out

    assert "model gpt-4.1-mini: \x1b[33m▲ not ready\x1b[0m. " in out
    assert "tool group web: \x1b[33m▲ not ready\x1b[0m. " in out
    assert "\x1b[34m• note\x1b[0m: whisper, wonder: no hints" in out


def test_after_an_import_that_failed_it_is_not_said_that_there_are_no_agents(
    goalport: Command, workspace: Path
) -> None:
    (workspace / "agents" / "hello.py").write_text("import nowhere_at_all\n")

    for arguments in (["check"], ["agents"], ["goals"], ["plan", "greet"]):
        ran = goalport(*arguments, "--workspace", str(workspace))
        assert "No module named 'nowhere_at_all'" in ran.out + ran.err
        assert "could be loaded; the problems say why." in ran.out + ran.err
        assert "There are no agents" not in ran.out + ran.err


def test_in_a_pipe_there_are_no_signs(goalport: Command, workspace: Path) -> None:
    (workspace / "tools" / "long.py").write_text(LONG)

    assert goalport("check", "--workspace", str(workspace)).out.startswith("warning: ")


def test_looking_for_processes_makes_no_file(goalport: Command, tmp_path: Path) -> None:
    listed = goalport("ps", "--all", "--workspace", str(tmp_path))
    assert (listed.code, listed.err) == (0, "No process is stored.\n")
    assert not (tmp_path / ".goalport").exists()


def test_processes_in_the_memory_of_a_server_are_looked_for_there(
    goalport: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_tcp_port: int
) -> None:
    monkeypatch.setenv("GOALPORT_STORE", "memory")
    monkeypatch.setenv("GOALPORT_PORT", str(free_tcp_port))
    for words in (["ps", "--all"], ["show", "one"], ["answer", "one"], ["kill", "one"]):
        refused = goalport(*words, "--workspace", str(tmp_path))
        assert refused.code == 1
        assert f"http://127.0.0.1:{free_tcp_port}: No server answers there." in refused.err
        assert "Nothing is stored here" in refused.err
    for words in (["export", "one"], ["prune", "--keep", "1"]):
        refused = goalport(*words, "--workspace", str(tmp_path))
        assert refused.code == 2
        assert "Nothing is stored here" in refused.err
