"""`goalport settings`: every setting, its value, and where it is from.

Below the program; the settings and the workspace, which may declare some, are below it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, cast

from cyclopts import Parameter

from goalport.base.secrecy import hide, register_secrets
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.terminal import Format, say, show
from goalport.runtime.platform.workspace_parts import declared_settings
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings, secrets_in, secrets_of
from goalport.workspace.settings.loading import listed_settings


def settings(
    *,
    set_only: Annotated[
        bool, Parameter(name="--set", negative="", help="Only those that something sets.", show_default=False)
    ] = False,
    format: Format = "text",  # noqa: A002 - the option's name
    workspace: WorkspaceFolder = Path(),
) -> int:
    """List the settings of goalport, and those that the workspace declares; secrets are not shown.

    Exit codes: 0 all can be used, 1 one of the workspace's own cannot.
    """
    root = workspace_root(workspace)
    known = load_settings(root)
    declared = declared_settings(known, load_workspace(root))
    register_secrets(declared, (*secrets_of(known), *secrets_in(declared.tables)))
    records = [
        {"setting": name, "value": _shown(value), "source": source or "default"}
        for name, value, source in listed_settings(known, declared)
        if source or not set_only
    ]
    show(records, format, none="Nothing is set.")
    for problem in declared.problems:
        say(f"problem: {problem}")
    return 1 if declared.problems else 0


def _shown(value: object) -> object:
    if isinstance(value, tuple | list | frozenset):
        return [_shown(each) for each in cast("Iterable[object]", value)]
    return value if value is None or isinstance(value, bool | int | float) else hide(str(value))
