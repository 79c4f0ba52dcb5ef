"""What a person types in a chat on a terminal: messages of one or more lines, with a history that survives restarts.

It is drawn by prompt_toolkit, on standard error. Enter sends; Alt-Enter, or a backslash at the end, begins another
line. Above: `chat`, which loads this module on a terminal.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from goalport.base.errors import BadInput, GoalportError
from goalport.base.words import offer
from goalport.cli.arrow_keys import on_standard_error
from goalport.cli.dialogues import Chats
from goalport.cli.line_history import kept_lines
from goalport.cli.prompts import Interrupted, Unanswered

_PROMPT: Final = "you> "
_CONTINUED: Final = "...  "
_IDS: Final = 100
"""How many conversations are offered, the one that was continued last first."""


class TypedMessages:
    """Reads messages on a terminal; the event loop goes on while a person types."""

    def __init__(self, runner: asyncio.Runner, history: Path | None, chats: Chats) -> None:
        self._runner = runner
        self._history = kept_lines(history)
        self._completer = _CommandCompleter(chats)
        self._session: PromptSession[str] | None = None

    def next(self, default: str = "") -> str:
        """What is typed next; `default` is there to be edited. Raises `Interrupted` and `Unanswered`."""
        with on_standard_error():
            self._session = self._session or PromptSession(
                history=self._history,
                completer=self._completer,
                complete_while_typing=False,
                enable_history_search=True,
                multiline=True,
                prompt_continuation=_CONTINUED,
                key_bindings=_keys(),
                reserve_space_for_menu=0,
                interrupt_exception=Interrupted,
                eof_exception=Unanswered,
            )
            return self._runner.run(self._session.prompt_async(_PROMPT, default=default))


def _keys() -> KeyBindings:
    """Enter sends, also a text of several lines; a terminal pastes these without sending them. Ctrl-C drops a text."""
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

    return keys


class _CommandCompleter(Completer):
    """Completes the commands of a chat, and what they take: the names of chatbots, the ids of conversations."""

    def __init__(self, chats: Chats) -> None:
        self._chats = chats

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()  # the asynchronous ones are used

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        command, space, begun = document.text_before_cursor.partition(" ")
        if not command.startswith("/"):
            return
        for each in await self._values(command) if space else [f"/{each.name}" for each in COMMANDS]:
            typed = begun if space else command
            if each.startswith(typed):
                yield Completion(each, start_position=-len(typed))

    async def _values(self, command: str) -> Iterable[str]:
        if command == "/new":
            return sorted(self._chats.chatbots)
        if command != "/open":
            return ()
        try:
            return [str(each["conversation"]) for each in await self._chats.page("", _IDS)]
        except GoalportError:  # a server does not tell them
            return ()


_NAME: Final = re.compile(r"/([a-z]+)(?:\s+|$)")


class Command(NamedTuple):
    """What can be done in a chat besides saying something."""

    name: str
    takes: str
    help: str


COMMANDS: Final = (
    Command("new", "[CHATBOT]", "Begin a new conversation, also with another chatbot."),
    Command("list", "[WORDS]", "List the conversations, or those in which these words are."),
    Command("open", "ID", "Go on with another conversation."),
    Command("title", "TEXT", "Give the conversation a title."),
    Command("history", "", "Show what was said so far."),
    Command("again", "", "Let the last message be answered again, in another branch."),
    Command("edit", "[TEXT]", "Say the last message in other words, in another branch."),
    Command("answer", "[ANSWER]", "Answer an open question, here or as JSON."),
    Command("decline", "REASON", "Decline an open question."),
    Command("export", "[FILE]", "Write the conversation as Markdown, or as JSON if the name of the file ends so."),
    Command("help", "", "List the commands."),
    Command("quit", "", "Leave the chat, as Ctrl-D does; the conversation can be continued."),
)


def read_line(line: str) -> tuple[str, str]:
    """The name of the command in a line, and what it is given; an empty name and the text, if it is a message.

    Raises `BadInput` for an unknown command. A message that begins with a slash is written with two.
    """
    if line.startswith("//"):
        return "", line[1:]
    match = _NAME.match(line)
    if match is None:
        return "", line
    names = [each.name for each in COMMANDS]
    if match[1] not in names:
        told = offer(match[1], names)
        raise BadInput(
            f"There is no command /{match[1]}. {told} A message that begins with a slash is written with two."
        )
    return match[1], line[match.end() :].strip()


def command_lines() -> Iterator[str]:
    """A line about each command, and about the keys."""
    width = max(len(f"/{each.name} {each.takes}") for each in COMMANDS)
    for each in COMMANDS:
        yield f"  {f'/{each.name} {each.takes}':<{width}}  {each.help}"
    yield "Enter sends; Alt-Enter, or a backslash at the end of a line, begins another line. Ctrl-C stops a reply."
