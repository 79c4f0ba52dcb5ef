"""The workspace that a command works on, its settings, and the platform that they make.

It loads and deploys. What cannot be loaded or deployed is kept as problems, so that each command can report it in its
own way. Above: the commands of this package; below: workspace, settings and platform.
"""

from dataclasses import dataclass
from pathlib import Path

from goalport.cli.options import workspace_root
from goalport.cli.terminal import say
from goalport.platform import AgentPlatform
from goalport.settings import Settings, load_settings
from goalport.workspace import Workspace, load_workspace


@dataclass(frozen=True)
class LoadedWorkspace:
    """A workspace as it was loaded, its settings, and the platform with its agents."""

    workspace: Workspace
    settings: Settings
    platform: AgentPlatform

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be loaded or deployed, one sentence each; everything else is available."""
        return (*map(str, self.workspace.problems), *self.platform.problems)

    @property
    def no_agents(self) -> str:
        folder = self.workspace.root / "agents"
        if self.problems:
            return f"No agent in {folder} could be loaded; the problems say why."
        return (
            f"There are no agents in {folder}. Write one there, or make a workspace with an example: goalport new DIR"
        )


def open_with_warnings(folder: Path) -> LoadedWorkspace:
    """Load the workspace in a folder and deploy its agents, with a warning for each problem."""
    loaded = open_workspace(folder)
    for problem in loaded.problems:
        say(f"warning: {problem}")
    return loaded


def open_workspace(folder: Path, **options: object) -> LoadedWorkspace:
    """Load the workspace in a folder and deploy its agents; `options` are settings, and one that is None is ignored."""
    root = workspace_root(folder)
    settings = load_settings(root, **{name: value for name, value in options.items() if value is not None})
    workspace = load_workspace(root)
    return LoadedWorkspace(workspace, settings, AgentPlatform.from_workspace(workspace, settings))
