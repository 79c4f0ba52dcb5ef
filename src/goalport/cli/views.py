"""How a run and a reply are shown while they go on: drawn in place on a terminal, otherwise line by line.

Steps go to standard error, texts of chatbots to standard output. A view is told events as they come.
"""

import sys
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final, TextIO

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
    ConversationCompacted,
    Event,
    MessageDelta,
    MessageSent,
    ModelCalled,
    ModelReplied,
    PlanFormulated,
    ProcessCreated,
    ProgressUpdated,
    QuestionAsked,
    SourcesShown,
    ToolCalled,
    ToolReturned,
)
from goalport.base.words import one_line, visible
from goalport.cli.prompts import has_cursor
from goalport.cli.terminal import say, show_markdown

_DIM: Final = "\x1b[2m{}\x1b[0m"


class View:
    """Prints the steps of a process to standard error, a line for each, and what models are asked and reply.

    A run goes on in the context `shown()`, and a person is asked something in the context `aside()`.
    """

    def __init__(self, *, steps: bool = True, prompts: bool = False, replies: bool = False) -> None:
        self._steps, self._prompts, self._replies = steps, prompts, replies

    def shown(self) -> AbstractContextManager[object]:
        return nullcontext()

    def aside(self) -> AbstractContextManager[object]:
        return nullcontext()

    def say(self, text: str, /) -> None:
        """Show a remark."""
        if self._steps:
            say(text)

    def on_event(self, event: Event, /) -> None:
        if self._steps and (line := step_line(event)):
            say(line)
        match event:
            case ModelCalled(model=model, prompt=text) if self._prompts:
                self._show_text(f"prompt of {event.interaction} for {model}", text)
            case ModelReplied(model=model) if self._replies:
                # What the model said, why it said nothing, or the tools that it called.
                self._show_text(
                    f"reply of {model}", event.error or event.reply or f"calls {', '.join(event.tool_calls)}"
                )
            case _:
                pass

    def _show_text(self, title: str, text: str) -> None:
        say("\n".join([f"    {title}:", *(f"      {line}" for line in text.splitlines())]))


def view_here(*, prompts: bool, replies: bool, quiet: bool) -> View:
    """A live view on a terminal that can move its cursor, otherwise a plain one; `quiet`: without the steps."""
    if quiet or not has_cursor(sys.stderr):
        return View(steps=not quiet, prompts=prompts, replies=replies)
    return LiveView(prompts=prompts, replies=replies)


def step_line(event: Event) -> str:
    """A line about a step of a process or of a conversation; empty: nothing is said of this event."""
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
        case ToolReturned(tool=tool, is_error=True, result=result):
            return f"    {tool} failed: {one_line(result)}"
        case SourcesShown(reference=reference, sources=sources):
            return f"    reads {reference}: {', '.join(one_line(str(each.get('uri', ''))) for each in sources)}"
        case ConversationCompacted(what=what, tokens_before=before, tokens_after=after):
            return f"    the conversation was made shorter for the model ({what}): {before:,} tokens, now {after:,}"
        case _:
            return ""


class ChatView:
    """Shows replies of a chatbot: texts, and with `steps` its steps, tools and thoughts, dimmed.

    A text that comes in pieces is printed as it comes, and never drawn again, so that nothing flickers; one that comes
    as a whole is drawn as Markdown on a terminal. In a pipe both are plain. `texts` says whether they are shown.
    """

    def __init__(self, *, steps: bool = True, texts: bool = True) -> None:
        self._steps, self._texts = steps, texts
        self._unfinished: set[TextIO] = set()
        """The streams whose last line has not ended."""
        self._coming = ""
        """The id of the message whose text comes in pieces."""

    def on_event(self, event: Event) -> None:
        match event:
            case MessageDelta(text=text, thinking=True) if self._steps:
                self._write(sys.stderr, visible(text), dim=True)
            case MessageDelta(message_id=message_id, text=text, thinking=False) if self._texts:
                if message_id != self._coming:
                    self._end_line(sys.stdout)
                self._coming = message_id
                self._write(sys.stdout, visible(text) if sys.stdout.isatty() else text)
            case MessageSent(role="assistant") if self._texts:
                self.end_lines()
                if event.message_id != self._coming:
                    show_markdown(event.text)
                self._coming = ""
            case _:
                if isinstance(event, ActionRetried):
                    self._coming = ""  # the message begins again, under the same id
                if self._steps and (line := step_line(event)):
                    self._end_line(sys.stderr)
                    self._write(sys.stderr, f"{visible(line)}\n", dim=True)

    def end_lines(self) -> None:
        """Let what is printed next begin at the beginning of a line."""
        for stream in (sys.stdout, sys.stderr):
            self._end_line(stream)

    def _write(self, stream: TextIO, text: str, *, dim: bool = False) -> None:
        if not text:
            return
        if stream.isatty():  # the other one may be the same terminal
            for other in self._unfinished - {stream}:
                if other.isatty():
                    self._end_line(other)
        print(_DIM.format(text) if dim and takes_colours(stream) else text, end="", file=stream, flush=True)
        if text.endswith("\n"):
            self._unfinished.discard(stream)
        else:
            self._unfinished.add(stream)

    def _end_line(self, stream: TextIO) -> None:
        if stream in self._unfinished:
            self._unfinished.discard(stream)
            print(file=stream, flush=True)


_EARLIER = 12
"""How many steps that have ended are drawn; earlier ones are counted."""
_SIGNS = {"succeeded": ("✓", "green"), "declined": ("∅", "yellow"), "replanned": ("↻", "yellow")}


@dataclass
class _Step:
    """An action that runs or has ended."""

    name: str
    doing: str = ""
    """What it does now."""
    ended: str = ""
    """How it ended, and after which time."""
    status: str = ""


class LiveView(View):
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
            finally:  # also of a run that was stopped
                self._title, self._planned = "", []
                for each in self._actions:
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
        """Say what a running action does; without its name, the one that began last."""
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
