"""Tables of results: as Markdown, as JSON, and between the marks of docs/performance.md.

It knows what a table is and on which machine it was made, and measures nothing.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

__all__ = ["Table", "machine", "write_json", "write_page"]

_LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
"""What else the machine did before anything was measured: above half a core, figures are worse than they should be."""
_NAMED = ("goalport", "mcp", "uvicorn", "starlette", "pydantic", "anyio", "uvloop", "httptools")


@dataclass(frozen=True)
class Table:
    """One table: its rows are already in words."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    """What a reader must know to read the rows, a sentence each; below the table."""

    @property
    def markdown(self) -> str:
        """The table as a section of a page."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        drawn = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return "\n\n".join([f"### {self.title}", drawn, *self.notes])


def machine() -> str:
    """What the numbers were measured on, and when."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    busy = "" if _LOAD is None else f"load {_LOAD:.1f} before"
    parts = [f"{os.cpu_count()} cores of {_processor()}", _memory(), busy, platform.system(), python]
    packages = ", ".join(f"{name} {version(name)}" for name in _NAMED)
    return f"{datetime.now(UTC):%Y-%m-%d}: {', '.join(filter(None, parts))}; {packages}."


def write_json(tables: Sequence[Table], path: Path) -> None:
    """All tables in one file."""
    found = {"machine": machine(), "tables": [asdict(table) for table in tables]}
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_page(tables: Sequence[Table], page: Path, *, minutes: float | None) -> None:
    """Put the tables between their marks on a page, and the machine; tables that were not made now stay as they are.

    `minutes` says how long all tables of the page took. When it is None, these are some of them: then the machine of
    the page stays as well, and each table says on which one it was made. Raises `ValueError` for a page without the
    marks of a table.
    """
    text = page.read_text(encoding="utf-8")
    if minutes is not None:
        text = _marked(text, "machine", f"{machine()} All tables together took {minutes:.0f} minutes.", page)
    own = () if minutes is not None else (f"Measured apart from the other tables. {machine()}",)
    for table in tables:
        text = _marked(text, table.name, "\n\n".join((table.markdown, *own)), page)
    page.write_text(text, encoding="utf-8")


def _marked(text: str, name: str, content: str, page: Path) -> str:
    """A text with a content between the marks of that name."""
    first, last = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, begun, rest = text.partition(first)
    _, ended, after = rest.partition(last)
    if not (begun and ended):
        raise ValueError(f"Expected {first} and {last} in {page}, but they are not there. Put them there.")
    return f"{before}{first}\n{content}\n{last}{after}"


def _processor() -> str:
    if sys.platform == "linux":
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        if found:
            return re.sub(r"\((R|TM)\)", "", found[1]).strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    if sys.platform != "linux":
        return ""
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
