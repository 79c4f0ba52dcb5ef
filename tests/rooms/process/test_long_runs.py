"""Processes of many actions: they are allowed by a larger budget, and know their many objects as well as few."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from goalport import (
    AgentPlatform,
    Blackboard,
    Budget,
    Export,
    ProcessOptions,
    ProcessStatus,
    State,
    UserInput,
    achieves_goal,
    action,
    agent,
)
from goalport.models.llm import LlmOptions
from goalport.runtime.platform import SupervisorInvocation
from goalport.runtime.process.recording import ProcessState, Ranges
from goalport.store import Codec, StoredTypes
from goalport.store.sqlite import SqliteProcessStore
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings

ROUNDS = 120


class Round(State):
    number: int

    @action(can_rerun=True)
    async def again(self, start: UserInput) -> "Round | Over":
        return Round(self.number + 1) if self.number < ROUNDS else Over(f"{start.content}: {self.number}")


class Over(State):
    text: str

    @achieves_goal(description="Say how many rounds there were")
    async def told(self) -> str:
        return self.text


@agent(description="Goes round")
class Rounds:
    @action
    async def begin(self, start: UserInput) -> Round:
        assert start.content
        return Round(1)


async def test_a_loop_runs_as_many_actions_as_its_budget_allows() -> None:
    options = ProcessOptions(budget=Budget(actions=ROUNDS + 2))
    process = await AgentPlatform([Rounds]).run("Rounds", UserInput("rounds"), options=options)
    assert process.status is ProcessStatus.COMPLETED
    assert process.blackboard.last(str) == f"rounds: {ROUNDS}"
    assert len(process.history) == ROUNDS + 2
    assert process.blackboard.all(Round) == []


class Kept(State):
    number: int

    @action(can_rerun=True)
    async def again(self, start: UserInput) -> "Kept | Told":
        return Kept(self.number + 1) if self.number < ROUNDS else Told(f"{start.content}: {self.number}")


class Told(State):
    text: str

    @achieves_goal(description="Say how many rounds there were", export=Export(durable=True))
    async def told(self) -> str:
        return self.text


@agent(description="Goes round, each step stored")
class KeptRounds:
    @action
    async def begin(self, start: UserInput) -> Kept:
        assert start.content
        return Kept(1)


@pytest.mark.parametrize("as_before", [False, True])
async def test_the_stored_state_of_a_long_run_is_short_and_says_which_objects_are_hidden(
    tmp_path: Path, *, as_before: bool
) -> None:
    file, options = tmp_path / "processes.db", ProcessOptions(budget=Budget(actions=ROUNDS + 2))
    async with SqliteProcessStore(file, synchronous="normal") as store, AgentPlatform([KeptRounds], store=store) as one:
        process = await one.run("KeptRounds", UserInput("rounds"), options=options)
        await process.rest()
    with closing(sqlite3.connect(file)) as connection, connection:
        ((text,),) = connection.execute("select state from process")
        codec = Codec(StoredTypes())
        state = cast("ProcessState", codec.decode(json.loads(text)))
        assert state.hidden == Ranges(((1, ROUNDS + 1),))
        if as_before:  # earlier versions wrote each number
            written = codec.encode(replace(state, hidden=frozenset(range(1, ROUNDS + 1))))
            connection.execute("update process set state = ?", [json.dumps(written)])
    async with SqliteProcessStore(file) as store, AgentPlatform([KeptRounds], store=store) as other:
        board = (await other.process(process.id)).blackboard
        assert board.last(Kept) is None
        assert board.last(str) == f"rounds: {ROUNDS}"
        assert len(board.history) == ROUNDS + 3


async def test_a_process_that_has_used_up_its_actions_says_which_option_allows_more() -> None:
    process = await AgentPlatform([Rounds]).run("Rounds", UserInput("rounds"))
    assert process.outcome is not None
    assert process.outcome.status is ProcessStatus.TERMINATED
    assert "50 actions" in process.outcome.reason
    assert "ProcessOptions(budget=Budget(actions=…))" in process.outcome.reason
    assert "max_actions" in process.outcome.reason


async def test_a_setting_says_how_many_actions_the_processes_of_a_workspace_may_run(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    settings = load_settings(tmp_path, max_actions=ROUNDS + 2, store="memory")
    async with AgentPlatform.from_workspace(load_workspace(tmp_path), settings) as platform:
        platform.deploy(Rounds)
        process = await platform.run("Rounds", UserInput("rounds"))
    assert process.status is ProcessStatus.COMPLETED


def test_an_invocation_with_another_model_keeps_the_options_of_its_platform() -> None:
    platform, model = AgentPlatform(options=ProcessOptions(budget=Budget(actions=3))), LlmOptions(model="other")
    assert SupervisorInvocation.on(platform).with_llm(model).options == platform.options.with_(supervisor_llm=model)


class Thing:
    """A thing that is equal to itself alone."""


class Special(Thing):
    """A thing of its own class."""


KINDS: tuple[type, ...] = (Thing, Special, str)
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(KINDS)),
        st.tuples(st.sampled_from(["hide", "add again"]), st.integers(0, 200)),
        st.just(("clear", 0)),
    ),
    min_size=40,
    max_size=120,
)


def _made(kind: type) -> object:
    return "the same text each time" if kind is str else kind()


@given(DEEDS)
def test_the_newest_visible_object_of_each_type_is_found_among_many(deeds: list[tuple[str, Any]]) -> None:
    blackboard = Blackboard()
    for _ in range(40):
        blackboard.add(Thing())
    for deed, what in deeds:
        known = blackboard.history
        match deed:
            case "add":
                blackboard.add(_made(what))
            case "clear":
                blackboard.clear()
            case "hide" if known:
                blackboard.hide(known[what % len(known)])
            case "add again" if known:
                blackboard.add(known[what % len(known)])
            case _:
                pass
        for kind in (*KINDS, object, int):
            visible = [each for each in blackboard.objects if isinstance(each, kind)]
            assert blackboard.last(kind) is (visible[-1] if visible else None)


def test_a_thread_may_add_objects_while_another_looks_something_up_among_many() -> None:
    blackboard = Blackboard()
    for each in [Thing() for _ in range(40)] + ["a text"]:
        blackboard.add(each)

    class Asks(type):
        def __instancecheck__(cls, value: object) -> bool:
            thread = Thread(target=blackboard.add, args=(Special(),))
            thread.start()
            thread.join(60)
            return False

    class Asked(metaclass=Asks):
        """There is none of these."""

    assert blackboard.last(Asked) is None
    assert isinstance(blackboard.last(Special), Special)
