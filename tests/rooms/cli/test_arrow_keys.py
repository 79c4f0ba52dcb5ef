"""Questions on a terminal that can move its cursor: lists, prefilled lines, mistakes beside their field."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminals import CTRL_C, CTRL_D, CTRL_U, DOWN, ENTER, SPACE, Screen, on_terminal

BINDER = """
import datetime
from typing import Literal
from pydantic import BaseModel, Field, SecretStr, field_validator
from goalport import UserInput, WaitFor, achieves_goal, action, agent

class Address(BaseModel):
    street: str = Field(description="Street and number")
    city: str = "Oslo"

class Wish(BaseModel):
    colour: Literal["red", "blue", "green"] = Field(description="Which colour")
    pages: int = Field(3, ge=1)
    lined: bool = False
    extras: list[Literal["ribbon", "pocket", "lock"]] = Field([], max_length=2)
    tags: list[str] = []
    day: datetime.date
    pin: SecretStr = Field(min_length=4)
    paper: Literal["thin", "thick"] | None = None
    address: Address

    @field_validator("pages")
    @classmethod
    def even(cls, pages: int) -> int:
        if pages == 5:
            raise ValueError("should be even")
        return pages

class Bound(BaseModel):
    cover: str

class Book(BaseModel):
    content: str

@agent(description="Makes books")
class Binder:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Wish]:
        return WaitFor.form_submission("What kind of\\x1b[2J book?", Wish)

    @action
    def confirm(self, wish: Wish) -> WaitFor[Bound]:
        return WaitFor.confirmation(Bound(cover="leather"), "Bind it in leather?")

    @achieves_goal(description="A book")
    def make(self, wish: Wish, bound: Bound) -> Book:
        told = [wish.colour, wish.pages, wish.lined, wish.extras, wish.tags, wish.day.isoformat(), wish.paper]
        place = [wish.address.street, wish.address.city]
        return Book(content=f"{told} {place} {wish.pin.get_secret_value()[::-1]} {bound.cover}")
"""
SHOP = """
from dataclasses import dataclass
from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.agents.domain import VisitedUrl

@dataclass(frozen=True)
class Room:
    id: int
    name: str

@dataclass(frozen=True)
class Stay:
    content: str

@agent(description="Lets rooms")
class Inn:
    @action
    def which(self, user_input: UserInput) -> WaitFor[Room]:
        return WaitFor.choice("Which room?", [Room(12, "Attic"), Room(14, "Garden")], Room)

    @action
    def why(self, room: Room) -> WaitFor[str]:
        return WaitFor.input("What brings you here?", prefill="The sea")

    @action
    def deposit(self, reason: str) -> WaitFor[VisitedUrl]:
        return WaitFor.url("Leave a deposit.", "https://example.com/deposit", expires_in=EXPIRES)

    @achieves_goal(description="A stay", export=Export(remote=True))
    def make(self, room: Room, reason: str, paid: VisitedUrl) -> Stay:
        return Stay(f"{room.name}: {reason}")
"""
RUN = ["run", "--goal", "make", "--input", '{"content": "x"}', "--quiet"]


@pytest.fixture
def books(tmp_path: Path, home: Path) -> Iterator[Screen]:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "binder.py").write_text(BINDER)
    with on_terminal(RUN, {"TERM": "xterm"}, tmp_path) as screen:
        yield screen


def inn(folder: Path, expires: str = "None") -> Path:
    (folder / "agents").mkdir()
    (folder / "agents" / "inn.py").write_text(SHOP.replace("EXPIRES", expires))
    return folder


def test_a_form_is_filled_with_arrow_keys_and_each_mistake_is_shown_at_its_field(books: Screen) -> None:
    books.until("What kind of").until("colour (Which colour)").until("3. green").press(DOWN, ENTER)
    books.until("pages (at least 1): 3").press(CTRL_U, "few", ENTER)
    books.until("It should be a whole number.").press(CTRL_U, "5", ENTER)
    books.until("lined: n").press(CTRL_U, "maybe", ENTER)
    books.until("It should be y or n.").press(CTRL_U, "y", ENTER)
    books.until("extras (at most 2 items)").until("[ ] lock").press(SPACE, DOWN, SPACE, DOWN, SPACE, ENTER)
    books.until("should have at most 2 items").press(SPACE, ENTER)
    books.until("tags (with commas between them)").press("a, b", ENTER)
    books.until("day (a date, such as").press("soon", ENTER)
    books.until("It should be a date, such as").press(CTRL_U, "2026-05-01", ENTER)
    books.until("pin (at least 4 characters):").press("abc", ENTER)
    books.until("It does not fit.").press("d", ENTER)
    books.until("(leave it empty)").until("thick").press(ENTER)
    books.until("address.street (Street and number)").press(ENTER)
    books.until("It is required.").press("Elm 3", ENTER)
    books.until("address.city: Oslo").press(ENTER)
    books.until("- pages: should be even").until("pages (at least 1): 5").press(CTRL_U, "6", ENTER)
    books.until("Bind it in leather?").until("y or n:").press("y", ENTER)
    assert books.ended() == 0, books.text
    drawn = " ".join(books.text.split())
    assert "['blue', 6, True, ['ribbon', 'pocket'], ['a', 'b'], '2026-05-01', None] ['Elm 3', 'Oslo']" in drawn
    assert "dcba leather" in drawn
    assert "abcd" not in drawn
    assert b"\x1b[2J" not in books.raw
    assert drawn.count("- pages") == 1


def test_ctrl_c_ends_a_run_whose_question_nobody_can_answer_later(books: Screen) -> None:
    books.until("3. green").press(CTRL_C)
    books.until("The process ended with its question open")
    assert books.ended() == 130


def test_the_end_of_input_leaves_the_question(books: Screen) -> None:
    books.until("3. green").press(ENTER)
    books.until("pages (at least 1): 3").press(CTRL_U, "0", ENTER)
    books.until("should be").press(CTRL_U, CTRL_D)
    books.until("The question was left without an answer.")
    assert books.ended() == 1


def test_options_texts_and_addresses_are_shown(tmp_path: Path, home: Path) -> None:
    with on_terminal(RUN, {"TERM": "xterm"}, inn(tmp_path)) as screen:
        screen.until("Which room?").until("Garden").press(DOWN, ENTER)
        screen.until("What brings you here?").until("answer: The sea").press(CTRL_U, ENTER)
        screen.until("It is required.").press("Rest", ENTER)
        screen.until("Do it at https://example.com/deposit and come back.").until("y or n").press(ENTER)
        screen.until("Type y or n.").press("yes", ENTER)
        assert screen.ended() == 0, screen.text
        assert "Garden: Rest" in screen.text


def test_a_question_that_expires_while_somebody_types_is_taken_away(tmp_path: Path, home: Path) -> None:
    with on_terminal(RUN, {"TERM": "xterm"}, inn(tmp_path, "1")) as screen:
        screen.until("Garden").press(ENTER)
        screen.until("answer: The sea").press(ENTER)
        screen.until("y or n")
        screen.until("is expired already")
        assert screen.ended() == 1
        assert "Nobody answered in time." in screen.text


def test_a_terminal_that_cannot_move_its_cursor_shows_numbers(tmp_path: Path, home: Path) -> None:
    with on_terminal(RUN, {"TERM": "dumb"}, inn(tmp_path)) as screen:
        screen.until("1. Attic").until("2. Garden").until("choice: ").press("2\n")
        screen.until("answer [The sea]: ").press("\n")
        screen.until("y or n: ").press(CTRL_C)
        screen.until("The process ended with its question open")
        assert screen.ended() == 130
        assert b"\x1b[" not in screen.raw
