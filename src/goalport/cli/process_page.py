"""The page on which a process is shown: lines of text, made of its JSON data.

The data are the same wherever the process was looked at; what is not known there is left out. Nothing is read here.
Above: the command; beside it `stored` and `served`, which give the data.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from goalport.base.events import from_json
from goalport.base.observe import in_words
from goalport.base.words import one_line
from goalport.cli.sources import local_time

View = Mapping[str, Any]


def page_of(view: View, options: str) -> Iterator[str]:
    """The lines of the page; `options` name the place of the process in other commands."""
    yield f"{view['id']}: {view['agent']}, {view['status']}"
    for name, value in _facts(view):
        yield f"  {name:<12}{value}"
    if view.get("unreadable"):
        yield ""
        yield "Today's code cannot read it, so it does not go on:"
        yield f"  {view['unreadable']}"
        yield f"  `goalport kill {view['id']}{options}` ends it all the same."
    yield from _table("History", view["history"], _invocation)
    yield from _table("Questions", view["questions"], partial(_question, view["id"], options))
    yield from _table("Sub-processes", view.get("subProcesses", ()), _sub_process)
    if "result" in view:
        yield from _table("Result", [view["result"]], _result)
    yield from _table("Events", view.get("events", ()), partial(event_lines, view["id"]))


def event_lines(process_id: str, data: View) -> Iterator[str]:
    """An event of a process, or of one that it started, as a line; none if it matters to programs only."""
    event = from_json(data)
    words = None if event is None else in_words(event)
    if words:
        whose = "" if data["process_id"] == process_id else f"{data['process_id']}: "
        yield f"  {_local(data['at'])}  {whose}{one_line(words)}"


def _facts(view: View) -> Iterator[tuple[str, str]]:
    yield "created", _local(view["createdAt"])
    if view["finishedAt"]:
        yield "ended" if view["final"] else "rests since", _local(view["finishedAt"])
    if "runner" in view:
        yield "runs in", _runner(view)
    if "caller" in view:
        yield "caller", view["caller"]
    if view.get("startedBy"):
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
    yield from (f"    {one_line(why, 500)}" for why in each.get("missingTools", ()))


def _question(process_id: str, options: str, each: View) -> Iterator[str]:
    yield f"{each['id']}, asked {_local(each['askedAt'])}: {each['message']}"
    if "schema" in each:
        yield f"    the answer as JSON Schema: {json.dumps(each['schema'], ensure_ascii=False)}"
    yield f"    goalport answer {process_id} --question {each['id']}{options}"


def _sub_process(each: View) -> Iterator[str]:
    yield f"{each['id']}: {each['agent']}, {each['status']}"


def _result(value: object) -> Iterator[str]:
    yield from json.dumps(value, indent=2, ensure_ascii=False).splitlines()


def _local(moment: str) -> str:
    return local_time(datetime.fromisoformat(moment))
