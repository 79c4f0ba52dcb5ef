"""`goalport chat`: talk to a chatbot of the workspace, or of a running server, on the terminal or in a pipe.

The conversation is stored, and can be continued here and over every other door. Below the program; `chat_loop` is the
chat itself.
"""

import asyncio
import sys
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.base.errors import BadInput
from goalport.base.secrecy import hide
from goalport.base.words import listed
from goalport.cli.chat_input import GivenMessages, messages_here
from goalport.cli.chat_loop import ChatLoop
from goalport.cli.chat_replies import Replies
from goalport.cli.chat_view import ChatView
from goalport.cli.chats_here import ChatsHere
from goalport.cli.dialogues import Chats, Dialogue
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.prompts import Option, Unanswered, prompts_here
from goalport.cli.sources import runner_here
from goalport.cli.stored import driven
from goalport.cli.workspace import LoadedWorkspace, kept_in_memory
from goalport.runtime.platform.workspace_parts import choosing_chatbot
from goalport.workspace.settings import Settings, load_settings

_HISTORY = "chat_history"
_ALL = "all"
"""The name of the chatbot where there is no other: as in `chatbot = "all"`, by which a server goes on with it."""
_NO_CHATBOT = (
    'There is no chatbot here. Mark a class with @chatbot, or write chatbot = "all" in the settings: then each'
    " message goes to the agent that fits it best. docs/chat.md shows how."
)

ChatbotName = Annotated[
    str | None,
    Parameter(name="CHATBOT", help="Its name; needed if there are several, except with --continue and -c."),
]
Texts = Annotated[
    tuple[str, ...],
    Parameter(
        name=("--message", "-m"),
        negative="",
        allow_leading_hyphen=True,
        help="Say this and leave; repeat it for more. - reads a message from standard input.",
        show_default=False,
    ),
]


Conversation = Annotated[
    str | None, Parameter(name=("--conversation", "-c"), help="Go on with the conversation of this id.")
]
Continued = Annotated[
    bool, Parameter(name="--continue", negative="", help="Go on with your last one.", show_default=False)
]
New = Annotated[
    bool,
    Parameter(
        negative="",
        help="Begin a new one, as without the other options; with --conversation, under that id.",
        show_default=False,
    ),
]
Model = Annotated[str | None, Parameter(help="The model to ask where a chatbot names none.", show_default=False)]
AsJson = Annotated[
    bool, Parameter(name="--json", negative="", help="Print each reply as a line of JSON.", show_default=False)
]
Quiet = Annotated[
    bool, Parameter(name=("--quiet", "-q"), negative="", help="Do not show steps and tools.", show_default=False)
]
AtServer = Annotated[
    str | None,
    Parameter(
        name="--server",
        help="A running server, over AG-UI; the key in GOALPORT_KEY is sent along. Default: the workspace.",
        show_default=False,
    ),
]


def chat(
    chatbot: ChatbotName = None,
    /,
    *,
    messages: Texts = (),
    conversation: Conversation = None,
    continued: Continued = False,
    new: New = False,
    model: Model = None,
    structured: AsJson = False,
    quiet: Quiet = False,
    server: AtServer = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Talk to a chatbot. What it asks is asked on the terminal; Ctrl-C stops a reply, Ctrl-D leaves.

    Exit codes: 0 all was answered; without a terminal, 1 if something failed or a question is open; 2 wrong usage; 130
    left with Ctrl-C.
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
