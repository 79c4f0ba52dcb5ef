"""`goalport chat`: talk to a chatbot of the workspace, or of a running server, on the terminal or in a pipe.

The conversation is stored, and can be continued here and over every other door.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from cyclopts import Parameter

from goalport.base.errors import BadInput, GoalportError
from goalport.base.secrecy import hide
from goalport.base.words import listed
from goalport.cli.chat_prompt import command_lines, read_line
from goalport.cli.chat_replies import Replies
from goalport.cli.chat_view import ChatView
from goalport.cli.chats_here import ChatsHere
from goalport.cli.dialogues import Chats, Dialogue, Reply
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.processes import read_answer
from goalport.cli.prompts import Interrupted, Option, Unanswered, prompts_here
from goalport.cli.sources import runner_here
from goalport.cli.stored import driven
from goalport.cli.terminal import say, show, show_lines, show_markdown
from goalport.cli.transcripts import transcript
from goalport.cli.workspace import LoadedWorkspace, kept_in_memory
from goalport.runtime.platform.workspace_parts import choosing_chatbot
from goalport.workspace.settings import Settings, load_settings


class Messages(Protocol):
    """Gives one message or command after the other."""

    def next(self, default: str = "") -> str:
        """The next one; `default` is there to be edited. Raises `Unanswered` at the end, and `Interrupted`."""
        ...


def messages_here(runner: asyncio.Runner, history: Path | None, chats: Chats) -> Messages:
    """What a person types at the terminal; without one, the lines of standard input.

    `history` is the file with what was typed before; None: it is kept in memory. The names of `chats` are completed.
    """
    if not sys.stdin.isatty():
        return _PipedMessages()
    # Imported here, because its library takes a quarter of a second to load.
    from goalport.cli.chat_prompt import TypedMessages

    return TypedMessages(runner, history, chats)


class GivenMessages:
    """Messages that are known from the beginning."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = iter(texts)

    def next(self, default: str = "") -> str:
        for each in self._texts:
            return each
        raise Unanswered


class _PipedMessages:
    """A message in each line of standard input; a line that ends with a backslash goes on in the next one."""

    def next(self, default: str = "") -> str:
        text = ""
        while line := sys.stdin.readline():
            text += line.rstrip("\r\n")
            if not text.endswith("\\"):
                return text
            text = f"{text[:-1]}\n"
        if not text:
            raise Unanswered
        return text


_HISTORY = "chat_history"
_ALL = "all"
"""The name of the chatbot where there is no other: as in `chatbot = "all"`, by which a server goes on with it."""
_NO_CHATBOT = (
    'There is no chatbot here. Mark a class with @chatbot, or write chatbot = "all" in the settings: then each'
    " message goes to the agent that fits it best. docs/chat.md shows how."
)


def chat(
    chatbot: Annotated[str | None, Parameter("CHATBOT")] = None,
    /,
    *,
    messages: Annotated[tuple[str, ...], Parameter(("--message", "-m"), allow_leading_hyphen=True)] = (),
    conversation: Annotated[str | None, Parameter(("--conversation", "-c"))] = None,
    continued: Annotated[bool, Parameter("--continue")] = False,
    new: bool = False,
    model: str | None = None,
    structured: Annotated[bool, Parameter("--json")] = False,
    quiet: Annotated[bool, Parameter(("--quiet", "-q"))] = False,
    server: str | None = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Talk to a chatbot. What it asks is asked on the terminal; Ctrl-C stops a reply, Ctrl-D leaves.

    Without a terminal, the exit code is 1 if something failed or a question is open.

    Parameters
    ----------
    chatbot
        Its name; needed if there are several, except with --continue and -c.
    messages
        Say this and leave; repeat it for more. - reads a message from standard input.
    conversation
        Go on with the conversation of this id.
    continued
        Go on with your last one.
    new
        Begin a new one, as without the other options; with --conversation, under that id.
    model
        The model to ask where a chatbot names none.
    structured
        Print each reply as a line of JSON.
    quiet
        Do not show steps and tools.
    server
        A running server, over AG-UI; the key in GOALPORT_KEY is sent along. Default: the workspace.

    Examples:
        goalport chat
        goalport chat Support --continue
        goalport chat -m "Where is my parcel?" -m "And when does it come?"
        goalport chat --conversation solid-tern-ba45d2e65dad
    """
    if continued and (new or conversation is not None):
        raise BadInput("--continue goes on with your last conversation, so leave out --conversation and --new.")
    if server is not None and model is not None:
        raise BadInput("A server has models of its own. Leave out --model.")
    given = [_text(each) for each in messages]
    models = {} if model is None else {"models": {"default_llm": model}}
    settings = load_settings(workspace_root(workspace), **models)
    place = "" if workspace == Path() else f" --workspace {workspace}"
    with runner_here() as runner, _served(server, runner) if server else _chats(settings, place, runner) as chats:
        dialogue = _dialogue(chats, runner, chatbot, conversation, continued=continued, new=new)
        kept = server is None or settings.data_dir.exists()
        history = settings.data_dir / _HISTORY if kept else None
        said = GivenMessages(given) if given else messages_here(runner, history, chats)
        view = ChatView(steps=not quiet, texts=not structured)
        attended = sys.stdin.isatty() and not messages
        return ChatLoop(chats, dialogue, Replies(runner, view, attended=attended, structured=structured), said).run()


@contextmanager
def _chats(settings: Settings, place: str, runner: asyncio.Runner) -> Generator[Chats]:
    """The chatbots of a workspace. Where nothing is stored, a shell lends those that it has."""
    kept = kept_in_memory(settings)
    if kept is not None:
        yield ChatsHere(_with_chatbot(kept), place)
        return
    stack = AsyncExitStack()
    loaded = runner.run(stack.enter_async_context(driven(settings, drive=True)))
    try:
        yield ChatsHere(_with_chatbot(loaded), place)
    finally:
        runner.run(stack.aclose())


def _with_chatbot(loaded: LoadedWorkspace) -> LoadedWorkspace:
    """The workspace with a chatbot: where it has none, one that chooses an agent for each message."""
    platform = loaded.platform
    if not platform.chatbots and any(each.goals for each in platform.agents):
        open_mode = loaded.settings.front_tool == "open"
        platform.deploy(choosing_chatbot(_ALL, platform.autonomy, open_mode=open_mode, published=False))
    return loaded


@contextmanager
def _served(address: str, runner: asyncio.Runner) -> Generator[Chats]:
    """The chatbots of a server."""
    # Imported here, because an HTTP client takes a while to load.
    from goalport.cli.chats_served import ChatsServed
    from goalport.cli.server_client import ServerClient

    stack = AsyncExitStack()
    server = runner.run(stack.enter_async_context(ServerClient(address).connected()))
    try:
        yield runner.run(ChatsServed.at(server, f" --server {hide(address)}"))
    finally:
        runner.run(stack.aclose())


def _dialogue(
    chats: Chats, runner: asyncio.Runner, chatbot: str | None, conversation: str | None, *, continued: bool, new: bool
) -> Dialogue:
    """The conversation that the options say."""
    names = [*chats.chatbots]
    name = chatbot or (names[0] if len(names) == 1 else "")
    if continued:
        conversation = runner.run(chats.latest(chatbot or ""))
        if not conversation:
            raise BadInput("There is no conversation of yours to go on with. Leave out --continue to begin one.")
    if conversation is None or new:
        return runner.run(chats.begin(name or _chosen(chats, runner), conversation or ""))
    dialogue = runner.run(chats.open(conversation, name))
    if chatbot not in {None, dialogue.chatbot}:
        raise BadInput(f"Conversation {conversation} is one with {dialogue.chatbot}, and not with {chatbot}.")
    return dialogue


def _chosen(chats: Chats, runner: asyncio.Runner) -> str:
    """The chatbot that a person chooses. Raises `BadInput` if nobody can."""
    names = [*chats.chatbots]
    if not names:
        raise BadInput(_NO_CHATBOT)
    if not sys.stdin.isatty():
        raise BadInput(f"Say with which chatbot: goalport chat NAME. There are {listed(names)}.")
    prompts = prompts_here()
    options = [Option(name, f"{name}: {about}") for name, about in chats.chatbots.items()]
    try:
        with prompts.session():
            return runner.run(prompts.one("Chatbot", options, names[0]))
    except Unanswered:
        raise KeyboardInterrupt from None


def _text(given: str) -> str:
    said = sys.stdin.read().rstrip("\n") if given == "-" else given
    if not said.strip():
        raise BadInput("--message was expected to be a message, but it is empty.")
    return said


DONE, FAILED, INTERRUPTED = 0, 1, 130
_LISTED: Final = 20
_RECENT: Final = 2
"""How many messages are shown of a conversation that is continued."""


class ChatLoop:
    """A person who talks to a chatbot."""

    def __init__(self, chats: Chats, dialogue: Dialogue, replies: Replies, messages: Messages) -> None:
        self._chats, self._dialogue, self._replies, self._messages = chats, dialogue, replies, messages
        self._runner, self._attended = replies.runner, replies.attended
        self._draft = ""
        """What `/edit` lets a person edit."""
        self._after: str | None = None
        """The id of the message that the edited one follows."""
        self._interrupted = self._over = False
        self._commands: Mapping[str, Callable[[str], None]] = {
            "": self._say,
            "new": self._new,
            "list": self._list,
            "open": self._open,
            "title": lambda text: self._runner.run(self._chats.rename(self._dialogue.id, text)),
            "history": lambda _: self._history(),
            "again": lambda _: self._turn(self._dialogue.again()),
            "edit": self._edit,
            "answer": lambda text: self._answer(text, ""),
            "decline": lambda text: self._answer("", text),
            "export": self._export,
            "help": lambda _: show_lines(command_lines()),
            "quit": lambda _: self._leave(),
        }

    def run(self) -> int:
        """Talk until the person leaves or the messages end; the exit code."""
        self._begun()
        while not self._over:
            try:
                line = self._messages.next(self._draft)
            except (Interrupted, KeyboardInterrupt):  # the latter is pressed just before the prompt is there
                if self._interrupted or self._replies.stopped or not self._attended:
                    self._told_how_to_go_on()
                    return INTERRUPTED
                self._interrupted, self._draft, self._after = True, "", None
                say("Press Ctrl-C once more to leave.")
                continue
            except Unanswered:
                break
            self._interrupted = self._replies.stopped = False
            self._draft = ""
            if line.strip():
                self._attempt(line)
            else:
                self._after = None
            if self._replies.stopped and not self._attended:
                return INTERRUPTED
        self._told_how_to_go_on()
        return FAILED if self._replies.failed and not self._attended else DONE

    def _attempt(self, line: str) -> None:
        try:
            name, given = read_line(line)
            if name:
                self._after = None
            self._commands[name](given)
        except GoalportError as error:
            self._replies.fail(str(error))

    def _begun(self) -> None:
        """Say with whom, and go on with what the conversation was left with: a reply that comes, or a question."""
        if self._attended:
            say(f"{self._dialogue.chatbot}: {self._chats.chatbots.get(self._dialogue.chatbot, '')}".rstrip(": "))
            say(f"Conversation {self._dialogue.id}. /help lists the commands, Ctrl-D leaves.")
            self._history(_RECENT)
        self._turn(self._dialogue.follow())

    def _say(self, text: str) -> None:
        after, self._after = self._after, None
        self._turn(self._dialogue.say(text, after))

    def _turn(self, begun: Coroutine[Any, Any, Reply | None]) -> None:
        self._replies.show(self._dialogue, begun)

    def _new(self, chatbot: str) -> None:
        self._dialogue = self._runner.run(self._chats.begin(chatbot or self._dialogue.chatbot))
        self._begun()

    def _open(self, conversation_id: str) -> None:
        if not conversation_id:
            raise BadInput("Say which conversation: /open ID. /list lists them.")
        self._dialogue = self._runner.run(self._chats.open(conversation_id, self._dialogue.chatbot))
        self._begun()

    def _list(self, words: str) -> None:
        none = "No conversation has these words." if words else "There are no conversations."
        show(self._runner.run(self._chats.page(words, _LISTED)), "text", none=none)

    def _history(self, newest: int = 0) -> None:
        for each in self._dialogue.said[-newest:]:
            if each.role == "user":
                show_lines([f"you> {each.text}"])
            elif each.role == "assistant" and each.text:
                show_markdown(each.text)

    def _edit(self, text: str) -> None:
        last = next((each for each in reversed(self._dialogue.said) if each.role == "user"), None)
        if last is None:
            raise BadInput("You have said nothing yet.")
        if text:
            self._turn(self._dialogue.say(text, last.after))
        elif self._attended:
            self._draft, self._after = last.text, last.after
        else:
            raise BadInput("Say it in other words: /edit TEXT.")

    def _answer(self, given: str, declined: str) -> None:
        questions = self._dialogue.questions
        if not questions:
            raise BadInput("No question is open.")
        if given or declined:
            answer = read_answer(given) if given else None
            self._turn(self._dialogue.answer(questions[0]["id"], answer, declined))
        elif self._attended:
            self._replies.ask(self._dialogue)
        else:
            raise BadInput("Give the answer as JSON: /answer JSON.")

    def _export(self, file: str) -> None:
        exported = self._runner.run(self._chats.export(self._dialogue.id))
        as_json = file.endswith(".json")
        text = f"{json.dumps(exported, indent=1, ensure_ascii=False)}\n" if as_json else transcript(exported)
        if not file:
            show_lines([text])
            return
        try:
            Path(file).expanduser().write_text(text, encoding="utf-8")
        except (OSError, RuntimeError) as error:  # the latter: there is no such user
            raise BadInput(f"{file} cannot be written. {error}") from None
        say(f"Written: {file}")

    def _leave(self) -> None:
        self._over = True

    def _told_how_to_go_on(self) -> None:
        if self._attended and self._dialogue.said and not self._replies.finished:
            say(f"To go on: goalport chat --conversation {self._dialogue.id}{self._chats.options}")
