"""`python -m benchmarks`: measure, and print the tables as Markdown; `compare COMMIT` compares with an earlier one.

Each table is a module beside this one; what is common to them is in `report` and `servers`.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import compare
from benchmarks.auth import auth
from benchmarks.calls import calls, crowd, progress
from benchmarks.conversations import conversations
from benchmarks.doors import doors
from benchmarks.durability import durability
from benchmarks.embabel import embabel
from benchmarks.engines import engines
from benchmarks.fleet import fleet
from benchmarks.flood import flood
from benchmarks.knowledge import knowledge
from benchmarks.knowledge_postgres import knowledge_postgres
from benchmarks.loop import loop
from benchmarks.memory import memory
from benchmarks.models import models
from benchmarks.orchestration import orchestration
from benchmarks.payloads import payloads
from benchmarks.planning import planning
from benchmarks.questions import questions
from benchmarks.report import Table, machine, write_json, write_page
from benchmarks.scatter import scatter
from benchmarks.servers import ROOT
from benchmarks.sharing import sharing
from benchmarks.startup import startup
from benchmarks.upstream import upstream
from benchmarks.workers import workers

TABLES: dict[str, Callable[..., Table]] = {
    "calls": calls,
    "progress": progress,
    "payloads": payloads,
    "crowd": crowd,
    "flood": flood,
    "doors": doors,
    "auth": auth,
    "workers": workers,
    "loop": loop,
    "orchestration": orchestration,
    "scatter": scatter,
    "durability": durability,
    "sharing": sharing,
    "fleet": fleet,
    "engines": engines,
    "conversations": conversations,
    "planner": planning,
    "embabel": embabel,
    "models": models,
    "upstream": upstream,
    "startup": startup,
    "memory": memory,
    "knowledge": knowledge,
    "questions": questions,
    "knowledge_postgres": knowledge_postgres,
}
PAGE = ROOT / "docs" / "performance.md"


def main() -> None:
    """Measure what was asked for: all tables, unless some are named."""
    if sys.argv[1:2] == ["compare"]:
        compare.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure goalport.",
        epilog="`python -m benchmarks compare COMMIT` compares with an earlier commit; its --help says more.",
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; default: all")
    parser.add_argument(
        "--quick", action="store_true", help="a short run that shows that all works; its numbers mean little"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here too, as JSON")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/performance.md")
    options = parser.parse_args()
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"there is no table {unknown[0]!r}; the tables are {', '.join(TABLES)}")
    if options.quick and options.write_docs:
        parser.error("--write-docs wants a full run: leave --quick out")
    began, tables = time.perf_counter(), list[Table]()
    try:
        for name in options.tables or TABLES:
            tables.append(_made(name, quick=options.quick))
    finally:
        # A table that fails, or Ctrl-C, takes nothing from those that are there.
        if options.json:
            write_json(tables, options.json)
        if options.write_docs:
            whole = [table.name for table in tables] == list(TABLES)
            write_page(tables, PAGE, minutes=(time.perf_counter() - began) / 60 if whole else None)


def _made(name: str, *, quick: bool) -> Table:
    began = time.perf_counter()
    table = TABLES[name](quick=quick)
    print(f"{table.markdown}\n", flush=True)
    print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return table


if __name__ == "__main__":
    print(f"{machine()}\n", flush=True)
    main()
