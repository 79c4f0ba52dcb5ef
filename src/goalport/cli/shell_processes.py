"""The processes that a shell runs itself, beside those of its workspace's store or server.

They live in the memory of the shell and end with it. Above: the commands, which find them through `sources`; below:
`stored`, whose questions are answered in the same way.
"""

import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from goalport.base.errors import BadInput, GoalportError, UnknownName
from goalport.base.events import as_json
from goalport.cli.sources import Asked, Page, Source
from goalport.cli.stored import QuestionHere, record_line
from goalport.cli.terminal import Record
from goalport.cli.workspace import KeptWorkspace
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, find_question
from goalport.server.publish.own_resources import process_view

View = dict[str, Any]
_HERE = "this shell"


async def shell_process(kept: KeptWorkspace, process_id: str) -> tuple[AgentPlatform, AgentProcess] | None:
    """The process of that id that a shell runs, or has run, with its platform; None if it has none of that id."""
    for each in kept.open:
        try:
            return each.platform, await each.platform.processes.look_at(process_id)
        except UnknownName:
            continue
    return None


class ShellProcesses:
    """The processes of a shell, and those of another source."""

    def __init__(self, kept: KeptWorkspace, others: Source) -> None:
        self.options = others.options
        self._kept = kept
        self._others = others
        self._shown: tuple[AgentPlatform, AgentProcess] | None = None

    async def page(self, statuses: Sequence[str], limit: int, after: str) -> Page:
        own = [line for line in await self._lines() if not statuses or line["status"] in statuses]
        places = [str(each["process"]) for each in own]
        if after and after not in places:
            return await self._others.page(statuses, limit, after)
        own = own[places.index(after) + 1 if after else 0 :]
        if len(own) > limit:
            return Page(own[:limit], more=True)
        try:
            others = await self._others.page(statuses, max(limit - len(own), 1), "")
        except GoalportError as error:  # there is no server
            others = Page([], none=str(error))
        lines = [*own, *({**each, "runs_in": ""} for each in others.lines)]
        names = dict.fromkeys(name for line in lines for name in line)
        aligned = [{name: line.get(name, "") for name in names} for line in lines[:limit]]
        none = f"No process runs or waits in this shell. {others.none}"
        return Page(aligned, others.more or len(lines) > limit, none)

    async def view(self, process_id: str, *, events: bool) -> View:
        found = self._shown = await shell_process(self._kept, process_id)
        if found is None:
            return await self._others.view(process_id, events=events)
        process = found[1]
        return {
            **process_view(process),
            "root": process.root.id,
            "startedBy": None if process.parent is None else process.parent.id,
            "final": process.over,
            "caller": process.caller.id,
            "subProcesses": [
                {"id": each.id, "agent": each.agent.name, "status": str(each.status)} for each in process.children
            ],
            "runner": {"host": socket.gethostname(), "pid": os.getpid(), "alive": True},
            "unreadable": None,
        }

    def following(self, process_id: str) -> AsyncIterator[View] | None:
        return self._others.following(process_id) if self._shown is None else _events(*self._shown)

    @asynccontextmanager
    async def asked(self, process_id: str, question_id: str | None, *, wait: bool) -> AsyncGenerator[Asked]:
        found = await shell_process(self._kept, process_id)
        if found is None:
            async with self._others.asked(process_id, question_id, wait=wait) as asked:
                yield asked
            return
        platform, process = found
        yield _ShellQuestion(platform, process_id, find_question(process, question_id)[1])

    async def kill(self, process_id: str, reason: str) -> str:
        found = await shell_process(self._kept, process_id)
        if found is None:
            return await self._others.kill(process_id, reason)
        process = found[1]
        if process.over:
            raise BadInput(f"Process {process_id} has ended before: {process.status}.")
        process.kill(reason)
        await process.rest()
        return f"Process {process_id} is {process.status}."

    async def _lines(self) -> Sequence[Record]:
        """The processes of the shell, the newest first."""
        records = [record for each in self._kept.open for record in await each.platform.processes.records()]
        records.sort(key=lambda each: each.created_at, reverse=True)
        return [{**record_line(each), "runs_in": _HERE} for each in records]


class _ShellQuestion(QuestionHere):
    """A question of a process of the shell."""

    async def settle(self, response: object, declined: str) -> str:
        told = await super().settle(response, declined)
        return told if self.over else f"Done. Process {self.process_id} goes on in this shell."


async def _events(platform: AgentPlatform, process: AgentProcess) -> AsyncIterator[View]:
    async for each in platform.processes.events(process, 0):
        data: Mapping[str, Any] = as_json(each.event)
        yield {"event_number": each.number, **data}
