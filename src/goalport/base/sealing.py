"""The keys that encrypt the state that clients keep for the server, and secrets in a store or in files.

Replicas share keys by the setting `state_keys`. A single server creates a key once, in a file only its user can read.
Above: `doors.mcp`, for the state that clients hold between two requests, and `platform`, for the secrets in stored
processes.
"""

import base64
import logging
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pydantic import SecretStr

from goalport.base.errors import SettingsError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

_FILE: Final = "state.key"
_BYTES: Final = 32
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_PURPOSE: Final = b"goalport/process-secrets/v1/"
"""The prefix of the HKDF info from which keys of processes are derived, so that they differ from all other keys."""
_log = logging.getLogger(__name__)


class KeySettings(Protocol):
    """The settings for keys: `state_keys`, which replicas share; if empty, a key file in `data_dir`."""

    @property
    def state_keys(self) -> Sequence[SecretStr]: ...
    @property
    def data_dir(self) -> Path: ...


def sealing_keys(settings: KeySettings) -> list[bytes]:
    """The keys: the first encrypts, all of them decrypt. Raises `SettingsError` for a key file that cannot be used."""
    if settings.state_keys:
        # Any text is a key; the content of a key file is decoded, so that its key can be shared with other replicas.
        written = [key.get_secret_value() for key in settings.state_keys]
        return [_from_digits(each) or each.encode() for each in written]
    path = settings.data_dir / _FILE
    try:
        return [_read(path)]
    except FileNotFoundError:
        return [_make(path)]
    except OSError as error:
        reason = f"The key file {path} cannot be read ({error.strerror}). Make it readable or delete it."
        raise SettingsError(reason) from None


class ProcessSeals:
    """Encrypts the secrets of processes and contexts, with keys that are derived for each process or context.

    `keys` is called for the first secret. The first key encrypts, all of them decrypt.
    """

    def __init__(self, keys: Callable[[], Sequence[bytes]]) -> None:
        self._keys = keys

    @cached_property
    def keys(self) -> Sequence[bytes]:
        """The keys. Raises `SettingsError` if they cannot be read or created."""
        return self._keys()

    def of(self, process_id: str) -> "ProcessSeal":
        """Encrypts the secrets of one process or context; they cannot be decrypted for another one."""
        return ProcessSeal(self, process_id)


class ProcessSeal:
    """Encrypts the secrets of one process, by Fernet (AES-128-CBC with HMAC-SHA256)."""

    def __init__(self, seals: ProcessSeals, process_id: str) -> None:
        self._seals = seals
        self._process_id = process_id

    def seal(self, secret: bytes, /) -> str:
        """The encrypted secret. Raises `SettingsError` if there is no key."""
        return self._fernet.encrypt(secret).decode("ascii")

    def unseal(self, sealed: str, /) -> bytes:
        """The decrypted secret. Raises `SettingsError`, which says what to do, if no key fits."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(sealed)
        except InvalidToken:
            raise SettingsError(
                "It was sealed with another key, or for another process or context. Add the earlier key to"
                f" GOALPORT_STATE_KEYS after the current one, or restore the file {_FILE} in the data folder; its"
                " content is a key too."
            ) from None

    @cached_property
    def _fernet(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        purpose = _PURPOSE + self._process_id.encode()
        derived = [HKDF(SHA256(), _BYTES, salt=None, info=purpose).derive(key) for key in self._seals.keys]
        return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])


def _from_digits(written: str) -> bytes | None:
    try:
        key = bytes.fromhex(written)
    except ValueError:
        return None
    return key if len(key) == _BYTES else None


def _read(path: Path) -> bytes:
    """Read the key from a file. If other users could read the file, log a warning and take their permissions away."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & _OTHERS:
        with suppress(OSError):  # the warning below covers a failure too
            path.chmod(mode & ~_OTHERS)
        _log.warning(
            "The key file %s was open to other users (mode %o); it should be 600, and is set to it where that can be"
            " done. If any of them may have read it, set GOALPORT_STATE_KEYS to a new key and, after it, the content of"
            " this file, as long as processes hold secrets that it sealed.",
            path,
            mode,
        )
    key = _from_digits(path.read_text("ascii", errors="replace").strip())
    if key is None:
        raise SettingsError(
            f"The key file {path} should hold {_BYTES * 2} hexadecimal digits, and does not. Restore it, or delete it:"
            " a new one is made, and what was sealed with the old one is lost: states of clients, and secrets in stored"
            " processes."
        )
    return key


def _make(path: Path) -> bytes:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_bytes(_BYTES).hex())
        # A hard link is atomic and never overwrites: two servers that start at once both use the key of the first.
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    except OSError as error:
        raise SettingsError(
            f"The key file {path} cannot be written ({error.strerror})."
            " Set GOALPORT_DATA_DIR to a folder that can, or give keys in GOALPORT_STATE_KEYS."
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    return _read(path)
