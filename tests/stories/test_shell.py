"""`goalport shell` on a terminal and in a pipe: its commands, history, completion, and commands of a workspace."""

import re
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.programs import ran
from tests.providers import Providers
from tests.terminals import CTRL_C, CTRL_D, ENTER, Screen, on_terminal

BANK = """
import asyncio
from dataclasses import dataclass
from typing import Literal
from goalport import AgentPlatform, Ai, UserInput, WaitFor, achieves_goal, action, agent
from goalport.workspace import command

@dataclass(frozen=True)
class Limit:
    euros: int

@dataclass(frozen=True)
class Advice:
    content: str

@agent(description="Advises customers of a bank")
class Bank:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Limit]:
        return WaitFor.form_submission("How much at most?", Limit)

    @achieves_goal(description="Advise a customer")
    async def advise(self, user_input: UserInput, limit: Limit) -> Advice:
        if user_input.content == "wait":
            await asyncio.sleep(3_600)
        return Advice(f"**{user_input.content}**, up to {limit.euros}")

@command
async def bank_support(platform: AgentPlatform, customer: int = 123, *, query: str = "What is my balance?") -> Advice:
    \"\"\"Get support for a customer.\"\"\"
    return Advice(f"{customer + 1}: {query} {[each.name for each in platform.agents]}")

@command(name="rate")
def _rate(kind: Literal["fixed", "floating"], /) -> str:
    \"\"\"Say a rate.\"\"\"
    return f"{kind}: 3 %"

@command(name="plan")
def taken() -> None:
    \"\"\"Has the name of another one.\"\"\"

@command
def fail() -> None:
    \"\"\"Fail.\"\"\"
    raise ValueError("the vault is empty")
"""
TAB = "\t"


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "bank.py").write_text(BANK)
    return tmp_path


@pytest.fixture
def environment(aimock: Providers, tmp_path: Path) -> Mapping[str, str]:
    variables = {"GOALPORT_MODELS__DEFAULT_LLM": "openai:gpt-4.1-mini", "HOME": str(tmp_path), "TERM": "xterm"}
    return {**aimock.environment, **variables, "COLUMNS": "150"}


Opened = Callable[[], AbstractContextManager[Screen]]


@pytest.fixture
def opened(bank: Path, environment: Mapping[str, str]) -> Opened:
    """Opens a shell on a terminal, with its first prompt."""

    @contextmanager
    def shell() -> Generator[Screen]:
        with on_terminal(["shell"], environment, bank) as screen:
            yield screen.until("Ctrl-D to leave.").until("goalport>")

    return shell


@pytest.fixture
def piped(bank: Path, environment: Mapping[str, str]) -> Callable[[str], CompletedProcess[str]]:
    def shell(lines: str) -> CompletedProcess[str]:
        return ran(["shell", "--workspace", str(bank)], environment, typed=lines)

    return shell


def test_a_sentence_runs_with_its_form_and_leaves_its_blackboard(opened: Opened) -> None:
    with opened() as screen:
        screen.press('x "A loan" -p -r', ENTER).until("Bank was chosen").until("How much at most?")
        screen.until("euros:").press("500", ENTER).until("✓ Bank.advise").until("A loan, up to 500")
        screen.until("goalport>").press("blackboard", ENTER)
        screen.until("UserInput").until("Limit").until("euros=500").until("Advice").until("goalport>")
        screen.press("goals", ENTER).until("Bank.advise").until("goalport>").press(CTRL_D)
        assert screen.ended() == 0, screen.text


def test_the_history_survives_a_restart_and_lines_are_repeated(opened: Opened, bank: Path) -> None:
    with opened() as screen:
        screen.press("rate fixed", ENTER).until("fixed: 3 %").until("goalport>")
        screen.press("rate floating", ENTER).until("floating: 3 %").until("goalport>")
        screen.press("bank-support --query token=t0ps3cret", ENTER).until("124: token").until("goalport>")
        screen.press(" rate  fixed", ENTER).until("fixed: 3 %").until("goalport>").press("exit", ENTER)
        assert screen.ended() == 0
    with opened() as screen:
        screen.press("!!", ENTER)
        assert screen.ended() == 0
    with opened() as screen:
        screen.press("!2", ENTER).until("rate floating").until("floating: 3 %").until("goalport>")
        screen.press("!!", ENTER).until("rate floating").until("floating: 3 %").until("goalport>")
        screen.press("!70", ENTER).until("There is no line !70 to repeat.").until("goalport>")
        screen.press("history", ENTER).until("1  rate fixed").until("2  rate floating")
        screen.until("token=***").until("4  exit")
        screen.until("goalport>").press("\x1b[A", "\x1b[A", ENTER).until("floating: 3 %").until("goalport>")
        screen.press(CTRL_D)
        assert screen.ended() == 0
    file = bank / ".goalport" / "shell_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not {"!!", " rate", "t0ps3cret"}.intersection(file.read_text().replace("+", " ").split("\n"))
    assert "t0ps3cret" not in file.read_text()


def test_ctrl_c_stops_the_command_and_not_the_shell(opened: Opened) -> None:
    with opened() as screen:
        screen.press("x wait", ENTER).until("euros:").press("1", ENTER).until("Bank.advise").press(CTRL_C)
        screen.until("Stopped.").until("goalport>").press("half a line", CTRL_C).until("goalport>")
        screen.press("x wait", ENTER).until("euros:").press(CTRL_C).until("with its question open")
        screen.until("goalport>").press("rate fixed", ENTER).until("fixed: 3 %").until("goalport>").press(CTRL_D)
        assert screen.ended() == 0


def test_on_the_simplest_terminal_ctrl_c_and_a_history_that_cannot_be_written_end_nothing(
    environment: Mapping[str, str], bank: Path
) -> None:
    (bank / ".goalport").write_text("no folder")
    with on_terminal(["shell"], {**environment, "TERM": "dumb"}, bank) as screen:
        screen.until("the history is not kept").until("goalport>").press(CTRL_C).until("goalport>")
        screen.press("x wait", ENTER).until("euros:").press(CTRL_C).until("with its question open").until("goalport>")
        screen.press("rate fixed", ENTER).until("fixed: 3 %").until("goalport>")
        screen.press("!!", ENTER).until("fixed: 3 %").until("goalport>").press("exit", ENTER)
        assert screen.ended() == 0, screen.text


def test_processes_of_the_shell_are_listed_shown_answered_and_killed(opened: Opened) -> None:
    with opened() as screen:
        screen.press("x Loan", ENTER).until("euros:").press(CTRL_D).until("It stays in this shell: `answer ")
        screen.until("goalport>")
        process = re.findall(r"`answer (\S+)`", screen.text)[-1]
        screen.press("ps", ENTER).until(process).until("waiting").until("this shell")
        screen.until("goalport>").press("show ", process[:6], TAB).until(process).press(ENTER)
        screen.until("How much at most?").until("JSON Schema")
        screen.until("goalport>").press("answer ", process[:6], TAB).until(process).press(" --wait", ENTER)
        screen.until("euros:").press("7", ENTER).until("Loan, up to 7").until("goalport>")
        screen.press(f"blackboard {process}", ENTER).until("euros=7").until("goalport>")
        screen.press(f"show {process} --events", ENTER).until("completed").until("Events").until("Bank.advise")
        screen.until("goalport>").press("x --model openai:gpt-4.1 Other", ENTER).until("euros:").press(CTRL_D)
        screen.until("It stays in this shell").until("goalport>")
        other = re.findall(r"`kill (\S+)`", screen.text)[-1]
        screen.press(f"kill {other}", ENTER).until("is killed").until("goalport>")
        screen.press("ps -a", ENTER).until(other).until("killed").until(process).until("completed").until("goalport>")
        screen.press("kill nobody", ENTER).until("error: ").until("goalport>").press(CTRL_D)
        assert screen.ended() == 0


def test_commands_options_and_names_are_completed(opened: Opened) -> None:
    with opened() as screen:
        screen.press("black", TAB).until("blackboard").press(ENTER).until("Nothing has run yet.").until("goalport>")
        screen.press("plan adv", TAB).until("advise").press(ENTER).until("Advice, the goal").until("goalport>")
        screen.press("run --goal adv", TAB).until("advise").press(" --inp", TAB).until("--input").press(" {}", ENTER)
        screen.until("content").until("goalport>")
        screen.press("goals --agent B", TAB).until("Bank").press(ENTER).until("Bank.advise").until("goalport>")
        pasted = "\x1b[200~rate fixed\nrate 'floating'\nbank-support --query 'A\nloan?'\n\x1b[201~"
        screen.press(pasted, ENTER).until("fixed: 3 %").until("floating: 3 %").until("124: A loan?").until("goalport>")
        screen.press("rate fl", TAB).until("floating").press(ENTER).until("floating: 3 %").until("goalport>")
        screen.press("bank", TAB).until("bank-support").press(ENTER).until("124: What is my balance? ['Bank']")
        screen.until("goalport>").press(CTRL_D)
        assert screen.ended() == 0


def test_a_workspace_adds_commands_that_are_given_the_platform(piped: Callable[..., CompletedProcess[str]]) -> None:
    ran = piped("help\nbank-support 7 --query 'A loan?'\nbank-support --customer many\nrate variable\n")
    assert "Get support for a customer." in ran.stdout
    assert "8: A loan? ['Bank']" in ran.stdout
    assert "unable to convert" in ran.stderr
    assert "See bank-support --help." in ran.stderr
    assert '"fixed", "floating"' in ran.stderr
    assert "the command plan of this workspace has a name that the shell uses" in ran.stderr
    assert ran.returncode == 2


def test_in_a_pipe_it_is_plain_and_the_last_failure_is_the_exit_code(
    piped: Callable[..., CompletedProcess[str]],
) -> None:
    ran = piped(
        "# a remark\n\ngoalport rate fixed\nfail\nrate 'fixed\nfial\nagents\nx a loan\nserve\nhistory --limit 0"
    )
    assert "fixed: 3 %" in ran.stdout
    assert "ValueError: the vault is empty" in ran.stderr
    assert "No closing quotation" in ran.stderr
    assert "There is no command 'fial'. Did you mean 'fail'?" in ran.stderr
    assert "Nothing takes 'loan'. A text of several words is put between quotes. See x --help." in ran.stderr
    assert "A shell does not have serve. Run `goalport serve` outside of it." in ran.stderr
    assert "Expected --limit to be 1 or more" in ran.stderr
    assert "Bank\tAdvises customers of a bank" in ran.stdout
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "goalport>" not in ran.stdout + ran.stderr
    assert ran.returncode == 2
    assert piped("fail\n").returncode == 1
    assert piped("rate fixed\nexit\nfail\n").returncode == 0


def test_a_question_in_a_pipe_stays_for_the_next_lines(piped: Callable[[str], CompletedProcess[str]]) -> None:
    ran = piped("x Loan\nps --json\nreload\nps\n")
    assert '"runs_in": "this shell"' in ran.stdout
    assert '"status": "waiting"' in ran.stdout
    assert "It stays in this shell" in ran.stderr
    assert "No process runs or waits in this shell." in ran.stderr
    assert ran.returncode == 1


def test_reload_finds_what_was_changed(opened: Opened, bank: Path) -> None:
    with opened() as screen:
        file = bank / "agents" / "bank.py"
        file.write_text(BANK.replace("3 %", "4 %").replace("class Bank", "class House"))
        screen.press("rate fixed", ENTER).until("3 %").until("goalport>")
        screen.press("reload", ENTER).until("Loaded. Agents: 1.").until("goalport>")
        screen.press("rate fixed", ENTER).until("4 %").until("goalport>")
        screen.press("agents", ENTER).until("House").until("goalport>").press(CTRL_D)
        assert screen.ended() == 0
