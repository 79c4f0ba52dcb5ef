"""The files of a folder, summed up as they come by: how many, how large, which are largest and which are newest.

Pure, and bounded: a listing of a million files is as small as one of a thousand, so that a run can be kept and stored.
The walk that finds the files is in `walking`; the census and the history from file times are made from a listing.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from .languages import Kind, Language, language_of
from .paths import FilePath
from .period import Period
from .ranking import Largest

LARGEST = 20
NEWEST = 15
MODIFIED = 100
MONTHS = 12


class FoundFile(NamedTuple):
    """A regular file, by its path below the folder (surrogates stand for bytes that are not UTF-8)."""

    path: FilePath
    size: int
    modified: float


class Oddity(StrEnum):
    """What a walk meets that is not a file to count."""

    FOLDER = "folder"
    SKIPPED = "skipped"
    LINK = "link"
    SPECIAL = "special"
    UNREADABLE = "unreadable"
    REPOSITORY = "repository"
    MISSING = "missing"
    TIME = "time"
    FULL = "full"


class Aside(NamedTuple):
    """One oddity, and the name that it was met under."""

    oddity: Oddity
    name: str = ""


class LanguageSize(NamedTuple):
    """How much of a folder is written in one language."""

    language: Language
    files: int
    size: int
    lines: int = 0
    """0 when the files were not read."""


@dataclass(frozen=True)
class Listing:
    """What a folder holds, by names, sizes and times."""

    tracked: bool
    """True: the files that git tracks; False: all files, but those in skipped folders."""
    files: int
    size: int
    languages: tuple[LanguageSize, ...]
    largest: tuple[FoundFile, ...]
    newest: tuple[FoundFile, ...]
    """The last modified files of the period."""
    modified_code: tuple[FoundFile, ...]
    """The largest files of code that were last modified in the period."""
    modified: int
    """How many files were last modified in the period."""
    months: tuple[tuple[str, int], ...]
    """How many of them by month, the latest month first."""
    oddities: tuple[tuple[Oddity, int], ...]
    skipped: tuple[tuple[str, int], ...]
    """Names of skipped folders, and how often each was met."""
    unusual_names: int
    """File names that are not UTF-8, or hold characters that cannot be printed."""

    def count(self, oddity: Oddity) -> int:
        """Tell how often an oddity was met."""
        return dict(self.oddities).get(oddity, 0)


class ListingTally:
    """A listing in the making."""

    def __init__(self, period: Period) -> None:
        self._period = period
        self._languages: dict[Language, list[int]] = {}
        self._largest = Largest[FoundFile](LARGEST)
        self._newest = Largest[FoundFile](NEWEST)
        self._modified_code = Largest[FoundFile](MODIFIED)
        self._months = Counter[str]()
        self._oddities = Counter[Oddity]()
        self._skipped = Counter[str]()
        self._unusual = 0
        self.files = 0

    def add(self, found: FoundFile) -> None:
        """Count a file."""
        self.files += 1
        self._unusual += not found.path.isprintable()
        language = language_of(found.path)
        sums = self._languages.setdefault(language, [0, 0])
        sums[0] += 1
        sums[1] += found.size
        self._largest.push(found.size, found.path, found)
        if self._period.holds(found.modified):
            self._add_modified(found, language)

    def _add_modified(self, found: FoundFile, language: Language) -> None:
        self._newest.push(found.modified, found.path, found)
        self._months[month_of(found.modified)] += 1
        if language.kind is Kind.CODE:
            self._modified_code.push(found.size, found.path, found)

    def note(self, aside: Aside) -> None:
        """Count an oddity."""
        self._oddities[aside.oddity] += 1
        if aside.oddity is Oddity.SKIPPED:
            self._skipped[aside.name] += 1

    def finished(self, *, tracked: bool) -> Listing:
        """Sum up."""
        languages = [LanguageSize(language, files, size) for language, (files, size) in self._languages.items()]
        return Listing(
            tracked=tracked,
            files=self.files,
            size=sum(language.size for language in languages),
            languages=tuple(sorted(languages, key=lambda one: (-one.size, one.language.name))),
            largest=self._largest.ordered(),
            newest=self._newest.ordered(),
            modified_code=self._modified_code.ordered(),
            modified=sum(self._months.values()),
            months=latest(self._months),
            oddities=tuple(self._oddities.items()),
            skipped=tuple(self._skipped.most_common()),
            unusual_names=self._unusual,
        )


def latest(months: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Put months in order, the latest first, and keep the first few."""
    return tuple(sorted(months.items(), reverse=True)[:MONTHS])


def month_of(moment: float) -> str:
    """Name the month of a time stamp, in UTC; a stamp that no calendar holds has a name too."""
    try:
        return time.strftime("%Y-%m", time.gmtime(moment))
    except (ValueError, OverflowError, OSError):
        return "unknown"
