"""The keys that encrypt what others keep for the server, or what a store must not show in clear.

Replicas share keys by the setting `state_keys`. A single server makes a key once, in a file only its user can read.
Floor 1. Above: `serve`, for the state that clients hold between two requests.
"""

import logging
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from pydantic import SecretStr

from goalport.errors import SettingsError

__all__ = ["KeySettings", "sealing_keys"]

_FILE: Final = "state.key"
_BYTES: Final = 32
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger(__name__)


class KeySettings(Protocol):
    """The settings that say which keys there are."""

    @property
    def state_keys(self) -> Sequence[SecretStr]:
        """The keys that replicas share; empty: one is made in `data_dir`."""
        ...

    @property
    def data_dir(self) -> Path:
        """The folder for a key of one's own."""
        ...


def sealing_keys(settings: KeySettings) -> list[bytes]:
    """The keys: the first encrypts, all of them decrypt. Raises `SettingsError` for a key file that cannot be used."""
    if settings.state_keys:
        return [key.get_secret_value().encode() for key in settings.state_keys]
    path = settings.data_dir / _FILE
    try:
        return [_read(path)]
    except FileNotFoundError:
        return [_make(path)]
    except OSError as error:
        reason = f"The key file {path} cannot be read ({error.strerror}). Make it readable or delete it."
        raise SettingsError(reason) from None


def _read(path: Path) -> bytes:
    _restrict_to_owner(path)
    written = path.read_text("ascii", errors="replace").strip()
    try:
        key = bytes.fromhex(written)
    except ValueError:
        key = b""
    if len(key) != _BYTES:
        raise SettingsError(
            f"The key file {path} should hold {_BYTES * 2} hexadecimal digits, and does not."
            " Restore it, or delete it: a new one is made, and states sealed with the old one are refused."
        )
    return key


def _restrict_to_owner(path: Path) -> None:
    """Let only the file's owner read it, and warn if others could, since they may know the key."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & _OTHERS:
        with suppress(OSError):  # the warning below covers a failure too
            path.chmod(mode & ~_OTHERS)
        _log.warning(
            "The key file %s was open to other users (mode %o); it should be 600, and is set to it where that can be"
            " done. If any of them may have read it, delete it and start again: a new key is made.",
            path,
            mode,
        )


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
