"""The processes of the caller at a running server, over REST: as the same data in which the store gives them.

Above: the commands; below: `server_client`, which says in a sentence what is wrong with a request.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import quote

from goalport.base.errors import BadInput
from goalport.cli.server_client import ServerClient
from goalport.cli.sources import Page, local_time
from goalport.cli.terminal import Record, say, show_result

FAILED: Final = 1
_PROCESSES: Final = "/api/v1/process"
_LARGEST_PAGE: Final = 500
_WAIT_SECONDS: Final = 60
_ENDED: Final = frozenset({"completed", "failed", "terminated", "killed"})
_GOES_ON: Final = frozenset({"not_started", "running", "paused"})
_LEFT_OUT: Final = {"prompt": "", "reply": "", "arguments": "", "result": ""}
"""The fields of events that REST leaves out, as the store has them."""
View = dict[str, Any]


class ServedProcesses:
    """The processes that the caller has at a server; with `of_all`, those of all callers are listed."""

    def __init__(self, address: str, options: str, *, hint: str = "", of_all: bool = False) -> None:
        self.options = options
        self._of_all = {"all": True} if of_all else {}
        self._client = ServerClient(address, hint)

    async def page(self, statuses: Sequence[str], limit: int, after: str) -> Page:
        found: list[Record] = []
        more, count = True, 0
        async with self._client.connected() as server:
            while more and len(found) < limit:
                size = min(limit - len(found), _LARGEST_PAGE)
                asked: dict[str, Any] = {"limit": size, "after": after, "status": [*statuses], **self._of_all}
                page = await server.send("GET", "/api/v1/processes", "processes", params=asked)
                found += [_line(each) for each in page["processes"]]
                more = "next" in page["links"]
                after = str(found[-1]["process"]) if found else ""
            if statuses and not found:
                others = await server.send("GET", "/api/v1/processes", "processes", params={"limit": 1, **self._of_all})
                count = len(others["processes"])
        whose = "the" if self._of_all else "your"
        none = f"{'There is' if self._of_all else 'You have'} no process at {server.shown}."
        if count:
            none = (
                f"None of {whose} processes at {server.shown} runs, waits, rests or is stuck; --all lists the others."
            )
        return Page(found, more, none)

    async def view(self, process_id: str, *, events: bool) -> View:
        async with self._client.connected() as server:
            return _view(await server.send("GET", _path(process_id), "processId"))

    async def following(self, process_id: str) -> AsyncIterator[View]:
        async with ServerClient(self._client.address).connected() as server:
            async for number, data in server.events(f"/events/process/{quote(process_id, safe='')}"):
                fields = {_snake_case(name): value for name, value in data.items()}
                yield {"event_number": int(number), **_LEFT_OUT, **fields}

    @asynccontextmanager
    async def asked(self, process_id: str, question_id: str | None, *, wait: bool) -> AsyncGenerator["_ServedQuestion"]:
        async with self._client.connected() as server:
            view = _view(await server.send("GET", _path(process_id), "processId"))
            question = _question_in(view, question_id)
            if question is None:  # the server says what became of it
                sent = {"awaitableId": question_id, "wait": 0}
                await server.send("POST", f"{_path(process_id)}/continue", "processId", json=sent)
                raise BadInput(f"Question {question_id} is not open.")
            yield _ServedQuestion(server, process_id, question)

    async def kill(self, process_id: str, reason: str) -> str:
        async with self._client.connected() as server:
            view = await server.send("GET", _path(process_id), "processId")
            if view["status"] in _ENDED:
                raise BadInput(f"Process {process_id} has ended before: {view['status']}.")
            killed = await server.send("DELETE", _path(process_id), "processId", params={"reason": reason})
        return f"Process {process_id} is {killed['status']}."


class _ServedQuestion:
    """A question of a process at a server."""

    def __init__(self, server: ServerClient, process_id: str, question: Mapping[str, Any]) -> None:
        self._server = server
        self._process_id = process_id
        self.question = question

    async def status(self) -> str:
        view = _view(await self._server.send("GET", _path(self._process_id), "processId"))
        return "open" if _question_in(view, self.question["id"]) else "settled"

    async def settle(self, response: object, declined: str) -> str:
        said = {"declined": declined} if declined else {"response": response}
        sent = {"awaitableId": self.question["id"], "wait": 0, **said}
        path = f"{_path(self._process_id)}/continue"
        answer = await self._server.send("POST", path, "processId", json=sent)
        status = answer.get("processStatus", answer["status"])
        if status in _GOES_ON:
            return f"Done. The server goes on with process {self._process_id}."
        return f"Done. Process {self._process_id} is {status}."

    async def end(self, *, structured: bool) -> int:
        view: Mapping[str, Any] = {"status": "running"}
        while view["status"] in _GOES_ON:
            asked = {"wait": _WAIT_SECONDS}
            view = await self._server.send("GET", _path(self._process_id), "processId", params=asked)
        if "result" in view:
            show_result(_wire(view["result"]), structured=structured)
            return 0
        say(f"Process {self._process_id} is {view['status']}. {view['reason'] or ''}".strip())
        if view["status"] == "waiting":
            say(f"`goalport show {self._process_id} --server {self._server.shown}` shows how to answer.")
            return 0
        return FAILED


def _path(process_id: str) -> str:
    return f"{_PROCESSES}/{quote(process_id, safe='')}"


def _line(each: Mapping[str, Any]) -> Record:
    ended = each["finishedAt"] if each["status"] in _ENDED else None
    return {
        "process": each["processId"],
        "agent": each["agent"],
        **({"caller": f"{each['caller']['id']} {each['caller']['issuer']}".strip()} if "caller" in each else {}),
        "status": each["status"],
        "created": local_time(datetime.fromisoformat(each["createdAt"])),
        "ended": "" if ended is None else local_time(datetime.fromisoformat(ended)),
        "started_by": each["startedBy"] or "",
    }


def _view(answer: Mapping[str, Any]) -> View:
    """A process in the names that its page has, which are those of the store."""
    questions = [{**each, "id": each["awaitableId"], "message": each["prompt"]} for each in answer["questions"]]
    rest = {name: value for name, value in answer.items() if name not in {"processId", "links"}}
    final = answer["status"] in _ENDED
    return {"id": answer["processId"], **rest, "questions": questions, "final": final}


def _question_in(view: View, question_id: str | None) -> Mapping[str, Any] | None:
    """The open question of that id, or the only one. Raises `BadInput` if several are open, or none."""
    questions: list[Mapping[str, Any]] = view["questions"]
    if question_id is not None:
        return next((each for each in questions if each["id"] == question_id), None)
    if len(questions) > 1:
        listed = ", ".join(f"{each['id']} ({each['message']})" for each in questions)
        raise BadInput(f"{len(questions)} questions are open. Say with --question which is answered: {listed}.")
    if not questions:
        raise BadInput(f"Process {view['id']} waits for no answer: it is {view['status']}.")
    return questions[0]


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda found: f"_{found[1].lower()}", name)


def _wire(result: object) -> Mapping[str, Any]:
    """A result as MCP has it: its `content` as text, if it has one, otherwise its JSON."""
    structured = cast("Mapping[str, Any]", result) if isinstance(result, dict) else {"result": result}
    content = structured.get("content", result if isinstance(result, str) else None)
    text = content if isinstance(content, str) else json.dumps(result, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}
