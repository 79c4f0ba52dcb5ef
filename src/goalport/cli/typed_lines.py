"""Prompts on a terminal that can move its cursor: forms with arrow keys, and lines typed in a chat or a shell.

prompt_toolkit draws them, on standard error; the event loop goes on while a person types. This module takes a quarter
of a second to load, so it is imported only on a terminal.
"""

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts.choice_input import ChoiceInput
from prompt_toolkit.validation import ValidationError, Validator
from prompt_toolkit.widgets import CheckboxList, Label

from goalport.base.errors import BadInput
from goalport.base.secrecy import hide
from goalport.cli.prompts import Check, Interrupted, ListCheck, Option, Prompts, Unanswered
from goalport.cli.terminal import say


class ArrowKeyPrompts(Prompts):
    """Lists and lines that are drawn and edited in place."""

    edits = True

    def session(self) -> AbstractContextManager[object]:
        return _on_standard_error()

    async def line(self, label: str, default: str, check: Check, *, secret: bool = False) -> str:
        session: PromptSession[str] = PromptSession(
            validator=_CheckValidator(check),
            validate_while_typing=False,
            is_password=secret,
            reserve_space_for_menu=0,
            interrupt_exception=Interrupted,
            eof_exception=Unanswered,
        )
        return (await session.prompt_async(f"{label}: ", default=default)).strip()

    async def one(self, label: str, options: Sequence[Option], default: str) -> str:
        asked: ChoiceInput[str] = ChoiceInput(
            message=f"{label}: (arrow keys, then Enter)",
            options=[(each.text, each.title) for each in options],
            default=default,
            interrupt_exception=Interrupted,
            key_bindings=_leave_keys(),
        )
        return await asked.prompt_async()

    async def several(
        self, label: str, options: Sequence[Option], default: Sequence[str], check: ListCheck
    ) -> list[str]:
        chosen = CheckboxList([(each.text, each.title) for each in options], default_values=[*default])
        chosen.show_scrollbar = False
        mistake = Label("", style="class:validation-toolbar", dont_extend_height=True)
        keys = _leave_keys()

        @keys.add("enter", eager=True)
        def accept(event: KeyPressEvent) -> None:
            mistake.text = check(chosen.current_values)
            if not mistake.text:
                event.app.exit(result=[each.text for each in options if each.text in chosen.current_values])

        shown = ConditionalContainer(mistake, Condition(lambda: bool(mistake.text)))
        head = Label(f"{label}: (arrow keys, space to mark, then Enter)", dont_extend_height=True)
        layout = Layout(HSplit([head, chosen, shown]), focused_element=chosen)
        app: Application[list[str]] = Application(layout=layout, key_bindings=keys)
        return await app.run_async()


class _CheckValidator(Validator):
    """Shows the words of a check below its line."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def validate(self, document: Document) -> None:
        if mistake := self._check(document.text.strip()):
            raise ValidationError(len(document.text), mistake)


def _leave_keys() -> KeyBindings:
    """The keys that leave a list without an answer."""
    keys = KeyBindings()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def interrupt(event: KeyPressEvent) -> None:
        event.app.exit(exception=Interrupted())

    @keys.add("c-d")
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(exception=Unanswered())

    return keys


@contextmanager
def _on_standard_error() -> Generator[None]:
    """Draw on standard error."""
    output = create_output(sys.stderr)
    if isinstance(output, Vt100_Output):
        # Nothing here needs the cursor's position, and a terminal may answer a request for it too late.
        output.enable_cpr = False
    with create_app_session(output=output):
        yield


ExpandLine = Callable[[str, Sequence[str]], str]
"""Returns the line to run for a typed line and the earlier lines, as for `!7`. Raises `BadInput` if there is none."""
FindCompletions = Callable[[str], Awaitable[tuple[str, Iterable[str]]]]
"""Returns, for the text before the cursor, the part of it to complete, and all words that may be there."""


class TypedLines:
    """A prompt on a terminal.

    Parameters: `file` stores the history; None: it is only in memory. `expand` returns the line that goes into the
    history for a typed one. `options` are those of `PromptSession`.
    """

    def __init__(
        self, file: Path | None, find_completions: FindCompletions, expand: ExpandLine | None = None, **options: Any
    ) -> None:
        self._history = _History(file, expand)
        with _on_standard_error():
            self._session: PromptSession[str] = PromptSession(
                history=self._history,
                completer=_LineCompleter(find_completions),
                complete_while_typing=False,
                enable_history_search=True,
                interrupt_exception=Interrupted,
                eof_exception=Unanswered,
                **options,
            )

    @property
    def lines(self) -> Sequence[str]:
        """The lines that were typed before, the oldest first."""
        return self._history.lines

    async def next(self, prompt: str, default: str = "") -> str:
        """The next line; its editing begins with `default`. Raises `Interrupted` and `Unanswered`."""
        with _on_standard_error():
            return await self._session.prompt_async(prompt, default=default)


class _LineCompleter(Completer):
    def __init__(self, find_completions: FindCompletions) -> None:
        self._find_completions = find_completions

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()  # `get_completions_async` is used instead

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        begun, words = await self._find_completions(document.text_before_cursor)
        for each in words:
            if each.startswith(begun):
                yield Completion(each, start_position=-len(begun))


class _History(History):
    """The lines that earlier programs stored in the file, and those of this program.

    Stored is the line that `expand` returns; a repeated line is stored once. Secrets in it are hidden, and a line that
    begins with a space is not stored. Only the user can read the file.
    """

    def __init__(self, file: Path | None, expand: ExpandLine | None) -> None:
        super().__init__()
        self._file: FileHistory | None = None
        self._expand = expand
        self.lines: list[str] = []
        if file is not None:
            try:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600))
                self._file = FileHistory(file)
                self.lines += [*self._file.load_history_strings()][::-1]
            except OSError as error:
                say(f"warning: the history is not kept: {file}: {error.strerror}.")

    def load_history_strings(self) -> Iterable[str]:
        yield from reversed(self.lines)

    def append_string(self, string: str) -> None:
        if string[:1] == " ":
            return
        with suppress(BadInput):
            line = hide(string if self._expand is None else self._expand(string, self.lines))
            if line.strip() and self.lines[-1:] != [line]:
                self.lines.append(line)
                super().append_string(line)

    def store_string(self, string: str) -> None:
        if self._file is not None:
            with suppress(OSError):  # the program goes on even if the disk is full
                self._file.store_string(string)


def multiline_options() -> dict[str, Any]:
    """The options of a prompt for texts of several lines; a pasted text is not sent at its line breaks.

    Enter sends; Alt-Enter, or a backslash at the end, begins another line. Ctrl-C drops what is typed.
    """
    keys = KeyBindings()

    @keys.add("enter")
    @keys.add("c-j")  # Enter arrives as this if it was pressed before the prompt was shown
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
