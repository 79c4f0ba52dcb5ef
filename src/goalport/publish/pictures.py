"""A process as a Mermaid flowchart: what ran and how it went, and what is still planned."""

from collections.abc import Iterator

from goalport.process import AgentProcess

__all__ = ["picture_of"]

_CLASSES = {"declined": "declined", "replanned": "declined", "terminated": "declined", "failed": "failed"}


def picture_of(process: AgentProcess) -> str:
    """The flowchart's source."""
    return "\n".join(_lines(process))


def _lines(process: AgentProcess) -> Iterator[str]:
    yield "flowchart LR"
    steps = [(each.action, f"{each.seconds:.2f} s", _CLASSES.get(each.status, "done")) for each in process.history]
    steps += [(action, "planned", "planned") for action in process.plan]
    for number, (action, note, kind) in enumerate(steps):
        yield f'    a{number}["{_short(action)}<br/>{note}"]:::{kind}'
    goal = _short(process.goal.name) if process.goal is not None else "goal"
    yield f'    g(["{goal}: {process.status}"])'
    for number in range(len(steps)):
        after = f"a{number + 1}" if number + 1 < len(steps) else "g"
        yield f"    a{number} --> {after}"
    yield "    classDef done fill:#d4edda"
    yield "    classDef declined fill:#fff3cd"
    yield "    classDef failed fill:#f8d7da"
    yield "    classDef planned stroke-dasharray: 4"


def _short(action: str) -> str:
    return action.rpartition(".")[2].replace('"', "'")
