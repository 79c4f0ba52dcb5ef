"""Asking git for the history of a folder: one pass, newest commit first, stopped by number or time.

The edge between `git` and `history`. The two ways differ in whether git compares the contents of files: that is slower,
and impossible in a clone that left contents out.
"""

from dataclasses import dataclass
from datetime import timedelta

from .commits import FORMAT, Commit, read_log
from .deadline import Deadline
from .git import Git, Place
from .history import History, HistoryTally, Source
from .period import Period

LOG = (
    "log",
    "-z",
    f"--format=tformat:{FORMAT}",
    "--encoding=UTF-8",
    "--no-merges",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-show-signature",
    "--no-notes",
    "--no-color",
    "--no-decorate",
    "--ignore-submodules=all",
    "--diff-algorithm=myers",
    "-O/dev/null",
    "--relative",
)


@dataclass(frozen=True)
class LogRequest:
    """What to ask for."""

    place: Place
    period: Period
    line_counts: bool
    most: int
    """How many commits to read at most."""


def read_history(git: Git, wanted: LogRequest, deadline: Deadline) -> History | None:
    """Read the log into a history: as much as time allows; None when git fails, or knows no commit of this folder."""
    tally, full = HistoryTally(), False
    with git.run(wanted.place, _arguments(wanted), deadline) as run:
        for part in read_log(run.tokens()):
            full = isinstance(part, Commit) and tally.commits == wanted.most
            if full:
                break
            tally.add(part)
    always_empty = not tally.commits and wanted.period == Period()
    if run.ending == "failed" or always_empty or (run.ending == "stopped" and not tally.commits):
        return None
    source: Source = "git log" if wanted.line_counts else "git log without line counts"
    late = "" if run.ending == "whole" else "the time for reading the log was over"
    return tally.finished(source, f"only the newest {wanted.most:,} commits are counted" if full else late)


def _arguments(wanted: LogRequest) -> list[str]:
    since, until = wanted.period.since, wanted.period.until
    return [
        *LOG,
        "--numstat" if wanted.line_counts else "--raw",
        *([f"--since={since.isoformat()}"] if since else []),
        *([f"--until={(until - timedelta(seconds=1)).isoformat()}"] if until else []),
        "HEAD",
        "--",
        *([] if wanted.place.folder == wanted.place.top else ["."]),
    ]
