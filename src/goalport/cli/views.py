"""How a run and a reply are shown while they go on, line by line; `live_view` draws a run in place on a terminal.

Steps go to standard error, texts of chatbots to standard output. A view is a listener to events.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TextIO

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
    ProgressUpdated,
    SourcesShown,
    ToolCalled,
    ToolReturned,
)
from goalport.base.words import one_line, visible
from goalport.cli.prompts import has_cursor
from goalport.cli.terminal import say, show_markdown

_DIM: Final = "\x1b[2m{}\x1b[0m"


class RunView:
    """Prints the steps of a process to standard error, a line for each, and the prompts and replies of models.

    Use it in the context `shown()` while the process runs, and ask a person in the context `aside()`.
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


def view_here(*, prompts: bool, replies: bool, quiet: bool) -> RunView:
    """A live view on a terminal that can move its cursor, otherwise a plain one; `quiet`: without the steps."""
    if quiet or not has_cursor(sys.stderr):
        return RunView(steps=not quiet, prompts=prompts, replies=replies)
    # Imported here, because rich takes a while to load.
    from goalport.cli.live_view import LiveView

    return LiveView(prompts=prompts, replies=replies)


def step_line(event: Event) -> str:
    """The line for an event about a step of a process or conversation; empty: this event has none."""
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

    A streamed text is printed piece by piece and never redrawn, so that nothing flickers; a text that arrives whole is
    drawn as Markdown on a terminal. In a pipe both are plain. Without `texts`, no texts are shown.
    """

    def __init__(self, *, steps: bool = True, texts: bool = True) -> None:
        self._steps, self._texts = steps, texts
        self._unfinished: set[TextIO] = set()
        """The streams whose last line has no line break yet."""
        self._coming = ""
        """The id of the message that is being streamed; empty: none is."""

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
        """End unfinished lines, so that the next output begins on a new line."""
        for stream in (sys.stdout, sys.stderr):
            self._end_line(stream)

    def _write(self, stream: TextIO, text: str, *, dim: bool = False) -> None:
        if not text:
            return
        if stream.isatty():  # stdout and stderr may be the same terminal
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
