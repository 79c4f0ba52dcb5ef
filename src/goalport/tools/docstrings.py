"""What a docstring says to a model: what the function is for, and what each parameter means.

Finds the parameters where Google, NumPy or Sphinx style puts them, and leaves every other word as it is. It knows
nothing of types: those come from the signature.
"""

import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Documentation", "read_docstring"]

_GOOGLE_SECTION = re.compile(r"(Args|Arguments|Params|Parameters):\s*")
_NUMPY_SECTION = re.compile(r"(Other )?Parameters\s*")
_RULE = re.compile(r"-{3,}\s*")
_GOOGLE_ENTRY = re.compile(r"\s+\*{0,2}(?P<names>\w+)\s*(\(.*?\))?\s*:(?P<text>.*)")
_NUMPY_ENTRY = re.compile(r"(?P<names>\w+(,\s*\w+)*)\s*(:.*)?(?P<text>)")
_SPHINX_ENTRY = re.compile(r":(param|parameter|arg|argument)\s+([^:]*\s)?(?P<names>\w+)\s*:(?P<text>.*)")
_SPHINX_TYPE = re.compile(r":type\s+\w+\s*:.*")


@dataclass(frozen=True, slots=True)
class Documentation:
    """A docstring taken apart."""

    description: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that belong together; those of `entry` describe parameters, those without stay in the description."""

    lines: Sequence[str]
    entry: re.Pattern[str] | None = None


def read_docstring(text: str | None, parameters: Collection[str]) -> Documentation:
    """Take a docstring apart. A section that describes none of `parameters` is part of the description."""
    lines = inspect.cleandoc(text or "").splitlines()
    kept: list[str] = []
    described: dict[str, str] = {}
    for block in _blocks(lines):
        found = _described(block, parameters)
        described |= found
        kept += [] if found or _is_type(block) else block.lines
    return Documentation(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), described)


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    start = 0
    while start < len(lines):
        entry, end = _section_at(lines, start)
        yield _Block(lines[start:end], entry)
        start = end


def _section_at(lines: Sequence[str], start: int) -> tuple[re.Pattern[str] | None, int]:
    """The kind and the end of the section that begins at a line; any other line is a block by itself."""
    line = lines[start]
    if _GOOGLE_SECTION.fullmatch(line):
        return _GOOGLE_ENTRY, _end_of_indented(lines, start + 1)
    if _NUMPY_SECTION.fullmatch(line) and _is_rule(lines, start + 1):
        return _NUMPY_ENTRY, _end_of_numpy(lines, start + 2)
    if _SPHINX_ENTRY.fullmatch(line):
        return _SPHINX_ENTRY, _end_of_indented(lines, start + 1)
    return None, start + 1


def _end_of_indented(lines: Sequence[str], start: int) -> int:
    return next((n for n in range(start, len(lines)) if lines[n].strip() and not lines[n][0].isspace()), len(lines))


def _end_of_numpy(lines: Sequence[str], start: int) -> int:
    return next((n for n in range(start, len(lines)) if _is_rule(lines, n + 1)), len(lines))


def _is_rule(lines: Sequence[str], number: int) -> bool:
    return number < len(lines) and _RULE.fullmatch(lines[number]) is not None


def _is_type(block: _Block) -> bool:
    """A line that only repeats a type of the signature."""
    return _SPHINX_TYPE.fullmatch(block.lines[0]) is not None


def _described(block: _Block, parameters: Collection[str]) -> dict[str, str]:
    """What a section says of each parameter; lines that begin no entry go on with the one before."""
    entries = [block.entry.fullmatch(line) if block.entry else None for line in block.lines]
    # An entry further in belongs to a list inside a description.
    margin = min((_indent(entry[0]) for entry in entries if entry), default=0)
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line, entry in zip(block.lines, entries, strict=True):
        listed = re.findall(r"\w+", entry["names"]) if entry and _indent(line) == margin else []
        if entry and (known := [name for name in listed if name in parameters]):
            names = known
            found |= {name: [entry["text"]] for name in names}
        else:
            for name in names:
                found[name].append(line)
    return {name: " ".join(" ".join(words).split()) for name, words in found.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
