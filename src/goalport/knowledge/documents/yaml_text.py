"""YAML as plain data, with the line of each value, for what people write: references.yml, SKILL.md, front matter.

Aliases are refused: nobody needs them in such files, and a few lines of them can stand for gigabytes. Below: errors.
ruamel.yaml is imported when it is first needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from goalport.base.errors import DocumentError
from goalport.base.words import one_line

LONGEST_YAML: Final = 1_000_000
"""Characters of a text that is read."""
_DEEPEST: Final = 50
Path = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class YamlText:
    """A text in YAML, and where its values stand."""

    value: object
    lines: Mapping[Path, int] = field(repr=False)
    """The line of each value by the keys and numbers that lead to it; that of a key for a value in a mapping."""

    def line(self, *path: int | str) -> int:
        """The line of a value, or of what it would stand in."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str, where: str, first_line: int = 1) -> YamlText:
    """Read a text. `first_line` is the number of its first line in the file.

    Raises `DocumentError` that says file, line and what is wrong.
    """
    from ruamel.yaml import YAML, YAMLError

    if len(text) > LONGEST_YAML:
        raise DocumentError(f"{where} is longer than {LONGEST_YAML:,} characters. Keep it below that.")
    try:
        loader: Any = YAML(typ="safe", pure=True)
        loader.Scanner = _flat_scanner()
        root: Any = loader.compose(text)
        reader = _Lines(where, first_line)
        reader.note((), root)
        value: object = None if root is None else loader.constructor.construct_document(root)
    except YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = first_line + (mark.line if mark is not None else 0)
        problem = getattr(error, "problem", None) or str(error)
        raise DocumentError(f"{where}:{line}: this is no YAML: {one_line(str(problem), 200)}.") from error
    except (ValueError, RecursionError, OverflowError) as error:  # such as a date with a month 13
        raise DocumentError(f"{where}: this is no YAML: {one_line(str(error), 200)}.") from error
    return YamlText(value, reader.lines)


@cache
def _flat_scanner() -> Any:
    from ruamel.yaml import scanner

    library: Any = scanner  # its types are not known

    class FlatScanner(library.Scanner):
        """Refuses `[[[[…`, for which it would take time in proportion to the square of the depth."""

        def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803 - its name there
            if len(self.flow_context) >= _DEEPEST:
                raise library.ScannerError(None, None, "its values are nested too deeply", self.reader.get_mark())
            library.Scanner.fetch_flow_collection_start(self, TokenClass, to_push)

    return FlatScanner


@dataclass(slots=True)
class _Lines:
    """Notes the line of each node."""

    where: str
    first: int
    lines: dict[Path, int] = field(default_factory=dict[Path, int])
    _seen: set[int] = field(default_factory=set[int])

    def note(self, path: Path, node: Any) -> None:
        if node is None:
            return
        line = self.lines.setdefault(path, self.first + node.start_mark.line)
        if id(node) in self._seen or len(path) > _DEEPEST:
            fix = "Write the value out where it is wanted" if id(node) in self._seen else "Nest the values less deeply"
            raise DocumentError(f"{self.where}:{line}: expected plain values without aliases. {fix}.")
        self._seen.add(id(node))
        if node.id == "mapping":
            for key, value in node.value:
                inner = (*path, str(key.value))
                self.lines.setdefault(inner, self.first + key.start_mark.line)
                self.note(inner, value)
        elif node.id == "sequence":
            for number, value in enumerate(node.value):
                self.note((*path, number), value)
