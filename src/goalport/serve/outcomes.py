"""How the end of a process is told to a client that must decide what to do next: one sentence or two, in one place."""

from typing import assert_never

from goalport.process import Completed, Failed, Killed, Outcome, Stuck, Terminated

__all__ = ["reason_of"]


def reason_of(outcome: Outcome, goal: str) -> str | None:
    """Why there is no result, and what may help; None when there is one."""
    match outcome:
        case Completed():
            return None
        case Stuck(reason):
            return f"{goal} cannot be reached from what was given. {_sentence(reason)} Call it with other input."
        case Failed(reason, caller_mistake=True):
            return reason
        case Failed(reason):
            return f"{goal} failed. {_sentence(reason)} Calling it again unchanged may fail again."
        case Terminated(reason):
            return f"{goal} was ended before it was done. {_sentence(reason)} Nothing goes on."
        case Killed(reason):
            return f"{goal} was stopped. {_sentence(reason)} Nothing goes on; call it again if it is still wanted."
        case _:
            assert_never(outcome)


def _sentence(text: str) -> str:
    stripped = text.strip()
    if not stripped:
        return ""
    return stripped if stripped[-1] in ".!?…" else f"{stripped}."
