"""What is checked, what a model finds, and what is made of that. Data only."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Assertions", "FactCheck", "FactChecks", "Finding", "Judgement", "Link", "Opinion", "Verdict"]

Opinion = Literal["true", "false", "unverifiable"]
"""What a model may think of an assertion."""
Verdict = Literal["true", "false", "disputed", "unverifiable"]
"""What all of them together say."""
Confidence = Annotated[float, Field(ge=0, le=1, description="How sure the verdict is, from 0 to 1")]


class Assertions(BaseModel):
    """Distinct factual assertions, each of them understood without the others."""

    model_config = ConfigDict(frozen=True)

    claims: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        max_length=30, description="Sentences that are either true or false"
    )

    @property
    def distinct(self) -> list[str]:
        """The claims, each once, as it is worded first; neither case nor spaces make a difference."""
        first = dict[str, str]()
        for each in self.claims:
            first.setdefault(" ".join(each.split()).casefold(), each)
        return list(first.values())


class Link(BaseModel):
    """A page that supports a verdict."""

    model_config = ConfigDict(frozen=True)

    # It ends up in the text that people read, so that it must be neither a script nor the end of its own markup.
    url: str = Field(pattern=r"^https?://[^\s<>]+$", max_length=2_000, description="Its address")
    title: str = Field(min_length=1, max_length=300)


class Judgement(BaseModel):
    """What a model says of one assertion."""

    model_config = ConfigDict(frozen=True)

    verdict: Opinion
    confidence: Confidence
    explanation: str = Field(min_length=1, max_length=1_000, description="Why, in a sentence or two")
    links: list[Link] = Field(default=[], max_length=5, description="Pages that the tools have found")


class Finding(Judgement):
    """A judgement, and whose and of what it is."""

    claim: str
    checker: str = Field(description="The model")


class FactCheck(BaseModel):
    """What all models together say of one assertion."""

    model_config = ConfigDict(frozen=True)

    claim: str
    verdict: Verdict
    confidence: Confidence
    explanation: str
    links: list[Link]
    findings: list[Finding] = Field(description="What each model said")


class FactChecks(BaseModel):
    """The assertions of a text, checked."""

    model_config = ConfigDict(frozen=True)

    content: str = Field(description="The verdicts in Markdown, to be read")
    checks: list[FactCheck]
    checkers: list[str] = Field(description="The models that were asked")
    searched: bool = Field(description="Whether they could search the web")
