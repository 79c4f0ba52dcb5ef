"""The report in words: Markdown for people, short enough for a model.

Pure. Every text that comes from the repository goes through `text`, so that it cannot be taken for markup.
"""

from .figures import Figures, ReportedLanguage, ReportedRisk
from .text import code, count, number, plain, size_in_words, table

LISTED = 10
LANGUAGES = 12
SENTENCES = 1000
"""Our own sentences may be longer than what a repository says."""


def worded(report: Figures) -> str:
    """Write the whole report."""
    parts = [_heading(report), _risks(report.risks), _changes(report), _people(report), _hot_spots(report)]
    return "\n\n".join(part for part in (*parts, _languages(report), _notes(report)) if part) + "\n"


def _heading(report: Figures) -> str:
    summary = report.summary
    branch = f" on branch {code(report.branch)}" if report.branch else ""
    figures = [
        f"**{count(summary.files, 'file')}**, {size_in_words(summary.bytes)}",
        count(summary.lines, "line") if summary.lines else "",
        f"**{count(summary.commits, 'commit')}** by {count(summary.contributors, 'person', 'people')}"
        if summary.commits
        else "",
        f"{count(summary.changed_files, 'file')} changed",
        f"bus factor {summary.bus_factor}" if summary.bus_factor else "",
    ]
    sort = "Git repository" if report.kind == "git repository" else "Folder"
    lines = [
        f"# Report on {plain(report.path)}",
        f"{sort}{branch}, {report.period}.",
        " · ".join(filter(None, figures)),
    ]
    return "\n\n".join(lines)


def _risks(risks: list[ReportedRisk]) -> str:
    if not risks:
        return "## Risks\n\nNone found."
    lines = [f"- **{risk.level}**: {_subject(risk)}{plain(risk.explanation, SENTENCES)}" for risk in risks]
    return "\n".join(["## Risks\n", *lines])


def _subject(risk: ReportedRisk) -> str:
    return f"{code(risk.path)}: " if risk.path else ""


def _changes(report: Figures) -> str:
    if not report.changes:
        return f"## What changed\n\nNothing in this period ({report.period})."
    if report.kind == "folder":
        rows = [[change.day, code(change.text)] for change in report.changes[:LISTED]]
        changes = table(["Last modified", "File"], rows)
    else:
        rows = [
            [change.day, code(change.commit), plain(change.text), plain(change.author), number(change.files)]
            for change in report.changes[:LISTED]
        ]
        changes = table(["Day", "Commit", "Change", "By", "Files:"], rows)
    months = " · ".join(f"{month.month}: {number(month.changes)}" for month in report.months)
    return f"## What changed\n\n{changes}\n\nBy month: {months}"


def _people(report: Figures) -> str:
    if not report.contributors:
        return ""
    rows = [
        [
            plain(one.name),
            number(one.commits),
            f"+{number(one.lines_added)} −{number(one.lines_deleted)}",
            one.last_commit,
        ]
        for one in report.contributors[:LISTED]
    ]
    more = report.summary.contributors - len(rows)
    rest = f"\n\nAnd {count(more, 'other', 'others')}." if more > 0 else ""
    return f"## Who\n\n{table(['Name', 'Commits:', 'Lines:', 'Last'], rows)}{rest}"


def _hot_spots(report: Figures) -> str:
    if not report.hot_spots:
        return ""
    rows = [
        [
            code(spot.path),
            number(spot.changes),
            number(spot.lines),
            number(spot.people) if spot.people else "?",
            number(spot.score),
        ]
        for spot in report.hot_spots
    ]
    return f"## Hot spots (changes × lines)\n\n{table(['File', 'Changes:', 'Lines:', 'People:', 'Score:'], rows)}"


def _languages(report: Figures) -> str:
    if not report.languages:
        return "## Languages\n\nThe folder holds no files."
    rows = [_language(one) for one in report.languages[:LANGUAGES]]
    return f"## Languages\n\n{table(['Language', 'Files:', 'Size:', 'Lines:'], rows)}"


def _language(one: ReportedLanguage) -> list[str]:
    return [plain(one.name), number(one.files), size_in_words(one.bytes), number(one.lines) if one.lines else ""]


def _notes(report: Figures) -> str:
    return "\n".join(["## Notes\n", *(f"- {plain(note, SENTENCES)}" for note in report.notes)]) if report.notes else ""
