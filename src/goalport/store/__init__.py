"""Storage of processes and conversations: records, the protocols of stores, and stores in memory and databases."""

from goalport.store.codec import Codec, Seal, Sealed, Seals, StoredTypes, decoded, encoded, storable
from goalport.store.export import LeftOut, exported, imported
from goalport.store.layouts import OPEN, closed
from goalport.store.memory import InMemoryProcessStore
from goalport.store.records import (
    ConversationRecord,
    ConversationStore,
    EventRecord,
    JournalRecord,
    Lease,
    MessageRecord,
    ObjectRecord,
    ProcessRecord,
    ProcessStore,
    ProgramMessage,
    QuestionRecord,
    Runner,
    StoredProcess,
)
from goalport.store.type_names import Json, TypeNames, persistent

__all__ = [
    "OPEN",
    "Codec",
    "ConversationRecord",
    "ConversationStore",
    "EventRecord",
    "InMemoryProcessStore",
    "JournalRecord",
    "Json",
    "Lease",
    "LeftOut",
    "MessageRecord",
    "ObjectRecord",
    "ProcessRecord",
    "ProcessStore",
    "ProgramMessage",
    "QuestionRecord",
    "Runner",
    "Seal",
    "Sealed",
    "Seals",
    "StoredProcess",
    "StoredTypes",
    "TypeNames",
    "closed",
    "decoded",
    "encoded",
    "exported",
    "imported",
    "persistent",
    "storable",
]
