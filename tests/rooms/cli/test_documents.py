"""`goalport ingest` and `goalport rag`."""

import json
from pathlib import Path

import pytest

from goalport.cli.documents import ShownDocuments
from goalport.knowledge.documents import ChunkerConfig
from goalport.knowledge.rag import IngestedDocument, Outcome
from goalport.workspace.settings import DocumentsSettings
from tests.postgres import PostgresServer
from tests.rooms.cli.conftest import Command


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\n## Tokens\n\nA token is renewed every hour.\n\n## Limits\n\nTen.\n")
    (folder / "notes.txt").write_text("Ask Ada about error E-1042.\n")
    return folder


def test_documents_are_taken_in_found_listed_and_removed(goalport: Command, docs: Path) -> None:
    ran = goalport("ingest", "docs")
    assert ran.code == 0
    assert "Documents: 2 added; 3 chunks stored in" in ran.err
    assert f"added: {(docs / 'guide.md').as_uri()} (2 chunks)" in ran.out
    again = goalport("ingest", "docs")
    assert (again.out, "Documents: 2 unchanged" in again.err) == ("", True)

    found = goalport("rag", "search", "how are tokens renewed")
    assert found.code == 0
    assert "Guide / Tokens" in found.out
    assert "A token is renewed every hour." in found.out
    (match,) = json.loads(goalport("rag", "search", r"E-\d{4}", "--by", "pattern", "--format", "json").out)
    assert (docs / "notes.txt").read_text()[match["start"] : match["end"]] == match["text"]
    assert goalport("rag", "search", "zebra").code == 1

    listed = json.loads(goalport("rag", "list", "--format", "json").out)
    assert [(each["title"], each["chunks"]) for each in listed] == [("Guide", 2), ("notes", 1)]
    assert goalport("rag", "remove", "docs/notes.txt").code == 0
    assert goalport("rag", "search", "Ada").code == 1


def test_what_cannot_be_read_is_said_and_the_rest_is_stored(goalport: Command, docs: Path) -> None:
    (docs / "scan.pdf").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(30))
    ran = goalport("ingest", "docs", "http://127.0.0.1:1/", "--json")
    assert ran.code == 1
    outcomes = {each["uri"].rpartition("/")[2]: each for each in map(json.loads, ran.out.splitlines())}
    assert {name: each["outcome"] for name, each in outcomes.items()} == {
        "guide.md": "added",
        "notes.txt": "added",
        "scan.pdf": "failed",
        "": "failed",
    }
    assert outcomes["scan.pdf"]["reason"].startswith(f"{docs / 'scan.pdf'} cannot be read: it is called a PDF file")
    assert "2 added, 2 failed" in ran.err


def test_all_documents_of_a_folder_are_removed_at_once(goalport: Command, docs: Path) -> None:
    (docs.parent / "docs2").mkdir()
    (docs.parent / "docs2" / "other.md").write_text("Other.")
    assert goalport("ingest", "docs", "docs2").code == 0
    unknown = goalport("rag", "remove", docs.as_uri())
    assert (unknown.code, "Unknown document" in unknown.err) == (2, True)
    assert f"Removed 2 documents within {docs.as_uri()}." in goalport("rag", "remove", "docs").err
    assert [each["title"] for each in json.loads(goalport("rag", "list", "--format", "json").out)] == ["other"]
    assert "Removed 1 document within" in goalport("rag", "remove", f"{docs.as_uri()}2/").err
    assert goalport("rag", "remove", "docs").code == 2


def test_a_document_is_named_by_its_uri_too(goalport: Command, docs: Path) -> None:
    (docs / "two words.md").write_text("# Two\n\nWords.\n")
    uri = (docs / "two words.md").as_uri()
    assert f"added: {uri} (1 chunk)" in goalport("ingest", uri).out
    assert "Documents: 2 added, 1 unchanged" in goalport("ingest", f"FILE://localhost{docs}/").err
    assert "Documents: 3 unchanged" in goalport("ingest", "docs").err
    assert f"Removed {uri}." in goalport("rag", "remove", uri).err
    elsewhere = goalport("ingest", "file://docs/guide.md")
    assert (elsewhere.code, "URI of a file here" in elsewhere.err) == (2, True)
    assert "cannot be read" in goalport("ingest", "file:///nowhere/at/all.md").err


def test_of_a_folder_what_matches_is_taken_in(goalport: Command, docs: Path) -> None:
    (docs / "old").mkdir()
    (docs / "old" / "notes.md").write_text("Old notes.")
    assert "Documents: 2 added" in goalport("ingest", "docs", "--include", "*.md").err
    assert "Documents: 1 added, 1 unchanged" in goalport("ingest", "docs", "--include", "notes.*").err
    (docs / "guide.md").unlink()
    assert "Documents: 1 unchanged, 1 removed" in goalport("ingest", "docs", "--include", "old/*").err

    server = docs.parent / "server"
    server.mkdir()
    (server / "settings.toml").write_text('[documents]\ninclude = ["*.txt"]\n')
    assert "Documents: 1 added" in goalport("ingest", "docs", "--index", "other.db").err
    assert "Documents: 1 added" in goalport("ingest", "docs/old/notes.md", "--index", "other.db").err
    listed = json.loads(goalport("rag", "list", "--index", "other.db", "--format", "json").out)
    assert [each["title"] for each in listed] == ["notes", "notes"]


def test_chunks_are_as_long_as_options_and_settings_say(goalport: Command, docs: Path) -> None:
    chosen = DocumentsSettings()
    assert ChunkerConfig() == ChunkerConfig(max_chunk_size=chosen.max_chunk_size, overlap_size=chosen.overlap_size)
    (docs / "long.md").write_text("# Long\n\n" + "A token is renewed every hour. " * 40)
    first = goalport("ingest", "docs/long.md", "--max-chunk-size", "200")
    assert "Documents: 1 unchanged" in goalport("ingest", "docs/long.md", "--max-chunk-size", "200").err

    server = docs.parent / "server"
    server.mkdir()
    (server / "settings.toml").write_text("[documents]\nmax_chunk_size = 200\noverlap_size = 0\n")
    without = goalport("ingest", "docs/long.md")
    counts = [int(ran.out.rpartition("(")[2].partition(" chunks")[0]) for ran in (first, without)]
    assert counts[0] > counts[1] > 1
    lengths = [len(each["text"]) for each in json.loads(goalport("rag", "search", "token", "--format", "json").out)]
    assert max(lengths) <= 200
    assert "Documents: 1 changed" in goalport("ingest", "docs/long.md", "--overlap-size", "100").err

    for words in (["--max-chunk-size", "10"], ["--overlap-size", "-1"]):
        refused = goalport("ingest", "docs", *words)
        assert (refused.code, "should be at least" in refused.err) == (2, True)
    (server / "settings.toml").write_text("[documents]\nmax_chunk_size = 10\n")
    assert "documents.max_chunk_size" in goalport("ingest", "docs").err


def test_what_was_done_is_said_when_something_stops_ingestion(goalport: Command, docs: Path) -> None:
    ran = goalport("ingest", "docs", "")
    assert ran.code == 2
    assert "Documents: 2 added; 3 chunks stored" in ran.err
    assert "error: Expected the path" in ran.err
    assert "Documents:" not in goalport("ingest", "").err


def test_a_document_is_shown_again_when_something_happened_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    def of(outcome: Outcome, reason: str = "") -> IngestedDocument:
        return IngestedDocument(uri="a", outcome=outcome, reason=reason)

    shown = ShownDocuments(structured=True)
    seen = [of("unchanged"), of("unchanged"), of("changed"), of("unchanged"), of("changed")]
    for each in (*seen, of("failed", "1"), of("failed", "1"), of("failed", "2"), of("unchanged"), of("unchanged")):
        shown(each)
    told = [json.loads(line)["outcome"] for line in capsys.readouterr().out.splitlines()]
    assert told == ["unchanged", "changed", "changed", "failed", "failed", "unchanged"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ingest"], "Say what to take in"),
        (["ingest", "docs", "--refresh", "often"], "--refresh should be never, always, or a time such as 30s"),
        (["rag", "remove"], "`goalport rag list` lists the documents"),
        (["rag", "search", " "], "the query is empty"),
        (
            ["rag", "search", "-draft x"],
            "If it is a text, write -- before it, and options before that. See goalport rag",
        ),
        (["rag", "search", "--", "-draft x"], "Take some in: goalport ingest docs"),
        (["rag", "search", "x"], "Take some in: goalport ingest docs"),
        (["rag", "list", "--index", "nowhere.db"], "There are no documents in nowhere.db"),
    ],
)
def test_a_mistake_says_what_to_do(goalport: Command, docs: Path, words: list[str], said: str) -> None:
    ran = goalport(*words)
    assert ran.code == 2
    assert said in ran.err
    assert not (docs.parent / ".goalport" / "documents.db").exists()


def test_limits_and_names_that_fit_nothing_are_refused(goalport: Command, docs: Path) -> None:
    assert goalport("ingest", "docs/guide.md", "--index", "some.db").code == 0
    assert "top_k" in goalport("rag", "search", "x", "--top", "0", "--index", "some.db").err
    assert "guide.md" in goalport("rag", "remove", "docs/giude.md", "--index", "some.db").err
    assert goalport("rag", "search", "(a+", "--by", "pattern", "--index", "some.db").code == 2
    assert "no vectors" in goalport("rag", "search", "x", "--by", "meaning", "--index", "some.db").err


EMBEDDINGS = """
from pathlib import Path

from goalport.models.llm import TokenUsage, Vectors


class Paid:
    name, dimensions = "paid", None

    async def embed(self, texts):
        if Path("away").exists():
            raise OSError("it is away")
        return Vectors([[float(len(each)), 1.0] for each in texts], TokenUsage(input_tokens=1_234, cost=0.5))


paid = Paid()
"""


def test_what_embeddings_cost_is_said(goalport: Command, docs: Path) -> None:
    (docs.parent / "agents").mkdir()
    (docs.parent / "agents" / "embeddings.py").write_text(EMBEDDINGS)
    assert "Embeddings: 2,468 tokens, 1.00 USD." in goalport("ingest", "docs").err
    assert "Embeddings" not in goalport("ingest", "docs").err
    assert "Vectors that were made: 3. Embeddings: 1,234 tokens, 0.50 USD." in goalport("rag", "reembed").err


def test_documents_are_found_by_words_while_the_embedding_service_is_away_and_by_meaning_later(
    goalport: Command, docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (docs.parent / "agents").mkdir()
    (docs.parent / "agents" / "embeddings.py").write_text(EMBEDDINGS)
    (docs.parent / "away").touch()
    ran = goalport("ingest", "docs")
    assert (ran.code, "2 added; 3 chunks stored" in ran.err) == (0, True)
    assert ["'paid' failed: OSError: it is away." in each for each in caplog.messages] == [True]
    assert "Guide / Tokens" in goalport("rag", "search", "renewed tokens").out
    (docs.parent / "away").unlink()
    again = goalport("ingest", "docs")
    assert "2 unchanged" in again.err
    assert "Embeddings: 1,234 tokens" in again.err
    assert "Guide / Tokens" in goalport("rag", "search", "token", "--by", "meaning").out
    assert "Embeddings" not in goalport("ingest", "docs").err


def test_documents_are_kept_in_a_named_database(goalport: Command, docs: Path, postgres: PostgresServer) -> None:
    url = postgres.database()
    assert goalport("ingest", "docs", "--index", url).code == 0
    found = goalport("rag", "search", "how are tokens renewed", "--index", url)
    assert "A token is renewed every hour." in found.out
    assert goalport("rag", "remove", "docs/guide.md", "--index", url).code == 0
    assert len(json.loads(goalport("rag", "list", "--index", url, "--format", "json").out)) == 1


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (
            "postgresql://ada:s3cret@127.0.0.1:1/documents",
            "The store postgresql://ada@127.0.0.1:1/documents: It cannot",
        ),
        ("mysql://ada:s3cret@here/documents", "--index should be the URL of a PostgreSQL database"),
    ],
)
def test_a_database_that_cannot_be_used_is_said_without_its_password(
    goalport: Command, docs: Path, index: str, said: str
) -> None:
    ran = goalport("rag", "list", "--index", index)
    assert ran.code != 0
    assert said in ran.err
    assert "s3cret" not in ran.err
