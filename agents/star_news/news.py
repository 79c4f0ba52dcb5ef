"""What is found for a person, and what is written about it. Data only."""

from pydantic import BaseModel, Field

__all__ = ["Horoscope", "NewsStories", "NewsStory", "Writeup"]


class Horoscope(BaseModel):
    """What the stars say to a sign on one day."""

    summary: str


class NewsStory(BaseModel):
    """A story that was found on the web."""

    # The link ends up in the text that people read, so that it must not be a script.
    url: str = Field(pattern=r"^https?://\S+$", max_length=2_000, description="Where the story is")
    title: str = Field(min_length=1, max_length=300)
    summary: str = Field(min_length=1, max_length=2_000, description="What it says, in a sentence or two")


class NewsStories(BaseModel):
    """The stories that fit a person and their day; none, when the web had none."""

    items: list[NewsStory] = Field(max_length=20)


class Writeup(BaseModel):
    """Something to read over coffee."""

    content: str = Field(min_length=1, description="The text in Markdown, with links to the stories")
