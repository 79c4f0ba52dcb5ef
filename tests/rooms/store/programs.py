"""What tests of the SQLite store let other programs do, `python programs.py NAME ARGUMENT...`, and what they share."""

import asyncio
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from goalport.base.caller import Caller
from goalport.base.errors import StoreError
from goalport.store import Lease, ObjectRecord, ProcessRecord, ProcessStore, StoredProcess
from goalport.store.sqlite import SqliteProcessStore

NOBODY = 65534
START = datetime(2026, 1, 1, tzinfo=UTC)


def record(process_id: str, parent: str = "", *, root: str = "", status: str = "running") -> ProcessRecord:
    ended = status in {"completed", "failed", "killed", "stuck"}
    return ProcessRecord(
        id=process_id,
        root=root or process_id,
        parent=parent,
        agent="Writer",
        caller=Caller("ann", "house", frozenset({"read", "write"}), {"tenant": "acme", "groups": ["a", "b"]}),
        status=status,
        ended=ended,
        final=ended and status != "stuck",
        created_at=START,
        finished_at=START + timedelta(seconds=1) if ended else None,
        long=False,
        result=None,
        seconds_run=1.5,
        definition={"agent": "Writer"},
        state=[1, 2.5, None],
    )


def process(
    process_id: str, *objects: object, root: str = "", first: int = 0, status: str = "running"
) -> StoredProcess:
    records = [ObjectRecord(first + place, each) for place, each in enumerate(objects)]
    return StoredProcess(record(process_id, root, root=root, status=status), records)


@contextmanager
def locked(file: Path) -> Generator[None]:
    """Another program writes."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        yield
        connection.execute("rollback")


async def save(store: ProcessStore, *changes: StoredProcess) -> None:
    """Save a family, which nobody runs afterwards."""
    await store.save(changes, Lease(changes[0].process.root), wake_at=None, release=True)


async def known(store: ProcessStore) -> Sequence[str]:
    return [each.id for each in await store.records()]


async def objects(store: ProcessStore, process_id: str) -> Sequence[object]:
    (found,), _ = await store.family(process_id)
    return [each.value for each in found.objects]


def start(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def reported(*arguments: object, before: Sequence[str] = ()) -> dict[str, Any]:
    command = [*before, sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


async def acknowledge(database: Path, acknowledged: Path, announced_after: int) -> None:
    """Save for ever, and write down what is committed; say a word when that is enough."""
    store = SqliteProcessStore(database)
    descriptor = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    total = 0

    async def work(name: str) -> None:
        nonlocal total
        number = 0
        while True:
            await save(store, process(name, f"{name} {number} a", f"{name} {number} b", first=2 * number))
            os.write(descriptor, f"{name} {number}\n".encode())
            number, total = number + 1, total + 1
            if total == announced_after:
                sys.stdout.write("enough\n")
                sys.stdout.flush()

    await asyncio.gather(*(work(f"p{each}") for each in range(8)))


async def run_families(database: Path) -> None:
    """Run two families, say so, and live until somebody ends this program."""
    store = SqliteProcessStore(database)
    await store.heartbeat(600)
    for name in ("one", "two"):
        await store.save([process(name)], Lease(name), wake_at=START, release=False)
    sys.stdout.write("running\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


async def save_many(database: Path, prefix: str, number: int) -> None:
    async with SqliteProcessStore(database, busy_seconds=60) as store:
        await asyncio.gather(*(save(store, process(f"{prefix}{each}", "x")) for each in range(number)))
        for each in range(number):
            await save(store, process(f"{prefix}{each}", "y", first=1))


async def with_too_little_room(database: Path) -> None:
    """Save until the file may not grow, read, and save again when it may."""
    async with SqliteProcessStore(database) as store:
        await save(store, process("before"))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        error = await refused(store, process("large", *["x" * 10_000] * 50))
        known = [each.id for each in await store.records()]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await save(store, process("large", "whole at last"))
        report(error, known, [each.id for each in await store.records()])


async def on_a_full_disk(folder: Path) -> None:
    """Save on a disk that something else has filled, and again when it is gone."""
    async with SqliteProcessStore(folder / "store.db") as store:
        await save(store, process("before"))
        ballast = folder / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        error = await refused(store, process("large", *["x" * 10_000] * 50))
        known = [each.id for each in await store.records()]
        ballast.unlink()
        await save(store, process("large", "whole at last"))
        report(error, known, [each.id for each in await store.records()])


async def read_only(of_folder: str) -> None:
    """Save to a file that only may be read, as a user who may not do everything."""
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name) / "store.db"
        async with SqliteProcessStore(file) as store:
            await save(store, process("before"))
        permit(file, 0o400)
        permit(folder, 0o500 if of_folder else 0o700)
        async with asyncio.timeout(60):
            store = SqliteProcessStore(file)
            error = await refused(store, process("after"))
            known = [each.id for each in await store.records()]
            permit(folder, 0o700)
            permit(file, 0o600)
            await save(store, process("after"))
            report(error, known, [each.id for each in await store.records()])
            await store.close()


def permit(path: Path, mode: int) -> None:
    path.chmod(mode)


async def refused(store: SqliteProcessStore, stored: StoredProcess) -> str:
    try:
        await save(store, stored)
    except StoreError as error:
        return str(error)
    return ""


def report(error: str, known: list[str], afterwards: list[str]) -> None:
    sys.stdout.write(json.dumps({"error": error, "known": known, "afterwards": afterwards}))


def main(name: str, *arguments: str) -> None:
    match name:
        case "acknowledge":
            asyncio.run(acknowledge(Path(arguments[0]), Path(arguments[1]), int(arguments[2])))
        case "run_families":
            asyncio.run(run_families(Path(arguments[0])))
        case "save_many":
            asyncio.run(save_many(Path(arguments[0]), arguments[1], int(arguments[2])))
        case "with_too_little_room":
            asyncio.run(with_too_little_room(Path(arguments[0])))
        case "on_a_full_disk":
            asyncio.run(on_a_full_disk(Path(arguments[0])))
        case _:
            asyncio.run(read_only(*arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
