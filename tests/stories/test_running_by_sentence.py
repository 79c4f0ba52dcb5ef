"""`goalport run TEXT`: a sentence reaches the agent that is made for it, on a terminal and in a pipe."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.providers import Providers
from tests.rooms.cli.conftest import Command, goalport, home
from tests.terminals import CTRL_C, CTRL_U, ENTER, on_terminal

__all__ = ["goalport", "home"]

ROOT = Path(__file__).parents[2]
WEB = """
from goalport import ToolGroup, tool

@tool
def search(query: str) -> str:
    \"\"\"Search the web.\"\"\"
    return "1. Otters elect a mayor (https://news.example/otters)"

web = ToolGroup.of("web", search)
"""
SINGER = """
import asyncio
from dataclasses import dataclass
from goalport import UserInput, WaitFor, achieves_goal, action, agent

@dataclass(frozen=True)
class Length:
    verses: int

@dataclass(frozen=True)
class Tune:
    name: str

@dataclass(frozen=True)
class Song:
    content: str

@dataclass(frozen=True)
class Whistling:
    content: str

@agent(description="Sings songs")
class Singer:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Length]:
        return WaitFor.form_submission("How many verses?", Length)

    @achieves_goal(description="Sing a song")
    def sing(self, user_input: UserInput, length: Length) -> Song:
        return Song(f"# {user_input.content}\\n\\n" + "*la* " * length.verses)

@agent(description="Whistles tunes")
class Whistler:
    @achieves_goal(description="Whistle a tune")
    def whistle(self, tune: Tune) -> Whistling:
        return Whistling(f"{tune.name} whistled")

@agent(description="Sleeps")
class Sleeper:
    @achieves_goal(description="Sleep for ever")
    async def sleep(self, user_input: UserInput) -> str:
        await asyncio.sleep(3_600)
        return "awake"
"""
LYNDA = "Lynda is a Scorpio, find news for her"
STORY = {"url": "https://news.example/otters", "title": "Otters elect a mayor", "summary": "She juggles."}


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """A workspace with two of the shipped agents, and a web without a network."""
    for name in ("star_news", "meal"):
        shutil.copytree(ROOT / "agents" / name, tmp_path / "agents" / name)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "web.py").write_text(WEB)
    return tmp_path


@pytest.fixture
def singers(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "singer.py").write_text(SINGER)
    return tmp_path


@pytest.fixture
def environment(aimock: Providers, tmp_path: Path) -> Mapping[str, str]:
    return {
        **aimock.environment,
        "GOALPORT_MODELS__DEFAULT_LLM": "openai:gpt-4.1-mini",
        "HOME": str(tmp_path),
        "TERM": "xterm",
    }


@pytest.fixture
def piped(environment: Mapping[str, str], goalport: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The program in this process, where nothing is a terminal."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return goalport


def ratings(**fitting: float) -> dict[str, object]:
    return {"ratings": [{"name": name, "confidence": confidence} for name, confidence in fitting.items()]}


def teach_news(aimock: Providers) -> None:
    aimock.answer("Which of these candidates", content=ratings(StarNewsFinder=0.95, MealPreparation=0.1))
    teach_finding(aimock)


def teach_finding(aimock: Providers) -> None:
    person = {"name": "Lynda", "sign": "Scorpio"}
    aimock.answer("Create a person from", content={"result": person, "failure": None})
    aimock.answer("Write something amusing", content={"content": "Dear **Lynda**, [otters](https://news.example)!"})
    aimock.answer({"hasToolResult": True}, content={"items": [STORY]})
    aimock.answer("is an astrology believer", toolCalls=[{"name": "search", "arguments": {"query": "otters"}}])


def test_a_sentence_reaches_the_shipped_agent_that_is_made_for_it(
    aimock: Providers, shipped: Path, piped: Command
) -> None:
    aimock.answer("Which of these candidates", content=ratings(StarNewsFinder=0.05, MealPreparation=0.95))
    both: list[dict[str, Any]] = [{"name": "choose_cook", "arguments": {}}, {"name": "take_order", "arguments": {}}]
    aimock.answer("# Objects that are there", toolCalls=both)
    aimock.answer("Choose the cook", content={"name": "Antonio", "speciality": ""})
    order = {"dish": "pizza", "quantity": 2, "guest": "Nina"}
    aimock.answer("Take the order", content={"result": order, "failure": None})
    aimock.answer("announces", content="Two pizzas for Nina!")

    ran = piped("run", "--workspace", str(shipped), "Nina wants two pizzas", "--json", "-p", "-r")

    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert (result["goal"], result["content"]) == ("prepare_meal", "Two pizzas for Nina!")
    assert result["result"]["cooked_by"] == "Antonio"
    assert result["why"].startswith(
        "MealPreparation was chosen with a confidence of 0.95, before StarNewsFinder (0.05)"
    )
    assert result["why"] in ran.err
    assert "    prompt of ranking for gpt-4.1-mini:\n      system prompt:\n" in ran.err
    assert "      Which of these candidates" in ran.err
    assert "      Choose the cook for this order." in ran.err
    assert "    reply of gpt-4.1-mini:\n      Two pizzas for Nina!" in ran.err
    assert "\x1b" not in ran.out + ran.err


def test_the_sentences_of_the_guide_reach_their_agents_in_the_shell(
    aimock: Providers, shipped: Path, piped: Command
) -> None:
    """Section 2.3.4: a horoscope, research, and a fact check."""
    for name in ("fact_checker", "researcher"):
        shutil.copytree(ROOT / "agents" / name, shipped / "agents" / name)
    teach_finding(aimock)
    plan = {"question": "What do the Greens want?", "points": ["Their position"]}
    aimock.answer("Somebody wants a report", content={"result": plan, "failure": None})
    aimock.answer("Write a report", content={"title": "The Greens", "text": "They want trees.", "sources": []})
    aimock.answer("Judge a draft", content={"score": 0.9, "text": "Good."})
    aimock.answer("Find the distinct", content={"claims": ["Holden cars are still made in Australia."]})
    judgement: dict[str, object] = {
        "verdict": "false",
        "confidence": 0.9,
        "explanation": "The last one was made in 2017.",
        "links": [],
    }
    aimock.answer("Check this assertion", content=judgement)
    aimock.answer("I'm a Leo", content=ratings(StarNewsFinder=0.9))
    aimock.answer("the Greens", content=ratings(Researcher=0.9, FactChecker=0.2))
    aimock.answer("holden", content=ratings(FactChecker=0.9, Researcher=0.2))
    lines = (
        """execute "My name is Sarah and I'm a Leo"\n"""
        'execute "research the recent australian federal election. what is the position of the Greens party?"\n'
        'x "fact check the following: holden cars are still made in australia"\n'
    )

    ran = piped("shell", "--workspace", str(shipped), stdin=lines)

    assert ran.code == 0, ran.err
    assert "otters" in ran.out
    assert "They want trees." in ran.out
    assert "**False** (90%): Holden cars are still made in Australia." in ran.out


def test_a_run_is_drawn_with_its_steps_and_a_form_and_its_result_as_markdown(
    aimock: Providers, singers: Path, environment: Mapping[str, str]
) -> None:
    aimock.answer("Which of these candidates", content=ratings(Singer=0.9, Whistler=0.2), usage={})
    with on_terminal(["run", "Sing of bees"], environment, singers) as screen:
        screen.until("Singer was chosen with a confidence of 0.90")
        screen.until("How many verses?").until("verses:").press("three", ENTER)
        screen.until("It should be a whole number.").press(CTRL_U, "3", ENTER)
        screen.until("✓ Singer.sing")
        screen.until("tokens in")
        assert screen.ended() == 0, screen.text
    assert "│" not in screen.text
    assert "Sing of bees" in screen.text.splitlines()[-3]
    assert screen.text.splitlines()[-1].startswith("la la la")
    assert "*la*" not in screen.text


def test_prompts_and_replies_are_shown_in_panels_above_the_steps(
    aimock: Providers, shipped: Path, environment: Mapping[str, str]
) -> None:
    teach_news(aimock)
    with on_terminal(["run", LYNDA, "-p", "-r"], environment, shipped) as screen:
        screen.until("─ prompt of ranking").until("│ Which of these candidates").until("─ reply of gpt-4.1-mini ─")
        screen.until("StarNewsFinder was chosen").until("─ prompt of").until("│ Create a person from this user input")
        screen.until("─ reply of gpt-4.1-mini ─").until("Scorpio").until("│ calls search")
        screen.until("│ Write something amusing for Lynda").until("✓ StarNewsFinder.write_up")
        screen.until("Dear Lynda,").until("otters")
        assert screen.ended() == 0, screen.text


def test_in_open_mode_a_goal_is_chosen_and_its_start_is_taken_from_the_sentence_or_asked_for(
    aimock: Providers, singers: Path, environment: Mapping[str, str]
) -> None:
    aimock.answer("Which of these candidates", content=ratings(sleep=0.2, whistle=0.9))
    aimock.answer("Take a Tune", content={"result": None, "failure": "Which tune?"})
    with on_terminal(["run", "Whistle, please", "--open"], environment, singers) as screen:
        screen.until("whistle was chosen").until("Whistle a tune: some details are missing.")
        screen.until("name:").press("Greensleeves", ENTER)
        screen.until("✓ Whistler.whistle").until("Greensleeves whistled")
        assert screen.ended() == 0, screen.text


def test_the_planner_and_the_model_can_be_chosen(aimock: Providers, shipped: Path, piped: Command) -> None:
    teach_news(aimock)
    chosen = ["--planner", "utility", "--model", "anthropic:claude-sonnet-4-6"]
    ran = piped("run", "--workspace", str(shipped), LYNDA, *chosen)
    assert ran.code == 0, ran.err
    assert "Dear **Lynda**" in ran.out
    assert {each["path"] for each in aimock.journal()} == {"/v1/messages"}


def test_ctrl_c_stops_what_is_drawn(aimock: Providers, singers: Path, environment: Mapping[str, str]) -> None:
    aimock.answer("Which of these candidates", content=ratings(Sleeper=0.9))
    with on_terminal(["run", "Sleep"], environment, singers) as screen:
        screen.until("Sleeper.sleep").press(CTRL_C)
        assert screen.ended() == 130
        assert "Stopped." in screen.text
        assert "✗ Sleeper.sleep stopped" in screen.text


def test_no_control_character_reaches_the_terminal(
    aimock: Providers, singers: Path, environment: Mapping[str, str]
) -> None:
    aimock.answer("Which of these candidates", content=ratings(Singer=0.9))
    command = ["run", "Sing \x1b]0;of\x07 \u202ebees\x9b 🐝", "-p", "--json"]
    with on_terminal(command, {**environment, "TERM": "dumb"}, singers) as screen:
        screen.until("      Sing  bees 🐝").until("verses:").press("1", ENTER)
        screen.until(r'"# Sing \u001b]0;of\u0007 \u202ebees\u009b 🐝')
        assert screen.ended() == 0
    assert not {"\x1b", "\x07", "\x9b", "\u202e"}.intersection(screen.raw.decode())


def test_if_nothing_fits_the_nearest_are_named(aimock: Providers, singers: Path, piped: Command) -> None:
    aimock.answer("Which of these candidates", content=ratings(Singer=0.3, Whistler=0.2, Sleeper=0.0))
    ran = piped("run", "--workspace", str(singers), "Bake a cake")
    assert (ran.code, ran.out) == (3, "")
    assert "error: No agent fits well enough. The nearest are Singer (0.30): Sings songs" in ran.err


def test_without_a_model_it_is_said_what_to_set(singers: Path, piped: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    ran = piped("run", "--workspace", str(singers), "Sing")
    assert ran.code == 1
    assert "openai has no key. Set OPENAI_API_KEY" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Say what you want"),
        (["  "], "the text is empty"),
        (["Sing", "--input", "{}"], "--input is for --goal"),
        (["Sing", "a", "song"], "Nothing takes 'a'. A text of several words is put between quotes. See goalport run"),
        (["Sing", "--goal", "sing"], "TEXT has no meaning"),
        (["--open", "--goal", "sing"], "--open has no meaning"),
        (["Sing", "--planner", "best"], "goap"),
    ],
)
def test_what_cannot_be_meant_is_refused(singers: Path, piped: Command, arguments: list[str], message: str) -> None:
    ran = piped("run", *arguments, "--workspace", str(singers))
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
