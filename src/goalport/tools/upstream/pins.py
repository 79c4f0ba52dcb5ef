"""Pinned tools: a tool whose definition changed since it was trusted is withheld.

The definition steers the model that reads it, so a server that changes it after people looked at it can attack the
model. The first list of a server is trusted; what is new or changed later waits for `trust`. The file is read again
when another process has written it. Above: `upstream_groups`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from goalport.base.errors import UnknownName
from goalport.base.files import replace_file

if TYPE_CHECKING:
    from mcp_types import Tool as Definition

PINS_FILE: Final = "tool-pins.json"
"""Its name in the data folder."""
_FIELDS: Final = {"name", "title", "description", "input_schema", "output_schema", "annotations"}
_FIELDS_BEFORE: Final = {"name", "description", "input_schema", "annotations"}
_CHANGED: Final = "it is not as it was when it was trusted"
_NEW: Final = "it is new"
Record = dict[str, dict[str, dict[str, str]]]
"""By server and tool: the fingerprint that is `trusted`, and another one that was `seen` since."""


class Fingerprint(NamedTuple):
    """Hashes of what models and hosts read of a tool."""

    now: str
    before: str
    """As it was until titles and output schemas counted too. A file that has it is brought up to date."""


def fingerprint(definition: "Definition") -> Fingerprint:
    """SHA-256 of what models and hosts read of a tool: name, texts, schemas and annotations, as sorted JSON."""
    before = _FIELDS_BEFORE if definition.description else _FIELDS_BEFORE | {"title"}
    return Fingerprint(f"v2:{_hash(definition, _FIELDS)}", _hash(definition, before))


def _hash(definition: "Definition", fields: set[str]) -> str:
    plain: dict[str, Any] = definition.model_dump(mode="json", by_alias=True, include=fields, exclude_none=True)
    written = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"


@dataclass
class Pins:
    """The trusted definitions, in a file that only its owner may read."""

    path: Path
    _record: Record = field(default_factory=dict[str, dict[str, dict[str, str]]], init=False)
    _stamp: tuple[int, int] | None = field(default=None, init=False)
    _unreadable: str = field(default="", init=False)

    @property
    def stamp(self) -> object:
        """Time and number of the file, which are others after it was written; None: there is no file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def withheld(self, server: str, prints: Mapping[str, Fingerprint]) -> Mapping[str, str]:
        """Compare the tools of a server, with their fingerprints; those that must not be used, with the reason.

        The first list of a server that has tools is trusted, and written to the file.
        """
        self._load()
        if self._unreadable:
            return dict.fromkeys(prints, f"what is trusted is not known: {self._unreadable}")
        if not prints:
            return {}
        if server not in self._record:
            self._record[server] = {name: {"trusted": found.now} for name, found in prints.items()}
            return self._unsaved(prints)
        return self._compare(server, prints)

    def why_untrusted(self, server: str, tool: str, found: Fingerprint) -> str:
        """Why a tool with this fingerprint must not be used, by the file alone; empty: it may be."""
        self._load()
        if self._unreadable:
            return f"what is trusted is not known: {self._unreadable}"
        entry = self._record.get(server, {}).get(tool)
        if server not in self._record or (entry is not None and entry.get("trusted") in found):
            return ""
        return _NEW if entry is None or "trusted" not in entry else _CHANGED

    def trust(self, server: str, tool: str) -> None:
        """Trust the definition of a tool that was last listed. Raises `UnknownName` for a tool that never was."""
        self._load()
        entries = self._record.get(server)
        if entries is None:
            raise UnknownName("pinned server", server, self._record)
        if tool not in entries:
            raise UnknownName("pinned tool", tool, entries)
        entry = entries[tool]
        entries[tool] = {"trusted": entry.get("seen", entry.get("trusted", ""))}
        self._save()

    def _compare(self, server: str, prints: Mapping[str, Fingerprint]) -> dict[str, str]:
        entries = self._record[server]
        before = {name: dict(entry) for name, entry in entries.items()}
        for name, found in prints.items():
            entry = entries.setdefault(name, {})
            if entry.get("trusted") in found:
                entries[name] = {"trusted": found.now}
            else:
                entry["seen"] = found.now
        if entries != before and (unsaved := self._unsaved(prints)):
            return unsaved
        return {name: _CHANGED if "trusted" in entries[name] else _NEW for name in prints if "seen" in entries[name]}

    def _unsaved(self, prints: Mapping[str, Fingerprint]) -> dict[str, str]:
        """Write the file. Where that fails, every tool is withheld: what cannot be remembered is not trusted."""
        try:
            self._save()
        except OSError as error:
            reason = f"what is trusted cannot be written to {self.path} ({error.strerror or type(error).__name__})"
            return dict.fromkeys(prints, reason)
        return {}

    def _load(self) -> None:
        stamp = cast("tuple[int, int] | None", self.stamp)
        if stamp is None:
            self._record, self._unreadable = {}, ""
        elif stamp != self._stamp:
            self._record, self._unreadable = _read(self.path)
        self._stamp = stamp

    def _save(self) -> None:
        replace_file(self.path, json.dumps(self._record, indent=2, sort_keys=True))
        self._stamp = cast("tuple[int, int] | None", self.stamp)


def _read(path: Path) -> tuple[Record, str]:
    """The record, and why it cannot be read (then nothing is trusted); empty: it can."""
    try:
        found: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        return {}, f"{path} cannot be read ({type(error).__name__}). Remove it to trust everything anew."
    if not _is_record(found):
        return {}, f"{path} holds something else. Remove it to trust everything anew."
    return cast("Record", found), ""


def _is_record(value: object, depth: int = 3) -> bool:
    """Whether a value is nested objects of this depth, with texts innermost."""
    if not depth:
        return isinstance(value, str)
    return isinstance(value, dict) and all(
        _is_record(each, depth - 1) for each in cast("dict[str, object]", value).values()
    )
