"""Clients that never initialize again after a 404: they go on with their session when the server was restarted."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.clients.running import CLIENTS, Served, obeying, serving
from tests.clients.test_mcpo import bridged

WORKSPACE = CLIENTS / "workspace"
COUNT: dict[str, Any] = {"name": "count_letters", "arguments": {"text": "good morning"}}


class Restarted:
    """A server that can be restarted at the same address with the same data folder."""

    def __init__(self, scratch: Path, stack: ExitStack) -> None:
        self._scratch = scratch
        self._stack = stack
        self.served: Served = stack.enter_context(serving(WORKSPACE, scratch))

    def restart(self) -> None:
        port = self.served.address.rpartition(":")[2]
        self._stack.close()
        self._stack.enter_context(serving(WORKSPACE, self._scratch, port=port))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restarted]:
    with ExitStack() as stack:
        yield Restarted(tmp_path, stack)


@pytest.mark.parametrize("sdk", ["1", "2"])
def test_a_typescript_client_goes_on(node: str, server: Restarted, tmp_path: Path, sdk: str) -> None:
    script = str(CLIENTS / "node" / f"client_{sdk}.mjs")
    with obeying([node, script, "obey", "http", "legacy", *server.served.target("http")], tmp_path) as tell:
        before = tell(COUNT)
        server.restart()
        assert tell(COUNT) == before


def test_the_client_of_fastmcp_goes_on(fastmcp_python: str, server: Restarted, tmp_path: Path) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    with obeying([fastmcp_python, script, "obey", "http", "legacy", *server.served.target("http")], tmp_path) as tell:
        before = tell(COUNT)
        server.restart()
        assert tell(COUNT) == before


def test_mcpo_with_the_older_python_client_goes_on(mcpo: str, server: Restarted, tmp_path: Path) -> None:
    with bridged(mcpo, "http", server.served, tmp_path) as client:
        assert client.post("/count_letters", json=COUNT["arguments"]).json() == 11
        server.restart()
        answer = client.post("/count_letters", json=COUNT["arguments"])
        assert (answer.status_code, answer.json()) == (200, 11)
