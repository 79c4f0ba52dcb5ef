"""Who calls and what they may: credentials, their verifiers, the guard before every door. Floor 9.

A door asks `current_caller()` for the caller of the request that it answers.
"""

from goalport.auth.authentication import Authentication
from goalport.auth.challenges import Challenges
from goalport.auth.current import Principal, current_caller, current_principal
from goalport.auth.guard import AuthGuard
from goalport.auth.verifiers import Grant, InvalidToken, Verifier, VerifierUnavailable

__all__ = [
    "AuthGuard",
    "Authentication",
    "Challenges",
    "Grant",
    "InvalidToken",
    "Principal",
    "Verifier",
    "VerifierUnavailable",
    "current_caller",
    "current_principal",
]
