"""What a caller asks for; its fields become the input of the tool, so their descriptions are written for a model."""

from pydantic import BaseModel, ConfigDict, Field


class RepositoryRequest(BaseModel):
    """Which folder to report on, and over which period."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(
        default=".",
        max_length=4096,
        description="The folder of a git repository, a folder in one, or a plain folder. Relative to the server's first"
        " allowed folder; `.` is that folder itself.",
    )
    period: str | None = Field(
        default=None,
        max_length=100,
        description="Count changes of this period only: a length before now (`30d`, `2 weeks`, `6 months`), a first day"
        " (`2026-01-01`) or a range of days (`2026-01-01..2026-03-31`, also open: `..2026-03-31`). Days are in UTC."
        " Leave it out for all time.",
    )
    thorough: bool = Field(
        default=False,
        description="Read the contents of the files even when there are many, for lines and marks such as TODO."
        " A small folder is read in any case. Takes some seconds longer.",
    )
