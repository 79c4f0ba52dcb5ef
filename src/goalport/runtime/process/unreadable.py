"""Ends processes of which only the records are known, because today's classes cannot read their objects.

Below: the records. Above: the command line.
"""

from datetime import UTC, datetime

from goalport.base.errors import LeaseHeld
from goalport.runtime.process.action_progress import ActionProgress
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import Killed, ProcessStatus
from goalport.runtime.process.recording import ProcessState
from goalport.store import Codec, ProcessStore, StoredProcess, StoredTypes


async def kill_unreadable(store: ProcessStore, process_id: str, reason: str) -> bool:
    """End the family of a process without the classes of its objects, which are lost to it then.

    Returns False if another program runs it. Raises `StoreError`.
    """
    try:
        lease = await store.claim(process_id)
    except LeaseHeld:
        return False
    if lease is not None:
        family, _ = await store.family(process_id)
        changes = [_killed(each, reason) for each in family if not each.process.final]
        await store.save(changes, lease, wake_at=None, release=True)
    return True


def _killed(stored: StoredProcess, reason: str) -> StoredProcess:
    """The change that ends a process of which only the records are known; its history is kept."""
    state = ProcessState(
        goals=(),
        goal="",
        plan=(),
        started_by="",
        stepped=False,
        outcome=Killed(reason),
        end_requested=None,
        failure=None,
        progress=ActionProgress[AgentProcess](stored.process.id).state,
    )
    record = stored.process._replace(
        status=str(ProcessStatus.KILLED),
        ended=True,
        final=True,
        finished_at=datetime.now(UTC),
        result=None,
        definition=None,
        state=Codec(StoredTypes()).encode(state),
    )
    questions = [each._replace(status="withdrawn", reason=reason) for each in stored.questions if each.status == "open"]
    over = tuple({each.action for each in stored.journal})
    return StoredProcess(record, questions=questions, over=over, whole=False)
