"""What a ticket refers to: orders and invoices, versions, error codes, addresses; and what a bug report leaves out.

Pure functions over text. They find; they do not judge.
"""

import re
from dataclasses import dataclass

from .ticket import Ticket

__all__ = ["Clues", "clues_in"]

_MOST = 20
_REFERENCES = {
    "number": re.compile(
        r"(?:#|\b(?:order|invoice|ticket|case|no\.?) ?#? ?)([A-Z]{0,4}-?\d[\w-]{2,30})", re.IGNORECASE
    ),
    "version": re.compile(r"\bv?(\d{1,4}\.\d{1,4}(?:\.\d{1,6}){0,2})\b", re.IGNORECASE),
    "error": re.compile(r"\b([A-Z]{2,8}[-_]?\d{2,6}|[A-Z][a-zA-Z]{2,40}(?:Error|Exception))\b"),
    "address": re.compile(r"https?://[^\s<>\"']{1,200}"),
}
_EXPECTED = {
    "the version that is used": re.compile(r"\bversion\b|\bv?\d+\.\d+", re.IGNORECASE),
    "the steps that lead to it": re.compile(
        r"\bsteps\b|\bwhen i\b|\bafter i\b|\bif i\b|^\s*(?:1[.)]|[-*]) ", re.IGNORECASE | re.MULTILINE
    ),
    "the exact error message": re.compile(r"\w+(?:error|exception)\b|\berror:|«|“|\"", re.IGNORECASE),
}


@dataclass(frozen=True)
class Clues:
    """What was found in one ticket."""

    references: tuple[str, ...]
    missing: tuple[str, ...]
    """What a report of a bug should say and this does not."""


def clues_in(ticket: Ticket) -> Clues:
    """What the ticket refers to, each once, in the order of its kinds."""
    text = f"{ticket.subject}\n{ticket.body}"
    found = [
        f"{kind} {match.group(match.lastindex or 0).rstrip('.,;:)')}"
        for kind, pattern in _REFERENCES.items()
        for match in pattern.finditer(text)
    ]
    missing = tuple(name for name, pattern in _EXPECTED.items() if not pattern.search(text))
    return Clues(tuple(dict.fromkeys(found))[:_MOST], missing)
