"""`goalport run`: one goal, run here and now: its steps on standard error, its result on standard output.

It takes the same JSON as the goal's MCP tool and refuses it in the same words. Below the program; platform and serve
are below it.
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

from goalport.cli.asking import Unanswered, answer_to
from goalport.cli.chosen import Chosen, chosen
from goalport.cli.folder import WorkspaceFolder
from goalport.cli.given import object_of
from goalport.cli.place import opened_aloud
from goalport.cli.results import show_result
from goalport.cli.terminal import say
from goalport.errors import BadInput, DeclarationError, GoalportError
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
from goalport.publish.arguments import Arguments
from goalport.publish.handle import Handle
from goalport.publish.output import Output
from goalport.secrecy import hide
from goalport.words import type_label

FAILED, MISUSED = 1, 2


def run(
    *,
    goal: Annotated[str, Parameter(name=("--goal", "-g"), help="The goal: its published, full or short name.")],
    given: Annotated[
        str, Parameter(name=("--input", "-i"), help="A JSON object, @FILE to read one, or @- for standard input.")
    ] = "{}",
    structured: Annotated[
        bool, Parameter(name="--json", negative="", help="Print the result as structured data.", show_default=False)
    ] = False,
    quiet: Annotated[
        bool, Parameter(name=("--quiet", "-q"), negative="", help="Do not tell the steps.", show_default=False)
    ] = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Run a goal here, without a server. What it asks is asked on the terminal.

    Exit codes: 0 reached, 1 not reached, 2 the input does not fit, 130 stopped with Ctrl-C.
    """
    place = opened_aloud(workspace)
    if not len(place.platform.agents):
        raise BadInput(place.no_agents)
    found = chosen(place.platform, goal)
    inputs = _read(found, object_of(given, "--input"))
    running = Running(place.platform, found, inputs, () if quiet else (Steps(),))
    with asyncio.Runner() as runner:
        outcome = _to_the_end(runner, running)
    reason = reason_of(outcome, goal)
    if isinstance(outcome, Completed):
        wire, _ = Output.of(found.goals[0].output).wire(outcome.value)
        show_result(wire, structured=structured)
        return 0
    if isinstance(outcome, Failed) and (error := running.error) is not None:
        raise Unreached(reason or "", error, place.workspace.root) from error
    say(f"error: {reason}")
    if isinstance(outcome, Waiting):
        say("Nobody can be asked here. Run it on a terminal, or serve it and answer over MCP.")
    return MISUSED if isinstance(outcome, Failed) and outcome.caller_mistake else FAILED


class Unreached(GoalportError):
    """A goal that an unexpected exception kept from being reached: why, and the last line of the user's own code."""

    def __init__(self, reason: str, error: BaseException, root: Path) -> None:
        told = [reason, _last_line(error, root), "--debug shows the whole traceback."]
        super().__init__("\n  ".join(filter(None, told)))


def _last_line(error: BaseException, root: Path) -> str:
    """Where the workspace's code was when the exception came; empty when it was not in there."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if Path(each.filename).is_relative_to(root)]
    if not own:
        return ""
    last = own[-1]
    return hide(f"{Path(last.filename).relative_to(root)}, line {last.lineno}, in {last.name}: {last.line}")


class Running:
    """A goal that is run here, from one event loop that stands still while a person types."""

    def __init__(
        self, platform: AgentPlatform, found: Chosen, inputs: Sequence[object], watchers: Sequence[EventListener]
    ) -> None:
        self._platform = platform
        self._found = found
        self._inputs = inputs
        self._watchers = watchers
        self._process: AgentProcess | None = None

    async def begin(self) -> Outcome:
        """Start it and wait for its end, or for what it asks."""
        await self._platform.upstream.open()
        goals = [goal.name for goal in self._found.goals]
        self._process = self._platform.start(self._found.agent, *self._inputs, goals=goals)
        for watcher in self._watchers:
            self._process.subscribe(watcher)
        return await self._rest(self._process)

    async def answer(self, question: Question, response: object) -> Outcome:
        """Answer a question and wait again."""
        assert self._process is not None
        self._platform.answer(self._process.id, question.id, response)
        return await self._rest(self._process)

    @property
    def handle(self) -> Handle:
        """What it asks, as a program reads it."""
        assert self._process is not None
        return Handle.of(self._process, self._found.goals[0].name)

    @property
    def error(self) -> BaseException | None:
        """The exception that it failed by, if nobody expected it."""
        failure = self._process and self._process.failure
        return None if failure is None or isinstance(failure.error, GoalportError) else failure.error

    async def close(self) -> None:
        """End what still runs or waits."""
        await self._platform.aclose()

    async def _rest(self, process: AgentProcess) -> Outcome:
        try:
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            # Ctrl-C cancels this task; the process is in another, which is ended on the way out.
            process.kill("It was stopped with Ctrl-C.")
            say("Stopped.")
            raise


def _to_the_end(runner: asyncio.Runner, running: Running) -> Outcome:
    """How it ends, with what whoever is at the terminal answers; without a terminal it is left waiting."""
    try:
        outcome = runner.run(running.begin())
        while isinstance(outcome, Waiting) and sys.stdin.isatty():
            question = outcome.questions[0]
            outcome = runner.run(running.answer(question, answer_to(question)))
        if isinstance(outcome, Waiting):
            print(json.dumps(running.handle.structured, indent=2, ensure_ascii=False))
        return outcome
    except Unanswered:
        return Killed("The question was left without an answer.")
    finally:
        runner.run(running.close())


class Steps:
    """Tells on standard error what a process does."""

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


def _read(found: Chosen, given: Mapping[str, Any]) -> Sequence[object]:
    """The objects that the process begins with: of the first alternative that the JSON fits."""
    refused: list[str] = []
    for starts in found.starts:
        named = " and ".join(map(type_label, starts)) or "nothing"
        try:
            return Arguments.of(starts).begin(given)
        except BadInput as error:
            refused.append(f"As {named}: {error}")
        except DeclarationError as error:
            raise BadInput(f"{error} Or start the goal from Python.") from error
    raise BadInput("\n".join(refused) if refused[1:] else refused[0].partition(": ")[2])
