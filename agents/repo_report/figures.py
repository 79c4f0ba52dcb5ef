"""The figures of a report: the output of the tool, so every field says what it is.

Only declarations. Lists are cut to the first few, and `summary` has the totals; an unknown figure is 0 and an unknown
text is empty, so that no field needs an alternative type. `markdown` words them; `composing` fills them in.
"""

from typing import Literal

from pydantic import BaseModel, Field


class Summary(BaseModel):
    """The figures at a glance."""

    files: int = Field(description="Number of files counted.")
    bytes: int = Field(description="Their size together.")
    lines: int = Field(description="Their lines of text together; 0 when the files were not read.")
    commits: int = Field(description="Commits in the period, without merges; 0 when there is no git history.")
    contributors: int = Field(description="People who made them.")
    changed_files: int = Field(description="Files changed in the period.")
    lines_added: int = Field(description="Lines added in the period; 0 when not known.")
    lines_deleted: int = Field(description="Lines deleted in the period; 0 when not known.")
    bus_factor: int = Field(
        description="How few people made more than half of the commits; 1 means that one person did. 0 when not known."
    )
    unfinished_marks: int = Field(description="TODO, FIXME, HACK and XXX in the files; 0 when they were not read.")


class ReportedContributor(BaseModel):
    """One person's part."""

    name: str = Field(description="Name as given in the commits.")
    commits: int = Field(description="Commits in the period.")
    lines_added: int = Field(description="Lines added.")
    lines_deleted: int = Field(description="Lines deleted.")
    last_commit: str = Field(description="Day of the last commit, YYYY-MM-DD.")


class ReportedChange(BaseModel):
    """One recent change."""

    day: str = Field(description="Day, YYYY-MM-DD.")
    text: str = Field(description="Subject of the commit, or path of the file where there is no git history.")
    author: str = Field(description="Who made the commit; empty when not known.")
    commit: str = Field(description="Short hash of the commit; empty when there is none.")
    files: int = Field(description="Files changed.")


class ReportedMonth(BaseModel):
    """How much happened in a month."""

    month: str = Field(description="YYYY-MM.")
    changes: int = Field(description="Commits, or files last modified where there is no git history.")


class ReportedHotSpot(BaseModel):
    """A file that is both large and often changed."""

    path: str = Field(description="Path below the folder.")
    changes: int = Field(description="Commits that changed it in the period.")
    lines: int = Field(description="Its lines now.")
    people: int = Field(description="People who changed it in the period; 0 when not known.")
    score: int = Field(description="Changes times lines, scaled: the hottest file has 100.")


class ReportedLanguage(BaseModel):
    """How much is written in one language."""

    name: str = Field(description="Language, or sort of file.")
    files: int = Field(description="Number of files.")
    bytes: int = Field(description="Their size together.")
    lines: int = Field(description="Their lines; 0 when not read.")


class ReportedRisk(BaseModel):
    """Something to look at."""

    kind: Literal["large_file", "unfinished_work", "bus_factor", "single_author"] = Field(description="Kind of risk.")
    level: Literal["low", "medium", "high"] = Field(description="How grave it is.")
    path: str = Field(description="File that it is about; empty when it is about the whole folder.")
    explanation: str = Field(description="The risk in a sentence.")


class Figures(BaseModel):
    """All that a report says, as data."""

    path: str = Field(description="The folder, relative to the allowed folder that it is in; that one by its own name.")
    kind: Literal["git repository", "folder"] = Field(description="Whether a git history was used.")
    branch: str = Field(description="The branch checked out; empty when there is none.")
    period: str = Field(description="The period that changes were counted in.")
    summary: Summary = Field(description="The figures at a glance.")
    contributors: list[ReportedContributor] = Field(description="The most active people, at most 20.")
    changes: list[ReportedChange] = Field(description="The last changes, newest first, at most 15.")
    months: list[ReportedMonth] = Field(description="Activity by month, latest first, at most 12.")
    hot_spots: list[ReportedHotSpot] = Field(
        description="Files both large and often changed, hottest first, at most 10."
    )
    languages: list[ReportedLanguage] = Field(description="Languages by size, at most 20.")
    risks: list[ReportedRisk] = Field(description="Risks, gravest first.")
    notes: list[str] = Field(description="What the report leaves out and how well its figures are known.")
