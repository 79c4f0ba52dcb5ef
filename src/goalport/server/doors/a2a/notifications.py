"""Push notifications: the addresses to which other agents want the states of their tasks sent, and the sender.

The configurations of a task are one document in the store, stored like a context, with the state that each was sent
last. Every replica checks all documents, and sends while it has the lease of a document. If it ends before it has sent
and recorded a state, another replica sends that state. So each lasting state is sent at least once. The SDK is not
imported here. Above: the door.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit
from uuid import uuid4

import anyio

from goalport.base.errors import BadInput, DocumentError, GoalportError, SettingsError, StoreError
from goalport.base.sealing import ProcessSeals, sealing_keys
from goalport.knowledge.documents import WebFetcher, WebLimits
from goalport.server.publish.publisher import Publisher, Task
from goalport.workspace.settings import Settings

KEYS: Final = "/.well-known/a2a-keys.json"
_CHECK_SECONDS: Final = 1.0
"""Seconds between two checks of the tasks that have configurations."""
_SCAN_SECONDS: Final = 30.0
"""Seconds between two searches for documents that other replicas have created, and for deleted processes."""
_LEASE_SECONDS: Final = 15.0
"""Seconds within which a replica has to send all notifications of a document; then another replica takes over."""
_POST_LIMITS: Final = WebLimits(seconds=10.0)
_MAX_PAUSE: Final = 600.0
_MAX_CONCURRENT: Final = 20
_MAX_CONFIGS: Final = 10
"""The most configurations of a task."""
_MAX_LENGTH: Final = 4_096
"""The most characters of each part of a configuration."""
_NO_USER: Final = "url: should have no user name and password: give them as authentication"
_KEY_TAG: Final = "a2a notifications"
_PARTS: Final = 5
"""The parts of a document's key; no context has so many. The documents of a caller are erased with the contexts."""
_UNTRIED: Final = {"failures": 0, "since": 0, "again": 0}
"""How often a notification has failed, since when, and when to try again (Unix times)."""
_log = logging.getLogger(__name__)
Config = Mapping[str, Any]
"""A push configuration in the protocol's JSON, and the `version` of the protocol that its client speaks."""
_Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The private key that signs cards and notifications, and the public one as a JSON Web Key."""

    pem: bytes = field(repr=False)
    public: dict[str, Any]

    @classmethod
    def of(cls, settings: Settings) -> "SigningKey | None":
        """The key that the settings name, if any. Raises `SettingsError` for one that cannot be used."""
        if not settings.a2a_signing_key:
            return None
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from jwt import get_algorithm_by_name

        path = settings.workspace / Path(settings.a2a_signing_key).expanduser()
        try:
            pem = path.read_bytes()
            match load_pem_private_key(pem, None).public_key():
                case EllipticCurvePublicKey(curve=curve) as key if curve.name == "secp256r1":
                    name = "ES256"
                case Ed25519PublicKey() as key:
                    name = "EdDSA"
                case RSAPublicKey() as key:
                    name = "RS256"
                case key:
                    raise ValueError(f"a key of another kind ({type(key).__name__})")  # noqa: TRY301
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(
                f"a2a_signing_key: expected a file with a private key (RSA, EC P-256 or Ed25519) in PEM, without a"
                f" password, at {path}, but it cannot be used: {error}"
            ) from None
        jwk = {**get_algorithm_by_name(name).to_jwk(key, as_dict=True), "alg": name}
        kid = sha256(json.dumps(jwk, sort_keys=True).encode()).hexdigest()[:16]
        return cls(pem, {**jwk, "kid": kid, "use": "sig"})

    def token_for(self, body: bytes, address: str, issuer: str) -> str:
        """A JWT that proves to the receiver at an address who sends a body, and that nobody has changed it."""
        import jwt

        now, parts = int(time.time()), urlsplit(address)
        claims = {
            "iss": issuer,
            "aud": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
            "iat": now,
            "exp": now + 300,
            "jti": uuid4().hex,
            "request_body_sha256": sha256(body).hexdigest(),
        }
        header = {"kid": self.public["kid"], "jku": f"{issuer}{KEYS}"}
        return jwt.encode(claims, self.pem.decode(), algorithm=self.public["alg"], headers=header)


class Notice(NamedTuple):
    """A notification about the current state of a task."""

    state_id: str
    """Differs for each state of the task; the document has the id that was sent last."""
    ended: bool
    bodies: Mapping[str, bytes]
    """The body to send, by the version of the protocol."""


@dataclass(slots=True)
class _NextCheck:
    """When this replica checks a document again: at another stored version of its process, or at a time."""

    version: int = -1
    at: float = 0.0
    over: bool = False
    """Nothing is left to send: the task has ended and its receivers know that, or it is gone."""


class Notifications:
    """Stores the push configurations of tasks, and sends the notifications.

    Parameters: `notice_of` returns the notification about the task of an id; None: it does not exist any more.
    """

    def __init__(
        self, publisher: Publisher, key: SigningKey | None, notice_of: Callable[[str], Awaitable[Notice | None]]
    ) -> None:
        settings = publisher.settings
        self._store, self._settings, self._key, self._notice_of = publisher.platform.store, settings, key, notice_of
        self._seals = ProcessSeals(lambda: sealing_keys(settings))
        self._web = WebFetcher(allow=settings.a2a_push_allow, limits=_POST_LIMITS)
        self._next_checks: dict[str, _NextCheck] = {}
        """By the keys of documents."""
        self._busy: set[str] = set()
        self._places = anyio.Semaphore(_MAX_CONCURRENT)
        self._wake = anyio.Event()

    async def check(self, config: Config) -> None:
        """Raise `BadInput` for a configuration that cannot be used."""
        auth = config.get("authentication", {})
        for name, each in {**config, **{f"authentication.{name}": each for name, each in auth.items()}}.items():
            if isinstance(each, str) and (len(each) > _MAX_LENGTH or not each.isascii() or not each.isprintable()):
                told = f"{name}: should have at most {_MAX_LENGTH} characters, of ASCII and without control characters"
                raise BadInput(told, [told])
        try:
            address: str = config["url"]
            await self._web.check(address)
            if "@" in urlsplit(address).netloc:
                raise BadInput(_NO_USER, [_NO_USER])
        except DocumentError as error:
            why, private, _ = _why(error).partition("is not a public one")
            told = f"url: nothing can be sent there: {why}{private}"
            fix = ". The setting a2a_push_allow of the server allows it." if private else ""
            raise BadInput(f"{told}{fix}", [told]) from None

    async def keep(self, task: Task, config: Config) -> Config:
        """Store a checked configuration, replacing the one with its id; the current state is sent at once."""
        key, config = _key(task), {**config, "id": config.get("id") or task.id, "taskId": task.id}
        written = json.dumps(config).encode()
        sealed = self._seals.of(key).seal(written) if self._store.durable else written.decode()
        entry = {"sealed": sealed, "told": "", **_UNTRIED}

        def with_it(document: _Document | None) -> _Document:
            configs = {**(document or {}).get("configs", {}), config["id"]: entry}
            check_number(configs)
            return {"lease": 0, **(document or {}), "configs": configs}

        await self._change(key, with_it)
        self._next_checks[key] = _NextCheck()
        self._wake.set()
        return _shown(config)

    async def of(self, task: Task) -> Mapping[str, Config]:
        """The configurations of a task by their ids, without what is secret in them."""
        key = _key(task)
        document = cast("_Document", await self._store.find_context(key) or {})
        return {name: _shown(self._opened(key, entry)) for name, entry in document.get("configs", {}).items()}

    async def delete(self, task: Task, config_id: str) -> None:
        """Delete a configuration, if there is one of that id."""

        def without_it(document: _Document | None) -> _Document | None:
            if document is None or config_id not in document["configs"]:
                return None
            return {**document, "configs": {name: e for name, e in document["configs"].items() if name != config_id}}

        await self._change(_key(task), without_it)

    def _opened(self, key: str, entry: Mapping[str, Any]) -> Config:
        """The configuration of an entry. Raises `SettingsError` if the key that sealed it is missing here."""
        return json.loads(self._seals.of(key).unseal(entry["sealed"]) if self._store.durable else entry["sealed"])

    async def _change(self, key: str, change: Callable[[_Document | None], _Document | None]) -> None:
        """Replace a document by what `change` returns for its current state; None: leave it."""
        while True:
            kept = await self._store.find_context(key)
            new = change(cast("_Document | None", kept))
            if new is None or await self._store.save_context(key, new, instead_of=kept):
                return

    async def run(self) -> None:
        """Send notifications until cancelled."""
        scanned = -math.inf
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    if time.monotonic() - scanned >= _SCAN_SECONDS:
                        await self._scan()
                        scanned = time.monotonic()
                    open_ones = {key: each for key, each in self._next_checks.items() if not each.over}
                    versions = await self._store.versions([*{_root(key) for key in open_ones}])
                    for key, next_check in open_ones.items():
                        version = versions.get(_root(key), 0)
                        if key not in self._busy and (version != next_check.version or next_check.at <= time.time()):
                            next_check.version, next_check.at = version, math.inf
                            self._busy.add(key)
                            tasks.start_soon(self._send_due, key, next_check)
                except StoreError as error:
                    _log.debug("Notifications wait for the store: %s", error)
                    open_ones = self._next_checks
                with anyio.move_on_after(_CHECK_SECONDS if open_ones else _SCAN_SECONDS):
                    await self._wake.wait()
                self._wake = anyio.Event()

    async def _scan(self) -> None:
        """Find the documents of other replicas, and delete documents whose processes are gone."""
        over = [key for key, each in self._next_checks.items() if each.over]
        kept = await self._store.versions([*{_root(key) for key in over}])
        for key in over:
            if _root(key) not in kept:
                await self._store.delete_context(key)
                del self._next_checks[key]
        for key in await self._store.context_ids():
            if f', "{_KEY_TAG}", ' in key and key.startswith("[") and len(json.loads(key)) == _PARTS:
                self._next_checks.setdefault(key, _NextCheck())

    async def _send_due(self, key: str, next_check: _NextCheck) -> None:
        """Send the notifications of a task that are due, and note when to check again."""
        try:
            async with self._places:
                await self._send_waiting(key, next_check)
        except GoalportError:  # the store is away, this server ends, or another version can read the process
            next_check.at = time.time() + _SCAN_SECONDS
        except Exception:
            _log.exception("The notifications of task %s are given up because of a bug", _root(key))
            next_check.over = True
        finally:
            self._busy.discard(key)

    async def _send_waiting(self, key: str, next_check: _NextCheck) -> None:
        kept = cast("_Document | None", await self._store.find_context(key))
        notice = await self._notice_of(json.loads(key)[4]) if kept else None
        if kept is None or notice is None:
            next_check.over = True
            return
        now = time.time()
        waiting = {name: each for name, each in kept["configs"].items() if each["told"] != notice.state_id}
        ready = {name: each for name, each in waiting.items() if each["again"] <= now}
        next_check.over = notice.ended and not waiting
        if not waiting:
            return
        if not ready or kept["lease"] > now:
            next_check.at = max(kept["lease"], min(each["again"] for each in waiting.values()))
            return
        next_check.at = 0  # check again at once, or when another replica has sent
        if not await self._store.save_context(key, {**kept, "lease": now + _LEASE_SECONDS}, instead_of=kept):
            return
        sent = await asyncio.gather(*(self._sent(key, each, notice) for each in ready.values()))
        results = dict(zip(ready, sent, strict=True))

        def settled(document: _Document | None) -> _Document | None:
            configs = dict(document["configs"]) if document else {}
            for name, each in results.items():
                if name in configs and configs[name]["sealed"] == each["sealed"]:
                    configs[name] = each
            return document and {**document, "lease": 0, "configs": configs}

        await self._change(key, settled)

    async def _sent(self, key: str, entry: Mapping[str, Any], notice: Notice) -> Mapping[str, Any]:
        """Try to send a notification; return the new entry of the configuration in its document."""
        now, failures = time.time(), entry["failures"] + 1
        try:
            config = self._opened(key, entry)
            body, address, auth = notice.bodies[config["version"]], config["url"], config.get("authentication", {})
            headers = {"content-type": "application/json"}
            if config.get("token"):
                headers["x-a2a-notification-token"] = config["token"]
            if auth.get("credentials"):
                headers["authorization"] = f"{auth['scheme']} {auth['credentials']}"
            if self._key is not None:
                headers["x-a2a-signature"] = self._key.token_for(body, address, self._settings.address)
            await self._web.post(address, body, headers)
        except (DocumentError, SettingsError) as error:
            since = entry["since"] or now
            if now - since < self._settings.a2a_push_seconds:
                return {**entry, "failures": failures, "since": since, "again": now + min(2**failures, _MAX_PAUSE)}
            why = _why(error)
            _log.warning("A notification of process %s is given up after %d tries: %s", _root(key), failures, why)
        return {**entry, "told": notice.state_id, **_UNTRIED}


def check_number(configs: Collection[str]) -> None:
    """Raise `BadInput` if a task has too many configurations; `configs` are their ids."""
    if len(configs) > _MAX_CONFIGS:
        raise BadInput(f"The task has {_MAX_CONFIGS} configurations, as many as it may. Delete one first.")


def _key(task: Task) -> str:
    return json.dumps([*task.process.caller.identity, _KEY_TAG, task.process.root.id, task.id])


def _root(key: str) -> str:
    return json.loads(key)[3]


def _why(error: Exception) -> str:
    """The reason without the address, which may hold a secret."""
    return str(error).rpartition(" could not be fetched: ")[2]


def _shown(config: Config) -> Config:
    """A configuration without its secrets."""
    shown = {name: each for name, each in config.items() if name not in {"token", "version"}}
    if auth := shown.get("authentication"):
        shown["authentication"] = {"scheme": auth.get("scheme", "")}
    return shown
