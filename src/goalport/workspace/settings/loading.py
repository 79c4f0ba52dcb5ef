"""Reading settings, and saying in a line for each what cannot be used and where it came from.

Below: `settings`, whose sources are read. Above: everything that starts a server or a command.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

from dotenv import dotenv_values
from pydantic import BaseModel, SecretStr, ValidationError, WrapValidator, create_model

from goalport.base.errors import SettingsError
from goalport.base.observe.audit import Audit
from goalport.base.secrecy import hide, passwords_in, secrets_in_environment
from goalport.base.words import did_you_mean, nearest, offer, validation_reason
from goalport.models.llm.providers import PROVIDERS
from goalport.workspace.settings.settings import (
    ENV_FILE,
    PREFIX,
    WITHIN,
    Settings,
    Sources,
    dotenv_source,
    environment_source,
    known_settings,
    offer_settings,
    place_in,
    read_settings_file,
    settings_files,
)

K = TypeVar("K", bound=Sources)
_NEARLY = 0.75
_WITH_PASSWORDS = frozenset({"store", "base_url"})
"""The names of settings that are texts and may contain a password."""
_ABSENT = object()
_log = logging.getLogger(__name__)


def load_settings(workspace: Path, **options: Any) -> Settings:
    """The settings of a workspace. `options` precede all other sources; one that is None counts as not given.

    Raises `SettingsError`, with a line for each setting that is invalid and the source that it came from.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known_settings():
            raise SettingsError(f"There is no setting {name!r}. {offer_settings(name)}")
    settings = _read(Settings, given | {"workspace": workspace})
    _warn_of_misspelt(settings.workspace, Settings.model_fields)
    return settings


def _warn_of_misspelt(workspace: Path, names: Iterable[str], known: Iterable[str] = ()) -> None:
    """Warn of variables that look like misspelt settings, or tables. Names in tables are checked elsewhere."""
    meant, known = {each.upper() for each in names}, {each.upper() for each in known}
    for name in sorted(each for each in {*os.environ, *dotenv_values(workspace / ENV_FILE)} if each.startswith(PREFIX)):
        # Without the prefix, which all have: it would make any two names alike.
        head, delimiter, rest = name.removeprefix(PREFIX).partition(WITHIN)
        if head not in meant | known and (near := nearest(head, meant, likeness=_NEARLY)):
            probable = did_you_mean([f"{PREFIX}{near[0]}{delimiter}{rest}"])
            _log.warning("The environment variable %s is not a setting. %s", name, probable)


@dataclass(frozen=True)
class DeclaredSettings:
    """The settings that classes of a workspace declare, by the names of their tables."""

    tables: Mapping[str, BaseModel] = field(default_factory=dict[str, BaseModel])
    failed: Mapping[type[BaseModel], str] = field(default_factory=dict[type[BaseModel], str])
    """Why those that cannot be filled are not."""
    problems: tuple[str, ...] = ()
    """A sentence for each value that cannot be used, and for each table of the files that nothing declares."""


def read_declared(
    settings: Settings, declared: Mapping[str, type[BaseModel]], *, complete: bool = True
) -> DeclaredSettings:
    """Fill the classes that modules declare from the same sources as `settings`.

    `complete`: all modules could be loaded; else a table may be declared by another, unless its name is nearly that of
    a setting of goalport.
    """
    where = {"workspace": settings.workspace, "profile": settings.profile}
    tables, failed, problems = dict[str, BaseModel](), dict[type[BaseModel], str](), list[str]()
    for name, kind in declared.items():
        try:
            tables[name] = getattr(_read(_reader(name, kind), where), name)
        except SettingsError as error:
            failed[kind], problems = str(error), [*problems, *str(error).splitlines()]
    known = (*declared, *known_settings())
    _warn_of_misspelt(settings.workspace, declared, Settings.model_fields)
    for file in settings_files(settings.workspace, settings.profile):
        for name in read_settings_file(file):
            if name not in known and (complete or nearest(name, known_settings(), likeness=_NEARLY)):
                problems.append(f"{place_in(file, (name,))}: nothing declares the table {name!r}. {offer(name, known)}")
    return DeclaredSettings(tables, failed, tuple(problems))


def _reader(name: str, kind: type[BaseModel]) -> type[Sources]:
    """What reads one declared table. A name in it that the class does not have is a mistake."""
    strictly = WrapValidator(lambda value, _: kind.model_validate(value, extra="forbid", by_name=True))
    field_of_table: Any = (Annotated[kind, strictly], {})
    return create_model(kind.__name__, __base__=Sources, **{name: field_of_table})


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
        secret = not is_plain or "Secret" in str(hint) or path[-1] in _WITH_PASSWORDS
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
    """The environment, `.env` and the files, and what each says."""
    workspace: Path = options["workspace"]
    where = {name: options[name] for name in ("workspace", "profile") if name in options}
    files = settings_files(workspace, Sources(**where).profile)
    variables = ((Path(), environment_source(kind)()), (workspace / ENV_FILE, dotenv_source(kind, workspace)()))
    return (*variables, *((each, read_settings_file(each)) for each in files))


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
    of_goalport = {each: getattr(settings, each) for each in known_settings()}
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


def keeps_audit(settings: Settings) -> bool:
    """Whether the audit log is written: as `audit.enabled` says, else where callers are authenticated."""
    return settings.authenticates if settings.audit.enabled is None else settings.audit.enabled


def audit_file_of(settings: Settings) -> Path:
    """The file of the audit log, whether it is there or not."""
    return settings.data_dir / settings.audit.file.expanduser()


def audit_of(settings: Settings) -> Audit | None:
    """The audit log that settings ask for; None if they ask for none. Nothing is opened before it is written to."""
    if not keeps_audit(settings):
        return None
    return Audit(audit_file_of(settings), max_bytes=settings.audit.max_bytes, keep=settings.audit.keep)


def share_environment(workspace: Path) -> None:
    """Put the workspace's `.env` into the environment of this process, for the modules that are about to be loaded.

    What is set there stays, and goalport's own variables and the keys of models' providers are left out: goalport reads
    these from the file, and no program that it starts inherits them.
    """
    keys = {each.key for each in PROVIDERS.values()}
    with suppress(UnicodeDecodeError):  # which is said when the settings are read
        for name, value in dotenv_values(workspace / ENV_FILE, encoding="utf-8").items():
            if value and not name.startswith(PREFIX) and name not in keys:
                os.environ.setdefault(name, value)


def environment_of(workspace: Path) -> Mapping[str, str]:
    """The variables of the environment, completed by the workspace's `.env` for those that are not set.

    Providers' keys are read from here.
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
