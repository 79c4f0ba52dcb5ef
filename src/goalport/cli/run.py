"""`goalport run`: runs one goal here; its steps go to standard error, its result to standard output.

The input is the same JSON as for the goal's MCP tool, with the same error messages. Questions are asked on the
terminal. Below the program; platform and publish are below it.
"""

import asyncio
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
from cyclopts import Parameter

from goalport.cli.options import StructuredResult, WorkspaceFolder, object_of
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.questions import answer_of
from goalport.cli.terminal import say, show_result
from goalport.cli.workspace import GoalChoice, open_goal
from goalport.errors import AlreadyAnswered, BadInput, DeclarationError, GoalportError
from goalport.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    Event,
    EventListener,
    ModelCalled,
    ProgressUpdated,
    ToolCalled,
)
from goalport.platform import AgentPlatform
from goalport.process import AgentProcess, Completed, Failed, Killed, Outcome, Question, Waiting
from goalport.publish.answers import reason_of
from goalport.publish.handle import OpenQuestion
from goalport.publish.output import OutputFormat
from goalport.publish.published_arguments import PublishedArguments
from goalport.secrecy import hide
from goalport.words import type_label

FAILED, MISUSED = 1, 2


def run(
    *,
    goal: Annotated[str, Parameter(name=("--goal", "-g"), help="The goal: its published, full or short name.")],
    given: Annotated[
        str, Parameter(name=("--input", "-i"), help="A JSON object, @FILE to read one, or @- for standard input.")
    ] = "{}",
    structured: StructuredResult = False,
    quiet: Annotated[
        bool, Parameter(name=("--quiet", "-q"), negative="", help="Do not print the steps.", show_default=False)
    ] = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Run a goal here, without a server. What it asks is asked on the terminal.

    Exit codes: 0 reached, 1 not reached, 2 the input does not fit, 130 stopped with Ctrl-C.
    """
    loaded, found = open_goal(workspace, goal)
    inputs = _read(found, object_of(given, "--input"))
    running = GoalRun(loaded.platform, found, inputs, () if quiet else (StepPrinter(),))
    outcome = _finished(running)
    reason = reason_of(outcome, goal)
    if isinstance(outcome, Completed):
        wire, _ = OutputFormat.of(found.goals[0].output).wire(outcome.value)
        show_result(wire, structured=structured)
        return 0
    if isinstance(outcome, Failed) and (error := running.error) is not None:
        raise Unreached(reason or "", error, loaded.workspace.root) from error
    say(f"error: {reason}")
    if isinstance(outcome, Waiting):
        say(
            "Nobody can be asked here, so the process was ended with its questions open. Run the command on a terminal,"
            " which asks them; or start `goalport serve` and answer in an MCP client."
        )
    return MISUSED if isinstance(outcome, Failed) and outcome.caller_mistake else FAILED


def _finished(running: "GoalRun") -> Outcome:
    """Run a goal to the end. Raises `KeyboardInterrupt` if a person has pressed Ctrl-C in place of an answer."""
    with asyncio.Runner() as runner:
        try:
            return runner.run(running.finish())
        except Interrupted:
            say("Stopped. The process ended with its question open, because it ran here.")
            raise KeyboardInterrupt from None
        except Unanswered:
            return Killed("The question was left without an answer.")
        finally:
            runner.run(running.close())


class Unreached(GoalportError):
    """An unexpected exception kept a goal from being reached: the reason, and the last line of the user's own code."""

    def __init__(self, reason: str, error: BaseException, root: Path) -> None:
        lines = [reason, _last_line(error, root), "--debug shows the whole traceback."]
        super().__init__("\n  ".join(filter(None, lines)))


def _last_line(error: BaseException, root: Path) -> str:
    """The innermost line of the workspace's code in a traceback; empty when there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if Path(each.filename).is_relative_to(root)]
    if not own:
        return ""
    last = own[-1]
    return hide(f"{Path(last.filename).relative_to(root)}, line {last.lineno}, in {last.name}: {last.line}")


class GoalRun:
    """A run of a goal."""

    def __init__(
        self, platform: AgentPlatform, found: GoalChoice, inputs: Sequence[object], listeners: Sequence[EventListener]
    ) -> None:
        self._platform = platform
        self._found = found
        self._inputs = inputs
        self._listeners = listeners
        self._process: AgentProcess | None = None

    async def begin(self) -> Outcome:
        """Start the process; return when it has ended or asks a question."""
        await self._platform.upstream.open()
        goals = [goal.name for goal in self._found.goals]
        self._process = self._platform.start(self._found.agent, *self._inputs, goals=goals)
        for listener in self._listeners:
            self._process.subscribe(listener)
        return await self._outcome(self._process)

    async def finish(self) -> Outcome:
        """Run to the end, with questions answered at the terminal; without one, the questions are printed."""
        outcome = await self.begin()
        while isinstance(outcome, Waiting) and sys.stdin.isatty():
            outcome = await self._answered(outcome.questions[0])
        if isinstance(outcome, Waiting):
            questions = [OpenQuestion.of(each).structured for each in outcome.questions]
            print(json.dumps({"status": "waiting", "questions": questions}, indent=2, ensure_ascii=False))
        return outcome

    async def _answered(self, question: Question) -> Outcome:
        """Ask a question here; return when the process has ended or asks the next one."""
        assert self._process is not None
        process, asked = self._process, OpenQuestion.of(question)

        async def send(answer: object) -> None:
            await self._platform.answer(process.id, question.id, asked.form.read(answer))

        async def status() -> str:
            return question.status

        try:
            await answer_of(asked.structured, send, status)
        except AlreadyAnswered as error:  # its time was over
            say(str(error))
        return await self._outcome(process)

    @property
    def error(self) -> BaseException | None:
        """The exception that the process failed by, if it was unexpected."""
        failure = self._process and self._process.failure
        return None if failure is None or isinstance(failure.error, GoalportError) else failure.error

    async def close(self) -> None:
        """End the process if it still runs or waits."""
        await self._platform.aclose()

    async def _outcome(self, process: AgentProcess) -> Outcome:
        try:
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            # Ctrl-C cancels this task; the process runs in another one, which is ended in `close`.
            process.kill("It was stopped with Ctrl-C.")
            say("Stopped.")
            raise


class StepPrinter:
    """Prints the steps of a process to standard error."""

    def on_event(self, event: Event) -> None:
        match event:
            case ActionStarted(action=action, number=number, planned=planned):
                say(f"{number}/{planned} {action}")
            case ActionFinished(status="failed", error=error):
                say(f"    failed: {error}")
            case ActionFinished(status="declined"):
                say("    gave nothing; planning again")
            case ActionRetried(delay_seconds=delay, error=error):
                say(f"    again in {delay:g} s: {error}")
            case ModelCalled(model=model, turn=1):
                say(f"    asks {model}")
            case ToolCalled(tool=tool):
                say(f"    calls {tool}")
            case ProgressUpdated(message=message):
                say(f"    {message}")
            case _:
                pass


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
    raise BadInput("\n".join(mistakes) if mistakes[1:] else mistakes[0].partition(": ")[2])
