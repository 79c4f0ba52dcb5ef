"""A file of JSON with comments, whose objects are read into records; what is wrong is noted with line and column.

The standard library parses the file once comments and trailing commas are blanked; positions come from a look at the
tokens. A record is a dataclass below `Entry`, whose fields say by their types how they are read and by `named` how they
are called in the file. Pydantic checks the values, and none is shown, as it may be secret. Variables (`${VAR}`,
`${VAR:-default}`, `${env:VAR}`, and the folders that editors know, such as `${workspaceFolder}`) are filled
here. Above: `config`.
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
    """The server that cannot be used because of it; empty: none, or several."""
    is_fatal: bool = False
    """Whether that server is required, so that nothing may be served without it."""

    def __str__(self) -> str:
        place = ":".join(str(each) for each in (self.path, self.line, self.column) if each is not None)
        return f"{place}: {self.message}" if place else self.message


@dataclass
class WrittenJson:
    """The data of a file, and what is wrong with it; `data` is None when it cannot be read."""

    path: Path
    text: str = ""
    data: dict[str, Any] | None = None
    offsets: dict[JsonPath, int] = field(default_factory=dict[JsonPath, int])
    """Where each key and each item of a list begins."""
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])

    def note(self, message: str, at: JsonPath = (), *, server: str = "", is_fatal: bool = False) -> None:
        """Add a problem at the position of a path, or of the nearest one above it that is known."""
        offset = next((self.offsets[at[:end]] for end in range(len(at), 0, -1) if at[:end] in self.offsets), None)
        line = column = None
        if offset is not None:
            line, column = self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        message = " ".join(message.split())
        self.problems.append(ConfigProblem(message, self.path, line, column, server=server, is_fatal=is_fatal))


def read_json(path: Path) -> WrittenJson:
    """Read a file. Mistakes are in `problems`, with line and column. A file that is missing or empty is no mistake."""
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
    """Find where each key and each item of a list begins, in JSON that is known to be valid; note keys that repeat."""
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
                # What is inside of the first one is not there twice.
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
"""A bare number from here on counts milliseconds, as in the files of other hosts: nobody waits so many seconds."""
_VARIABLE = re.compile(r"\$\{(?P<inside>[^{}]*)\}|\{env:(?P<named>[A-Za-z_]\w*)\}")
_BARE = re.compile(r"(?:\S+ )?\$[A-Z_][A-Z0-9_]*")
"""A text, or the second word of one, that other hosts take for a variable. It may also be a password."""
_NAMED = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?::-(?P<default>.*))?", re.DOTALL)
_SHORTEST_SECRET: Final = 4
"""Characters. Hiding shorter values would make messages unreadable."""
OF_CALLER: Final = ("caller.token", "caller.id")
"""Variables that are filled for each caller, and nowhere but in headers."""
OF_CALLER_ALONE: Final = (
    "${caller.token} and ${caller.id} are known for each call alone: they can stand in `headers` of a server over HTTP "
    'that says "forward_auth": true, and nowhere else.'
)
_PUBLIC: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TEMP", "TMP", "TMPDIR", "USER"})


class Verbatim(str):
    """A text that is taken as it is."""

    __slots__ = ()


def note(reason: str, counts: object = None) -> PydanticCustomError:
    """A problem with which a record can be used: without the value, or with another one that `counts`.

    A `ValueError` is a mistake, with which it cannot be used.
    """
    return PydanticCustomError("note", "{reason}", {"reason": reason, "counts": counts})


@dataclass
class Variables:
    """The values of variables, and what was seen of an object of the file while it was read."""

    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    """What editors call the workspace folder."""
    secrets: list[str] = field(default_factory=list[str], repr=False)
    """The values of variables that were filled, and may be secret."""
    keys: dict[int, Mapping[str, str]] = field(default_factory=dict[int, Mapping[str, str]], repr=False)
    """By the identity of an object: how each field is spelled in it."""

    def fill(self, text: str, *, keeps_caller: bool = False) -> str:
        """A text with its variables filled; those of the caller stay as they are written, if it `keeps_caller`.

        `${VAR:-default}` takes the default when the variable is unset or empty, as shells do. A value is not searched
        for variables again. Raises `ValueError`, which names the variable and shows no value.
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


def flag(*, counts: bool) -> BeforeValidator:
    """Reads a boolean; anything else is noted, and counts as this one."""

    def read(value: object) -> object:
        if not isinstance(value, bool):
            raise note(f"should be true or false. It counts as {str(counts).lower()}.", counts)
        return value

    return BeforeValidator(read)


def one_of(words: Iterable[str], counts: str | None = None) -> BeforeValidator:
    """Reads one of these words, in upper or lower case; anything else is noted, and counts as this one, if any."""

    def read(value: object) -> object:
        known = tuple(words)
        if isinstance(value, str) and value.lower() in known:
            return value.lower()
        came = f", but is {value!r}" if isinstance(value, str) else ""
        told = f" It counts as {counts}." if counts else ""
        raise note(f"should be one of {', '.join(known)}{came}.{told}", counts)

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
    # What is relative, is relative to the folder of the file.
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
    """What is in a file."""
    try:
        found = Verbatim(_place(value, info).read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError):
        raise ValueError("cannot be read.") from None
    info.context.secrets.append(found)
    return found


_IS_TABLE: Final = BeforeValidator(partial(_object, is_mistake=True))
_IS_OBJECT: Final = BeforeValidator(partial(_object, is_mistake=False))
Text = Annotated[str, BeforeValidator(text)]
"""A text with its variables filled; numbers and booleans are texts too. Anything else is a mistake."""
Listed = BeforeValidator(_listed)
"""Makes a list of one of what is no list."""
Texts = Annotated[tuple[Text, ...], Listed]
Words = Annotated[str, BeforeValidator(lambda value, info: " ".join(text(each, info) for each in _listed(value)))]
"""A list of texts, with spaces between."""
Scopes = Annotated[tuple[Text, ...], BeforeValidator(_scopes), Listed]
Table = Annotated[Mapping[str, Text], _IS_TABLE]
_OF_HEADER: Final = BeforeValidator(lambda value, info: text(value, info, keeps_caller=True).strip())
Headers = Annotated[
    Mapping[str, Annotated[str, _OF_HEADER]],
    _IS_TABLE,
]
"""A table in which the variables of the caller stay as they are written."""
Secret = Annotated[Text, BeforeValidator(partial(_secret, is_mistake=True))]
"""A text that is secret; one that is written out is a mistake."""
NamedSecret = Annotated[Text, BeforeValidator(partial(_secret, is_mistake=False))]
"""A text that is secret; one that is written out is noted, and counts."""
SecretFile = Annotated[str, BeforeValidator(_contents)]
"""What is in a file, which is secret."""
Place = Annotated[Path, BeforeValidator(_place)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A duration, written as `30` (seconds), `30000` (milliseconds), `"30s"` or `"2m"`."""
Count = Annotated[int, Field(strict=True, ge=1, le=10_000)]
Objects = Annotated[Mapping[str, Annotated[dict[str, Any], _IS_OBJECT]], _IS_OBJECT]
"""Objects by their keys, each of which is read by itself."""
Flag = Annotated[bool, flag(counts=False)]
CarefulFlag = Annotated[bool, flag(counts=True)]


def named(default: Any, *names: str, hidden: bool = False) -> Any:
    """A field that has these names in the file; without any, it is not there. `hidden`: it is left out of `repr`.

    A default that can be called makes the value.
    """
    given: dict[str, Any] = {"default_factory" if callable(default) else "default": default}
    return field(**given, repr=not hidden, metadata={"names": names})


class Entry:
    """A record that an object of the file is read into. `connectTimeout` and `connect-timeout` are the same key."""

    ignored: ClassVar[str] = ""
    """Keys that mean something to other hosts."""

    def __init_subclass__(cls) -> None:
        # Pydantic looks for validators in dataclasses alone, and this is none.
        validator: Any = classmethod(_by_field)
        setattr(cls, "_by_field", model_validator(mode="before")(validator))  # noqa: B010


def _by_field(cls: type[Entry], value: object, info: Info) -> object:
    """The values under the names of the fields."""
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
    """By each key without its spelling: the field, and the key as it is offered."""
    # What a class adds to the one below comes first, as what is written in a file is more than what is known of it.
    own = sorted(fields(cls), key=lambda each: each.name not in cls.__annotations__)
    written = ((each.name, each.metadata.get("names", (to_camel(each.name),))) for each in own)
    return {canonical(name): (field_, name) for field_, names in written for name in names if name}


_ADAPTERS: Final[Callable[[type[Any]], TypeAdapter[Any]]] = lru_cache(TypeAdapter)


Mistake = tuple[str, JsonPath, str]
"""Why a record cannot be used, where that is, and the field."""


def read(
    cls: type[T], data: dict[str, Any], at: JsonPath, written: WrittenJson, variables: Variables
) -> tuple[T, list[Mistake]]:
    """A record of the object at a path of the file, and the mistakes in it.

    All that is wrong is removed from the data, or replaced by what counts; what is no mistake is noted in `written`.
    """
    mistakes: list[Mistake] = []
    adapter: TypeAdapter[T] = _ADAPTERS(cls)
    while True:
        variables.secrets.clear()
        try:
            return adapter.validate_python(data, context=variables), mistakes
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
        # From the end, as what is removed from a list moves what comes after it.
        for each in reversed(found):
            # The values that lead to the place of an error, and the steps between, as far as they are in the file.
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
            if (counts := context.get("counts")) is None:
                del values[-2][steps[-1]]
            else:
                values[-2][steps[-1]] = counts
