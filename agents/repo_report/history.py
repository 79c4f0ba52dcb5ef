"""What changed in a folder, when and by whom, summed up as it comes by.

Pure, and bounded. There are several ways to a history: commits with line counts, commits without, and the times of
files where there is no git; all give the same type, and say which it was.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from .commits import Change, Commit
from .listing import Listing, latest, month_of
from .paths import FilePath
from .ranking import Largest

CONTRIBUTORS = 20
RECENT = 15
CHANGED = 400
MOST_PATHS = 200_000
MOST_PEOPLE = 20_000
OTHERS = "others"
LAST_BIT = 1023
"""The people of each file are a set of bits; those who came later share the last one, which keeps it small."""

Source = Literal["git log", "git log without line counts", "file times"]


@dataclass(frozen=True)
class Contributor:
    """One person's part in the period; people are told apart by their e-mail addresses, which are not kept."""

    name: str
    commits: int
    added: int
    deleted: int
    last: int


@dataclass(frozen=True)
class ChangedFile:
    """A file that changed in the period, and how much."""

    path: FilePath
    changes: int
    added: int = 0
    deleted: int = 0
    people: int = 0
    """How many people changed it; 0 when that is not known."""


@dataclass(frozen=True)
class Event:
    """One thing that happened: a commit, or a file written when there is no git."""

    at: float
    text: FilePath
    who: str = ""
    reference: str = ""
    files: int = 1
    added: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class History:
    """What changed; `source` says how well it is known."""

    source: Source
    commits: int
    changed_files: int
    contributors: tuple[Contributor, ...]
    """The most active ones."""
    people: int
    added: int
    deleted: int
    changed: tuple[ChangedFile, ...]
    """The most often changed files."""
    recent: tuple[Event, ...]
    months: tuple[tuple[str, int], ...]
    """Commits, or modified files, by month, the latest month first."""
    bus_factor: int
    """How many people, the most active first, made more than half of the commits; 0 when not known."""
    single_handed: int
    """How many of the changed files only one person has touched."""
    stopped: str = ""
    """Why older commits are missing, empty when none are."""


def history_from_file_times(listing: Listing) -> History:
    """Take the last modified files for what changed; who did it is not known."""
    return History(
        source="file times",
        commits=0,
        changed_files=listing.modified,
        contributors=(),
        people=0,
        added=0,
        deleted=0,
        changed=tuple(ChangedFile(found.path, 1) for found in listing.modified_code),
        recent=tuple(Event(found.modified, found.path) for found in listing.newest),
        months=listing.months,
        bus_factor=0,
        single_handed=0,
    )


@dataclass(slots=True)
class _Person:
    number: int
    name: str
    last: int
    commits: int = 0
    added: int = 0
    deleted: int = 0


@dataclass(slots=True)
class _File:
    changes: int = 0
    added: int = 0
    deleted: int = 0
    people: int = 0
    """A set of the numbers of people, as bits."""


@dataclass(slots=True)
class _Recent:
    commit: Commit
    files: int = 0
    added: int = 0
    deleted: int = 0


@dataclass
class HistoryTally:
    """A history from commits in the making; commits come newest first."""

    commits: int = 0
    _people: dict[str, _Person] = field(default_factory=dict[str, _Person])
    _files: dict[str, _File] = field(default_factory=dict[str, _File])
    _recent: list[_Recent] = field(default_factory=list[_Recent])
    _months: Counter[str] = field(default_factory=Counter[str])
    _author: _Person | None = None

    def add(self, part: Commit | Change) -> None:
        """Count a commit, or a change that belongs to the commit before it."""
        if isinstance(part, Commit):
            self._add_commit(part)
        elif self._author is not None:
            self._add_change(part, self._author)

    def _add_commit(self, commit: Commit) -> None:
        self.commits += 1
        self._months[month_of(commit.at)] += 1
        key = commit.email.lower() or commit.name
        if key not in self._people and len(self._people) >= MOST_PEOPLE:
            key = OTHERS
        name = OTHERS if key == OTHERS else commit.name
        self._author = self._people.setdefault(key, _Person(len(self._people), name, commit.at))
        self._author.commits += 1
        if len(self._recent) < RECENT:
            self._recent.append(_Recent(commit))

    def _add_change(self, change: Change, author: _Person) -> None:
        author.added += change.added
        author.deleted += change.deleted
        if self.commits <= RECENT:
            recent = self._recent[-1]
            recent.files += 1
            recent.added += change.added
            recent.deleted += change.deleted
        file = self._files.get(change.path)
        if file is None:
            if len(self._files) >= MOST_PATHS:
                return
            file = self._files[change.path] = _File()
        file.changes += 1
        file.added += change.added
        file.deleted += change.deleted
        file.people |= 1 << min(author.number, LAST_BIT)

    def finished(self, source: Source, stopped: str = "") -> History:
        """Sum up."""
        people = sorted(self._people.values(), key=lambda person: (-person.commits, person.number))
        return History(
            source=source,
            commits=self.commits,
            changed_files=len(self._files),
            contributors=tuple(_contributor(person) for person in people[:CONTRIBUTORS]),
            people=len(people),
            added=sum(person.added for person in people),
            deleted=sum(person.deleted for person in people),
            changed=self._most_changed(),
            recent=tuple(_event(recent) for recent in self._recent),
            months=latest(self._months),
            bus_factor=bus_factor([person.commits for person in people]),
            single_handed=sum(file.people.bit_count() == 1 for file in self._files.values()),
            stopped=stopped,
        )

    def _most_changed(self) -> tuple[ChangedFile, ...]:
        largest = Largest[ChangedFile](CHANGED)
        for path, file in self._files.items():
            changed = ChangedFile(path, file.changes, file.added, file.deleted, file.people.bit_count())
            largest.push(file.changes + (file.added + file.deleted) / 1e9, path, changed)
        return largest.ordered()


def bus_factor(commits: list[int]) -> int:
    """Count how many people made more than half of the commits together, given each one's, the largest first."""
    half, total = sum(commits) / 2, 0
    for count, share in enumerate(commits, 1):
        total += share
        if total > half:
            return count
    return 0


def _contributor(person: _Person) -> Contributor:
    return Contributor(person.name, person.commits, person.added, person.deleted, person.last)


def _event(recent: _Recent) -> Event:
    commit = recent.commit
    return Event(commit.at, commit.subject, commit.name, commit.hash, recent.files, recent.added, recent.deleted)
