"""Where a person can talk to chatbots: in a workspace or at a running server. Both are the same to the terminal.

These are protocols and data. Above: `chat`, which talks; `chats_here` and `chats_served` are the two places.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from goalport.base.events import Event
from goalport.cli.terminal import Record

Question = Mapping[str, Any]
"""A question as JSON data, with `id`, `message` and `schema`."""


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


class Reply(Protocol):
    """A reply that comes."""

    def events(self) -> AsyncGenerator[Event]:
        """What happens until it has come."""
        ...

    async def end(self) -> ReplyEnd:
        """Wait until it has come."""
        ...

    def cancel(self) -> str:
        """Stop it; the conversation goes on. What is said of that."""
        ...


class EndedReply:
    """A reply of which nothing more comes."""

    def __init__(self, ended: ReplyEnd) -> None:
        self._ended = ended

    async def events(self) -> AsyncGenerator[Event]:
        return
        yield

    async def end(self) -> ReplyEnd:
        return self._ended

    def cancel(self) -> str:
        return ""


class Dialogue(Protocol):
    """A conversation that is open."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def chatbot(self) -> str:
        """The name of the chatbot."""
        ...

    @property
    def said(self) -> Sequence[Said]:
        """What people and the chatbot have said, the oldest first."""
        ...

    @property
    def questions(self) -> Sequence[Question]:
        """What is open."""
        ...

    async def say(self, text: str, after: str | None = None) -> Reply:
        """Say something; `after` is the id of the message that it follows, if that is not the last one."""
        ...

    async def again(self) -> Reply:
        """Let the last message be answered again."""
        ...

    async def answer(self, question_id: str, response: object, declined: str = "") -> Reply:
        """Answer or decline a question. Raises `BadInput` for an answer that does not fit, and `AlreadyAnswered`."""
        ...

    async def status(self, question_id: str) -> str:
        """What has become of a question: open, answered, declined, expired or withdrawn."""
        ...

    async def follow(self) -> Reply | None:
        """The reply that comes now, whoever asked, or that ended with questions which are open; None: there is none."""
        ...


class Chats(Protocol):
    """A place with chatbots and conversations."""

    @property
    def chatbots(self) -> Mapping[str, str]:
        """What each chatbot is for, by its name."""
        ...

    @property
    def options(self) -> str:
        """The options that name the place again in another command, with a space before them."""
        ...

    async def begin(self, chatbot: str, conversation_id: str = "") -> Dialogue:
        """Begin a conversation. Raises `BadInput` if there is one of that id already."""
        ...

    async def open(self, conversation_id: str, chatbot: str) -> Dialogue:
        """Go on with a conversation, which is one with that chatbot if nothing here tells it.

        Raises `UnknownName` if it is known that there is none.
        """
        ...

    async def latest(self, chatbot: str) -> str:
        """The id of the conversation that was continued last, of that chatbot or of any; empty: there is none."""
        ...

    async def page(self, search: str, limit: int) -> Sequence[Record]:
        """Conversations in which all these words are, the one that was continued last first, as lines of a list."""
        ...

    async def rename(self, conversation_id: str, title: str) -> None:
        """Give a conversation a title."""
        ...

    async def export(self, conversation_id: str) -> Mapping[str, Any]:
        """A conversation with all its messages, as JSON data."""
        ...
