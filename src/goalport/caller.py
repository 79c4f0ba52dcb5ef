"""Who asked for a run.

A caller is made by the door that authenticated a request and is carried through the whole run. This module knows
nothing of how a caller proved who it is. Floor 0: everyone may import it, it imports nothing of ours.
"""

from dataclasses import dataclass

__all__ = ["ANONYMOUS", "Caller"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The party on whose behalf a process runs; resuming, cancelling and reading a process are bound to it."""

    id: str = "anonymous"
    """The subject of the credential, or the client's id where there is no subject."""
    issuer: str = ""
    """Who vouched for `id`; two issuers may use the same ids."""
    scopes: frozenset[str] = frozenset()
    """What the credential allows."""


ANONYMOUS = Caller()
"""The caller of a run that nobody authenticated."""
