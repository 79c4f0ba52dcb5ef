"""The `--workspace` option that every command takes, and the folder that it means.

Below the commands of this room; it loads nothing.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.errors import WorkspaceError

_SIGNS = ("agents", "tools", "mcp_config.json", "server/settings.toml")
"""What makes a folder a workspace: one of them."""
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


def served_root(folder: Path) -> Path:
    """The folder, if there is a workspace in it. Raises `WorkspaceError`, which offers to make one."""
    root = workspace_root(folder)
    if not any((root / name).exists() for name in _SIGNS):
        raise WorkspaceError(
            f"There is no workspace in {root}: it has neither agents/ nor tools/ nor mcp_config.json. Make one with"
            " an example of everything (goalport new my-agents), or name another folder with --workspace."
        )
    return root
