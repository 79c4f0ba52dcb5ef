"""Pauses before actions, as the delay and the schedule of a run want them. Below: the process. Above: `tick`."""

from datetime import UTC, datetime

import anyio

from goalport.events import ProcessPaused
from goalport.process.agent_process import AgentProcess

__all__ = ["paused"]


async def paused(process: AgentProcess, action: str) -> bool:
    """Whether there was a pause before the next action: much may have happened meanwhile, so plan again."""
    if process.options.unhurried:
        seconds = _seconds(process, action) if process.progress.may_pause() else 0.0
        if seconds > 0:
            with process.pausing():
                process.emit(ProcessPaused(seconds, process_id=process.id))
                await anyio.sleep(seconds)
            return True
    return False


def _seconds(process: AgentProcess, action: str) -> float:
    between = float(process.options.delay) if process.progress.history else 0.0
    schedule = process.options.schedule
    at = None if schedule is None else schedule.not_before(process, action)
    return max(between, 0.0 if at is None else (at - datetime.now(UTC)).total_seconds())
