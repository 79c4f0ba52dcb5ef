"""Converts records to rows and rows to records, for every database.

The values in the records are JSON data from a codec. This module knows the columns of `tables`, but no driver.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from pydantic_core import PydanticSerializationError, to_json

from goalport.base.caller import Caller
from goalport.store.records import (
    EventRecord,
    JournalRecord,
    ObjectRecord,
    ProcessRecord,
    QuestionRecord,
    StoredProcess,
    parents_first,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED: Final = json.JSONEncoder(separators=(",", ":"))


class Row(Protocol):
    """A row from a query: its values by the names of the columns."""

    def __getitem__(self, name: str, /) -> Any: ...


class ProcessRows(NamedTuple):
    """The rows of a process. The number of the process is not known yet."""

    process: dict[str, object]
    parts: Mapping[str, Sequence[dict[str, object]]]
    """The rows of its parts, by table."""
    ended_actions: Sequence[str]
    """The actions whose stored steps are deleted first."""


def rows_of(stored: StoredProcess) -> ProcessRows:
    """The rows of a process. Raises `TypeError` or `ValueError` for a value that is no JSON data."""

    def placed(values: Sequence[object], first: int) -> Sequence[dict[str, object]]:
        return [{"place": place, "value": json_text(each)} for place, each in enumerate(values, first)]

    def row(record: QuestionRecord | JournalRecord, *texts: str) -> dict[str, object]:
        values = record._asdict()
        return {"place": values.pop("number"), **values, **{each: json_text(values[each]) for each in texts}}

    record = stored.process
    process: dict[str, object] = record._asdict()
    del process["caller"], process["seconds_run"]
    process |= {
        **caller_row(record.caller),
        "created_at": microseconds(record.created_at),
        "finished_at": None if record.finished_at is None else microseconds(record.finished_at),
        "whole": stored.whole,
        "run_time": round(record.seconds_run * 1_000_000),
        "definition": None if record.definition is None else json_text(record.definition),
        "state": None if record.state is None else json_text(record.state),
    }
    objects: list[dict[str, object]] = [
        {
            "number": each.number,
            "kind": None if each.kind is None else json_text(each.kind),
            "value": json_text(each.value),
        }
        for each in stored.objects
    ]
    parts: Mapping[str, Sequence[dict[str, object]]] = {
        "object": objects,
        "history": placed(stored.history, stored.history_from),
        "spending": placed(stored.spendings, stored.spendings_from),
        # Reasons may have characters that not every database accepts as plain text.
        "question": [
            {**row(each, "wait", "answer", "reason"), "asked_at": microseconds(each.asked_at)}
            for each in stored.questions
        ],
        "journal": [row(each, "value") for each in stored.journal],
    }
    return ProcessRows(process, parts, stored.ended_actions)


def stored_processes(processes: Sequence[Row], parts: Mapping[str, Sequence[Row]]) -> Sequence[StoredProcess]:
    """The processes of a family, each after its parent, from their rows and the sorted rows of all parts."""
    of_process: dict[tuple[str, int], list[Row]] = {}
    for table, rows in parts.items():
        for each in rows:
            of_process.setdefault((table, each["process"]), []).append(each)
    members: list[StoredProcess] = []
    for row in processes:
        objects, history, spendings, questions, journal = (of_process.get((each, row["number"]), ()) for each in parts)
        members.append(
            StoredProcess(
                process_record(row),
                [
                    ObjectRecord(each["number"], json.loads(each["value"]), each["kind"] and json.loads(each["kind"]))
                    for each in objects
                ],
                [json.loads(each["value"]) for each in history],
                [json.loads(each["value"]) for each in spendings],
                [
                    QuestionRecord(
                        number=each["place"],
                        **{name: each[name] for name in ("id", "action", "status")},
                        **{name: json.loads(each[name]) for name in ("wait", "answer", "reason")},
                        in_action=bool(each["in_action"]),
                        asked_at=time_of(each["asked_at"]),
                    )
                    for each in questions
                ],
                [
                    JournalRecord(each["place"], each["action"], each["kind"], each["name"], json.loads(each["value"]))
                    for each in journal
                ],
                whole=bool(row["whole"]),
            )
        )
    return list(parents_first(members))


def process_record(row: Row, *, whole: bool = True) -> ProcessRecord:
    """The record in a row; not `whole`: without its definition, its state and its caller's claims."""
    return ProcessRecord(
        **{each: row[each] for each in ("id", "root", "parent", "agent", "status", "result")},
        caller=caller_in(row, whole=whole),
        ended=bool(row["ended"]),
        final=bool(row["final"]),
        created_at=time_of(row["created_at"]),
        finished_at=None if row["finished_at"] is None else time_of(row["finished_at"]),
        long=bool(row["long"]),
        seconds_run=row["run_time"] / 1_000_000 if whole else 0.0,
        definition=json.loads(row["definition"]) if whole else None,
        state=json.loads(row["state"]) if whole else None,
    )


def event_records(texts: Iterable[str], after: int, limit: int) -> Sequence[EventRecord]:
    """The events in rows after the number `after`; whole rows, until there are at least `limit` events.

    A save that was repeated, since its result was unknown, may have left an event in two rows.
    """
    found: list[EventRecord] = []
    for text in texts:
        if len(found) >= limit:
            break
        for number, value in json.loads(text):
            if number > after:
                found.append(EventRecord(number, value))
                after = number
    return found


def caller_row(caller: Caller) -> dict[str, object]:
    """The columns of a caller."""
    return {
        "caller_id": caller.id,
        "caller_issuer": caller.issuer,
        "caller_scopes": json_text(sorted(caller.scopes)),
        "caller_claims": json_text(dict(caller.claims)),
    }


def caller_in(row: Row, *, whole: bool = True) -> Caller:
    """The caller in a row; not `whole`: without the claims."""
    claims: dict[str, Any] = json.loads(row["caller_claims"]) if whole else {}
    return Caller(row["caller_id"], row["caller_issuer"], frozenset(json.loads(row["caller_scopes"])), claims)


def json_text(value: object) -> str:
    """JSON data as text for a database."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:
        # Half a surrogate pair is a Python string and a JSON text, but no UTF-8.
        return _ESCAPED.encode(value)


def comparable_text(value: object) -> str:
    """JSON data as text that equals the stored text of the same data, also for texts of earlier versions."""
    text = _PLAIN.encode(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ESCAPED.encode(value)
    return text


def microseconds(moment: datetime) -> int:
    """A time as a database has it, in microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def time_of(microseconds: int) -> datetime:
    """The time of a number of microseconds since 1970."""
    return _EPOCH + microseconds * _MICROSECOND
