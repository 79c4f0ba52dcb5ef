"""The index of documents of a platform: where it is, who gets it, and when it is opened and closed."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from goalport import AgentPlatform, Provided, UserInput, achieves_goal, agent
from goalport.base.errors import StoreError
from goalport.cli import execute
from goalport.knowledge.documents import Chunk
from goalport.knowledge.rag import (
    DocumentIndex,
    DocumentIngestion,
    SqliteDocumentStore,
    TableEmbeddings,
    TextSearch,
    TextSimilaritySearchRequest,
    VectorSearch,
    supports,
)
from goalport.runtime.process import Completed
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings
from tests.postgres import PostgresServer


@dataclass(frozen=True)
class Found:
    text: str


@agent(description="Looks things up")
class Librarian:
    def __init__(self, index: DocumentIndex) -> None:
        self.index = index

    @achieves_goal(description="What was found")
    async def look_up(self, user_input: UserInput, searched: Annotated[TextSearch, Provided]) -> Found:
        assert searched is self.index
        request = TextSimilaritySearchRequest(query=user_input.content, top_k=1)
        (result,) = await searched.text_search(request, Chunk)
        return Found(result.match.urtext)


EMBEDDINGS = """
from goalport.knowledge.rag import TableEmbeddings
vowels = TableEmbeddings("vowels", lambda texts: [[text.count("a") + 1.0, text.count("e")] for text in texts])
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "server").mkdir()
    (tmp_path / "tokens.md").write_text("# Tokens\n\nA token is renewed every hour.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opened(workspace: Path) -> AgentPlatform:
    return AgentPlatform.from_workspace(load_workspace(workspace), load_settings(workspace, store="memory"))


async def taken_in(platform: AgentPlatform) -> None:
    async with DocumentIngestion(platform.documents) as ingestion:
        (document,) = await ingestion.ingest("tokens.md")
    assert document.outcome == "added"


async def test_agents_are_given_the_index_in_constructors_and_parameters(workspace: Path) -> None:
    async with AgentPlatform([Librarian]) as platform:
        await taken_in(platform)
        process = await platform.run("Librarian", UserInput("renewed"))
        assert process.outcome == Completed(Found("A token is renewed every hour."))
        assert platform.documents is platform.documents


async def test_the_index_of_a_program_is_used_and_left_open(workspace: Path) -> None:
    async with SqliteDocumentStore() as store:
        async with AgentPlatform(documents=store) as platform:
            await taken_in(platform)
        assert (await store.info()).documents == 1


async def test_a_workspace_keeps_documents_in_its_data_folder_and_closes_the_file(workspace: Path) -> None:
    file = workspace / ".goalport" / "documents.db"
    platform = opened(workspace)
    platform.deploy(Librarian)
    async with platform:
        assert not file.exists()
        await taken_in(platform)
        assert file.exists()
    with pytest.raises(StoreError):
        await platform.documents.info()

    async with opened(workspace) as again:
        assert [each.root.title for each in await again.documents.documents()] == ["Tokens"]


async def test_documents_in_a_database_are_found_by_another_program(workspace: Path, postgres: PostgresServer) -> None:
    (workspace / "server" / "settings.toml").write_text(f"[documents]\nstore = '{postgres.database()}'")
    async with opened(workspace) as platform:
        await taken_in(platform)
    async with opened(workspace) as another:
        another.deploy(Librarian)
        process = await another.run("Librarian", UserInput("renewed"))
    assert process.outcome == Completed(Found("A token is renewed every hour."))
    assert not (workspace / ".goalport" / "documents.db").exists()


async def test_documents_have_an_embedding_model_of_their_own(workspace: Path) -> None:
    (workspace / "tools" / "models.py").write_text(EMBEDDINGS)
    (workspace / "server" / "settings.toml").write_text("[documents]\nembedding_model = 'vowels'")
    async with opened(workspace) as platform:
        await taken_in(platform)
        assert (await platform.documents.info()).model == "vowels"


async def test_a_model_that_is_not_ready_is_a_problem_and_words_are_found(
    workspace: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "server" / "settings.toml").write_text("[documents]\nembedding_model = 'nobody:knows'")
    platform = opened(workspace)
    platform.deploy(Librarian)
    async with platform:
        with caplog.at_level(logging.WARNING):
            await taken_in(platform)
        process = await platform.run("Librarian", UserInput("renewed"))
    assert isinstance(process.outcome, Completed)
    assert "by words alone" in caplog.text

    assert execute(["check"]) == 1
    assert "problem: [documents] embedding_model: " in capsys.readouterr().out


async def test_without_numpy_words_are_found_and_check_says_what_to_install(
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (workspace / "tools" / "models.py").write_text(EMBEDDINGS)
    (workspace / "server" / "settings.toml").write_text("[documents]\nembedding_model = 'vowels'")
    monkeypatch.setitem(sys.modules, "numpy", None)
    platform = opened(workspace)
    platform.deploy(Librarian)
    async with platform:
        with caplog.at_level(logging.WARNING):
            await taken_in(platform)
        process = await platform.run("Librarian", UserInput("renewed"))
    assert isinstance(process.outcome, Completed)
    assert 'pip install "goalport[rag]"' in caplog.text

    assert execute(["check"]) == 1
    assert 'pip install "goalport[rag]"' in capsys.readouterr().out


def test_check_says_what_a_database_of_documents_needs(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = "postgresql://ada@127.0.0.1:1/documents"
    (workspace / "server" / "settings.toml").write_text(f"[documents]\nstore = '{address}'")
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    assert execute(["check"]) == 1
    told = f"problem: [documents] store: The store {address}: It needs a library that is not installed. "
    assert f"{told}Run pip install 'goalport[postgres]'." in capsys.readouterr().out


def test_without_an_embedding_model_words_are_searched_and_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not supports(AgentPlatform().documents, VectorSearch)
    assert not caplog.records


def test_a_program_may_bring_an_index_as_a_service_too() -> None:
    store = SqliteDocumentStore(embeddings=TableEmbeddings("none", lambda texts: [[1.0] for _ in texts]))
    assert AgentPlatform(services=[store]).service(DocumentIndex) is store
