"""`goalport chat`: talk to a chatbot of the workspace, or of a running server, on the terminal or in a pipe.

The conversation is stored, and can be continued here and over every other door.
"""

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from goalport.base.caller import OPERATOR
from goalport.base.errors import AlreadyAnswered, BadInput, GoalportError
from goalport.base.secrecy import hide, traceback_of
from goalport.base.words import cleaned, listed, offer, visible
from goalport.cli.chats import (
    AGUI_PATH,
    LocalChats,
    LocalDialogue,
    Question,
    RemoteChats,
    RemoteDialogue,
    Reply,
    ReplyEnd,
)
from goalport.cli.conversations import READER, conversation_line, transcript
from goalport.cli.options import DEBUG, DONE, FAILED, INTERRUPTED, WorkspaceFolder, workspace_root
from goalport.cli.process_sources import runner_here
from goalport.cli.processes import read_answer
from goalport.cli.prompts import Interrupted, Option, Unanswered, prompts_here
from goalport.cli.questions import ask_question
from goalport.cli.server_client import ServerClient
from goalport.cli.stored_processes import open_with_store
from goalport.cli.terminal import say, show, show_json, show_lines, show_markdown
from goalport.cli.views import ChatView
from goalport.cli.workspace import shell_workspace_in_memory
from goalport.runtime.chat import Conversations
from goalport.runtime.platform.workspace_parts import choosing_chatbot
from goalport.workspace.settings import Settings, load_settings

Chats = LocalChats | RemoteChats
Dialogue = LocalDialogue | RemoteDialogue
NextMessage = Callable[[str], str]
"""Returns the next message or command; its argument is a draft that the person can edit.

Raises `Unanswered` after the last one, and `Interrupted` on Ctrl-C.
"""
_ALL = "all"
"""The chatbot's name if the workspace has none; with `chatbot = "all"`, a server can continue its conversations."""
_NO_CHATBOT = (
    'There is no chatbot here. Mark a class with @chatbot, or write chatbot = "all" in the settings: then each'
    " message goes to the agent that fits it best. docs/chat.md shows how."
)
_STORE_ONLY: Final = (
    "A server does not tell that here. Use `goalport conversations` and `goalport chat` in its workspace."
)
_LISTED: Final = 20
_RECENT: Final = 2
"""The number of messages that are shown of a continued conversation."""
_COMPLETED: Final = 100
"""The most conversations whose ids are offered for completion, the one that was continued last first."""
_COMMAND: Final = re.compile(r"/([a-z]+)(?:\s+|$)")
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "new": ("[CHATBOT]", "Begin a new conversation, also with another chatbot."),
    "list": ("[WORDS]", "List the conversations, or those in which these words are."),
    "open": ("ID", "Go on with another conversation."),
    "title": ("TEXT", "Give the conversation a title."),
    "history": ("", "Show what was said so far."),
    "again": ("", "Let the last message be answered again, in another branch."),
    "edit": ("[TEXT]", "Say the last message in other words, in another branch."),
    "answer": ("[ANSWER]", "Answer an open question, here or as JSON."),
    "decline": ("REASON", "Decline an open question."),
    "export": ("[FILE]", "Write the conversation as Markdown, or as JSON if the name of the file ends so."),
    "help": ("", "List the commands."),
    "quit": ("", "Leave the chat, as Ctrl-D does; the conversation can be continued."),
}
"""The commands of a chat: the arguments of each, and what it does."""
_KEYS: Final = "Enter sends; Alt-Enter, or a backslash at the end of a line, begins another line. Ctrl-C stops a reply."


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

    Args:
        chatbot: Its name; needed if there are several, except with --continue and -c.
        messages: Say this and leave; repeat it for more. - reads a message from standard input.
        conversation: Go on with the conversation of this id.
        continued: Go on with your last one.
        new: Begin a new one, as without the other options; with --conversation, under that id.
        model: The model to ask where a chatbot names none.
        structured: Print each reply as a line of JSON.
        quiet: Do not show steps and tools.
        server: A running server, over AG-UI; the key in GOALPORT_KEY is sent along. Default: the workspace.

    Examples:
        goalport chat Support --continue
        goalport chat -m "Where is my parcel?" -m "And when does it come?"
        goalport chat --conversation solid-tern-ba45d2e65dad
    """
    if continued and (new or conversation is not None):
        raise BadInput("--continue goes on with your last conversation, so leave out --conversation and --new.")
    if server is not None and model is not None:
        raise BadInput("A server has models of its own. Leave out --model.")
    given = [sys.stdin.read().rstrip("\n") if each == "-" else each for each in messages]
    if not all(each.strip() for each in given):
        raise BadInput("--message was expected to be a message, but it is empty.")
    settings = load_settings(workspace_root(workspace), models=None if model is None else {"default_llm": model})
    with runner_here() as runner:
        stack = AsyncExitStack()
        try:
            chats = runner.run(_chats(server, settings, workspace, stack))
            dialogue = _dialogue(chats, runner, chatbot, conversation, continued=continued, new=new)
            file = settings.data_dir / "chat_history" if server is None or settings.data_dir.exists() else None
            next_message = _messages(given, runner, file, chats)
            view = ChatView(steps=not quiet, texts=not structured)
            attended = sys.stdin.isatty() and not messages
            return _Chat(chats, dialogue, runner, view, attended=attended, structured=structured).run(next_message)
        finally:
            runner.run(stack.aclose())


async def _chats(server: str | None, settings: Settings, workspace: Path, stack: AsyncExitStack) -> Chats:
    """The chatbots of a server or a workspace; if nothing is stored, those of the shell in which this runs."""
    if server:
        client = await stack.enter_async_context(ServerClient(server))
        return RemoteChats(
            client, f" --server {hide(server)}", (await client.send("GET", AGUI_PATH, "agents"))["agents"]
        )
    loaded = await stack.enter_async_context(
        open_with_store(settings, drive=True, shell_workspace=shell_workspace_in_memory(workspace))
    )
    platform = loaded.platform
    if not platform.chatbots and any(each.goals for each in platform.agents):
        open_mode = settings.front_tool == "open"
        platform.deploy(choosing_chatbot(_ALL, platform.autonomy, open_mode=open_mode, published=False))
    return LocalChats(loaded, "" if workspace == Path() else f" --workspace {workspace}")


def _dialogue(
    chats: Chats, runner: asyncio.Runner, chatbot: str | None, conversation: str | None, *, continued: bool, new: bool
) -> Dialogue:
    """The conversation that the options name, or a new one; if they name no chatbot, the person chooses one."""
    names = [*chats.chatbots]
    name = chatbot or (names[0] if len(names) == 1 else "")
    if continued:
        if chats.conversations is None:
            raise BadInput("A server does not tell which conversation was the last. Name it: --conversation ID")
        found = runner.run(chats.conversations.list(OPERATOR, chatbot=chatbot or "", limit=1))
        if not found:
            raise BadInput("There is no conversation of yours to go on with. Leave out --continue to begin one.")
        conversation = found[0].id
    if conversation is not None and not new:
        dialogue = runner.run(chats.open(conversation, name))
        if chatbot not in {None, dialogue.chatbot}:
            raise BadInput(f"Conversation {conversation} is one with {dialogue.chatbot}, and not with {chatbot}.")
        return dialogue
    if not name:
        if not names:
            raise BadInput(_NO_CHATBOT)
        if not sys.stdin.isatty():
            raise BadInput(f"Say with which chatbot: goalport chat NAME. There are {listed(names)}.")
        prompts = prompts_here()
        options = [Option(each, f"{each}: {about}") for each, about in chats.chatbots.items()]
        try:
            with prompts.session():
                name = runner.run(prompts.one("Chatbot", options, names[0]))
        except Unanswered:
            raise KeyboardInterrupt from None
    return runner.run(chats.begin(name, conversation or ""))


def _messages(given: Sequence[str], runner: asyncio.Runner, history: Path | None, chats: Chats) -> NextMessage:
    """The messages in `given`; if there are none, what a person types on the terminal, or lines of standard input.

    `history` is the file that stores typed lines; None: they are only in memory. Names in `chats` are completed.
    """
    if given or not sys.stdin.isatty():
        texts = iter(given or _piped())

        def next_text(_: str) -> str:
            for each in texts:
                return each
            raise Unanswered

        return next_text
    from goalport.cli.typed_lines import TypedLines, multiline_options

    async def find_completions(text: str) -> tuple[str, Iterable[str]]:
        command, space, begun = text.partition(" ")
        if not command.startswith("/"):
            return text, ()
        if not space:
            return command, [f"/{each}" for each in _COMMANDS]
        if command == "/new":
            return begun, sorted(chats.chatbots)
        if command != "/open" or chats.conversations is None:
            return begun, ()
        return begun, [each.id for each in await chats.conversations.list(READER, limit=_COMPLETED)]

    typed = TypedLines(history, find_completions, **multiline_options())
    return lambda default: runner.run(typed.next("you> ", default))


def _piped() -> Iterator[str]:
    """The lines of standard input; a line that ends with a backslash is joined with the next one."""
    text = ""
    while line := sys.stdin.readline():
        text += line.rstrip("\r\n")
        if text.endswith("\\"):
            text = f"{text[:-1]}\n"
        else:
            yield text
            text = ""
    if text:
        yield text


class _Chat:
    """A chat of a person with a chatbot. Each reply is shown to its end; Ctrl-C stops it.

    Parameters: `attended` says whether a person can be asked. With `structured`, each reply is printed as JSON.
    """

    def __init__(
        self,
        chats: Chats,
        dialogue: Dialogue,
        runner: asyncio.Runner,
        view: ChatView,
        *,
        attended: bool,
        structured: bool,
    ) -> None:
        self._chats, self._dialogue, self._runner, self._view = chats, dialogue, runner, view
        self._attended, self._structured = attended, structured
        self._draft = ""
        """The text that `/edit` puts into the next prompt."""
        self._after: str | None = None
        """The id of the message that the edited one follows."""
        self._interrupted = self._over = False
        self._stopped = False
        """Whether the last reply was stopped with Ctrl-C."""
        self._finished = False
        """Whether the conversation reached its goal with the last reply."""
        self._failed = False
        """Whether a reply has failed, was stopped, or asked a question while nobody could be asked."""

    def run(self, next_message: NextMessage) -> int:
        """Send messages until the person leaves or there are no more, and return the exit code."""
        code = None
        self._begin()
        while not self._over and code is None:
            try:
                line = next_message(self._draft)
            except (Interrupted, KeyboardInterrupt):  # the latter, if Ctrl-C comes just before the prompt is shown
                if self._interrupted or self._stopped or not self._attended:
                    code = INTERRUPTED
                    break
                self._interrupted, self._draft, self._after = True, "", None
                say("Press Ctrl-C once more to leave.")
                continue
            except Unanswered:
                break
            self._interrupted = self._stopped = False
            self._draft = ""
            if not line.strip():
                self._after = None
                continue
            try:
                self._do(line)
            except GoalportError as error:
                self._fail(str(error))
            if self._stopped and not self._attended:
                return INTERRUPTED
        if self._attended and self._dialogue.messages and not self._finished:
            say(f"To go on: goalport chat --conversation {self._dialogue.id}{self._chats.options}")
        return code or (FAILED if self._failed and not self._attended else DONE)

    def _begin(self) -> None:
        """Say which chatbot it is, and show a reply that is still running, or ask the questions that are open."""
        if self._attended:
            say(f"{self._dialogue.chatbot}: {self._chats.chatbots.get(self._dialogue.chatbot, '')}".rstrip(": "))
            say(f"Conversation {self._dialogue.id}. /help lists the commands, Ctrl-D leaves.")
            self._show_history(_RECENT)
        self._turn(self._dialogue.follow())

    def _do(self, line: str) -> None:  # noqa: C901 - a line or two for each command
        """Send a line as a message, or run it as a command. Raises `BadInput` for an unknown command."""
        match, after, self._after = _COMMAND.match(line), self._after, None
        if match is None:
            self._turn(self._dialogue.say(line[1:] if line.startswith("//") else line, after))
            return
        text, run = line[match.end() :].strip(), self._runner.run
        match match[1]:
            case "new":
                self._dialogue = run(self._chats.begin(text or self._dialogue.chatbot))
                self._begin()
            case "list":
                none = "No conversation has these words." if text else "There are no conversations."
                found = run(self._conversations.list(READER, search=text, limit=_LISTED))
                show([*map(conversation_line, found)], "text", none=none)
            case "open":
                if not text:
                    raise BadInput("Say which conversation: /open ID. /list lists them.")
                self._dialogue = run(self._chats.open(text, self._dialogue.chatbot))
                self._begin()
            case "title":
                run(self._conversations.rename(self._dialogue.id, READER, text))
            case "history":
                self._show_history()
            case "again":
                self._turn(self._dialogue.again())
            case "edit":
                self._edit(text)
            case "answer":
                self._answer(text, "")
            case "decline":
                self._answer("", text)
            case "export":
                self._export(text)
            case "help":
                commands = {f"/{name} {takes}": about for name, (takes, about) in _COMMANDS.items()}
                width = max(map(len, commands))
                show_lines([*(f"  {command:<{width}}  {about}" for command, about in commands.items()), _KEYS])
            case "quit":
                self._over = True
            case name:
                raise BadInput(
                    f"There is no command /{name}. {offer(name, _COMMANDS)}"
                    " A message that begins with a slash is written with two."
                )

    @property
    def _conversations(self) -> Conversations:
        """The conversations in the store. Raises `BadInput` for a server, which does not list them."""
        if self._chats.conversations is None:
            raise BadInput(_STORE_ONLY)
        return self._chats.conversations

    def _show_history(self, newest: int = 0) -> None:
        for each in self._dialogue.messages[-newest:]:
            if each.role == "user":
                show_lines([f"you> {each.text}"])
            elif each.role == "assistant" and each.text:
                show_markdown(each.text)

    def _edit(self, text: str) -> None:
        last = next((each for each in reversed(self._dialogue.messages) if each.role == "user"), None)
        if last is None:
            raise BadInput("You have said nothing yet.")
        if text:
            self._turn(self._dialogue.say(text, last.after))
        elif self._attended:
            self._draft, self._after = last.text, last.after
        else:
            raise BadInput("Say it in other words: /edit TEXT.")

    def _answer(self, given: str, declined: str) -> None:
        if not (questions := self._dialogue.questions):
            raise BadInput("No question is open.")
        if given or declined:
            answer = read_answer(given) if given else None
            self._turn(self._dialogue.answer(questions[0]["id"], answer, declined))
        elif self._attended:
            self._turn(self._ask(questions[0]))
        else:
            raise BadInput("Give the answer as JSON: /answer JSON.")

    def _export(self, file: str) -> None:
        exported = self._runner.run(self._conversations.export(self._dialogue.id, READER))
        text = transcript(exported, as_json=file.endswith(".json"))
        if not file:
            show_lines([text])
            return
        try:
            Path(file).expanduser().write_text(text, encoding="utf-8")
        except (OSError, RuntimeError) as error:  # the latter: there is no such user
            raise BadInput(f"{file} cannot be written. {error}") from None
        say(f"Written: {file}")

    def _turn(self, begun: Awaitable[Reply | None]) -> None:
        """Show a reply to its end, ask its question, show the next reply, and so on. Raises the errors of `begun`."""
        self._stopped = False
        while True:
            try:
                end = self._runner.run(self._show_reply(begun))
            except Unanswered:
                say("The question stays open: /answer asks it again.")
                return
            if end is None:
                return
            if self._structured:
                told = {"reply": "\n\n".join(end.texts), "questions": [*end.questions], "failure": end.failure}
                show_json({"conversation": self._dialogue.id, **told, "finished": end.finished}, None)
            if end.failure:
                self._fail(end.failure, end.error)
            self._finished = end.finished
            if end.finished:
                say("The conversation has reached its goal. /new begins another one.")
            if not (end.questions and self._attended):
                break
            begun = self._ask(end.questions[0])
        for each in end.questions:
            self._failed = True
            if not self._structured:
                show_lines([cleaned(each["message"], len(each["message"]))])
            schema = json.dumps(each.get("schema"), ensure_ascii=False)
            say(f"This is a question: `/answer JSON` answers it. Schema: {schema}")

    def _fail(self, reason: str, error: BaseException | None = None) -> None:
        """Print what went wrong; with `--debug`, the traceback of the exception first."""
        self._failed = True
        self._view.end_lines()
        if error is not None and DEBUG.get():
            say(visible(traceback_of(error)))
        say(f"error: {reason}")

    async def _show_reply(self, begun: Awaitable[Reply | None]) -> ReplyEnd | None:
        """Show a reply as it arrives; None: there is none, or it was stopped with Ctrl-C, which cancels this task."""
        try:
            if (reply := await begun) is not None:
                async with aclosing(reply):
                    async for each in reply:
                        if isinstance(each, ReplyEnd):
                            return each
                        if each is not None:
                            self._view.on_event(each)
        except asyncio.CancelledError:
            if task := asyncio.current_task():
                task.uncancel()
            self._stopped = self._failed = True
            self._view.end_lines()
            say(self._dialogue.stopped)
        finally:
            self._view.end_lines()
        return None

    async def _ask(self, question: Question) -> Reply | None:
        """Ask a question on the terminal, and return the reply to the answer. Raises `Unanswered`."""
        dialogue, number = self._dialogue, question["id"]
        try:
            return await ask_question(
                question, lambda answer: dialogue.answer(number, answer), lambda: dialogue.status(number)
            )
        except AlreadyAnswered as error:
            say(str(error))
            return await dialogue.follow()
