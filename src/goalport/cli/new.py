"""`goalport new`: makes a folder with everything that a workspace needs and an example of each part.

The files are under `templates/`; in them, `@name@` is replaced by the name of the folder and `@goalport@` by the
requirement that installs this goalport.
"""

import json
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from goalport import __version__
from goalport.base.errors import WorkspaceError
from goalport.cli.terminal import say
from goalport.workspace import FOLDERS, PACKAGE
from goalport.workspace.settings import Settings

SUFFIX = ".template"
"""Keeps tools that process Python, TOML or ignore files from processing the templates."""
_HIDDEN = ("dockerignore", "gitignore", "github", "vscode")
"""The names that get a leading dot."""
_FROM_A_FOLDER = "goalport @ file:"
_FIX = "name a folder that is empty or not there yet"
_SHOWN = 3


def new(folder: Path, /) -> None:
    """Make a workspace in a folder that is empty or not there yet.

    Args:
        folder: The folder of the new workspace: empty, or not there yet.

    Examples:
        goalport new my-agents
        cd my-agents && goalport serve
    """
    root = folder.expanduser().absolute()
    if root.exists() and not root.is_dir():
        raise WorkspaceError(f"{root} is a file; {_FIX}: goalport new {folder}-agents")
    # A new git repository counts as empty, since many people begin with one.
    occupants = sorted(each.name for each in root.iterdir() if each.name != ".git") if root.exists() else []
    if occupants:
        shown = ", ".join([*occupants[:_SHOWN], *(["…"] if occupants[_SHOWN:] else [])])
        raise WorkspaceError(f"{root} is not empty (it holds {shown}); {_FIX}: goalport new {folder / 'agents'}")
    name = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-") or "my-agents"
    # The requirement with which pip installs this goalport elsewhere: its version, or where its source is.
    match json.loads(distribution("goalport").read_text("direct_url.json") or "{}"):
        case {"url": str(url), "vcs_info": {"vcs": str(vcs), "commit_id": str(commit)}}:
            requirement = f"goalport @ {vcs}+{url}@{commit}"
        case {"url": str(url)}:
            requirement = f"goalport @ {url}"
        case _:
            requirement = f"goalport=={__version__}"
    words = {"@name@": name, "@goalport@": requirement}
    for path, text in _templates(files("goalport.cli") / "templates", PurePosixPath()):
        for placeholder, word in words.items():
            text = text.replace(placeholder, word)  # noqa: PLW2901 - the text as it grows
        _write(root / path, text)
    schema = Settings.model_json_schema()
    del schema["properties"]["workspace"]  # settings.toml is in the workspace itself
    schema["additionalProperties"] = {"type": "object"}  # the tables that modules declare
    _write(root / "schemas" / "settings.json", json.dumps(schema, indent=2) + "\n")
    typings = root / "typings" / PACKAGE  # where type checkers find the package that the workspace is imported as
    typings.mkdir(parents=True, exist_ok=True)
    for each in FOLDERS:
        try:
            (typings / each).symlink_to(Path("..", "..", each), target_is_directory=True)
        except OSError as error:
            why = f"{typings / each} cannot be a link ({error.strerror})"
            say(f"warning: {why}; type checkers will not find {PACKAGE}.")
    if requirement.startswith(_FROM_A_FOLDER):
        say(
            "note: pyproject.toml names the folder from which goalport is installed here. The build of an image cannot"
            " reach it: name a release or a git repository there first."
        )
    there = shlex.quote(str(folder))
    say(f"Made {root}. Next:\n  cd {there}\n  make serve\nand in another terminal there: .venv/bin/goalport connect")


def _write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8", newline="\n")


def _templates(folder: Traversable, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    """The path and the text of each template below a folder of this package."""
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = each.name.removesuffix(SUFFIX)
        path = place / (f".{name}" if name in _HIDDEN else name)
        if each.is_dir():
            yield from _templates(each, path)
        elif each.name.endswith(SUFFIX):
            yield path, each.read_text(encoding="utf-8")
