"""The environments of the clients, and the servers that they call."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from goalport.knowledge.rag import DocumentIngestion, SqliteDocumentStore
from tests.clients.running import CLIENTS, NODE_PACKAGES, ROOT, Served, lack, serving

pytest.register_assert_rewrite("tests.clients.asking", "tests.clients.conversation", "tests.clients.playing")

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Any of them will do; the first is the smallest."""


def needs(client: str, lock: Path, copy: Path) -> None:
    """The copy of its lock file that an environment keeps says what it was built from."""
    if copy.is_file() and copy.read_bytes() == lock.read_bytes():
        return
    lack(f"{client} is not there, or older than its lock file: run `make clients`")


def python_environment(name: str) -> Path:
    folder = CLIENTS / ".venvs" / name
    needs(name, CLIENTS / f"{name}.lock", folder / ".prepared")
    return folder / "bin"


@pytest.fixture(scope="session")
def node() -> str:
    """The Node that runs the clients, not the machine's own."""
    needs("Node with its clients", CLIENTS / "node" / "package-lock.json", NODE_PACKAGES / ".prepared")
    return str(NODE_PACKAGES / "node" / "bin" / "node")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser in which pages are tried."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    return found or lack("Chromium is not there: install it, on Debian with `apt-get install chromium-headless-shell`")


@pytest.fixture(scope="session")
def fastmcp_python() -> str:
    return str(python_environment("fastmcp") / "python")


@pytest.fixture(scope="session")
def adk_python() -> str:
    return str(python_environment("google-adk") / "python")


@pytest.fixture(scope="session")
def mcpo() -> str:
    return str(python_environment("mcpo") / "mcpo")


@pytest.fixture(scope="session")
def schemathesis() -> str:
    return str(python_environment("schemathesis") / "st")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The small workspace whose goal is to shout, with a skill and one document to read."""
    scratch = tmp_path_factory.mktemp("served")
    anyio.run(_take_in, ROOT / "docs" / "knowledge.md", scratch / "data" / "documents.db")
    with serving(CLIENTS / "workspace", scratch) as server:
        yield server


async def _take_in(document: Path, index: Path) -> None:
    async with SqliteDocumentStore(index) as store, DocumentIngestion(store) as ingestion:
        await ingestion.ingest(document)


@pytest.fixture(scope="module")
def conformance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The workspace that has what the official suite asks for."""
    with serving(CLIENTS / "conformance", tmp_path_factory.mktemp("conformance")) as server:
        yield server


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The repository's own workspace."""
    with serving(ROOT, tmp_path_factory.mktemp("shipped")) as server:
        yield server
