"""Drops a process for good, because what it belonged to was deleted: a conversation.

Below: the processes of a platform and their store. Above: the platform, which lends it to conversations.
"""

from goalport.errors import UnknownName, Unreadable
from goalport.platform.processes import Processes
from goalport.store import ProcessStore

__all__ = ["drop_process"]


async def drop_process(processes: Processes, store: ProcessStore, process_id: str) -> None:
    """End a process, whoever runs it, and drop all that is stored of it and of those that it started.

    Nothing happens if it is not known. Raises `StoreError`.
    """
    reason = "Its conversation was deleted."
    try:
        process = await processes.find(process_id)
        process.kill(reason)
        await process.rest()
    except Unreadable:
        await processes.kill_unreadable(process_id, reason)
    except UnknownName:
        return
    await store.drop(process_id)
