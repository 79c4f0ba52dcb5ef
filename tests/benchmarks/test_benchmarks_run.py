"""The benchmarks measure nothing here; that they run is all that is tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import TABLES as TABLES_OF_THE_PAGE
from benchmarks.compare import earlier, sources_of
from benchmarks.embabel import embabel
from benchmarks.report import Table, machine, write_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
TABLES = ("progress", "loop", "sharing")
"""Of each kind one: servers and clients, one process, programs on one database. Types check the others."""


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_each_kind_can_be_measured(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--json", str(tmp_path / "found.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    (table,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["tables"]
    assert table["name"] == name
    assert all(len(row) == len(table["columns"]) for row in table["rows"])
    assert "| --- |" in done.stdout


def test_a_table_that_does_not_exist_is_refused_with_those_that_do() -> None:
    command = [sys.executable, "-m", "benchmarks", "speed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert all(name in done.stderr for name in TABLES)


def test_a_table_whose_programs_are_missing_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    table = embabel()
    assert not table.rows
    assert "Left out: it needs a JDK" in table.markdown


def test_a_library_is_compared_with_that_of_a_commit(tmp_path: Path) -> None:
    done = _compare("HEAD", "loop", "--rounds", "2", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stderr
    (table,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["tables"]
    assert {row[1] for row in table["rows"]} == {"CPU µs of one action of a chain", "CPU µs of a process of one action"}
    assert all(float(row[table["columns"].index("now / then")]) > 0 for row in table["rows"])


def test_a_commit_that_is_not_there_is_refused() -> None:
    done = _compare("0123abcd")
    assert done.returncode == 2
    assert "there is no commit '0123abcd'" in done.stderr


def test_an_earlier_commit_runs_its_own_library_in_a_folder_that_is_removed() -> None:
    with earlier("HEAD") as tree:
        command = [sys.executable, "-c", "import goalport; print(goalport.__file__)"]
        said = subprocess.run(command, env=sources_of(tree), capture_output=True, text=True, timeout=60, check=True)
        assert Path(said.stdout.strip()) == tree / "src" / "goalport" / "__init__.py"
    assert not tree.exists()


def _compare(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks", "compare", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


def test_a_measured_table_takes_its_place_on_the_page_and_leaves_the_others(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write_page([Table("loop", "Loop", ("what", "takes"), [("one", "7 µs")])], page, minutes=None)
    written, before = page.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")
    assert "| one | 7 µs |" in written
    assert _between(written, "calls") == _between(before, "calls")


def test_a_table_that_is_measured_apart_says_on_which_machine(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- machine -->then<!-- /machine --><!-- loop --><!-- /loop -->", encoding="utf-8")
    table = Table("loop", "Loop", ("what",), [("one",)])
    write_page([table], page, minutes=None)
    assert machine() in _between(page.read_text(encoding="utf-8"), "loop")
    assert _between(page.read_text(encoding="utf-8"), "machine") == "then"
    write_page([table], page, minutes=12.3)
    assert machine() not in _between(page.read_text(encoding="utf-8"), "loop")
    assert f"{machine()} All tables together took 12 minutes." in _between(page.read_text(encoding="utf-8"), "machine")


def test_the_page_has_a_place_for_each_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in TABLES_OF_THE_PAGE if not _between(text, name)] == []


def test_a_page_without_a_place_for_a_table_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- machine --><!-- /machine -->", encoding="utf-8")
    with pytest.raises(ValueError, match="<!-- loop -->"):
        write_page([Table("loop", "Loop", ("what",), [("one",)])], page, minutes=None)


def _between(text: str, name: str) -> str:
    return text.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
