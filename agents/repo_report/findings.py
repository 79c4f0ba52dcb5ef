"""What stands out: the files that are both large and often changed, and the risks.

Pure: thresholds and rankings, from what the steps before have found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .census import Census, Contents
from .history import ChangedFile, History
from .languages import Kind, language_of
from .listing import Listing
from .paths import FilePath
from .text import shown, size_in_words

HOT = 10
LARGE_LISTED = 5
MARKED_LISTED = 3
MEGABYTE = 1 << 20
FEW_COMMITS = 10
FEW_LINES = 200
FEW_PEOPLE = 2
SEVERAL_CHANGES = 3

Level = Literal["low", "medium", "high"]
RiskKind = Literal["large_file", "unfinished_work", "bus_factor", "single_author"]


@dataclass(frozen=True)
class HotFile:
    """A file that is often changed and large."""

    path: FilePath
    changes: int
    lines: int
    people: int
    score: int
    """Changes times lines, scaled so that the first has 100."""


@dataclass(frozen=True)
class HotSpots:
    """The hottest files, and among how many changed files they were looked for."""

    files: tuple[HotFile, ...]
    candidates: int


@dataclass(frozen=True)
class FoundRisk:
    """One risk, worded."""

    kind: RiskKind
    level: Level
    subject: FilePath
    """The file that it is about, as the path is; empty when it is about all of them."""
    explanation: str


@dataclass(frozen=True)
class Risks:
    """The risks, the worst first."""

    found: tuple[FoundRisk, ...]


def hot_spots(changed: tuple[ChangedFile, ...], measured: Mapping[str, Contents]) -> HotSpots:
    """Rank changed files by changes times lines; code goes before prose and data, which change without being hot."""
    there = [file for file in changed if measured.get(file.path, Contents(0, 0)).lines]
    code = [file for file in there if language_of(file.path).kind is Kind.CODE]
    ranked = sorted(code or there, key=lambda file: (-file.changes * measured[file.path].lines, file.path))[:HOT]
    most = max((file.changes * measured[file.path].lines for file in ranked), default=1)
    return HotSpots(tuple(_hot(file, measured[file.path].lines, most) for file in ranked), len(code or there))


def _hot(file: ChangedFile, lines: int, most: int) -> HotFile:
    return HotFile(file.path, file.changes, lines, file.people, max(1, round(100 * file.changes * lines / most)))


def risks(listing: Listing, census: Census, history: History, hot: HotSpots) -> Risks:
    """Gather the risks of all kinds."""
    found = [*_bus_factor(history), *_large_files(listing), *_unfinished_work(census), *_single_authors(history, hot)]
    order = {"high": 0, "medium": 1, "low": 2}
    return Risks(tuple(sorted(found, key=lambda risk: order[risk.level])))


def _bus_factor(history: History) -> list[FoundRisk]:
    if history.commits < FEW_COMMITS or not 1 <= history.bus_factor <= FEW_PEOPLE:
        return []
    names = " and ".join(shown(person.name) for person in history.contributors[: history.bus_factor])
    share = round(100 * sum(one.commits for one in history.contributors[: history.bus_factor]) / history.commits)
    level: Level = "high" if history.bus_factor == 1 else "medium"
    alone = f"{history.single_handed:,} of {history.changed_files:,} changed files were touched by one person only"
    text = f"{names} made {share} % of the {history.commits:,} commits; {alone}."
    return [FoundRisk("bus_factor", level, "", text)]


def _large_files(listing: Listing) -> list[FoundRisk]:
    large = [found for found in listing.largest if found.size >= MEGABYTE][:LARGE_LISTED]
    return [
        FoundRisk(
            "large_file",
            _by(found.size, 10 * MEGABYTE, 100 * MEGABYTE),
            found.path,
            f"{size_in_words(found.size)} in one file.",
        )
        for found in large
    ]


def _unfinished_work(census: Census) -> list[FoundRisk]:
    if census.lines < FEW_LINES:
        return []
    density = 1000 * census.marks / census.lines
    if density < 1:
        return []
    marks = f"{census.marks:,} marks of unfinished work (TODO, FIXME, HACK, XXX)"
    text = f"{marks} in {census.lines:,} lines, {density:.1f} per thousand."
    files = [
        FoundRisk("unfinished_work", "low", file.path, f"{file.marks} marks in {file.lines:,} lines.")
        for file in census.densest[:MARKED_LISTED]
        if file.marks > 1
    ]
    return [FoundRisk("unfinished_work", _by(density, 5, 10), "", text), *files]


def _single_authors(history: History, hot: HotSpots) -> list[FoundRisk]:
    """Name hot spots that one person alone has touched, in a history where others could have."""
    if history.people < FEW_PEOPLE:
        return []
    return [
        FoundRisk(
            "single_author", "medium", file.path, f"A hot spot that one person alone has changed, {file.changes} times."
        )
        for file in hot.files[:MARKED_LISTED]
        if file.people == 1 and file.changes >= SEVERAL_CHANGES
    ]


def _by(figure: float, medium: float, high: float) -> Level:
    return "high" if figure >= high else "medium" if figure >= medium else "low"
