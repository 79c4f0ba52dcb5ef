"""`goalport run`: one goal, run here and now: its steps on standard error, its result on standard output.

It takes the same JSON as the goal's MCP tool and refuses it in the same words. Below the program; platform and serve are
below it.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
from cyclopts import Parameter

from goalport.cli.folder import WorkspaceFolder
from goalport.cli.place import opened
from goalport.cli.terminal import say, show_markdown
from goalport.domain import Agent, Goal
from goalport.errors import BadInput
from goalport.events import ActionFinished, ActionRetried, ActionStarted, Event, ProgressUpdated
from goalport.platform import AgentPlatform
from goalport.process import Completed, Failed, Outcome
from goalport.serve.arguments import Arguments
from goalport.serve.outcomes import reason_of
from goalport.serve.output import Output

FAILED, MISUSED = 1, 2


def run(
    *,
    goal: Annotated[str, Parameter(name=("--goal", "-g"), help="The goal: its published, full or short name.")],
    input_: Annotated[
        str, Parameter(name=("--input", "-i"), help="A JSON object, @FILE to read one, or @- for standard input.")
    ] = "{}",
    json_: Annotated[bool, Parameter(name="--json", negative="", help="Print the result as structured data.")] = False,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"), negative="", help="Do not show the steps.")] = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Run a goal here, without a server. Exit codes: 0 reached, 1 not reached, 2 the input does not fit, 130 stopped."""
    place = opened(workspace)
    for problem in place.problems:
        say(f"warning: {problem}")
    agent, found = place.platform.goal(goal)
    inputs = _read(place.platform, found, _object(input_))
    outcome = anyio.run(_run, place.platform, agent, found, inputs, quiet)
    reason = reason_of(outcome, goal)
    if isinstance(outcome, Completed):
        _print(Output.of(found.output).wire(outcome.value), structured=json_)
        return 0
    say(f"error: {reason}")
    return MISUSED if isinstance(outcome, Failed) and outcome.caller_mistake else FAILED


async def _run(platform: AgentPlatform, agent: Agent, goal: Goal, inputs: Sequence[object], quiet: bool) -> Outcome:
    async with platform:
        process = platform.start(agent.name, *inputs, goals=[goal.name])
        if not quiet:
            process.subscribe(Steps())
        try:
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            # Ctrl-C cancels this task; the process is in one of its own, which the platform ends on the way out.
            process.kill("It was stopped with Ctrl-C.")
            say("Stopped.")
            raise


class Steps:
    """Shows on standard error what a process does."""

    def on_event(self, event: Event) -> None:
        match event:
            case ActionStarted(action=action, number=number, planned=planned):
                say(f"{number}/{planned} {action}")
            case ActionFinished(status="failed", error=error):
                say(f"    failed: {error}")
            case ActionFinished(status="declined", action=action):
                say(f"    {action} gave nothing; planning again")
            case ActionRetried(delay_seconds=delay, error=error):
                say(f"    again in {delay:g} s: {error}")
            case ProgressUpdated(message=message):
                say(f"    {message}")
            case _:
                pass


def _object(text: str) -> Mapping[str, Any]:
    written = _text(text)
    try:
        value: object = json.loads(written)
    except ValueError as error:
        raise BadInput(f"--input was expected to be JSON, not {_shown(written)} ({error}). {_EXAMPLE}") from error
    if not isinstance(value, dict):
        raise BadInput(f"--input was expected to be a JSON object, not {_shown(written)}. {_EXAMPLE}")
    return cast("dict[str, Any]", value)


_EXAMPLE = """Write it like '{"content": "…"}', or put it into a file and give @FILE."""


def _text(given: str) -> str:
    if given == "@-":
        return sys.stdin.read()
    if not given.startswith("@"):
        return given
    path = Path(given[1:]).expanduser()
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise BadInput(f"There is no file {path} to read the input from; after @ comes a path.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"The input cannot be read from {path}: {error}.") from error


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= 60 else f"{line[:60]}…")


def _read(platform: AgentPlatform, goal: Goal, given: Mapping[str, Any]) -> Sequence[object]:
    """The objects that the process begins with: of the first of the goal's inputs that the JSON fits."""
    refused: list[str] = []
    for types in _starts(platform, goal):
        try:
            return Arguments.of(types).read(given)
        except BadInput as error:
            refused.append(str(error))
    raise BadInput("\n".join(refused))


def _starts(platform: AgentPlatform, goal: Goal) -> Sequence[tuple[type, ...]]:
    """Declared start types are alternatives; derived ones are needed together."""
    types = platform.starting_types(goal)
    return [(each,) for each in types] if goal.export.starting_input_types else [types]


def _print(result: Mapping[str, Any], *, structured: bool) -> None:
    if structured:
        data = result.get("structuredContent", {"content": result["content"]})
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    for block in result["content"]:
        show_markdown(_told(block))


def _told(block: Mapping[str, Any]) -> str:
    if block["type"] != "text":
        return f"({block['type']} {block.get('mimeType', '')}; --json prints it whole)"
    try:
        value: object = json.loads(block["text"])
    except ValueError:
        return block["text"]
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```" if sys.stdout.isatty() else block["text"]
