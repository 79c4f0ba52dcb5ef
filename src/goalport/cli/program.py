"""The program: its commands, and how errors are shown to the person who typed a command.

Commands are named by import path, so that `goalport --help` loads none of them. An error is one line on standard error
that says what to do next; a traceback is shown only with `--debug`.
"""

import gc
import os
import sys
import threading
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Group, UnknownCommandError, UnknownOptionError, UnusedCliTokensError

from goalport import __version__
from goalport.base.colours import coloured
from goalport.base.errors import BadInput, GoalportError, UnknownName
from goalport.base.secrecy import traceback_of
from goalport.base.words import offer, visible
from goalport.cli.options import DEBUG

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130
"""The exit codes: success, a failure, wrong usage, stopped with Ctrl-C."""
_THREAD_SECONDS = 0.5
"""How long a thread is given to end by itself."""
_NEW_OBJECTS = 300_000
"""How many objects are made before garbage is looked for: importing libraries makes many, and leaves little garbage."""

EXAMPLES = """\
Examples:
  goalport new my-agents          make a workspace with an example agent
  goalport serve                  serve the workspace in the current folder
  goalport run "Greet Ada"
  goalport connect cursor         print what a client needs to connect

Options and examples of one command: goalport COMMAND --help.
With --debug, errors are printed with their traceback. With --profile NAME, server/settings.NAME.toml precedes
server/settings.toml."""

START = Group("Start", sort_key=1)
LOOK = Group("Look", sort_key=2)
SERVE = Group("Serve", sort_key=3)
PROCESSES = Group("Processes", sort_key=4)
DOCUMENTS = Group("Documents", sort_key=5)
OPTIONS = Group("Options", sort_key=6)

app = App(
    name="goalport",
    help="Plan and run typed agents, and publish their goals as MCP tools.",
    help_epilogue=EXAMPLES,
    # Loading a Markdown parser would take a quarter of a second in every command.
    help_format="plaintext",
    version=__version__,
    suppress_keyboard_interrupt=False,
)
for flag in ("--help", "--version"):
    app[flag].group = OPTIONS


def _command(name: str, target: str, help_line: str, group: Group, *examples: str, usage: str | None = None) -> None:
    """Add a command; `usage` is its first line of help, where Cyclopts calls optional arguments `[ARGS]`."""
    shown = "\n".join(("Examples:", *(f"  {example}" for example in examples)))
    app.command(f"goalport.cli.{target}", name=name, help=help_line, group=group, help_epilogue=shown, usage=usage)


_command(
    "new",
    "new:new",
    "Make a workspace with an example agent, ready to serve.",
    START,
    "goalport new my-agents",
    "cd my-agents && goalport serve",
)
_command(
    "check",
    "check:check",
    "Report what is wrong with the workspace; nothing runs.",
    LOOK,
    "goalport check",
    "goalport check --workspace my-agents --format json",
)
_command(
    "agents",
    "listings:agents",
    "List the agents.",
    LOOK,
    "goalport agents",
    "goalport agents --format json",
)
_command(
    "goals",
    "listings:goals",
    "List the goals and the tool names under which they are published.",
    LOOK,
    "goalport goals",
    "goalport goals --agent StarNewsFinder",
)
_command(
    "actions",
    "listings:actions",
    "List the actions: what each needs and produces.",
    LOOK,
    "goalport actions",
    "goalport actions --agent StarNewsFinder --format json",
)
_command(
    "conditions",
    "listings:conditions",
    "List the conditions: what decides each, and which actions ask for it.",
    LOOK,
    "goalport conditions",
    "goalport conditions --agent WriteAndReview --format json",
)
_command(
    "models",
    "listings:models",
    "List the language models: their roles, and what is missing to use them.",
    LOOK,
    "goalport models",
    "goalport models --format json",
)
_command(
    "settings",
    "settings:settings",
    "List the settings: their values, and where each is from.",
    LOOK,
    "goalport settings --set",
    "goalport settings --profile production --format json",
)
app.command(
    "goalport.cli.tools:app",
    name="tools",
    help="List tool groups, upstream servers and tools; call or trust a tool.",
    group=LOOK,
)
app.command(
    "goalport.cli.tools:mcp", name="mcp", help="Try to connect to the upstream servers of mcp_config.json.", group=LOOK
)
_command(
    "plan",
    "plan:plan",
    "Explain which actions reach a goal, or why none do.",
    LOOK,
    "goalport plan find_star_news",
    "goalport plan find_star_news --given UserInput --given StarPerson",
    "goalport plan find_star_news --format mermaid",
)
_command(
    "run",
    "run:run",
    "Run what a sentence asks for, or a goal, in this terminal.",
    START,
    'goalport run "Lynda is a Scorpio, find news for her"',
    'goalport run "Lynda is a Scorpio, find news for her" -p -r --open',
    """goalport run greet --input '{"content": "Ada"}'""",
    "goalport run --goal greet --input @person.json --json",
    "echo '{}' | goalport run --goal report_repository --input @-",
)
_command(
    "chat",
    "chat:chat",
    "Talk to a chatbot, in this terminal or in a pipe.",
    START,
    "goalport chat",
    "goalport chat Support --continue",
    'goalport chat -m "Where is my parcel?" -m "And when does it come?"',
    "goalport chat --conversation solid-tern-ba45d2e65dad",
    usage="Usage: goalport chat [OPTIONS] [CHATBOT]",
)
_command(
    "shell",
    "shell:shell",
    "Open a prompt for these commands; the workspace stays loaded.",
    START,
    "goalport shell",
    "echo 'goals' | goalport shell --workspace my-agents",
)
_command(
    "serve",
    "serve:serve",
    "Serve the workspace to MCP clients.",
    SERVE,
    "goalport serve",
    "goalport serve --port 9000 --reload",
    "goalport serve --host 0.0.0.0 --allowed-host agents.example.com --stateless",
    "goalport serve --workers 4",
    "goalport serve --transport stdio",
)
_command(
    "backup",
    "backup:backup",
    "Copy all that a server keeps, while it runs.",
    SERVE,
    "goalport backup /var/backups/goalport/monday",
    usage="Usage: goalport backup [OPTIONS] PLACE",
)
app.command("goalport.cli.keys:keys", name="keys", help="Make, list, replace and revoke API keys.", group=SERVE)
_command(
    "ingest",
    "documents:ingest",
    "Take in documents, so that they can be searched.",
    DOCUMENTS,
    "goalport ingest docs handbook.pdf",
    "goalport ingest https://example.com/guide.html --refresh 1d",
    "goalport ingest docs --watch",
    usage="Usage: goalport ingest [OPTIONS] PLACES",
)
app.command("goalport.cli.documents:rag", name="rag", help="Search, list and remove documents.", group=DOCUMENTS)
_command(
    "references",
    "references:references",
    "List the references of the workspace, and what a model is told of one.",
    DOCUMENTS,
    "goalport references",
    "goalport references --read handbook",
)
app.command("goalport.cli.skills:skills", name="skills", help="Check, list and trust skills.", group=DOCUMENTS)
_command(
    "ps",
    "processes:ps",
    "List processes, the newest first.",
    PROCESSES,
    "goalport ps",
    "goalport ps --all --limit 20",
    "goalport ps --status waiting --json",
    "goalport ps --server http://127.0.0.1:8080",
)
_command(
    "show",
    "processes:show",
    "Show a process: its history, plan and questions, and who runs it.",
    PROCESSES,
    "goalport show 0192f0c3",
    "goalport show 0192f0c3 --json",
    "goalport show 0192f0c3 --events --server https://agents.example.com",
)
_command(
    "answer",
    "answering:answer",
    "Answer a question of a process.",
    PROCESSES,
    "goalport answer 0192f0c3",
    "goalport answer 0192f0c3 true",
    """goalport answer 0192f0c3 '{"budget": 100}' --wait""",
    "goalport answer 0192f0c3 --decline 'Too expensive'",
    usage="Usage: goalport answer [OPTIONS] ID [ANSWER]",
)
_command(
    "resume",
    "answering:resume",
    "Go on with a process after an action was interrupted that may not be repeated.",
    PROCESSES,
    "goalport resume 0192f0c3 --retry",
    "goalport resume 0192f0c3 --skip --wait",
)
_command(
    "kill",
    "answering:kill",
    "End a process.",
    PROCESSES,
    "goalport kill 0192f0c3",
    "goalport kill 0192f0c3 --reason 'Started by mistake'",
)
_command(
    "erase",
    "erase:erase",
    "Erase all that one caller left, or one process, for good.",
    PROCESSES,
    "goalport erase --caller ada --dry-run",
    "goalport erase --caller ada",
    "goalport erase --process 0192f0c3",
)
_command(
    "export",
    "processes:export",
    "Write all that is stored of a process as JSON, without secrets.",
    PROCESSES,
    "goalport export 0192f0c3 --output tests/trip.json",
)
app.command(
    "goalport.cli.conversations:conversations",
    name="conversations",
    help="List, search, show, rename, export and delete conversations.",
    group=PROCESSES,
)
_command(
    "prune",
    "processes:prune",
    "Drop processes that have ended from the store.",
    PROCESSES,
    "goalport prune --older-than 30d",
    "goalport prune --keep 1000",
)
_command(
    "upgrade",
    "processes:upgrade",
    "Change the store of processes to what this version needs.",
    PROCESSES,
    "goalport upgrade",
)
_command(
    "audit",
    "audit:audit",
    "Print who called, answered, approved and ended what.",
    SERVE,
    "goalport audit --since 24h",
    "goalport audit --caller anna --deed approved",
)
_command(
    "connect",
    "connect:connect",
    "Print a client's configuration for this server, or write it.",
    SERVE,
    "goalport connect",
    "goalport connect cursor",
    "goalport connect claude-desktop --write",
    "goalport connect vscode --transport http --url https://agents.example.com/mcp",
    usage="Usage: goalport connect [OPTIONS] [CLIENT]",
)


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
    """Run one command, print errors, and return the exit code; `commands` are those of the program, or of a shell."""
    debug = "--debug" in words
    DEBUG.set(debug)
    try:
        given = _without_profile([word for word in words if word != "--debug"])
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
        return _print_error(_error_text(error), MISUSED if isinstance(error, BadInput | UnknownName) else FAILED)
    return code if isinstance(code, int) else DONE


def _without_profile(words: Sequence[str]) -> list[str]:
    """The words without `--profile NAME`, whose name is put into the environment: workers are to have it too."""
    found = [each for each, word in enumerate(words) if word == "--profile" or word.startswith("--profile=")]
    if not found or "--" in words[: found[0]]:
        return list(words)
    option, _, name = words[found[0]].partition("=")
    after = found[0] + (1 if name else 2)
    os.environ["GOALPORT_PROFILE"] = name or "".join(words[found[0] + 1 : after])
    if not os.environ["GOALPORT_PROFILE"]:
        raise BadInput(f"Expected a name after {option}: that of server/settings.NAME.toml.")
    return [*words[: found[0]], *words[after:]]


def _usage_mistake(mistake: CycloptsError, known: App) -> str:
    if isinstance(mistake, UnknownCommandError) and mistake.unused_tokens:
        # Cyclopts's own message would import every command to find hidden ones.
        name, commands = mistake.unused_tokens[0], [each for each in known if not each.startswith("-")]
        return f"There is no command {name!r}. {offer(name, commands)}"
    program = app.name if known is app else ()  # in a shell its name is not typed
    if isinstance(mistake, UnusedCliTokensError) and mistake.unused_tokens:
        told = f"Nothing takes {mistake.unused_tokens[0]!r}. A text of several words is put between quotes."
    else:
        told = str(mistake)
        if isinstance(mistake, UnknownOptionError) and _may_be_text(mistake.token.keyword or mistake.token.value):
            told += " If it is a text, write -- before it, and options before that."
    return f"{told} See {' '.join((*program, *(mistake.command_chain or ())))} --help."


def _may_be_text(word: str) -> bool:
    """Whether a word that begins with a hyphen looks more like a text than like an option that is spelled wrongly."""
    return " " in word or not word.startswith("--")


def _error_text(error: Exception) -> str:
    if isinstance(error, GoalportError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    first = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first} (Goalport did not expect this; --debug shows where it is from.)"


def _print_error(message: str, code: int) -> int:
    print(coloured(f"error: {visible(message.strip())}", sys.stderr), file=sys.stderr)
    return code
