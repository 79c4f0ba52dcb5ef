"""The kinds of files in which clients keep their configuration, each read and written by a library that keeps comments.

JSON is the exception: none that is well kept does, so a file with comments is refused rather than rewritten. The
libraries are imported when a file of their kind is met. Below `merging`, above nothing but errors.
"""

import io
import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import MutableMapping
from typing import Any, Final, NoReturn, cast

Content = MutableMapping[str, Any]


class FileFormat(ABC):
    """A kind of file: text into a mapping that remembers how it was written, and back."""

    name: str

    def empty(self) -> Content:
        """The content of a file that says nothing."""
        return {}

    @abstractmethod
    def read(self, text: str) -> Content:
        """What a file says. Raises `ValueError`; its message says what is wrong."""

    @abstractmethod
    def write(self, content: Content, before: str) -> str:
        """The file with this content, in the manner of the text that it held before."""

    @abstractmethod
    def plain(self, text: str) -> object:
        """What a file says, read by other means: the proof that nothing is lost."""


class _Json(FileFormat):
    name = "strict JSON"

    def read(self, text: str) -> Content:
        return mapping(self.plain(text))

    def write(self, content: Content, before: str) -> str:
        return json.dumps(content, indent=_indent(before), ensure_ascii=False) + "\n"

    def plain(self, text: str) -> object:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)


class _Toml(FileFormat):
    name = "TOML"

    def empty(self) -> Content:
        return self.read("")

    def read(self, text: str) -> Content:
        import tomlkit

        return tomlkit.parse(text)

    def write(self, content: Content, before: str) -> str:
        import tomlkit

        return tomlkit.dumps(content)

    def plain(self, text: str) -> object:
        return tomllib.loads(text)


class _Yaml(FileFormat):
    name = "YAML"

    def read(self, text: str) -> Content:
        return mapping(_loaded(self._round_trip(text), text))

    def write(self, content: Content, before: str) -> str:
        written = io.StringIO()
        self._round_trip(before).dump(content, written)
        return written.getvalue()

    def plain(self, text: str) -> object:
        from ruamel.yaml import YAML as Loader  # noqa: N811 - it is the library's class

        return _loaded(Loader(typ="safe", pure=True), text)

    @staticmethod
    def _round_trip(before: str) -> Any:
        from ruamel.yaml import (
            YAML as Loader,  # noqa: N811 - it is the library's class
            util,
        )

        yaml: Any = Loader()
        yaml.preserve_quotes = True
        yaml.width = 1_000_000
        if before.strip():
            guess: Any = util.load_yaml_guess_indent  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            _, indent, offset = cast("tuple[object, int | None, int | None]", guess(before))
            yaml.indent(mapping=2 if offset else indent or 2, sequence=indent or 2, offset=offset or 0)
        return yaml


JSON: Final[FileFormat] = _Json()
TOML: Final[FileFormat] = _Toml()
YAML: Final[FileFormat] = _Yaml()


def _loaded(yaml: Any, text: str) -> object:
    from ruamel.yaml import YAMLError

    try:
        return yaml.load(text)
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def mapping(value: object, where: str = "the file") -> Content:
    """The value, if it is a mapping; raises `NoMapping`, a `ValueError`."""
    if not isinstance(value, MutableMapping):
        raise NoMapping(where, type(value).__name__)
    return cast("Content", value)


class NoMapping(ValueError):
    """Something that should hold names and values holds something else."""

    def __init__(self, where: str, came: str) -> None:
        super().__init__(f"{where} was expected to hold names and values, not a {came}")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"a key is there twice: {next(key for key in keys if keys.count(key) > 1)!r}")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _indent(text: str) -> str:
    for line in text.splitlines():
        margin = line[: len(line) - len(line.lstrip(" \t"))]
        if margin and line.strip():
            return margin
    return "  "
