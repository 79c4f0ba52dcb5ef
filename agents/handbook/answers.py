"""What is looked for and asked, what a model answers, and what is made of that. Data only."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["DocsAnswer", "DocsHits", "DocsQuery", "Draft", "DraftStatement", "Hit", "Source", "Statement"]


class DocsQuery(BaseModel):
    """What to look for in the docs."""

    model_config = ConfigDict(frozen=True)

    query: str = Field(
        min_length=1,
        max_length=1_000,
        pattern=r"\S",
        description='Words, or a question. `+must`, `-not`, `"a phrase"`, `begin*` and `nearly~` are understood',
        examples=["how are waiting processes stored"],
    )
    limit: int = Field(default=5, ge=1, le=20, description="How many passages are wanted at most")


class Source(BaseModel):
    """Where a passage stands."""

    model_config = ConfigDict(frozen=True)

    document: str = Field(description="The path of the document, such as docs/waiting.md")
    section: list[str] = Field(description="The titles from the document's to the section's")
    uri: str
    start: int = Field(description="How many characters of the document stand before the passage")
    end: int = Field(description="How many characters of the document stand before the end of the passage")


class Hit(Source):
    """A passage that was found."""

    score: float = Field(description="How well it fits, from 0 to 1")
    excerpt: str = Field(description="The passage")


class DocsHits(BaseModel):
    """The passages that fit a query best."""

    model_config = ConfigDict(frozen=True)

    content: str = Field(description="The passages in Markdown, to be read")
    query: str
    hits: list[Hit] = Field(description="The best first")


class DraftStatement(BaseModel):
    """A part of an answer, as a model gives it."""

    model_config = ConfigDict(frozen=True)

    text: str = Field(min_length=1, max_length=2_000, description="What the docs say, in Markdown, without its source")
    passages: list[Annotated[str, Field(max_length=100)]] = Field(
        max_length=10, description="The ids of the passages that say it, each as it stands in its <data>"
    )


class Draft(BaseModel):
    """An answer, as a model gives it."""

    model_config = ConfigDict(frozen=True)

    statements: list[DraftStatement] = Field(
        max_length=20, description="The answer, in the order of reading; empty when the docs do not have it"
    )
    missing: str = Field(
        default="",
        max_length=1_000,
        description="What the docs do not say of what is asked; empty when they say it all",
    )


class Statement(BaseModel):
    """A part of an answer, with the passages that say it."""

    model_config = ConfigDict(frozen=True)

    text: str
    citations: list[Source] = Field(description="Passages that the model was shown before it wrote this")


class DocsAnswer(BaseModel):
    """An answer from the docs, each part of it with its sources."""

    model_config = ConfigDict(frozen=True)

    content: str = Field(description="The answer in Markdown with its sources, to be read")
    question: str
    answered: bool = Field(description="Whether the docs say anything about it")
    statements: list[Statement]
    missing: str = Field(description="What the docs do not say of what was asked; empty: nothing is missing")
    dropped: list[str] = Field(description="What the model wrote and was left out, because no source was shown to it")
