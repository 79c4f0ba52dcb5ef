import json
import signal
import subprocess
from pathlib import Path
from typing import IO

import pytest

from tests.rooms.cli.conftest import PROGRAM, Command

SLOW = """
import threading
import anyio
from goalport import OperationContext, UserInput, achieves_goal, action, agent

class Rest: ...
class Nap: ...

@agent(description="Never done")
class Sleeper:
    @achieves_goal(description="Sleep")
    @action
    async def sleep(self, user_input: UserInput, context: OperationContext) -> Rest:
        context.progress("asleep")
        await anyio.sleep_forever()
        return Rest()

    @achieves_goal(description="Nap")
    @action
    def nap(self, user_input: UserInput, context: OperationContext) -> Nap:
        context.progress("asleep")
        threading.Event().wait()
        return Nap()
"""
ODD = """
from mcp_types import ImageContent
from pydantic import BaseModel
from goalport import UserInput, achieves_goal, action, agent

class Stone:
    def __init__(self, weight): ...

class Tale(BaseModel):
    content: str

class Figures(BaseModel):
    total: int

@agent(description="Odd ones")
class Odd:
    @achieves_goal(description="Fail")
    @action
    def fail(self, user_input: UserInput) -> Tale:
        raise RuntimeError("the well is dry")

    @achieves_goal(description="Count")
    @action
    def count(self, user_input: UserInput) -> Figures:
        return Figures(total=len(user_input.content))

    @achieves_goal(description="Draw")
    @action
    def draw(self, user_input: UserInput) -> ImageContent:
        return ImageContent(type="image", data="aGk=", mime_type="image/png")

    @achieves_goal(description="Polish")
    @action
    def polish(self, stone: Stone) -> Tale:
        return Tale(content="It shines.")
"""


def test_the_result_is_on_standard_output_and_the_steps_on_standard_error(goalport: Command, workspace: Path) -> None:
    ran = goalport("run", "--goal", "greet", "--input", '{"content": "I am Ada."}', "--workspace", str(workspace))

    assert (ran.code, ran.out) == (0, "Hello, Ada!\n")
    assert ran.err == "1/2 Hello.recognise\n2/2 Hello.greet\n"


def test_the_steps_can_be_left_out_and_the_result_be_structured(goalport: Command, workspace: Path) -> None:
    given = '{"content": "I am Ada."}'
    ran = goalport("run", "--goal", "greet", "--input", given, "--quiet", "--json", "--workspace", str(workspace))

    assert (json.loads(ran.out), ran.err) == ({"content": "Hello, Ada!"}, "")


def test_a_result_without_content_is_printed_as_json(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "odd.py").write_text(ODD)

    ran = goalport("run", "--goal", "count", "--input", '{"content": "four"}', "--workspace", str(workspace))

    assert json.loads(ran.out) == {"total": 4}


def test_the_input_may_be_a_file_or_standard_input(goalport: Command, workspace: Path) -> None:
    file = workspace / "guest.json"
    file.write_text('{"name": "Bob"}')

    of_file = goalport("run", "--goal", "greet", "--input", f"@{file}", "--workspace", str(workspace))
    piped = goalport(
        "run", "--goal", "greet", "--input", "@-", "--workspace", str(workspace), stdin='{"content": "Eve"}'
    )

    assert (of_file.out, piped.out) == ("Hello, Bob!\n", "Hello, Eve!\n")


@pytest.mark.parametrize("goal", ["greet", "Hello.greet", "greet_from_guest"])
def test_a_goal_is_found_by_each_of_its_names(goalport: Command, workspace: Path, goal: str) -> None:
    ran = goalport("run", "--goal", goal, "--input", '{"name": "Bob"}', "--workspace", str(workspace))

    assert ran.out == "Hello, Bob!\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("Ada", "was expected to be JSON, not 'Ada'"),
        ("[1]", "was expected to be a JSON object, not '[1]'"),
        ("@nowhere.json", "There is no file nowhere.json"),
        ('{"nam": "Bob"}', "Did you mean 'name'?"),
        ("{}", "As UserInput: "),
    ],
)
def test_an_input_that_does_not_fit_is_refused_before_anything_runs(
    goalport: Command, workspace: Path, given: str, message: str
) -> None:
    ran = goalport("run", "--goal", "greet", "--input", given, "--workspace", str(workspace))

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Hello.recognise" not in ran.err


def test_a_goal_that_is_not_reached_says_why(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "odd.py").write_text(ODD)

    declined = goalport("run", "--goal", "greet", "--input", '{"content": " "}', "--workspace", str(workspace))
    failed = goalport("run", "--goal", "fail", "--input", '{"content": ""}', "--workspace", str(workspace))

    assert (declined.code, declined.out, failed.code, failed.out) == (1, "", 1, "")
    assert "gave nothing; planning again" in declined.err
    assert "the well is dry" in failed.err
    assert 'agents/odd.py, line 20, in fail: raise RuntimeError("the well is dry")' in failed.err
    assert "Traceback" not in failed.err


def test_where_an_unexpected_exception_came_from_is_shown_to_those_who_ask(
    goalport: Command, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WELL_TOKEN", "well-token-4711")
    (workspace / "agents" / "odd.py").write_text(ODD.replace("the well is dry", "well-token-4711 is dry"))

    asked = ("run", "--goal", "fail", "--input", '{"content": ""}', "--workspace", str(workspace))
    failed, debugged = goalport(*asked), goalport(*asked, "--debug")

    assert (failed.code, debugged.code) == (1, 1)
    assert "--debug shows the whole traceback" in failed.err
    assert f'File "{workspace / "agents" / "odd.py"}", line 20, in fail' in debugged.err
    assert "RuntimeError: *** is dry" in debugged.err
    assert "well-token-4711" not in failed.err + debugged.err


def test_a_module_that_cannot_be_loaded_is_told_and_the_others_run(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "torn.py").write_text("raise RuntimeError('torn')\n")

    ran = goalport("run", "--goal", "greet", "--input", '{"name": "Bob"}', "--workspace", str(workspace))

    assert (ran.code, ran.out) == (0, "Hello, Bob!\n")
    assert "torn.py:1: RuntimeError: torn" in ran.err


def test_a_workspace_without_agents_has_nothing_to_run(goalport: Command, tmp_path: Path) -> None:
    ran = goalport("run", "--goal", "greet", "--workspace", str(tmp_path))

    assert ran.code == 2
    assert "There are no agents in " in ran.err


def test_an_unknown_goal_is_named_with_those_that_there_are(goalport: Command, workspace: Path) -> None:
    ran = goalport("run", "--goal", "dance", "--workspace", str(workspace))

    assert ran.code == 2
    assert "Unknown goal 'dance'" in ran.err
    assert "greet" in ran.err


@pytest.mark.parametrize("goal", ["sleep", "nap"])
def test_ctrl_c_ends_the_process_and_the_program(workspace: Path, goal: str) -> None:
    (workspace / "agents" / "slow.py").write_text(SLOW)
    arguments = ["run", "--goal", goal, "--input", '{"content": ""}', "--workspace", str(workspace)]
    running = subprocess.Popen([PROGRAM, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stderr is not None
        wait_for(running.stderr, "asleep")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    finally:
        running.kill()

    assert (running.returncode, out) == (130, "")
    assert "Stopped." in err
    assert "Traceback" not in err


def wait_for(stream: IO[str], word: str) -> None:
    for line in stream:
        if word in line:
            return
    pytest.fail(f"The program ended without saying {word!r}.")


def test_on_a_terminal_markdown_is_drawn(terminal: Command, workspace: Path) -> None:
    ran = terminal("run", "--goal", "greet", "--input", '{"name": "**Bob**"}', "--workspace", str(workspace))

    assert ran.code == 0
    assert "Bob" in ran.out
    assert "**" not in ran.out


def test_on_a_terminal_json_is_drawn_in_colours(terminal: Command, workspace: Path) -> None:
    (workspace / "agents" / "odd.py").write_text(ODD)

    ran = terminal("run", "--goal", "count", "--input", '{"content": "four"}', "--workspace", str(workspace))

    assert '"total"' in ran.out
    assert "\x1b[" in ran.out


def test_what_is_no_text_is_named_and_printed_whole_as_structured_data(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "odd.py").write_text(ODD)
    arguments = ["run", "--goal", "draw", "--input", '{"content": ""}', "--workspace", str(workspace)]

    shown, whole = goalport(*arguments), goalport(*arguments, "--json")

    assert shown.out == "(image image/png; --json prints it whole)\n"
    assert json.loads(whole.out)["content"] == [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]


def test_a_goal_that_starts_from_what_json_cannot_say_is_for_python(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "odd.py").write_text(ODD)

    ran = goalport("run", "--goal", "polish", "--workspace", str(workspace))

    assert ran.code == 2
    assert "The input Stone: expected types that can be read from JSON" in ran.err
    assert "Or start the goal from Python." in ran.err
    assert ran.err.count("\n") == 1


def test_a_text_that_is_the_name_of_a_goal_means_the_goal(goalport: Command, workspace: Path) -> None:
    ran = goalport("run", "greet", "--input", '{"name": "Bob"}', "--workspace", str(workspace))
    bare = goalport("run", "greet", "--workspace", str(workspace))

    assert (ran.out, ran.err) == ("Hello, Bob!\n", "1/1 Hello.greet\n")
    assert (bare.code, bare.out) == (2, "")
    assert "- content: required, but missing" in bare.err
    assert bare.err.endswith("Give them as a JSON object with --input.\n")


def test_a_sentence_that_no_model_can_match_to_an_agent_says_that_one_has_to_choose(
    goalport: Command, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (workspace / "agents" / "odd.py").write_text(ODD)

    ran = goalport("run", "Say hello to Ada", "--workspace", str(workspace))

    assert ran.code == 1
    assert "A model has to choose between Hello and Odd, but it is not ready: openai has no key." in ran.err
    assert "goalport run GOAL" in ran.err
