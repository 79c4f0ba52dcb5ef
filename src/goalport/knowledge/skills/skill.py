"""A skill: a folder with a SKILL.md, whose head names and describes it (https://agentskills.io), read leniently.

A scan reads the two fields that a prompt needs; the rest is read when the skill is activated. Nothing here decides
which skills are used. Above: `check` is the strict reader, `skills` the reference that offers them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from goalport.base.errors import DocumentError
from goalport.base.words import cleaned, one_line
from goalport.knowledge.documents import Folder, FolderLimits, YamlText, read_yaml

SKILL_FILE: Final = "SKILL.md"
RESOURCE_TYPES: Final = ("scripts", "references", "assets")
_LONGEST_FILE: Final = 1_000_000
_HEAD: Final = 16_384
"""Bytes in which most heads end."""
_LONGEST_HEAD: Final = 20_000
"""Characters. Reading YAML takes minutes for a megabyte of it."""
_LONGEST_DESCRIPTION: Final = 1_024
_LONGEST_NAME: Final = 100
_PLAIN: Final = re.compile(r"(?P<key>name|description):[ ]+(?P<text>[A-Za-z](?:[^:#\n]|:(?=\S)|(?<=\S)#)*)")
"""A line whose text means itself in YAML, so that scanning thousands of files needs no reader of YAML."""
_WORDS_OF_YAML: Final = frozenset({"true", "false", "null"})
_UNQUOTED: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*):[ \t]+(?P<text>[^\s\"'\[{&*!|>%@`#-].*)")
"""A line of a field whose text is not quoted."""
_ENTRY: Final = re.compile(r"[^\s,()]+(?:\([^)]*\))?")


@dataclass(frozen=True, slots=True)
class Skill:
    """What is known of a skill before it is activated."""

    name: str
    description: str
    folder: Path
    fingerprint: str = ""
    """The hash of the files that were trusted; empty: whoever names the folder trusts what is in it."""


@dataclass(frozen=True, slots=True)
class SkillText:
    """All that a SKILL.md says."""

    fields: Mapping[str, object]
    instructions: str
    head: YamlText = field(repr=False)
    """The head with its lines."""
    body_line: int
    """The line on which the instructions begin."""
    quoted: Sequence[int] = ()
    """The lines of fields that could only be read after their text was put in quotes."""

    def text(self, key: str) -> str:
        """A field in one line; empty where it is missing or is no text."""
        value = self.fields.get(key)
        return one_line(str(value), _LONGEST_FILE) if isinstance(value, str | int | float) else ""


def skill_folder(root: Path) -> Folder:
    """A folder of a skill, to read from."""
    return Folder(root, FolderLimits(entries=2_000, file_bytes=_LONGEST_FILE))


def scanned(root: Path) -> tuple[Skill, tuple[str, ...]]:
    """The skill in a folder, and what is odd about it. Raises `DocumentError` for one that cannot be used."""
    _check_file(root)
    fields = _plain_fields(root)
    if fields is None:
        text = skill_text(root)
        fields = {key: text.text(key) for key in ("name", "description")}
    name, description = (one_line(fields[key], _LONGEST_FILE) for key in ("name", "description"))
    place = root / SKILL_FILE
    if not description:
        raise DocumentError(f"{place}: it has no description, so no model could know when to use it.")
    folder_name = folder_name_of(root)
    warnings: list[str] = []
    if not name:
        warnings.append(f"{place}: it has no name; it is called {folder_name!r} as its folder is.")
    elif name != folder_name:
        warnings.append(f"{place}: its name {one_line(name, _LONGEST_NAME)!r} is not that of its folder.")
    if len(description) > _LONGEST_DESCRIPTION:
        warnings.append(f"{place}: its description is cut at {_LONGEST_DESCRIPTION} characters.")
    skill = Skill(one_line(name, _LONGEST_NAME) or folder_name, one_line(description, _LONGEST_DESCRIPTION), root)
    return skill, tuple(warnings)


def folder_name_of(root: Path) -> str:
    """The name of a folder, which its skill should have."""
    return root.name if root.name not in {"", ".."} else root.resolve().name


def skill_text(root: Path) -> SkillText:
    """Read the SKILL.md of a folder. Raises `DocumentError` that says the file, the line and what is wrong."""
    _check_file(root)
    place = str(root / SKILL_FILE)
    raw = skill_folder(root).content(SKILL_FILE).decode("utf-8-sig", "replace")
    lines = raw.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    end = _end_of_head(lines)
    if end is None:
        raise DocumentError(f"{place}:1: expected a head between two lines `---`, with name and description.")
    written = "\n".join(lines[1:end])
    if len(written) > _LONGEST_HEAD:
        size = f"{len(written):,} characters, and at most {_LONGEST_HEAD:,} are read"
        raise DocumentError(f"{place}:1: its head has {size}.")
    head, quoted = _head(written, place)
    value = head.value
    if not isinstance(value, dict):
        raise DocumentError(
            f"{place}:2: expected fields such as `name: my-skill`, but came {one_line(lines[1], 80)!r}."
        )
    fields = {str(key): value for key, value in cast("dict[object, object]", value).items()}
    body = "\n".join(lines[end + 1 :])
    blank = body[: len(body) - len(body.lstrip())].count("\n")
    return SkillText(fields, cleaned(body, _LONGEST_FILE), head, end + 2 + blank, quoted)


def allowed_names(value: object) -> tuple[str, ...]:
    """The entries of `allowed-tools`: separated by spaces or commas, or a list; `Bash(git:*)` is one of them."""
    if isinstance(value, str):
        return tuple(_ENTRY.findall(value))
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else ()


def _check_file(root: Path) -> None:
    """Raises `DocumentError` for a folder without a SKILL.md, or with a link in its place that leads out."""
    file = root / SKILL_FILE
    if not file.is_file():
        raise DocumentError(f"{file}: there is no such file, so {root} is no skill.")
    if file.is_symlink() and not file.resolve().is_relative_to(root.resolve()):
        raise DocumentError(f"{file}: it is a link that leads out of the skill.")


def _end_of_head(lines: Sequence[str]) -> int | None:
    """The number of the line that ends the head. Dashes inside of a line are part of its text."""
    if not lines or lines[0].rstrip() != "---":
        return None
    return next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)


def _head(text: str, place: str) -> tuple[YamlText, tuple[int, ...]]:
    """Read the head; where that fails, once more with unquoted texts put in quotes."""
    try:
        return read_yaml(text, place, first_line=2), ()
    except DocumentError:
        lines = text.split("\n")
        quoted = [_quoted(line) for line in lines]
        changed = tuple(number for number, pair in enumerate(zip(lines, quoted, strict=True), 2) if pair[0] != pair[1])
        if not changed:
            raise
        try:
            return read_yaml("\n".join(quoted), place, first_line=2), changed
        except DocumentError:
            pass
        raise


def _quoted(line: str) -> str:
    """The line with its text in quotes, where it has a colon that YAML would take for another field."""
    found = _UNQUOTED.fullmatch(line)
    if found is None or not (": " in found["text"] or found["text"].endswith(":")):
        return line
    return f"{found['key']}: {json.dumps(found['text'].rstrip(), ensure_ascii=False)}"


def _plain_fields(root: Path) -> dict[str, str] | None:
    """Name and description, where they are so plain that no reader of YAML is needed to understand them."""
    try:
        with (root / SKILL_FILE).open("rb") as file:
            text = file.read(_HEAD).decode("utf-8-sig", "replace").replace("\r\n", "\n")
    except OSError:
        return None
    lines = text.split("\n")
    end = _end_of_head(lines)
    found: dict[str, str] = {}
    for number in range(1, end or 0):
        line = lines[number]
        if not line.startswith(("name:", "description:")):
            continue
        plain = _PLAIN.fullmatch(line.rstrip())
        goes_on = lines[number + 1][:1] in {" ", "\t", ""}
        if plain is None or goes_on or plain["key"] in found or plain["text"].strip().lower() in _WORDS_OF_YAML:
            return None
        found[plain["key"]] = plain["text"]
    return found if len(found) == len(("name", "description")) else None
