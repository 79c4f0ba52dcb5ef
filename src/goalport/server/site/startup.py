"""How a server starts, over HTTP or stdio: its log, its socket, its app, and the startup report.

The report says where the server listens, what it publishes (`publish.report`), which settings expose it and, in the
words of each door, how clients connect. It is plain text; if the log is JSON, each line of it is a log record.
"""

import logging
import multiprocessing
import os
import shlex
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from goalport import __version__
from goalport.base.handshake import EarlyHandshake
from goalport.base.lazy import collect_new_garbage_only
from goalport.base.observe import LogListener, log_to_stderr, print_status
from goalport.base.words import counted
from goalport.runtime.platform import CONFIG_FILE, REFERENCES_FILE, AgentPlatform
from goalport.server.auth import Access, Authentication
from goalport.server.auth.access import granted
from goalport.server.auth.authentication import stdio_grant
from goalport.server.doors.mcp.stdio import Stdio
from goalport.server.publish.calls import logged
from goalport.server.publish.publication import publish
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.report import further_lines, report_of
from goalport.server.site.app import Door, Site
from goalport.server.site.guard import exposures
from goalport.server.site.listener import drain, exit_at_once, listen
from goalport.server.workers import WorkerChannel, address_of, bind, closed_terminal, reload_signals
from goalport.workspace import FOLDERS, Importable, Workspace, load_workspace
from goalport.workspace.settings import Settings

_log = logging.getLogger(__name__)
_CHECK_SECONDS = 1.0
_CLOSE_SECONDS: Final = 15.0
"""The most seconds in which processes are killed and connections are closed, before the program ends anyway."""
_WRITE_SECONDS: Final = 0.1
"""Seconds in which the SDK's threads write the last answer to stdout."""
_IGNORED = frozenset({"__pycache__", ".git"})


async def serve_http(
    platform: AgentPlatform,
    workspace: Workspace,
    settings: Settings,
    *,
    reload: bool = False,
    channel: WorkerChannel | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises `SettingsError` for a port or a required upstream server that fails.

    With a channel to its supervisor, this is one of several workers.
    """
    _log_to_stderr(settings, platform, is_worker=channel is not None)
    announces = channel is None or channel.setup.announces  # of several workers, one prints the report for all
    with nullcontext(channel) if channel else bind(settings) as source, default_signals_in_children():
        address = source.setup.address if isinstance(source, WorkerChannel) else address_of(source)
        async with platform:
            site = Site(Publisher(platform, workspace, settings))
            report = startup_report(site.publisher, address, site.doors)
            for line in report if announces else ():
                print_status(line)
            async with anyio.create_task_group() as tasks:
                if reload or announces:
                    tells = (lambda: True) if channel is None else lambda: channel.is_first
                    await tasks.start(partial(watch, site.publisher, tells=tells, reloads=reload))
                if channel is None:
                    await tasks.start(obey_sighup, site.publisher)
                ready = f"goalport ready on {_url(address, site.doors)}"
                await listen(site, source, lambda: print_status(ready) if announces else None)
                tasks.cancel_scope.cancel()


async def serve_stdio(
    platform: AgentPlatform,
    workspace: Workspace,
    settings: Settings,
    *,
    reload: bool = False,
    handshake: EarlyHandshake | None = None,
    key: str = "",
) -> None:
    """Serve until the client closes stdin, or until SIGTERM or Ctrl-C. Logs and the report go to stderr.

    `handshake` has read stdin until now, and may have answered the client's first request. `key` says who the client is
    where callers are authenticated; without one it is the user of the operating system.
    Raises `SettingsError` for a key that is not valid.
    """
    _log_to_stderr(settings, platform)
    authentication = Authentication.of(settings)
    async with nullcontext() if authentication is None else authentication.running(), platform:
        grant = await stdio_grant(authentication, key)
        publisher = Publisher(platform, workspace, settings)
        stdio = Stdio(publisher, Access(publisher, authentication))
        with default_signals_in_children():
            async with publisher.connected(), anyio.create_task_group() as tasks:
                if sys.platform != "win32":
                    await tasks.start(stop_on_signal, publisher)
                await tasks.start(partial(watch, publisher, reloads=reload))
                for line in startup_report(publisher):
                    print_status(line)
                collect_new_garbage_only()
                with granted({}, grant, key):
                    await stdio.serve(handshake)
                await finish(publisher)
                tasks.cancel_scope.cancel()


@contextmanager
def default_signals_in_children() -> Generator[None]:
    """A context in which a signal ends the processes that actions fork, as it ends any program.

    A child with the server's handlers would not end at a signal. It would also write to the wakeup pipe of the event
    loop, which it shares with the server, and the server would shut down instead.
    """
    active = True

    def restore() -> None:
        # Python cannot unregister a fork hook, so it does nothing after the context.
        if active:
            signal.set_wakeup_fd(-1)
            # Not `default_int_handler`: since Python 3.13, a child that is forked in a thread calls handlers only if
            # the signal interrupts a system call. A child that computes would go on.
            for each in (signal.SIGTERM, signal.SIGINT, *reload_signals()):
                signal.signal(each, signal.SIG_DFL)

    if sys.platform != "win32":
        os.register_at_fork(after_in_child=restore)
    try:
        yield
    finally:
        active = False


async def finish(publisher: Publisher) -> None:
    """Wait at most `shutdown_seconds` for processes that still run, which are detached ones, and close the platform."""
    with anyio.move_on_after(publisher.settings.shutdown_seconds):
        for process in publisher.platform.processes.running:
            await process.rest()
    await publisher.platform.aclose()


async def stop_on_signal(publisher: Publisher, *, task_status: TaskStatus[None]) -> None:
    """Wait for signals: the first shuts the stdio server down gracefully, a second one ends it at once."""

    async def drain_and_exit() -> None:
        try:
            with anyio.move_on_after(publisher.settings.shutdown_seconds + _CLOSE_SECONDS):
                await drain(publisher, publisher.platform.aclose)
                await anyio.sleep(_WRITE_SECONDS)
        finally:
            sys.stderr.flush()
            # A thread that reads stdin cannot be cancelled, so only `os._exit` ends it, whatever went wrong before.
            # That skips Python's cleanup of child processes, which would keep the pipes to the client open.
            for child in multiprocessing.active_children():
                child.terminate()
            os._exit(0)

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            await anext(signals)
            tasks.start_soon(drain_and_exit)
            await anext(signals)
            exit_at_once()


def _log_to_stderr(settings: Settings, platform: AgentPlatform, *, is_worker: bool = False) -> None:
    """Log as the settings say; a worker's lines have its process id.

    The events of processes are logged only at level debug: that costs more than a quick call itself.
    """
    if settings.log_level == "debug":
        platform.subscribe(LogListener(settings.log_personality))
    log_to_stderr(settings.log_level, settings.log_format, process=is_worker)


def startup_report(publisher: Publisher, address: str = "", doors: Sequence[Door] = ()) -> Iterator[str]:
    """The lines of the report. `address` is the URL of the HTTP server, empty over stdio; `doors` are its doors."""
    publication, settings = publisher.publication, publisher.settings
    tools, prompts = counted(len(publication.tools), "tool"), counted(len(publication.prompts), "prompt")
    place = _url(address, doors) if address else "stdin and stdout"
    yield f"Goalport {__version__} serves {settings.name} on {place}: {tools}, {prompts}"
    yield from report_of(publication, publisher.platform)
    if address:
        yield from _connecting(settings, address, doors)
    yield from further_lines(publication, publisher.platform)
    if not address:
        yield "  serving one client over stdin and stdout"


def _connecting(settings: Settings, address: str, doors: Sequence[Door]) -> Iterator[str]:
    """The lines about who may call, and how clients connect."""
    if settings.workers == "auto" and settings.missing_for_several_workers:
        yield f"  one process, though workers is auto: several need {settings.missing_for_several_workers}"
    auth, way = settings.auth, "  Callers authenticate by"
    if settings.uses_keys:
        yield f"{way} a key: `goalport keys new NAME` makes one, `goalport connect CLIENT --key KEY` uses it"
    yield from (f"{way} a token of {each.issuer}" for each in (*auth.issuers, *auth.introspection))
    if auth.trusted_proxies:
        yield f"{way} the header {auth.proxy_user_header} of a proxy at {', '.join(auth.trusted_proxies)}"
    yield from (f"  warning: {exposure}" for exposure in exposures(settings))
    public = settings.public_url.rstrip("/") or address
    yield f"  Connect a client: {_connect_command(_url(public, doors), settings)}"
    for door in doors:
        yield from (f"  {line}" for line in door.report(public))


def _url(address: str, doors: Sequence[Door]) -> str:
    """The URL that is shown for the server: that of its first endpoint."""
    return address + next((route.path for door in doors for route in door.routes), "")


def _connect_command(url: str, settings: Settings) -> str:
    """The command that prints a client's configuration.

    It works in the folder where the server was started or, if the server has a public URL, on any machine.
    """
    if settings.public_url:
        key = ["--key", "KEY"] if settings.uses_keys else []
        return shlex.join(["goalport", "connect", "claude-code", "--url", url, *key])
    program, beside = "goalport", Path(sys.executable).with_name("goalport")
    if not shutil.which(program) and beside.exists():
        program = os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside)
    words = [program, "connect", "claude-code"]
    if settings.workspace != Path.cwd():
        words += ["--workspace", str(settings.workspace)]
    if urlsplit(url).port != settings.port:
        words += ["--url", url]
    return shlex.join(words)


async def watch(
    publisher: Publisher,
    interval: float = _CHECK_SECONDS,
    tells: Callable[[], bool] = lambda: True,
    *,
    reloads: bool = True,
    task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
) -> None:
    """Reload the workspace whenever its files change, until cancelled; `interval` is in seconds.

    The result is logged if `tells` returns True: of several workers, one logs it. Without `reloads`, nothing is
    reloaded, and it is logged once that files have changed since the workspace was loaded.
    """
    root, loaded = publisher.workspace.root, publisher.workspace
    seen, told = await anyio.to_thread.run_sync(_stamps, root), False
    task_status.started()
    while True:
        await anyio.sleep(interval)
        now = await anyio.to_thread.run_sync(_stamps, root)
        if reloads and now != seen:
            seen = now
            await _reload(publisher, logs=tells())
        elif publisher.workspace is not loaded and not reloads:  # SIGHUP has reloaded it
            loaded, seen, told = publisher.workspace, now, False
        elif now != seen and not told:
            told = True
            changed = min(path for path, _ in now.items() ^ seen.items())
            _log.warning(
                "%s changed, and the server goes on with what it has loaded. Start it again, with --reload to have each"
                " change taken at once.",
                Path(changed).relative_to(root),
            )


async def obey_sighup(publisher: Publisher, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
    """Until cancelled, reload the workspace at each SIGHUP, or end the server if its terminal was closed."""
    closed = closed_terminal()
    with anyio.open_signal_receiver(*reload_signals()) as signals:
        task_status.started()
        async for _ in signals:
            if closed():
                signal.raise_signal(signal.SIGTERM)
            elif not publisher.calls.closing.is_set():
                await _reload(publisher, logs=True)


async def _reload(publisher: Publisher, *, logs: bool) -> None:
    def load() -> tuple[Workspace, list[str]]:
        """The reloaded workspace, and the problems of publishing it, found with a separate platform."""
        workspace = load_workspace(publisher.workspace.root, fresh=True)
        trial = AgentPlatform.from_workspace(workspace, publisher.settings)
        return workspace, list(publish(trial, workspace, publisher.settings).problems)

    async with publisher.loading:
        try:
            with ExitStack() as undone:
                undone.callback(Importable.now().restore)
                fresh, problems = await anyio.to_thread.run_sync(load)
                worse = [each for each in problems if each not in publisher.publication.problems]
                if not worse:
                    undone.pop_all()
            if worse:
                if logs:
                    text = "The workspace changed and has new problems, so it is served as before:\n%s"
                    _log.error(text, "\n".join(worse))
                return
            before = set(publisher.publication.tools)
            await publisher.adopt(fresh)
            after = set(publisher.publication.tools)
            names = [*(f"+{name}" for name in sorted(after - before)), *(f"-{name}" for name in sorted(before - after))]
            if logs:
                _log.warning("Loaded the workspace anew. Tools: %s.", " ".join(names) or "the same names")
        except Exception as bug:
            logged("Loading the workspace anew", bug, tells_errors=False)


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
