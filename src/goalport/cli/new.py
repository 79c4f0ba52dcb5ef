"""`goalport new`: a folder with everything that a workspace needs, an example of each, and nothing to fill in.

The files are under `templates/` as they will be; `@name@` in them becomes the name of the folder. Below the program.
"""

import re
import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from goalport.cli.terminal import say
from goalport.errors import WorkspaceError

SUFFIX = ".template"
"""Keeps tools that read Python, TOML or ignore files away from the templates."""
_FIX = "name a folder that is empty or not there yet"
_SHOWN = 3


def new(folder: Path, /) -> None:
    """Make a workspace in a folder that is empty or not there yet.

    Parameters
    ----------
    folder
        Where to make it.
    """
    root = folder.expanduser().absolute()
    _refuse_occupied(root, folder)
    name = _project_name(root.name)
    for path, text in _templates():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace("@name@", name), encoding="utf-8", newline="\n")
    there = shlex.quote(str(folder))
    say(f"Made {root}. Next:\n  cd {there}\n  goalport serve\nand in another terminal: goalport connect")


def _refuse_occupied(root: Path, typed: Path) -> None:
    if root.exists() and not root.is_dir():
        raise WorkspaceError(f"{root} is a file; {_FIX}: goalport new {typed}-agents")
    # A repository that was just made counts as empty: that is how many people begin.
    found = sorted(each.name for each in root.iterdir() if each.name != ".git") if root.exists() else []
    if found:
        shown = ", ".join([*found[:_SHOWN], *(["…"] if found[_SHOWN:] else [])])
        raise WorkspaceError(f"{root} is not empty (it holds {shown}); {_FIX}: goalport new {typed / 'agents'}")


def _project_name(folder: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-") or "my-agents"


def _templates() -> Iterator[tuple[PurePosixPath, str]]:
    return _below(files("goalport.cli") / "templates", PurePosixPath())


def _below(folder: Traversable, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _below(each, place / each.name)
        elif each.name.endswith(SUFFIX):
            name = each.name.removesuffix(SUFFIX)
            yield place / (".gitignore" if name == "gitignore" else name), each.read_text(encoding="utf-8")
