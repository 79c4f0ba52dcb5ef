"""The export of a family of processes: all stored data of it, as one JSON object that other programs can read.

The values are as the store has them: objects under the names of their classes, which need not be imported here. Secrets
are replaced. The format number is raised by changes that readers have to know of. Below: the records. Above: the
command line writes exports, and `goalport.testing` reads them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.store.records import JournalRecord, ObjectRecord, ProcessRecord, QuestionRecord, StoredProcess

FORMAT: Final = 1
"""The number of the current format."""
_PLACEHOLDERS: Final = {"$secret_text": b"left out", "$secret_bytes": b"left out", "$sealed": b'"left out"'}
"""The value read for a secret from an export, by the tag of the encrypted value."""


class LeftOut:
    """The `Seal` for the objects of an export: each secret reads `left out`."""

    def seal(self, secret: bytes, /) -> str:
        """Replace a secret; its value is not kept."""
        return "$sealed"

    def unseal(self, sealed: str, /) -> bytes:
        """The placeholder of a secret. Raises `ValueError` for anything that is in no export."""
        if sealed not in _PLACEHOLDERS:
            raise ValueError(sealed)
        return _PLACEHOLDERS[sealed]


def exported(family: Sequence[StoredProcess], *, version: str) -> dict[str, Any]:
    """A family as JSON data, its root first; `version` is that of the program that writes it."""
    processes: list[dict[str, Any]] = []
    for each in family:
        caller, finished_at = each.process.caller, each.process.finished_at
        processes.append(
            {
                **each.process._asdict(),
                "caller": {
                    "id": caller.id,
                    "issuer": caller.issuer,
                    "scopes": sorted(caller.scopes),
                    "claims": dict(caller.claims),
                },
                "created_at": each.process.created_at.isoformat(),
                "finished_at": finished_at and finished_at.isoformat(),
                "state": _without_secrets(each.process.state),
                "whole": each.whole,
                "objects": [_without_secrets(part._asdict()) for part in each.objects],
                "history": _without_secrets(each.history),
                "spendings": _without_secrets(each.spendings),
                "questions": [
                    {**_without_secrets(part._asdict()), "asked_at": part.asked_at.isoformat()}
                    for part in each.questions
                ],
                "journal": [_without_secrets(part._asdict()) for part in each.journal],
            }
        )
    return {"format": FORMAT, "goalport": version, "root": family[0].process.root, "processes": processes}


def _without_secrets(value: object) -> Any:
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value)
        return {name: name if name in _PLACEHOLDERS else _without_secrets(each) for name, each in inner.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(each) for each in cast("Sequence[object]", value)]
    return value


def imported(data: Mapping[str, Any]) -> Sequence[StoredProcess]:
    """The family of an export. Raises `BadInput` for what is no export, or one of a newer format."""
    if data.get("format") != FORMAT or not data.get("processes"):
        raise BadInput(
            f"Expected an export of format {FORMAT} as `goalport export ID` writes it, but its format is"
            f" {data.get('format')!r}. Export the process again, or read it with the goalport that wrote it."
        )
    family: list[StoredProcess] = []
    for each in cast("Sequence[Mapping[str, Any]]", data["processes"]):
        fields = {name: each[name] for name in ProcessRecord._fields}
        caller = cast("Mapping[str, Any]", each["caller"])
        # Older exports have no claims.
        claims = caller.get("claims", {})
        fields["caller"] = Caller(caller["id"], caller["issuer"], frozenset(caller["scopes"]), claims)
        for name in ("created_at", "finished_at"):
            fields[name] = None if each[name] is None else datetime.fromisoformat(each[name])
        questions = (
            QuestionRecord(**part)._replace(asked_at=datetime.fromisoformat(part["asked_at"]))
            for part in each["questions"]
        )
        family.append(
            StoredProcess(
                ProcessRecord(**fields),
                [ObjectRecord(**part) for part in each["objects"]],
                each["history"],
                each["spendings"],
                list(questions),
                [JournalRecord(**part) for part in each["journal"]],
                whole=each["whole"],
            )
        )
    return family
