"""The store of a workspace, for commands that look at its processes or change them.

It is opened beside a server that runs, or while none does. A command takes part as little as it can: it never goes on
with the processes of others. Above: the commands; below: settings and platform.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from goalport.cli.options import workspace_root
from goalport.errors import BadInput, UnknownName
from goalport.platform.backends import workspace_store
from goalport.settings import Settings, load_settings
from goalport.store import ProcessStore, StoredProcess

__all__ = ["NOTHING_STORED", "family_in", "opened_store", "stored_settings"]

NOTHING_STORED = (
    'Nothing is stored here: with the setting `store = "memory"`, processes end with the program that runs them.'
    " Without that setting they are kept."
)


def stored_settings(folder: Path) -> Settings:
    """The settings of a workspace that has a store. Raises `BadInput` if its processes end with their program."""
    root = workspace_root(folder)
    settings = load_settings(root)
    if settings.store == "memory":
        raise BadInput(NOTHING_STORED)
    return settings


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncGenerator[ProcessStore]:
    """The store of a workspace, closed at the end."""
    store = workspace_store(settings)
    assert isinstance(store, AbstractAsyncContextManager)
    async with store:
        yield store


async def family_in(store: ProcessStore, process_id: str) -> list[StoredProcess]:
    """The records of the family of a process, the root first. Raises `UnknownName` for an id that is not stored."""
    family, _ = await store.family(process_id)
    if not family:
        raise UnknownName("process", process_id, None)
    return list(family)
