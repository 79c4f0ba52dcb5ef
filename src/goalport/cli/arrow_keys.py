"""Prompts for a terminal that can move its cursor: options by arrow keys, lines to edit, mistakes below them.

They are drawn by prompt_toolkit, on standard error, which takes a quarter of a second to load; `prompts` loads this
module where a terminal can show them. The event loop goes on while a person types.
"""

import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts.choice_input import ChoiceInput
from prompt_toolkit.validation import ValidationError, Validator
from prompt_toolkit.widgets import CheckboxList, Label

from goalport.cli.prompts import Check, Interrupted, ListCheck, Option, Prompts, Unanswered


class ArrowKeyPrompts(Prompts):
    """Lists and lines that are drawn and edited in place."""

    edits = True

    def session(self) -> AbstractContextManager[object]:
        return on_standard_error()

    async def line(self, label: str, default: str, check: Check, *, secret: bool = False) -> str:

        session: PromptSession[str] = PromptSession(
            validator=_Checked(check),
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
            key_bindings=_leaving(),
        )
        return await asked.prompt_async()

    async def several(
        self, label: str, options: Sequence[Option], default: Sequence[str], check: ListCheck
    ) -> list[str]:

        chosen = CheckboxList([(each.text, each.title) for each in options], default_values=[*default])
        chosen.show_scrollbar = False
        mistake = Label("", style="class:validation-toolbar", dont_extend_height=True)
        keys = _leaving()

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


class _Checked(Validator):
    """Shows the words of a check below its line."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def validate(self, document: Document) -> None:
        if mistake := self._check(document.text.strip()):
            raise ValidationError(len(document.text), mistake)


def _leaving() -> KeyBindings:
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
def on_standard_error() -> Generator[None]:
    """Draw on standard error."""
    output = create_output(sys.stderr)
    if isinstance(output, Vt100_Output):
        # Nothing here needs the place of the cursor, and a terminal that is asked for it may answer too late.
        output.enable_cpr = False
    with create_app_session(output=output):
        yield
