"""Who calls over stdio: the holder of a key in the environment, or the user of this machine who started the server.

Above: the site, which starts the transport.
"""

import os
import sys
from typing import Final

from goalport.auth.authentication import Authentication
from goalport.auth.verifiers import Grant, InvalidToken, VerifierUnavailable
from goalport.caller import EVERY_SCOPE, OPERATOR, Caller
from goalport.errors import SettingsError

__all__ = ["KEY_VARIABLE", "local_grant"]

KEY_VARIABLE: Final = "GOALPORT_KEY"
"""The variable with a key or a token."""
_ISSUER: Final = "os"


async def local_grant(authentication: Authentication | None, key: str) -> Grant:
    """What the client on stdin and stdout is granted; `key` is the one that the environment has, or empty.

    Without authentication it is the same caller as everybody else of this machine. Without a key it is the user of the
    operating system, who could read the store anyway, so nothing is kept from them.
    Raises `SettingsError` for a key that is not valid, or that cannot be verified now.
    """
    if authentication is None:
        return Grant(OPERATOR, OPERATOR.id)
    if not key:
        user = _user()
        return Grant(Caller(user, _ISSUER, frozenset({EVERY_SCOPE}), admin=True), user)
    try:
        return await authentication.grant_of(key)
    except (InvalidToken, VerifierUnavailable) as error:
        raise SettingsError(
            f"{KEY_VARIABLE} is set, and cannot be used: {error} Set it to a key that is valid, or unset it to call as"
            " the user of this machine."
        ) from error


def _user() -> str:
    """The user whom the operating system runs this program for, by name where there is one."""
    if sys.platform == "win32":
        return os.environ.get("USERNAME") or "user"
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in containers that run with any number
        return f"uid-{os.getuid()}"
