"""`goalport run` asks on the terminal what the goal wants to know, and says so where there is none."""

import json
import os
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command

ASKS = """
from typing import Literal
from pydantic import BaseModel, Field
from goalport import UserInput, WaitFor, achieves_goal, action, agent

class Wish(BaseModel):
    colour: Literal["red", "blue"] = Field(description="Which colour")
    pages: int = Field(3, ge=1)
    lined: bool = False
    tags: list[str] = []

class Bound(BaseModel):
    cover: str

class Book(BaseModel):
    content: str

@agent(description="Makes books")
class Binder:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Wish]:
        return WaitFor.form_submission("What kind of book?", Wish)

    @action
    def confirm(self, wish: Wish) -> WaitFor[Bound]:
        return WaitFor.confirmation(Bound(cover="leather"), "Bind it in leather?")

    @achieves_goal(description="A book")
    def make(self, wish: Wish, bound: Bound) -> Book:
        return Book(content=f"{wish.colour}, {wish.pages}, {wish.lined}, {wish.tags}, {bound.cover}")
"""
RUN = ("run", "--goal", "make", "--input", '{"content": "x"}', "--quiet")


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    (folder / "agents").mkdir(parents=True)
    (folder / "agents" / "binder.py").write_text(ASKS)
    return folder


def test_each_field_is_asked_for_and_the_result_is_printed(program_on_terminal: Command, books: Path) -> None:
    ran = program_on_terminal(*RUN, cwd=books, typed='2\n12\ny\n["a"]\ny\n')
    assert "What kind of book?" in ran.err
    assert "1. red" in ran.err
    assert "colour (Which colour): " in ran.err
    assert "pages (at least 1) [3]: " in ran.err
    assert "Bind it in leather?" in ran.err
    assert ran.code == 0
    assert "blue, 12, True, ['a'], leather" in ran.out


def test_an_answer_that_does_not_fit_is_refused_and_asked_for_again(terminal: Command, books: Path) -> None:
    ran = terminal(*RUN, cwd=books, typed="green\nfew\n\n\nred\n\nperhaps\nyes\n")
    assert "- colour: should be 'red' or 'blue'; came 'green'" in ran.err
    assert "- pages: " in ran.err
    assert ran.err.count("y or n: ") == 2
    assert "red, 3, False, [], leather" in ran.out


def test_a_no_is_a_no(terminal: Command, books: Path) -> None:
    ran = terminal(*RUN, cwd=books, typed="red\n\n\n\nn\n")
    assert ran.code == 1
    assert "Binder.confirm was declined" in ran.err


def test_the_end_of_input_leaves_it(terminal: Command, books: Path) -> None:
    ran = terminal(*RUN, cwd=books, typed="\x04")
    assert ran.code == 1
    assert "The question was left without an answer." in ran.err


def test_without_a_terminal_the_questions_are_printed(program: Command, books: Path) -> None:
    ran = program(*RUN, cwd=books, stdin=os.linesep)
    assert ran.code == 1
    assert "make waits for a person to answer: What kind of book?" in ran.err
    assert "Nobody can be asked here" in ran.err
    assert "Run the command on a terminal" in ran.err
    assert "goalport serve" in ran.err
    assert "process_answer" not in ran.out + ran.err
    (question,) = json.loads(ran.out)["questions"]
    assert (question["message"], question["kind"]) == ("What kind of book?", "form")


CHOOSES = """
from dataclasses import dataclass
from pydantic import BaseModel, Field
from goalport import UserInput, WaitFor, achieves_goal, action, agent
from goalport.agents.domain import VisitedUrl

@dataclass(frozen=True)
class Room:
    id: int
    name: str

class Guest(BaseModel):
    name: str
    pets: bool = True

class Stay(BaseModel):
    content: str

@agent(description="Lets rooms")
class Inn:
    @action
    def which(self, user_input: UserInput) -> WaitFor[Room]:
        return WaitFor.choice("Which room?", [Room(12, "Attic"), Room(14, "Garden")], Room)

    @action
    def why(self, room: Room) -> WaitFor[str]:
        return WaitFor.input("What brings you here?")

    @action
    def deposit(self, reason: str) -> WaitFor[VisitedUrl]:
        return WaitFor.url("Leave a deposit.", "https://example.com/deposit")

    @action
    def who(self, paid: VisitedUrl) -> WaitFor[Guest]:
        return WaitFor.form_submission("Is that right?", Guest, prefill=Guest(name="Ada"))

    @achieves_goal(description="A stay")
    def make(self, room: Room, reason: str, guest: Guest) -> Stay:
        return Stay(content=f"{guest.name} and pets ({guest.pets}) in {room.name}: {reason}")
"""


@pytest.mark.parametrize("room", ["2", "Garden", "14"])
def test_options_texts_addresses_and_drafts_are_shown(terminal: Command, tmp_path: Path, room: str) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "inn.py").write_text(CHOOSES)
    ran = terminal(*RUN, cwd=tmp_path, typed=f"Cellar\n{room}\n\nThe sea\ny\n\nn\n")
    assert "  1. Attic\n  2. Garden\nchoice: " in ran.err.replace("\r", "")
    assert "- choice: should be one of the options; came 'Cellar'. Known: Attic, Garden" in ran.err
    assert "- answer: " in ran.err
    assert "Do it at https://example.com/deposit and come back." in ran.err
    assert "name [Ada]: " in ran.err
    assert "pets [y]: " in ran.err
    assert ran.code == 0, ran.err
    assert "Ada and pets (False) in Garden: The sea" in ran.out
