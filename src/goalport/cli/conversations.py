"""The chatbots and conversations of a workspace, and `goalport conversations`.

Chatbots run in this program, and conversations are in the store. Whoever may read it sees the conversations of all
callers, may go on with every one, and speaks for the caller whose it is. `chats_served` has those of a running server.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from cyclopts import Parameter

from goalport.base.caller import OPERATOR
from goalport.base.errors import BadInput
from goalport.base.events import Event
from goalport.cli.options import AsJson, OutputFile, Unasked, WorkspaceFolder, workspace_root
from goalport.cli.sources import run_here
from goalport.cli.stored import driven, has_store, opened_store, stored_settings
from goalport.cli.terminal import Record, confirmed, local_time, say, show, show_json, show_lines, show_markdown
from goalport.cli.workspace import LoadedWorkspace, failure_in_words, kept_in_memory, unexpected_error
from goalport.models.llm import UserMessage
from goalport.runtime.chat import ChatSession, Conversations, Turn
from goalport.runtime.process import find_question
from goalport.server.publish.forms import form_of
from goalport.server.publish.resources import question_view
from goalport.store import ConversationRecord
from goalport.workspace.settings import load_settings

Question = Mapping[str, Any]
"""A question as JSON data, with `id`, `message` and `schema`."""
READER: Final = replace(OPERATOR, admin=True)
"""Who looks at the conversations of all callers."""
T = TypeVar("T")
Chatbot = Annotated[str, Parameter(help="Only those with this chatbot.")]
Limit = Annotated[int, Parameter(help="How many at most. Default: 50.")]
After = Annotated[str, Parameter(help="Go on below this conversation.")]


def list_conversations(
    *,
    chatbot: Chatbot = "",
    limit: Limit = 50,
    after: After = "",
    structured: AsJson = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List conversations, the one that was continued last first.

    Examples:
        goalport conversations list --chatbot Support
    """
    _show_page(workspace, "", chatbot, limit, after, structured=structured)


def search(
    words: Annotated[tuple[str, ...], Parameter("WORDS")],
    /,
    *,
    chatbot: Chatbot = "",
    limit: Limit = 50,
    after: After = "",
    structured: AsJson = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List the conversations in whose title or messages these words are, in capitals or not.

    Args:
        words: All of them have to occur.

    Examples:
        goalport conversations search refund damaged
    """
    if not any(each.strip() for each in words):
        raise BadInput("Say what to search for: goalport conversations search refund damaged")
    _show_page(workspace, " ".join(words), chatbot, limit, after, structured=structured)


def show_conversation(
    conversation_id: str, /, *, structured: AsJson = False, workspace: WorkspaceFolder = Path()
) -> None:
    """Show what was said in a conversation; as JSON also what was said in its other branches.

    Examples:
        goalport conversations show solid-tern-ba45d2e65dad
    """
    exported = _of_stored(workspace, lambda stored: stored.export(conversation_id, READER))
    if structured:
        show_json(exported)
    else:
        show_markdown(transcript(exported))


def rename(conversation_id: str, title: str, /, *, workspace: WorkspaceFolder = Path()) -> None:
    """Give a conversation a title.

    Args:
        title: A few words that say what it is about.

    Examples:
        goalport conversations rename solid-tern-ba45d2e65dad "A damaged parcel"
    """
    _of_stored(workspace, lambda stored: stored.rename(conversation_id, READER, title))
    say(f"Conversation {conversation_id} is called: {title}")


def export(
    conversation_id: str,
    /,
    *,
    output: OutputFile = None,
    structured: AsJson = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Write a conversation as Markdown; with --json, or into a file whose name ends so, as JSON with all branches.

    Examples:
        goalport conversations export solid-tern-ba45d2e65dad --output talk.md
    """
    exported = _of_stored(workspace, lambda stored: stored.export(conversation_id, READER))
    as_json = structured or (output is not None and output.suffix == ".json")
    text = f"{json.dumps(exported, indent=1, ensure_ascii=False)}\n" if as_json else transcript(exported)
    if output is None:
        show_lines([text.removesuffix("\n")])
    else:
        output.write_text(text, encoding="utf-8")


def delete(
    ids: Annotated[tuple[str, ...], Parameter("ID")],
    /,
    *,
    yes: Unasked = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Delete conversations with all their messages, for good. If there is no such conversation, none is deleted.

    Examples:
        goalport conversations delete solid-tern-ba45d2e65dad
    """
    if not ids:
        raise BadInput("Say which: goalport conversations delete ID")

    async def titles(stored: Conversations) -> list[str]:
        found = [await stored.get(each, READER) for each in ids]
        return [f"{each.id} ({each.title})" if each.title else each.id for each in found]

    named = _of_stored(workspace, titles)
    question = f"Delete {', '.join(named)} with all messages, for good?"
    if not yes and not confirmed(question, "Nobody is here to confirm it. Add --yes to delete without asking."):
        say("Nothing was deleted.")
        return 1

    async def deleted() -> None:
        """What runs behind them is ended, which takes a platform."""
        async with AsyncExitStack() as stack:
            kept = kept_in_memory(load_settings(workspace_root(workspace)))
            loaded = kept or await stack.enter_async_context(driven(stored_settings(workspace), drive=False))
            for each in ids:
                await loaded.platform.conversations.delete(each, READER)

    run_here(deleted())
    say(f"Deleted: {', '.join(named)}.")
    return 0


def _show_page(folder: Path, search: str, chatbot: str, limit: int, after: str, *, structured: bool) -> None:
    if limit < 1:
        raise BadInput(f"Expected --limit to be 1 or more, but got {limit}.")
    settings = load_settings(workspace_root(folder))
    found: list[Record] = []
    if settings.store == "memory" or has_store(settings):
        records = _of_stored(
            folder, lambda stored: stored.list(READER, chatbot=chatbot, search=search, after=after, limit=limit + 1)
        )
        found = [*map(conversation_line, records)]
    none = "No conversation is stored." if not search else "No conversation has these words."
    show(found[:limit], "json" if structured else "text", none=none)
    if len(found) > limit:
        say(f"There are more: --after {found[limit - 1]['conversation']} goes on below the last one.")


def _of_stored(folder: Path, work: Callable[[Conversations], Awaitable[T]]) -> T:
    """What some work gives on the conversations of a workspace: in its store, or in the memory of a shell."""

    async def keep_process(process_id: str, reason: str) -> None:
        """Nothing: conversations are deleted where there is a platform, which ends their processes."""

    async def worked() -> T:
        kept = kept_in_memory(load_settings(workspace_root(folder)))
        if kept is not None:
            return await work(kept.platform.conversations)
        async with opened_store(stored_settings(folder)) as store:
            return await work(Conversations(store.conversations, keep_process))

    return run_here(worked())


@dataclass(frozen=True)
class Said:
    """A message of a conversation."""

    id: str
    role: str
    text: str
    after: str = ""
    """The id of the message before it; empty for the first."""


@dataclass(frozen=True)
class ReplyEnd:
    """How a reply has ended."""

    texts: Sequence[str] = ()
    """What the chatbot has said."""
    questions: Sequence[Question] = ()
    """What has to be answered before it goes on."""
    failure: str = ""
    """Why there is no reply, or only a part of one; empty: nothing has failed."""
    error: BaseException | None = None
    """The exception of the author's code by which it failed, where it ran here."""
    finished: bool = False
    """Whether the conversation has reached its goal, so that nothing more is answered."""


@dataclass(frozen=True)
class Reply:
    """A reply that comes."""

    events: AsyncGenerator[Event]
    """What happens until it has come."""
    end: Callable[[], Awaitable[ReplyEnd]]
    """Wait until it has come."""
    cancel: Callable[[], str]
    """Stop it; the conversation goes on. What is said of that."""


def questions_alone(questions: Sequence[Question]) -> Reply:
    """A reply of which nothing more comes than these questions."""

    async def nothing() -> AsyncGenerator[Event]:
        return
        yield

    async def end() -> ReplyEnd:
        return ReplyEnd(questions=questions)

    return Reply(nothing(), end, str)


class ChatsHere:
    """The chatbots and conversations of a platform in this program."""

    def __init__(self, loaded: LoadedWorkspace, options: str = "") -> None:
        self._loaded = loaded
        self._conversations = loaded.platform.conversations
        self.options = options
        """The options that name the place again in another command, with a space before them."""
        self.chatbots: Mapping[str, str] = {name: each.description for name, each in loaded.platform.chatbots.items()}
        """What each chatbot is for, by its name."""

    async def begin(self, chatbot: str, conversation_id: str = "") -> "DialogueHere":
        """Begin a conversation. Raises `BadInput` if there is one of that id already."""
        if conversation_id and await self._conversations.find(conversation_id, READER) is not None:
            raise BadInput(f"There is a conversation {conversation_id!r} already. Leave out --new to go on with it.")
        found = self._loaded.platform.chatbots.named(chatbot)
        return DialogueHere(self._loaded, await found.create_session(OPERATOR, conversation_id=conversation_id))

    async def open(self, conversation_id: str, chatbot: str) -> "DialogueHere":
        """Go on with a conversation. Raises `UnknownName`. A server has to be told which chatbot it is with."""
        conversation = await self._conversations.get(conversation_id, READER)
        found = self._loaded.platform.chatbots.named(conversation.chatbot)
        session = await found.find_session(conversation_id, conversation.caller)
        assert session is not None
        return DialogueHere(self._loaded, session)

    async def latest(self, chatbot: str) -> str:
        """The id of the conversation that was continued last, of that chatbot or of any; empty: there is none."""
        found = await self._conversations.list(OPERATOR, chatbot=chatbot, limit=1)
        return found[0].id if found else ""

    async def page(self, search: str, limit: int) -> Sequence[Record]:
        """Conversations in which all these words are, the one that was continued last first, as lines of a list."""
        return [*map(conversation_line, await self._conversations.list(READER, search=search, limit=limit))]

    async def rename(self, conversation_id: str, title: str) -> None:
        await self._conversations.rename(conversation_id, READER, title)

    async def export(self, conversation_id: str) -> Mapping[str, Any]:
        return await self._conversations.export(conversation_id, READER)


class DialogueHere:
    """A conversation with a chatbot that runs in this program."""

    def __init__(self, loaded: LoadedWorkspace, session: ChatSession) -> None:
        self._loaded, self._session = loaded, session
        self.id = session.conversation.id
        self.chatbot = session.chatbot.name

    @property
    def said(self) -> Sequence[Said]:
        """What people and the chatbot have said, the oldest first."""
        return [Said(each.id, each.role, each.text, each.parent) for each in self._session.conversation.entries]

    @property
    def questions(self) -> Sequence[Question]:
        """What is open."""
        return [*map(question_view, self._session.questions)]

    async def say(self, text: str, after: str | None = None) -> Reply:
        """Say something; `after` is the id of the message that it follows, if that is not the last one."""
        return self._reply(await self._session.begin_turn(UserMessage(text), after=after))

    async def again(self) -> Reply:
        """Let the last message be answered again."""
        return self._reply(await self._session.regenerate())

    async def answer(self, question_id: str, response: object, declined: str = "") -> Reply:
        """Answer or decline a question. Raises `BadInput` for an answer that does not fit, and `AlreadyAnswered`."""
        asked = next((each for each in self._session.questions if each.id == question_id), None)
        read = response if declined or asked is None else form_of(asked).read(response)
        return self._reply(await self._session.answer(question_id, read, declined=declined))

    async def status(self, question_id: str) -> str:
        """What has become of a question: open, answered, declined, expired or withdrawn."""
        process = await self._loaded.platform.processes.look_at(self._session.process_id)
        return find_question(process, question_id)[1].status

    async def follow(self) -> Reply | None:
        """The reply that comes now, whoever asked, or that ended with questions which are open; None: there is none."""
        turn = await self._session.follow()
        if turn is not None:
            return self._reply(turn)
        return questions_alone(self.questions) if self.questions else None

    def _reply(self, turn: Turn) -> Reply:
        async def end() -> ReplyEnd:
            result = await turn.result()
            error = unexpected_error(turn.process) if result.failure else None
            root = self._loaded.workspace.root
            return ReplyEnd(
                texts=[each.text for each in result.messages],
                questions=[*map(question_view, result.questions)],
                failure=result.failure if error is None else failure_in_words(result.failure, error, root),
                error=error,
                finished=result.finished,
            )

        def cancel() -> str:
            turn.cancel("The reply was stopped with Ctrl-C.")
            return "Stopped."

        return Reply(turn.events(), end, cancel)


def conversation_line(record: ConversationRecord) -> Record:
    """A conversation in a list."""
    return {
        "conversation": record.id,
        "title": record.title,
        "chatbot": record.chatbot,
        "continued": local_time(record.updated_at),
        "state": "finished" if record.finished else "open",
        "caller": record.caller.id,
    }


def transcript(exported: Mapping[str, Any]) -> str:
    """What was said in the branch that is shown, as Markdown; made of the JSON data of an export."""
    by_id = {each["id"]: each for each in exported["messages"]}
    branch: list[Mapping[str, Any]] = []
    place: str = exported["head"]
    while place:
        branch.append(by_id[place])
        place = by_id[place]["parent"]
    title = exported["title"] or f"Conversation {exported['id']}"
    about = f"With {exported['chatbot']}, begun {exported['created_at']}, id {exported['id']}."
    said = (part for each in reversed(branch) for part in _in_markdown(each, exported["chatbot"]))
    return "\n\n".join([f"# {title}", about, *said]) + "\n"


def _in_markdown(message: Mapping[str, Any], chatbot: str) -> Iterator[str]:
    """A message with who said it and what is attached; nothing for one that nobody said."""
    if message["role"] in {"summary", "tool"}:
        return
    attached = [f"*An image ({image['media_type']})*" for image in message.get("images", ())]
    for asset in message["assets"]:
        attached += [f"[{asset['name']}]({asset['uri']})" if asset["uri"] else f"*{asset['name']}*"]
    if message["content"] or attached:
        roles = {"user": "You", "assistant": chatbot, "system": "Instructions"}
        yield f"**{message['name'] or roles.get(message['role'], message['role'])}**, {message['at']}:"
        yield from filter(None, [message["content"], *attached])
