"""The state that a front end and the server share during a run: what the server tells in it, beside what is not its.

A front end sends its whole state with each run, and takes over what the server sends of it. The server changes one
member alone. `run_events` and the runs are above.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from ag_ui.core import BaseEvent, StateDeltaEvent, StateSnapshotEvent

STATE: Final = "goalport"
"""The member of the state that the server sets. All others are the front end's own."""


class SharedState:
    """The state of one run. Nothing is told in a state that is no JSON object."""

    def __init__(self, given: object) -> None:
        self._kept: Mapping[str, Any] | None = {} if given is None else None
        if isinstance(given, Mapping):
            self._kept = cast("Mapping[str, Any]", given)
        self._told: dict[str, object] = {}

    def snapshot(self, **told: object) -> Iterator[BaseEvent]:
        """The event that gives the front end the whole state, with `told` in it."""
        self._told.update(told)
        if self._kept is not None:
            yield StateSnapshotEvent(snapshot={**self._kept, STATE: {**self._told}})

    def change(self, name: str, value: object) -> Iterator[BaseEvent]:
        """The event that sets one member of what the server tells; none if it is so already."""
        if name in self._told and self._told[name] == value:
            return
        self._told[name] = value
        if self._kept is not None:
            patch = {"op": "add", "path": f"/{STATE}/{name}", "value": value}
            yield StateDeltaEvent.model_validate({"delta": [patch]})


def member_of(state: object, *path: str) -> object:
    """What a front end has at a place of the state that the server told it before; None: nothing."""
    value = state
    for name in (STATE, *path):
        value = cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None
    return value
