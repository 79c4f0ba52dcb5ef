"""How a reply is shown while it comes: its text on standard output, thoughts, steps and tools on standard error.

Text that comes in pieces is printed as it comes, and never drawn again, so that nothing flickers; a message that comes
whole is drawn as Markdown on a terminal. In a pipe both are plain. It knows no session. Above: `chat_replies`.
"""

import sys
from typing import Final, TextIO

from goalport.base.colours import takes_colours
from goalport.base.events import (
    ActionRetried,
    ConversationCompacted,
    Event,
    MessageDelta,
    MessageSent,
    SourcesShown,
    ToolReturned,
)
from goalport.base.words import one_line, visible
from goalport.cli.live_view import step_line
from goalport.cli.terminal import show_markdown

_DIM: Final = "\x1b[2m{}\x1b[0m"


class ChatView:
    """Shows the events of turns; it is told each as it comes.

    Parameters: `steps` says whether steps, tools and thoughts are shown, and `texts` whether messages are.
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
            case MessageDelta(thinking=False) if self._texts:
                self._piece(event)
            case MessageSent(role="assistant") if self._texts:
                self._whole(event)
            case _:
                if isinstance(event, ActionRetried):
                    self._coming = ""  # the message begins again, under the same id
                if self._steps and (line := _remark(event)):
                    self.remark(line)

    def remark(self, text: str) -> None:
        """Print a line about what happens, dimmed, on standard error."""
        self._end_line(sys.stderr)
        self._write(sys.stderr, f"{visible(text)}\n", dim=True)

    def end_lines(self) -> None:
        """Let what is printed next begin at the beginning of a line."""
        for stream in (sys.stdout, sys.stderr):
            self._end_line(stream)

    def _piece(self, event: MessageDelta) -> None:
        if event.message_id != self._coming:
            self._end_line(sys.stdout)
        self._coming = event.message_id
        self._write(sys.stdout, visible(event.text) if sys.stdout.isatty() else event.text)

    def _whole(self, event: MessageSent) -> None:
        self.end_lines()
        if event.message_id != self._coming:
            show_markdown(event.text)
        self._coming = ""

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


def _remark(event: Event) -> str:
    """A line about an event, as `goalport run` words it, and about what only conversations have; empty: none."""
    match event:
        case ToolReturned(tool=tool, is_error=True, result=result):
            return f"    {tool} failed: {one_line(result)}"
        case SourcesShown(reference=reference, sources=sources):
            return f"    reads {reference}: {', '.join(one_line(str(each.get('uri', ''))) for each in sources)}"
        case ConversationCompacted(what=what, tokens_before=before, tokens_after=after):
            return f"    the conversation was made shorter for the model ({what}): {before:,} tokens, now {after:,}"
        case _:
            return step_line(event)
