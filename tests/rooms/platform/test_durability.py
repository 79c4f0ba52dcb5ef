"""What deployed agents make, take, ask or start from and no store can write is told with the action and the fix."""

import logging
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import ModuleType

import pytest
from pydantic import BaseModel, SecretStr

from goalport import AgentPlatform, Export, State, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.sealing import ProcessSeals
from goalport.store.sqlite import SqliteProcessStore


class Plain:
    def __init__(self, text: str) -> None:
        self.text = text


@dataclass(frozen=True)
class Story:
    text: str


class Login(BaseModel):
    password: SecretStr


class Busy(State):
    story: Story
    lock: Lock

    @achieves_goal(description="Print", export=Export(starting_input_types=[Login]))
    def print_it(self) -> Story:
        return self.story


@dataclass(frozen=True)
class Approval(WaitFor[Story]):
    tool: ModuleType


@agent(description="Prints")
class Printer:
    @action
    def begin(self, user_input: UserInput) -> Plain:
        return Plain(user_input.content)

    @action
    def ask(self, plain: Plain) -> Approval:
        return Approval("May I?", logging)

    @action
    def lock(self, plain: Plain, story: Story) -> Busy:
        return Busy(story, Lock())


@agent(description="Only tells")
class Fine:
    @achieves_goal(description="A story")
    def tell(self, user_input: UserInput) -> Story:
        return Story(user_input.content)


def test_each_type_is_told_once_with_its_action_the_reason_and_the_fix() -> None:
    told = AgentPlatform([Fine(), Printer()]).unstorable
    plain, approval, busy, login = told
    assert "test_durability: Printer.begin (" in plain
    assert " makes Plain, so its process ends with the program: a Plain cannot be stored: it is neither" in plain
    assert plain.endswith("Make it one of these.")
    assert " asks Approval, so " in approval
    assert "Approval.tool (a module) cannot be stored: a module ends with the program." in approval
    assert "Busy.lock (a lock) cannot be stored" in busy
    assert busy.endswith("`Annotated[Service, Provided]`.")
    assert login.startswith("The goal Busy.print_it starts from Login, so ")
    assert "no key that encrypts it" in login


def test_a_class_inside_a_function_is_told_to_be_moved_to_the_top_of_its_module() -> None:
    @dataclass(frozen=True)
    class Local:
        text: str

    @agent(description="Makes it")
    class Maker:
        @achieves_goal(description="It")
        def make(self, user_input: UserInput) -> Local:
            return Local(user_input.content)

    (told,) = AgentPlatform([Maker()]).unstorable
    assert "Local cannot be stored: it is defined inside a function" in told
    assert told.endswith("Define it at the top of a module.")


async def test_deploying_tells_it_where_the_store_outlives_the_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    AgentPlatform([Printer()])
    assert not caplog.records
    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        AgentPlatform([Printer()], store=store, seals=ProcessSeals(lambda: [b"k" * 32]))
    assert [each.levelname for each in caplog.records] == ["WARNING"] * 3
    assert "Plain cannot be stored" in caplog.text
    assert "Login" not in caplog.text
