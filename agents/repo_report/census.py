"""What the files are made of: languages, lines, and the marks that people leave where work is unfinished.

Pure. There are two ways to a census: by names, from the listing alone, and by contents, from what `reading` found in
each file. Both give the same type; only the latter knows lines.
"""

from dataclasses import dataclass

from .languages import Kind, Language, language_of
from .listing import FoundFile, LanguageSize, Listing
from .paths import FilePath
from .ranking import Largest

DENSEST = 20


@dataclass(frozen=True)
class MarkedFile:
    """A file with marks of unfinished work in it."""

    path: FilePath
    marks: int
    lines: int


@dataclass(frozen=True)
class Census:
    """Languages by size; with lines and marks when the files were read."""

    read: bool
    languages: tuple[LanguageSize, ...]
    lines: int = 0
    marks: int = 0
    densest: tuple[MarkedFile, ...] = ()
    """The files with the most marks."""
    files_read: int = 0
    binary: int = 0
    """Files whose contents are not text."""
    too_large: int = 0
    unreadable: int = 0
    stopped: bool = False
    """Whether time ran out before all files were read."""


@dataclass(frozen=True)
class Contents:
    """What reading one file brought."""

    lines: int
    marks: int
    binary: bool = False


def census_by_names(listing: Listing) -> Census:
    """Make a census of a listing, without opening a file."""
    media = sum(one.files for one in listing.languages if one.language.kind is Kind.MEDIA)
    return Census(read=False, languages=listing.languages, binary=media)


class CensusTally:
    """A census by contents in the making."""

    def __init__(self) -> None:
        self._languages: dict[Language, list[int]] = {}
        self._densest = Largest[MarkedFile](DENSEST)
        self._counts = {"lines": 0, "marks": 0, "files_read": 0, "binary": 0, "too_large": 0, "unreadable": 0}

    def add(self, found: FoundFile, contents: Contents | None) -> None:
        """Count a file that was read; None when it could not be opened."""
        sums = self._sum(found)
        if contents is None:
            self._counts["unreadable"] += 1
            return
        self._counts["files_read"] += 1
        self._counts["binary"] += contents.binary
        self._counts["lines"] += contents.lines
        self._counts["marks"] += contents.marks
        sums[2] += contents.lines
        if contents.marks:
            self._densest.push(contents.marks, found.path, MarkedFile(found.path, contents.marks, contents.lines))

    def add_unread(self, found: FoundFile, *, too_large: bool) -> None:
        """Count a file that was left closed: too large, or known by its name not to be text."""
        self._sum(found)
        self._counts["too_large" if too_large else "binary"] += 1

    def _sum(self, found: FoundFile) -> list[int]:
        sums = self._languages.setdefault(language_of(found.path), [0, 0, 0])
        sums[0] += 1
        sums[1] += found.size
        return sums

    def finished(self, listing: Listing, *, stopped: bool) -> Census:
        """Sum up; files that time did not suffice for keep their place by name and size."""
        languages = tuple(
            LanguageSize(one.language, one.files, one.size, self._languages.get(one.language, [0, 0, 0])[2])
            for one in listing.languages
        )
        return Census(read=True, languages=languages, densest=self._densest.ordered(), stopped=stopped, **self._counts)
