"""Runs the Python of a document as its reader would. The process that it is forked from has imported the libraries."""

import os
import runpy
import sys
from pathlib import Path

import httpx2  # pyright: ignore[reportUnusedImport]  # noqa: F401 - so that no fork has to
import mcp  # pyright: ignore[reportUnusedImport]  # noqa: F401 - likewise

import goalport.testing  # pyright: ignore[reportUnusedImport]  # noqa: F401 - likewise

__all__ = ["run_as_reader"]


def run_as_reader(file: Path, printed: Path) -> None:
    """Do what `python FILE` does in the folder of the file; what is printed goes into another file."""
    with printed.open("w", encoding="utf-8") as output:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(output.fileno(), stream.fileno())
    os.chdir(file.parent)
    sys.argv, sys.path[0] = [str(file)], str(file.parent)
    runpy.run_path(str(file), run_name="__main__")
