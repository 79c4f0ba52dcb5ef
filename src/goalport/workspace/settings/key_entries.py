"""What is kept of an API key: a record with its hash, in a key file or in the setting `auth.key_entries`.

Nothing here makes or checks keys: `auth` does, above.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from goalport.base.caller import is_scope
from goalport.workspace.settings.values import listed

_ID: Final = re.compile(r"key-[0-9a-f]{8}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def is_key_id(text: str) -> bool:
    """Whether a text is the id of a key, which no name may look like."""
    return _ID.fullmatch(text) is not None


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}", value):
        raise ValueError("should have 1 to 64 letters, digits and . _ @ + -, and begin with a letter or a digit")
    if is_key_id(value):
        raise ValueError("should not look like the id of a key")
    return value


def _id(value: str) -> str:
    if not is_key_id(value):
        raise ValueError("should be key- and eight hexadecimal digits")
    return value


def _scope(value: str) -> str:
    if not is_scope(value):
        raise ValueError("should be a scope, without spaces, quotation marks and backslashes")
    return value


def _hash(value: SecretStr) -> SecretStr:
    if not _HASH.fullmatch(value.get_secret_value()):
        raise ValueError("should be the SHA-256 of a key, in 64 hexadecimal digits")
    return value


class KeyEntry(BaseModel):
    """What is kept of an API key: whose it is, what it grants, and the hash by which it is found; not the key itself.

    Several keys may have one name: their callers are the same, so that a key can be replaced.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, AfterValidator(_id)]
    """What the key is called in lists and commands."""
    name: Annotated[str, AfterValidator(_name)]
    """The id of the caller that the key stands for."""
    sha256: Annotated[SecretStr, AfterValidator(_hash)]
    """The hash of the key."""
    scopes: tuple[Annotated[str, AfterValidator(_scope)], ...] = Field(min_length=1)
    """The scopes that the key grants."""
    created: AwareDatetime
    expires: AwareDatetime | None
    """From when on it is valid no more; None: it does not expire."""
    revoked: AwareDatetime | None = None
    """Since when it is valid no more."""

    def state(self, now: datetime) -> Literal["valid", "expired", "revoked"]:
        """Whether the key is valid at a time."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "valid"

    def record(self) -> dict[str, Any]:
        """The entry as it is written, with its hash."""
        return {**self.model_dump(mode="json"), "sha256": self.sha256.get_secret_value()}


KeyEntries = Annotated[tuple[KeyEntry, ...], BeforeValidator(listed)]
