"""Tables of settings, such as `[auth]` in `server/settings.toml`, and the types of the values of settings.

An environment variable is text, so lists and tables are parsed from it. Above: `settings`, whose class has the tables
as fields.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)

from goalport.agents.domain import RetryPolicy
from goalport.base.caller import Caller, is_scope
from goalport.base.hosts import is_secure
from goalport.store.postgres import PostgresAddress


def listed(value: object) -> object:
    """A list from an environment variable: JSON, or values separated by commas. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"should be a JSON list or separated by commas ({error.msg})") from None
    return [part.strip() for part in value.split(",") if part.strip()]


def read_table(value: object) -> object:
    """A table from an environment variable, as JSON. Raises `ValueError`."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError as error:
        raise ValueError(f"should be a JSON object ({error.msg})") from None


def _size(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"\s*[\d.]+\s*\w*\s*", value):  # pydantic ignores what follows
        raise ValueError("should be a number of bytes, or a number with a unit such as MiB")
    return TypeAdapter(ByteSize).validate_python(value)


def _place(value: str, *names: str) -> str:
    """The name of a store, or the URL of a PostgreSQL database. Raises `ValueError` for anything else."""
    if value not in names:
        if "://" not in value:
            known = ", ".join(f"`{each}`" for each in names)
            raise ValueError(f"should be {known} or the URL of a PostgreSQL database")
        PostgresAddress(value)
    return value


_Listed = BeforeValidator(listed)
_InAnyCase = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
Words = Annotated[tuple[str, ...], _Listed]
Paths = Annotated[tuple[Path, ...], _Listed]
Secrets = Annotated[tuple[SecretStr, ...], _Listed]
LogLevel = Annotated[Literal["debug", "info", "warning", "error", "critical"], _InAnyCase]
Personality = Annotated[Literal["", "starwars", "severance", "colossus", "hitchhiker", "montypython"], _InAnyCase]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
WorkerCount = Annotated[
    Annotated[Count, Tag("number")] | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(lambda value: "auto" if value == "auto" else "number"),
]
"""A number of processes; `auto`: one for each core that may be used."""
Delay = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Size = Annotated[
    int,
    BeforeValidator(_size),
    Field(ge=1),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}),
]
StorePlace = Annotated[str, AfterValidator(lambda value: _place(value, "memory", "sqlite"))]
DocumentsPlace = Annotated[str, AfterValidator(lambda value: _place(value, "sqlite"))]
Table = BeforeValidator(read_table)
ScopeTable = Annotated[Mapping[str, tuple[str, ...]], Table]


ASYMMETRIC = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""The algorithms of signatures that only the issuer can make, since the key that verifies them is public."""


def _url(value: str) -> str:
    """A URL of a provider. Raises `ValueError`."""
    parts = urlsplit(value)
    if not parts.hostname or not is_secure(value):
        raise ValueError("should be a URL with https, or with http on this machine")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("should be a URL without a user, a password or a fragment")
    return value


def _network(value: str) -> str:
    """An address, or a network in CIDR notation. Raises `ValueError`."""
    if ip_network(value).prefixlen == 0:
        raise ValueError(f"should be addresses or networks of proxies, and {value} is everybody")
    return value


def _checked(check: Callable[[Any], object], should: str) -> AfterValidator:
    """A validator for a value or a secret. Its error says what the value should be."""

    def checked(value: Any) -> Any:
        if not check(value.get_secret_value() if isinstance(value, SecretStr) else value):
            raise ValueError(f"should {should}")
        return value

    return AfterValidator(checked)


Networks = Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], _Listed]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]*$")]
Url = Annotated[str, AfterValidator(_url)]
Issuer = Annotated[
    Url, _checked(lambda url: "?" not in url, "be a URL without a query, as the tokens of the issuer name it")
]
Algorithms = Annotated[
    Words,
    _checked(
        lambda names: names and set(names) <= set(ASYMMETRIC),
        f"be some of {', '.join(ASYMMETRIC)}; a key that others have proves nothing",
    ),
]
Confidence = Annotated[float, Field(ge=0, le=1)]


class _SettingsTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TokenSettings(_SettingsTable):
    """The claims in the tokens of one identity provider."""

    issuer: Issuer
    """The provider's identifier, exactly as in the claim `iss` of its tokens."""
    audience: Words = ()
    """The accepted audiences of its tokens (`aud`); empty: the addresses of this server."""
    scope_claims: Words = ("scope", "scp")
    """The claims with the scopes of a token, each a list, or a text separated by spaces; `roles`, for example."""
    subject_claim: str = Field(default="sub", min_length=1)
    """The claim with the id of the caller: the same in all tokens of one person, and different for each person."""


class IssuerSettings(TokenSettings):
    """A provider whose access tokens are JWTs: they are verified here, with its public keys."""

    jwks_uri: Annotated[str, AfterValidator(lambda value: value and _url(value))] = ""
    """The URL of its public keys; empty: as in its metadata (RFC 8414, OpenID Connect Discovery)."""
    algorithms: Algorithms = ASYMMETRIC
    """The algorithms with which its tokens may be signed."""


class IntrospectionSettings(TokenSettings):
    """A provider that is asked about each token (RFC 7662), for tokens that only it can read."""

    endpoint: Url
    """The URL of its introspection endpoint."""
    token_prefix: str = ""
    """What its tokens begin with. With several providers, each needs another, so that none gets others' tokens."""
    client_id: str = Field(min_length=1)
    """The OAuth client id of this server at the provider."""
    client_secret: SecretStr = Field(min_length=1)
    require_audience: bool = True
    """Whether a token is refused if the provider names no audience for it."""


_ID: Final = re.compile(r"key-[0-9a-f]{8}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def is_key_id(text: str) -> bool:
    """Whether a text is the id of a key, which no name may look like."""
    return _ID.fullmatch(text) is not None


_A_NAME = _checked(_NAME.fullmatch, "have 1 to 64 letters, digits and . _ @ + -, and begin with a letter or a digit")
_NO_ID = _checked(lambda text: not is_key_id(text), "not look like the id of a key")
_A_SCOPE = _checked(is_scope, "be a scope, without spaces, quotation marks and backslashes")
_A_HASH = _checked(_HASH.fullmatch, "be the SHA-256 of a key, in 64 hexadecimal digits")


class KeyEntry(_SettingsTable):
    """What is stored of an API key: its caller, its scopes, and its hash, but not the key itself.

    Several keys may have the same name, that is, the same caller, so that a key can be replaced.
    """

    id: Annotated[str, _checked(is_key_id, "be key- and eight hexadecimal digits")]
    """The id of the key in lists and commands."""
    name: Annotated[str, _A_NAME, _NO_ID]
    """The id of the caller who has the key."""
    sha256: Annotated[SecretStr, _A_HASH]
    """The hash of the key."""
    scopes: tuple[Annotated[str, _A_SCOPE], ...] = Field(min_length=1)
    """The scopes that the key grants."""
    created: AwareDatetime
    expires: AwareDatetime | None
    """When the key expires; None: never."""
    revoked: AwareDatetime | None = None
    """When the key was revoked; None: it was not."""

    def state(self, now: datetime) -> Literal["valid", "expired", "revoked"]:
        """Whether the key is valid at a time."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "valid"

    def record(self) -> dict[str, Any]:
        """The entry as JSON data, with its hash."""
        return {**self.model_dump(mode="json"), "sha256": self.sha256.get_secret_value()}


_RETRY = RetryPolicy()
_TAKEN_HEADERS = frozenset({"authorization", "cookie", "host", "content-type", "content-length", "forwarded", "origin"})


class AuthSettings(_SettingsTable):
    """Who may call: how callers are authenticated, and what their scopes mean.

    A server without any way to authenticate callers listens only to its own machine, unless `insecure_no_auth` is set.
    """

    keys: bool | None = None
    """Whether callers are authenticated by API keys; None: if there is a key file, or an entry in `key_entries`."""
    keys_file: str = ""
    """The key file, relative to the workspace; empty: `keys.json` in `data_dir`."""
    key_entries: Annotated[tuple[KeyEntry, ...], _Listed] = ()
    """Keys in addition to those of the file, as `goalport keys new --entry` prints them."""
    insecure_no_auth: bool = False
    """Listen to other machines too, although nobody is authenticated."""
    issuers: Annotated[tuple[IssuerSettings, ...], _Listed] = ()
    """The providers whose access tokens are JWTs, which are verified here."""
    introspection: Annotated[tuple[IntrospectionSettings, ...], _Listed] = ()
    """The providers that are asked about each token, for tokens that only they can read."""
    trusted_proxies: Networks = ()
    """The addresses and networks of proxies that authenticate callers, and name them in a header."""
    proxy_user_header: HeaderName = ""
    """The header in which these proxies name the user."""
    proxy_groups_header: HeaderName = ""
    """The header with the user's scopes, separated by commas or spaces; empty: there is none."""
    proxy_scopes: Words = ()
    """The scopes that each user of these proxies has."""
    scopes_supported: Words = ()
    """The scopes in the server's metadata; empty: read and write. Some clients ask a person for all of them."""
    scope_prefix: str = Field(default="goals", pattern=r"^[A-Za-z0-9._/-]+$")
    """The prefix of the scopes for goals that name none: `goals:read`, `goals:write` and `goals:admin`."""
    implied_scopes: ScopeTable = {}
    """The other scopes that a scope grants. In any case admin grants write, and write grants read."""
    claims: Words = ()
    """The claims of a token that actions may read as `context.caller.claims`, such as a tenant; they are stored."""
    step_up: Literal["http", "tool-error"] = "http"
    """How a call is refused if its token lacks scopes: with HTTP status 403, or as an error of the tool."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.trusted_proxies) != bool(self.proxy_user_header):
            raise ValueError("should have both, trusted_proxies and proxy_user_header, or none of them")
        if self.proxy_user_header.lower() in _TAKEN_HEADERS:
            raise ValueError(f"should name the user in a header of its own, and {self.proxy_user_header} is none")
        prefixes = [each.token_prefix for each in self.introspection]
        for place, prefix in enumerate(prefixes):
            if any(each.startswith(prefix) for each in (*prefixes[:place], *prefixes[place + 1 :])):
                raise ValueError(f"should tell introspections apart by token_prefix, and {prefix!r} does not")
        return self

    def scope(self, right: Literal["read", "write", "admin", "metrics", "on-behalf-of"]) -> str:
        """The full name of a scope that the server itself requires.

        `read`: to see goals, and call goals that change nothing. `write`: to call goals that name no scopes. `admin`:
        to list, answer and end the processes of all callers. `metrics`: to read the server's metrics.
        `on-behalf-of`: to act for other callers, as a chat interface does that names the user of each request.
        """
        return f"{self.scope_prefix}:{right}"

    def expanded(self, granted: Iterable[str]) -> frozenset[str]:
        """These scopes, with all that they imply."""
        implied = {self.scope("admin"): (self.scope("write"),), self.scope("write"): (self.scope("read"),)}
        found, waiting = set[str](), list(granted)
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting += [*implied.get(each, ()), *self.implied_scopes.get(each, ())]
        return frozenset(found)


class AuditSettings(_SettingsTable):
    """The audit log: who did what."""

    enabled: bool | None = None
    """Whether it is written; None: where callers are authenticated."""
    file: Path = Path("audit", "audit.jsonl")
    """The file to which it is written; relative to `data_dir`."""
    max_bytes: Size = 50_000_000
    """The size of the file at which a new file is begun."""
    keep: int = Field(default=10, ge=1)
    """How many of the earlier files are kept."""


class ProcessSettings(_SettingsTable):
    """How processes run, unless the program that starts one says otherwise; 0 is no limit."""

    cost: Delay = 2.0
    """The most US dollars that a process may cost."""
    tokens: int = Field(default=1_000_000, ge=0)
    """The most tokens, of input and output together."""
    actions: Count | None = None
    """The most actions; None: as `max_actions` says."""
    seconds: Delay = 0.0
    """The seconds after which it is terminated."""
    delay: Delay = 0.0
    """Seconds between two actions."""
    tool_delay: Delay = 0.0
    """Seconds before each call of a tool."""
    show_planning: bool = False
    """Log each plan."""
    show_prompts: bool = False
    """Log the prompts of models in full."""
    show_llm_responses: bool = False
    """Log the replies of models in full."""
    debug: bool = False
    """Log all of these."""
    agent_name_in_id: bool = False
    version_in_id: bool = False
    prune: bool = False
    """Leave out, from the beginning, actions that cannot help to reach a goal."""
    test: bool = False
    """Whether processes are tests, which actions can find out."""


class CallerLimits(_SettingsTable):
    """How much one caller may do; 0: no limit."""

    calls: int = Field(default=0, ge=0)
    """How many calls of a caller are answered at once."""
    processes: int = Field(default=0, ge=0)
    """How many processes of a caller run at once; processes that wait for people do not count."""
    calls_per_minute: int = Field(default=0, ge=0)
    """How many calls of a caller may begin something within a minute."""
    cost_per_day: Delay = 0.0
    """How many US dollars the processes of a caller may cost from one midnight (UTC) to the next."""
    process_cost: Delay = 0.0
    """How many US dollars each process of a caller may cost."""
    process_tokens: int = Field(default=0, ge=0)
    """How many tokens each process of a caller may use."""
    process_actions: int = Field(default=0, ge=0)
    """How many actions each process of a caller may run."""
    process_seconds: Delay = 0.0
    """Seconds after which each process of a caller is terminated."""

    @property
    def of_processes(self) -> Mapping[str, Any]:
        """The limits of each process of a caller, by the names of the parameters of `ProcessOptions.within`."""
        names = ("cost", "tokens", "actions", "seconds")
        return {name: limit for name in names if (limit := getattr(self, f"process_{name}"))}


class LimitSettings(CallerLimits):
    """How much each caller may do, and all callers together; 0: no limit."""

    total_calls: int = Field(default=0, ge=0)
    """How many calls of all callers are answered at once; others wait, and callers take turns."""
    waiting_calls: Count = 100
    """How many calls of one caller may wait for their turn."""
    callers: Annotated[Mapping[str, CallerLimits], Table] = {}
    """Other limits for single callers, by id, or by issuer and id with a space between them."""

    def of(self, caller: Caller) -> CallerLimits:
        """The limits of a caller, as set in `callers`; what is not set there is as for all callers."""
        own = self.callers.get(f"{caller.issuer} {caller.id}") or self.callers.get(caller.id) if self.callers else None
        if own is None:
            return self
        return self.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


class RetrySettings(_SettingsTable):
    """How often an action that fails is tried again, unless the action says so itself."""

    attempts: Count = _RETRY.attempts
    first_delay: Delay = _RETRY.first_delay
    factor: Delay = _RETRY.factor
    max_delay: Delay = _RETRY.max_delay
    every_error: bool = _RETRY.every_error

    @property
    def policy(self) -> RetryPolicy:
        """The same settings as the retry policy that actions use."""
        return RetryPolicy(**self.model_dump())


class AutonomySettings(_SettingsTable):
    """How an agent or a goal is chosen for a request in plain words."""

    agent_confidence_cut_off: Confidence = 0.6
    """An agent is chosen only if the model's confidence in it is greater."""
    goal_confidence_cut_off: Confidence = 0.6
    """A goal is chosen only if the model's confidence in it is greater."""
    ranking_llm: str = ""
    """The model that ranks; empty: the default model."""
    ranking_max_attempts: Count = 5
    """How often the model is asked as long as its answers name no candidate."""
    ranking_first_delay: Delay = 0.0
    """Seconds before it is asked the second time."""
    ranking_factor: Delay = 5.0
    """The factor by which each further wait is longer than the one before."""
    ranking_max_delay: Delay = 180.0
    """The longest wait, in seconds."""


class DocumentsSettings(_SettingsTable):
    """Where the documents that agents search are stored, and which model makes their vectors."""

    store: DocumentsPlace = "sqlite"
    """In the file `documents.db` in `data_dir`, or in a PostgreSQL database."""
    connections: Count = 5
    """The most connections to PostgreSQL that each program opens."""
    pooler: bool = False
    """Whether a pooler in front of PostgreSQL may use another connection for each transaction."""
    embedding_model: str = ""
    """The embedding model, by its name or role; empty: the default one. If there is none, only words are searched."""
    include: Words = ("*",)
    """Patterns such as `*.md`: `goalport ingest` takes in the files of a folder that match one of them."""
    max_chunk_size: Annotated[int, Field(ge=50)] = 1500
    """The most characters of a document that are found and shown together, as one chunk."""
    overlap_size: Annotated[int, Field(ge=0)] = 200
    """The most characters of a chunk that repeat the prose before it."""
