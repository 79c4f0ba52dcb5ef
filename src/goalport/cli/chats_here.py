"""The chatbots of a workspace, which run in this program; their conversations are in the store of the workspace.

Whoever may read the store may go on with every conversation in it, and speaks for the caller whose it is. Above:
`chat`; below: the platform and its sessions.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from goalport.base.caller import OPERATOR
from goalport.base.errors import BadInput
from goalport.base.events import Event
from goalport.cli.dialogues import EndedReply, Question, Reply, ReplyEnd, Said
from goalport.cli.sources import local_time
from goalport.cli.terminal import Record
from goalport.cli.workspace import LoadedWorkspace, failure_in_words, unexpected_error
from goalport.models.llm import UserMessage
from goalport.runtime.chat import ChatSession, Turn
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import find_question
from goalport.server.publish.forms import form_of
from goalport.server.publish.own_resources import question_view
from goalport.store import ConversationRecord

READER: Final = replace(OPERATOR, admin=True)
"""Who looks at the conversations of all callers."""
_STOPPED: Final = "The reply was stopped with Ctrl-C."


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


class ChatsHere:
    """The chatbots and conversations of a platform in this program."""

    def __init__(self, loaded: LoadedWorkspace, options: str = "") -> None:
        self._platform, self._root = loaded.platform, loaded.workspace.root
        self.options = options

    @property
    def chatbots(self) -> Mapping[str, str]:
        return {name: each.description for name, each in self._platform.chatbots.items()}

    async def begin(self, chatbot: str, conversation_id: str = "") -> "DialogueHere":
        conversations = self._platform.conversations
        if conversation_id and await conversations.find(conversation_id, READER) is not None:
            raise BadInput(f"There is a conversation {conversation_id!r} already. Leave out --new to go on with it.")
        found = self._platform.chatbots.named(chatbot)
        session = await found.create_session(OPERATOR, conversation_id=conversation_id)
        return DialogueHere(self._platform, session, self._root)

    async def open(self, conversation_id: str, chatbot: str) -> "DialogueHere":
        conversation = await self._platform.conversations.get(conversation_id, READER)
        found = self._platform.chatbots.named(conversation.chatbot)
        session = await found.find_session(conversation_id, conversation.caller)
        assert session is not None
        return DialogueHere(self._platform, session, self._root)

    async def latest(self, chatbot: str) -> str:
        found = await self._platform.conversations.list(OPERATOR, chatbot=chatbot, limit=1)
        return found[0].id if found else ""

    async def page(self, search: str, limit: int) -> Sequence[Record]:
        return [*map(conversation_line, await self._platform.conversations.list(READER, search=search, limit=limit))]

    async def rename(self, conversation_id: str, title: str) -> None:
        await self._platform.conversations.rename(conversation_id, READER, title)

    async def export(self, conversation_id: str) -> Mapping[str, Any]:
        return await self._platform.conversations.export(conversation_id, READER)


class DialogueHere:
    """A conversation with a chatbot that runs in this program."""

    def __init__(self, platform: AgentPlatform, session: ChatSession, root: Path) -> None:
        self._platform, self._root = platform, root
        self._session = session

    @property
    def id(self) -> str:
        return self._session.conversation.id

    @property
    def chatbot(self) -> str:
        return self._session.chatbot.name

    @property
    def said(self) -> Sequence[Said]:
        return [Said(each.id, each.role, each.text, each.parent) for each in self._session.conversation.entries]

    @property
    def questions(self) -> Sequence[Question]:
        return [*map(question_view, self._session.questions)]

    async def say(self, text: str, after: str | None = None) -> Reply:
        return _ReplyHere(await self._session.begin_turn(UserMessage(text), after=after), self._root)

    async def again(self) -> Reply:
        return _ReplyHere(await self._session.regenerate(), self._root)

    async def answer(self, question_id: str, response: object, declined: str = "") -> Reply:
        asked = next((each for each in self._session.questions if each.id == question_id), None)
        read = response if declined or asked is None else form_of(asked).read(response)
        return _ReplyHere(await self._session.answer(question_id, read, declined=declined), self._root)

    async def status(self, question_id: str) -> str:
        process = await self._platform.processes.look_at(self._session.process_id)
        return find_question(process, question_id)[1].status

    async def follow(self) -> Reply | None:
        turn = await self._session.follow()
        if turn is not None:
            return _ReplyHere(turn, self._root)
        return EndedReply(ReplyEnd(questions=self.questions)) if self.questions else None


class _ReplyHere:
    """A turn of a session; `root` is the folder of the author's code."""

    def __init__(self, turn: Turn, root: Path) -> None:
        self._turn, self._root = turn, root

    def events(self) -> AsyncGenerator[Event]:
        return self._turn.events()

    async def end(self) -> ReplyEnd:
        result = await self._turn.result()
        error = unexpected_error(self._turn.process) if result.failure else None
        return ReplyEnd(
            texts=[each.text for each in result.messages],
            questions=[*map(question_view, result.questions)],
            failure=result.failure if error is None else failure_in_words(result.failure, error, self._root),
            error=error,
            finished=result.finished,
        )

    def cancel(self) -> str:
        self._turn.cancel(_STOPPED)
        return "Stopped."
