"""A skill: a folder with a SKILL.md, whose head (front matter) has name and description (https://agentskills.io).

Loading is lenient: a skill with small mistakes is used, with a warning. `check_skills` is strict, for authors of
skills. A cloned project may contain skills, and their instructions steer the model. They are therefore withheld until
somebody trusts them, and again when they change. Above: `skills` offers them.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

from pydantic import TypeAdapter

from goalport.base.errors import DocumentError
from goalport.base.files import replace_file
from goalport.base.words import cleaned, offer, one_line, shown
from goalport.knowledge.documents import Folder, FolderLimits, YamlText, read_yaml
from goalport.knowledge.documents.markdown import FRONT_MATTER

_log = logging.getLogger(__name__)
SKILL_FILE: Final = "SKILL.md"
TRUST_FILE: Final = "skill-trust.json"
"""The name of the file of trusted skills in the data folder."""
RESOURCE_TYPES: Final = ("scripts", "references", "assets")
_LONGEST_FILE: Final = 1_000_000
_LARGEST_TRUSTED: Final = 50_000_000
_HEAD: Final = 16_384
"""Bytes of a SKILL.md that are read to scan it; most heads are shorter."""
_LONGEST_HEAD: Final = 20_000
"""Most characters of a head: parsing a megabyte of YAML takes minutes."""
_LONGEST_SHOWN_NAME: Final = 100
_LONGEST_NAME: Final = 64
_LONGEST: Final[Mapping[str, int]] = {"description": 1_024, "compatibility": 500}
_MOST_LINES: Final = 500
_FIELDS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PLAIN: Final = re.compile(r"(?P<key>name|description):[ ]+(?P<text>[A-Za-z](?:[^:#\n]|:(?=\S)|(?<=\S)#)*)")
"""A line whose text YAML would not change, so that scanning thousands of files needs no YAML parser."""
_WORDS_OF_YAML: Final = frozenset({"true", "false", "null"})
_UNQUOTED: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*):[ \t]+(?P<text>[^\s\"'\[{&*!|>%@`#-].*)")
"""A line of a field whose text is not quoted."""
_FILE: Final = re.compile(rf"(?<![\w./-])(?:\./)?((?:{'|'.join(RESOURCE_TYPES)})/[\w./-]*\w)")
_LINK: Final = re.compile(r"\]\((?!\w+:|#|/)([^)\s#]+)[^)]*\)")


@dataclass(frozen=True, slots=True)
class Skill:
    """What is known of a skill before it is activated."""

    name: str
    description: str
    folder: Path
    fingerprint: str = ""
    """The hash of the files when they were trusted; empty: a user chose the folder, so changes are not checked."""


@dataclass(frozen=True, slots=True)
class SkillText:
    """A parsed SKILL.md: its head and its instructions."""

    fields: Mapping[str, object]
    instructions: str
    head: YamlText = field(repr=False)
    """The head, with the line of each field."""
    body_line: int
    """The line on which the instructions begin."""
    quoted: Sequence[int] = ()
    """The lines of fields that are valid YAML only after their text was put in quotes."""

    def text(self, key: str) -> str:
        """A field in one line; empty if it is missing or is no text."""
        value = self.fields.get(key)
        return one_line(str(value), _LONGEST_FILE) if isinstance(value, str | int | float) else ""


def skill_folder(root: Path) -> Folder:
    """The folder of a skill, with the limits for reading it."""
    return Folder(root, FolderLimits(entries=2_000, file_bytes=_LONGEST_FILE))


def scanned(root: Path) -> Skill:
    """The skill in a folder. Small mistakes are logged as warnings. Raises `DocumentError` if it cannot be used."""
    _check_file(root)
    fields = _plain_fields(root)
    if fields is None:
        text = skill_text(root)
        fields = {key: text.text(key) for key in ("name", "description")}
    name, description = (one_line(fields[key], _LONGEST_FILE) for key in ("name", "description"))
    place, folder_name, longest = root / SKILL_FILE, _folder_name(root), _LONGEST["description"]
    if not description:
        raise DocumentError(f"{place}: it has no description, so no model could know when to use it.")
    if not name:
        _log.warning("%s: it has no name; it is called %r as its folder is.", place, folder_name)
    elif name != folder_name:
        _log.warning("%s: its name %r is not that of its folder.", place, one_line(name, _LONGEST_SHOWN_NAME))
    if len(description) > longest:
        _log.warning("%s: its description is cut at %s characters.", place, longest)
    return Skill(one_line(name, _LONGEST_SHOWN_NAME) or folder_name, one_line(description, longest), root)


def _folder_name(root: Path) -> str:
    """The name of a folder, which should also be the name of its skill."""
    return root.name if root.name not in {"", ".."} else root.resolve().name


def skill_text(root: Path) -> SkillText:
    """Read the SKILL.md of a folder. Raises `DocumentError` with file, line and mistake if it is not valid."""
    _check_file(root)
    place = str(root / SKILL_FILE)
    raw = skill_folder(root).content(SKILL_FILE).decode("utf-8-sig", "replace")
    raw = raw.replace("\r\n", "\n").replace("\r", "\n")
    found = FRONT_MATTER.match(raw)
    if found is None:
        raise DocumentError(f"{place}:1: expected a head between two lines `---`, with name and description.")
    if len(found[1]) > _LONGEST_HEAD:
        size = f"{len(found[1]):,} characters, and at most {_LONGEST_HEAD:,} are read"
        raise DocumentError(f"{place}:1: its head has {size}.")
    head, quoted = _head(found[1], place)
    value = head.value
    if not isinstance(value, dict):
        came = one_line(found[1].partition("\n")[0], 80)
        raise DocumentError(f"{place}:2: expected fields such as `name: my-skill`, but came {came!r}.")
    fields = {str(key): each for key, each in cast("dict[object, object]", value).items()}
    body = raw[found.end() :]
    before = raw[: len(raw) - len(body.lstrip())]
    return SkillText(fields, cleaned(body, _LONGEST_FILE), head, before.count("\n") + 1, quoted)


def _check_file(root: Path) -> None:
    """Raises `DocumentError` if the folder has no SKILL.md, or if that is a link to a file outside of the folder."""
    file = root / SKILL_FILE
    if not file.is_file():
        raise DocumentError(f"{file}: there is no such file, so {root} is no skill.")
    if file.is_symlink() and not file.resolve().is_relative_to(root.resolve()):
        raise DocumentError(f"{file}: it is a link that leads out of the skill.")


def _head(text: str, place: str) -> tuple[YamlText, list[int]]:
    """Parse the head; if that fails, put texts that contain a colon in quotes and retry. Also returns their lines."""
    try:
        return read_yaml(text, place, first_line=2), []
    except DocumentError as error:
        lines, changed = text.split("\n"), list[int]()
        for index, line in enumerate(lines):
            found = _UNQUOTED.fullmatch(line)
            if found is not None and (": " in found["text"] or found["text"].endswith(":")):
                lines[index] = f"{found['key']}: {json.dumps(found['text'].rstrip(), ensure_ascii=False)}"
                changed.append(index + 2)
        if changed:
            with suppress(DocumentError):
                return read_yaml("\n".join(lines), place, first_line=2), changed
        raise error from None


def _plain_fields(root: Path) -> dict[str, str] | None:
    """Name and description, if they can be read without a YAML parser; None: `skill_text` has to parse the head."""
    try:
        with (root / SKILL_FILE).open("rb") as file:
            text = file.read(_HEAD).decode("utf-8-sig", "replace").replace("\r\n", "\n")
    except OSError:
        return None
    head = FRONT_MATTER.match(text)
    found: dict[str, str] = {}
    for line, following in pairwise([*head[1].split("\n"), "---"] if head is not None else ()):
        if not line.startswith(("name:", "description:")):
            continue
        plain = _PLAIN.fullmatch(line.rstrip())
        goes_on = following[:1] in {" ", "\t", ""}
        if plain is None or goes_on or plain["key"] in found or plain["text"].strip().lower() in _WORDS_OF_YAML:
            return None
        found[plain["key"]] = plain["text"]
    return found if len(found) == len(("name", "description")) else None


def fingerprint(root: Path) -> str:
    """The hash of all files of a skill, hidden ones too.

    Raises `DocumentError` if a file cannot be read, or if there are too many files.
    """
    return Folder(root, FolderLimits(file_bytes=_LARGEST_TRUSTED), hidden=True).content_hash()


def check_unchanged(skill: Skill) -> None:
    """Raises `DocumentError` if a skill has changed since it was trusted."""
    if skill.fingerprint and fingerprint(skill.folder) != skill.fingerprint:
        raise DocumentError(f"The skill {skill.name!r} has changed since it was trusted. Do without it.")


@dataclass(frozen=True, slots=True)
class SkillTrust:
    """The trusted skills of projects, stored in a file that only its owner may read."""

    path: Path = Path(".goalport") / TRUST_FILE

    def trusted(self, root: Path) -> str:
        """The fingerprint of a skill, if its present content is trusted; empty: it is new, or has changed."""
        found = fingerprint(root)
        return found if self._record().get(str(root.resolve())) == found else ""

    def trust(self, root: str | Path, *, seen: str = "") -> None:
        """Trust a skill as it is now. `seen` is its fingerprint when a person reviewed it; empty: it is not compared.

        Raises `DocumentError` if the skill cannot be read, or has changed since it was reviewed.
        """
        folder = Path(root)
        found = fingerprint(folder)
        if seen and found != seen:
            raise DocumentError(f"The skill in {folder} has changed since it was shown. Look at it again.")
        record = {**self._record(), str(folder.resolve()): found}
        replace_file(self.path, json.dumps(record, indent=2, sort_keys=True))

    def _record(self) -> dict[str, str]:
        """The trusted fingerprints by folder. Raises `DocumentError` if the file cannot be read or parsed."""
        try:
            return TypeAdapter(dict[str, str]).validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            which = f"Which skills are trusted cannot be read from {self.path} ({type(error).__name__})."
            raise DocumentError(f"{which} Remove it to trust them anew.") from error


@dataclass(frozen=True, slots=True)
class SkillProblem:
    """One thing that is wrong with a skill."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def check_skill(root: str | Path, *, files: bool = True) -> tuple[SkillProblem, ...]:
    """What is wrong with the skill in a folder. `files`: whether the files that it mentions must be there."""
    folder = Path(root)
    path = folder / SKILL_FILE
    try:
        text = skill_text(folder)
    except DocumentError as error:
        message = str(error).removeprefix(str(path)).lstrip(":")
        number, _, rest = message.partition(":")
        line, said = (int(number), rest) if number.isdigit() else (1, message)
        return (SkillProblem(path, line, said.strip()),)
    problems = sorted(_problems(folder, text, files=files))
    return tuple(SkillProblem(path, line, message) for line, message in problems)


def check_skills(parent: str | Path, *, files: bool = True) -> tuple[SkillProblem, ...]:
    """What is wrong with the skill in a folder, or with the skills in its subfolders."""
    folder = Path(parent)
    if (folder / SKILL_FILE).is_file():
        return check_skill(folder, files=files)
    inner = sorted(each for each in folder.iterdir() if (each / SKILL_FILE).is_file()) if folder.is_dir() else []
    if not inner:
        message = f"expected a {SKILL_FILE} here or in a folder in here, but there is none."
        return (SkillProblem(folder, 1, message),)
    return tuple(problem for each in inner for problem in check_skill(each, files=files))


def _problems(folder: Path, text: SkillText, *, files: bool) -> Iterator[tuple[int, str]]:
    for number in text.quoted:
        yield number, "its text has a colon with a space, which YAML takes for another field. Put the text in quotes."
    for key, value in text.fields.items():
        if key not in _FIELDS:
            yield text.head.line(key), f"{one_line(key, 80)!r} is no field of a skill. {offer(key, _FIELDS)}"
        elif problem := _problem(key, value, _folder_name(folder)):
            yield text.head.line(key), f"{key}: {problem}"
    for key in ("name", "description"):
        if key not in text.fields:
            yield 1, f"{key}: required, but missing."
    lines = text.instructions.split("\n")
    if not text.instructions.strip():
        yield text.body_line, "expected instructions after the head, but there are none."
    if len(lines) > _MOST_LINES:
        advice = f"Keep it below {_MOST_LINES}, and move details to references/."
        yield text.body_line, f"it has {len(lines)} lines of instructions, which a model reads all at once. {advice}"
    inside = skill_folder(folder)
    for number, line in enumerate(lines if files else (), start=text.body_line):
        for name in dict.fromkeys((*_FILE.findall(line), *_LINK.findall(line))):
            try:
                inside.resolve(name)
            except DocumentError:
                yield number, f"it mentions {one_line(name, 200)!r}, and there is no such file in the skill."


def _problem(key: str, value: object, folder: str) -> str:
    """What is wrong with the value of a field; empty: nothing."""
    written, expected, fix = value if isinstance(value, str) else "", "a text", ""
    fits, most = bool(written.strip()), _LONGEST.get(key, len(written))
    if key == "name":
        expected = f"1 to {_LONGEST_NAME} of a-z, 0-9 and single hyphens between them"
        fits = bool(_NAME.fullmatch(written)) and len(written) <= _LONGEST_NAME
        if fits and written != folder:
            return f"expected the name of its folder, {folder!r}, but came {value!r}. Rename one of them."
    elif key == "metadata":
        expected, fix = "names with texts, such as `author: me`", " Put numbers and lists in quotes."
        entries = cast("dict[object, object]", value).items() if isinstance(value, dict) else ((None, None),)
        fits = all(isinstance(each, str) for pair in entries for each in pair)
    elif key == "allowed-tools":
        expected, fits = "one text with names separated by spaces", isinstance(value, str)
        if "," in written:
            return "expected names separated by spaces, but there are commas."
    if not fits:
        return f"expected {expected}, but came {shown(cast('object', value))}.{fix}"
    return f"it has {len(written)} characters, at most {most} are allowed." if len(written) > most else ""
