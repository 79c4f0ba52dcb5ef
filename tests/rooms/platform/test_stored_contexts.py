"""Contexts in a store that outlives the program: what one program saves, others begin with.

`python -c "from tests.rooms.platform.test_stored_contexts import main; main()" FILE NAME` remembers a guest.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Generic, TypeVar

import anyio
import pytest
from pydantic import SecretStr

from goalport import AgentPlatform, Export, ProcessOptions, UserInput, WaitFor, achieves_goal, action, agent
from goalport.agents.blackboard import Typed
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import Unreadable, Unstorable
from goalport.base.sealing import ProcessSeals
from goalport.runtime.process import ActionContext, Completed, Context, Failed
from goalport.store.database import DatabaseProcessStore
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.store.sqlite import SqliteProcessStore
from tests.postgres import PostgresServer

T = TypeVar("T")
ADA = ProcessOptions(context_id="ada")
PATIENCE = 20.0


@dataclass(frozen=True)
class Guest:
    name: str


@dataclass(frozen=True)
class Table:
    guests: list[Guest]


@dataclass(frozen=True)
class Wine:
    name: str


@dataclass(frozen=True)
class Dinner:
    guests: tuple[str, ...]
    wine: str


@dataclass(frozen=True)
class Seats:
    number: int


@dataclass(frozen=True)
class Box(Generic[T]):
    items: tuple[T, ...]


@dataclass(frozen=True)
class Login:
    password: SecretStr


@dataclass(frozen=True)
class Door:
    lock: object


@agent(description="Remembers who comes")
class Doorman:
    @achieves_goal(description="A guest")
    async def welcome(self, user_input: UserInput, platform: AgentPlatform) -> Guest:
        guest, ada = Guest(user_input.content), await platform.contexts.find("ada") or Context("ada")
        ada.add(guest)
        await platform.contexts.save(ada)
        return guest


@agent(description="Counts who is known")
class Counter:
    @achieves_goal(description="Seats", export=Export(durable=True))
    async def count(self, user_input: UserInput, context: ActionContext) -> Seats:
        return Seats(len(context.blackboard.all(Guest)))


@agent(description="Serves whom it knows what they choose")
class Waiter:
    @action
    async def ask(self, user_input: UserInput) -> WaitFor[Wine]:
        return WaitFor.form_submission("Which wine?", Wine)

    @achieves_goal(description="A dinner")
    async def serve(self, wine: Wine, context: ActionContext) -> Dinner:
        seats = await context.as_sub_process(Seats, "Counter")
        guests = tuple(each.name for each in context.blackboard.all(Guest))
        assert seats.number == len(guests)
        return Dinner(guests, wine.name)


OpenPlatform = Callable[..., AgentPlatform]
"""Opens a platform on the database of a test each time, as another program would."""


@pytest.fixture(params=["sqlite", "postgres"])
async def open_platform(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenPlatform]:
    async with AsyncExitStack() as stack:
        url = ""
        if request.param == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            url = server.database()

        def opened(*keys: bytes) -> AgentPlatform:
            store: DatabaseProcessStore = PostgresProcessStore(url) if url else SqliteProcessStore(tmp_path / "a.db")
            stack.push_async_callback(store.close)
            seals = ProcessSeals(lambda: keys) if keys else None
            platform = AgentPlatform([Doorman, Counter, Waiter], store=store, seals=seals)
            stack.push_async_callback(platform.aclose)
            return platform

        yield opened


async def remember(file: str, name: str) -> None:
    async with SqliteProcessStore(Path(file)) as store, AgentPlatform([Doorman], store=store) as platform:
        process = await platform.run("Doorman", UserInput(name))
        sys.stdout.write(process.result_of_type(Guest).name)


def main() -> None:
    asyncio.run(remember(*sys.argv[1:]))


async def test_what_one_program_saves_another_begins_with(tmp_path: Path) -> None:
    program = f"from {__name__} import main; main()"
    for name in ("Bo", "Cy"):
        command = [sys.executable, "-c", program, str(tmp_path / "a.db"), name]
        said = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=60, check=True)
        assert said.stdout == name.encode()
    async with SqliteProcessStore(tmp_path / "a.db") as store, AgentPlatform([Counter], store=store) as platform:
        process = await platform.run("Counter", UserInput(""), options=ADA)
        assert process.outcome == Completed(Seats(2))
        assert process.blackboard.all(Guest) == [Guest("Bo"), Guest("Cy")]
        assert await store.prune(older_than=timedelta(0), keep=0) == 3
        assert (await platform.run("Counter", UserInput(""), options=ADA)).outcome == Completed(Seats(2))


async def test_an_object_stays_one_object_and_keeps_its_type(open_platform: OpenPlatform) -> None:
    context, bo = Context("ada"), Guest("Bo")
    context.add(Table([bo, bo]))
    context.add(bo)
    context["host"] = context["cook"] = bo
    context.add(Typed(Box[Guest](()), Box[Guest]))
    await open_platform().contexts.save(context)
    process = await open_platform().run("Counter", UserInput(""), options=ADA)
    board = process.blackboard
    (table,) = board.all(Table)
    assert table.guests[0] is table.guests[1] is board.get("host") is board.get("cook") is board.all(Guest)[0]
    assert (len(set(map(id, board.all(Guest)))), board.get("host")) == (1, bo)
    assert (board.last(Box[Guest]), board.last(Box[Wine])) == (Box[Guest](()), None)


async def test_of_two_who_save_at_once_nothing_is_lost_and_the_later_name_counts(open_platform: OpenPlatform) -> None:
    here, there = open_platform().contexts, open_platform().contexts
    first = Context("ada")
    first["host"] = bo = Guest("Bo")
    first.add(Guest("Al"))
    await here.save(first)
    second = await there.find("ada")
    assert second is not None
    second.add(Guest("Cy"))
    second["cook"], second["driver"] = second.names["host"], second.objects[0]
    first.add(Guest("Di"))
    first["host"] = Guest("Ed")
    await here.save(first)
    await there.save(second)
    assert second.objects == (Guest("Al"), Guest("Di"), Guest("Cy"))
    assert second.names == {"host": Guest("Ed"), "cook": bo, "driver": Guest("Al")}
    assert second.names["driver"] is second.objects[0]
    found = await here.find("ada")
    assert found is not None
    assert found.items == second.items
    await there.save(second)
    assert found.items == second.items


async def test_contexts_of_one_id_are_apart_by_their_callers_and_by_their_scopes(open_platform: OpenPlatform) -> None:
    anna, bo = Caller("anna", "https://login.example.com"), Caller("bo", "https://login.example.com")
    guest = Caller("guest", scopes=frozenset({"guests:read"}))
    contexts = [Context("ada"), Context("ada", anna), Context("ada", bo), Context("ada", scope="guests:read")]
    for number, each in enumerate(contexts):
        each.add(Guest(f"Guest {number}"))
        await open_platform().contexts.save(each)
    platform = open_platform()
    for number, caller in enumerate((ANONYMOUS, anna, bo)):
        process = await platform.run("Counter", UserInput(""), options=ADA, caller=caller)
        assert process.blackboard.all(Guest) == [Guest(f"Guest {number}")]
    options = ADA.with_(context_scope="guests:read")
    for caller, guests in ((guest, [Guest("Guest 3")]), (anna, [])):
        process = await platform.run("Counter", UserInput(""), options=options, caller=caller)
        assert process.blackboard.all(Guest) == guests
    assert await platform.contexts.delete("ada", bo)
    assert await platform.contexts.find("ada", bo) is None
    assert await platform.contexts.find("ada", anna) is not None


async def test_many_programs_remember_at_once(open_platform: OpenPlatform) -> None:
    platforms = [open_platform(), open_platform()]
    names = [f"Guest {number}" for number in range(12)]
    with anyio.fail_after(PATIENCE):
        await asyncio.gather(
            *(platforms[place % 2].run("Doorman", UserInput(each)) for place, each in enumerate(names))
        )
    found = await platforms[0].contexts.find("ada")
    assert found is not None
    assert sorted(each.name for each in found.objects if isinstance(each, Guest)) == sorted(names)


async def test_a_process_has_what_its_context_held_when_it_began_and_so_have_its_sub_processes(
    open_platform: OpenPlatform,
) -> None:
    platform = open_platform()
    await platform.run("Doorman", UserInput("Bo"))
    waiter = platform.start("Waiter", UserInput(""), options=ADA)
    with anyio.fail_after(PATIENCE):
        await waiter.rest()
        await platform.run("Doorman", UserInput("Cy"))
        await platform.aclose()
        after = open_platform()
        process = await after.answer(waiter.id, response={"name": "Riesling"})
        assert process is not waiter
        assert await process.wait() == Completed(Dinner(("Bo",), "Riesling"))


async def test_a_context_is_deleted_and_processes_keep_what_they_began_with(
    open_platform: OpenPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    platform = open_platform()
    await platform.run("Doorman", UserInput("Bo"))
    known = await platform.contexts.find("ada")
    waiter = platform.start("Waiter", UserInput(""), options=ADA)
    with anyio.fail_after(PATIENCE):
        await waiter.rest()
        assert await open_platform().contexts.delete("ada")
        assert not await platform.contexts.delete("ada")
        process = await open_platform().answer(waiter.id, response={"name": "Riesling"})
        assert await process.wait() == Completed(Dinner(("Bo",), "Riesling"))
    assert "no context" not in caplog.text
    assert (await platform.run("Counter", UserInput(""), options=ADA)).outcome == Completed(Seats(0))
    assert "There is no context 'ada'" in caplog.text
    assert known is not None
    known.add(Guest("Cy"))
    await platform.contexts.save(known)
    found = await platform.contexts.find("ada")
    assert found is not None
    assert found.objects == (Guest("Cy"),)


async def test_what_cannot_be_written_is_refused_with_its_place_and_the_rest_stays(open_platform: OpenPlatform) -> None:
    platform = open_platform()
    await platform.run("Doorman", UserInput("Bo"))
    context = await platform.contexts.find("ada")
    assert context is not None
    context["front"] = Door(threading.Lock())
    with pytest.raises(Unstorable, match=r"context 'ada', 'front', Door\.lock \(a lock\) cannot be stored"):
        await platform.contexts.save(context)
    found = await platform.contexts.find("ada")
    assert found is not None
    assert found.items == ((None, Guest("Bo")),)


async def test_secrets_are_sealed_and_without_the_key_no_process_begins(open_platform: OpenPlatform) -> None:
    context = Context("ada")
    context.add(Login(SecretStr("hunter2-geheim")))
    with pytest.raises(Unstorable, match=r"context 'ada', Login.password \(a SecretStr\) cannot be stored.*no key"):
        await open_platform().contexts.save(context)
    await open_platform(b"k" * 32).contexts.save(context)
    process = await open_platform(b"n" * 32, b"k" * 32).run("Counter", UserInput(""), options=ADA)
    assert process.last(Login) == Login(SecretStr("hunter2-geheim"))
    other = open_platform(b"x" * 32)
    assert "$secret_text" in (written := str(await other.store.find_context("ada")))
    assert "geheim" not in written
    with pytest.raises(Unreadable, match=r"for another process or context.*GOALPORT_STATE_KEYS"):
        await other.contexts.find("ada")
    with anyio.fail_after(PATIENCE):
        outcome = (await other.run("Counter", UserInput(""), options=ADA)).outcome
    assert isinstance(outcome, Failed)
    assert "did not begin" in outcome.reason
    assert "GOALPORT_STATE_KEYS" in outcome.reason
    await other.store.save_context("mallory", await other.store.find_context("ada"), instead_of=None)
    with pytest.raises(Unreadable, match="for another process or context"):
        await open_platform(b"k" * 32).contexts.find("mallory")


async def test_if_the_store_is_away_a_process_with_a_context_does_not_begin(open_platform: OpenPlatform) -> None:
    platform = open_platform()
    await platform.run("Doorman", UserInput("Bo"))
    await platform.store.close()  # type: ignore[attr-defined]
    with anyio.fail_after(PATIENCE):
        outcome = (await platform.run("Doorman", UserInput("Cy"), options=ADA)).outcome
    assert isinstance(outcome, Failed)
    assert "It did not begin. Try again later." in outcome.reason
