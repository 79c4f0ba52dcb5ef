"""Where a command works: a workspace, its settings, and the platform that they make.

It loads and deploys; what cannot be loaded or deployed is kept as problems, so that each command can say it its way.
Below the commands of this room; workspace, settings and platform are below it.
"""

from dataclasses import dataclass
from pathlib import Path

from goalport.cli.folder import workspace_root
from goalport.cli.terminal import say
from goalport.platform import AgentPlatform
from goalport.settings import Settings, load_settings
from goalport.workspace import Workspace, load_workspace


@dataclass(frozen=True)
class Place:
    """A workspace as it was loaded, its settings, and the platform with its agents."""

    workspace: Workspace
    settings: Settings
    platform: AgentPlatform

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be loaded or deployed, a sentence each; the rest is there."""
        return (*map(str, self.workspace.problems), *self.platform.problems)

    @property
    def no_agents(self) -> str:
        folder = self.workspace.root / "agents"
        if self.problems:
            return f"No agent in {folder} could be loaded; the problems say why."
        return (
            f"There are no agents in {folder}. Write one there, or make a workspace with an example: goalport new DIR"
        )


def opened_aloud(folder: Path) -> Place:
    """Load the workspace in a folder and deploy its agents, with a warning for each problem."""
    place = opened(folder)
    for problem in place.problems:
        say(f"warning: {problem}")
    return place


def opened(folder: Path, **options: object) -> Place:
    """Load the workspace in a folder and deploy its agents; options that are None are not given."""
    root = workspace_root(folder)
    settings = load_settings(root, **{name: value for name, value in options.items() if value is not None})
    workspace = load_workspace(root)
    return Place(workspace, settings, AgentPlatform.from_workspace(workspace, settings))
