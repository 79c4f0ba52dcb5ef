"""One object of a configuration file, whose settings are read by name and kind.

Every setting that is read is known; other keys are noted with the nearest known one. A value of a wrong kind is noted
too, and its default is used. Values are never shown, as they may be secret. Variables in texts (`${VAR}`,
`${VAR:-default}`, `${env:VAR}`, `{env:VAR}`, and the folders that editors know, such as `${workspaceFolder}`) are
filled here. Above: `config_file`.
"""

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Final, cast

from goalport.upstream.config import ConfigProblem
from goalport.upstream.jsonc import JsonPath, WrittenJson
from goalport.words import offer

__all__ = ["OF_CALLER", "Notes", "Section", "VariableError", "Variables"]

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
_PUBLIC: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TEMP", "TMP", "TMPDIR", "USER"})


class VariableError(ValueError):
    """A variable that cannot be filled; the message names it and shows no value."""


@dataclass(frozen=True)
class Variables:
    """The values of variables."""

    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    """What editors call the workspace folder."""

    def fill(self, text: str, kept: Container[str] = ()) -> tuple[str, tuple[str, ...]]:
        """A text with its variables filled but for `kept`, and the values that may be secret. Raises `VariableError`.

        `${VAR:-default}` takes the default when the variable is unset or empty, as shells do. A value is
        not searched for variables again.
        """
        secrets: list[str] = []

        def value(found: re.Match[str]) -> str:
            inside = found["inside"] if found["named"] is None else found["named"]
            if inside in kept:
                return found[0]
            filled, is_secret = self._value(inside)
            if is_secret and len(filled) >= _SHORTEST_SECRET:
                secrets.append(filled)
            return filled

        filled = _VARIABLE.sub(value, text)
        if "${" in _VARIABLE.sub("", text):
            raise VariableError(
                "a `${` is never closed, or stands inside of another. Write one variable after the other."
            )
        return filled, tuple(secrets)

    def _value(self, inside: str) -> tuple[str, bool]:
        """The value, and whether it may be secret."""
        if inside in (folders := self._folders()):
            return folders[inside], False
        if inside.startswith("input:"):
            name = re.sub(r"[^A-Za-z0-9]+", "_", inside.removeprefix("input:")).upper()
            raise VariableError(
                f"${{{inside}}} is asked for by an editor; a server has nobody to ask. Put the value into an "
                f"environment variable and write ${{{name}}}."
            )
        if inside in OF_CALLER:
            raise VariableError(
                f"${{{inside}}} is known for each call alone: it can stand in `headers` of a server over HTTP that "
                'says "forward_auth": true, and nowhere else.'
            )
        named = _NAMED.fullmatch(inside)
        if named is None:
            raise VariableError(
                f"${{{inside}}} is no variable that can be filled. Write ${{NAME}} or ${{NAME:-default}}."
            )
        name, default = named["name"], named["default"]
        if default is not None and not self.environment.get(name):
            return default, False
        if name not in self.environment:
            raise VariableError(f"the variable {name} is not set. Set it, or write ${{{name}:-default}}.")
        return self.environment[name], name not in _PUBLIC

    def _folders(self) -> dict[str, str]:
        return {
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }


@dataclass
class Notes:
    """The mistakes in a file, collected while it is read."""

    written: WrittenJson
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])

    def add(self, message: str, at: JsonPath, *, server: str = "", is_fatal: bool = False) -> None:
        self.problems.append(self.written.problem(message, at, server=server, is_fatal=is_fatal))


class Section:
    """The settings of one object. `connectTimeout`, `connect_timeout` and `connect-timeout` are the same key."""

    def __init__(self, data: object, at: JsonPath, notes: Notes, variables: Variables) -> None:
        self.at = at
        self.notes = notes
        self.variables = variables
        self.secrets: list[str] = []
        """Values of variables in its texts."""
        self.mistakes: list[tuple[str, JsonPath]] = []
        """Mistakes for which the whole object cannot be used, and where they are."""
        self._data = {str(key): value for key, value in cast("Mapping[object, object]", data).items()}
        self._keys = {_canonical(key): key for key in self._data}
        self._known: dict[str, str] = {}

    def get(self, name: str, *others: str) -> tuple[object, JsonPath]:
        """The value under a name, or under another name for the same setting, and its path; None: there is none."""
        self._known |= {_canonical(each): each for each in (name, *others)}
        for each in (name, *others):
            key = self._keys.get(_canonical(each))
            if key is not None and self._data[key] is not None:
                return self._data[key], (*self.at, key)
        return None, self.at

    def text(self, name: str, *others: str) -> str:
        value, at = self.get(name, *others)
        return _text(self, value, at, name) if value is not None else ""

    def has_variable(self, name: str) -> bool:
        """Whether the text under a name is written with variables."""
        value, _ = self.get(name)
        return isinstance(value, str) and _VARIABLE.search(value) is not None

    def texts(self, name: str, *others: str) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one."""
        value, at = self.get(name, *others)
        if value is None:
            return ()
        if isinstance(value, list):
            items = cast("list[object]", value)
            return tuple(_text(self, each, (*at, number), name) for number, each in enumerate(items))
        return (_text(self, value, at, name),)

    def table(self, name: str, *others: str, kept: Container[str] = ()) -> dict[str, str]:
        """An object whose values are texts, numbers or booleans, as texts; a null counts as absent.

        The variables `kept` stay as they are written.
        """
        given, place = self.get(name, *others)
        if given is not None and not isinstance(given, dict):
            self.mistakes.append((f"{name} should be an object, but is {_kind(given)}.", place))
            return {}
        found = [each for each in self.items(name, *others) if each[1] is not None]
        return {key: _text(self, value, at, name, kept) for key, value, at in found}

    def choices(self, name: str, words: Iterable[str], otherwise: str) -> dict[str, str]:
        """An object whose values are among `words`; a single word is its `*`. Anything else counts as `otherwise`."""
        value, at = self.get(name)
        if value is not None and not isinstance(value, str | dict):
            self.notes.add(
                f"{name} should be a text or an object, but is {_kind(value)}. It counts as {otherwise}.", at
            )
            return {"*": otherwise}
        found = [("*", value, at)] if isinstance(value, str) else [*self.items(name)]
        return {key: _choice(self, each, at, tuple(words), otherwise) for key, each, at in found}

    def word(self, name: str, words: Iterable[str]) -> str:
        """A text that is among `words`; empty: there is none."""
        value, at = self.get(name)
        return _choice(self, value, at, tuple(words)) if value is not None else ""

    def flag(self, name: str, *, careful: bool = False) -> bool:
        """A boolean. Anything else is noted, and counts as the value of `careful`."""
        value, at = self.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        counts = " It counts as true." if careful else ""
        self.notes.add(f"{name} should be true or false, but is {_kind(value)}.{counts}", at)
        return careful

    def seconds(self, name: str, *others: str, default: float) -> float:
        """A duration in seconds, written as `30` (seconds), `30000` (milliseconds), `"30s"` or `"2m"`."""
        value, at = self.get(name, *others)
        if value is None:
            return default
        found = _seconds(value)
        if found is None:
            self.notes.add(f"{name} should be a number of seconds above 0, or a text such as '30s' or '500ms'.", at)
        return found or default

    def count(self, name: str, default: int, most: int, *, least: int = 0) -> int:
        value, at = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.notes.add(f"{name} should be a whole number from {least} to {most}.", at)
            return default
        return value

    def section(self, name: str) -> "Section | None":
        """An object inside; None when there is none."""
        value, at = self.get(name)
        if isinstance(value, dict):
            return Section(cast("object", value), at, self.notes, self.variables)
        if value is not None:
            self.notes.add(f"{name} should be an object, but is {_kind(value)}.", at)
        return None

    def sections(self, name: str = "") -> "list[tuple[str, Section]]":
        """The objects inside an object, by key; without a name, those under keys that have not been read so far."""
        if name:
            found = [*self.items(name)]
            for key, value, at in found:
                if not isinstance(value, dict):
                    self.notes.add(f"{key!r} should be an object, but is {_kind(value)}.", at)
            found = [each for each in found if isinstance(each[1], dict)]
        else:
            unknown = [key for canonical, key in self._keys.items() if canonical not in self._known]
            keys = [key for key in unknown if isinstance(self._data[key], dict)]
            found = [(key, self._data[key], (*self.at, key)) for key in keys]
        return [(key, Section(value, at, self.notes, self.variables)) for key, value, at in found]

    def ignore(self, *names: str) -> None:
        """Count these keys as known, but never offer one: they mean something to other hosts."""
        for each in names:
            self._known.setdefault(_canonical(each), "")

    def note_unknown_keys(self) -> None:
        """Note the keys that were not read."""
        for canonical, key in self._keys.items():
            if canonical not in self._known and not key.startswith(("$", "_", "//", "x-")):
                self.notes.add(
                    f"unknown key {key!r} is ignored. {offer(key, filter(None, self._known.values()))}", (*self.at, key)
                )

    def items(self, name: str, *others: str) -> Iterator[tuple[str, object, JsonPath]]:
        """The members of an object: key, value and path."""
        value, at = self.get(name, *others)
        if isinstance(value, dict):
            for key, each in cast("dict[str, object]", value).items():
                yield key, each, (*at, key)
        elif value is not None:
            self.notes.add(f"{name} should be an object, but is {_kind(value)}.", at)


def _text(section: Section, value: object, at: JsonPath, name: str, kept: Container[str] = ()) -> str:
    """A text with its variables filled; what is none is a mistake of the section."""
    match value:
        case str():
            try:
                filled, secrets = section.variables.fill(value, kept)
            except VariableError as problem:
                section.mistakes.append((str(problem), at))
                return ""
            section.secrets += secrets
            if _BARE.fullmatch(value):
                section.notes.add(
                    f"{name} has a text with `$NAME`, which stays as it is. A variable is `${{NAME}}`.", at
                )
            return filled
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            section.mistakes.append((f"{name} should hold texts, but there is {_kind(value)}.", at))
            return ""


def _choice(section: Section, value: object, at: JsonPath, words: tuple[str, ...], otherwise: str = "") -> str:
    if isinstance(value, str) and value.lower() in words:
        return value.lower()
    shown = repr(value) if isinstance(value, str) else _kind(value)
    counts = f" It counts as {otherwise}." if otherwise else ""
    section.notes.add(f"{at[-1]} should be one of {', '.join(words)}, but is {shown}.{counts}", at)
    return otherwise


def _canonical(key: str) -> str:
    return re.sub(r"[-_]", "", key).lower()


def _seconds(value: object) -> float | None:
    """The seconds of a duration; None: it is no duration above 0."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        found = value / 1000 if value >= _MILLISECONDS_FROM else float(value)
        return found if isfinite(found) and found > 0 else None
    written = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if written is None:
        return None
    number = float(written["number"])
    return number * _SECONDS[written["unit"]] if written["unit"] and number else _seconds(number)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
