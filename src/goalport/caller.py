"""The caller: on whose behalf a process runs.

The door that authenticates a request makes its caller, and the whole run carries it. This module does not know how a
caller is authenticated. Floor 0: every package may import it, and it imports nothing of goalport.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["ANONYMOUS", "EVERY_SCOPE", "Caller"]

EVERY_SCOPE: Final = "*"
"""The scope that grants every other one."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The party on whose behalf a process runs. Only the same caller may resume, cancel or read the process."""

    id: str = "anonymous"
    """The subject of the credential, or the client's id where there is no subject."""
    issuer: str = ""
    """The issuer that vouches for `id`; two issuers may use the same ids."""
    scopes: frozenset[str] = frozenset()
    """The scopes that the credential grants, and those that these imply; `"*"` is every scope."""
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """What the credential says besides, such as a tenant: the claims that the setting `auth.claims` names."""
    admin: bool = field(default=False, compare=False)
    """Whether the caller may list, answer and end the processes of all callers. It is not stored with a process."""

    def same_as(self, other: "Caller") -> bool:
        """Whether both are the same party, whatever the scopes of their credentials are."""
        return (self.id, self.issuer) == (other.id, other.issuer)

    def has(self, *scopes: str) -> bool:
        """Whether the credential grants all these scopes."""
        return EVERY_SCOPE in self.scopes or self.scopes.issuperset(scopes)

    def may_follow(self, owner: "Caller") -> bool:
        """Whether the caller may see, answer and end what `owner` started: as the same party, or as an admin."""
        return self.admin or self.same_as(owner)


ANONYMOUS = Caller()
"""The caller of a run that nobody authenticated."""
