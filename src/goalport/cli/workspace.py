"""The workspace of a command: it is loaded with its settings, its agents are deployed, and goals are found by name.

What cannot be loaded or deployed is kept as problems, so that each command can report it in its own way.
"""

import asyncio
import logging
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from goalport.agents.domain import Agent, Goal
from goalport.base.errors import BadInput, DeploymentError, GoalportError, SettingsError, UnknownName
from goalport.base.observe import LogListener, log_to_stderr
from goalport.base.secrecy import hide
from goalport.cli.options import DEBUG, workspace_root
from goalport.cli.terminal import say
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess
from goalport.server.publish.goal_tools import Offer, offers_of, start_sets
from goalport.workspace import Workspace, load_workspace
from goalport.workspace.settings import Settings, load_settings

_LOGGING = frozenset({"log_level", "log_format", "log_personality"})
"""The settings of the log. A command that a person types logs only if one of them is set."""


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
    def lacks_agents(self) -> bool:
        """Whether it has no agents but should have: something could not be loaded, or nothing else is published."""
        others = self.workspace.exported_tools() or self.platform.references.published
        return not len(self.platform.agents) and bool(self.problems or not others)

    @property
    def no_agents_message(self) -> str:
        """The text for a workspace without agents; whether it has any is not checked."""
        folder = self.workspace.root / "agents"
        if self.problems:
            return f"No agent in {folder} could be loaded; the problems say why."
        return (
            f"There are no agents in {folder}. Write one there, or make a workspace with an example: goalport new DIR"
        )


@dataclass
class ShellWorkspace:
    """A workspace that stays open from one command of a shell to the next."""

    runner: asyncio.Runner
    """The event loop on which its processes run."""
    loaded: LoadedWorkspace
    last: AgentProcess | None = None
    """The process that ran last."""
    with_models: dict[str, LoadedWorkspace] = field(default_factory=dict[str, LoadedWorkspace])
    """By the name of a model: the workspace with it as the default model, as `run --model` loads it."""

    @property
    def open(self) -> Sequence[LoadedWorkspace]:
        """The loaded workspaces, in each of which processes may run."""
        return (self.loaded, *self.with_models.values())

    def close(self) -> None:
        """Close the platforms, which ends what runs on them."""
        for each in self.open:
            self.runner.run(each.platform.aclose())
        self.with_models.clear()


SHELL_WORKSPACE: ContextVar[ShellWorkspace | None] = ContextVar("shell_workspace", default=None)
"""The workspace of the shell in which a command runs; None outside of one."""


def shell_workspace_in_memory(folder: Path) -> LoadedWorkspace | None:
    """The workspace of the shell in which this runs, if it is the one in `folder` and its store is in memory."""
    if (shell := SHELL_WORKSPACE.get()) is None:
        return None
    settings = load_settings(workspace_root(folder))
    own = settings.store == "memory" and settings.workspace == shell.loaded.settings.workspace
    return shell.loaded if own else None


@contextmanager
def loop_of(loaded: LoadedWorkspace) -> Generator[asyncio.Runner]:
    """The event loop of a workspace: the shell's, or a new one that ends, with the platform, after the block."""
    shell = SHELL_WORKSPACE.get()
    if shell is not None and any(each is loaded for each in shell.open):
        yield shell.runner
        return
    with asyncio.Runner() as runner:
        try:
            yield runner
        finally:
            runner.run(loaded.platform.aclose())


def failure_of(process: AgentProcess, reason: str, root: Path) -> tuple[str, BaseException | None]:
    """Why a process failed, and the exception of user code that caused it; None: a `GoalportError`, or no exception.

    With an exception, the text names the last line of the workspace's code in its traceback.
    """
    error = process.failure and process.failure.error
    if error is None or isinstance(error, GoalportError):
        return reason, None
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if Path(each.filename).is_relative_to(root)]
    last = [f"{Path(e.filename).relative_to(root)}, line {e.lineno}, in {e.name}: {e.line}" for e in own[-1:]]
    hint = () if DEBUG.get() else ("--debug shows the whole traceback.",)
    return "\n  ".join([reason, *map(hide, last), *hint]), error


def open_workspace(folder: Path, **options: object) -> LoadedWorkspace:
    """Load the workspace in a folder and deploy its agents. `options` are settings; those that are None are ignored."""
    root = workspace_root(folder)
    return open_with_settings(root, load_settings(root, **options))


def open_with_settings(root: Path, settings: Settings, *, migrates: bool = True) -> LoadedWorkspace:
    """Load the workspace in a folder and deploy its agents, with settings that were read before.

    With `migrates`, a store of an earlier version is migrated; otherwise it is refused.
    """
    workspace = load_workspace(root)
    return LoadedWorkspace(workspace, settings, AgentPlatform.from_workspace(workspace, settings, migrates=migrates))


def open_with_warnings(
    folder: Path, model: str | None = None, *, anew: bool = False, needs_agents: bool = False
) -> LoadedWorkspace:
    """Load the workspace in a folder and deploy its agents, with a warning for each problem.

    `model` replaces the default model. In a shell, its open workspace is returned, unless `anew` is set. Raises
    `SettingsError` if the settings that the workspace declares cannot be used, and `BadInput` if it has no agents but
    `needs_agents` is set.
    """
    shell = None if anew else SHELL_WORKSPACE.get()
    if shell is not None and shell.loaded.workspace.root != workspace_root(folder).resolve():
        shell = None
    loaded = None if shell is None else shell.loaded if model is None else shell.with_models.get(model)
    if loaded is None:
        models = {} if model is None else {"models": {"default_llm": model}}
        loaded = open_workspace(folder, store="memory", **models)  # what a command runs ends with it
        warn_of_problems(loaded)
        if shell is not None and model is not None:
            shell.with_models[model] = loaded
    if needs_agents and not len(loaded.platform.agents):
        raise BadInput(loaded.no_agents_message)
    return loaded


def warn_of_problems(loaded: LoadedWorkspace) -> None:
    """Print a warning for each problem, and switch the log on if the settings say how to log.

    Raises `SettingsError` if the settings that the workspace declares cannot be used.
    """
    settings, platform = loaded.settings, loaded.platform
    if platform.misconfigured:
        raise SettingsError("\n".join(platform.misconfigured))
    for problem in loaded.problems:
        say(f"warning: {problem}")
    if settings.log_personality or settings.log_level == "debug":
        platform.subscribe(LogListener(settings.log_personality, spoken_at=logging.INFO))
    if settings.model_fields_set & _LOGGING or platform.options.verbosity.listeners:
        log_to_stderr(settings.log_level, settings.log_format)


def warn_without_agents(loaded: LoadedWorkspace) -> None:
    """Say how to get an agent, if the workspace lacks one."""
    if loaded.lacks_agents:
        say(f"warning: {loaded.no_agents_message}")


class GoalChoice(NamedTuple):
    """A goal of an agent, or several goals that are published as one tool."""

    agent: Agent
    goals: tuple[Goal, ...]
    starts: tuple[tuple[object, ...], ...]
    """The alternative sets of start types, the usual one first."""


def goal_named(platform: AgentPlatform, name: str) -> GoalChoice:
    """A goal by the name of its tool, its full name or the name of its method.

    Raises `UnknownName`, or `DeploymentError` when several goals bear the name.
    """
    offers = [each for each in offers_of(platform) if isinstance(each, Offer)]
    named = [each for each in offers if each.name == name]
    if named[1:]:
        goals = " and ".join(goal.name for each in named for goal in each.goals)
        raise DeploymentError(
            f"{goals} all want to be called {name!r}. Use the full name, and give all but one another: Export(name=…)."
        )
    for first in named:
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
