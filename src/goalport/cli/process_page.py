"""One stored process as `goalport show` presents it: as JSON data, and as a page of text made of these data.

What today's classes cannot read is shown as far as it needs no class of the workspace, with the exact difference. It
reads and changes nothing. Above: the command; below: platform, publish and store.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from goalport.cli.stored import family_in
from goalport.cli.workspace import LoadedWorkspace
from goalport.errors import Unreadable
from goalport.events import from_json
from goalport.observe import in_words
from goalport.process import ActionInvocation, Spending
from goalport.publish.own_resources import invocation_view, process_view
from goalport.store import Codec, Json, ProcessStore, Runner, StoredProcess, StoredTypes
from goalport.words import one_line

_AT_A_TIME: Final = 500

__all__ = ["local_time", "page_of", "view_of"]

View = Mapping[str, Any]


def local_time(moment: datetime) -> str:
    """A time in the zone of this machine, to the second."""
    return moment.astimezone().isoformat(" ", "seconds")


async def view_of(loaded: LoadedWorkspace, process_id: str, *, events: bool) -> dict[str, Any]:
    """A process as JSON data, with its `events` if wanted. Raises `UnknownName` for an id that is not stored."""
    platform = loaded.platform
    try:
        family = await family_in(platform.store, process_id)
        runner = await platform.store.runner(process_id)
        stored = next(each for each in family if each.process.id == process_id)
        try:
            view, unreadable = process_view(await platform.processes.look_at(process_id)), None
        except Unreadable as error:
            view, unreadable = _without_classes(stored), str(error)
        if events:
            view["events"] = await _events(platform.store, family, process_id)
    finally:
        await platform.aclose()
    return {**view, **_relations(family, stored, runner), "unreadable": unreadable}


async def _events(store: ProcessStore, family: Sequence[StoredProcess], process_id: str) -> Sequence[Mapping[str, Any]]:
    """What happened in a process and in those that it started."""
    members = {process_id}
    for each in family:  # each comes after the one that started it
        if each.process.parent in members:
            members.add(each.process.id)
    found: list[Mapping[str, Any]] = []
    number = 0
    while records := await store.events(family[0].process.id, number, _AT_A_TIME):
        number = records[-1].number
        told = [(each.number, cast("Mapping[str, Any]", each.value)) for each in records]
        found += [{"event_number": place, **data} for place, data in told if data["process_id"] in members]
    return found


def _relations(family: Sequence[StoredProcess], stored: StoredProcess, runner: Runner | None) -> dict[str, Any]:
    record = stored.process
    return {
        "root": record.root,
        "startedBy": record.parent,
        "final": record.final,
        "caller": record.caller.id,
        "subProcesses": [
            {"id": each.process.id, "agent": each.process.agent, "status": each.process.status}
            for each in family
            if each.process.parent == record.id
        ],
        "runner": None if runner is None else runner._asdict(),
    }


def _without_classes(stored: StoredProcess) -> dict[str, Any]:
    """What is known of a process without the classes of its workspace, in the form of `process_view`."""
    record, codec = stored.process, Codec(StoredTypes())
    history, costs = list[ActionInvocation](), list[Spending]()
    for each in stored.history:
        with suppress(Unreadable):
            history.append(cast("ActionInvocation", codec.decode(cast("Json", each))))
    for each in stored.spendings:
        with suppress(Unreadable):
            costs.append(cast("Spending", codec.decode(cast("Json", each))))
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
        "history": [invocation_view(each) for each in history],
        "createdAt": record.created_at.isoformat(),
        "finishedAt": None if record.finished_at is None else record.finished_at.isoformat(),
        "cost": {
            "usd": sum(each.usage.cost or 0 for each in costs),
            "inputTokens": sum(each.usage.input_tokens for each in costs),
            "outputTokens": sum(each.usage.output_tokens for each in costs),
            "modelCalls": sum(1 for each in costs if each.model),
        },
    }


def page_of(view: View) -> Iterator[str]:
    """The lines of the page."""
    yield f"{view['id']}: {view['agent']}, {view['status']}"
    for name, value in _facts(view):
        yield f"  {name:<12}{value}"
    if view["unreadable"]:
        yield ""
        yield "Today's code cannot read it, so it does not go on:"
        yield f"  {view['unreadable']}"
        yield f"  `goalport kill {view['id']}` ends it all the same."
    yield from _table("History", view["history"], _invocation)
    yield from _table("Questions", view["questions"], partial(_question, view["id"]))
    yield from _table("Sub-processes", view["subProcesses"], _sub_process)
    yield from _table("Events", view.get("events", ()), partial(_event, view["id"]))


def _event(process_id: str, data: View) -> Iterator[str]:
    event = from_json(data)
    words = None if event is None else in_words(event)
    if words:
        whose = "" if data["process_id"] == process_id else f"{data['process_id']}: "
        yield f"  {_local(data['at'])}  {whose}{one_line(words)}"


def _facts(view: View) -> Iterator[tuple[str, str]]:
    yield "created", _local(view["createdAt"])
    if view["finishedAt"]:
        yield "ended" if view["final"] else "rests since", _local(view["finishedAt"])
    yield "runs in", _runner(view)
    yield "caller", view["caller"]
    if view["startedBy"]:
        yield "part of", view["startedBy"]
    if view["goal"]:
        yield "goal", view["goal"]
    if view["plan"]:
        yield "plan", " → ".join(view["plan"])
    if view["reason"]:
        yield "reason", view["reason"]
    cost = view["cost"]
    if cost["modelCalls"]:
        tokens = f"{cost['inputTokens']:,} and {cost['outputTokens']:,} tokens"
        yield "cost", f"{cost['usd']:.4f} USD, {tokens} in and out, {cost['modelCalls']} requests of models"


def _runner(view: View) -> str:
    match view["runner"]:
        case {"host": host, "pid": pid, "alive": True}:
            return f"process {pid} on {host}"
        case {"host": host, "pid": pid}:
            return f"process {pid} on {host}, which does not answer any more; the next server goes on with it"
        case _ if view["status"] in {"running", "not_started"}:
            return "no program; the next server goes on with it"
        case _:
            return "no program, since nothing of it is to run now"


def _table(title: str, items: Sequence[View], lines: Callable[[View], Iterable[str]]) -> Iterator[str]:
    if items:
        yield ""
        yield title
        for each in items:
            for line in lines(each):
                yield f"  {line}"


def _invocation(each: View) -> Iterator[str]:
    attempts = "" if each["attempts"] == 1 else f", {each['attempts']} attempts"
    cost = f", {each['usd']:.4f} USD, {each['tokens']:,} tokens" if each["tokens"] else ""
    yield f"{_local(each['startedAt'])}  {each['action']}: {each['status']} in {each['seconds']:.2f} s{attempts}{cost}"
    if each["error"]:
        yield f"    {one_line(each['error'], 500)}"


def _question(process_id: str, each: View) -> Iterator[str]:
    yield f"{each['id']}, asked {_local(each['askedAt'])}: {each['message']}"
    if "schema" in each:
        yield f"    the answer as JSON Schema: {json.dumps(each['schema'], ensure_ascii=False)}"
    yield f"    goalport answer {process_id} --question {each['id']}"


def _sub_process(each: View) -> Iterator[str]:
    yield f"{each['id']}: {each['agent']}, {each['status']}"


def _local(moment: str) -> str:
    return local_time(datetime.fromisoformat(moment))
