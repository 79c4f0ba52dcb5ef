"""Events as JSON, one object per line, for programs that follow a run and for traces that are read later."""

import dataclasses
import json
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import IO, Any, Self, cast

from goalport.events import Event

__all__ = ["JsonLinesListener", "as_json"]


def as_json(event: Event) -> dict[str, Any]:
    """An event as a JSON object: its kind under `event`, its time in ISO 8601, and its fields."""
    told = {each.name: _plain(getattr(event, each.name)) for each in dataclasses.fields(event)}
    return {"event": type(event).__name__, **told}


class JsonLinesListener:
    """Appends every event to a file or stream, one per line, and flushes it at once.

    If it opened the file itself, use it as a context manager or call `close`.
    """

    def __init__(self, target: Path | IO[str]) -> None:
        self._owned = target.open("a", encoding="utf-8") if isinstance(target, Path) else None
        self._stream: IO[str] = target if self._owned is None else self._owned  # type: ignore[assignment]
        self._lock = Lock()

    def on_event(self, event: Event, /) -> None:
        """Write one event."""
        line = json.dumps(as_json(event), ensure_ascii=False)
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file, if this listener opened it."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case tuple():
            return [_plain(each) for each in cast("tuple[object, ...]", value)]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
