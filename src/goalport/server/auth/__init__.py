"""Who calls and what they may: credentials, their verifiers, the guard before every door.

A door asks `current_caller()` for the caller of the request that it answers. The modules are loaded when a name is
first used, because the commands that make keys need none of the MCP SDK.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in __init__.pyi, which pyright does not read for the file beside it.

from goalport.base.lazy import lazy_exports

__all__ = [
    "Access",
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

__getattr__ = lazy_exports(
    __name__,
    {
        "access": ["Access", "Principal", "current_caller", "current_principal"],
        "authentication": ["Authentication"],
        "challenges": ["Challenges"],
        "guard": ["AuthGuard"],
        "verifiers": ["Grant", "InvalidToken", "Verifier", "VerifierUnavailable"],
    },
)
