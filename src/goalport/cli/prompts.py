"""Prompts for one field on the terminal: here line by line, in `typed_lines` with lists and editable lines.

Prompts go to standard error, so that standard output contains only results. A prompt knows no form and no process.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from getpass import getpass
from select import select
from typing import NamedTuple, TextIO

from goalport.base.words import one_line
from goalport.cli.terminal import say

Check = Callable[[str], str]
"""Returns what is wrong with a typed text; empty: nothing."""
ListCheck = Callable[[Sequence[str]], str]
"""Returns what is wrong with a choice of several options; empty: nothing."""
_LONGEST_LABEL = 200


class Option(NamedTuple):
    """An option to choose: `text` is its value in the answer, `title` is what the person reads."""

    text: str
    title: str


class Unanswered(Exception):
    """The person has closed the input (Ctrl-D) instead of answering."""


class Interrupted(Unanswered):
    """The person has pressed Ctrl-C instead of answering."""


def has_cursor(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and (sys.platform == "win32" or os.environ.get("TERM", "") not in {"", "dumb", "unknown"})


def prompts_here() -> "Prompts":
    """Prompts with arrow keys where the terminal can show them, otherwise plain ones."""
    if not (sys.stdin.isatty() and has_cursor(sys.stderr)):
        return Prompts()
    # Imported here, because it imports this module.
    from goalport.cli.typed_lines import ArrowKeyPrompts

    return ArrowKeyPrompts()


class Prompts:
    """Numbered options and plain lines, for simple terminals and for input that is no terminal.

    Each method raises `Unanswered`. The event loop is blocked while a person types. What they typed is checked when the
    form is complete.
    """

    edits = False
    """Whether a person can edit the default of a field; otherwise they accept it or type a new value."""

    def session(self) -> AbstractContextManager[object]:
        """The context in which fields are asked for."""
        return nullcontext()

    async def line(self, label: str, default: str, check: Check, *, secret: bool = False) -> str:
        """Ask for a line of text, with a default."""
        shown = f" [{one_line(default, _LONGEST_LABEL)}]" if default else ""
        return _typed(f"{label}{shown}: ", secret=secret) or default

    async def one(self, label: str, options: Sequence[Option], default: str) -> str:
        """Ask for one option, and return its text; what was typed, if it is no option."""
        options = [each for each in options if each.text]  # an empty line leaves it empty
        return _chosen(await self._listed(label, options, [default]), options)

    async def several(
        self, label: str, options: Sequence[Option], default: Sequence[str], check: ListCheck
    ) -> list[str]:
        """Ask for any number of options, and return their texts."""
        typed = await self._listed(f"{label} (several, with commas between them)", options, default)
        parts = [each.strip(' []"') for each in typed.split(",")]
        return [_chosen(each, options) for each in parts if each]

    async def _listed(self, label: str, options: Sequence[Option], default: Sequence[str]) -> str:
        for number, each in enumerate(options, start=1):
            say(f"  {number}. {each.title}")
        return await self.line(label, ", ".join(each.title for each in options if each.text in default), str)


def _chosen(typed: str, options: Sequence[Option]) -> str:
    """The text of the option whose text, title or number was typed; the typed text if there is no such option."""
    for each in options:
        if typed in each:
            return each.text
    if typed.isdecimal() and 0 < int(typed) <= len(options):
        return options[int(typed) - 1].text
    return typed


def _typed(prompt: str, *, secret: bool) -> str:
    """Read one line."""
    # On Ctrl-C, asyncio's handler only cancels a task, which has no effect while the event loop is blocked.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if secret and sys.stdin.isatty():
            return getpass(prompt, sys.stderr)
        print(prompt, end="", file=sys.stderr, flush=True)
        _await_input()
        typed = sys.stdin.readline()
    except KeyboardInterrupt:
        raise Interrupted from None
    except EOFError:
        raise Unanswered from None
    finally:
        signal.signal(signal.SIGINT, before)
    if not typed:
        raise Unanswered
    return typed.strip()


def _await_input() -> None:
    """Wait at a terminal until something is typed. Ctrl-C ends the wait at any moment.

    A blocking read alone would miss a signal that arrives just before it.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        return
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.set_wakeup_fd(wakes)
    try:
        select([sys.stdin, woken], [], [])
    finally:
        signal.set_wakeup_fd(before)
        os.close(wakes)
        os.close(woken)
