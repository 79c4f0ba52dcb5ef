"""The strict reader of skills: everything that the specification does not allow, each with its place and the fix.

Loading is lenient, since a skill of others is better used with a warning than not at all; this is for those who write
and publish them. Below: `skill`. Above: the command `goalport skills check`, and tests of skills.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from goalport.base.errors import DocumentError
from goalport.base.words import offer, one_line, shown
from goalport.knowledge.skills.skill import (
    RESOURCE_TYPES,
    SKILL_FILE,
    SkillText,
    folder_name_of,
    skill_folder,
    skill_text,
)

_FIELDS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME: Final = 64
_LONGEST: Final[Mapping[str, int]] = {"description": 1_024, "compatibility": 500}
_FILE: Final = re.compile(rf"(?<![\w./-])(?:\./)?((?:{'|'.join(RESOURCE_TYPES)})/[\w./-]*\w)")
_LINK: Final = re.compile(r"\]\((?!\w+:|#|/)([^)\s#]+)[^)]*\)")
_MOST_LINES: Final = 500


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
    problems = [*_head_problems(folder, text), *_body_problems(folder, text, files=files)]
    return tuple(SkillProblem(path, line, message) for line, message in sorted(problems))


def check_skills(parent: str | Path, *, files: bool = True) -> tuple[SkillProblem, ...]:
    """What is wrong with a skill, or with the skills in the folders of a folder."""
    folder = Path(parent)
    if (folder / SKILL_FILE).is_file():
        return check_skill(folder, files=files)
    inner = sorted(each for each in folder.iterdir() if (each / SKILL_FILE).is_file()) if folder.is_dir() else []
    if not inner:
        message = f"expected a {SKILL_FILE} here or in a folder in here, but there is none."
        return (SkillProblem(folder, 1, message),)
    return tuple(problem for each in inner for problem in check_skill(each, files=files))


def _head_problems(folder: Path, text: SkillText) -> Iterator[tuple[int, str]]:
    for number in text.quoted:
        yield number, "its text has a colon with a space, which YAML takes for another field. Put the text in quotes."
    for key in text.fields:
        if key not in _FIELDS:
            yield text.head.line(key), f"{one_line(key, 80)!r} is no field of a skill. {offer(key, _FIELDS)}"
    for key, check in _CHECKS.items():
        if key in text.fields:
            if problem := check(text.fields[key], folder):
                yield text.head.line(key), f"{key}: {problem}"
        elif key in {"name", "description"}:
            yield 1, f"{key}: required, but missing."


def _body_problems(folder: Path, text: SkillText, *, files: bool) -> Iterator[tuple[int, str]]:
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
                inside.place(name)
            except DocumentError:
                yield number, f"it mentions {one_line(name, 200)!r}, and there is no such file in the skill."


def _name_problem(value: object, folder: Path) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > _LONGEST_NAME:
        return f"expected 1 to {_LONGEST_NAME} of a-z, 0-9 and single hyphens between them, but came {shown(value)}."
    own = folder_name_of(folder)
    return "" if value == own else f"expected the name of its folder, {own!r}, but came {value!r}. Rename one of them."


def _text_problem(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        return f"expected a text, but came {shown(value)}."
    most = _LONGEST.get(key)
    return f"it has {len(value)} characters, at most {most} are allowed." if most and len(value) > most else ""


def _metadata_problem(value: object) -> str:
    entries = cast("dict[object, object]", value).items() if isinstance(value, dict) else ((None, None),)
    if all(isinstance(each, str) for pair in entries for each in pair):
        return ""
    came = shown(cast("object", value))
    return f"expected names with texts, such as `author: me`, but came {came}. Put numbers and lists in quotes."


def _tools_problem(value: object) -> str:
    if isinstance(value, str):
        return "" if "," not in value else "expected names separated by spaces, but there are commas."
    return f"expected one text with names separated by spaces, but came {shown(value)}."


_CHECKS: Final[Mapping[str, Callable[[object, Path], str]]] = {
    "name": _name_problem,
    "description": lambda value, _: _text_problem("description", value),
    "license": lambda value, _: _text_problem("license", value),
    "compatibility": lambda value, _: _text_problem("compatibility", value),
    "metadata": lambda value, _: _metadata_problem(value),
    "allowed-tools": lambda value, _: _tools_problem(value),
}
"""By field: what is wrong with its value; empty: nothing."""
