"""The live view of a run on a terminal: its steps, what it does now, and what it has cost.

It is drawn with rich, on standard error, and knows no process: it listens to events. Prompts and replies stay above it
as panels. Above: `run`.
"""

import os
import sys
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from goalport.base.colours import takes_colours
from goalport.base.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    Event,
    EventListener,
    ModelCalled,
    ModelReplied,
    PlanFormulated,
    ProcessCreated,
    ProgressUpdated,
    QuestionAsked,
    ToolCalled,
)
from goalport.base.words import one_line, visible
from goalport.cli.prompts import DUMB_TERMINALS
from goalport.cli.terminal import say

_EARLIER = 12
"""How many steps that have ended are drawn; earlier ones are counted."""
_SIGNS = {"succeeded": ("✓", "green"), "declined": ("∅", "yellow"), "replanned": ("↻", "yellow")}


@dataclass
class _Step:
    """An action that runs or has ended."""

    name: str
    began: float = field(default_factory=time.monotonic)
    doing: str = ""
    """What it does now."""
    ended: str = ""
    """How it ended, and after which time."""
    status: str = ""


@dataclass
class _Totals:
    """What the models have used."""

    read: int = 0
    written: int = 0
    cost: float = 0.0

    def add(self, reply: ModelReplied) -> None:
        self.read += reply.input_tokens
        self.written += reply.output_tokens
        self.cost += reply.cost

    def __str__(self) -> str:
        cost = f", {self.cost:.4f} USD" if self.cost else ""
        return f"{self.read:,} tokens in, {self.written:,} out{cost}"


class LiveView:
    """Draws a run while it goes on; it is a listener of its process."""

    def __init__(self, *, prompts: bool = False, replies: bool = False) -> None:
        self._prompts = prompts
        self._replies = replies
        self._console = Console(file=sys.stderr, no_color=not takes_colours(sys.stderr))
        self._live: Live | None = None
        self._spinner = Spinner("dots")
        self._title = "Looking for what fits"
        self._steps: list[_Step] = []
        self._planned: list[str] = []
        """The steps of the plan that have not begun."""
        self._totals = _Totals()
        self._began = time.monotonic()

    @contextmanager
    def shown(self) -> Generator[None]:
        """Draw until the block ends; the steps stay on the screen."""
        with self._drawn():
            try:
                yield
            finally:  # also of a run that was stopped
                self._title, self._planned = "", []
                for each in self._steps:
                    each.status = each.status or "stopped"
                    each.ended = each.ended or "stopped"

    @contextmanager
    def aside(self) -> Generator[None]:
        """Leave the terminal to a question until the block ends."""
        assert self._live is not None
        self._live.transient = True
        self._live.stop()
        try:
            yield
        finally:
            self._live.transient = False
            self._live.start(refresh=True)

    def say(self, text: str) -> None:
        """Write a line above the view."""
        self._console.print(Text(visible(text)), soft_wrap=True)

    def on_event(self, event: Event) -> None:
        match event:
            case ProcessCreated(agent=agent):
                self._title = self._title if self._steps else agent
            case PlanFormulated(steps=steps):
                self._title, self._planned = "", [*steps]
            case ActionStarted(action=action):
                self._steps.append(_Step(action))
                if action in self._planned:
                    self._planned.remove(action)
            case ActionFinished(action=action, status=status, seconds=seconds, error=error):
                self._end(action, status, f"{seconds:.1f} s{f': {one_line(error)}' if error else ''}")
            case ActionRetried(action=action, delay_seconds=delay, error=error):
                self._note(action, f"again in {delay:g} s: {one_line(error)}")
            case ModelCalled():
                self._called(event)
            case ModelReplied():
                self._replied(event)
            case ToolCalled(tool=tool, action=action):
                self._note(action, f"calls {tool}")
            case ProgressUpdated(message=message):
                self._note("", one_line(message))
                self.say(message)
            case QuestionAsked(action=action):
                self._note(action, "asks you")
            case _:
                pass

    @contextmanager
    def _drawn(self) -> Generator[None]:
        # What user code prints is shown above the view, except where standard output is for a program to read.
        self._live = Live(
            console=self._console,
            get_renderable=self._picture,
            refresh_per_second=8,
            redirect_stdout=sys.stdout.isatty(),
        )
        with self._live:
            yield

    def _called(self, event: ModelCalled) -> None:
        self._note(event.action, f"asks {event.model}")
        if self._prompts:
            self._panel(f"prompt of {event.interaction} for {event.model}", event.prompt)

    def _replied(self, event: ModelReplied) -> None:
        self._totals.add(event)
        if self._replies:
            self._panel(f"reply of {event.model}", reply_text(event))

    def _panel(self, title: str, text: str) -> None:
        self._console.print(Panel(Text(visible(text).strip()), title=Text(one_line(title)), title_align="left"))

    def _note(self, action: str, doing: str) -> None:
        """Say what a running action does; without its name, the one that began last."""
        for step in reversed(self._steps):
            if not step.status and action in {"", step.name}:
                step.doing = doing
                return

    def _end(self, action: str, status: str, ended: str) -> None:
        for step in self._steps:
            if step.name == action and not step.status:
                step.status, step.ended = status, ended
                return

    def _picture(self) -> RenderableType:
        lines: list[RenderableType] = []
        ended = [each for each in self._steps if each.status]
        if ended[_EARLIER:]:
            lines.append(Text(f"  {len(ended) - _EARLIER} earlier steps", "dim"))
        lines += map(_ended, ended[-_EARLIER:])
        running = [each for each in self._steps if not each.status]
        for step in running:
            said = f" {step.doing}" if step.doing else ""
            lines.append(self._turning(Text.assemble(step.name, (said, "dim"))))
        if not running and self._title:
            lines.append(self._turning(Text(self._title, "dim")))
        names = {each.name for each in running}
        lines += [Text(f"· {each}", "dim") for each in self._planned if each not in names]
        lines.append(Text(f"{time.monotonic() - self._began:.0f} s, {self._totals}", "dim"))
        return Group(*lines)

    def _turning(self, text: Text) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        row.add_row(self._spinner, text)
        return row


def _ended(step: _Step) -> Text:
    sign, colour = _SIGNS.get(step.status, ("✗", "red"))
    return Text.assemble((sign, colour), f" {step.name} ", (step.ended, "dim"))


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
