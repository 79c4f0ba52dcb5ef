"""`goalport shell`: a prompt for the commands of the program, with one workspace that stays open between them.

It has the commands of the program, some commands of its own, and the commands that the workspace adds. Without a
terminal it reads commands from standard input.
"""

import asyncio
import contextlib
import inspect
import re
import shlex
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_type_hints

from cyclopts import App, Group, Parameter

from goalport.base.errors import BadInput, DeclarationError, GoalportError, UnknownName
from goalport.base.secrecy import hide
from goalport.base.words import one_line, type_label
from goalport.cli.conversations import READER
from goalport.cli.options import INTERRUPTED, MISUSED, WorkspaceFolder, workspace_root
from goalport.cli.process_sources import SHELL_LOOP
from goalport.cli.program import (
    GROUPS,
    OPTIONS,
    app as program,
    execute,
    unknown_command,
    use_docstring,
)
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.stored_processes import has_store, open_store
from goalport.cli.terminal import Format, Record, say, show, show_lines, show_markdown, show_result
from goalport.cli.workspace import SHELL_WORKSPACE, ShellWorkspace, open_with_warnings, warn_without_agents
from goalport.server.publish.goal_tools import Offer, offers_of
from goalport.server.publish.output import OutputFormat
from goalport.workspace import Command
from goalport.workspace.settings import load_settings

_ALONE = ("shell", "new", "serve")
"""Commands of the program that a shell does not have: they work on another folder, or occupy the terminal."""
_SHELL = Group("Shell", sort_key=6)
_ADDED = Group("Commands of this workspace", sort_key=7)
_OWN_OPTIONS = Parameter(negative=None, show_default=None)
_VALUE = 200
_REPEAT: Final = re.compile(r"!(!|\d{1,6})")
_IDS: Final = 100
"""The most processes or conversations of the store whose ids are offered for completion, the newest first."""


def shell(*, workspace: WorkspaceFolder = Path()) -> int:
    """Open a prompt for these commands; the workspace stays loaded between them.

    Without a terminal, commands are read from standard input, one in a line; the exit code is that of the last command
    that failed.

    Examples:
        goalport shell
        echo 'goals' | goalport shell --workspace my-agents
    """
    with contextlib.chdir(workspace_root(workspace)):
        loaded = open_with_warnings(Path())
        warn_without_agents(loaded)
        runner = asyncio.Runner()
        shell_workspace = ShellWorkspace(runner, loaded)
        # Set before the runner starts: it copies the context once, for all that it runs.
        tokens = SHELL_WORKSPACE.set(shell_workspace), SHELL_LOOP.set(runner)
        with runner:
            try:
                opened = Shell(shell_workspace)
                if sys.stdin.isatty():
                    return _typed(opened)
                code = 0
                for line in sys.stdin:
                    code = opened.execute(line) or code
                    if opened.over:
                        break
                return code
            finally:
                shell_workspace.close()
                SHELL_WORKSPACE.reset(tokens[0])
                SHELL_LOOP.reset(tokens[1])


def _typed(shell: "Shell") -> int:
    from goalport.cli.typed_lines import TypedLines

    typed_lines = TypedLines(
        shell.workspace.loaded.settings.data_dir / "shell_history", shell.find_completions, _expanded
    )
    shell.lines = lambda: typed_lines.lines
    say("Type help for the commands, Tab to complete, !! to repeat, Ctrl-D to leave.")
    while not shell.over:
        try:
            typed = shell.workspace.runner.run(typed_lines.next("goalport> "))
            line = _expanded(typed, typed_lines.lines)
            if line != typed:
                say(line)
            for each in _statements(line):
                if shell.execute(each) == INTERRUPTED:
                    say("")  # below the ^C that the terminal shows
        except Interrupted:
            continue
        except Unanswered:
            break
        except BadInput as error:
            say(f"error: {error}")
        except KeyboardInterrupt:  # pressed after a command and before the prompt
            say("")
    return 0


def _expanded(typed: str, lines: Sequence[str]) -> str:
    """The earlier line that `!!` or `!7` stands for, otherwise the typed line. Raises `BadInput` if there is none."""
    match = _REPEAT.fullmatch(typed.strip())
    if match is None:
        return typed
    place = len(lines) if match[1] == "!" else int(match[1])
    if not 0 < place <= len(lines):
        raise BadInput(f"There is no line {typed.strip()} to repeat. `history` lists the lines with their numbers.")
    return lines[place - 1]


def _statements(typed: str) -> Iterator[str]:
    """The commands in a typed or pasted text: one in each line, except that a quoted text may have line breaks."""
    lines = typed.splitlines()
    while lines:
        for end in range(1, len(lines) + 1):
            with contextlib.suppress(ValueError):  # a quote is not closed
                shlex.split("\n".join(lines[:end]), comments=True)
                break
        else:
            end = 1
        yield "\n".join(lines[:end])
        del lines[:end]


class Shell:
    """The commands of a shell, and the workspace that they work on."""

    def __init__(self, shell_workspace: ShellWorkspace) -> None:
        self.workspace = shell_workspace
        self.over = False
        """Whether `exit` was typed."""
        self.lines: Callable[[], Iterable[str]] = tuple
        """The lines that were typed before, the oldest first."""
        self.commands = self._commands()

    def execute(self, line: str) -> int:
        """Run the command in a line, and return its exit code."""
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

    def blackboard(self, process_id: str | None = None, /, *, format: Format = "text") -> None:
        """List the objects of a process of this shell, by default of the last run: its inputs, and what was made."""
        last = self.workspace.last
        if process_id is not None:
            last = None
            for each in self.workspace.open:
                with contextlib.suppress(UnknownName):
                    last = self.workspace.runner.run(each.platform.processes.peek(process_id))
            if last is None:
                raise UnknownName("process", process_id, None)
        if last is None:
            raise BadInput("Nothing has run yet.")
        board = last.blackboard.state
        names = {id(entry): name for name, entry in board.names.items() if name != "it"}
        records: list[Record] = []
        for each in board.entries:
            value = one_line(hide(repr(each.value)), _VALUE)
            records.append({"type": type_label(type(each.value)), "name": names.get(id(each), ""), "value": value})
        show(records, format, none="The blackboard is empty.")

    def history(self, *, limit: Annotated[int, Parameter(help="How many at most. Default: 20.")] = 20) -> None:
        """List the last lines with their numbers; `!7` runs the line 7 again, and `!!` the last one."""
        if limit < 1:
            raise BadInput(f"Expected --limit to be 1 or more, but got {limit}.")
        show_lines(f"{number:>5}  {line}" for number, line in [*enumerate(self.lines(), start=1)][-limit:])

    def reload(self) -> None:
        """Load the workspace again: its agents, tools, settings and commands, as they are now."""
        shell_workspace = self.workspace
        fresh = open_with_warnings(Path(), anew=True)
        shell_workspace.close()
        shell_workspace.loaded, shell_workspace.last = fresh, None
        self.commands = self._commands()
        say(f"Loaded. Agents: {len(fresh.platform.agents)}.")

    def help(self, command: Annotated[str | None, Parameter(help="A command to explain.")] = None, /) -> None:
        """List the commands, or explain one."""
        if command is not None and command not in self.commands:
            raise BadInput(unknown_command(command, self.commands))
        words = [] if command is None else [command]
        use_docstring(words, self.commands)
        self.commands.help_print(words)

    def exit(self) -> None:
        """Leave the shell."""
        self.over = True

    def _commands(self) -> App:
        commands = App(
            name="",
            usage="Usage: COMMAND [OPTIONS]",
            help="Commands of this shell.",
            help_format="plaintext",
            version_flags=[],
            help_flags=["--help"],
            default_parameter=OPTIONS,
            suppress_keyboard_interrupt=False,
        )
        commands["--help"].show = False
        commands.update(program)
        for name in (*_ALONE, "--version", "-h"):
            if name in commands:
                del commands[name]
        again = "Run what a sentence asks for; as run."
        commands.command("goalport.cli.run:run", name=("execute", "x"), help=again, group=GROUPS["Start"])
        commands.command(self.blackboard, help="List the objects of the last run.", group=GROUPS["Look"])
        commands.command(self.history, help="List the last lines.", group=_SHELL)
        commands.command(self.reload, help="Load the workspace again.", group=_SHELL)
        commands.command(self.help, help="List the commands, or explain one.", group=_SHELL)
        commands.command(self.exit, name=("exit", "quit"), help="Leave the shell.", group=_SHELL)
        for each in self.workspace.loaded.workspace.commands():
            if each.name in commands:
                say(f"warning: the command {each.name} of this workspace has a name that the shell uses; rename it.")
            else:
                commands.command(
                    _bound(each, self.workspace), name=each.name, group=_ADDED, default_parameter=_OWN_OPTIONS
                )
        return commands

    async def find_completions(self, text: str) -> tuple[str, Iterable[str]]:
        """The completion of a line: the typed part of its last word, and all words that may be there."""
        try:
            words = shlex.split(text)
        except ValueError:  # a text in quotes is being typed
            return "", ()
        begun = "" if not words or text[-1:].isspace() else words.pop()
        commands = self.commands
        while words and words[0] in commands:
            commands = commands[words.pop(0)]
        if names := _names_in(commands):
            return begun, [] if words else names
        arguments = commands.assemble_argument_collection()
        if begun.startswith("-"):
            return begun, sorted(name for each in arguments for name in each.names if name.startswith("--"))
        taking = {name: each for each in arguments for name in each.names if each.token_count()[0]}
        place, wanted = 0, None
        for word in words:
            if wanted is not None:
                wanted = None
            elif word.startswith("-"):
                wanted = taking.get(word)
            else:
                place += 1
        placed = (each for each in arguments if each.index == place and not all(n.startswith("-") for n in each.names))
        wanted = wanted or next(placed, None)
        if wanted is None:
            return begun, ()
        return begun, wanted.get_choices(force=True) or await self._names(wanted.field_info.name)

    async def _names(self, parameter: str) -> Iterable[str]:
        """The values that are offered for a parameter of this name in the function of a command."""
        platform = self.workspace.loaded.platform
        match parameter:
            case "goal":
                offered = {each.name for each in offers_of(platform) if isinstance(each, Offer)}
                return sorted(offered | {goal.short_name for _, goal in platform.agents.goals})
            case "agent":
                return sorted(each.name for each in platform.agents)
            case "chatbot":
                return sorted(platform.chatbots)
            case "command":
                return _names_in(self.commands)
            case "process_id" | "conversation" | "conversation_id":
                return await self._ids(of_processes=parameter == "process_id")
            case _:
                return ()

    async def _ids(self, *, of_processes: bool) -> Sequence[str]:
        """The ids of processes or conversations, of this shell and of the store of the workspace."""
        shell_workspace, ids = self.workspace, list[str]()
        if of_processes:
            ids += [
                each.id for one in shell_workspace.open for each in reversed(await one.platform.processes.records())
            ]
        else:
            ids += [each.id for each in await shell_workspace.loaded.platform.conversations.list(READER, limit=_IDS)]
        settings = load_settings(shell_workspace.loaded.workspace.root)
        with contextlib.suppress(GoalportError):  # the command itself tells what is wrong
            if has_store(settings):
                async with open_store(settings) as store:
                    if of_processes:
                        ids += [each.id for each in await store.records(limit=_IDS, newest_first=True)]
                    else:
                        ids += [each.id for each in await store.conversations.list(limit=_IDS)]
        return ids


def _bound(command: Command, shell_workspace: ShellWorkspace) -> Callable[..., None]:
    """A function of a workspace as a command: services fill its parameters, and its result is printed."""
    function, platform = command.function, shell_workspace.loaded.platform
    hints, signature = get_type_hints(function, include_extras=True), inspect.signature(function)
    services: dict[str, object] = {}
    for name in signature.parameters:
        kind = hints.get(name)
        if isinstance(kind, type) and kind is not object and (service := platform.service(kind)) is not None:
            services[name] = service
    own = signature.replace(parameters=[each for name, each in signature.parameters.items() if name not in services])

    async def awaited(call: inspect.BoundArguments) -> object:
        await platform.upstream.open()
        return await function(*call.args, **call.kwargs)

    def run(*arguments: Any, **named: Any) -> None:
        values = {**own.bind(*arguments, **named).arguments, **services}
        ordered = OrderedDict((name, values[name]) for name in signature.parameters if name in values)
        call = inspect.BoundArguments(signature, ordered)
        is_async = inspect.iscoroutinefunction(function)
        result = shell_workspace.runner.run(awaited(call)) if is_async else function(*call.args, **call.kwargs)
        if isinstance(result, str):
            show_markdown(result)
        elif result is not None:
            try:
                show_result(OutputFormat.of(type(cast("object", result))).written(result).wire, structured=False)
            except DeclarationError:  # JSON cannot express it
                show_lines([str(result)])

    run.__signature__ = own
    run.__annotations__ = {name: hint for name, hint in hints.items() if name not in services}
    run.__doc__, run.__name__ = function.__doc__, function.__name__
    return run


def _names_in(commands: App) -> Sequence[str]:
    return sorted(each for each in commands if not each.startswith("-"))
