"""What a person types at the prompts of a chat and of the shell, with a history that survives restarts.

prompt_toolkit draws them, on standard error; the event loop goes on while a person types. This module takes a quarter
of a second to load, so it is loaded on a terminal.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from goalport.base.errors import BadInput
from goalport.base.secrecy import hide
from goalport.cli.arrow_keys import on_standard_error
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.terminal import say

Meant = Callable[[str, Sequence[str]], str]
"""The line that is meant by a typed one, given the earlier lines. Raises `BadInput` if there is none."""
Offers = Callable[[str], Awaitable[tuple[str, Iterable[str]]]]
"""What could stand at the end of a text: the part that is typed of it, and the words that may begin so."""


class TypedLines:
    """A prompt on a terminal.

    Parameters: `file` keeps the lines; None: they are kept in memory. `meant` may replace what is typed in the history.
    `options` are those of `PromptSession`.
    """

    def __init__(self, file: Path | None, offers: Offers, meant: Meant | None = None, **options: Any) -> None:
        self._history = _History(_place_of(file), meant)
        self._completer = _OfferedWords(offers)
        self._options = options
        self._session: PromptSession[str] | None = None

    @property
    def lines(self) -> Sequence[str]:
        """The lines that were typed before, the oldest first."""
        return self._history.lines

    async def next(self, prompt: str, default: str = "") -> str:
        """What is typed next; `default` is there to be edited. Raises `Interrupted` and `Unanswered`."""
        with on_standard_error():
            self._session = self._session or PromptSession(
                history=self._history,
                completer=self._completer,
                complete_while_typing=False,
                enable_history_search=True,
                interrupt_exception=Interrupted,
                eof_exception=Unanswered,
                **self._options,
            )
            return await self._session.prompt_async(prompt, default=default)


class _OfferedWords(Completer):
    def __init__(self, offers: Offers) -> None:
        self._offers = offers

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()  # the asynchronous ones are used

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        begun, words = await self._offers(document.text_before_cursor)
        for each in words:
            if each.startswith(begun):
                yield Completion(each, start_position=-len(begun))


def _place_of(file: Path | None) -> History:
    """Where lines are kept: a file that only their author can read. One that cannot be used is told."""
    if file is None:
        return InMemoryHistory()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600))
    except OSError as error:
        say(f"warning: the history is not kept: {file}: {error.strerror}.")
        return InMemoryHistory()
    return FileHistory(file)


class _History(History):
    """The lines of earlier programs and of this one; those of another program that runs are for later ones.

    Kept is the line that was meant; a line that is repeated is kept once. Secrets are left out, and so is a line that
    begins with a space.
    """

    def __init__(self, place: History, meant: Meant | None) -> None:
        super().__init__()
        self._place = place
        self._meant = meant
        self.lines = [*place.load_history_strings()][::-1]

    def load_history_strings(self) -> Iterable[str]:
        yield from reversed(self.lines)

    def append_string(self, string: str) -> None:
        if string[:1] == " ":
            return
        with suppress(BadInput):
            line = hide(string if self._meant is None else self._meant(string, self.lines))
            if line.strip() and self.lines[-1:] != [line]:
                self.lines.append(line)
                super().append_string(line)

    def store_string(self, string: str) -> None:
        with suppress(OSError):  # a disk that is full since: the program goes on
            self._place.store_string(string)


def of_several_lines() -> dict[str, Any]:
    """The options of a prompt whose lines may be broken; a terminal pastes them without sending them.

    Enter sends; Alt-Enter, or a backslash at the end, begins another line. Ctrl-C drops what is typed.
    """
    keys = KeyBindings()

    @keys.add("enter")
    @keys.add("c-j")  # as which Enter arrives that was pressed before the prompt was there
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def drop(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=Interrupted())

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return {"multiline": True, "prompt_continuation": "...  ", "key_bindings": keys, "reserve_space_for_menu": 0}
