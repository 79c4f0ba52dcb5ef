"""Each Python example of the documents does what it says: it is run as the reader would run it."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.clients.running import environment, serving
from tests.docs.fences import ADDRESS, ROOT, Fence, all_fences, script, with_python, write_files
from tests.docs.readers import run_as_reader
from tests.forks import FORKS
from tests.terminals import ENTER, on_terminal

PATIENCE = 240


@pytest.mark.parametrize("document", with_python())
def test_the_python_of_a_document_runs_from_top_to_bottom(document: str, tmp_path: Path) -> None:
    write_files(document, tmp_path)
    text = script(document)
    if ADDRESS not in text:
        run(text, tmp_path, document)
        return
    with serving(tmp_path, tmp_path) as server:
        run(text.replace(ADDRESS, server.address), tmp_path, document)


def run(text: str, folder: Path, document: str) -> None:
    file, printed = folder / f"{Path(document).stem}_page.py", folder / "printed.txt"
    file.write_text(text, encoding="utf-8")
    program = FORKS.Process(target=run_as_reader, args=(file, printed))
    program.start()
    try:
        program.join(PATIENCE)
    finally:
        program.kill()
        program.join()
    assert program.exitcode == 0, f"{document} (the lines are the document's):\n{printed.read_text(encoding='utf-8')}"


def test_the_questions_of_a_page_are_answered_on_a_terminal(tmp_path: Path) -> None:
    page = "docs/waiting.md"
    write_files(page, tmp_path)
    shown = re.search(r"goalport (run --goal book_trip --input '[^']*')", (ROOT / page).read_text(encoding="utf-8"))
    assert shown
    command = shlex.split(shown[1])
    with on_terminal(command, environment(tmp_path, TERM="xterm"), cwd=tmp_path) as screen:
        for question, answer in (("Oslo", "2"), ("breakfast", ""), ("180 euros?", "y")):
            screen.until(question).press(answer, ENTER)
        screen.until("Oslo, 180 euros")
        assert screen.ended() == 0


def test_the_python_of_the_documents_is_strictly_typed(tmp_path: Path) -> None:
    for document in with_python():
        name = document.removesuffix(".md").replace("/", "_")
        text = re.sub(r"(?m)^from agents\..*", "", script(document))  # those are classes of the same script
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    # Where a story tells the same thing in two ways, the second hides the first, as it should.
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "reportRedeclaration": "none",
        "reportDuplicateImport": "none",
        "reportMissingTypeStubs": "none",  # Django has none of its own
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")

    done = subprocess.run(
        [Path(sys.executable).with_name("pyright"), "--pythonpath", sys.executable, "--project", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("fence", all_fences("json"), ids=str)
def test_json_can_be_read(fence: Fence) -> None:
    json.loads(fence.text)


@pytest.mark.parametrize("fence", all_fences("toml"), ids=str)
def test_toml_can_be_read(fence: Fence) -> None:
    tomllib.loads(fence.text)
