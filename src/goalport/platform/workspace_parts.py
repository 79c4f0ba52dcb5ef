"""What the settings of a workspace ask for in a platform: how it chooses, what it forgets, and agents of its own.

Below: settings, and what they configure. Above: the platform.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from goalport.ai import Guard
from goalport.autonomy import Autonomy, Ranker, front_agent
from goalport.autonomy.autonomy import Platform
from goalport.chat import open_chatbot
from goalport.domain import RetryPolicy
from goalport.errors import DeploymentError, GoalportError
from goalport.events import EventListener
from goalport.llm import LlmOptions
from goalport.platform.retention import Retention
from goalport.process import ArgumentResolver, Budget, ProcessOptions, Verbosity
from goalport.settings import AutonomySettings, DeclaredSettings, Settings, read_declared
from goalport.store import ProcessStore
from goalport.workspace import Declaration, Workspace

__all__ = [
    "Extensions",
    "declared_settings",
    "process_options",
    "workspace_autonomy",
    "workspace_own_agents",
    "workspace_retention",
]


def declared_settings(settings: Settings, workspace: Workspace) -> DeclaredSettings:
    """The settings that the modules of a workspace declare."""
    tables, problems = dict[str, type[BaseModel]](), list[str]()
    for table, kind in workspace.settings():
        if table in tables:
            taken = Declaration(tables[table], ())
            problems.append(f"{Declaration(kind, ())} has the table {table!r}, which {taken} has. Name another one.")
        tables.setdefault(table, kind)
    found = read_declared(settings, tables, complete=not workspace.problems)
    return replace(found, problems=(*problems, *found.problems))


@dataclass
class Extensions:
    """What extends a platform besides agents and services: what a program gave, and what a workspace declares."""

    guards: tuple[Guard, ...] = ()
    """Those that a program gave."""
    resolvers: tuple[ArgumentResolver, ...] = ()
    ranker: Ranker | None = None
    _declared_guards: tuple[Guard, ...] = ()
    _unsubscribe: tuple[Callable[[], None], ...] = ()

    def all_guards(self) -> tuple[Guard, ...]:
        """The guards of a program before those of a workspace."""
        return (*self.guards, *self._declared_guards)

    def renew(
        self,
        declarations: Sequence[Declaration],
        make: Callable[[Declaration], object],
        subscribe: Callable[[EventListener], Callable[[], None]],
    ) -> Iterator[str]:
        """Take what a workspace declares in place of what it declared before; a sentence for each that fails."""
        for each in self._unsubscribe:
            each()
        made = defaultdict[str, list[Any]](list)
        for each in declarations:
            for role in each.roles:
                if role in _METHODS:
                    try:
                        made[role].append(_checked(each, role, make(each)))
                    except GoalportError as error:
                        yield str(error)
        self._unsubscribe = tuple(map(subscribe, made["listener"]))
        self._declared_guards, self.resolvers = tuple(made["guard"]), tuple(made["argument_resolver"])
        self.ranker = next(iter(made["ranker"]), None)


_METHODS = {
    "listener": ("on_event",),
    "guard": ("check_input", "check_output"),
    "argument_resolver": ("supports", "resolve"),
    "ranker": ("rank",),
}


def _checked(declared: Declaration, role: str, made: object) -> object:
    if lacking := [each for each in _METHODS[role] if not callable(getattr(made, each, None))]:
        raise DeploymentError(f"{declared} is a {role.replace('_', ' ')}, but lacks {' and '.join(lacking)}.")
    return made


def workspace_autonomy(platform: Platform, settings: AutonomySettings) -> Autonomy:
    """How the platform chooses agents and goals."""
    return Autonomy(
        platform=platform,
        agent_confidence_cut_off=settings.agent_confidence_cut_off,
        goal_confidence_cut_off=settings.goal_confidence_cut_off,
        llm=LlmOptions(model=settings.ranking_llm) if settings.ranking_llm else None,
        max_attempts=settings.ranking_max_attempts,
        backoff=RetryPolicy(
            first_delay=settings.ranking_first_delay,
            factor=settings.ranking_factor,
            max_delay=settings.ranking_max_delay,
        ),
    )


def process_options(settings: Settings) -> ProcessOptions:
    """How processes run that are given no options."""
    said = settings.process
    actions = settings.max_actions if said.actions is None else said.actions
    names = ("show_planning", "show_prompts", "show_llm_responses", "debug")
    return ProcessOptions(
        budget=Budget(cost=said.cost or math.inf, tokens=said.tokens or 10**15, actions=actions),
        deadline=said.seconds or None,
        verbosity=Verbosity(**{name: getattr(said, name) for name in names}),
        **{name: getattr(said, name) for name in ("delay", "tool_delay", "prune", "test")},
        agent_name_in_id=said.agent_name_in_id,
        version_in_id=said.version_in_id,
    )


def workspace_retention(store: ProcessStore, settings: Settings) -> Retention:
    """What is dropped from the store with time."""
    age = timedelta(days=settings.retention_days) if settings.retention_days else None
    return Retention(store, age, settings.retention_count or None)


def workspace_own_agents(settings: Settings, autonomy: Autonomy) -> Iterator[object]:
    """The agents that the settings ask for: the one that takes a sentence, and the chatbot that uses all others."""
    if settings.front_tool:
        yield front_agent(autonomy, open_mode=settings.front_tool == "open")
    if settings.chatbot:
        yield open_chatbot(settings.chatbot)
