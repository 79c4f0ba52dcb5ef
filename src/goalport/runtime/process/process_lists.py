"""Lists of processes: what a store keeps, with those that live in this program as they are now.

Below: the records. Above: the repository, which knows what lives here.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from goalport.base.caller import Caller
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.recording import record_of
from goalport.store import ProcessRecord, ProcessStore


class ProcessLists:
    """Lists and counts processes.

    Parameters: `held` are those, by id, of which the records in the store do not say everything; `known` all that live
    in the memory of the program.
    """

    def __init__(
        self, store: ProcessStore, held: Mapping[str, AgentProcess], known: Mapping[str, AgentProcess]
    ) -> None:
        self._store, self._held, self._known = store, held, known

    async def counts(self) -> Mapping[str, int]:
        """How many processes have each status; those that live in this program count as they are now."""
        held = dict(self._held)  # one that is stored while the store answers is held no more
        counts = Counter(await self._store.counts(without=held.keys()))
        counts.update(str(each.status) for each in held.values())
        return counts

    async def records(self) -> list[ProcessRecord]:
        """The records of all processes, oldest first; of one that lives in this program, as it is now."""
        held = dict(self._held)  # one that is stored while the store answers is held no more
        records = {each.id: each for each in await self._store.records()}
        kept = {*records, *held, *self._held}
        records.update((each.id, record_of(each)) for each in {**held, **self._known}.values() if each.id in kept)
        return sorted(records.values(), key=lambda each: each.created_at)

    async def page(
        self, caller: Caller | None, *, after: str, limit: int, statuses: Collection[str], newest_first: bool
    ) -> Sequence[ProcessRecord]:
        """At most `limit` records of a caller's processes, or of all, from the one that follows the process `after`.

        A store that outlives the program does not know processes yet that it only gets when they have ended.
        """
        if self._store.durable:
            return await self._store.records(
                after=after, limit=limit, caller=caller, statuses=statuses, newest_first=newest_first
            )
        known = await self.records()
        ordered = known[::-1] if newest_first else known
        begin = next((place for place, each in enumerate(ordered, 1) if each.id == after), len(known)) if after else 0
        own = (each for each in ordered[begin:] if caller is None or caller.same_as(each.caller))
        return [*islice((each for each in own if not statuses or each.status in statuses), limit)]
