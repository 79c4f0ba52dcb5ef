"""The store in PostgreSQL: it keeps what it confirmed, beside other programs, and outlasts the end of its server."""

import asyncio
import gc
import os
import re
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from goalport.base.errors import StoreError
from goalport.store import Lease
from goalport.store.postgres import DatabaseServer, PostgresAddress
from goalport.store.postgres.process_store import ChangeNotifications, PostgresProcessStore, process_tables
from goalport.store.tables import LATEST_VERSION, steps_after
from tests.clients.running import installed, started
from tests.postgres import PostgresServer
from tests.rooms.store.programs import known, objects, process, save

StartPostgres = Callable[..., PostgresServer]
CUT = """select pg_terminate_backend(pid, 5000) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()"""

LISTENING = "select count(*) from pg_stat_activity where datname = current_database() and query like 'LISTEN%'"


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresProcessStore]:
    async with PostgresProcessStore(url) as opened:
        yield opened


# A server that comes and goes.


async def test_what_was_confirmed_survives_a_crash_of_the_server_and_saving_goes_on(
    own_postgres: StartPostgres,
) -> None:
    server = own_postgres()
    confirmed: dict[str, list[int]] = {f"p{each}": [] for each in range(8)}
    refused, running = 0, asyncio.Event()
    running.set()

    async def work(store: PostgresProcessStore, name: str) -> None:
        nonlocal refused
        lease, number = Lease(name), 0
        while not refused or len(confirmed[name]) < enough:
            await running.wait()
            try:
                lease = await store.save([process(name, number, first=number)], lease, wake_at=None, release=False)
                confirmed[name].append(number)
            except StoreError:
                refused += 1
            number += 1

    with anyio.fail_after(60):
        async with PostgresProcessStore(server.database(), connections=4) as store:
            async with anyio.create_task_group() as group:
                enough = 10
                for name in confirmed:
                    group.start_soon(work, store, name)
                while not all(confirmed.values()):
                    await anyio.sleep(0.01)
                await asyncio.to_thread(server.stop, "immediate")
                while not refused:
                    await anyio.sleep(0.01)
                running.clear()
                enough = max(map(len, confirmed.values())) + 10
                await asyncio.to_thread(server.start)
                running.set()
            for name, numbers in confirmed.items():
                assert set(numbers) <= set(await objects(store, name))


async def test_a_server_that_is_away_is_said_and_it_works_again_by_itself(own_postgres: StartPostgres) -> None:
    server = own_postgres()
    async with PostgresProcessStore(server.database()) as store:
        await save(store, process("one"))
        server.stop()
        with pytest.raises(StoreError, match=r"It cannot be reached: .* Start it, or correct its address."):
            await save(store, process("two"))
        with pytest.raises(StoreError, match="it works again by itself"):
            await store.records()
        server.start()
        await save(store, process("three"))
        assert await known(store) == ["one", "three"]


def break_connections(server: PostgresServer) -> None:
    """End this program's part of them, of which nobody hears before something is sent."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(each.name))) as other:
            if other.family is socket.AF_UNIX and other.getpeername() == f"{server.folder}/.s.PGSQL.5432":
                other.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("names", [(), ("new",)])
async def test_a_store_whose_connections_have_just_broken_can_be_used_and_closed(
    store: PostgresProcessStore, postgres: PostgresServer, names: Sequence[str]
) -> None:
    async with anyio.create_task_group() as group:
        for each in range(8):
            group.start_soon(save, store, process(f"p{each}"))
    break_connections(postgres)
    for each in names:
        await save(store, process(each))
    await store.close()


async def test_connections_that_were_cut_are_made_again_and_nobody_notices(
    store: PostgresProcessStore, postgres: PostgresServer, url: str
) -> None:
    for each in ("one", "two"):
        await save(store, process(each))
        postgres.run(CUT, url=url)
    assert await known(store) == ["one", "two"]


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = PostgresProcessStore(f"postgresql://ann@127.0.0.1:{port}/x?sslmode=disable", seconds=0.2)
        with anyio.fail_after(60), pytest.raises(StoreError, match=r"It has not answered within 0\.2 s\."):
            await store.records()
        await store.close()


async def test_a_save_that_has_begun_is_not_cancelled(store: PostgresProcessStore, url: str) -> None:
    lease = await store.save([process("one", "x")], Lease("one"), wake_at=None, release=False)
    connection = await DatabaseServer(PostgresAddress(url), process_tables("goalport"), 10, pooler=False).connect()
    await connection.execute("begin; select from goalport.process for update")
    saving = asyncio.create_task(store.save([process("one", "y", first=1)], lease, wake_at=None, release=False))
    while not await connection.fetch("select from pg_locks where not granted"):
        await anyio.sleep(0.01)
    saving.cancel()
    await connection.execute("rollback")
    connection.terminate()
    await asyncio.wait([saving])
    assert await objects(store, "one") == ["x", "y"]


async def test_a_save_whose_end_is_unknown_can_be_repeated(
    store: PostgresProcessStore, postgres: PostgresServer, url: str
) -> None:
    postgres.run(
        """create function leave() returns trigger language plpgsql as $$ begin
             perform pg_terminate_backend(pg_backend_pid()); return null;
           end $$""",
        """create constraint trigger leave after insert on goalport.object deferrable initially deferred
           for each row execute function leave()""",
        url=url,
    )
    with pytest.raises(StoreError, match=r"what was written is there or is not.* Write the same again\."):
        await save(store, process("one", "x"))
    postgres.run("drop trigger leave on goalport.object", url=url)
    for _ in range(2):
        await save(store, process("one", "x"))
    assert await objects(store, "one") == ["x"]


@pytest.mark.parametrize("code", ["40001", "40P01", "25006"], ids=["conflict", "deadlock", "demoted server"])
async def test_a_transaction_that_fails_for_a_passing_reason_is_begun_anew(
    store: PostgresProcessStore, postgres: PostgresServer, url: str, code: str
) -> None:
    postgres.run(
        "create sequence tries",
        f"""create function refuse() returns trigger language plpgsql as $$ begin
             if nextval('tries') < 3 then raise 'not now' using errcode = '{code}'; end if; return new;
           end $$""",
        "create trigger refuse before insert on goalport.object for each row execute function refuse()",
        url=url,
    )
    await save(store, process("one", "x"))
    assert await objects(store, "one") == ["x"]


def test_each_event_loop_has_connections_of_its_own(url: str) -> None:
    store = PostgresProcessStore(url)
    asyncio.run(save(store, process("one")))
    assert asyncio.run(known(store)) == ["one"]


@pytest.fixture
def pooled(postgres: PostgresServer, url: str, tmp_path: Path) -> Iterator[str]:
    """The URL of the database behind PgBouncer, which gives each transaction any of two connections."""
    program = installed("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
    with tempfile.TemporaryDirectory(prefix="goalport-pg-") as folder:
        Path(folder).chmod(0o777)
        settings = ["auth_type = any", "listen_port = 6432", f"unix_socket_dir = {folder}"]
        settings += ["pool_mode = transaction", "default_pool_size = 2"]
        file = tmp_path / "pgbouncer.ini"
        databases = f"[databases]\n* = host={postgres.folder} port=5432 user=postgres\n"
        file.write_text(databases + "\n".join(["[pgbouncer]", *settings, ""]))
        command = [program, *(["-u", "nobody"] if os.geteuid() == 0 else []), str(file)]
        with started(command, re.compile("process up"), dict(os.environ)):
            yield f"postgresql://postgres@/{name_in(url)}?host={folder}&port=6432"


async def test_transactions_may_have_any_connection_of_a_pooler(pooled: str) -> None:
    async with PostgresProcessStore(pooled, pooler=True) as store:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(save, store, process(f"p{number}", number, number))
            assert len(await known(store)) == 20
            assert [await objects(store, f"p{number}") for number in range(20)] == [[each] * 2 for each in range(20)]
            await store.wait_for_changes(60)


# Notifications.


async def test_another_program_hears_of_a_save_at_once_also_after_it_was_cut_off(
    store: PostgresProcessStore, postgres: PostgresServer, url: str
) -> None:
    lease = await store.save([process("one")], Lease("one"), wake_at=None, release=False)
    async with PostgresProcessStore(url) as other:
        for cut in (False, True):
            if cut:
                postgres.run(CUT, url=url)
            # Looking once a second, without being told, takes longer.
            with anyio.fail_after(60):
                for _ in range(30):
                    async with anyio.create_task_group() as group:
                        group.start_soon(other.wait_for_changes, 60)
                        await anyio.lowlevel.checkpoint()
                        lease = await store.save([], lease, wake_at=None, release=False)


async def test_many_programs_that_write_at_once_do_not_each_tell_all_others(
    postgres: PostgresServer, store: PostgresProcessStore, url: str
) -> None:
    written = told = 0

    async def write(notifications: ChangeNotifications) -> None:
        nonlocal written
        while told < 300:
            notifications.notify()
            written += 1
            await anyio.sleep(0.015)  # more than what becomes one notification

    def hear(*_: object) -> None:
        nonlocal told
        told += 1

    await save(store, process("one"))
    server = DatabaseServer(PostgresAddress(url), process_tables("goalport"), 30, pooler=False)
    listener, all_notifications = await server.connect(), [ChangeNotifications(server) for _ in range(30)]
    await listener.add_listener("goalport", hear)
    async with anyio.create_task_group() as programs:
        with anyio.fail_after(60):
            for notifications in all_notifications:
                programs.start_soon(notifications.run)
                await notifications.wait(0.01)
            while int(postgres.run(LISTENING, url=url)) < len(all_notifications):
                await anyio.sleep(0.01)
            for notifications in all_notifications:
                programs.start_soon(write, notifications)
            while told < 300:
                await anyio.sleep(0.01)
        programs.cancel_scope.cancel()
    listener.terminate()
    assert written > 1.5 * told, "if each told of each write, there would be as many"


async def test_that_a_program_lives_is_no_news(store: PostgresProcessStore, postgres: PostgresServer, url: str) -> None:
    def connections() -> str:
        return postgres.run("select count(*) - 1 from pg_stat_activity where datname = current_database()", url=url)

    for _ in range(20):
        await store.heartbeat(60)
    assert connections() == "1"
    await save(store, process("one"))
    with anyio.fail_after(60):
        while connections() != "2":
            await anyio.sleep(0.01)


async def test_who_waits_for_news_of_a_server_that_is_away_goes_on_looking() -> None:
    store = PostgresProcessStore("postgresql://127.0.0.1:1/nowhere")
    with anyio.fail_after(60):
        await store.wait_for_changes(60)
        await store.wait_for_changes(0.01)
    await store.close()


# What can go wrong with a server.


async def refusal(url: str) -> str:
    store = PostgresProcessStore(url)
    with pytest.raises(StoreError) as raised:
        await save(store, process("one"))
    with pytest.raises(StoreError) as again:
        await store.records()
    await store.close()
    assert str(again.value) == str(raised.value)
    return str(raised.value)


async def test_a_wrong_password_is_said_and_not_shown(own_postgres: StartPostgres) -> None:
    server = own_postgres()
    server.run("create role ann login password 'the right one'")
    server.restart_with_rules("local all postgres trust", "local all all scram-sha-256")
    address = server.url(user="ann:the%20wrong%20one")
    found = await refusal(address)
    assert "It does not accept the user or the password." in found
    assert "postgresql://ann@/postgres:" in found
    assert "wrong%20one" not in found
    assert "wrong one" not in found
    server.restart_with_rules("local all postgres trust")
    assert "It does not let this user in: no pg_hba.conf entry" in await refusal(address)


async def test_a_database_that_is_not_there_is_said(postgres: PostgresServer) -> None:
    found = await refusal(postgres.url("nowhere"))
    assert "There is no such database. Create it, empty" in found


async def test_a_database_that_can_only_be_read_is_read(postgres: PostgresServer, url: str) -> None:
    async with PostgresProcessStore(url) as store:
        await save(store, process("one"))
    postgres.run(f"alter database {name_in(url)} set default_transaction_read_only = on")
    store = PostgresProcessStore(url)
    with pytest.raises(StoreError, match="It can only be read, as the replica of another database"):
        await save(store, process("two"))
    assert await known(store) == ["one"]
    await store.close()


def name_in(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


async def test_a_full_disk_is_said_and_nothing_is_half_written(
    store: PostgresProcessStore, postgres: PostgresServer, url: str
) -> None:
    await save(store, process("one"))
    postgres.run(
        """create function fill() returns trigger language plpgsql as $$ begin
             raise 'could not extend file: No space left on device' using errcode = '53100';
           end $$""",
        "create trigger fill before insert on goalport.object for each row execute function fill()",
        url=url,
    )
    with pytest.raises(StoreError, match=r"Its disk is full. Free some space. Nothing was written; it works again"):
        await save(store, process("two", "x"))
    postgres.run("drop trigger fill on goalport.object", url=url)
    assert await known(store) == ["one"]
    await save(store, process("two", "x"))
    assert await known(store) == ["one", "two"]


async def test_a_user_who_may_not_make_tables_is_told_what_it_needs(postgres: PostgresServer, url: str) -> None:
    postgres.run(f"create role {name_in(url)}_user login")
    found = await refusal(url.replace("postgres@", f"{name_in(url)}_user@"))
    assert "Its user may not do what is needed: permission denied for database" in found
    assert "GRANT CREATE ON DATABASE" in found


async def test_a_value_that_is_no_text_of_a_database_is_refused(store: PostgresProcessStore) -> None:
    for each in ("nul \0", "half a pair \ud800"):
        with pytest.raises(StoreError, match=r"A value is not as it must be: .* Nothing was written."):
            await save(store, process(each))
        with pytest.raises(StoreError, match="A value is not as it must be"):
            await store.find(each)
    assert await known(store) == []


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreError, match=r"library that is not installed. Run pip install 'goalport\[postgres\]'"):
        PostgresProcessStore("postgresql://ann:hush@db/goalport")


# The schema.


async def test_tables_of_another_program_are_left_alone(postgres: PostgresServer, url: str) -> None:
    postgres.run("create table public.process (entry text)", url=url)
    async with PostgresProcessStore(url) as store:
        await save(store, process("one"))
        assert await known(store) == ["one"]
    postgres.run("create schema other", "create table other.diary (entry text)", url=url)
    store = PostgresProcessStore(url, schema="other")
    with pytest.raises(StoreError, match=r"Its schema 'other' is of another program. Name another database."):
        await save(store, process("one"))
    await store.close()
    assert postgres.run("select tablename from pg_tables where schemaname = 'other'", url=url) == "diary"


async def test_programs_that_start_together_make_the_tables_once(postgres: PostgresServer, url: str) -> None:
    async with AsyncExitStack() as stack, anyio.create_task_group() as group:
        for number in range(5):
            store = PostgresProcessStore(url)
            stack.push_async_callback(store.close)
            group.start_soon(save, store, process(f"p{number}"))
    assert postgres.run("select count(*) from goalport.process", url=url) == "5"
    assert postgres.run("select count(*) from goalport.schema_version", url=url) == str(LATEST_VERSION)


async def test_a_newer_schema_is_refused_also_while_the_store_is_open(
    store: PostgresProcessStore, postgres: PostgresServer, url: str
) -> None:
    await save(store, process("one"))
    postgres.run("insert into goalport.schema_version values (99, 0)", url=url)
    for each in (store, PostgresProcessStore(url)):
        with pytest.raises(
            StoreError, match=r"A newer goalport has changed it to .*schema.* Install that goalport here"
        ):
            await save(each, process("two"))
        with pytest.raises(StoreError, match="A newer goalport has changed it"):
            await each.records()
        await each.close()


async def test_tables_that_vanish_are_not_made_again(
    store: PostgresProcessStore, postgres: PostgresServer, url: str
) -> None:
    await save(store, process("one"))
    postgres.run("alter schema goalport rename to away", url=url)
    for _ in range(2):
        with pytest.raises(StoreError, match="tables"):
            await save(store, process("two"))
    postgres.run(CUT, url=url)
    with pytest.raises(StoreError, match=r"Its tables are no longer there."):
        await save(store, process("two"))
    postgres.run("alter schema away rename to goalport", url=url)
    await save(store, process("two"))
    assert await known(store) == ["one", "two"]


@pytest.mark.parametrize("version", range(1, LATEST_VERSION))
async def test_tables_of_every_earlier_version_are_changed(postgres: PostgresServer, url: str, version: int) -> None:
    made = [each for number, step in steps_after(0, "postgresql") if number <= version for each in step]
    versions = f"insert into schema_version select n, 0 from generate_series(1, {version}) n"  # noqa: S608
    postgres.run("create schema goalport", "; ".join(["set search_path to goalport", *made, versions]), url=url)
    async with PostgresProcessStore(url) as store:
        await save(store, process("one", "x"))
        assert await objects(store, "one") == ["x"]
    columns = """select table_name, column_name, data_type, is_nullable from information_schema.columns
                 where table_schema = 'goalport' order by 1, 2"""
    changed = postgres.run(columns, url=url)
    fresh = postgres.database()
    async with PostgresProcessStore(fresh):
        assert changed == postgres.run(columns, url=fresh)


async def test_a_write_that_fails_after_its_caller_was_cancelled_is_told_to_nobody(
    store: PostgresProcessStore,
) -> None:
    await save(store, process("one"))
    told: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context))
    writing = asyncio.create_task(store.heartbeat(10))
    await anyio.lowlevel.checkpoint()
    writing.cancel()
    await store.close()
    with pytest.raises(asyncio.CancelledError):
        await writing
    del writing
    gc.collect()
    assert not told
