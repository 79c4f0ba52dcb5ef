"""`goalport shell`: a prompt for the commands of the program, with one workspace that stays open between them.

Its commands are those of the program, some that only a shell can have, and those that the workspace adds. Without a
terminal it reads them from standard input. Below the program; `shell_prompt`, which is loaded on a terminal, reads
lines.
"""

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter

from goalport.base.errors import BadInput, UnknownName
from goalport.base.secrecy import hide
from goalport.base.words import offer, one_line, type_label
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.program import INTERRUPTED, LOOK, MISUSED, START, app as program, execute
from goalport.cli.shell_commands import bound
from goalport.cli.shell_processes import ShellProcesses, shell_process
from goalport.cli.sources import ShellSource, in_shell
from goalport.cli.terminal import Format, say, show, show_lines
from goalport.cli.workspace import (
    KeptWorkspace,
    keeping,
    load_with_warnings,
    open_with_warnings,
    warn_without_agents,
)

_ALONE = ("shell", "new", "serve")
"""Commands of the program that a shell does not have: they are for another folder, or hold the terminal."""
_SHELL = Group("Shell", sort_key=6)
_ADDED = Group("Commands of this workspace", sort_key=7)
_VALUE = 200


def shell(*, workspace: WorkspaceFolder = Path()) -> int:
    """Open a prompt for these commands; the workspace stays loaded between them.

    Without a terminal, commands are read from standard input, one in a line. Exit codes: that of the last command that
    failed in a pipe, otherwise 0.
    """
    with contextlib.chdir(workspace_root(workspace)):
        loaded = open_with_warnings(Path())
        warn_without_agents(loaded)
        with asyncio.Runner() as runner:
            kept = KeptWorkspace(loaded, runner)
            own = ShellSource(lambda others: ShellProcesses(kept, others), runner)
            with keeping(kept), in_shell(own):
                try:
                    return _typed(Shell(kept)) if sys.stdin.isatty() else _piped(Shell(kept))
                finally:
                    kept.close()


def _piped(shell: "Shell") -> int:
    code = 0
    for line in sys.stdin:
        code = shell.execute(line) or code
        if shell.over:
            break
    return code


def _typed(shell: "Shell") -> int:
    # Imported here, because its library takes a quarter of a second to load.
    from goalport.cli.shell_prompt import ShellPrompt

    prompt = ShellPrompt(shell.kept, lambda: shell.commands)
    shell.lines = prompt.lines
    say("Type help for the commands, Tab to complete, !! to repeat, Ctrl-D to leave.")
    while not shell.over:
        try:
            if (typed := prompt.next_line()) is None:
                break
            for line in _statements(typed):
                if shell.execute(line) == INTERRUPTED:
                    say("")  # below the ^C that the terminal shows
        except KeyboardInterrupt:  # pressed after a command and before the prompt
            say("")
    return 0


def _statements(typed: str) -> Iterator[str]:
    """The commands in what was typed or pasted: one in a line, but for line breaks between quotes."""
    lines = typed.splitlines()
    while lines:
        whole = (end for end in range(1, len(lines) + 1) if _closed("\n".join(lines[:end])))
        end = next(whole, 1)
        yield "\n".join(lines[:end])
        del lines[:end]


def _closed(line: str) -> bool:
    """Whether the quotes in a line close."""
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return False
    return True


class Shell:
    """The commands of a shell, and the workspace that they work on."""

    def __init__(self, kept: KeptWorkspace) -> None:
        self.kept = kept
        self.over = False
        """Whether `exit` was typed."""
        self.lines: Callable[[], Iterable[str]] = tuple
        """The lines that were typed before, the oldest first."""
        self.commands = self._commands()

    def execute(self, line: str) -> int:
        """Run the command in a line; its exit code."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            say(f"error: {error}. Put a text with an apostrophe between double quotes.")
            return MISUSED
        if words[:1] == [program.name[0]]:  # as messages and docs write commands
            del words[0]
        if words[:1] and words[0] in _ALONE:
            say(f"error: A shell does not have {words[0]}. Run `goalport {words[0]}` outside of it.")
            return MISUSED
        return execute(words, self.commands) if words else 0

    def blackboard(self, process_id: str | None = None, /, *, format: Format = "text") -> None:  # noqa: A002 - the option's name
        """List the objects of a process of this shell, by default of the last run: its inputs, and what was made."""
        last = self.kept.last
        if process_id is not None:
            found = self.kept.runner.run(shell_process(self.kept, process_id))
            if found is None:
                raise UnknownName("process", process_id, None)
            last = found[1]
        if last is None:
            raise BadInput("Nothing has run yet.")
        board = last.blackboard.state
        names = {id(entry): name for name, entry in board.names.items() if name != "it"}
        records = [
            {
                "type": type_label(type(entry.value)),
                "name": names.get(id(entry), ""),
                "value": one_line(hide(repr(entry.value)), _VALUE),
            }
            for entry in board.entries
        ]
        show(records, format, none="The blackboard is empty.")

    def history(self, *, limit: Annotated[int, Parameter(help="How many at most.")] = 20) -> None:
        """List the last lines with their numbers; `!7` runs the line 7 again, and `!!` the last one."""
        if limit < 1:
            raise BadInput(f"Expected --limit to be 1 or more, but got {limit}.")
        show_lines(f"{number:>5}  {line}" for number, line in [*enumerate(self.lines(), start=1)][-limit:])

    def reload(self) -> None:
        """Load the workspace again: its agents, tools, settings and commands, as they are now."""
        kept = self.kept
        fresh = load_with_warnings(Path())
        kept.close()
        kept.loaded, kept.last = fresh, None
        self.commands = self._commands()
        say(f"Loaded. Agents: {len(fresh.platform.agents)}.")

    def help(self, command: Annotated[str | None, Parameter(help="A command to explain.")] = None, /) -> None:
        """List the commands, or explain one."""
        if command is not None and command not in self.commands:
            raise BadInput(f"There is no command {command!r}. {offer(command, [*self.names])}")
        self.commands.help_print([] if command is None else [command])

    def exit(self) -> None:
        """Leave the shell."""
        self.over = True

    @property
    def names(self) -> Iterable[str]:
        """The names of the commands."""
        return (each for each in self.commands if not each.startswith("-"))

    def _commands(self) -> App:
        commands = App(
            name="",
            usage="Usage: COMMAND [OPTIONS]",
            help="Commands of this shell.",
            help_format="plaintext",
            version_flags=[],
            help_flags=["--help"],
            suppress_keyboard_interrupt=False,
        )
        commands["--help"].show = False
        commands.update(program)
        for name in (*_ALONE, "--version", "-h"):
            if name in commands:
                del commands[name]
        commands.command(
            "goalport.cli.run:run", name=("execute", "x"), help="Run what a sentence asks for; as run.", group=START
        )
        commands.command(self.blackboard, help="List the objects of the last run.", group=LOOK)
        commands.command(self.history, help="List the last lines.", group=_SHELL)
        commands.command(self.reload, help="Load the workspace again.", group=_SHELL)
        commands.command(self.help, help="List the commands, or explain one.", group=_SHELL)
        commands.command(self.exit, name=("exit", "quit"), help="Leave the shell.", group=_SHELL)
        for each in self.kept.loaded.workspace.commands():
            if each.name in commands:
                say(f"warning: the command {each.name} of this workspace has a name that the shell uses; rename it.")
            else:
                commands.command(bound(each, self.kept), name=each.name, group=_ADDED)
        return commands
