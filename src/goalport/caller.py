"""The caller: on whose behalf a process runs.

The transport that authenticates a request makes its caller, and the whole run carries it. This module does not know
how a caller is authenticated. Floor 0: every package may import it, and it imports nothing of goalport.
"""

from dataclasses import dataclass

__all__ = ["ANONYMOUS", "Caller"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The party on whose behalf a process runs. Only the same caller may resume, cancel or read the process."""

    id: str = "anonymous"
    """The subject of the credential, or the client's id where there is no subject."""
    issuer: str = ""
    """The issuer that vouches for `id`; two issuers may use the same ids."""
    scopes: frozenset[str] = frozenset()
    """The scopes that the credential grants."""

    def same_as(self, other: "Caller") -> bool:
        """Whether both are the same party, whatever the scopes of their credentials are."""
        return (self.id, self.issuer) == (other.id, other.issuer)


ANONYMOUS = Caller()
"""The caller of a run that nobody authenticated."""
