"""A story, what a person says about it, and what is handed over in the end."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Assessment", "HumanFeedback", "Lengths", "ReviewedStory", "Story"]


class Story(BaseModel):
    """A short story, as far as it is written."""

    model_config = ConfigDict(frozen=True)

    text: str = Field(min_length=1)


class HumanFeedback(BaseModel):
    """What the person who wanted the story says about it."""

    model_config = ConfigDict(frozen=True)

    comments: str = Field(
        title="Comments", min_length=1, description="What to change; or that you like the story as it is"
    )


class Assessment(BaseModel):
    """Whether a person accepts a story, as a model understands what they said."""

    model_config = ConfigDict(frozen=True)

    acceptable: bool = Field(description="True if the person accepts the story as it is")


class ReviewedStory(BaseModel):
    """A story that a person accepted, with a review."""

    model_config = ConfigDict(frozen=True)

    content: str = Field(description="The story and the review, to be read")
    story: str
    review: str
    reviewer: str
    revisions: int = Field(description="How often the story was revised")


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long the texts may be, in words."""

    story: int = 100
    review: int = 100
