"""What the settings of a workspace ask for in a platform: how it chooses, what it forgets, and agents of its own.

Below: settings, and what they configure. Above: the platform.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

from pydantic import BaseModel

from goalport.agents.domain import Agent, Goal, RetryPolicy, UserInput, action, read_agent
from goalport.base.errors import GoalportError, NothingChosen
from goalport.base.words import in_json
from goalport.models.llm import LlmOptions, UserMessage
from goalport.runtime.autonomy import Autonomy, front_agent, start_objects
from goalport.runtime.autonomy.autonomy import Platform
from goalport.runtime.chat import Conversation, chatbot
from goalport.runtime.platform.erasure import Retention
from goalport.runtime.process import SERVICE_TYPES, ActionContext, Budget, ProcessOptions, Verbosity
from goalport.store import ProcessStore
from goalport.workspace import Declaration, Workspace
from goalport.workspace.settings import AutonomySettings, DeclaredSettings, Settings, read_declared


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


_NO_LIMIT = 10**15
"""More tokens than any process can use; a number, because options are stored."""
_METHODS = {
    "listener": ("on_event",),
    "guard": ("check_input", "check_output"),
    "argument_resolver": ("supports", "resolve"),
    "ranker": ("rank",),
}
Extensions: TypeAlias = Mapping[str, list[Any]]
"""What extends a platform besides agents and services, by the name of its decorator."""


def declared_extensions(
    declarations: Iterable[Declaration], make: Callable[[Declaration], object]
) -> tuple[Extensions, list[str]]:
    """What a workspace declares, made, and a sentence for each that cannot be used."""
    made, problems = {role: list[Any]() for role in _METHODS}, list[str]()
    for each, role in ((every, role) for every in declarations for role in every.roles if role in _METHODS):
        try:
            found = make(each)
        except GoalportError as error:
            problems.append(str(error))
        else:
            lacking = [name for name in _METHODS[role] if not callable(getattr(found, name, None))]
            problems += [f"{each} is a {role.replace('_', ' ')}, but lacks {' and '.join(lacking)}."] * bool(lacking)
            made[role] += [] if lacking else [found]
    return made, problems


def workspace_autonomy(platform: Platform, settings: AutonomySettings) -> Autonomy:
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
    said = settings.process.model_dump()
    actions = said.pop("actions") or settings.max_actions
    budget = Budget(cost=said.pop("cost") or math.inf, tokens=said.pop("tokens") or _NO_LIMIT, actions=actions)
    verbosity = Verbosity(**{name: said.pop(name) for name in ("debug", *(each for each in said if "show" in each))})
    return ProcessOptions(budget=budget, deadline=said.pop("seconds") or None, verbosity=verbosity, **said)


def workspace_retention(store: ProcessStore, settings: Settings) -> Retention:
    """What is dropped from the store with time."""
    age = timedelta(days=settings.retention_days) if settings.retention_days else None
    return Retention(store, age, settings.retention_count or None)


def workspace_own_agents(settings: Settings, autonomy: Autonomy) -> Iterator[object]:
    """The agents that the settings ask for: the one that takes a sentence, and the chatbot that uses all others."""
    if settings.front_tool:
        yield front_agent(autonomy, open_mode=settings.front_tool == "open")
    if settings.chatbot:
        open_mode = settings.front_tool == "open"
        yield choosing_chatbot(settings.chatbot, autonomy, open_mode=open_mode, published=True)


@chatbot(description="Does what a message asks for, with whichever agent fits it best")
class ChoosingChatbot:
    """Answers a message with the result of the agent that was chosen for it."""

    def __init__(self, autonomy: Autonomy, *, open_mode: bool, published: bool) -> None:
        self._autonomy, self._open_mode, self._published = autonomy, open_mode, published

    @action(trigger=UserMessage, can_rerun=True, cost=1e8)  # actions that answer messages go first
    async def choose(self, message: UserMessage, conversation: Conversation, context: ActionContext) -> None:
        """Run what fits the message best, and send its result."""
        said, before = UserInput(message.content), conversation.messages[:-1]
        choose = self._autonomy.choose_goal if self._open_mode else self._autonomy.choose_agent
        try:
            choice = await choose(said, among=self._goals(context), conversation=before, ai=context.ai)
        except NothingChosen as nothing:
            await context.send_message(str(nothing))
            return
        context.progress(choice.why)
        platform, goals = self._autonomy.platform, choice.agent.goals
        inputs = await start_objects(platform, goals, said, context.ai, context.ask)
        result = await context.as_sub_process(object, choice.agent, *inputs)
        content = getattr(result, "content", result)
        await context.send_message(
            "Done." if result is None else content if isinstance(content, str) else in_json(result)
        )

    def _goals(self, context: ActionContext) -> list[Goal]:
        """The goals that the caller may start: those of a server only if they are published."""
        platform = self._autonomy.platform
        goals = (goal for each in platform.agents if each.chat is None for goal in each.goals)
        started = (each for each in goals if platform.may_start(context.caller, each))
        return [each for each in started if each.export.remote or not self._published]


def choosing_chatbot(name: str, autonomy: Autonomy, *, open_mode: bool, published: bool) -> Agent:
    """The agent of a chatbot that gives a message to the agent that fits best, if no action reacts to it.

    `open_mode` is that of autonomy. `published`: only goals that are published are chosen.
    """
    own = read_agent(ChoosingChatbot(autonomy, open_mode=open_mode, published=published), SERVICE_TYPES)
    return replace(own, name=name, open=True, source="")
