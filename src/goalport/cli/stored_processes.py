"""The store of a workspace, for commands that show or change its processes; and the processes of a shell.

A server may use the same store meanwhile, so a command does as little as it can: it never takes over the processes of
other programs. Of a process that today's classes cannot read, it shows what needs no class of the workspace, and the
exact difference.
"""

import os
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

from goalport.base.errors import BadInput, GoalportError, UnknownName, Unreadable
from goalport.base.events import as_json
from goalport.cli.options import FAILED, workspace_root
from goalport.cli.process_sources import NOTHING_STORED, JsonObject, OpenQuestion, Page, ProcessSource
from goalport.cli.terminal import local_time, say, show_result
from goalport.cli.views import RunView
from goalport.cli.workspace import SHELL_WORKSPACE, LoadedWorkspace, open_with_settings, warn_of_problems
from goalport.runtime.platform.workspace_parts import workspace_store
from goalport.runtime.process import (
    ActionInvocation,
    AgentProcess,
    Completed,
    ProcessStatus,
    Spending,
    Waiting,
    find_question,
)
from goalport.server.publish.answers import reason_of
from goalport.server.publish.forms import form_of
from goalport.server.publish.output import OutputFormat
from goalport.server.publish.resources import invocation_view, process_view, question_view
from goalport.store import Codec, Json, ProcessRecord, ProcessStore, StoredProcess, StoredTypes
from goalport.workspace.settings import Settings, load_settings

_AT_A_TIME: Final = 500
"""The number of events that are read in one query."""


class StoredProcesses:
    """The processes of all callers in a store, or those of a shell if `shell_workspace` is its open workspace."""

    def __init__(self, settings: Settings, options: str, shell_workspace: LoadedWorkspace | None = None) -> None:
        self._settings, self._shell_workspace = settings, shell_workspace
        self.options, self.live = options, shell_workspace is not None

    async def page(self, statuses: Sequence[str], limit: int, after: str) -> Page:
        none = "No process is stored."
        if not has_store(self._settings):
            return Page([], none=none)
        async with open_store(self._settings) as store:
            found = await store.records(after=after, limit=limit + 1, statuses=statuses, newest_first=True)
            counts = await store.counts()
        if statuses and any(number for name, number in counts.items() if name not in statuses):
            none = "No process runs, waits, rests or is stuck; --all lists the others."
        return Page([*map(_line, found[:limit])], len(found) > limit, none)

    async def view(self, process_id: str) -> JsonObject:
        loaded = self._shell_workspace or open_with_settings(self._settings.workspace, self._settings, migrates=False)
        platform, unreadable = loaded.platform, None
        try:
            family = await family_in(platform.store, process_id)
            runner: object = {"host": socket.gethostname(), "pid": os.getpid(), "alive": True}
            if self._shell_workspace is None:
                found = await platform.store.runner(process_id)
                runner = found and found._asdict()
            stored = next(each for each in family if each.process.id == process_id)
            try:
                view = process_view(await platform.processes.peek(process_id))
            except Unreadable as error:
                view, unreadable = _without_classes(stored), str(error)
        finally:
            if self._shell_workspace is None:
                await platform.aclose()
        record = stored.process
        children = [each.process for each in family if each.process.parent == record.id]
        return {
            **view,
            "root": record.root,
            "startedBy": record.parent,
            "final": record.final,
            "caller": record.caller.id,
            "subProcesses": [{"id": each.id, "agent": each.agent, "status": each.status} for each in children],
            "runner": runner,
            "unreadable": unreadable,
        }

    async def events(self, process_id: str) -> AsyncGenerator[JsonObject]:
        """The events of a process and of all processes that it started."""
        if self._shell_workspace is not None:
            processes = self._shell_workspace.platform.processes
            async for each in processes.events(await processes.peek(process_id), 0):
                yield {"event_number": each.number, **as_json(each.event)}
            return
        async with open_store(self._settings) as store:
            family, members, number = await family_in(store, process_id), {process_id}, 0
            for each in family:  # parents come before their children
                if each.process.parent in members:
                    members.add(each.process.id)
            while records := await store.events(family[0].process.id, number, _AT_A_TIME):
                for number, value in records:
                    event = cast("Mapping[str, Any]", value)
                    if event["process_id"] in members:
                        yield {"event_number": number, **event}

    @asynccontextmanager
    async def open_question(
        self, process_id: str, question_id: str | None, *, wait: bool
    ) -> AsyncGenerator[OpenQuestion]:
        async with open_with_store(self._settings, drive=wait, shell_workspace=self._shell_workspace) as loaded:
            platform = loaded.platform
            question = find_question(await platform.process(process_id), question_id)[1]
            answered: AgentProcess

            async def status() -> str:
                return find_question(await platform.processes.peek(process_id), question.id)[1].status

            async def answer_or_decline(response: object, declined: str) -> str:
                nonlocal answered
                read = None if declined else form_of(question).read(response)
                answered = await platform.answer(process_id, question.id, read, declined=declined)
                if self._shell_workspace is not None and not answered.over:
                    return f"Done. Process {process_id} goes on in this shell."
                return state_after_change(answered)

            yield OpenQuestion(
                question_view(question),
                status,
                answer_or_decline,
                lambda structured: wait_and_print(answered, structured),
            )

    async def kill(self, process_id: str, reason: str) -> str:
        async with open_with_store(self._settings, drive=False, shell_workspace=self._shell_workspace) as loaded:
            processes = loaded.platform.processes
            try:
                process = await processes.find(process_id)
            except Unreadable as error:
                await processes.kill_unreadable(process_id, reason)
                return f"Process {process_id} is killed with its family. Only its history is kept: {error}"
            if process.over:
                raise BadInput(f"Process {process.id} has ended before: {process.status}.")
            process.kill(reason)
            await process.rest()
            return f"Process {process.id} is {process.status}."


async def in_shell(process_id: str, others: ProcessSource) -> ProcessSource:
    """The shell in which this runs, if it has a process of that id; otherwise `others`."""
    for each in _open_in_shell():
        with suppress(UnknownName):
            await each.platform.processes.peek(process_id)
            return StoredProcesses(each.settings, others.options, each)
    return others


async def page_with_shell(others: ProcessSource, statuses: Sequence[str], limit: int, after: str) -> Page:
    """A page with the processes of the shell in which this runs, followed by the processes of another source."""
    records = [record for each in _open_in_shell() for record in await each.platform.processes.records()]
    records.sort(key=lambda each: each.created_at, reverse=True)
    own = [{**_line(each), "runs_in": "this shell"} for each in records if not statuses or each.status in statuses]
    places = [str(each["process"]) for each in own]
    if after and after not in places:
        return await others.page(statuses, limit, after)
    own = own[places.index(after) + 1 if after else 0 :]
    if len(own) > limit:
        return Page(own[:limit], more=True)
    try:
        below = await others.page(statuses, max(limit - len(own), 1), "")
    except GoalportError as error:  # there is no server
        below = Page([], none=str(error))
    lines = [*own, *({**each, "runs_in": ""} for each in below.lines)]
    names = dict.fromkeys(name for line in lines for name in line)
    aligned = [{name: line.get(name, "") for name in names} for line in lines[:limit]]
    return Page(aligned, below.more or len(lines) > limit, f"No process runs or waits in this shell. {below.none}")


def _open_in_shell() -> Sequence[LoadedWorkspace]:
    shell = SHELL_WORKSPACE.get()
    return () if shell is None else shell.open


def _line(record: ProcessRecord) -> dict[str, object]:
    """A process in a list."""
    return {
        "process": record.id,
        "agent": record.agent,
        "status": record.status,
        "created": local_time(record.created_at),
        "ended": local_time(record.finished_at) if record.final and record.finished_at is not None else "",
        "started_by": record.parent,
        "caller": record.caller.id,
    }


def state_after_change(process: AgentProcess) -> str:
    """The text that reports a change of a process."""
    if process.status.ended or process.status is ProcessStatus.WAITING:
        return f"Done. Process {process.id} is {process.status}."
    return f"Done. A server that runs goes on with process {process.id} at once; otherwise the next one does."


async def wait_and_print(process: AgentProcess, structured: bool) -> int:  # noqa: FBT001 - as in `OpenQuestion`
    """Wait until a process that runs here ends or asks, and print its result or the reason; returns the exit code."""
    process.subscribe(RunView())
    outcome, goal = await process.wait(), process.goal
    if isinstance(outcome, Completed):
        wire = OutputFormat.of(None if goal is None else goal.output).written(outcome.value).wire
        show_result(wire, structured=structured)
        return 0
    say(f"{reason_of(outcome, process.agent.name if goal is None else goal.name)}")
    if isinstance(outcome, Waiting):
        say(f"`goalport show {process.id}` shows how to answer.")
        return 0
    return FAILED


@asynccontextmanager
async def open_with_store(
    settings: Settings, *, drive: bool, shell_workspace: LoadedWorkspace | None = None
) -> AsyncGenerator[LoadedWorkspace]:
    """A workspace whose stored processes can be changed, or the workspace `shell_workspace` of a shell.

    With `drive`, a changed process goes on in this program.
    """
    if shell_workspace is not None:
        yield shell_workspace
        return
    loaded = open_with_settings(settings.workspace, settings, migrates=drive)
    warn_of_problems(loaded)
    loaded.platform.processes.disable_takeover(drive=drive)
    try:
        if drive:
            await loaded.platform.upstream.open()
        yield loaded
    finally:
        await loaded.platform.aclose()


def stored_settings(folder: Path) -> Settings:
    """The settings of a workspace. Raises `BadInput` if its store is in memory, so that nothing is stored."""
    settings = load_settings(workspace_root(folder))
    if settings.store == "memory":
        raise BadInput(NOTHING_STORED)
    return settings


def has_store(settings: Settings) -> bool:
    """Whether a workspace has a store that can be read. Commands that only read must not create its file."""
    return settings.store != "memory" and (settings.store != "sqlite" or (settings.data_dir / "processes.db").exists())


@asynccontextmanager
async def open_store(settings: Settings, *, migrates: bool = False) -> AsyncGenerator[ProcessStore]:
    """The store of a workspace, closed at the end. Raises `StoreError` if it is an earlier version's, not migrated."""
    store = workspace_store(settings, migrates=migrates)
    assert isinstance(store, AbstractAsyncContextManager)
    async with store:
        yield store


async def family_in(store: ProcessStore, process_id: str) -> Sequence[StoredProcess]:
    """The records of the family of a process, the root first. Raises `UnknownName` for an id that is not stored."""
    family, _ = await store.family(process_id)
    if not family:
        raise UnknownName("process", process_id, None)
    return family


def _without_classes(stored: StoredProcess) -> JsonObject:
    """A process as `process_view` gives it, with only the data that needs no classes of the workspace."""
    record, codec = stored.process, Codec(StoredTypes())

    def readable(values: Sequence[object]) -> Sequence[Any]:
        found: list[object] = []
        for each in values:
            with suppress(Unreadable):
                found.append(codec.decode(cast("Json", each)))
        return found

    costs: Sequence[Spending] = readable(stored.spendings)
    history: Sequence[ActionInvocation] = readable(stored.history)
    return {
        "id": record.id,
        "agent": record.agent,
        "status": record.status,
        "reason": None,
        "goal": None,
        "plan": [],
        "questions": [
            {"id": each.id, "message": f"What {each.action} asked", "askedAt": each.asked_at.isoformat()}
            for each in stored.questions
            if each.status == "open"
        ],
        "history": [*map(invocation_view, history)],
        "createdAt": record.created_at.isoformat(),
        "finishedAt": None if record.finished_at is None else record.finished_at.isoformat(),
        "cost": {
            "usd": sum(each.usage.cost or 0 for each in costs),
            "inputTokens": sum(each.usage.input_tokens for each in costs),
            "outputTokens": sum(each.usage.output_tokens for each in costs),
            "modelCalls": sum(1 for each in costs if each.model),
        },
    }
