"""Reload: at SIGHUP, or when the files of the workspace change, it publishes the workspace again; else it says so.

A worker thread compares their times and sizes once a second. If a change brings new problems, the server keeps the
earlier workspace. `publish.publisher` adopts the new one; `startup` is above.
"""

import logging
import signal
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from goalport.runtime.platform import CONFIG_FILE, REFERENCES_FILE, AgentPlatform
from goalport.server.publish.faults import logged
from goalport.server.publish.publication import publish
from goalport.server.publish.publisher import Publisher
from goalport.server.workers import Terminal, reload_signals
from goalport.workspace import FOLDERS, Importable, Workspace, load_workspace
from goalport.workspace.settings import Settings

_log = logging.getLogger(__name__)
_SECONDS = 1.0
_IGNORED = frozenset({"__pycache__", ".git"})


async def watch(publisher: Publisher, interval: float = _SECONDS, tells: Callable[[], bool] = lambda: True) -> None:
    """Reload the workspace whenever its files change, until cancelled; `interval` is in seconds.

    What came of it is logged if `tells` says so; another worker of the same server logs the same.
    """
    root = publisher.workspace.root
    seen = await anyio.to_thread.run_sync(_stamps, root)
    while True:
        await anyio.sleep(interval)
        now = await anyio.to_thread.run_sync(_stamps, root)
        if now != seen:
            seen = now
            await _reload(publisher, told=tells())


async def obey_sighup(publisher: Publisher, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
    """Load the workspace anew at each SIGHUP, and end the server when its terminal was closed; until cancelled."""
    terminal = Terminal()
    with anyio.open_signal_receiver(*reload_signals()) as signals:
        task_status.started()
        async for _ in signals:
            if terminal.is_closed:
                signal.raise_signal(signal.SIGTERM)
            elif not publisher.calls.closing.is_set():
                await _reload(publisher, told=True)


async def tell_of_change(publisher: Publisher, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
    """Log once when the files of the workspace have changed since it was loaded, where nothing loads them by itself."""
    root = publisher.workspace.root
    loaded, seen, told = publisher.workspace, await anyio.to_thread.run_sync(_stamps, root), False
    task_status.started()
    while True:
        await anyio.sleep(_SECONDS)
        now = await anyio.to_thread.run_sync(_stamps, root)
        if publisher.workspace is not loaded:
            loaded, seen, told = publisher.workspace, now, False
        elif now != seen and not told:
            told = True
            changed = min(path for path, _ in now.items() ^ seen.items())
            _log.warning(
                "%s changed, and the server goes on with what it has loaded. Start it again, with --reload to have each"
                " change taken at once.",
                Path(changed).relative_to(root),
            )


async def _reload(publisher: Publisher, *, told: bool) -> None:
    async with publisher.loading:
        try:
            await _load_anew(publisher, told=told)
        except Exception as bug:
            logged("Loading the workspace anew", bug, tells_errors=False)


async def _load_anew(publisher: Publisher, *, told: bool) -> None:
    with ExitStack() as undone:
        undone.callback(Importable.now().put_back)
        fresh, problems = await anyio.to_thread.run_sync(_load, publisher.workspace.root, publisher.settings)
        worse = [each for each in problems if each not in publisher.publication.problems]
        if worse:
            if told:
                _log.error(
                    "The workspace changed and has new problems, so it is served as before:\n%s", "\n".join(worse)
                )
            return
        undone.pop_all()
    before = set(publisher.publication.tools)
    await publisher.adopt(fresh)
    after = set(publisher.publication.tools)
    changes = [*(f"+{name}" for name in sorted(after - before)), *(f"-{name}" for name in sorted(before - after))]
    if told:
        _log.warning("Loaded the workspace anew. Tools: %s.", " ".join(changes) or "the same names")


def _load(root: Path, settings: Settings) -> tuple[Workspace, list[str]]:
    """The workspace, loaded again, and the problems of publishing it, found on a platform of its own."""
    fresh = load_workspace(root, fresh=True)
    trial = AgentPlatform.from_workspace(fresh, settings)
    return fresh, list(publish(trial, fresh, settings).problems)


def _stamps(root: Path) -> dict[str, tuple[int, int]]:
    """The time of the last change, in nanoseconds, and the size of each file of the workspace."""
    stamps: dict[str, tuple[int, int]] = {}
    files = [root / CONFIG_FILE, root / REFERENCES_FILE]
    for paths in (*((root / folder).rglob("*") for folder in FOLDERS), files):
        for path in paths:
            if not _IGNORED & set(path.parts):
                with suppress(OSError):  # it may vanish at any moment: editors write temporary files and rename them
                    state = path.stat()
                    if stat.S_ISREG(state.st_mode):
                        stamps[str(path)] = (state.st_mtime_ns, state.st_size)
    return stamps
