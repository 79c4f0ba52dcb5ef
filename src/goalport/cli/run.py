"""`goalport run`: runs what a sentence asks for, or a goal. Steps go to stderr, the result goes to stdout."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import anyio
from cyclopts import Parameter

from goalport.agents.domain import Agent, Goal, Input, PlannerType, UserInput, WaitFor
from goalport.base.caller import OPERATOR
from goalport.base.errors import AlreadyAnswered, BadInput, DeclarationError, GoalportError, NothingChosen, UnknownName
from goalport.base.events import Event
from goalport.base.words import type_label
from goalport.cli.options import FAILED, MISUSED, UNFIT, StructuredResult, WorkspaceFolder, object_of
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.questions import ask_question
from goalport.cli.terminal import say, show_json, show_result
from goalport.cli.views import RunView, view_here
from goalport.cli.workspace import SHELL_WORKSPACE, LoadedWorkspace, failure_of, goal_named, loop_of, open_with_warnings
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
from goalport.server.publish.forms import form_of
from goalport.server.publish.handle import open_question
from goalport.server.publish.output import OutputFormat, Wire
from goalport.server.publish.published_arguments import PublishedArguments

T = TypeVar("T")
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
    loaded = open_with_warnings(workspace, model, needs_agents=True)
    view = view_here(prompts=prompts, replies=replies, quiet=quiet)
    running = _requested_run(loaded.platform, view, text, goal, given, open_mode=open_mode)
    try:
        outcome = _run_to_end(loaded, running, planner)
    except NothingChosen as error:
        say(f"error: {error}")
        return UNFIT
    process = running.process
    if isinstance(outcome, Completed) and process is not None:
        show_result(running.wire(process.goal, outcome.value), structured=structured)
        return 0
    reason = reason_of(outcome, running.name)
    if isinstance(outcome, Failed) and process is not None:
        reason, error = failure_of(process, reason or "", loaded.workspace.root)
        if error is not None:
            raise GoalportError(reason) from error
    say(f"error: {reason}")
    if isinstance(outcome, Waiting) and process is not None:
        say(_NOBODY if SHELL_WORKSPACE.get() is None else _STAYS.format(process.id))
    return MISUSED if isinstance(outcome, Failed) and outcome.caller_mistake else FAILED


def _run_to_end(loaded: LoadedWorkspace, running: "GoalRun", planner: PlannerType | None) -> Outcome:
    """Run a process to its end. If it still runs when this is left, it is killed; in a shell, a waiting one stays."""
    shell, stays = SHELL_WORKSPACE.get(), True
    with loop_of(loaded) as runner:
        try:
            with running.view.shown():
                return runner.run(running.finish(planner))
        except Interrupted:
            stays = False
            say("Stopped. The process ended with its question open, because it ran here.")
            raise KeyboardInterrupt from None
        except Unanswered:
            if shell is None or running.process is None:
                return Killed("The question was left without an answer.")
            return runner.run(running.process.wait())
        finally:
            runner.run(running.close(unless_waiting=shell is not None and stays))
            if shell is not None:
                shell.last = running.process


def _requested_run(
    platform: AgentPlatform, view: RunView, text: str | None, goal: str | None, given: str | None, *, open_mode: bool
) -> "GoalRun":
    """The run that the arguments of the command ask for. Raises `BadInput` if they are missing or contradict."""
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
        return SentenceRun(platform, view, UserInput(text), open_mode=open_mode)
    if text is not None or open_mode:
        raise BadInput(f"The goal is named by --goal {goal}, so {'--open' if text is None else 'TEXT'} has no meaning.")
    return GoalRun(platform, view, goal, object_of(given or "{}", "--input"))


class Start(NamedTuple):
    """What a process is started with."""

    agent: Agent
    goals: Sequence[str]
    inputs: Sequence[object]
    spent: Sequence[Spending] = ()
    """What was spent on models to choose the agent and to make the inputs."""


class GoalRun:
    """A run of a named goal, with the JSON arguments of its MCP tool."""

    def __init__(self, platform: AgentPlatform, view: RunView, name: str, given: Mapping[str, Any]) -> None:
        self.platform, self.view, self.name = platform, view, name
        self.process: AgentProcess | None = None
        """The process, once it has been started."""
        self._given = given
        self._output: object = None

    async def start(self) -> Start:
        """Find the goal, and read its start objects from the JSON, by the first set of start types that it fits.

        Raises `UnknownName`, and `BadInput` for JSON that fits none.
        """
        found = goal_named(self.platform, self.name)
        self._output = found.goals[0].output
        mistakes: list[str] = []
        for starts in found.starts:
            named = " and ".join(map(type_label, starts)) or "nothing"
            try:
                inputs = PublishedArguments.of(starts).start_objects(self._given)
                return Start(found.agent, [each.name for each in found.goals], inputs)
            except BadInput as error:
                mistakes.append(f"As {named}: {error}" if found.starts[1:] else str(error))
            except DeclarationError as error:
                raise BadInput(f"{error} Or start the goal from Python.") from error
        raise BadInput("\n".join([*mistakes, *([] if self._given else ["Give them as a JSON object with --input."])]))

    def wire(self, goal: Goal | None, value: object) -> Wire:
        """The result as an MCP client would get it; `goal` is the goal that was reached."""
        return OutputFormat.of(self._output).written(value).wire

    async def finish(self, planner: PlannerType | None) -> Outcome:
        """Run to the end, and ask questions on the terminal; without a terminal, print them and return `Waiting`."""
        platform = self.platform
        agent, goals, inputs, spent = await self.start()
        scope = platform.agents.scope(agent)
        steps = (*scope.actions.values(), *scope.conditions.values())
        services = any(not isinstance(parameter, Input) for each in steps for parameter in each.parameters)
        if services or any(each.roles or asks_a_model(each) for each in scope.actions.values()):
            await platform.upstream.open()  # steps may use tool groups
        options = platform.options.with_(planner=planner, keep_events=SHELL_WORKSPACE.get() is not None)
        process = platform.start(agent, *inputs, goals=goals, options=options, caller=OPERATOR, spent=spent)
        self.process = process
        process.subscribe(self.view)
        while True:
            try:
                outcome = await process.wait()
            except anyio.get_cancelled_exc_class():
                # Ctrl-C cancels this task; the process runs in another one, which is ended in `close`.
                process.kill("It was stopped with Ctrl-C.")
                say("Stopped.")
                raise
            if not isinstance(outcome, Waiting):
                return outcome
            if not sys.stdin.isatty():
                questions = [open_question(each) for each in outcome.questions]
                show_json({"status": "waiting", "questions": questions})
                return outcome
            question = outcome.questions[0]
            try:
                await self.ask(question, partial(platform.answer, process.id, question.id))
            except AlreadyAnswered as error:  # its time was over
                say(str(error))

    async def ask(self, question: Question, send: Callable[[object], Awaitable[T]]) -> T:
        """Ask a question on the terminal until `send` accepts the answer. Raises `AlreadyAnswered` and `Unanswered`."""
        form = form_of(question)

        async def status() -> str:
            return question.status

        with self.view.aside():
            return await ask_question(open_question(question, form), lambda answer: send(form.read(answer)), status)

    async def close(self, *, unless_waiting: bool) -> None:
        """End the process if it still runs or waits."""
        process = self.process
        if process is None or process.over or (unless_waiting and process.status is ProcessStatus.WAITING):
            return
        process.kill("Whoever started it has left it.")
        await process.rest()


class SentenceRun(GoalRun):
    """A run of a sentence: a model chooses the agent, or in open mode the goal. The result says why."""

    def __init__(self, platform: AgentPlatform, view: RunView, said: UserInput, *, open_mode: bool) -> None:
        super().__init__(platform, view, "The request", {})
        self._said, self._open_mode = said, open_mode
        self._choice: Choice | None = None

    async def start(self) -> Start:
        """Choose what to start. Raises `NothingChosen`, and `BadInput` if something is missing to start it."""
        autonomy = self.platform.autonomy
        unsubscribe = self.platform.subscribe(self)
        try:
            with spending_outside() as spent:
                choose = autonomy.choose_goal if self._open_mode else autonomy.choose_agent
                choice = self._choice = await choose(self._said)
                self.name = choice.name
                self.view.say(choice.why)
                goals, ai = choice.agent.goals, self.platform.ai
                inputs = await start_objects(self.platform, goals, self._said, ai, self._ask_for)
        finally:
            unsubscribe()
        return Start(choice.agent, choice.goals, inputs, spent)

    async def _ask_for(self, message: str, kind: type[object]) -> object:
        if not sys.stdin.isatty():
            what = f"what is needed for a {type_label(kind)}"
            raise BadInput(f"{message} Say in the sentence {what}, or name the goal.")
        question = Question("", "", "run", WaitFor.form_submission(message, kind))

        async def checked(answer: object) -> object:
            return question.validated(answer)

        return await self.ask(question, checked)

    def on_event(self, event: Event, /) -> None:
        """Show model requests outside of processes, which choose what to start."""
        if not event.process_id:
            self.view.on_event(event)

    def wire(self, goal: Goal | None, value: object) -> Wire:
        assert self._choice is not None
        wire = OutputFormat.of(None if goal is None else goal.output).written(value).wire
        if goal is None:
            return wire
        return {**wire, "structuredContent": Achieved.of(self._choice, goal, value).model_dump(mode="json")}
