"""A server whose database is away, or hangs: it tells its health and its numbers, and works again by itself."""

import os
import signal
import subprocess
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from tests.postgres import PostgresServer
from tests.stories.cooks import FILES
from tests.stories.servers import Running, running
from tests.stories.test_workers import numbers_of


@contextmanager
def stopped(postgres: PostgresServer) -> Generator[None]:
    postgres.stop()
    yield
    postgres.start()


@contextmanager
def hanging(postgres: PostgresServer) -> Generator[None]:
    first = (postgres.folder / "data/postmaster.pid").read_text().split()[0]
    others = subprocess.run(["pgrep", "--parent", first], check=True, capture_output=True, text=True).stdout.split()
    for each in (first, *others):
        os.kill(int(each), signal.SIGSTOP)
    yield
    for each in (first, *others):
        os.kill(int(each), signal.SIGCONT)


async def ready(server: Running, *, wanted: bool) -> None:
    async with httpx2.AsyncClient(base_url=server.address, timeout=30) as http:
        with anyio.fail_after(30):
            while ((await http.get("/health/ready")).status_code == 200) is not wanted:
                await anyio.sleep(0.1)


@pytest.mark.parametrize("trouble", [stopped, hanging])
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_health_and_metrics_are_told_from_memory_while_the_database_is_away(
    tmp_path: Path,
    own_postgres: Callable[[], PostgresServer],
    trouble: Callable[[PostgresServer], AbstractContextManager[None]],
    workers: str,
) -> None:
    postgres = own_postgres()
    async with (
        running(tmp_path, FILES, "--workers", workers, store=postgres.database()) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=5) as http,
    ):
        await ready(server, wanted=True)
        async with server.client("http", "auto") as client:
            await client.call_tool("cook", {"seconds": 0})
        assert 'goalport_processes{status="completed"}' in await numbers_of(server)
        with trouble(postgres):
            health = await http.get("/health")
            told = health.json()
            assert (health.status_code, told["ready"], told["processes"]) == (200, False, None)
            assert any(each.startswith("The store of processes") for each in told["reasons"])
            numbers = await http.get("/metrics")
            assert numbers.status_code == 200
            lines = numbers.text.splitlines()
            assert "goalport_ready 0.0" in lines
            assert 'goalport_calls_total{door="mcp",goal="cook",status="completed"} 1.0' in lines
            assert not [each for each in lines if each.startswith("goalport_processes{")]
        await ready(server, wanted=True)
        assert (await http.get("/health")).json()["processes"] == {"completed": 1}
    assert "Traceback" not in server.heard.text
