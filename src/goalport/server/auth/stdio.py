"""Who calls over stdio: the holder of a key in the environment, or the user of this machine who started the server.

Above: the site, which starts the transport.
"""

from goalport.base.caller import OPERATOR, user_of_machine
from goalport.base.errors import SettingsError
from goalport.server.auth.authentication import Authentication
from goalport.server.auth.key_file import KEY_VARIABLE
from goalport.server.auth.verifiers import Grant, InvalidToken, VerifierUnavailable


async def stdio_grant(authentication: Authentication | None, key: str) -> Grant:
    """What the client on stdin and stdout is granted; `key` is the one that the environment has, or empty.

    Without authentication it is the same caller as everybody else of this machine. Without a key it is the user of the
    operating system, who could read the store anyway, so nothing is kept from them.
    Raises `SettingsError` for a key that is not valid, or that cannot be verified now.
    """
    if authentication is None:
        return Grant(OPERATOR, OPERATOR.id)
    if not key:
        user = user_of_machine()
        return Grant(user, user.id)
    try:
        return await authentication.grant_of(key)
    except (InvalidToken, VerifierUnavailable) as error:
        raise SettingsError(
            f"{KEY_VARIABLE} is set, and cannot be used: {error} Set it to a key that is valid, or unset it to call as"
            " the user of this machine."
        ) from error
