"""The workspace that a command works on: its settings, the platform that they make, and a goal of it by name.

It loads and deploys. What cannot be loaded or deployed is kept as problems, so that each command can report it in its
own way. Above: the commands of this package; below: workspace, settings, platform and publish.
"""

from dataclasses import dataclass
from pathlib import Path

from goalport.cli.options import workspace_root
from goalport.cli.terminal import say
from goalport.domain import Agent, Goal
from goalport.errors import BadInput, UnknownName
from goalport.platform import AgentPlatform
from goalport.publish.goal_tools import Offer, offers_of, start_sets
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
    def no_agents_message(self) -> str:
        """What is said of a workspace without agents, in a sentence or two; it does not look whether there are any."""
        folder = self.workspace.root / "agents"
        if self.problems:
            return f"No agent in {folder} could be loaded; the problems say why."
        return (
            f"There are no agents in {folder}. Write one there, or make a workspace with an example: goalport new DIR"
        )


@dataclass(frozen=True)
class GoalChoice:
    """A goal of an agent, or several goals that are published as one."""

    agent: Agent
    goals: tuple[Goal, ...]
    starts: tuple[tuple[object, ...], ...]
    """The alternative sets of start types, the usual one first."""


def open_with_warnings(folder: Path) -> LoadedWorkspace:
    """Load the workspace in a folder and deploy its agents, with a warning for each problem."""
    loaded = open_workspace(folder, store="memory")  # what a command runs ends with it
    for problem in loaded.problems:
        say(f"warning: {problem}")
    return loaded


def open_workspace(folder: Path, **options: object) -> LoadedWorkspace:
    """Load the workspace in a folder and deploy its agents; `options` are settings, and one that is None is ignored."""
    root = workspace_root(folder)
    return open_with_settings(root, load_settings(root, **options))


def open_with_settings(root: Path, settings: Settings) -> LoadedWorkspace:
    """Load the workspace in a folder and deploy its agents, with settings that were read before."""
    workspace = load_workspace(root)
    return LoadedWorkspace(workspace, settings, AgentPlatform.from_workspace(workspace, settings))


def warn_without_agents(loaded: LoadedWorkspace) -> None:
    """Say how to get an agent, if the workspace has none."""
    if not len(loaded.platform.agents):
        say(f"warning: {loaded.no_agents_message}")


def open_goal(folder: Path, name: str) -> tuple[LoadedWorkspace, GoalChoice]:
    """Load the workspace in a folder, with a warning for each problem, and find one goal of it.

    The name is that of its tool, its full name or the name of its method. Raises `BadInput` if the workspace has no
    agents, and `UnknownName` with the names that exist.
    """
    loaded = open_with_warnings(folder)
    if not len(loaded.platform.agents):
        raise BadInput(loaded.no_agents_message)
    return loaded, _goal(loaded.platform, name)


def _goal(platform: AgentPlatform, name: str) -> GoalChoice:
    offers = [each for each in offers_of(platform) if isinstance(each, Offer)]
    for first in offers:
        if first.name == name:
            further = [each for each in offers if each.agent is first.agent and each.goals == first.goals]
            starts = [each.starts for each in further if each is first or each.name.startswith(f"{name}_from_")]
            return GoalChoice(first.agent, first.goals, tuple(starts))
    try:
        agent, goal = platform.agents.goal(name)
    except UnknownName:
        published = {goal.name for offer in offers for goal in offer.goals}
        others = [goal.name for _, goal in platform.agents.goals if goal.name not in published]
        raise UnknownName("goal", name, [*(offer.name for offer in offers), *others]) from None
    return GoalChoice(agent, (goal,), start_sets(platform, goal))
