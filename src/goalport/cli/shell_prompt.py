"""The prompt of the shell: lines with a history that survives restarts, `!!`, and completion.

It is drawn by prompt_toolkit, on standard error. The event loop of the platform goes on while a person types. Above:
`shell`, which loads this module on a terminal.
"""

import re
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Final

from cyclopts import App, ArgumentCollection
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from goalport.base.errors import BadInput, GoalportError
from goalport.cli.arrow_keys import on_standard_error
from goalport.cli.chats_here import READER
from goalport.cli.line_history import kept_lines
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.stored import has_store, opened_store
from goalport.cli.terminal import say
from goalport.cli.workspace import KeptWorkspace
from goalport.server.publish.goal_tools import Offer, offers_of
from goalport.store import ConversationRecord, ProcessRecord, ProcessStore
from goalport.workspace.settings import load_settings

_PROMPT: Final = "goalport> "
_REPEAT: Final = re.compile(r"!(!|\d{1,6})")
_IDS: Final = 100
"""How many processes or conversations are offered, the newest first."""
_Stored = ProcessRecord | ConversationRecord


class ShellPrompt:
    """Reads the lines of a shell on a terminal."""

    def __init__(self, kept: KeptWorkspace, commands: Callable[[], App]) -> None:
        self._kept = kept
        self._history = kept_lines(kept.loaded.settings.data_dir / "shell_history", _meant)
        self._completer = _CommandCompleter(kept, commands)
        self._session: PromptSession[str] | None = None

    def next_line(self) -> str | None:
        """The line that a person types; None when they leave with Ctrl-D."""
        with on_standard_error():
            self._session = self._session or PromptSession(
                history=self._history,
                completer=self._completer,
                complete_while_typing=False,
                enable_history_search=True,
                interrupt_exception=Interrupted,
                eof_exception=Unanswered,
            )
            while True:
                try:
                    typed = self._kept.runner.run(self._session.prompt_async(_PROMPT))
                    line = _meant(typed, self.lines())
                except Interrupted:
                    continue
                except Unanswered:
                    return None
                except BadInput as error:
                    say(f"error: {error}")
                    continue
                if line != typed:
                    say(line)
                return line

    def lines(self) -> Sequence[str]:
        """The lines that were typed before, the oldest first."""
        return self._history.lines


def _meant(typed: str, lines: Sequence[str]) -> str:
    """The line that is meant by `!!` or `!7`, or the typed one. Raises `BadInput` if there is no such line."""
    match = _REPEAT.fullmatch(typed.strip())
    if match is None:
        return typed
    place = len(lines) if match[1] == "!" else int(match[1])
    if not 0 < place <= len(lines):
        raise BadInput(f"There is no line {typed.strip()} to repeat. `history` lists the lines with their numbers.")
    return lines[place - 1]


class _CommandCompleter(Completer):
    """Completes commands, their options, and the names of goals, agents, chatbots, processes and conversations."""

    def __init__(self, kept: KeptWorkspace, commands: Callable[[], App]) -> None:
        self._kept = kept
        self._commands = commands
        self._names: dict[str, Callable[[], Awaitable[Iterable[str]]]] = {
            "goal": self._goals,
            "agent": self._agents,
            "process_id": self._processes,
            "chatbot": self._chatbots,
            "conversation": self._conversations,
            "conversation_id": self._conversations,
            "command": self._own_commands,
        }
        """What completes a parameter, by the name of the parameter in the function of a command."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()  # the asynchronous ones are used

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        text = document.text_before_cursor
        try:
            words = shlex.split(text)
        except ValueError:  # a text in quotes is being typed
            return
        begun = "" if not words or text[-1:].isspace() else words.pop()
        for each in await self._offered(words, begun):
            if each.startswith(begun):
                yield Completion(each, start_position=-len(begun))

    async def _offered(self, words: Sequence[str], begun: str) -> Iterable[str]:
        commands, rest = self._commands(), [*words]
        while rest and rest[0] in commands:
            commands = commands[rest.pop(0)]
        names = sorted(each for each in commands if not each.startswith("-"))
        if names:
            return [] if rest else names
        arguments = commands.assemble_argument_collection()
        if begun.startswith("-"):
            return sorted(name for each in arguments for name in each.names if name.startswith("--"))
        return await self._values(arguments, rest)

    async def _values(self, arguments: ArgumentCollection, rest: Sequence[str]) -> Iterable[str]:
        """What can stand after these words."""
        taking = {name: each for each in arguments for name in each.names if each.token_count()[0]}
        place, named = 0, None
        for word in rest:
            if named is not None:
                named = None
            elif word.startswith("-"):
                named = taking.get(word)
            else:
                place += 1
        placed = (each for each in arguments if each.index == place and not all(map(_is_option, each.names)))
        wanted = named or next(placed, None)
        if wanted is None:
            return ()
        names = self._names.get(wanted.field_info.name)
        return await names() if names is not None else wanted.get_choices(force=True) or ()

    async def _goals(self) -> Iterable[str]:
        platform = self._kept.loaded.platform
        offered = {each.name for each in offers_of(platform) if isinstance(each, Offer)}
        return sorted(offered | {goal.short_name for _, goal in platform.agents.goals})

    async def _agents(self) -> Iterable[str]:
        return sorted(each.name for each in self._kept.loaded.platform.agents)

    async def _chatbots(self) -> Iterable[str]:
        return sorted(self._kept.loaded.platform.chatbots)

    async def _own_commands(self) -> Iterable[str]:
        return sorted(each for each in self._commands() if not each.startswith("-"))

    async def _processes(self) -> Iterable[str]:
        platforms = [each.platform for each in self._kept.open]
        own = [each.id for platform in platforms for each in reversed(await platform.processes.records())]
        return [*own, *await self._stored(lambda store: store.records(limit=_IDS, newest_first=True))]

    async def _conversations(self) -> Iterable[str]:
        own = [each.id for each in await self._kept.loaded.platform.conversations.list(READER, limit=_IDS)]
        return [*own, *await self._stored(lambda store: store.conversations.list(limit=_IDS))]

    async def _stored(self, look: Callable[[ProcessStore], Awaitable[Iterable[_Stored]]]) -> Iterable[str]:
        """The ids of what is found in the store of the workspace."""
        settings = load_settings(self._kept.loaded.workspace.root)
        if not has_store(settings):
            return ()
        try:
            async with opened_store(settings) as store:
                return [each.id for each in await look(store)]
        except GoalportError:  # the command itself tells what is wrong
            return ()


def _is_option(name: str) -> bool:
    return name.startswith("-")
