"""The export of a family of processes: all that a store has of it, as one JSON object that other programs can read.

The values are as the store has them: objects under the names of their classes, which need not be known here. Secrets
are left out. The number of the format is raised when a reader has to know of a change. Below: the records. Above: the
command line writes exports, and `goalport.testing` reads them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.store.records import JournalRecord, ObjectRecord, ProcessRecord, QuestionRecord, StoredProcess

FORMAT: Final = 1
"""The number of the format that is written."""
_PLACEHOLDERS: Final = {"$secret_text": b"left out", "$secret_bytes": b"left out", "$sealed": b'"left out"'}
"""What stands for a secret when an export is read, by the key under which its cipher text was."""


class LeftOut:
    """The `Seal` for the objects of an export: each secret reads `left out`."""

    def seal(self, secret: bytes, /) -> str:
        """Leave a secret out; its value is not kept."""
        return "$sealed"

    def unseal(self, sealed: str, /) -> bytes:
        """What stands for a secret. Raises `ValueError` for anything that no export holds."""
        if sealed not in _PLACEHOLDERS:
            raise ValueError(sealed)
        return _PLACEHOLDERS[sealed]


def exported(family: Sequence[StoredProcess], *, version: str) -> dict[str, Any]:
    """A family as JSON data, its root first; `version` is that of the program that writes it."""
    return {
        "format": FORMAT,
        "goalport": version,
        "root": family[0].process.root,
        "processes": [_process(each) for each in family],
    }


def imported(data: Mapping[str, Any]) -> Sequence[StoredProcess]:
    """The family of an export. Raises `BadInput` for what is no export, or one of a newer format."""
    if data.get("format") != FORMAT or not data.get("processes"):
        raise BadInput(
            f"Expected an export of format {FORMAT} as `goalport export ID` writes it, but its format is"
            f" {data.get('format')!r}. Export the process again, or read it with the goalport that wrote it."
        )
    return [_stored(each) for each in data["processes"]]


def _process(stored: StoredProcess) -> dict[str, Any]:
    record = stored.process
    caller = record.caller
    return {
        **record._asdict(),
        "caller": {
            "id": caller.id,
            "issuer": caller.issuer,
            "scopes": sorted(caller.scopes),
            "claims": dict(caller.claims),
        },
        "created_at": record.created_at.isoformat(),
        "finished_at": None if record.finished_at is None else record.finished_at.isoformat(),
        "state": _without_secrets(record.state),
        "whole": stored.whole,
        "objects": [_part(each) for each in stored.objects],
        "history": [_without_secrets(each) for each in stored.history],
        "spendings": [_without_secrets(each) for each in stored.spendings],
        "questions": [{**_part(each), "asked_at": each.asked_at.isoformat()} for each in stored.questions],
        "journal": [_part(each) for each in stored.journal],
    }


def _part(record: ObjectRecord | QuestionRecord | JournalRecord) -> dict[str, Any]:
    return {name: _without_secrets(value) for name, value in record._asdict().items()}


def _without_secrets(value: object) -> Any:
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value)
        return {name: name if name in _PLACEHOLDERS else _without_secrets(each) for name, each in inner.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(each) for each in cast("Sequence[object]", value)]
    return value


def _stored(data: Mapping[str, Any]) -> StoredProcess:
    fields = {name: data[name] for name in ProcessRecord._fields}
    caller = cast("Mapping[str, Any]", data["caller"])
    # Exports that were written before have no claims.
    claims = caller.get("claims", {})
    fields["caller"] = Caller(caller["id"], caller["issuer"], frozenset(caller["scopes"]), claims)
    for name in ("created_at", "finished_at"):
        fields[name] = None if data[name] is None else datetime.fromisoformat(data[name])
    return StoredProcess(
        ProcessRecord(**fields),
        [ObjectRecord(**each) for each in data["objects"]],
        data["history"],
        data["spendings"],
        [
            QuestionRecord(**each)._replace(asked_at=datetime.fromisoformat(each["asked_at"]))
            for each in data["questions"]
        ],
        [JournalRecord(**each) for each in data["journal"]],
        whole=data["whole"],
    )
