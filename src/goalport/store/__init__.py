"""Keeping processes that nothing runs: their records, the protocol of a store, and the store in memory. Floor 3."""

from goalport.store.memory import InMemoryProcessStore
from goalport.store.records import (
    JournalRecord,
    ObjectRecord,
    ProcessRecord,
    ProcessStore,
    QuestionRecord,
    StoredProcess,
)

__all__ = [
    "InMemoryProcessStore",
    "JournalRecord",
    "ObjectRecord",
    "ProcessRecord",
    "ProcessStore",
    "QuestionRecord",
    "StoredProcess",
]
