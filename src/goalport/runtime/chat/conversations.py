"""The stored conversations of a platform: found, listed, continued, renamed, exported and deleted.

Below: the store of conversations. Above: chatbots and their sessions, and the doors.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakValueDictionary

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, UnknownName
from goalport.runtime.chat.conversation import Conversation, ConversationMessage, Loaded, message_json, to_record
from goalport.runtime.process import AgentProcess, new_id
from goalport.store import ConversationRecord, ConversationStore

Change = Callable[[ConversationRecord], ConversationRecord]
_MOST_RECENT: Final = 100
"""The most processes of recent conversations that are kept in memory."""
_MOST_MESSAGES: Final = 10_000
"""The most messages of their conversations in sum, unless one conversation alone has more."""
_ID: Final = re.compile(r"[!-~]{1,200}")
"""The pattern of every id, which can be in a header, and in each store."""


class Conversations:
    """Finds and saves conversations. Each method that reads or writes raises `StoreError` where the store fails.

    Parameters: `erase_process` ends a process of a conversation that is deleted, by its id and with a reason, and drops
    all that is stored of it.
    """

    def __init__(self, store: ConversationStore, erase_process: Callable[[str, str], Awaitable[None]]) -> None:
        self._store, self._erase_process = store, erase_process
        self._loaded: WeakValueDictionary[str, Loaded] = WeakValueDictionary()
        self.recent: dict[str, tuple[AgentProcess, int]] = {}
        """The processes of the conversations that were used last, by id, each with the number of its messages."""
        self.on_change: list[Callable[[str], None]] = []
        """Called with the id of each conversation that this program has changed or deleted."""

    async def create(
        self, chatbot: str, caller: Caller, *, conversation_id: str = "", title: str = "", context_id: str = ""
    ) -> Conversation:
        """A new conversation. Raises `BadInput` if there is one of that id, or none can have it."""
        if conversation_id and not _ID.fullmatch(conversation_id):
            told = f"{conversation_id[:50]!r}, which has {len(conversation_id)}"
            raise BadInput(f"Expected an id of at most 200 characters, all ASCII and no white space, but got {told}.")
        now, made = datetime.now(UTC), Conversation(conversation_id or new_id())
        wanted = ConversationRecord(made.id, chatbot, caller, title, "", "", context_id, False, now, now)
        record = await self._store.save(wanted)
        if record is None:
            raise BadInput(f"There is a conversation {made.id!r} already. Give another id, or none.")
        made.loaded = self._loaded[made.id] = Loaded(record)
        return made

    async def find(self, conversation_id: str, caller: Caller) -> Conversation | None:
        """The conversation of that id; None if there is none, or it is somebody else's."""
        record = await self._store.find(conversation_id) if _ID.fullmatch(conversation_id) else None
        if record is None or not caller.may_follow(record.caller):
            return None
        conversation = Conversation(conversation_id)
        try:
            await self.load(conversation, record)
        except UnknownName:
            return None
        return conversation

    async def list(
        self, caller: Caller, *, chatbot: str = "", search: str = "", after: str = "", limit: int = 50
    ) -> Sequence[ConversationRecord]:
        """The conversations of a caller, or for an admin of all callers; those that were continued last come first.

        `search`: words that must all be in the title or the messages. `after`: the id of the last conversation of the
        previous page.
        """
        whose = None if caller.admin else caller
        return await self._store.list(caller=whose, chatbot=chatbot, search=search, after=after, limit=limit)

    async def rename(self, conversation_id: str, caller: Caller, title: str) -> Conversation:
        """Give a conversation a title. Raises `UnknownName`."""
        conversation = await self.get(conversation_id, caller)
        await self.change(conversation, lambda record: record._replace(title=title))
        return conversation

    async def delete(self, conversation_id: str, caller: Caller) -> bool:
        """Delete a conversation with all its messages and its processes, for good. Returns whether there was one.

        Its processes are ended. If the store fails, the conversation is finished, and can be deleted again.
        """
        conversation = await self.find(conversation_id, caller)
        if conversation is None:
            return False
        # From now on no process begins for it, in whatever program.
        await self.change(conversation, lambda record: record._replace(finished=True))
        for each in await self._store.processes(conversation_id):
            await self._erase_process(each, "Its conversation was deleted.")
            self.recent.pop(each, None)
        self._loaded.pop(conversation_id, None)
        deleted = await self._store.delete(conversation_id)
        self._notify(conversation_id)
        return deleted

    async def export(self, conversation_id: str, caller: Caller) -> dict[str, Any]:
        """A conversation with the messages of all its branches, as JSON. Raises `UnknownName`."""
        conversation = await self.get(conversation_id, caller)
        record, messages = conversation.loaded.record, conversation.loaded.messages.values()
        return {
            "id": record.id,
            "chatbot": record.chatbot,
            "title": record.title,
            "finished": record.finished,
            "created_at": record.created_at.isoformat(),
            "updated_at": record.updated_at.isoformat(),
            "head": record.head,
            "messages": [
                {
                    "id": each.id,
                    "parent": each.parent,
                    "role": each.role,
                    "name": each.name,
                    "at": each.at.isoformat(),
                    **message_json(each.message),
                    "assets": [asdict(asset) for asset in each.assets],
                }
                for each in messages
            ],
        }

    async def get(self, conversation_id: str, caller: Caller) -> Conversation:
        """The conversation of that id. Raises `UnknownName` if there is none of this caller."""
        found = await self.find(conversation_id, caller)
        if found is None:
            raise UnknownName("conversation", conversation_id, None)
        return found

    async def load(self, conversation: Conversation, record: ConversationRecord | None = None) -> None:
        """Load a conversation from the store, or as of `record`. Raises `UnknownName` if it was deleted."""
        record = record or await self._store.find(conversation.id)
        if record is None:
            raise UnknownName("conversation", conversation.id, None)
        loaded = self._loaded.get(record.id)
        if loaded is None or loaded.record.version < record.version:
            messages = await self._store.messages(record.id)
            if record.head and not any(each.id == record.head for each in messages):  # deleted meanwhile
                raise UnknownName("conversation", record.id, None)
            if loaded is None:
                loaded = self._loaded.setdefault(record.id, Loaded(record, messages))
            if loaded.record.version < record.version:  # something newer may have been saved here meanwhile
                loaded.refresh(record, messages)
        conversation.loaded = loaded

    async def append(self, conversation: Conversation, *messages: ConversationMessage) -> None:
        """Store the pending messages of a conversation, and then these messages, in its branch.

        If another program has continued the branch meanwhile, they follow its end. Raises `UnknownName` if the
        conversation was deleted.
        """
        loaded = conversation.loaded
        async with loaded.saving:
            added = [*loaded.pending, *messages]
            tip = loaded.record.head
            while added:
                continued = not tip or any(each.id == tip for each in loaded.line_to(loaded.record.head))
                parents = [loaded.record.head if continued else tip, *(each.id for each in added[:-1])]
                chained = [replace(each, parent=before) for each, before in zip(added, parents, strict=True)]
                wanted = loaded.record._replace(head=chained[-1].id) if continued else loaded.record
                if await self._save(loaded, wanted, chained):
                    stored = {each.id for each in added}
                    loaded.pending[:] = (each for each in loaded.pending if each.id not in stored)
                    return
                await self.load(conversation)

    async def fork(self, conversation: Conversation, after: str) -> None:
        """Show the branch that ends with the message of an id, so that it can be continued in another way from there.

        Empty: from the beginning. Raises `BadInput` for an id of no message.
        """
        if after and after not in conversation.loaded.messages:
            raise BadInput(f"Conversation {conversation.id} has no message {after!r}.")
        await self.change(conversation, lambda record: record._replace(head=after, process="", finished=False))

    async def change(self, conversation: Conversation, change: Change) -> None:
        """Change the record of a conversation, again if another program changed it meanwhile. Raises `UnknownName`."""
        while not await self._save(conversation.loaded, change(conversation.loaded.record)):
            await self.load(conversation)

    async def _save(
        self, loaded: Loaded, wanted: ConversationRecord, added: Sequence[ConversationMessage] = ()
    ) -> bool:
        wanted = wanted._replace(updated_at=datetime.now(UTC))
        record = await self._store.save(wanted, [to_record(each) for each in added])
        if record is None:
            return False
        loaded.record = record
        for each in added:
            loaded.messages.setdefault(each.id, each)
        self._notify(record.id)
        return True

    def keep(self, process: AgentProcess, messages: int) -> None:
        """Keep a process in memory, and drop the oldest ones if there are too many processes or messages."""
        self.recent.pop(process.id, None)
        self.recent[process.id] = process, messages
        together = sum(each for _, each in self.recent.values())
        while len(self.recent) > 1 and (len(self.recent) > _MOST_RECENT or together > _MOST_MESSAGES):
            together -= self.recent.pop(next(iter(self.recent)))[1]

    def _notify(self, conversation_id: str) -> None:
        for tell in self.on_change:
            tell(conversation_id)
