"""A folder that a model may look at: its files are listed, searched and read, and nothing outside of it is."""

import os
from pathlib import Path

import pytest

from goalport.base.errors import DocumentError
from goalport.knowledge.documents import Folder, FolderLimits


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for path, text in {
        "readme.md": "# Data\n\nPrices of oil and gas.\n",
        "2026/oil.csv": "day,price\r\n2026-11-22,71.5\r\n",
        "2026/notes/gas.txt": "Gas prices rise in winter.\nPrices of GAS fall in spring.\n",
        ".env": "PASSWORD=secret",
        ".git/config": "secret",
    }.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    (folder / "picture.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "secret.txt").write_text("the password")
    return folder


def test_files_are_listed_by_pattern_without_hidden_ones(root: Path) -> None:
    folder = Folder(root)

    assert folder.names() == ("2026/", "picture.png", "readme.md")
    assert folder.names("2026") == ("notes/", "oil.csv")
    assert list(folder.files()) == ["picture.png", "readme.md", "2026/oil.csv", "2026/notes/gas.txt"]
    assert list(folder.files("*.txt")) == ["2026/notes/gas.txt"]
    assert list(folder.files("2026/*")) == ["2026/oil.csv", "2026/notes/gas.txt"]


def test_a_text_is_read_without_what_nobody_sees(root: Path) -> None:
    (root / "odd.txt").write_bytes("\ufeffa\u202eb\x1b[31mc\n".encode())

    assert Folder(root).text("odd.txt") == "abc"
    assert Folder(root).text("2026/oil.csv") == "day,price\n2026-11-22,71.5"


def test_lines_are_found_that_have_all_words(root: Path) -> None:
    found = [(each.path, each.number, each.text) for each in Folder(root).lines_with("gas prices")]

    assert found == [
        ("readme.md", 3, "Prices of oil and gas."),
        ("2026/notes/gas.txt", 1, "Gas prices rise in winter."),
        ("2026/notes/gas.txt", 2, "Prices of GAS fall in spring."),
    ]
    (root / "umlauts.txt").write_text("Gru\u0308ße aus KO\u0308LN\n")
    assert [each.path for each in Folder(root).lines_with("grüsse köln")] == ["umlauts.txt"]
    assert list(Folder(root).lines_with("password")) == []
    assert list(Folder(root).lines_with("  ")) == []


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "2026/../../secret.txt",
        "..\\secret.txt",
        "/etc/passwd",
        "C:\\secret.txt",
        ".env",
        ".git/config",
        "2026/../.env",
        "out/secret.txt",
        "link.txt",
        "loop/loop",
        "nothing.txt",
        "a\0b",
        "x" * 5000,
        "~/x",
    ],
)
def test_what_leads_out_is_as_if_it_were_not_there(root: Path, path: str) -> None:
    (root / "out").symlink_to(root.parent)
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "loop").symlink_to(root / "loop")

    with pytest.raises(DocumentError, match="There is no "):
        Folder(root).text(path)
    assert "link.txt" not in list(Folder(root).files())
    assert "link.txt" not in Folder(root).names()


def test_links_inside_of_the_folder_lead_where_they_point_and_loops_are_not_run_through(root: Path) -> None:
    (root / "latest.csv").symlink_to(root / "2026" / "oil.csv")
    (root / "2026" / "all").symlink_to(root)

    assert Folder(root).text("latest.csv").startswith("day,price")
    assert list(Folder(root).files("*.csv")) == ["latest.csv", "2026/oil.csv"]


def test_what_is_no_text_or_too_large_is_said_to_be_so(root: Path) -> None:
    os.mkfifo(root / "pipe")
    folder = Folder(root, FolderLimits(file_bytes=20))

    for path, words in {
        "picture.png": "it is no text, but 6 bytes of something else",
        "readme.md": "it has 31 bytes, and at most 20 are read",
        "2026": "it is no file",
        "pipe": "it is no file",
    }.items():
        with pytest.raises(DocumentError, match=words):
            folder.text(path)
    with pytest.raises(DocumentError, match="is no folder but a file"):
        folder.names("readme.md")


def test_a_sparse_file_of_two_gigabytes_is_not_read(root: Path) -> None:
    with (root / "huge.txt").open("wb") as file:
        file.truncate(2**31)

    with pytest.raises(DocumentError, match="it has 2147483648 bytes"):
        Folder(root).text("huge.txt")


def test_only_so_many_entries_are_looked_at(root: Path) -> None:
    for number in range(50):
        (root / f"{number}.txt").write_text("gas")

    errors: list[OSError] = []
    assert len(list(Folder(root, FolderLimits(entries=10)).files(onerror=errors.append))) <= 10
    assert [(each.filename, each.strerror) for each in errors] == [
        (str(root), "only 10 files and folders are looked at")
    ]


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "nowhere")

    assert list(folder.files()) == []
    with pytest.raises(DocumentError, match="There is no ''"):
        folder.names()
