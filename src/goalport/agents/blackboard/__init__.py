"""The blackboard: what a process knows so far, as objects with their declared types."""

from goalport.agents.blackboard.board import DEFAULT_BINDING, Blackboard, BoardState, Entry, Typed, is_of, matcher
from goalport.base.type_expressions import (
    NOMINAL,
    alternatives,
    field_kinds,
    fits,
    is_alias,
    is_generic,
    origin_and_arguments,
    plain,
    related,
    related_by_bases_only,
)

__all__ = [
    "DEFAULT_BINDING",
    "NOMINAL",
    "Blackboard",
    "BoardState",
    "Entry",
    "Typed",
    "alternatives",
    "field_kinds",
    "fits",
    "is_alias",
    "is_generic",
    "is_of",
    "matcher",
    "origin_and_arguments",
    "plain",
    "related",
    "related_by_bases_only",
]
