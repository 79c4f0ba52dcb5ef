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
from typing import Annotated, Any, cast

import anyio
from cyclopts import Parameter

from goalport.cli.goals import GoalChoice, find_goal
from goalport.cli.options import WorkspaceFolder, object_of
from goalport.cli.terminal import say, show_result
from goalport.cli.workspace import open_with_warnings
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
from goalport.publish.arguments import PublishedArguments
from goalport.publish.forms import form_of
from goalport.publish.handle import Handle
from goalport.publish.output import OutputFormat
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
        bool, Parameter(name=("--quiet", "-q"), negative="", help="Do not print the steps.", show_default=False)
    ] = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Run a goal here, without a server. What it asks is asked on the terminal.

    Exit codes: 0 reached, 1 not reached, 2 the input does not fit, 130 stopped with Ctrl-C.
    """
    loaded = open_with_warnings(workspace)
    if not len(loaded.platform.agents):
        raise BadInput(loaded.no_agents)
    found = find_goal(loaded.platform, goal)
    inputs = _read(found, object_of(given, "--input"))
    running = Running(loaded.platform, found, inputs, () if quiet else (Steps(),))
    with asyncio.Runner() as runner:
        outcome = _to_the_end(runner, running)
    reason = reason_of(outcome, goal)
    if isinstance(outcome, Completed):
        wire, _ = OutputFormat.of(found.goals[0].output).wire(outcome.value)
        show_result(wire, structured=structured)
        return 0
    if isinstance(outcome, Failed) and (error := running.error) is not None:
        raise Unreached(reason or "", error, loaded.workspace.root) from error
    say(f"error: {reason}")
    if isinstance(outcome, Waiting):
        say("Nobody can be asked here. Run it on a terminal, or serve it and answer over MCP.")
    return MISUSED if isinstance(outcome, Failed) and outcome.caller_mistake else FAILED


class Unreached(GoalportError):
    """An unexpected exception kept a goal from being reached: the reason, and the last line of the user's own code."""

    def __init__(self, reason: str, error: BaseException, root: Path) -> None:
        told = [reason, _last_line(error, root), "--debug shows the whole traceback."]
        super().__init__("\n  ".join(filter(None, told)))


def _last_line(error: BaseException, root: Path) -> str:
    """The innermost line of the workspace's code in a traceback; empty when there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if Path(each.filename).is_relative_to(root)]
    if not own:
        return ""
    last = own[-1]
    return hide(f"{Path(last.filename).relative_to(root)}, line {last.lineno}, in {last.name}: {last.line}")


class Running:
    """A run of a goal. Its event loop stands still while a person types."""

    def __init__(
        self, platform: AgentPlatform, found: GoalChoice, inputs: Sequence[object], watchers: Sequence[EventListener]
    ) -> None:
        self._platform = platform
        self._found = found
        self._inputs = inputs
        self._watchers = watchers
        self._process: AgentProcess | None = None

    async def begin(self) -> Outcome:
        """Start the process; return when it has ended or asks a question."""
        await self._platform.upstream.open()
        goals = [goal.name for goal in self._found.goals]
        self._process = self._platform.start(self._found.agent, *self._inputs, goals=goals)
        for watcher in self._watchers:
            self._process.subscribe(watcher)
        return await self._rest(self._process)

    async def answer(self, question: Question, response: object) -> Outcome:
        """Answer a question; return when the process has ended or asks the next one."""
        assert self._process is not None
        self._platform.answer(self._process.id, question.id, response)
        return await self._rest(self._process)

    @property
    def handle(self) -> Handle:
        """The open questions as structured data."""
        assert self._process is not None
        return Handle.of(self._process, self._found.goals[0].name)

    @property
    def error(self) -> BaseException | None:
        """The exception that the process failed by, if it was unexpected."""
        failure = self._process and self._process.failure
        return None if failure is None or isinstance(failure.error, GoalportError) else failure.error

    async def close(self) -> None:
        """End the process if it still runs or waits."""
        await self._platform.aclose()

    async def _rest(self, process: AgentProcess) -> Outcome:
        try:
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            # Ctrl-C cancels this task; the process runs in another one, which is ended in `close`.
            process.kill("It was stopped with Ctrl-C.")
            say("Stopped.")
            raise


def _to_the_end(runner: asyncio.Runner, running: Running) -> Outcome:
    """Run to the end, with questions answered at the terminal; without a terminal, the process is left waiting."""
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
    refused: list[str] = []
    for starts in found.starts:
        named = " and ".join(map(type_label, starts)) or "nothing"
        try:
            return PublishedArguments.of(starts).begin(given)
        except BadInput as error:
            refused.append(f"As {named}: {error}")
        except DeclarationError as error:
            raise BadInput(f"{error} Or start the goal from Python.") from error
    raise BadInput("\n".join(refused) if refused[1:] else refused[0].partition(": ")[2])


class Unanswered(Exception):
    """The person has closed the input (Ctrl-D) instead of answering."""


def answer_to(question: Question) -> object:
    """The person's answer, asked again until it is valid. Raises `Unanswered`."""
    form = form_of(question)
    say(f"\n{question.message}")
    while True:
        try:
            return form.read(_typed(form.schema))
        except BadInput as error:
            say(str(error))


def _typed(schema: Mapping[str, Any]) -> object:
    match schema.get("type"):
        case "boolean":
            return _yes_or_no()
        case "object":
            return _fields(schema)
        case _:
            return _field("answer", schema)


def _yes_or_no() -> bool:
    while True:
        typed = _line("y or n: ").lower()
        if typed in {"y", "yes"}:
            return True
        if typed in {"n", "no"}:
            return False


def _fields(schema: Mapping[str, Any]) -> dict[str, object]:
    """Ask for each field of a form; fields that are left empty are omitted."""
    found: dict[str, object] = {}
    for name, field in schema.get("properties", {}).items():
        if (typed := _field(name, field)) is not None:
            found[name] = typed
    return found


def _field(name: str, field: Mapping[str, Any]) -> object | None:
    """Ask for one field of a form; None when it is left empty."""
    choices = _choices(field)
    for number, choice in enumerate(choices, start=1):
        say(f"  {number}. {choice}")
    typed = _line(f"{_label(name, field)}: ")
    return _value(typed, field, choices) if typed else None


def _label(name: str, field: Mapping[str, Any]) -> str:
    described = f"{name} ({field['description']})" if "description" in field else name
    default = field.get("default")
    return described if default is None else f"{described} [{default}]"


def _choices(field: Mapping[str, Any]) -> Sequence[object]:
    if field.get("type") == "boolean":
        return ()
    return cast("Sequence[object]", field.get("enum", ()))


def _value(typed: str, field: Mapping[str, Any], choices: Sequence[object]) -> object:
    """The typed text as JSON, if the field takes no text; invalid text is returned as it is, to be refused later."""
    if typed.isdecimal() and 0 < int(typed) <= len(choices):
        return choices[int(typed) - 1]
    if field.get("type") == "boolean" and typed.lower() in {"y", "yes", "n", "no"}:
        return typed.lower().startswith("y")
    if field.get("type") == "string" or choices:
        return typed
    try:
        return json.loads(typed)
    except ValueError:
        return typed


def _line(prompt: str) -> str:
    """Read one line. The prompt goes to standard error, so that standard output contains only the result."""
    print(prompt, end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline()
    if not typed:
        raise Unanswered
    return typed.strip()
