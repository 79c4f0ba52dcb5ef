"""How far one database carries: replicas simulated up to a thousand, from what each operation costs PostgreSQL here.

Measured is the processor time of the database server, because each replica brings a machine, but the database is one.
The simulation draws when replicas write, and follows from that who tells of it and who looks for it. It leaves out the
network, the disk and locks: it says what is used up first, not how fast the rest is.
"""

import asyncio
import random
from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import count
from typing import Any, Final, NamedTuple

from benchmarks.durability import AT_ONCE, RunningProcess
from benchmarks.report import Table
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.workspace.settings import Settings
from tests.postgres import PostgresServer, postgres_files, postgres_server

__all__ = ["fleet"]

_REPLICAS: Final = (2, 10, 30, 100, 300, 1000)
_RUNNING: Final = 10
"""Processes that run at once at each replica."""
_WRITES: Final = 0.6 * _RUNNING
"""Commits per second of a replica: an action takes 5 seconds, and writes its end, a reply of a model and a result."""
_GATHERED, _ON_ITS_WAY, _APART, _PAUSE, _BEAT = 0.01, 0.003, 0.05, 0.5, 10.0
"""Seconds: within which writes become one notification, and one of another program does not count yet; the least and
the most between two looks; and between two heartbeats."""
_POOL: Final = Settings.model_fields["store_connections"].default
_CORES: Final = 16
_BUSY: Final = 0.5
"""What of a database's cores may be used, so that commits do not queue."""
_SECONDS: Final = 20.0
"""The time that is simulated."""


class Costs(NamedTuple):
    """Seconds of the database server's processors."""

    commit: float
    look: float
    beat: float
    delivery: float
    """A notification to one listener."""
    log_bytes: float
    """Bytes of the write-ahead log per commit."""


class Load(NamedTuple):
    """What replicas that share a database ask of it, per second."""

    commits: float
    looks: float
    beats: float
    deliveries: float

    def cores(self, costs: Costs) -> Sequence[float]:
        """The cores for commits, looks, heartbeats and notifications."""
        return (
            self.commits * costs.commit,
            self.looks * costs.look,
            self.beats * costs.beat,
            self.deliveries * costs.delivery,
        )


def fleet(*, quick: bool = False) -> Table:
    """The table of what each number of replicas takes of a database."""
    with postgres_files() as files, postgres_server(files, fsync="on", autovacuum="on") as server:
        version, costs = server.run("show server_version"), asyncio.run(_measured(server, 50 if quick else 600))
    rows = [_row(replicas, costs) for replicas in (_REPLICAS[:2] if quick else _REPLICAS)]
    columns = (
        *("replicas", "connections", "commits/s", "looks/s", "notifications/s", "log"),
        *("cores: commits", "looks", "heartbeats", "notifications"),
        *("databases", "… by polling alone"),
    )
    measured = (
        f"Measured with PostgreSQL {version}, processor time of the server: a commit {1e6 * costs.commit:.0f} µs and"
        f" {costs.log_bytes / 1e3:.1f} kB of log, a look {1e6 * costs.look:.0f} µs, a heartbeat"
        f" {1e6 * costs.beat:.0f} µs, a notification {1e6 * costs.delivery:.1f} µs for each who listens."
    )
    assumed = (
        f"Simulated: {_RUNNING} running processes at each replica, {_WRITES:g} commits per second. *connections*: at"
        " most; one of each replica listens. *notifications*: what is delivered. *cores*: if all shared one database."
        f" *databases*: how many of {_CORES} cores, {_BUSY:.0%} busy, so many replicas need, each group with one of its"
        " own; by polling alone (`store_pooler = true`) nobody is notified, and a replica looks twice a second."
    )
    return Table("fleet", "Replicas on PostgreSQL, simulated", columns, rows, [measured, assumed])


def _row(replicas: int, costs: Costs) -> Sequence[str]:
    load = simulated(replicas)
    per_second = (f"{each:,.0f}" for each in (load.commits, load.looks, load.deliveries))
    log = f"{load.commits * costs.log_bytes / 1e6:.1f} MB/s"
    cores = (f"{each:.2f}" for each in load.cores(costs))
    databases = (str(_databases(replicas, costs, notifying=notifying)) for notifying in (True, False))
    connections = f"{replicas * (_POOL + 1):,}"
    return (f"{replicas:,}", connections, *per_second, log, *cores, *databases)


def _databases(replicas: int, costs: Costs, *, notifying: bool) -> int:
    """The fewest groups of replicas, each with a database of its own that is not too busy."""
    sizes = ((number, -(-replicas // number)) for number in count(1))
    return next(
        number for number, size in sizes if sum(simulated(size, notifying=notifying).cores(costs)) <= _BUSY * _CORES
    )


def simulated(replicas: int, *, notifying: bool = True) -> Load:
    """What replicas do that share one database; each writes at random times."""
    drawn = random.Random(replicas)  # noqa: S311 - the same in each run
    commits, wanted = 0, list[tuple[float, float]]()
    for _ in range(replicas):
        now = notified = 0.0
        while (now := now + drawn.expovariate(_WRITES)) < _SECONDS:
            commits += 1
            if now >= notified:
                notified = now + _GATHERED * drawn.uniform(1, 2)
                wanted.append((notified, now))
    told = _told(sorted(wanted)) if notifying else ()
    looks = replicas * _looks(told)
    return Load(commits / _SECONDS, looks / _SECONDS, replicas / _BEAT, len(told) * replicas / _SECONDS)


def _told(wanted: Sequence[tuple[float, float]]) -> Sequence[float]:
    """When notifications are sent, of those that are due at a time for a write before it.

    None is sent if two others came meanwhile, since these have told everybody.
    """
    told: list[float] = []
    for due, written in wanted:
        if len(told) < 2 or told[-2] < written + _ON_ITS_WAY:
            told.append(due)
    return told


def _looks(told: Sequence[float]) -> int:
    """How often a replica looks at the database that is told of news at these times."""
    now, looks = 0.0, 0
    while now < _SECONDS:
        looks += 1
        following = bisect_right(told, now)
        news = told[following] if following < len(told) else _SECONDS
        now = max(now + _APART, min(news, now + _PAUSE))
    return looks


async def _measured(server: PostgresServer, times: int) -> Costs:
    url = server.database()
    async with PostgresProcessStore(url, connections=AT_ONCE) as store:
        await store.heartbeat(3600)
        several = [RunningProcess(store, f"p{each}") for each in range(AT_ONCE)]
        await asyncio.gather(*(each.commit_all(range(20)) for each in several))  # warms connections and caches
        async with _used(server) as commits, _logged(server) as logged:
            await asyncio.gather(*(each.commit_all(range(20, 20 + times // AT_ONCE + 1)) for each in several))
        async with _used(server) as looks:
            for _ in range(times):
                await store.due(8)
                await store.inbox()
                await store.versions(["p0"])
        async with _used(server) as beats:
            for _ in range(times):
                await store.heartbeat(30)
    written = AT_ONCE * (times // AT_ONCE + 1)
    delivery = await _delivery(server, url, times)
    return Costs(commits[0] / written, looks[0] / times, beats[0] / times, delivery, logged[0] / written)


async def _delivery(server: PostgresServer, url: str, times: int, listeners: int = 50) -> float:
    """What it takes to bring a notification to one listener."""
    asyncpg: Any = import_module("asyncpg")
    connections = [await asyncpg.connect(url) for _ in range(listeners)]
    for each in connections:
        await each.add_listener("news", _ignore)
    async with _used(server) as told:
        for _ in range(times):
            await connections[0].execute("select pg_notify('news', '')")
    for each in connections:
        await each.close()
    return told[0] / times / listeners


def _ignore(*_: object) -> None:
    """Do nothing with a notification."""


@asynccontextmanager
async def _used(server: PostgresServer) -> AsyncGenerator[list[float]]:
    """Adds the processor time that the server takes within the block."""
    found, before = list[float](), _processor_time(server)
    yield found
    await asyncio.sleep(0.2)  # what was asked for last is still being done
    found.append(_processor_time(server) - before)


def _processor_time(server: PostgresServer) -> float:
    psutil: Any = import_module("psutil")
    main = psutil.Process(int((server.folder / "data" / "postmaster.pid").read_text().split()[0]))
    times = [each.cpu_times() for each in (main, *main.children(recursive=True))]
    return sum(each.user + each.system for each in times)


@asynccontextmanager
async def _logged(server: PostgresServer) -> AsyncGenerator[list[float]]:
    """Adds the bytes that the server writes to its log within the block."""
    found, before = list[float](), server.run("select pg_current_wal_lsn()")
    yield found
    found.append(float(server.run(f"select pg_current_wal_lsn() - '{before}'::pg_lsn")))


if __name__ == "__main__":
    print(fleet().markdown)
