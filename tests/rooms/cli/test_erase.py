"""`goalport erase`: what a caller left goes from the store, by whoever runs the server."""

from pathlib import Path

import anyio

from tests.rooms.cli.conftest import Command
from tests.rooms.rest.test_erasing import ADA, BEN, PROCESSES, Echo, Jeweller, leave
from tests.rooms.rest.web import web


async def left_in(root: Path) -> str:
    """Have two callers leave two processes each in the store of a folder; the id of one of the second caller's."""
    async with web(root, Echo(), Jeweller(), store="sqlite") as server:
        for caller in (ADA, BEN):
            await leave(server, caller, "swordfish")
        return (await server.http.get(PROCESSES, headers=BEN)).json()["processes"][0]["processId"]


def test_whoever_runs_the_server_erases_what_a_caller_left(tmp_path: Path, goalport: Command) -> None:
    process = anyio.run(left_in, tmp_path)
    (tmp_path / "server").mkdir(exist_ok=True)
    (tmp_path / "server" / "settings.toml").write_text('store = "sqlite"\n')
    folder = ["--workspace", str(tmp_path)]
    assert goalport("erase", *folder).code == 2
    left = "conversations: 0, processes: 2, contexts: 0, documents: 0, sign_ins: 0."
    assert f"Would erase of ada: {left}" in goalport("erase", "--caller", "ada", "--dry-run", *folder).err
    assert f"Erased of ada: {left}" in goalport("erase", "--caller", "ada", *folder).err
    assert "processes: 0," in goalport("erase", "--caller", "ada", "--dry-run", *folder).err
    assert not list(tmp_path.rglob("documents.db")), "nothing is made to look for something"
    assert "is erased" in goalport("erase", "--process", process, *folder).err
    assert goalport("erase", "--process", process, *folder).code == 2
    assert "processes: 1," in goalport("erase", "--caller", "ben", "--dry-run", *folder).err
