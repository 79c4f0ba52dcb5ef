"""What `goalport run` is to run: a goal by its name, or what a sentence asks for.

Above: `run`; below: autonomy, which chooses by a sentence, and publish, which reads the JSON of a named goal.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from goalport.agents.domain import Agent, Goal, UserInput, WaitFor
from goalport.base.errors import BadInput, DeclarationError
from goalport.base.events import Event
from goalport.base.words import type_label
from goalport.cli.questions import answer_of
from goalport.cli.views import View
from goalport.cli.workspace import GoalChoice, goal_named
from goalport.runtime.autonomy import Achieved, Choice, start_objects
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Question, Spending, spending_outside
from goalport.server.publish.handle import OpenQuestion
from goalport.server.publish.output import OutputFormat, Wire
from goalport.server.publish.published_arguments import PublishedArguments


@dataclass(frozen=True)
class Start:
    """What a process is started with."""

    agent: Agent
    goals: Sequence[str]
    inputs: Sequence[object]
    spent: Sequence[Spending] = ()
    """What it has cost to find this out."""


@dataclass(frozen=True)
class _OutsideOfProcesses:
    """Hands a view the events of models that no process asks, while it is found out what to start."""

    view: View

    def on_event(self, event: Event, /) -> None:
        if not event.process_id:
            self.view.on_event(event)


class Wanted(Protocol):
    """What somebody wants to be run."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    async def start(self, platform: AgentPlatform, view: View) -> Start:
        """Find out what to start. Raises `NothingChosen`, `BadInput` and `UnknownName`."""
        ...

    def wire(self, goal: Goal | None, value: object) -> Wire:
        """The result as an MCP client would get it; `goal` is the one that was reached."""
        ...


class NamedGoal:
    """A goal by its name, with the JSON of its MCP tool."""

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        self.name = name
        self._given = given
        self._output: object = None

    async def start(self, platform: AgentPlatform, view: View) -> Start:
        found = goal_named(platform, self.name)
        self._output = found.goals[0].output
        return Start(found.agent, [each.name for each in found.goals], _read(found, self._given))

    def wire(self, goal: Goal | None, value: object) -> Wire:
        return OutputFormat.of(self._output).written(value).wire


class Sentence:
    """What somebody says: a model chooses the agent, or in open mode the goal. The result says which and why."""

    def __init__(self, said: UserInput, *, open_mode: bool) -> None:
        self._said = said
        self._open_mode = open_mode
        self._choice: Choice | None = None

    @property
    def name(self) -> str:
        return "The request" if self._choice is None else self._choice.name

    async def start(self, platform: AgentPlatform, view: View) -> Start:
        unsubscribe = platform.subscribe(_OutsideOfProcesses(view))
        try:
            with spending_outside() as spent:
                choice, inputs = await self._chosen(platform, view)
        finally:
            unsubscribe()
        return Start(choice.agent, choice.goals, inputs, spent)

    async def _chosen(self, platform: AgentPlatform, view: View) -> tuple[Choice, Sequence[object]]:
        choose = platform.autonomy.choose_goal if self._open_mode else platform.autonomy.choose_agent
        choice = self._choice = await choose(self._said)
        view.say(choice.why)

        async def ask(message: str, kind: type[object]) -> object:
            with view.aside():
                return await _asked(message, kind)

        return choice, await start_objects(platform, choice.agent.goals, self._said, platform.ai, ask)

    def wire(self, goal: Goal | None, value: object) -> Wire:
        assert self._choice is not None
        wire = OutputFormat.of(None if goal is None else goal.output).written(value).wire
        if goal is None:
            return wire
        return {**wire, "structuredContent": Achieved.of(self._choice, goal, value).model_dump(mode="json")}


async def _asked(message: str, kind: type[object]) -> object:
    """An object that a person gives on the terminal. Raises `BadInput` if there is none, and `Unanswered`."""
    if not sys.stdin.isatty():
        raise BadInput(f"{message} Say in the sentence what is needed for a {type_label(kind)}, or name the goal.")
    question = Question("", "", "run", WaitFor.form_submission(message, kind))
    asked = OpenQuestion.of(question)

    async def send(answer: object) -> object:
        return question.validated(asked.form.read(answer))

    async def status() -> str:
        return question.status

    return await answer_of(asked.structured, send, status)


def _read(found: GoalChoice, given: Mapping[str, Any]) -> Sequence[object]:
    """The start objects of the process, read from the JSON by the first alternative that it fits."""
    mistakes: list[str] = []
    for starts in found.starts:
        named = " and ".join(map(type_label, starts)) or "nothing"
        try:
            return PublishedArguments.of(starts).begin(given)
        except BadInput as error:
            mistakes.append(f"As {named}: {error}")
        except DeclarationError as error:
            raise BadInput(f"{error} Or start the goal from Python.") from error
    how = [] if given else ["Give them as a JSON object with --input."]
    raise BadInput("\n".join([*(mistakes if mistakes[1:] else [mistakes[0].partition(": ")[2]]), *how]))
