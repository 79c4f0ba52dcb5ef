"""What the programs of tests are forked from: everything is imported here, and has run once."""

import tempfile
from pathlib import Path

import asyncpg  # pyright: ignore[reportMissingTypeStubs, reportUnusedImport]  # noqa: F401 - so that no fork has to

from tests.crashes.faults import Crew, run_program

with tempfile.TemporaryDirectory() as name:
    run_program(Crew(Path(name), f"{name}/processes.db"), 0)
