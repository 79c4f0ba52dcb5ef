"""The process behind a conversation: found, waited for, and replaced where it cannot go on.

Below: processes and conversations. Above: sessions.
"""

from collections.abc import Callable
from weakref import ref

from goalport.base.errors import ConversationEnded, UnknownName, Unreadable
from goalport.runtime.chat.conversation import Conversation
from goalport.runtime.chat.platform import Platform
from goalport.runtime.process import AgentProcess, Completed, ProcessStatus


class ProcessBehind:
    """Knows the process of a conversation.

    Parameters: `make` makes another process, which has not begun, where that one is gone, or was ended, or cannot be
    read any more, or where the conversation goes on from an earlier message.
    """

    def __init__(self, platform: Platform, conversation: Conversation, make: Callable[[], AgentProcess]) -> None:
        self._platform, self._conversation, self._make = platform, conversation, make
        self._busy: AgentProcess | None = None
        """The process, if it ran or waited for people when it was seen last."""
        self._seen: ref[AgentProcess] | None = None

    @property
    def last_seen(self) -> AgentProcess | None:
        """The process as it was seen last; None: there is none, or it rests, and is in memory no longer."""
        return self._busy or (None if self._seen is None else self._seen())

    def see(self, process: AgentProcess) -> None:
        """Note how the process is now: one that rests is kept only as long as the conversation was used lately."""
        self._busy = process if runs(process) or process.open_questions else None
        self._seen = ref(process)
        self._platform.conversations.recent.keep(process, len(self._conversation.loaded.messages))

    async def find(self) -> AgentProcess | None:
        """The process, if it can go on or has reached its goal; None: another one is needed. Raises `StoreError`."""
        process_id = self._conversation.loaded.record.process
        if not process_id:
            return None
        try:
            process = await self._platform.process(process_id)
            if runs(process):
                await self._platform.processes.recover(process)
        except (UnknownName, Unreadable):
            return None
        self.see(process)
        return None if process.over and not isinstance(process.outcome, Completed) else process

    async def ready(self, after: str | None, *, again: bool) -> AgentProcess:
        """The process that is told next, at rest, where the conversation ends with the message `after`.

        If another message is the last one, or with `again`, the conversation is forked first. Raises
        `ConversationEnded`, `BadInput` for the id of no message, and `StoreError`.
        """
        process = await self._at_rest()
        if again or (after is not None and after != self._last_said):
            await self._fork(process, after or "")
            process = None
        if self._conversation.finished or (process is not None and process.over):
            raise ConversationEnded(f"Conversation {self._conversation.id} has reached its goal. Begin another one.")
        return process or await self._begin()

    async def _at_rest(self) -> AgentProcess | None:
        """The process, once nothing runs in it, here or elsewhere; the conversation shows what is stored by then."""
        await self._platform.conversations.load(self._conversation)
        process = await self.find()
        if process is None or not runs(process):
            return process
        while runs(process):
            await process.changed()
        await self._platform.conversations.load(self._conversation)
        return await self.find()

    async def _begin(self) -> AgentProcess:
        process = self._make()
        process.blackboard.bind_protected("conversation", self._conversation)
        await self._platform.conversations.change(
            self._conversation, lambda record: record._replace(process=process.id)
        )
        self.see(process)
        return process

    async def _fork(self, process: AgentProcess | None, after: str) -> None:
        await self._platform.conversations.fork(self._conversation, after)
        if process is not None:
            process.terminate("The conversation goes on from an earlier message, in another process.")
        self._busy = self._seen = None

    @property
    def _last_said(self) -> str:
        said = self._conversation.entries
        return said[-1].id if said else ""


def runs(process: AgentProcess) -> bool:
    """Whether it runs, here or in another program: one that can be found has been told something."""
    return process.status in {ProcessStatus.NOT_STARTED, ProcessStatus.RUNNING, ProcessStatus.PAUSED}
