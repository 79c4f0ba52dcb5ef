"""How a run is shown while it goes on: drawn and redrawn on a terminal, as plain lines elsewhere.

Both go to standard error, so that standard output contains only the result. Above: `run`, and `stored`, which goes on
with a process; below: `live_view`, which is loaded where there is a terminal to draw on.
"""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from goalport.base.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    Event,
    EventListener,
    ModelCalled,
    ModelReplied,
    ProgressUpdated,
    ToolCalled,
)
from goalport.cli.prompts import DUMB_TERMINALS
from goalport.cli.terminal import say


class View(EventListener, Protocol):
    """Shows a run; it is a listener of its process."""

    def shown(self) -> AbstractContextManager[object]:
        """The context in which the run goes on."""
        ...

    def aside(self) -> AbstractContextManager[object]:
        """The context in which a person is asked something."""
        ...

    def say(self, text: str, /) -> None:
        """Show a remark."""
        ...


def view_here(*, prompts: bool, replies: bool, quiet: bool) -> View:
    """A live view on a terminal that can move its cursor, otherwise a plain one; `quiet`: without the steps."""
    able = sys.platform == "win32" or os.environ.get("TERM", "") not in DUMB_TERMINALS
    if quiet or not (able and sys.stderr.isatty()):
        return StepPrinter(steps=not quiet, prompts=prompts, replies=replies)
    # Imported here, because drawing takes a while to load.
    from goalport.cli.live_view import LiveView

    return LiveView(prompts=prompts, replies=replies)


class StepPrinter:
    """Prints the steps of a process to standard error, a line for each."""

    def __init__(self, *, steps: bool = True, prompts: bool = False, replies: bool = False) -> None:
        self._steps = steps
        self._prompts = prompts
        self._replies = replies

    def shown(self) -> AbstractContextManager[object]:
        return nullcontext()

    def aside(self) -> AbstractContextManager[object]:
        return nullcontext()

    def say(self, text: str, /) -> None:
        if self._steps:
            say(text)

    def on_event(self, event: Event) -> None:
        if self._steps and (line := step_line(event)):
            say(line)
        match event:
            case ModelCalled(model=model, prompt=prompt) if self._prompts:
                say(_block(f"prompt for {model}", prompt))
            case ModelReplied(model=model) if self._replies:
                say(_block(f"reply of {model}", reply_text(event)))
            case _:
                pass


def reply_text(event: ModelReplied) -> str:
    """What a model said, the tools that it called, or why it said nothing."""
    if event.error:
        return event.error
    return event.reply or f"calls {', '.join(event.tool_calls)}"


def _block(title: str, text: str) -> str:
    """A text of several lines below its title, indented as the remarks of a step are."""
    return "\n".join((f"    {title}:", *(f"      {line}" for line in text.splitlines())))


def step_line(event: Event) -> str:
    """A line about a step of a process; empty: nothing is said of this event."""
    match event:
        case ActionStarted(action=action, number=number, planned=planned):
            return f"{number}/{planned} {action}"
        case ActionFinished(status="failed", error=error):
            return f"    failed: {error}"
        case ActionFinished(status="declined"):
            return "    gave nothing; planning again"
        case ActionRetried(delay_seconds=delay, error=error):
            return f"    again in {delay:g} s: {error}"
        case ModelCalled(model=model, turn=1):
            return f"    asks {model}"
        case ToolCalled(tool=tool):
            return f"    calls {tool}"
        case ProgressUpdated(message=message):
            return f"    {message}"
        case _:
            return ""
