"""API keys and the file that keeps them: how a key looks, what is kept of one, and how the file is read and changed.

A key is `gp_`, 32 random letters and digits (190 bits), and a checksum of six, as that of GitHub's tokens. So a scanner
of secrets finds keys, and one that was mistyped or cut off is told from one that nobody made. Only the SHA-256 of a key
is kept: a key is too random to be guessed from its hash. Above: `keys`, which verifies, and the command line.
"""

import json
import logging
import os
import re
import secrets
import stat
import string
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal
from zlib import crc32

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from goalport.base.errors import SettingsError
from goalport.base.files import locked, replace_file
from goalport.base.words import validation_reason
from goalport.workspace.settings import KeyEntry

KEY_VARIABLE: Final = "GOALPORT_KEY"
"""The variable of the environment in which a client, or a server over stdio, finds its key or token."""
PREFIX: Final = "gp_"
_LETTERS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM: Final = 32
_CHECK: Final = 6
_KEY: Final = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM + _CHECK}}}")
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_READABLE_BY_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Many thousand keys. Nobody is answered while the file is read, so one that takes seconds is refused."""
Stamp = tuple[int, int, int]
_log = logging.getLogger(__name__)


class UnreadableKeys(SettingsError):
    """A key file that cannot be read, so that nobody can say whose keys are valid."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"The key file {path} cannot be used: {why}. Nobody's key is accepted until it is mended.")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made. Nothing keeps it but whoever is shown it."""

    key: SecretStr
    entry: KeyEntry


def new_key(name: str, scopes: Sequence[str], expires: datetime | None) -> NewKey:
    """Make a key for the caller of that name. Raises `ValueError` for a name or scope that cannot be one."""
    text = PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(_RANDOM))
    key = text + _checksum(text)
    entry = KeyEntry(
        id=f"key-{secrets.token_hex(4)}",
        name=name,
        sha256=SecretStr(hash_of(key)),
        scopes=tuple(scopes),
        created=datetime.now(UTC).replace(microsecond=0),
        expires=expires,
    )
    return NewKey(SecretStr(key), entry)


def is_whole(key: str) -> bool:
    """Whether a text is a key without a mistake in it, be it known or not."""
    return _KEY.fullmatch(key) is not None and _checksum(key[:-_CHECK]) == key[-_CHECK:]


def hash_of(key: str) -> str:
    """The hash by which a key is found."""
    return sha256(key.encode()).hexdigest()


def _checksum(text: str) -> str:
    number, digits = crc32(text.encode()), ""
    for _ in range(_CHECK):
        number, digit = divmod(number, len(_LETTERS))
        digits = _LETTERS[digit] + digits
    return digits


class _Content(BaseModel):
    """What a key file holds. What is not known is refused: a misspelt `expires` would never end a key."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1]
    keys: tuple[KeyEntry, ...]


class KeyFile:
    """The file with the records of keys. Several programs may change it, one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> Stamp | None:
        """What is another after the file was changed; None: there is no file. Raises `UnreadableKeys`."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if self.path.is_symlink():
                raise UnreadableKeys(self.path, "the file that it links to is not there") from None
            return None
        except OSError as error:
            raise UnreadableKeys(self.path, error.strerror or type(error).__name__) from error
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableKeys(self.path, "it is no regular file")
        if found.st_size > _MOST_BYTES:
            raise UnreadableKeys(self.path, f"it has more than {_MOST_BYTES:,} bytes")
        if os.name == "posix" and found.st_mode & _WRITABLE_BY_OTHERS:
            raise UnreadableKeys(self.path, f"other users may write it; `chmod 600 {self.path}` mends that")
        self._check_owner(found, self.path)
        self._check_owner(self.path.parent.stat(), self.path.parent)
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _check_owner(self, found: os.stat_result, path: Path) -> None:
        """Raise `UnreadableKeys` if another user can put keys into a file or folder."""
        if os.name != "posix":
            return
        if found.st_uid not in {os.geteuid(), 0}:
            raise UnreadableKeys(self.path, f"{path} belongs to another user; `chown` it to the one who serves")
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise UnreadableKeys(self.path, f"everybody may write into {path}; `chmod o-w {path}` mends that")

    def read(self) -> tuple[KeyEntry, ...]:
        """The records, in the order in which they were made; none if there is no file. Raises `UnreadableKeys`."""
        if self.stamp() is None:
            return ()
        if os.name == "posix" and self.path.stat().st_mode & _READABLE_BY_OTHERS:
            _log.warning("Other users may read %s: `chmod 600` it. It has hashes of keys, and who has them.", self.path)
        try:
            return _Content.model_validate_json(self.path.read_bytes()).keys
        except OSError as error:
            raise UnreadableKeys(self.path, error.strerror or type(error).__name__) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the content"
            raise UnreadableKeys(self.path, f"{place}: {validation_reason(first['msg'])}") from None

    @contextmanager
    def changing(self) -> Generator[list[KeyEntry]]:
        """The records, to be changed in this block; they are written at its end, unless it raises an error.

        Raises `UnreadableKeys`, and `OSError` if the file cannot be written.
        """
        with locked(self.path):
            entries = list(self.read())
            yield entries
            content = {"version": 1, "keys": [each.record() for each in entries]}
            replace_file(self.path, json.dumps(content, indent=2) + "\n")
