"""Whether anything still runs in a process or in those that its actions started, and waiting until nothing does.

A process whose action waits for a process of its own stands as waiting all the while, also after that one has got its
answer and works on. Whoever wants to tell a caller how things are asks here.
"""

from typing import Final

import anyio

from goalport.process import AgentProcess, Outcome, Waiting

__all__ = ["rest", "resting"]

_TURN: Final = 0.005


def resting(process: AgentProcess) -> Outcome | None:
    """How the process has ended, or what it waits for; None while something goes on."""
    if not isinstance(process.outcome, Waiting):
        return process.outcome
    return None if _busy(process) else Waiting(process.open_questions)


async def rest(process: AgentProcess) -> Outcome:
    """Wait until nothing goes on. Cancelling the wait leaves the process as it is."""
    while (outcome := resting(process)) is None:
        await _step(process)
    return outcome


def _busy(process: AgentProcess) -> list[AgentProcess]:
    """The processes that actions of this one wait for, and that do not wait for a person themselves."""
    return [each for each in process.progress.parked.values() if not isinstance(resting(each), Waiting)]


async def _step(process: AgentProcess) -> None:
    running = next((each for each in _busy(process) if resting(each) is None), None)
    if process.outcome is None:
        await process.wait()
    elif running is not None:
        await _step(running)
    else:
        # A process that was waited for has ended, and the one that waits for it is resumed in the loop's next turn.
        await anyio.sleep(_TURN)
