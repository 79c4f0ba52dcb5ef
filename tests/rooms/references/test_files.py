"""References to files: a folder of this machine, and a repository of GitHub."""

from collections.abc import Generator
from pathlib import Path

import pytest

from goalport.knowledge.references import GitHubRepository, LocalDirectory, RefreshPolicy, refreshed
from tests.rooms.documents.archives import ONE, TWO, archive, archives_of, publish
from tests.rooms.documents.loopback import Site, serving
from tests.rooms.references.asked import call, offered, prompt_of

FILES = {"readme.md": "# Prices\n", "2026/oil.csv": "day,price\n2026-11-22,71.5\n", ".env": "PASSWORD=x"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        file = tmp_path / "financial" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "secret.txt").write_text("the password")
    return tmp_path / "financial"


async def test_a_folder_has_usage_notes_and_tools_with_its_name(folder: Path) -> None:
    """The guide's example, in section 3.25.7."""
    data = LocalDirectory(folder, "Financial data files").with_usage_notes(
        "Search to find files matching user requests."
    )

    assert await prompt_of(data) == (
        "Reference: financial\nFinancial data files\nSearch to find files matching user requests.\n"
        "List, find, search and read its files with its tools before you answer from them.\n"
        "Its tools have names that begin with financial_"
    )
    assert await offered(data) == [
        "financial_listFiles",
        "financial_findFiles",
        "financial_searchFiles",
        "financial_readFile",
    ]


async def test_the_tools_of_a_folder_list_find_search_and_read(folder: Path) -> None:
    data = LocalDirectory(folder, "Financial data files")

    assert "\n2026/\nreadme.md\n" in await call(data, "listFiles")
    assert "\n2026/oil.csv\n" in await call(data, "findFiles", pattern="*.csv")
    assert "2026/oil.csv:2: 2026-11-22,71.5" in await call(data, "searchFiles", words="71.5")
    assert '<data source="financial/2026/oil.csv">\nday,price' in await call(data, "readFile", path="2026/oil.csv")
    assert await call(data, "readFile", path="readme.md", line=9) == (
        "The file has 1 lines; there is nothing from line 9 on."
    )
    assert await call(data, "findFiles", pattern="*.pdf") == "No file matches '*.pdf'."
    assert "No line has 'gold'" in await call(data, "searchFiles", words="gold")


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", ".env", "nothing.md", "2026/../../secret.txt"])
async def test_no_tool_leads_out_of_the_folder(folder: Path, path: str) -> None:
    data = LocalDirectory(folder, "Financial data files")

    assert await call(data, "readFile", path=path) == f"There is no {path!r} in this folder."
    assert await call(data, "listFiles", path=path) == f"There is no {path!r} in this folder."


async def test_a_folder_that_is_not_there_is_named_by_each_tool(tmp_path: Path) -> None:
    data = LocalDirectory(tmp_path / "gone", "Financial data files")
    calls = {"listFiles": {}, "findFiles": {"pattern": "*"}, "searchFiles": {"words": "oil"}, "readFile": {"path": "a"}}

    for name, arguments in calls.items():
        assert f"The folder of 'gone' is not there: {tmp_path / 'gone'}." in await call(data, name, **arguments)


async def test_long_files_and_lists_come_in_pieces(folder: Path) -> None:
    (folder / "long.txt").write_text("".join(f"line {number}\n" for number in range(1000)) + "x" * 50_000)
    for number in range(301):
        (folder / f"{number}.dat").write_text("same words")
    data = LocalDirectory(folder, "Many files")

    assert "Go on with line=401; it has 1001 lines." in await call(data, "readFile", path="long.txt")
    assert len(await call(data, "readFile", path="long.txt", line=1001)) < 17_000
    assert "There are more; narrow it down." in await call(data, "findFiles", pattern="*.dat")
    assert "There are more lines" in await call(data, "searchFiles", words="same words")


@pytest.fixture
def site() -> Generator[Site]:
    with serving() as found:
        publish(found, "embabel/examples", archive({"README.md": "# Examples\n"}), "HEAD", ONE)
        yield found


def examples(site: Site, tmp_path: Path, policy: RefreshPolicy | None = None) -> GitHubRepository:
    return GitHubRepository(
        "https://github.com/embabel/examples.git",
        "Embabel examples Repository",
        policy=policy or RefreshPolicy.never(),
        archives=archives_of(site, tmp_path),
    )


async def test_a_repository_is_a_folder_at_a_commit(site: Site, tmp_path: Path) -> None:
    repository = examples(site, tmp_path)

    assert f"It is the repository embabel/examples@HEAD at the commit {ONE}." in await prompt_of(repository)
    assert "# Examples" in await call(repository, "readFile", path="README.md")
    assert (await offered(repository))[0] == "examples_listFiles"


async def test_a_branch_is_followed_only_where_the_policy_says_so(site: Site, tmp_path: Path) -> None:
    kept, followed = examples(site, tmp_path / "1"), examples(site, tmp_path / "2", RefreshPolicy.always())
    await refreshed(kept, followed)
    publish(site, "embabel/examples", archive({"README.md": "# Changed\n"}, TWO), "HEAD", TWO)

    assert ONE in await prompt_of(kept)
    assert TWO in await prompt_of(followed)
    assert "# Changed" in await call(followed, "readFile", path="README.md")
    site.pages.clear()
    assert TWO in await prompt_of(followed)


async def test_a_repository_that_cannot_be_fetched_is_said_to_be_so(site: Site, tmp_path: Path) -> None:
    site.pages.clear()
    repository = examples(site, tmp_path)

    assert "the server answers 404 Not Found" in await call(repository, "listFiles")
    assert "the server answers 404 Not Found" in await prompt_of(repository)
