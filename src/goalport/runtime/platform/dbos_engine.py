"""Processes delivered by DBOS: its durable queue in PostgreSQL limits how many run at once, and how fast they begin.

A delivery is a workflow of DBOS that runs one process until it rests. DBOS knows nothing of what the process does: its
steps are in the store of processes, and its lease there says who runs it. DBOS does not deliver a process again if the
program that got it has died: the program that takes it over in the store submits it again. Above: the platform.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import Context
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from uuid import uuid4

from goalport.base.errors import SettingsError, StoreError
from goalport.runtime.platform.replicas import Drive
from goalport.store.postgres import PostgresAddress

if TYPE_CHECKING:
    from sqlalchemy import Engine

_log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

_NAME: Final = "goalport"
"""The name of the queue, and of the application to which it belongs."""
_WORKFLOW: Final = "goalport.drive"
_PROTOCOL: Final = "1"
"""The version of the application for DBOS: programs with different versions do not share deliveries."""
_LOOK: Final = 0.2
"""Seconds between two looks at the queue."""
_CONNECTIONS: Final = 4
_PAUSES: Final = (0.05, 0.1, 0.2, 0.0, 0.0)
"""Seconds to wait, in turn, until the program of a process reports to DBOS that it rests; 0: count it as dead."""
_TIDY: Final = 60.0
"""Seconds between two looks at what programs have left behind in the queue."""
_LEFT: Final = timedelta(minutes=2)
_OLD: Final = timedelta(hours=1)
_BATCH: Final = 500
_ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


class DbosEngine:
    """Delivers processes by a queue of DBOS in a PostgreSQL database, usually the database of the store.

    Parameters: `url` is the URL of the database. Each program runs at most `concurrency` processes at once, and all
    together at most `total_concurrency`; at most `per_minute` are begun or continued in a minute; 0: no limit. The
    limits of the program that was started last apply to all. `pooler`: whether the URL is that of a pooler, such as
    PgBouncer. A program has one engine of DBOS at most. Raises `SettingsError` if DBOS is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        concurrency: int = 100,
        total_concurrency: int = 0,
        per_minute: int = 0,
        pooler: bool = False,
    ) -> None:
        if find_spec("dbos") is None:
            raise SettingsError(
                "The engine dbos needs a library that is not installed. Run pip install 'goalport[dbos]'."
            )
        self._address, self._pooler = PostgresAddress(url), pooler
        self._limits: dict[str, Any] = {
            "worker_concurrency": min(filter(None, (concurrency, total_concurrency)), default=None),
            "global_concurrency": total_concurrency or None,
            "limiter": {"limit": per_minute, "period": 60.0} if per_minute else None,
        }
        self._executor = uuid4().hex
        """The name of this program for DBOS; a new one each time, since DBOS recovers deliveries of a name it knows."""
        self._turn = asyncio.Lock()
        self._drive: Drive | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._database: Engine | None = None

    async def start(self, drive: Drive, /) -> None:
        async with self._turn:
            if self._drive is None:
                with self._in_words():
                    await _in_thread(self._launch, drive, asyncio.get_running_loop())
                self._drive = drive
                self._keep(asyncio.create_task(self._tidy(drive), name="goalport-dbos"))

    async def submit(self, process_id: str, version: int, /) -> None:
        with self._in_words():
            await _in_thread(_enqueue, process_id, version)

    async def stop(self) -> None:
        async with self._turn:
            if self._drive is None:
                return
            self._drive, running = None, [*self._tasks]
            for each in running:
                each.cancel()
            await asyncio.wait(running)
            # The first task tidies; each other one is a delivery, of which DBOS notes the end.
            await _in_thread(self._destroy, 1 if len(running) > 1 else 0)

    def _launch(self, drive: Drive, loop: asyncio.AbstractEventLoop) -> None:
        import psycopg
        from dbos import DBOS
        from sqlalchemy import create_engine

        def connect() -> Any:
            prepare = None if self._pooler else 5
            return psycopg.connect(self._address.url, connect_timeout=10, prepare_threshold=prepare)

        async def deliver(process_id: str) -> None:
            # Not in the context of the workflow: nothing that the process does is a step of it.
            delivered = Context().run(asyncio.run_coroutine_threadsafe, self._deliver(drive, process_id), loop)
            await asyncio.wrap_future(delivered)

        # PostgreSQL's own library reads the address, since it knows several hosts. DBOS would also create a database.
        self._database = create_engine(
            "postgresql+psycopg://", creator=connect, pool_size=_CONNECTIONS, max_overflow=0, pool_pre_ping=True
        )
        logger = logging.getLogger("dbos")
        if not logger.handlers:  # so that DBOS adds no handler of its own, and its records go where all others go
            logger.addHandler(logging.NullHandler())
        DBOS(
            config={
                "name": _NAME,
                "system_database_engine": self._database,
                "application_version": _PROTOCOL,
                "executor_id": self._executor,
                "use_listen_notify": False,
                "log_level": "WARNING",
            }
        )
        if DBOS.executor_id != self._executor:
            raise SettingsError(
                "DBOS runs once in a program, and something else in this one uses it already. Run this platform in a"
                " program of its own, or without the engine dbos."
            )
        with ExitStack() as undone:
            undone.callback(self._destroy, 0)
            DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=None)(deliver)
            DBOS.launch()
            DBOS.register_queue(_NAME, polling_interval_sec=_LOOK, on_conflict="always_update", **self._limits)
            undone.pop_all()

    def _destroy(self, seconds: int) -> None:
        from dbos import DBOS

        DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=seconds)
        if self._database is not None:
            self._database.dispose()

    async def _deliver(self, drive: Drive, process_id: str) -> None:
        task = self._keep(asyncio.ensure_future(drive(process_id)))
        with suppress(asyncio.CancelledError):  # the platform is closed: another program gets the process
            await task

    async def _tidy(self, drive: Drive) -> None:
        """Forget deliveries that ended long ago, and end those of dead programs."""
        from dbos import DBOS

        def look() -> list[str]:
            now = datetime.now(UTC)
            kind: dict[str, Any] = {"name": _WORKFLOW, "limit": _BATCH, "load_input": False, "load_output": False}
            unended = DBOS.list_workflows(status="PENDING", dequeued_before=(now - _LEFT).isoformat(), **kind)
            ended = DBOS.list_workflows(status=_ENDED, completed_before=(now - _OLD).isoformat(), **kind)
            if ended:
                DBOS.delete_workflows([each.workflow_id for each in ended])
            return [each.workflow_id for each in unended if each.executor_id != self._executor]

        async def end(workflow_id: str) -> None:
            """End a delivery, unless the program that got it runs the process."""
            if await drive(workflow_id.rpartition(":")[0]):
                with suppress(*_failures()):
                    await _in_thread(DBOS.cancel_workflow, workflow_id)

        while True:
            await asyncio.sleep(_TIDY)
            try:
                for each in await _in_thread(look):
                    self._keep(asyncio.create_task(end(each)))
            except _failures() as error:
                _log.warning("The queue of DBOS was not tidied; it is tried again: %s", error)

    def _keep(self, task: "asyncio.Task[T]") -> "asyncio.Task[T]":
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @contextmanager
    def _in_words(self) -> Generator[None]:
        try:
            yield
        except _failures() as error:
            problem = f"DBOS cannot use it ({type(error).__name__}: {error})."
            raise StoreError(f"at {self._address}", problem, "Try again later.") from error


async def _in_thread(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call a function that waits for a database in a thread, outside of the context of a workflow."""
    return await asyncio.to_thread(Context().run, function, *arguments, **options)


def _enqueue(process_id: str, version: int) -> None:
    from dbos import DBOS, WorkflowSerializationFormat

    workflow_id = f"{process_id}:{version}"
    for pause in _PAUSES:
        handle = DBOS.enqueue_workflow_with_options(
            {
                "workflow_name": _WORKFLOW,
                "queue_name": _NAME,
                "workflow_id": workflow_id,
                "deduplication_id": process_id,
                "duplication_policy": "return-existing",
                "serialization_type": WorkflowSerializationFormat.PORTABLE,
            },
            process_id,
        )
        if handle.workflow_id == workflow_id or handle.get_status().status == "ENQUEUED":
            return
        if pause:
            time.sleep(pause)
        else:
            DBOS.cancel_workflow(handle.workflow_id)


def _failures() -> tuple[type[Exception], ...]:
    from dbos import error
    from sqlalchemy.exc import SQLAlchemyError

    return SQLAlchemyError, error.DBOSException
