"""Reads a file of JSON with comments into records, and notes mistakes with line and column.

Comments and trailing commas are replaced by spaces, then the standard library parses the file; a tokenizer finds the
positions. A record is a dataclass derived from `Entry`: the types of its fields say how to read a value, and `named`
gives the keys in the file. Pydantic validates; values are not shown in messages, since they may be secret. Variables
(`${VAR}`, `${VAR:-default}`, `${env:VAR}`, and the folders of editors, such as `${workspaceFolder}`) are replaced here.
Above: `config`.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar, cast

from pydantic import (
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from goalport.base.caller import require_scopes
from goalport.base.words import offer, validation_reason

PathStep = str | int
"""A key of an object or an index of a list."""
JsonPath = tuple[PathStep, ...]
"""The steps that lead from the root to a value."""

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True)
class ConfigProblem:
    """One mistake in a file, in one line. Line and column count from 1."""

    message: str
    path: Path | None = None
    line: int | None = None
    column: int | None = None
    server: str = ""
    """The name of the server that cannot be used because of it; empty: no server, or several."""
    is_fatal: bool = False
    """Whether that server is required, so that this program must not serve without it."""

    def __str__(self) -> str:
        place = ":".join(str(each) for each in (self.path, self.line, self.column) if each is not None)
        return f"{place}: {self.message}" if place else self.message


@dataclass
class WrittenJson:
    """The data of a file, and the problems in it; `data` is None if it cannot be read."""

    path: Path
    text: str = ""
    data: dict[str, Any] | None = None
    offsets: dict[JsonPath, int] = field(default_factory=dict[JsonPath, int])
    """The offset in `text` at which each key and each item of a list begins."""
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])

    def note(self, message: str, at: JsonPath = (), *, server: str = "", is_fatal: bool = False) -> None:
        """Add a problem at the position of a path, or of its nearest parent with a known position."""
        offset = next((self.offsets[at[:end]] for end in range(len(at), 0, -1) if at[:end] in self.offsets), None)
        line = column = None
        if offset is not None:
            line, column = self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        message = " ".join(message.split())
        self.problems.append(ConfigProblem(message, self.path, line, column, server=server, is_fatal=is_fatal))


def read_json(path: Path) -> WrittenJson:
    """Read a file. Mistakes are in `problems`, with line and column. A missing or empty file is no mistake."""
    written = WrittenJson(path)
    try:
        text = path.read_text("utf-8-sig") if path.exists() else ""
        written.text = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text)) if text.strip() else "{}"
        found: object = json.loads(written.text)
        _locate(written)
        if isinstance(found, dict):
            written.data = cast("dict[str, Any]", found)
        else:
            written.note("it should be an object.")
    except OSError as error:
        written.note(f"it cannot be read ({error.strerror or type(error).__name__}).")
    except UnicodeDecodeError:
        written.note("it is no text in UTF-8. Save it in that encoding.")
    except json.JSONDecodeError as error:
        message = f"this is no JSON: {error.msg[:1].lower()}{error.msg[1:]}."
        written.problems.append(ConfigProblem(message, path, error.lineno, error.colno))
    except (RecursionError, ValueError):
        written.note("it nests too deeply, or has a number with too many digits.")
    return written


def _blank(found: re.Match[str]) -> str:
    """Spaces and line ends in place of a comment or comma, so that positions stay the same; a string as it is."""
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


def _locate(written: WrittenJson) -> None:
    """Find the offset of each key and each item of a list in valid JSON; note duplicate keys."""
    inside: list[PathStep | None] = []
    expects_key = False
    for token in _TOKEN.finditer(written.text):
        word = token[0]
        if word == ",":
            expects_key = not isinstance(inside[-1], int)
            inside[-1] = None if expects_key else cast("int", inside[-1]) + 1
        elif word in ":}]":
            expects_key = False
            if word != ":":
                inside.pop()
        elif expects_key:
            inside[-1] = json.loads(word)
            steps = cast("JsonPath", tuple(inside))
            if steps in written.offsets:
                # Forget what is inside of the first value, which is not used.
                written.offsets = {at: each for at, each in written.offsets.items() if at[: len(steps)] != steps}
                written.offsets[steps] = token.start()
                written.note(f"{inside[-1]!r} is there twice; the last one counts.", steps)
            written.offsets[steps] = token.start()
        else:
            if inside and isinstance(inside[-1], int):
                written.offsets[cast("JsonPath", tuple(inside))] = token.start()
            if word in "{[":
                inside.append(None if word == "{" else 0)
                expects_key = word == "{"


T = TypeVar("T", bound="Entry")
Info = ValidationInfo[Any]
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MILLISECONDS_FROM: Final = 1_000
"""Numbers from here on are milliseconds, as in files of other hosts: so many seconds are implausible."""
_VARIABLE = re.compile(r"\$\{(?P<inside>[^{}]*)\}|\{env:(?P<named>[A-Za-z_]\w*)\}")
_BARE = re.compile(r"(?:\S+ )?\$[A-Z_][A-Z0-9_]*")
"""Matches `$NAME`, alone or as a second word, which is a variable in other hosts, but may be a password."""
_NAMED = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?::-(?P<default>.*))?", re.DOTALL)
_SHORTEST_SECRET: Final = 4
"""The fewest characters of a value that is hidden, so that messages stay readable."""
OF_CALLER: Final = ("caller.token", "caller.id")
"""Variables that are replaced for each caller, and allowed only in headers."""
OF_CALLER_ALONE: Final = (
    "${caller.token} and ${caller.id} are known for each call alone: they can stand in `headers` of a server over HTTP "
    'that says "forward_auth": true, and nowhere else.'
)
_PUBLIC: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TEMP", "TMP", "TMPDIR", "USER"})


class Verbatim(str):
    """A text in which no variables are replaced."""

    __slots__ = ()


def note(reason: str, fallback: object = None) -> PydanticCustomError:
    """An error for a value that is ignored, or replaced by `fallback`: the record can be used.

    Raise `ValueError` instead if the record cannot be used.
    """
    return PydanticCustomError("note", "{reason}", {"reason": reason, "fallback": fallback})


@dataclass
class Variables:
    """The values of variables, and what was recorded while an object of the file was read."""

    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    """The value of `${workspaceFolder}`: the folder of the file."""
    secrets: list[str] = field(default_factory=list[str], repr=False)
    """Values that were inserted for variables, and may be secret."""
    keys: dict[int, Mapping[str, str]] = field(default_factory=dict[int, Mapping[str, str]], repr=False)
    """The key in the file of each field, by the `id` of an object of the file."""

    def fill(self, text: str, *, keeps_caller: bool = False) -> str:
        """Replace the variables in a text; with `keeps_caller`, those in `OF_CALLER` stay in it.

        `${VAR:-default}` uses the default if the variable is unset or empty, as in shells. Variables inside of values
        are not replaced. Raises `ValueError`, which names the variable and shows no value.
        """
        folders = {
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }

        def value(found: re.Match[str]) -> str:
            inside = found["inside"] if found["named"] is None else found["named"]
            if inside in folders:
                return folders[inside]
            if inside.startswith("input:"):
                name = re.sub(r"[^A-Za-z0-9]+", "_", inside.removeprefix("input:")).upper()
                raise ValueError(
                    f"${{{inside}}} is asked for by an editor; a server has nobody to ask. Put the value into an "
                    f"environment variable and write ${{{name}}}."
                )
            if inside in OF_CALLER:
                if keeps_caller:
                    return found[0]
                raise ValueError(OF_CALLER_ALONE)
            if (named := _NAMED.fullmatch(inside)) is None:
                raise ValueError(
                    f"${{{inside}}} is no variable that can be filled. Write ${{NAME}} or ${{NAME:-default}}."
                )
            name, default = named["name"], named["default"]
            if default is not None and not self.environment.get(name):
                return default
            if name not in self.environment:
                raise ValueError(f"the variable {name} is not set. Set it, or write ${{{name}:-default}}.")
            filled = self.environment[name]
            if name not in _PUBLIC and len(filled) >= _SHORTEST_SECRET:
                self.secrets.append(filled)
            return filled

        filled = _VARIABLE.sub(value, text)
        if "${" in _VARIABLE.sub("", text):
            raise ValueError("a `${` is never closed, or stands inside of another. Write one variable after the other.")
        return filled


def text(value: object, info: Info, *, keeps_caller: bool = False) -> str:
    match value:
        case Verbatim():
            return str(value)
        case str():
            filled = info.context.fill(value, keeps_caller=keeps_caller)
            if _BARE.fullmatch(value):
                reason = "has a text with `$NAME`, which stays as it is. A variable is `${NAME}`."
                raise note(reason, Verbatim(filled))
            return filled
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            raise ValueError("should hold texts.")


def _secret(value: object, *, is_mistake: bool) -> object:
    if isinstance(value, str) and not isinstance(value, Verbatim) and value and not _VARIABLE.search(value):
        reason = "is written out. Put it into an environment variable, and write ${NAME} here."
        raise ValueError(reason) if is_mistake else note(reason, Verbatim(value))
    return value


def _object(value: object, *, is_mistake: bool) -> object:
    if not isinstance(value, dict):
        raise ValueError("should be an object.") if is_mistake else note("should be an object.")
    return {key: each for key, each in cast("dict[object, object]", value).items() if each is not None}


def flag(*, fallback: bool) -> BeforeValidator:
    """Reads a boolean; anything else is noted, and replaced by `fallback`."""

    def read(value: object) -> object:
        if not isinstance(value, bool):
            raise note(f"should be true or false. It counts as {str(fallback).lower()}.", fallback)
        return value

    return BeforeValidator(read)


def one_of(words: Iterable[str], fallback: str | None = None) -> BeforeValidator:
    """Reads one of these words, in any case; anything else is noted, and replaced by `fallback`, or ignored if None."""

    def read(value: object) -> object:
        known = tuple(words)
        if isinstance(value, str) and value.lower() in known:
            return value.lower()
        came = f", but is {value!r}" if isinstance(value, str) else ""
        told = f" It counts as {fallback}." if fallback else ""
        raise note(f"should be one of {', '.join(known)}{came}.{told}", fallback)

    return BeforeValidator(read)


def _seconds(value: object) -> float:
    written = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    number = float(written["number"]) if written else value
    if isinstance(number, int | float) and not isinstance(number, bool) and isfinite(number) and number > 0:
        if written and written["unit"]:
            return number * _SECONDS[written["unit"]]
        return number / 1000 if number >= _MILLISECONDS_FROM else float(number)
    raise note("should be a number of seconds above 0, or a text such as '30s' or '500ms'.")


def _place(value: object, info: Info) -> Path:
    # Relative paths are relative to the folder of the file.
    return info.context.folder / os.path.expanduser(text(value, info))  # noqa: PTH111 - `Path.expanduser` raises


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _scopes(value: object) -> object:
    try:
        require_scopes("scopes", value)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return value


def _contents(value: object, info: Info) -> Verbatim:
    """The content of the file at a path."""
    try:
        found = Verbatim(_place(value, info).read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError):
        raise ValueError("cannot be read.") from None
    info.context.secrets.append(found)
    return found


_IS_TABLE: Final = BeforeValidator(partial(_object, is_mistake=True))
_IS_OBJECT: Final = BeforeValidator(partial(_object, is_mistake=False))
Text = Annotated[str, BeforeValidator(text)]
"""A text with variables replaced; numbers and booleans become texts. Anything else is a mistake."""
Listed = BeforeValidator(_listed)
"""Turns a value that is no list into a list of one."""
Texts = Annotated[tuple[Text, ...], Listed]
Words = Annotated[str, BeforeValidator(lambda value, info: " ".join(text(each, info) for each in _listed(value)))]
"""A list of texts, or one text, joined by spaces."""
Scopes = Annotated[tuple[Text, ...], BeforeValidator(_scopes), Listed]
Table = Annotated[Mapping[str, Text], _IS_TABLE]
_OF_HEADER: Final = BeforeValidator(lambda value, info: text(value, info, keeps_caller=True).strip())
Headers = Annotated[
    Mapping[str, Annotated[str, _OF_HEADER]],
    _IS_TABLE,
]
"""A table in which the variables in `OF_CALLER` are not replaced."""
Secret = Annotated[Text, BeforeValidator(partial(_secret, is_mistake=True))]
"""A secret text. One without a variable is a mistake: secrets do not belong in the file."""
NamedSecret = Annotated[Text, BeforeValidator(partial(_secret, is_mistake=False))]
"""A secret text. One without a variable is noted, and used."""
SecretFile = Annotated[str, BeforeValidator(_contents)]
"""The secret content of a file, whose path is in the configuration."""
Place = Annotated[Path, BeforeValidator(_place)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A duration, written as `30` (seconds), `30000` (milliseconds), `"30s"` or `"2m"`."""
Count = Annotated[int, Field(strict=True, ge=1, le=10_000)]
Objects = Annotated[Mapping[str, Annotated[dict[str, Any], _IS_OBJECT]], _IS_OBJECT]
"""Objects by key, each of which is read later."""
Flag = Annotated[bool, flag(fallback=False)]
CarefulFlag = Annotated[bool, flag(fallback=True)]


def named(default: Any, *names: str, hidden: bool = False) -> Any:
    """A field with these keys in the file; without names, the file cannot set it. `hidden`: it is not in the `repr`.

    A callable default is the default factory.
    """
    given: dict[str, Any] = {"default_factory" if callable(default) else "default": default}
    return field(**given, repr=not hidden, metadata={"names": names})


class Entry:
    """A record that an object of the file is read into. `connectTimeout` and `connect-timeout` are the same key."""

    ignored: ClassVar[str] = ""
    """Keys of other hosts, separated by spaces, which are ignored without a note."""

    def __init_subclass__(cls) -> None:
        # Pydantic finds validators only in the dataclass itself, and this class is none.
        validator: Any = classmethod(_by_field)
        setattr(cls, "_by_field", model_validator(mode="before")(validator))  # noqa: B010


def _by_field(cls: type[Entry], value: object, info: Info) -> object:
    """The values of an object of the file, by name of the field. Raises notes for unknown keys."""
    if not isinstance(value, dict):
        raise note("should be an object.")
    data = cast("dict[str, object]", value)
    known, written = names_of(cls), {canonical(key): key for key, each in data.items() if each is not None}
    ignored = {canonical(each) for each in cls.ignored.split()}
    keys: dict[str, str] = {}
    for name, (field_, _) in known.items():
        if name in written:
            keys.setdefault(field_, written[name])
    offered = [each for _, each in known.values()]
    unknown = {
        key: f"unknown key {key!r} is ignored. {offer(key, offered)}"
        for key in data
        if canonical(key) not in ignored | known.keys() and not key.startswith(("$", "_", "//", "x-"))
    }
    if unknown:
        raise PydanticCustomError("unknown", "{unknown}", {"unknown": unknown})
    info.context.keys[id(data)] = keys
    return {name: data[key] for name, key in keys.items()}


def canonical(key: str) -> str:
    return re.sub(r"[-_]", "", key).lower()


@lru_cache
def names_of(cls: type[Any]) -> Mapping[str, tuple[str, str]]:
    """The field, and the key to suggest, by canonical form of each key of a record."""
    # Fields of the class itself precede inherited ones with the same key.
    own = sorted(fields(cls), key=lambda each: each.name not in cls.__annotations__)
    written = ((each.name, each.metadata.get("names", (to_camel(each.name),))) for each in own)
    return {canonical(name): (field_, name) for field_, names in written for name in names if name}


_ADAPTERS: Final[Callable[[type[Any]], TypeAdapter[Any]]] = lru_cache(TypeAdapter)


Mistake = tuple[str, JsonPath, str]
"""Why a record cannot be used, the path of the mistake, and its field."""


def read(
    cls: type[T], data: dict[str, Any], at: JsonPath, written: WrittenJson, variables: Variables
) -> tuple[T, list[Mistake]]:
    """Read the object at a path of the file into a record; return it and the mistakes, with which it cannot be used.

    Invalid values are removed from the data, or replaced by their `fallback`. Other problems are noted in `written`.
    """
    mistakes: list[Mistake] = []
    adapter: TypeAdapter[T] = _ADAPTERS(cls)
    while True:
        variables.secrets.clear()
        try:
            return adapter.validate_python(data, context=variables), mistakes
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
        # From the end, since removing an item of a list shifts the items after it.
        for each in reversed(found):
            # The values on the path to an error, and their keys, up to the last one that is in the file.
            values: list[Any] = [data]
            steps: list[PathStep] = []
            for step in each["loc"]:
                here = values[-1]
                key = variables.keys.get(id(here), {}).get(str(step), step)
                is_item = isinstance(here, list) and isinstance(key, int)
                if not is_item and not (isinstance(here, dict) and key in here):
                    break
                values.append(cast("Any", here)[key])
                steps.append(key)
            place, context, reason = (*at, *steps), each.get("ctx", {}), validation_reason(each["msg"])
            for key, message in context.get("unknown", {}).items():
                written.note(message, (*place, key))
                del values[-1][key]
            if "unknown" in context:
                continue
            if reason.startswith(("should ", "is ", "has ", "cannot ")):
                reason = f"{next(step for step in reversed(place) if isinstance(step, str))} {reason}"
            if each["type"] == "value_error":
                mistakes.append((reason, place, str(each["loc"][0])))
            else:
                written.note(reason, place)
            if (fallback := context.get("fallback")) is None:
                del values[-2][steps[-1]]
            else:
                values[-2][steps[-1]] = fallback
