"""`goalport run`: runs here what a sentence asks for, or a goal. Steps go to standard error, the result to output."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import anyio
from cyclopts import Parameter

from goalport.agents.domain import Agent, Goal, Input, PlannerType, UserInput, WaitFor
from goalport.base.caller import OPERATOR
from goalport.base.errors import AlreadyAnswered, BadInput, DeclarationError, GoalportError, NothingChosen, UnknownName
from goalport.base.events import Event
from goalport.base.words import type_label
from goalport.cli.options import StructuredResult, WorkspaceFolder, object_of
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.questions import answer_of
from goalport.cli.terminal import say, show_json, show_result
from goalport.cli.views import View, view_here
from goalport.cli.workspace import (
    LoadedWorkspace,
    failure_in_words,
    goal_named,
    kept_workspace,
    loop_of,
    open_with_agents,
    unexpected_error,
)
from goalport.runtime.autonomy import Achieved, Choice, start_objects
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    Failed,
    Killed,
    Outcome,
    ProcessStatus,
    Question,
    Spending,
    Waiting,
    asks_a_model,
    spending_outside,
)
from goalport.server.publish.answers import reason_of
from goalport.server.publish.handle import OpenQuestion
from goalport.server.publish.output import OutputFormat, Wire
from goalport.server.publish.published_arguments import PublishedArguments

T = TypeVar("T")
FAILED, MISUSED, UNFIT = 1, 2, 3
_NOBODY: Final = (
    "Nobody can be asked here, so the process was ended with its questions open. Run the command on a terminal, which"
    " asks them; or start `goalport serve` and answer in an MCP client."
)
_STAYS: Final = "It stays in this shell: `answer {0}` answers, `show {0}` shows what is asked, `kill {0}` ends it."


def run(
    text: Annotated[str | None, Parameter("TEXT")] = None,
    /,
    *,
    goal: Annotated[str | None, Parameter(("--goal", "-g"))] = None,
    given: Annotated[str | None, Parameter(("--input", "-i"))] = None,
    open_mode: Annotated[bool, Parameter(("--open", "-o"))] = False,
    prompts: Annotated[bool, Parameter(("--prompts", "-p"))] = False,
    replies: Annotated[bool, Parameter(("--replies", "-r"))] = False,
    model: str | None = None,
    planner: PlannerType | None = None,
    structured: StructuredResult = False,
    quiet: Annotated[bool, Parameter(("--quiet", "-q"))] = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Run what a sentence asks for, or a goal, here without a server. What it asks is asked on the terminal.

    Args:
        text: What you want, in your own words: an agent that fits is chosen. Or a goal by name.
        goal: A goal by name, in place of TEXT: its published, full or short name.
        given: Of a goal: a JSON object, @FILE to read one, or @- for standard input.
        open_mode: Of TEXT: choose a goal, and let the actions of all agents help to reach it.
        prompts: Show what models are asked.
        replies: Show what they reply.
        model: The model to ask where an agent names none.
        planner: What chooses the next action, in place of the agent's.
        quiet: Do not show the steps.

    Examples:
        goalport run "Lynda is a Scorpio, find news for her"
        goalport run "Lynda is a Scorpio, find news for her" -p -r --open
        goalport run greet --input '{"content": "Ada"}'
        goalport run --goal greet --input @person.json --json
        echo '{}' | goalport run --goal report_repository --input @-
    """
    loaded = open_with_agents(workspace, model)
    wanted = _wanted(loaded.platform, text, goal, given, open_mode=open_mode)
    running = GoalRun(loaded.platform, wanted, view_here(prompts=prompts, replies=replies, quiet=quiet), planner)
    try:
        outcome = _finished(loaded, running)
    except NothingChosen as error:
        say(f"error: {error}")
        return UNFIT
    process = running.process
    if isinstance(outcome, Completed) and process is not None:
        show_result(running.wanted.wire(process.goal, outcome.value), structured=structured)
        return 0
    reason = reason_of(outcome, running.wanted.name)
    if isinstance(outcome, Failed) and process is not None and (error := unexpected_error(process)) is not None:
        raise GoalportError(failure_in_words(reason or "", error, loaded.workspace.root)) from error
    say(f"error: {reason}")
    if isinstance(outcome, Waiting) and process is not None:
        say(_NOBODY if kept_workspace() is None else _STAYS.format(process.id))
    return MISUSED if isinstance(outcome, Failed) and outcome.caller_mistake else FAILED


class Start(NamedTuple):
    """What a process is started with."""

    agent: Agent
    goals: Sequence[str]
    inputs: Sequence[object]
    spent: Sequence[Spending] = ()
    """What it has cost to find this out."""


class NamedGoal:
    """A goal by its name, with the JSON of its MCP tool."""

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        self.name = name
        self._given = given
        self._output: object = None

    async def start(self, platform: AgentPlatform, view: View) -> Start:
        """Find the goal, and read its start objects by the first alternative that the JSON fits.

        Raises `UnknownName`, and `BadInput` for JSON that does not fit.
        """
        found = goal_named(platform, self.name)
        self._output = found.goals[0].output
        mistakes: list[str] = []
        for starts in found.starts:
            named = " and ".join(map(type_label, starts)) or "nothing"
            try:
                inputs = PublishedArguments.of(starts).begin(self._given)
                return Start(found.agent, [each.name for each in found.goals], inputs)
            except BadInput as error:
                mistakes.append(f"As {named}: {error}" if found.starts[1:] else str(error))
            except DeclarationError as error:
                raise BadInput(f"{error} Or start the goal from Python.") from error
        raise BadInput("\n".join([*mistakes, *([] if self._given else ["Give them as a JSON object with --input."])]))

    def wire(self, goal: Goal | None, value: object) -> Wire:
        """The result as an MCP client would get it."""
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
        """Choose what to start. Raises `NothingChosen`, and `BadInput` if something is missing to start it."""

        async def ask(message: str, kind: type[object]) -> object:
            if not sys.stdin.isatty():
                what = f"what is needed for a {type_label(kind)}"
                raise BadInput(f"{message} Say in the sentence {what}, or name the goal.")
            question = Question("", "", "run", WaitFor.form_submission(message, kind))

            async def checked(answer: object) -> object:
                return question.validated(answer)

            with view.aside():
                return await _ask(question, checked)

        unsubscribe = platform.subscribe(_OutsideOfProcesses(view))
        try:
            with spending_outside() as spent:
                choose = platform.autonomy.choose_goal if self._open_mode else platform.autonomy.choose_agent
                choice = self._choice = await choose(self._said)
                view.say(choice.why)
                inputs = await start_objects(platform, choice.agent.goals, self._said, platform.ai, ask)
        finally:
            unsubscribe()
        return Start(choice.agent, choice.goals, inputs, spent)

    def wire(self, goal: Goal | None, value: object) -> Wire:
        """The result as an MCP client would get it; `goal` is the one that was reached."""
        assert self._choice is not None
        wire = OutputFormat.of(None if goal is None else goal.output).written(value).wire
        if goal is None:
            return wire
        return {**wire, "structuredContent": Achieved.of(self._choice, goal, value).model_dump(mode="json")}


@dataclass(frozen=True)
class _OutsideOfProcesses:
    """Hands a view the events of models that no process asks, while it is found out what to start."""

    view: View

    def on_event(self, event: Event, /) -> None:
        if not event.process_id:
            self.view.on_event(event)


async def _ask(question: Question, send: Callable[[object], Awaitable[T]]) -> T:
    """Ask a question here until `send` takes its answer. Raises `AlreadyAnswered`, and `Unanswered`."""
    asked = OpenQuestion.of(question)

    async def status() -> str:
        return question.status

    return await answer_of(asked.structured, lambda answer: send(asked.form.read(answer)), status)


def _wanted(
    platform: AgentPlatform, text: str | None, goal: str | None, given: str | None, *, open_mode: bool
) -> NamedGoal | Sentence:
    """What the arguments say. Raises `BadInput` if they say nothing, or two things."""
    if goal is None and text is not None and not open_mode:
        with suppress(UnknownName):
            goal_named(platform, text)
            text, goal = None, text
    if goal is None:
        if text is None:
            raise BadInput(
                'Say what you want, such as `goalport run "Find news for Lynda, who is a Scorpio"`, or name a goal with'
                " --goal; `goalport goals` lists them."
            )
        if given is not None:
            raise BadInput("--input is for --goal. Say in the sentence what is known, or name the goal.")
        if not text.strip():
            raise BadInput("Say what is to be done: the text is empty.")
        return Sentence(UserInput(text), open_mode=open_mode)
    if text is not None or open_mode:
        raise BadInput(f"The goal is named by --goal {goal}, so {'--open' if text is None else 'TEXT'} has no meaning.")
    return NamedGoal(goal, object_of(given or "{}", "--input"))


def _finished(loaded: LoadedWorkspace, running: "GoalRun") -> Outcome:
    """Run to the end. Raises `KeyboardInterrupt` if a person has pressed Ctrl-C in place of an answer."""
    kept, stays = kept_workspace(), True
    with loop_of(loaded) as runner:
        try:
            with running.view.shown():
                return runner.run(running.finish())
        except Interrupted:
            stays = False
            say("Stopped. The process ended with its question open, because it ran here.")
            raise KeyboardInterrupt from None
        except Unanswered:
            if kept is None or running.process is None:
                return Killed("The question was left without an answer.")
            return runner.run(running.process.wait())
        finally:
            runner.run(running.close(unless_waiting=kept is not None and stays))
            if kept is not None:
                kept.last = running.process


class GoalRun:
    """A run of what was wanted."""

    def __init__(
        self, platform: AgentPlatform, wanted: NamedGoal | Sentence, view: View, planner: PlannerType | None
    ) -> None:
        self._platform = platform
        self.wanted = wanted
        self.view = view
        self._options = platform.options.with_(planner=planner, keep_events=kept_workspace() is not None)
        self.process: AgentProcess | None = None
        """What runs, once it has begun."""

    async def finish(self) -> Outcome:
        """Run to the end, with questions answered at the terminal; without one, the questions are printed."""
        platform, view = self._platform, self.view
        agent, goals, inputs, spent = await self.wanted.start(platform, view)
        scope = platform.agents.scope(agent)
        steps = (*scope.actions.values(), *scope.conditions.values())
        services = any(not isinstance(parameter, Input) for each in steps for parameter in each.parameters)
        if services or any(each.roles or asks_a_model(each) for each in scope.actions.values()):
            await platform.upstream.open()  # tool groups are in reach
        process = self.process = platform.start(
            agent, *inputs, goals=goals, options=self._options, caller=OPERATOR, spent=spent
        )
        process.subscribe(view)
        outcome = await self._outcome(process)
        while isinstance(outcome, Waiting) and sys.stdin.isatty():
            question = outcome.questions[0]

            async def send(answer: object, to: str = question.id) -> None:
                await platform.answer(process.id, to, answer)

            try:
                with view.aside():
                    await _ask(question, send)
            except AlreadyAnswered as error:  # its time was over
                say(str(error))
            outcome = await self._outcome(process)
        if isinstance(outcome, Waiting):
            questions = [OpenQuestion.of(each).structured for each in outcome.questions]
            show_json({"status": "waiting", "questions": questions})
        return outcome

    async def _outcome(self, process: AgentProcess) -> Outcome:
        try:
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            # Ctrl-C cancels this task; the process runs in another one, which is ended in `close`.
            process.kill("It was stopped with Ctrl-C.")
            say("Stopped.")
            raise

    async def close(self, *, unless_waiting: bool) -> None:
        """End the process if it still runs or waits."""
        process = self.process
        if process is None or process.over or (unless_waiting and process.status is ProcessStatus.WAITING):
            return
        process.kill("Whoever started it has left it.")
        await process.rest()
