"""`goalport run`: runs here what a sentence asks for, or a goal; the steps go to standard error, the result to output.

`wanted` says what that is, `views` show how it goes. Questions are asked on the terminal. Below the program; platform
and publish are below it.
"""

import sys
from pathlib import Path
from typing import Annotated, Final

import anyio
from cyclopts import Parameter

from goalport.agents.domain import Input, PlannerType, UserInput
from goalport.base.caller import OPERATOR
from goalport.base.errors import AlreadyAnswered, BadInput, GoalportError, NothingChosen
from goalport.cli.options import StructuredResult, WorkspaceFolder, object_of
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.questions import answer_of
from goalport.cli.terminal import say, show_json, show_result
from goalport.cli.views import View, view_here
from goalport.cli.wanted import NamedGoal, Sentence, Wanted
from goalport.cli.workspace import (
    LoadedWorkspace,
    failure_in_words,
    kept_workspace,
    loop_of,
    names_goal,
    open_with_agents,
    unexpected_error,
)
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    Failed,
    Killed,
    Outcome,
    ProcessStatus,
    Question,
    Scope,
    Waiting,
    asks_a_model,
)
from goalport.server.publish.answers import reason_of
from goalport.server.publish.handle import OpenQuestion
from goalport.server.publish.output import Wire

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

    Parameters
    ----------
    text
        What you want, in your own words: an agent that fits is chosen. Or a goal by name.
    goal
        A goal by name, in place of TEXT: its published, full or short name.
    given
        Of a goal: a JSON object, @FILE to read one, or @- for standard input.
    open_mode
        Of TEXT: choose a goal, and let the actions of all agents help to reach it.
    prompts
        Show what models are asked.
    replies
        Show what they reply.
    model
        The model to ask where an agent names none.
    planner
        What chooses the next action, in place of the agent's.
    quiet
        Do not show the steps.

    Examples:
        goalport run "Lynda is a Scorpio, find news for her"
        goalport run "Lynda is a Scorpio, find news for her" -p -r --open
        goalport run greet --input '{"content": "Ada"}'
        goalport run --goal greet --input @person.json --json
        echo '{}' | goalport run --goal report_repository --input @-
    """
    loaded = open_with_agents(workspace, model)
    if goal is None and text is not None and not open_mode and names_goal(loaded.platform, text):
        text, goal = None, text
    wanted = _wanted(text, goal, given, open_mode=open_mode)
    try:
        running, outcome = _finished(loaded, wanted, view_here(prompts=prompts, replies=replies, quiet=quiet), planner)
    except NothingChosen as error:
        say(f"error: {error}")
        return UNFIT
    if isinstance(outcome, Completed):
        show_result(running.wire(outcome.value), structured=structured)
        return 0
    return _unreached(running, outcome, loaded.workspace.root)


def _unreached(running: "GoalRun", outcome: Outcome, root: Path) -> int:
    """Say why a goal was not reached; the exit code."""
    reason = reason_of(outcome, running.name)
    if isinstance(outcome, Failed) and (error := running.error) is not None:
        raise GoalportError(failure_in_words(reason or "", error, root)) from error
    say(f"error: {reason}")
    if isinstance(outcome, Waiting):
        say(_NOBODY if kept_workspace() is None else _STAYS.format(running.process_id))
    return MISUSED if isinstance(outcome, Failed) and outcome.caller_mistake else FAILED


def _finished(
    loaded: LoadedWorkspace, wanted: Wanted, view: View, planner: PlannerType | None
) -> tuple["GoalRun", Outcome]:
    """Run to the end. Raises `KeyboardInterrupt` if a person has pressed Ctrl-C in place of an answer."""
    kept, stays = kept_workspace(), True
    with loop_of(loaded) as runner:
        running = GoalRun(loaded.platform, wanted, view, planner)
        try:
            with view.shown():
                return running, runner.run(running.finish())
        except Interrupted:
            stays = False
            say("Stopped. The process ended with its question open, because it ran here.")
            raise KeyboardInterrupt from None
        except Unanswered:
            if kept is None or running.process is None:
                return running, Killed("The question was left without an answer.")
            return running, runner.run(running.process.wait())
        finally:
            runner.run(running.close(unless_waiting=kept is not None and stays))
            if kept is not None:
                kept.last = running.process


def _wanted(text: str | None, goal: str | None, given: str | None, *, open_mode: bool) -> Wanted:
    """What the arguments say. Raises `BadInput` if they say nothing, or two things."""
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


def _may_use_tools(scope: Scope) -> bool:
    """Whether tool groups are in reach of an agent: an action names one, or something is given more than objects."""
    steps = (*scope.actions.values(), *scope.conditions.values())
    services = any(not isinstance(parameter, Input) for each in steps for parameter in each.parameters)
    return services or any(each.roles or asks_a_model(each) for each in scope.actions.values())


class GoalRun:
    """A run of what was wanted."""

    def __init__(self, platform: AgentPlatform, wanted: Wanted, view: View, planner: PlannerType | None) -> None:
        self._platform = platform
        self._wanted = wanted
        self._view = view
        self._options = platform.options.with_(planner=planner, keep_events=kept_workspace() is not None)
        self.process: AgentProcess | None = None
        """What runs, once it has begun."""

    @property
    def name(self) -> str:
        """What runs: a goal, or an agent while its goal is not known."""
        return self._wanted.name

    @property
    def process_id(self) -> str:
        """The id of what runs; empty before it has begun."""
        return "" if self.process is None else self.process.id

    async def begin(self) -> Outcome:
        """Start the process; return when it has ended or asks a question."""
        start = await self._wanted.start(self._platform, self._view)
        if _may_use_tools(self._platform.agents.scope(start.agent)):
            await self._platform.upstream.open()
        process = self._platform.start(
            start.agent,
            *start.inputs,
            goals=start.goals,
            options=self._options,
            caller=OPERATOR,
            spent=start.spent,
        )
        self.process = process
        process.subscribe(self._view)
        return await self._outcome(process)

    async def finish(self) -> Outcome:
        """Run to the end, with questions answered at the terminal; without one, the questions are printed."""
        outcome = await self.begin()
        while isinstance(outcome, Waiting) and sys.stdin.isatty():
            outcome = await self._answered(outcome.questions[0])
        if isinstance(outcome, Waiting):
            questions = [OpenQuestion.of(each).structured for each in outcome.questions]
            show_json({"status": "waiting", "questions": questions})
        return outcome

    def wire(self, value: object) -> Wire:
        """The result as an MCP client would get it."""
        assert self.process is not None
        return self._wanted.wire(self.process.goal, value)

    async def _answered(self, question: Question) -> Outcome:
        """Ask a question here; return when the process has ended or asks the next one."""
        assert self.process is not None
        process, asked = self.process, OpenQuestion.of(question)

        async def send(answer: object) -> None:
            await self._platform.answer(process.id, question.id, asked.form.read(answer))

        async def status() -> str:
            return question.status

        try:
            with self._view.aside():
                await answer_of(asked.structured, send, status)
        except AlreadyAnswered as error:  # its time was over
            say(str(error))
        return await self._outcome(process)

    @property
    def error(self) -> BaseException | None:
        """The exception that the process failed by, if it was unexpected."""
        return self.process and unexpected_error(self.process)

    async def close(self, *, unless_waiting: bool) -> None:
        """End the process if it still runs or waits."""
        waits = self.process is not None and self.process.status is ProcessStatus.WAITING
        if self.process is not None and not self.process.over and not (waits and unless_waiting):
            self.process.kill("Whoever started it has left it.")
            await self.process.rest()

    async def _outcome(self, process: AgentProcess) -> Outcome:
        try:
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            # Ctrl-C cancels this task; the process runs in another one, which is ended in `close`.
            process.kill("It was stopped with Ctrl-C.")
            say("Stopped.")
            raise
