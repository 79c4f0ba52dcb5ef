"""The caller: on whose behalf a process runs.

The door that authenticates a request makes its caller, and the whole run carries it. This module does not know how a
caller is authenticated. Every package may import it, and it imports nothing of goalport.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

EVERY_SCOPE: Final = "*"
"""The scope that grants every other one."""
_OPERATING_SYSTEM: Final = "os"
"""The issuer of the users of this machine."""
_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""A scope as RFC 6749, section 3.3, has it: printable ASCII without spaces, quotes and backslashes."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The party on whose behalf a process runs. Only the same caller may resume, cancel or read the process."""

    id: str = "anonymous"
    """The subject of the credential, or the client's id if there is no subject."""
    issuer: str = ""
    """Who issued the credential: `id` is unique only for one issuer."""
    scopes: frozenset[str] = frozenset()
    """The scopes that the credential grants, and the scopes implied by them; `"*"` is every scope."""
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """Other claims of the credential, such as a tenant: those that the setting `auth.claims` names."""
    admin: bool = field(default=False, compare=False)
    """Whether the caller may list, answer and end the processes of all callers. It is not stored with a process."""

    @property
    def identity(self) -> tuple[str, str]:
        """The issuer and the id, which together identify a caller."""
        return self.issuer, self.id

    def same_as(self, other: "Caller") -> bool:
        """Whether both are the same party, whatever the scopes of their credentials are."""
        return self.identity == other.identity

    def has(self, *scopes: str) -> bool:
        """Whether the credential grants all these scopes."""
        return EVERY_SCOPE in self.scopes or self.scopes.issuperset(scopes)

    def may_follow(self, owner: "Caller") -> bool:
        """Whether the caller may see, answer and end what `owner` started: as the same party, or as an admin."""
        return self.admin or self.same_as(owner)


ANONYMOUS = Caller()
"""The caller of a run that nobody authenticated."""
OPERATOR = Caller(scopes=frozenset({EVERY_SCOPE}))
"""Whoever runs a command on this machine, or a server over stdio without authentication. It has no id of a person, and
every scope: people who can do that could also change the code that checks scopes."""


def user_of_machine() -> Caller:
    """The user of this machine who runs this program, with every scope: this user can read the stored files anyway."""
    if sys.platform == "win32":
        name = os.environ.get("USERNAME") or "user"
    else:
        import pwd

        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:  # as in containers that run with any number
            name = f"uid-{os.getuid()}"
    return Caller(name, _OPERATING_SYSTEM, frozenset({EVERY_SCOPE}), admin=True)


def is_scope(text: str) -> bool:
    """Whether a text can be a scope."""
    return _SCOPE.fullmatch(text) is not None


def require_scopes(what: str, value: object) -> None:
    """Raise `TypeError` unless the value is a list of scopes, or None."""
    if value is None:
        return
    given = None if isinstance(value, str) or not isinstance(value, Iterable) else list(cast("Iterable[object]", value))
    if given is None or not all(isinstance(each, str) and is_scope(each) for each in given):
        raise TypeError(
            f"Expected {what} to be a list of scopes, each of printable ASCII without spaces, quotes and backslashes,"
            f' but got {value!r}. Write {what}=["finance:write"], say.'
        )
