"""The settings of a server: one typed object, from options, the environment, `.env` and `server/settings.toml`.

An earlier source in that list takes precedence over a later one, and the file of a profile over `settings.toml`;
defaults come last. Each invalid setting is reported in one line, with its source. Settings are read once and passed on;
no other module reads them. Nothing here starts or opens anything. Above: everything that starts a server or a command.
"""

import logging
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_type_hints

from dotenv import dotenv_values
from pydantic import (
    BaseModel,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    create_model,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from goalport.base.cores import usable_cores
from goalport.base.errors import SettingsError
from goalport.base.hosts import http_url, is_loopback
from goalport.base.observe import LogFormat
from goalport.base.observe.audit import Audit
from goalport.base.secrecy import hide, passwords_in, secrets_in_environment
from goalport.base.words import did_you_mean, nearest, offer, validation_reason
from goalport.models.llm import LlmOperations, ModelsSettings
from goalport.models.llm.providers import PROVIDERS
from goalport.workspace.settings.tables import (
    AuditSettings,
    AuthSettings,
    AutonomySettings,
    Count,
    Delay,
    DocumentsSettings,
    LimitSettings,
    LogLevel,
    Paths,
    Personality,
    ProcessSettings,
    RetrySettings,
    Seconds,
    Secrets,
    Size,
    StorePlace,
    Table,
    Words,
    WorkerCount,
    listed,
    read_table,
)

SETTINGS_FILE = Path("server", "settings.toml")
"""The path of the settings file in a workspace; the file is optional."""
ENV_FILE = ".env"
PREFIX = "GOALPORT_"
WITHIN = "__"
"""The separator between a table and its setting in the name of an environment variable."""
_NEARLY = 0.75
_SECRET = frozenset({"store", "base_url", "key_entries", "introspection"})
"""The names of settings that may contain a password, although their types do not say so."""
_ABSENT = object()
_log = logging.getLogger(__name__)
_SHORTEST_KEY = 32
_KEY_FILE = "keys.json"


class Sources(BaseSettings):
    """Settings, and where they come from: options, variables, `.env`, the profile's file and `settings.toml`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=WITHIN,
        env_ignore_empty=True,
        dotenv_filtering="only_existing",
        extra="forbid",
        frozen=True,
        validate_default=True,
    )

    workspace: Path = Path()
    """The folder with agents/ and tools/."""
    profile: str = ""
    """The profile. Its file `server/settings.<profile>.toml` overrides `server/settings.toml`; empty: there is none."""

    @field_validator("workspace")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().resolve()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - `_Environment` reads lists too
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - it does not know the workspace
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - a folder of secrets is not a source of ours
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        given = init_settings()
        workspace: Path = given.get("workspace", Path())
        variables = _variables(settings_cls, workspace)
        named = (each.get("profile") for each in (given, *(source() for source in variables)))
        files = settings_files(workspace, next((str(each) for each in named if each), ""))
        written = (InitSettingsSource(settings_cls, _known(settings_cls, file)) for file in files)
        return init_settings, *variables, *written


class Settings(Sources):
    """Every setting of a server. `docs/settings.md` says what each is for."""

    data_dir: Path = Path(".goalport")
    """The folder in which state is stored; relative to the workspace."""
    roots: Paths = (Path(),)
    """The folders that agents may read, relative to the workspace."""
    name: str = Field(default="goalport", min_length=1)
    """The server's name; all replicas of a server must have the same."""
    description: str = ""
    """What the server is for; `helloBanner` says it."""
    hello_banner: bool = True
    """Publish the tool `helloBanner`, which says which server this is."""
    strict: bool = False
    """Whether a load problem in the workspace keeps the server from being ready."""
    required_goals: Words = ()
    """Names of tools without which the server is not ready."""
    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8080, ge=0, le=65_535)
    """The TCP port; 0: any free one."""
    workers: WorkerCount = 1
    """How many processes serve over HTTP; `auto`: one for each core, or one if several are not possible."""
    public_url: str = Field(default="", pattern=r"^(https?://[^/?#\s]+(/[^?#\s]*)?)?$")
    """The URL by which clients reach the server, such as that of a proxy; empty: that of `host` and `port`."""
    allowed_hosts: Words = ()
    """Host headers that are accepted in addition to those of the loopback interface."""
    allowed_origins: Words = ()
    """Origins of web pages that may call the server; empty: only pages of this machine may."""
    rest: bool | None = None
    """Whether processes are also served over REST; None: if callers are authenticated or only this machine can call."""
    agui: bool | None = None
    """Whether chatbots and goals are also served over AG-UI; None: as for `rest`."""
    openai_api: bool | None = None
    """Whether chatbots and goals are also served as models of OpenAI's API; None: as for `rest`."""
    a2a: bool | None = None
    """Whether goals and chatbots are also served to other agents over A2A; None: as for `rest`, if the extra
    `a2a` is installed."""
    a2a_signing_key: str = ""
    """A file with the private key, in PEM, that signs agent cards and notifications; relative to the workspace."""
    a2a_push_allow: Words = ()
    """Hosts, hosts with a port, and networks that notifications of A2A may go to although they are not public."""
    a2a_push_seconds: Seconds = 86_400.0
    """Seconds for which a notification of A2A that fails is tried again."""
    stateless: bool = False
    """No sessions: for replicas behind a load balancer."""
    max_body_bytes: Size = 4 * 1024 * 1024
    max_result_bytes: Size = 900_000
    heartbeat_seconds: Seconds = 10.0
    page_size: Count = 200
    drain_seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Seconds after SIGTERM in which calls are still accepted, while the server reports that it is not ready."""
    shutdown_seconds: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    max_sessions: Count = 10_000
    max_connections: int = Field(default=0, ge=0)
    """How many connections may be open at once; 0: almost as many as there are file descriptors."""
    max_connections_per_address: int = Field(default=0, ge=0)
    """How many connections one address may have open at once; 0: three quarters of all."""
    max_event_streams: Count = 1_000
    """How many streams of events may be open at once."""
    max_event_streams_per_caller: int = Field(default=0, ge=0)
    """How many streams of events one caller may have open; 0: three quarters of all."""
    max_header_bytes: Size = 64 * 1024
    max_header_lines: Count = 100
    header_seconds: Seconds = 20.0
    """Seconds that a client may take to send the headers of a request."""
    stall_seconds: Seconds = 30.0
    """Seconds that a client may pause while it sends the body of a request, or while it reads a response."""
    state_keys: Secrets = ()
    """Keys for the state that clients hold. The first encrypts, all decrypt. Empty: one is created in `data_dir`."""
    state_ttl_seconds: Seconds = 7 * 24 * 3_600.0
    show_errors: bool = False
    """Whether clients see the messages of unexpected exceptions, and not only a reference to the log."""
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"
    """How the log is written: as text, or as one JSON object in each line."""
    metrics: bool | Literal["open"] = True
    """Whether metrics are served at `/metrics` to callers with the scope for them; "open": to everybody."""
    log_personality: Personality = ""
    """The personality that words the log: at debug, and at info in the commands that a person types; empty: none."""
    upstream_wait_seconds: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    """How many seconds the start waits for upstream servers that are not required."""
    max_threads: Count = 40
    store: StorePlace = "sqlite"
    """Where processes are stored: in memory, in the file `processes.db` in `data_dir`, or in a PostgreSQL database."""
    store_connections: Count = 10
    """The most connections to PostgreSQL that this program opens, in addition to one for notifications."""
    store_pooler: bool = False
    """Whether a pooler in front of PostgreSQL may use another connection for each transaction."""
    store_synchronous: Literal["full", "normal"] = "full"
    """Whether data in SQLite survives a power failure (`full`), or only a crash of the program (`normal`)."""
    lease_seconds: float = Field(default=30.0, ge=1, allow_inf_nan=False)
    """Seconds without a sign of life of a program, after which others on the same store continue its processes."""
    engine: Literal["local", "dbos"] = "local"
    """Which program runs a process: the program that begins it, or a program that the queue of DBOS chooses."""
    engine_concurrency: Count = 100
    """How many processes that DBOS delivers run at once in each program."""
    engine_total_concurrency: int = Field(default=0, ge=0)
    """How many processes that DBOS delivers run at once in all programs; 0: as many as each program may."""
    engine_per_minute: int = Field(default=0, ge=0)
    """How many processes that DBOS delivers all programs begin or continue in a minute; 0: no limit."""
    max_object_bytes: Size = 64 * 1024 * 1024
    """About how much memory the result of an action may take; an action with a larger one fails."""
    keep_journals: bool = False
    """Whether replies of models and results of tools are stored with a process, so that a test can replay it."""
    retention_days: Delay = 30.0
    """Days for which ended processes are kept, if there is room for so long; 0: for ever."""
    retention_count: Annotated[int, Field(ge=0)] = 100_000
    """How many ended processes are kept, each with its sub-processes; 0: any number."""
    max_actions: Count = 50
    """How many actions a process may run, unless the program that starts it says otherwise."""
    max_processes: Count = 1_000
    """How many ended processes the store in memory keeps: this many short ones, and as many of a second or more."""
    result_seconds: Seconds = 3_600.0
    """Seconds for which it keeps at least processes that took a second, asked people, or have a `long` goal."""
    max_waiting: Count = 10_000
    """How many processes in it may wait for people; if more do, it terminates the process that waited longest."""
    front_tool: bool | Literal["open"] = False
    """Publish the tool `achieve`, which takes a sentence and finds the goal; "open": with the actions of all agents."""
    chatbot: str = ""
    """The name of a chatbot that answers with the actions of all agents, or passes a message to the agent that fits."""
    autonomy: Annotated[AutonomySettings, Table] = AutonomySettings()
    """How a goal or an agent is chosen for a request in plain words."""
    audit: Annotated[AuditSettings, Table] = AuditSettings()
    """The log of who called, answered and ended what."""
    auth: Annotated[AuthSettings, Table] = AuthSettings()
    """Who may call, and how callers are authenticated."""
    process: Annotated[ProcessSettings, Table] = ProcessSettings()
    """How processes run, and how much each may cost."""
    limits: Annotated[LimitSettings, Table] = LimitSettings()
    """How much each caller may do, and all callers together."""
    retry: Annotated[RetrySettings, Table] = RetrySettings()
    """How often a failed action is tried again, unless the action has a policy of its own."""
    documents: Annotated[DocumentsSettings, Table] = DocumentsSettings()
    """Where the documents that agents search are stored."""
    models: Annotated[ModelsSettings, Table] = ModelsSettings()
    """The language models, the role of each, and how their providers are reached."""
    llm_operations: Annotated[LlmOperations, Table] = LlmOperations()
    """How goalport works with models, whichever provider they come from."""

    @property
    def missing_for_several_workers(self) -> str:
        """What this server lacks to have several workers, in words; empty: nothing."""
        if sys.platform == "win32":
            return "Linux or macOS"
        return 'a store that they share, such as store = "sqlite"' if self.store == "memory" else ""

    @property
    def worker_count(self) -> int:
        """How many processes serve over HTTP. A configured number is returned even if several are not possible."""
        if self.workers != "auto":
            return self.workers
        return 1 if self.missing_for_several_workers else usable_cores()

    @property
    def on_loopback(self) -> bool:
        """Whether the server listens only to this machine."""
        return is_loopback(self.host)

    @property
    def key_file(self) -> Path:
        """The path of the file with the API keys, whether it exists or not."""
        named = self.auth.keys_file
        return self.workspace / Path(named).expanduser() if named else self.data_dir / _KEY_FILE

    @property
    def uses_keys(self) -> bool:
        """Whether callers are authenticated by API keys."""
        if self.auth.keys is not None:
            return self.auth.keys
        if self.auth.key_entries:
            return True
        try:
            self.key_file.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # only what is known to be absent counts as absent, not what cannot be read
            return True
        return True

    @property
    def authenticates(self) -> bool:
        """Whether callers are authenticated, in any way."""
        auth = self.auth
        return self.uses_keys or bool(auth.issuers or auth.introspection or auth.trusted_proxies)

    @property
    def open_to_others(self) -> bool:
        """Whether other machines could call and nobody would be authenticated, which `insecure_no_auth` must allow."""
        return not (self.on_loopback or self.authenticates)

    def without_authentication(self) -> "Settings":
        """A copy with `insecure_no_auth`: other machines may call although nobody is authenticated."""
        return self.model_copy(update={"auth": self.auth.model_copy(update={"insecure_no_auth": True})})

    @property
    def address(self) -> str:
        """The URL by which clients reach the server, without a slash at its end."""
        return self.public_url.rstrip("/") or http_url(self.host, self.port)

    def serves(self, door: Literal["rest", "agui", "openai_api", "a2a"]) -> bool:
        """Whether a door is open in addition to that of MCP. The docstring of its setting says what None means."""
        wanted: bool | None = getattr(self, door)
        if wanted is not None:
            return wanted
        return not self.open_to_others and (door != "a2a" or find_spec("a2a") is not None)

    @field_validator("data_dir")
    @classmethod
    def _in_workspace(cls, value: Path, info: ValidationInfo) -> Path:
        return (info.data.get("workspace", Path()) / value.expanduser()).resolve()

    @field_validator("roots")
    @classmethod
    def _existing(cls, value: tuple[Path, ...], info: ValidationInfo) -> tuple[Path, ...]:
        workspace: Path = info.data.get("workspace", Path())
        found = tuple((workspace / each.expanduser()).resolve() for each in value)
        missing = [str(path) for path, given in zip(found, value, strict=True) if given != Path() and not path.is_dir()]
        if missing:
            raise ValueError(f"should be folders that exist; {', '.join(missing)} is not there")
        return found

    @field_validator("state_keys")
    @classmethod
    def _long_enough(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(each.get_secret_value().encode()) < _SHORTEST_KEY for each in value):
            raise ValueError(f"should each have at least {_SHORTEST_KEY} bytes; `openssl rand -hex 32` prints one")
        return value


class _Environment(EnvSettingsSource):
    """Parses lists and tables in variables. A value that cannot be parsed stays a text, and validation reports it.

    Because a table is parsed here, a variable such as GOALPORT_AUTH adds to the table of the file, not replaces it.
    """

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        is_table = isinstance(field.annotation, type) or value.lstrip().startswith("{")
        with suppress(ValueError):
            return (read_table if is_table else listed)(value)
        return value


class _DotEnv(_Environment, DotEnvSettingsSource):
    pass


def _variables(settings: type[BaseSettings], workspace: Path) -> tuple[EnvSettingsSource, DotEnvSettingsSource]:
    """The sources that read the environment, and the workspace's `.env`."""
    return _Environment(settings), _DotEnv(settings, env_file=workspace / ENV_FILE, env_file_encoding="utf-8")


def settings_files(workspace: Path, profile: str) -> Iterator[Path]:
    """The files with settings, that of the profile first. Raises `SettingsError` for a profile that has no file."""
    if profile:
        path = (workspace / SETTINGS_FILE).parent / f"settings.{profile}.toml"
        if not path.is_file():
            known = (each.name.split(".")[1] for each in sorted(path.parent.glob("settings.*.toml")))
            raise SettingsError(f"There is no file {path} for the profile {profile!r}. {offer(profile, known)}")
        yield path
    yield workspace / SETTINGS_FILE


def read_settings_file(path: Path) -> dict[str, Any]:
    """The content of a settings file; empty if there is none. Raises `SettingsError` if it cannot be read."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: should be TOML in UTF-8, but {error}.") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}).") from None


def place_in(file: Path, path: Sequence[str]) -> str:
    """The place of a setting, as `file:line`; if the setting is not in the file, that of the table around it."""
    found, depth, table = 0, 0, tuple[str, ...]()
    for number, line in enumerate(file.read_text("utf-8").splitlines() if file.is_file() else (), 1):
        header, key = re.match(r"\s*\[\[?([^\]]+)\]", line), re.match(r"\s*([\w.\"'-]+)\s*=", line)
        if header is not None:
            table = here = tuple(each.strip(" \"'") for each in header[1].split("."))
        elif key is not None:
            here = (*table, *(each.strip(" \"'") for each in key[1].split(".")))
        else:
            continue
        if len(here) > depth and tuple(path[: len(here)]) == here:
            found, depth = number, len(here)
    return f"{file}:{found}" if found else str(file)


def _known(settings: type[BaseSettings], path: Path) -> dict[str, Any]:
    """The settings of a class in a file. Other tables are left alone: modules of the workspace may declare them."""
    found = read_settings_file(path)
    taken = [each for each in KNOWN_SETTINGS if each != "profile"]  # `profile` says which file is read
    if unknown := [name for name in found if name not in taken and not isinstance(found[name], dict)]:
        places = ((place_in(path, (name,)), name) for name in unknown)
        raise SettingsError(
            "\n".join(f"{place}: there is no setting {name!r}. {offer_settings(name, taken)}" for place, name in places)
        )
    return {name: value for name, value in found.items() if name in settings.model_fields}


KNOWN_SETTINGS = tuple(name for name in Settings.model_fields if name != "workspace")
"""The names of all settings but `workspace`, which says where the settings are read from."""


def offer_settings(name: str, known: Sequence[str] = ()) -> str:
    """A sentence with the names of settings that a wrong name could mean."""
    names = sorted(known or KNOWN_SETTINGS)
    return offer(name, names, most=len(names))


def load_settings(workspace: Path, **options: Any) -> Settings:
    """The settings of a workspace. `options` precede all other sources; an option that is None is ignored.

    Raises `SettingsError` with a line for each invalid setting, which names its source.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in KNOWN_SETTINGS:
            raise SettingsError(f"There is no setting {name!r}. {offer_settings(name)}")
    settings = _read(Settings, given | {"workspace": workspace})
    _warn_of_misspelt(settings.workspace, Settings.model_fields)
    return settings


def _warn_of_misspelt(workspace: Path, names: Iterable[str], known: Iterable[str] = ()) -> None:
    """Warn of variables that look like misspelt settings, or tables. Names in tables are checked elsewhere."""
    meant, known = {each.upper() for each in names}, {each.upper() for each in known}
    for name in sorted(each for each in {*os.environ, *dotenv_values(workspace / ENV_FILE)} if each.startswith(PREFIX)):
        # The prefix, which all names have, would make any two of them similar.
        head, delimiter, rest = name.removeprefix(PREFIX).partition(WITHIN)
        if head not in meant | known and (near := nearest(head, meant, likeness=_NEARLY)):
            probable = did_you_mean([f"{PREFIX}{near[0]}{delimiter}{rest}"])
            _log.warning("The environment variable %s is not a setting. %s", name, probable)


@dataclass(frozen=True)
class DeclaredSettings:
    """The settings that classes of a workspace declare, by the names of their tables."""

    tables: Mapping[str, BaseModel] = field(default_factory=dict[str, BaseModel])
    failed: Mapping[type[BaseModel], str] = field(default_factory=dict[type[BaseModel], str])
    """The classes that could not be filled, and why."""
    problems: tuple[str, ...] = ()
    """A sentence for each invalid value, and for each table in the files that nothing declares."""


def read_declared(
    settings: Settings, declared: Mapping[str, type[BaseModel]], *, complete: bool = True
) -> DeclaredSettings:
    """Fill the classes that modules declare from the same sources as `settings`.

    `complete`: all modules could be loaded. If not, a missing module may declare an unknown table, so that the table
    is reported only if its name is similar to a setting of goalport.
    """
    where = {"workspace": settings.workspace, "profile": settings.profile}
    tables, failed, problems = dict[str, BaseModel](), dict[type[BaseModel], str](), list[str]()
    for name, kind in declared.items():
        try:
            tables[name] = getattr(_read(_reader(name, kind), where), name)
        except SettingsError as error:
            failed[kind], problems = str(error), [*problems, *str(error).splitlines()]
    known = (*declared, *KNOWN_SETTINGS)
    _warn_of_misspelt(settings.workspace, declared, Settings.model_fields)
    for file in settings_files(settings.workspace, settings.profile):
        for name in read_settings_file(file):
            if name not in known and (complete or nearest(name, KNOWN_SETTINGS, likeness=_NEARLY)):
                problems.append(f"{place_in(file, (name,))}: nothing declares the table {name!r}. {offer(name, known)}")
    return DeclaredSettings(tables, failed, tuple(problems))


def _reader(name: str, kind: type[BaseModel]) -> type[Sources]:
    """A class of settings that reads one declared table. A name in the table that the class lacks is an error."""
    strictly = WrapValidator(lambda value, _: kind.model_validate(value, extra="forbid", by_name=True))
    field_of_table: Any = (Annotated[kind, strictly], {})
    return create_model(kind.__name__, __base__=Sources, **{name: field_of_table})


K = TypeVar("K", bound=Sources)


def _read(kind: type[K], options: Mapping[str, Any]) -> K:
    try:
        return kind(**options)
    except ValidationError as error:
        raise SettingsError(_problems(error, kind, options)) from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{options['workspace'] / ENV_FILE}: should be text in UTF-8 ({error.reason}).") from None


def _problems(error: ValidationError, kind: type[Sources], options: Mapping[str, Any]) -> str:
    """One line per invalid setting. The value is shown, unless it is or may contain a secret."""
    lines, sources = list[str](), _sources(kind, options)
    for each in error.errors(include_url=False, include_context=False):
        path, value = tuple(map(str, each["loc"])), each["input"]
        if not any(_tables_in(_fields_of(kind).get(path[0]))):
            path = path[:1]  # what follows is an index, or a member of a union
        table, hint = kind, None
        for name in path:  # keys and indexes of items in the path are skipped
            if (found := _fields_of(table).get(name)) is not None:
                table, hint = next(_tables_in(found), table), found
        # A text or a number is shown, if its name and its type say that it is no secret.
        is_plain = isinstance(value, str | int | float) and not any(_tables_in(hint))
        secret = not is_plain or "Secret" in str(hint) or not _SECRET.isdisjoint(path)
        problem = f"{'.'.join(path)} {validation_reason(each['msg'])}{'' if secret else hide(f'; came {value!r}')}"
        if each["type"] == "missing":
            problem = f"{'.'.join(path)} should be set"
        elif each["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
            offered = offer_settings(path[-1], tuple(_fields_of(table)))
            problem = f"there is no setting {path[-1]!r} in [{'.'.join(path[:-1])}]. {offered}"
        origin = "option" if path[0] in options else _source(path, sources) or place_in(sources[-1][0], path)
        lines.append(f"{origin}: {problem}")
    return "\n".join(dict.fromkeys(lines))


def _fields_of(kind: type) -> Mapping[str, object]:
    """The fields of a pydantic model or a dataclass, with their types."""
    if issubclass(kind, BaseModel):
        return {name: each.annotation for name, each in kind.model_fields.items()}
    return get_type_hints(cast("Any", kind))


def _tables_in(hint: object) -> Iterator[type]:
    """The pydantic models and dataclasses in a type."""
    if isinstance(hint, type) and (issubclass(hint, BaseModel) or is_dataclass(cast("type[Any]", hint))):
        yield hint
    for each in get_args(hint):
        yield from _tables_in(each)


def _sources(kind: type[Sources], options: Mapping[str, Any]) -> Sequence[tuple[Path, Mapping[str, object]]]:
    """The environment (an empty path), `.env` and the files, each with its values."""
    workspace: Path = options["workspace"]
    where = {name: options[name] for name in ("workspace", "profile") if name in options}
    files = settings_files(workspace, Sources(**where).profile)
    environment, dotenv = (each() for each in _variables(kind, workspace))
    found = ((each, read_settings_file(each)) for each in files)
    return (Path(), environment), (workspace / ENV_FILE, dotenv), *found


def _source(path: tuple[str, ...], sources: Sequence[tuple[Path, Mapping[str, object]]]) -> str:
    """The first source with a value for a setting, or for a table that contains it; empty: there is none."""
    variable = f"{PREFIX}{WITHIN.join(path).upper()}"
    for file, said in sources:
        values, names = cast("object", said), iter(path)
        while isinstance(values, Mapping) and (name := next(names, None)) is not None:
            values = cast("Mapping[str, object]", values).get(name, _ABSENT)
        if values is _ABSENT:
            continue
        if file.suffix == ".toml":
            return place_in(file, path)
        return f"{file}, {variable}" if file.name else f"environment variable {variable}"
    return ""


def listed_settings(settings: Settings, declared: DeclaredSettings) -> Iterator[tuple[str, object, str]]:
    """Each setting by its full name, its value without secrets, and where it is from; empty: it is the default."""
    where = {"workspace": settings.workspace, "profile": settings.profile}
    of_goalport = {each: getattr(settings, each) for each in KNOWN_SETTINGS}
    own = [(_reader(each, type(table)), {each: table}) for each, table in declared.tables.items()]
    for kind, values in ((Settings, of_goalport), *own):
        sources = _sources(kind, where)
        for name, value in values.items():
            for path, each in _leaves((name,), value):
                yield ".".join(path), each, _source(path, sources)


def _leaves(path: tuple[str, ...], value: object) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _leaves((*path, name), getattr(value, name))
    elif isinstance(value, Mapping) and value:
        for name, each in cast("Mapping[str, object]", value).items():
            yield from _leaves((*path, str(name)), each)
    else:
        yield path, value


def writes_audit(settings: Settings) -> bool:
    """Whether the audit log is written: as `audit.enabled` says, else where callers are authenticated."""
    return settings.authenticates if settings.audit.enabled is None else settings.audit.enabled


def audit_file_of(settings: Settings) -> Path:
    """The path of the audit log, whether the file exists or not."""
    return settings.data_dir / settings.audit.file.expanduser()


def audit_of(settings: Settings) -> Audit | None:
    """The audit log; None: the settings ask for none. Its file is not opened before something is written."""
    if not writes_audit(settings):
        return None
    return Audit(audit_file_of(settings), max_bytes=settings.audit.max_bytes, keep=settings.audit.keep)


def share_environment(workspace: Path) -> None:
    """Put the workspace's `.env` into the environment of this process, for the modules that are about to be loaded.

    Variables that are already set stay. Variables of goalport and the keys of model providers are left out: goalport
    reads these from the file, so that no program that it starts inherits them.
    """
    keys = {each.key for each in PROVIDERS.values()}
    with suppress(UnicodeDecodeError):  # which is reported when the settings are read
        for name, value in dotenv_values(workspace / ENV_FILE, encoding="utf-8").items():
            if value and not name.startswith(PREFIX) and name not in keys:
                os.environ.setdefault(name, value)


def environment_of(workspace: Path) -> Mapping[str, str]:
    """The environment variables, and those of the workspace's `.env` that are not set in the environment.

    The keys of model providers are read from here.
    """
    found = dotenv_values(workspace / ENV_FILE, encoding="utf-8") | os.environ
    return {name: value for name, value in found.items() if value}


def secrets_of(settings: Settings) -> Iterator[str]:
    """Every key and token in a server's settings, its environment and its `.env`."""
    yield from secrets_in(settings)
    yield from secrets_in_environment(environment_of(settings.workspace))


def secrets_in(value: object) -> Iterator[str]:
    """Every key and token in a setting, or in several."""
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case str():
            yield from passwords_in(value)
        case BaseModel():
            yield from secrets_in(vars(value))
        case Mapping():
            for each in cast("Mapping[object, object]", value).values():
                yield from secrets_in(each)
        case tuple() | list():
            for each in cast("Sequence[object]", value):
                yield from secrets_in(each)
        case _:
            pass
