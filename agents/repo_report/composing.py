"""Putting together what the steps have found: the report as data, with its notes.

Pure. Above: the agent's last action.
"""

from dataclasses import dataclass

from .census import Census
from .figures import (
    ReportedChange,
    ReportedContributor,
    ReportedHotSpot,
    ReportedLanguage,
    ReportedMonth,
    ReportedRisk,
    Summary,
)
from .findings import HotSpots, Risks
from .history import History
from .listing import Listing, Oddity
from .report import RepositoryReport
from .target import Target
from .text import count, day, number, shown

LANGUAGES = 20
SKIPPED_NAMED = 6


@dataclass(frozen=True)
class Findings:
    """All that a report is made of."""

    target: Target
    listing: Listing
    history: History
    census: Census
    hot_spots: HotSpots
    risks: Risks


def compose(found: Findings) -> RepositoryReport:
    """Fill a report."""
    return RepositoryReport(
        path=shown(found.target.name),
        kind="folder" if found.history.source == "file times" else "git repository",
        branch=shown(found.target.repository.branch) if found.target.repository else "",
        period=found.target.period.label,
        summary=_summary(found),
        contributors=_contributors(found.history),
        changes=_changes(found.history),
        months=[ReportedMonth(month=month, changes=changes) for month, changes in found.history.months],
        hot_spots=_hot_spots(found.hot_spots),
        languages=_languages(found.census),
        risks=_risks(found.risks),
        notes=_notes(found),
    )


def _summary(found: Findings) -> Summary:
    history = found.history
    return Summary(
        files=found.listing.files,
        bytes=found.listing.size,
        lines=found.census.lines,
        commits=history.commits,
        contributors=history.people,
        changed_files=history.changed_files,
        lines_added=history.added,
        lines_deleted=history.deleted,
        bus_factor=history.bus_factor,
        unfinished_marks=found.census.marks,
    )


def _contributors(history: History) -> list[ReportedContributor]:
    return [
        ReportedContributor(
            name=shown(one.name),
            commits=one.commits,
            lines_added=one.added,
            lines_deleted=one.deleted,
            last_commit=day(one.last),
        )
        for one in history.contributors
    ]


def _changes(history: History) -> list[ReportedChange]:
    return [
        ReportedChange(
            day=day(event.at),
            text=shown(event.text),
            author=shown(event.who),
            commit=event.reference,
            files=event.files,
        )
        for event in history.recent
    ]


def _hot_spots(hot: HotSpots) -> list[ReportedHotSpot]:
    return [
        ReportedHotSpot(
            path=shown(file.path), changes=file.changes, lines=file.lines, people=file.people, score=file.score
        )
        for file in hot.files
    ]


def _languages(census: Census) -> list[ReportedLanguage]:
    return [
        ReportedLanguage(name=one.language.name, files=one.files, bytes=one.size, lines=one.lines)
        for one in census.languages[:LANGUAGES]
    ]


def _risks(risks: Risks) -> list[ReportedRisk]:
    return [
        ReportedRisk(kind=one.kind, level=one.level, path=shown(one.subject), explanation=one.explanation)
        for one in risks.found
    ]


def _notes(found: Findings) -> list[str]:
    notes = [found.target.note, *_history_notes(found), *_listing_notes(found.listing), *_census_notes(found.census)]
    return [note for note in notes if note]


def _history_notes(found: Findings) -> list[str]:
    history, repository = found.history, found.target.repository
    notes = [f"The history is cut: {history.stopped}." if history.stopped else ""]
    if history.source == "git log without line counts":
        notes.append(
            "Git could not compare all versions of the files (a clone without contents, or too slow):"
            " lines added and deleted are not known."
        )
    if history.source == "file times":
        notes.append(
            "Changes are judged by the times of the files: who made them is not known, and hot spots are the largest of"
            " the files changed."
        )
    if repository and not repository.has_commits:
        notes.append("The git repository has no commits yet.")
    elif repository and history.source == "file times":
        notes.append("Git knows no commit of this folder, or could not read its history.")
    if repository and repository.shallow:
        notes.append("This is a shallow clone: older commits are not there.")
    return notes


def _listing_notes(listing: Listing) -> list[str]:
    skipped = ", ".join(f"{shown(name)} ({number(times)})" for name, times in listing.skipped[:SKIPPED_NAMED])
    worded_oddities = {
        Oddity.TIME: "The time for listing files was over: not all files are counted.",
        Oddity.FULL: "There are more files than the report counts: the rest is left out.",
    }
    return [
        "Files that git tracks are counted, and no others." if listing.tracked else "",
        f"Folders skipped: {skipped}." if skipped else "",
        *(text for oddity, text in worded_oddities.items() if listing.count(oddity)),
        _left_out(listing),
        f"{count(listing.unusual_names, 'file name')} cannot be printed as they are, and are shown with escapes."
        if listing.unusual_names
        else "",
    ]


def _left_out(listing: Listing) -> str:
    things = {
        Oddity.LINK: ("symbolic link", "symbolic links"),
        Oddity.REPOSITORY: ("repository inside", "repositories inside"),
        Oddity.SPECIAL: ("file that is not a regular one", "files that are not regular ones"),
        Oddity.UNREADABLE: ("entry that may not be read", "entries that may not be read"),
        Oddity.MISSING: ("tracked file that is not there", "tracked files that are not there"),
    }
    counts = [count(listing.count(oddity), *names) for oddity, names in things.items() if listing.count(oddity)]
    return f"Met on the way: {', '.join(counts)}." if counts else ""


def _census_notes(census: Census) -> list[str]:
    if not census.read:
        return [
            "The files were not read (ask for a thorough report): lines and marks of unfinished work are not known."
        ]
    unread = [
        count(census.binary, "binary file") if census.binary else "",
        f"{number(census.too_large)} too large to read" if census.too_large else "",
        f"{number(census.unreadable)} that could not be opened" if census.unreadable else "",
    ]
    left_out = ", ".join(part for part in unread if part)
    return [
        f"Time was over after {count(census.files_read, 'file')}: lines and marks are those of the files read."
        if census.stopped
        else "",
        f"Not counted in lines: {left_out}." if left_out else "",
    ]
