"""The verifier of API keys: those of the key file and of the settings. Above: `authentication`.

A key is found by its hash, so what is compared has no relation to the key that a guess resembles. The file is looked at
once a second at most, when somebody calls; a key that is made or revoked therefore counts after a second.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from goalport.server.auth.key_file import PREFIX, KeyFile, Stamp, UnreadableKeys, hash_of, is_whole
from goalport.server.auth.key_uses import KeyUses
from goalport.server.auth.verifiers import Grant, InvalidToken, VerifierUnavailable, caller_of, never
from goalport.workspace.settings import AuthSettings, KeyEntry, Settings

ISSUER: Final = "goalport:keys"
"""Who vouches for the names of keys: the id of a caller is the name of the key, so a key can be replaced by another."""
_LOOK_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)


class ApiKeys:
    """Verifies API keys. While the key file cannot be read, nobody's key is valid.

    Raises `SettingsError` for a key file that is there and cannot be read.
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

    def takes(self, token: str) -> bool:
        """Whether a token looks like a key."""
        return token.startswith(PREFIX)

    async def verify(self, token: str, is_slowed: Callable[[], bool] = never) -> Grant:
        """What a key grants. Raises `InvalidToken`, and `VerifierUnavailable` while the key file cannot be read."""
        self._follow()
        if self._fault:
            raise VerifierUnavailable(self._fault)
        found = self._known.get(hash_of(token))
        if found is None:
            raise InvalidToken("The key is not known here." if is_whole(token) else "The key is mistyped or cut off.")
        entry, grant = found
        match entry.state(datetime.now(UTC)):
            case "expired":
                raise InvalidToken("The key has expired. Ask whoever runs this server for a new one.", was_valid=True)
            case "revoked":
                raise InvalidToken("The key was revoked. Ask whoever runs this server for a new one.", was_valid=True)
            case "valid":
                self._uses.note(entry.id)
                return grant

    def _follow(self) -> None:
        """Read the file again if it was changed; look whether it was at most once in `_LOOK_SECONDS`."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        try:
            self._look()
        except UnreadableKeys as error:
            if str(error) != self._fault:
                _log.error("%s", error)
            self._fault = str(error)
            return
        if self._fault:
            _log.warning("The key file %s can be read again.", self._file.path)
        self._fault = ""

    def _look(self) -> None:
        stamp = self._file.stamp()
        if stamp is None and self._stamp is not None:
            raise UnreadableKeys(self._file.path, "it is gone")
        if stamp != self._stamp or self._fault:
            self._load(stamp)

    def _load(self, stamp: Stamp | None) -> None:
        """Read the file, which had this stamp just before: if it changes meanwhile, it is read again later."""
        entries = [*self._settings.key_entries, *self._file.read()]
        # The last of two entries with one key counts: that it was revoked in one place must not be undone by another.
        entries.sort(key=lambda entry: entry.revoked is not None)
        self._known = {each.sha256.get_secret_value(): (each, self._grant(each)) for each in entries}
        self._stamp = stamp

    def _grant(self, entry: KeyEntry) -> Grant:
        expires_at = None if entry.expires is None else entry.expires.timestamp()
        return Grant(caller_of(self._settings, entry.name, ISSUER, entry.scopes), entry.name, expires_at)
