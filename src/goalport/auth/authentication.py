"""How one server authenticates: its verifiers and its challenges, made from its settings.

Above: the guard. A new kind of credential is one more verifier here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from goalport.auth.challenges import Challenges
from goalport.auth.verifiers import Grant, Verifier, grant_of
from goalport.settings import Settings

__all__ = ["Authentication"]


@dataclass(frozen=True, slots=True)
class Authentication:
    """What verifies the callers of one server."""

    verifiers: Sequence[Verifier]
    challenges: Challenges

    @classmethod
    def of(cls, settings: Settings) -> "Authentication | None":
        """The authentication that settings ask for; None if they ask for none.

        Raises `SettingsError` for what cannot be used: a server does not start without what it was told to check.
        """
        verifiers: list[Verifier] = []
        if not verifiers:
            return None
        return cls(verifiers, Challenges(settings.auth.read_scope))

    async def grant_of(self, token: str) -> Grant:
        """What a token grants. Raises `InvalidToken` and `VerifierUnavailable`."""
        return await grant_of(self.verifiers, token)
