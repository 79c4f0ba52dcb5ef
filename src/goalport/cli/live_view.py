"""Draws a run in place on a terminal: its finished and planned steps, what it does now, and its time and tokens."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from goalport.base.colours import takes_colours
from goalport.base.events import (
    ActionFinished,
    ActionStarted,
    Event,
    ModelCalled,
    ModelReplied,
    PlanFormulated,
    ProcessCreated,
    ProgressUpdated,
    QuestionAsked,
)
from goalport.base.words import one_line, visible
from goalport.cli.views import RunView, step_line

_EARLIER = 12
"""The most finished steps that are drawn; of earlier ones only the number is shown."""
_SIGNS = {"succeeded": ("✓", "green"), "declined": ("∅", "yellow"), "replanned": ("↻", "yellow")}


@dataclass
class _Step:
    """An action that runs or has ended."""

    name: str
    doing: str = ""
    """What it does now."""
    ended: str = ""
    """Its seconds and, if it failed, the error; empty while it runs."""
    status: str = ""


class LiveView(RunView):
    """Draws a run while it goes on."""

    def __init__(self, *, prompts: bool = False, replies: bool = False) -> None:
        super().__init__(steps=False, prompts=prompts, replies=replies)
        self._console = Console(file=sys.stderr, no_color=not takes_colours(sys.stderr))
        self._live: Live | None = None
        self._spinner = Spinner("dots")
        self._title = "Looking for what fits"
        self._actions: list[_Step] = []
        self._planned: list[str] = []
        """The steps of the plan that have not begun."""
        self._began, self._read, self._written, self._cost = time.monotonic(), 0, 0, 0.0

    @contextmanager
    def shown(self) -> Generator[None]:
        """Draw until the block ends; the steps stay on the screen."""
        # What user code prints is shown above the view, except where standard output is for a program to read.
        self._live = Live(
            console=self._console,
            get_renderable=self._picture,
            refresh_per_second=8,
            redirect_stdout=sys.stdout.isatty(),
        )
        with self._live:
            try:
                yield
            finally:  # also if the run was stopped
                self._title, self._planned = "", []
                for each in self._actions:
                    each.status = each.status or "stopped"
                    each.ended = each.ended or "stopped"

    @contextmanager
    def aside(self) -> Generator[None]:
        """Stop drawing until the block ends, so that a question can use the terminal."""
        assert self._live is not None
        self._live.transient = True
        self._live.stop()
        try:
            yield
        finally:
            self._live.transient = False
            self._live.start(refresh=True)

    def say(self, text: str, /) -> None:
        """Write a line above the view."""
        self._console.print(Text(visible(text)), soft_wrap=True)

    def on_event(self, event: Event, /) -> None:
        super().on_event(event)
        match event:
            case ProcessCreated(agent=agent):
                self._title = self._title if self._actions else agent
            case PlanFormulated(steps=steps):
                self._title, self._planned = "", [*steps]
            case ActionStarted(action=action):
                self._actions.append(_Step(action))
                if action in self._planned:
                    self._planned.remove(action)
            case ActionFinished(action=action, status=status, seconds=seconds, error=error):
                running = (each for each in self._actions if each.name == action and not each.status)
                if (step := next(running, None)) is not None:
                    step.status = status
                    step.ended = f"{seconds:.1f} s{f': {one_line(error)}' if error else ''}"
            case ModelReplied(input_tokens=read, output_tokens=written, cost=cost):
                self._read += read
                self._written += written
                self._cost += cost
            case ModelCalled(action=action, model=model):
                self._note(action, f"asks {model}")
            case ProgressUpdated(message=message):
                self._note("", one_line(message))
                self.say(message)
            case QuestionAsked(action=action):
                self._note(action, "asks you")
            case _:
                if doing := step_line(event).strip():
                    self._note(getattr(event, "action", ""), one_line(doing))

    def _show_text(self, title: str, text: str) -> None:
        self._console.print(Panel(Text(visible(text).strip()), title=Text(one_line(title)), title_align="left"))

    def _note(self, action: str, doing: str) -> None:
        """Set what a running action does now; without a name, it is the action that started last."""
        running = (each for each in reversed(self._actions) if not each.status and action in {"", each.name})
        if (step := next(running, None)) is not None:
            step.doing = doing

    def _picture(self) -> RenderableType:
        lines: list[RenderableType] = []
        ended = [each for each in self._actions if each.status]
        if ended[_EARLIER:]:
            lines.append(Text(f"  {len(ended) - _EARLIER} earlier steps", "dim"))
        for each in ended[-_EARLIER:]:
            sign = _SIGNS.get(each.status, ("✗", "red"))
            lines.append(Text.assemble(sign, f" {each.name} ", (each.ended, "dim")))
        running = [each for each in self._actions if not each.status]
        turning = [Text.assemble(each.name, (f" {each.doing}" if each.doing else "", "dim")) for each in running]
        if not running and self._title:
            turning.append(Text(self._title, "dim"))
        for text in turning:
            row = Table.grid(padding=(0, 1))
            row.add_row(self._spinner, text)
            lines.append(row)
        names = {each.name for each in running}
        lines += [Text(f"· {each}", "dim") for each in self._planned if each not in names]
        cost = f", {self._cost:.4f} USD" if self._cost else ""
        used = f"{time.monotonic() - self._began:.0f} s, {self._read:,} tokens in, {self._written:,} out{cost}"
        return Group(*lines, Text(used, "dim"))
