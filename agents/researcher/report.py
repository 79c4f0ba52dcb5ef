"""What is to be found out, a draft, and the report. Data only."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Draft", "ResearchPlan", "ResearchReport", "Source", "Standard"]


@dataclass(frozen=True, slots=True)
class Standard:
    """When a report is good enough."""

    score: float = 0.8
    """The score of the critic, from 0 to 1, from which a draft is accepted."""
    rounds: int = 3
    """How many drafts are written at most."""
    words: int = 600
    """How long a report may be."""


class ResearchPlan(BaseModel):
    """A question, and what a report has to say to answer it."""

    model_config = ConfigDict(frozen=True)

    question: str = Field(min_length=1, max_length=1_000)
    points: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(
        min_length=1, max_length=8, description="What the report has to cover, a sentence each"
    )


class Source(BaseModel):
    """A page that a report is based on."""

    model_config = ConfigDict(frozen=True)

    # It ends up in the text that people read, so that it must be neither a script nor the end of its own markup.
    url: str = Field(pattern=r"^https?://[^\s<>]+$", max_length=2_000, description="Its address")
    title: str = Field(min_length=1, max_length=300)


class Draft(BaseModel):
    """A report as far as it is written."""

    model_config = ConfigDict(frozen=True)

    title: str = Field(min_length=1, max_length=300)
    text: str = Field(min_length=1, description="The report in Markdown, without its title and its sources")
    sources: list[Source] = Field(default=[], max_length=20, description="Pages that the tools have found")


class ResearchReport(BaseModel):
    """A report, and what the critic thought of it."""

    model_config = ConfigDict(frozen=True)

    content: str = Field(description="The report in Markdown, with its sources, to be read")
    question: str
    accepted: bool = Field(description="Whether the critic accepted it; otherwise it is the best draft")
    score: float = Field(description="The score of the critic, from 0 to 1")
    critique: str = Field(description="What the critic said of it")
    rounds: int = Field(description="How many drafts were written")
    sources: list[Source]
    searched: bool = Field(description="Whether the writer could search the web")
