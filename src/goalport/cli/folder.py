"""The `--workspace` option that every command takes, and the folder that it means.

Below the commands of this room; it loads nothing.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.errors import WorkspaceError

WorkspaceFolder = Annotated[
    Path,
    Parameter(
        name=("--workspace", "-w"),
        help="The folder that holds agents/ and tools/. Default: the current one.",
        show_default=False,
    ),
]


def workspace_root(folder: Path) -> Path:
    root = folder.expanduser().absolute()
    if not root.is_dir():
        raise WorkspaceError(
            f"There is no folder {root}. Give --workspace a folder that is there, or make one: goalport new {folder}"
        )
    return root
