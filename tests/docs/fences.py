"""The fenced examples of the documents, and the one script that the Python ones of a document make together.

A document is read like a story: each Python fence goes on where the one before it ended. One whose first line is a path
(`# agents/hello.py`) is that file of the reader's workspace too. Text that is no program is fenced as `text`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
DOCUMENTS = tuple(
    sorted(
        path.relative_to(ROOT).as_posix()
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "server").rglob("*.md"))
    )
)
ADDRESS = "http://127.0.0.1:8080"
"""Where documents say that the server is."""

_FENCE = re.compile(r"^```(?P<language>[\w-]+)?[^\n]*\n(?P<text>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"# ([\w/-]+\.py)\n")


@dataclass(frozen=True)
class Fence:
    document: str
    line: int
    """Of its first line of text."""
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def path(self) -> PurePosixPath | None:
        found = _PATH.match(self.text)
        return PurePosixPath(found[1]) if found else None


def fences(document: str, *languages: str) -> Iterator[Fence]:
    text = (ROOT / document).read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        fence = Fence(document, text.count("\n", 0, found.start("text")) + 1, found["language"] or "", found["text"])
        if fence.language in languages:
            yield fence


def all_fences(*languages: str) -> list[Fence]:
    return [fence for document in DOCUMENTS for fence in fences(document, *languages)]


def script(document: str) -> str:
    """The document's Python, each line at its own number, so that a traceback points into the document."""
    lines: list[str] = []
    for fence in fences(document, "python"):
        lines += [""] * (fence.line - 1 - len(lines))
        lines += fence.text.splitlines()
    return "\n".join(lines) + "\n"


def write_files(document: str, folder: Path) -> None:
    """Write the files of the reader's workspace that a document shows."""
    (folder / "agents").mkdir()
    for fence in fences(document, "python"):
        if fence.path is not None:
            file = folder / fence.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fence.text, encoding="utf-8")


def with_python() -> list[str]:
    return [document for document in DOCUMENTS if any(fences(document, "python"))]
