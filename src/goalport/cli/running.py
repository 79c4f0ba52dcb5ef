"""`goalport run`: one goal, run here and now: its steps on standard error, its result on standard output.

It takes the same JSON as the goal's MCP tool and refuses it in the same words. Below the program; platform and serve
are below it.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
from cyclopts import Parameter

from goalport.cli.chosen import Chosen, chosen
from goalport.cli.folder import WorkspaceFolder
from goalport.cli.place import opened
from goalport.cli.terminal import say, show_markdown
from goalport.errors import BadInput
from goalport.events import ActionFinished, ActionRetried, ActionStarted, Event, EventListener, ProgressUpdated
from goalport.platform import AgentPlatform
from goalport.process import Completed, Failed, Outcome
from goalport.serve.arguments import Arguments
from goalport.serve.names import label
from goalport.serve.outcomes import reason_of
from goalport.serve.output import Output
from goalport.tools.arguments import UNREADABLE

FAILED, MISUSED = 1, 2
_LONGEST = 60


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
    """Run a goal here, without a server.

    Exit codes: 0 reached, 1 not reached, 2 the input does not fit, 130 stopped with Ctrl-C.
    """
    place = opened(workspace)
    for problem in place.problems:
        say(f"warning: {problem}")
    if not len(place.platform.agents):
        raise BadInput(place.no_agents)
    found = chosen(place.platform, goal)
    inputs = _read(found, _object(given))
    outcome = anyio.run(_run, place.platform, found, inputs, () if quiet else (Steps(),))
    reason = reason_of(outcome, goal)
    if isinstance(outcome, Completed):
        wire, _ = Output.of(found.goals[0].output).wire(outcome.value)
        _print(wire, structured=structured)
        return 0
    say(f"error: {reason}")
    return MISUSED if isinstance(outcome, Failed) and outcome.caller_mistake else FAILED


async def _run(
    platform: AgentPlatform, found: Chosen, inputs: Sequence[object], watchers: Sequence[EventListener]
) -> Outcome:
    async with platform:
        process = platform.start(found.agent, *inputs, goals=[goal.name for goal in found.goals])
        for watcher in watchers:
            process.subscribe(watcher)
        try:
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            # Ctrl-C cancels this task; the process is in another, which the platform ends on the way out.
            process.kill("It was stopped with Ctrl-C.")
            say("Stopped.")
            raise


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
            case ProgressUpdated(message=message):
                say(f"    {message}")
            case _:
                pass


def _object(given: str) -> Mapping[str, Any]:
    text = _text(given)
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise BadInput(f"--input was expected to be JSON, not {_shown(text)} ({error}). {_EXAMPLE}") from error
    if not isinstance(value, dict):
        raise BadInput(f"--input was expected to be a JSON object, not {_shown(text)}. {_EXAMPLE}")
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
    return repr(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")


def _read(found: Chosen, given: Mapping[str, Any]) -> Sequence[object]:
    """The objects that the process begins with: of the first alternative that the JSON fits."""
    refused: list[str] = []
    for starts in found.starts:
        named = " and ".join(map(label, starts)) or "nothing"
        try:
            return Arguments.of(starts).read(given)
        except BadInput as error:
            refused.append(f"As {named}: {error}")
        except UNREADABLE as error:
            raise BadInput(
                f"The goal starts from {named}, which cannot be read from JSON. Make it a pydantic model or a"
                " dataclass, or start the goal from Python."
            ) from error
    raise BadInput("\n".join(refused) if refused[1:] else refused[0].partition(": ")[2])


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
    text: str = block["text"]
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    written = json.dumps(value, indent=2, ensure_ascii=False)
    return f"```json\n{written}\n```" if sys.stdout.isatty() else written
