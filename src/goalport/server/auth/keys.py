"""API keys: their format, the file with their records, the times of their last use, and their verifier.

A key is `gp_`, 32 random letters and digits (190 bits), and a checksum of six characters, like GitHub's tokens. So
secret scanners find keys, and a mistyped key is told from an unknown one. Only the SHA-256 of a key is stored: a key is
too random to be guessed from its hash, and the time of a comparison of hashes says nothing about the key. The file is
checked at most once a second, when somebody calls, so a new or revoked key counts after a second. Above:
`authentication`, and the command line.
"""

import json
import logging
import os
import re
import secrets
import stat
import string
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal
from zlib import crc32

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from goalport.base.errors import SettingsError
from goalport.base.files import give_to_owner, locked, replace_file
from goalport.base.words import validation_reason
from goalport.server.auth.verifiers import Grant, InvalidToken, VerifierUnavailable, caller_of, not_slowed
from goalport.workspace.settings import AuthSettings, KeyEntry, Settings

KEY_VARIABLE: Final = "GOALPORT_KEY"
"""The environment variable with the key or token of a client, or of a server over stdio."""
PREFIX: Final = "gp_"
_LETTERS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM: Final = 32
_CHECK: Final = 6
_KEY: Final = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM + _CHECK}}}")
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Enough for many thousand keys. No request is answered while the file is read, so a larger file is refused."""
Stamp = tuple[int, int, int]
_log = logging.getLogger(__name__)


class UnreadableKeys(SettingsError):
    """A key file cannot be read, so no key can be verified."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"The key file {path} cannot be used: {why}. Nobody's key is accepted until it is mended.")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made. It is stored nowhere: only the person to whom it is shown has it."""

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
    """Whether a text has the form and the checksum of a key; the key may be unknown."""
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
    """The content of a key file. Unknown fields are refused: with a misspelt `expires`, a key would never expire."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1]
    keys: tuple[KeyEntry, ...]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The file with the records of keys. Several programs may change it, one at a time."""

    path: Path

    def stamp(self) -> Stamp | None:
        """A value that differs after each change of the file; None: there is no file. Raises `UnreadableKeys`."""
        path = self.path
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if path.is_symlink():
                raise UnreadableKeys(path, "the file that it links to is not there") from None
            return None
        except OSError as error:
            raise UnreadableKeys(path, error.strerror or type(error).__name__) from error
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableKeys(path, "it is no regular file")
        if found.st_size > _MOST_BYTES:
            raise UnreadableKeys(path, f"it has more than {_MOST_BYTES:,} bytes")
        if os.name == "posix":
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise UnreadableKeys(path, f"other users may write it; `chmod 600 {path}` mends that")
            for each, state in ((path, found), (path.parent, path.parent.stat())):
                if state.st_uid not in {os.geteuid(), 0}:
                    raise UnreadableKeys(path, f"{each} belongs to another user; `chown` it to the one who serves")
                if state.st_mode & stat.S_IWOTH and not state.st_mode & stat.S_ISVTX:
                    raise UnreadableKeys(path, f"everybody may write into {each}; `chmod o-w {each}` mends that")
        return found.st_mtime_ns, found.st_ino, found.st_size

    def read(self) -> tuple[KeyEntry, ...]:
        """The records, in the order in which they were made; none if there is no file. Raises `UnreadableKeys`."""
        if self.stamp() is None:
            return ()
        if os.name == "posix" and self.path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
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


_PRECISION_SECONDS: Final = 60.0


class KeyUses:
    """The times at which keys were last used, by their ids. Several programs may write them."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / "keys-used"
        self._noted: dict[str, float] = {}
        self._failed = False

    def note(self, key_id: str) -> None:
        """Note that a key is used now. A thread writes it, at most once a minute: no call waits for the disk."""

        def write() -> None:
            file = self.folder / key_id
            try:
                self.folder.mkdir(0o700, parents=True, exist_ok=True)
                file.touch(0o600)
                for each in (self.folder, file):
                    give_to_owner(each, of=self.folder.parent)
            except OSError as error:
                if not self._failed:  # logged once: nothing depends on these times
                    _log.warning("When keys were last used cannot be written to %s (%s).", self.folder, error)
                self._failed = True

        now = time.monotonic()
        if now - self._noted.get(key_id, -_PRECISION_SECONDS) >= _PRECISION_SECONDS:
            self._noted[key_id] = now
            threading.Thread(target=write, name="key uses", daemon=True).start()

    def times(self) -> Mapping[str, datetime]:
        """When each key was last used, by its id; empty where nothing is known."""
        try:
            return {each.name: datetime.fromtimestamp(each.stat().st_mtime, UTC) for each in self.folder.iterdir()}
        except OSError:
            return {}


ISSUER: Final = "goalport:keys"
"""The issuer of callers with a key. Their id is the name of the key, so that a new key of that name can replace it."""
_LOOK_SECONDS: Final = 1.0


class ApiKeys:
    """Verifies API keys. While the key file cannot be read, no key is accepted.

    Raises `SettingsError` if the key file exists but cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings: AuthSettings = settings.auth
        self._file = KeyFile(settings.key_file)
        self._uses = KeyUses(settings.data_dir)
        self._stamp: Stamp | None = None
        self._known: dict[str, tuple[KeyEntry, Grant]] = {}
        self._fault = ""
        self._next_look = 0.0
        self._load(self._file.stamp())
        now = datetime.now(UTC)
        if not any(entry.state(now) == "valid" for entry, _ in self._known.values()):
            _log.warning("No key is valid, so nobody can call yet. Make one for each who is to: goalport keys new NAME")

    def recognizes(self, token: str) -> bool:
        """Whether a token looks like a key."""
        return token.startswith(PREFIX)

    async def verify(self, token: str, is_slowed: Callable[[], bool] = not_slowed) -> Grant:
        """What a key grants. Raises `InvalidToken`, and `VerifierUnavailable` while the key file cannot be read."""
        self._follow()
        if self._fault:
            raise VerifierUnavailable(self._fault)
        found = self._known.get(hash_of(token))
        if found is None:
            raise InvalidToken("The key is not known here." if is_whole(token) else "The key is mistyped or cut off.")
        entry, grant = found
        if (state := entry.state(datetime.now(UTC))) != "valid":
            what = "has expired" if state == "expired" else "was revoked"
            raise InvalidToken(f"The key {what}. Ask whoever runs this server for a new one.", was_valid=True)
        self._uses.note(entry.id)
        return grant

    def _follow(self) -> None:
        """Read the file again if it has changed, which is checked at most once in `_LOOK_SECONDS`."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        try:
            stamp = self._file.stamp()
            if stamp is None and self._stamp is not None:
                raise UnreadableKeys(self._file.path, "it is gone")  # noqa: TRY301 - as what `stamp` raises
            if stamp != self._stamp or self._fault:
                self._load(stamp)
        except UnreadableKeys as error:
            if str(error) != self._fault:
                _log.error("%s", error)
            self._fault = str(error)
            return
        if self._fault:
            _log.warning("The key file %s can be read again.", self._file.path)
        self._fault = ""

    def _load(self, stamp: Stamp | None) -> None:
        """Read the file. Its stamp was taken before, so that a change meanwhile is noticed at the next check."""
        entries = [*self._settings.key_entries, *self._file.read()]
        # Of two entries with the same key, the last one counts: revoked entries are last, so that they always win.
        entries.sort(key=lambda entry: entry.revoked is not None)
        self._known, self._stamp = {}, stamp
        for each in entries:
            caller = caller_of(self._settings, each.name, ISSUER, each.scopes)
            expires_at = None if each.expires is None else each.expires.timestamp()
            self._known[each.sha256.get_secret_value()] = each, Grant(caller, each.name, expires_at)
