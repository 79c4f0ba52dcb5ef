"""The program: its commands, and how errors are shown to the person who typed a command.

Commands are named by import path, so that `goalport --help` loads none of them. An error is one line on standard error
that says what to do next; a traceback is shown only with `--debug`.
"""

import gc
import inspect
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from textwrap import dedent, indent
from typing import Final

from cyclopts import (
    App,
    CycloptsError,
    Group,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from goalport import __version__
from goalport.base.colours import coloured
from goalport.base.errors import BadInput, GoalportError, UnknownName
from goalport.base.secrecy import traceback_of
from goalport.base.words import did_you_mean, nearest, visible
from goalport.cli.options import DEBUG, DONE, FAILED, INTERRUPTED, MISUSED

_THREAD_SECONDS = 0.5
"""Seconds in which a thread may end by itself when the program exits."""
_NEW_OBJECTS = 300_000
"""New objects before the garbage collector runs: importing libraries creates many objects and little garbage."""

_EPILOGUE = """\
Examples:
  goalport new my-agents          make a workspace with an example agent
  goalport serve                  serve the workspace in the current folder
  goalport run "Greet Ada"
  goalport connect cursor         print what a client needs to connect

Options and examples of one command: goalport COMMAND --help.
With --debug, errors are printed with their traceback.
With --profile NAME, server/settings.NAME.toml precedes server/settings.toml.

Exit codes: 0 it is done, 1 it failed or something is wrong, 2 wrong usage or an
input that does not fit, 3 no agent or goal fits the sentence (of run alone),
130 stopped with Ctrl-C."""

_COMMANDS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Start": {
        "new": ("new:new", "Make a workspace with an example agent, ready to serve."),
        "run": ("run:run", "Run what a sentence asks for, or a goal, in this terminal."),
        "chat": ("chat:chat", "Talk to a chatbot, in this terminal or in a pipe."),
        "shell": ("shell:shell", "Open a prompt for these commands; the workspace stays loaded."),
    },
    "Look": {
        "check": ("listings:check", "Report what is wrong with the workspace; nothing runs."),
        "agents": ("listings:agents", "List the agents."),
        "goals": ("listings:goals", "List the goals and the tool names under which they are published."),
        "actions": ("listings:actions", "List the actions: what each needs and produces."),
        "conditions": ("listings:conditions", "List the conditions: what decides each, and who asks for it."),
        "models": ("listings:models", "List the language models: their roles, and what is missing to use them."),
        "settings": ("listings:settings", "List the settings: their values, and where each is from."),
        "tools": ("tools:app", "List tool groups, upstream servers and tools; call or trust a tool."),
        "mcp": ("", "Try to connect to the upstream servers of mcp_config.json."),
        "mcp check": ("tools:check", "Connect to each server of mcp_config.json."),
        "plan": ("plan:plan", "Explain which actions reach a goal, or why none do."),
    },
    "Serve": {
        "serve": ("serve:serve", "Serve the workspace to MCP clients."),
        "connect": ("connect:connect", "Print a client's configuration for this server, or write it."),
        "keys": ("", "Make, list, replace and revoke API keys."),
        "keys new": ("keys:new", "Make a key and print it."),
        "keys list": ("keys:list_keys", "List the keys."),
        "keys rotate": ("keys:rotate", "Replace a key; the earlier one ends after a while."),
        "keys revoke": ("keys:revoke", "Revoke a key, or all keys of a name."),
        "audit": ("upkeep:audit", "Print who called, answered, approved and ended what."),
        "backup": ("upkeep:backup", "Copy all that a server keeps, while it runs."),
    },
    "Processes": {
        "ps": ("processes:ps", "List processes, the newest first."),
        "show": ("processes:show", "Show a process: its history, plan and questions, and who runs it."),
        "answer": ("processes:answer", "Answer a question of a process."),
        "resume": ("processes:resume", "Go on after an action was interrupted that may not be repeated."),
        "kill": ("processes:kill", "End a process."),
        "export": ("upkeep:export", "Write all that is stored of a process as JSON, without secrets."),
        "conversations": ("", "List, search, show, rename, export and delete conversations."),
        "conversations list": ("conversations:list_conversations", "List conversations, the last continued first."),
        "conversations search": ("conversations:search", "List the conversations in which these words are."),
        "conversations show": ("conversations:show_conversation", "Show what was said in a conversation."),
        "conversations rename": ("conversations:rename", "Give a conversation a title."),
        "conversations export": ("conversations:export", "Write a conversation as Markdown or JSON."),
        "conversations delete": ("conversations:delete", "Delete conversations with all their messages, for good."),
        "erase": ("upkeep:erase", "Erase all that one caller left, or one process, for good."),
        "prune": ("upkeep:prune", "Drop processes that have ended from the store."),
        "upgrade": ("upkeep:upgrade", "Change the store of processes to what this version needs."),
    },
    "Documents": {
        "ingest": ("documents:ingest", "Take in documents, so that they can be searched."),
        "rag": ("", "Search, list and remove documents."),
        "rag search": ("documents:search", "Search the documents that were taken in."),
        "rag list": ("documents:list_documents", "List the documents that were taken in."),
        "rag remove": ("documents:remove", "Remove documents, with all that is stored of them."),
        "rag reembed": ("documents:reembed", "Make the vectors of all documents anew."),
        "references": ("listings:references", "List the references of the workspace, and what a model is told of one."),
        "skills": ("", "Check, list and trust skills."),
        "skills check": ("documents:check_skills", "Say what in skills is not as the specification wants it."),
        "skills list": ("documents:list_skills", "List the skills of the workspace and of the project."),
        "skills trust": ("documents:trust_skills", "Trust skills that a project brings, as they are now."),
    },
}
"""The commands by group, each with its module and function in this wing, and its line in the list of commands.

A command without a function only has subcommands. The docstring of a function is its `--help`.
"""
GROUPS: Final = {name: Group(name, sort_key=number) for number, name in enumerate([*_COMMANDS, "Options"], start=1)}
OPTIONS: Final = Parameter(negative="", show_default=False)
"""The settings of all options: flags have no opposite (`--no-…`), and the text of the help itself says the default."""


def _program() -> App:
    program = App(
        name="goalport",
        help="Plan and run typed agents, and publish their goals as MCP tools.",
        help_epilogue=_EPILOGUE,
        # Loading a Markdown parser would take a quarter of a second in every command.
        help_format="plaintext",
        version=__version__,
        default_parameter=OPTIONS,
        suppress_keyboard_interrupt=False,
    )
    for flag in ("--help", "--version"):
        program[flag].group = GROUPS["Options"]
    for group, commands in _COMMANDS.items():
        for words, (target, line) in commands.items():
            above, _, name = words.rpartition(" ")
            parent, place = (program[above], None) if above else (program, GROUPS[group])
            if target:
                parent.command(f"goalport.cli.{target}", name=name, help=line, group=place)
            else:
                parent.command(App(name=name, help=line, group=place, help_format="plaintext", help_epilogue=""))
    return program


app: Final = _program()


def main() -> None:
    """Run the command of this process's command line, and exit."""
    gc.set_threshold(_NEW_OBJECTS)
    code = execute(sys.argv[1:])
    # At exit, Python looks for garbage among all objects that are not frozen: a third of the time of a short command.
    gc.freeze()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(_THREAD_SECONDS)
            if thread.is_alive():
                # An abandoned `def` action still runs in its thread, for which Python would wait.
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
    sys.exit(code)


def execute(words: Sequence[str], commands: App = app) -> int:
    """Run one command, print its error, and return the exit code; `commands` are those of the program or of a shell."""
    debug = "--debug" in words
    DEBUG.set(debug)
    try:
        given = _without_profile([word for word in words if word != "--debug"])
        if (named := [word for word in given if word not in {"--help", "-h"}]) != given:
            use_docstring(named, commands)
        code = commands(given, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()  # flushed here, where a closed pipe is handled
    except CycloptsError as mistake:
        return _print_error(_usage_mistake(mistake, commands), MISUSED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has ended; without this, Python would report another error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        if debug:
            sys.stderr.write(visible(traceback_of(error)))
            return FAILED
        told = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            told = f"{error.filename}: {error.strerror}."
        elif not isinstance(error, GoalportError):
            first = f"{type(error).__name__}: {'' if not told else told.splitlines()[0]}"
            told = f"{first} (Goalport did not expect this; --debug shows where it is from.)"
        return _print_error(told, MISUSED if isinstance(error, BadInput | UnknownName) else FAILED)
    return code if isinstance(code, int) else DONE


def use_docstring(words: Sequence[str], commands: App) -> None:
    """Set the help of the command in `words` to its function's docstring, with the examples below the options."""
    chain, apps, _ = commands.parse_commands(words)
    command = apps[-1]
    if not chain or command.default_command is None:
        return
    text, _, examples = (inspect.getdoc(command.default_command) or "").partition("Examples:\n")
    paragraphs = text.partition("\nArgs:\n")[0].split("\n\n")
    command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    if examples:
        command.help_epilogue = f"Examples:\n{indent(dedent(examples), '  ')}"
    # Cyclopts calls optional arguments [ARGS].
    placed = [each for each in command.assemble_argument_collection() if each.field_info.is_positional]
    names = [each.name if each.required else f"[{each.name}]" for each in placed]
    command.usage = " ".join(["Usage:", *filter(None, commands.name), *chain, "[OPTIONS]", *names])


def _without_profile(words: Sequence[str]) -> list[str]:
    """The words without `--profile NAME`; the name is put into the environment, from which workers inherit it."""
    found = [each for each, word in enumerate(words) if word == "--profile" or word.startswith("--profile=")]
    if not found or "--" in words[: found[0]]:
        return list(words)
    option, _, name = words[found[0]].partition("=")
    after = found[0] + (1 if name else 2)
    os.environ["GOALPORT_PROFILE"] = name or "".join(words[found[0] + 1 : after])
    if not os.environ["GOALPORT_PROFILE"]:
        raise BadInput(f"Expected a name after {option}: that of server/settings.NAME.toml.")
    return [*words[: found[0]], *words[after:]]


def _usage_mistake(mistake: CycloptsError, commands: App) -> str:
    if isinstance(mistake, UnknownCommandError) and mistake.unused_tokens:
        # Cyclopts's own message would import every command to find hidden ones.
        for each in mistake.command_chain or ():
            commands = commands[each]
        return unknown_command(mistake.unused_tokens[0], commands)
    program = app.name if commands is app else ()  # in a shell its name is not typed
    if isinstance(mistake, UnusedCliTokensError) and mistake.unused_tokens:
        told = f"Nothing takes {mistake.unused_tokens[0]!r}. A text of several words is put between quotes."
    else:
        told = str(mistake)
        word = (mistake.token.keyword or mistake.token.value) if isinstance(mistake, UnknownOptionError) else ""
        if " " in word or (word and not word.startswith("--")):  # it looks like a text, not like a misspelled option
            told += " If it is a text, write -- before it, and options before that."
    return f"{told} See {' '.join((*program, *(mistake.command_chain or ())))} --help."


def unknown_command(name: str, commands: App) -> str:
    """The text for an unknown command: it names the nearest command, or all of them by their groups."""
    names = [each for each in commands if not each.startswith("-")]
    told = f"There is no command {name!r}."
    if near := nearest(name, names):
        return f"{told} {did_you_mean(near)}"
    if "run" not in names:  # those below another command have no groups
        return f"{told} Known: {', '.join(names)}."
    groups = {group: [each for each in names if each in known] for group, known in _COMMANDS.items()}
    groups["Other"] = [each for each in names if not any(each in known for known in _COMMANDS.values())]
    lines = [f"  {group + ':':<11}{', '.join(known)}" for group, known in groups.items() if known]
    return "\n".join([f"{told} Known:", *lines])


def _print_error(message: str, code: int) -> int:
    print(coloured(f"error: {visible(message.strip())}", sys.stderr), file=sys.stderr)
    return code
