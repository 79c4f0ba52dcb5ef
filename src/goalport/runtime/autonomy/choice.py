"""What was chosen and why, and what is told of it when it was reached.

Above: `autonomy` makes choices, `front_agent` and the command line tell what came of them.
"""

from dataclasses import dataclass
from typing import Any, Self, cast

from pydantic import BaseModel, Field, TypeAdapter
from pydantic_core import to_json

from goalport.agents.domain import Agent, Goal
from goalport.runtime.autonomy.ranking import Ranking
from goalport.runtime.process import Spending


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and why."""

    agent: Agent
    """The agent to run: a deployed one, or one that was assembled for the goal."""
    goals: tuple[str, ...]
    """The names of its goals to pursue."""
    intent: str
    """What somebody wants, in their words."""
    ranking: Ranking
    spent: tuple[Spending, ...] = ()
    """What the choice has cost. If it was made in an action, this is empty, since the action has paid."""

    @property
    def name(self) -> str:
        """The name of the candidate that was chosen."""
        return self.ranking.ranked[0].name

    @property
    def why(self) -> str:
        """A sentence that says why it was chosen."""
        best, *others = self.ranking.ranked
        if not others:
            return f"{best.name} was chosen: there is nothing else."
        near = [each for each in others if each.confidence > 0]
        before = f"before {Ranking(tuple(near)).nearest}" if near else "and nothing else fits"
        return f"{best.name} was chosen with a confidence of {best.confidence:.2f}, {before}."


class Achieved(BaseModel):
    """What was reached, and by which goal."""

    content: str = Field(description="The result, to be read")
    goal: str = Field(description="The goal that was chosen")
    why: str = Field(description="Why it was chosen")
    result: Any = Field(None, description="The result of the goal")

    @classmethod
    def of(cls, choice: Choice, goal: Goal, result: object) -> Self:
        """What is told of a goal that was chosen and reached."""
        if goal.output is None:
            return cls(content="Done.", goal=goal.export.name or goal.short_name, why=choice.why, result=None)
        wire = TypeAdapter[Any](cast("Any", goal.output)).dump_python(result, mode="json", by_alias=True)
        content = result if isinstance(result, str) else getattr(result, "content", None)
        text = content if isinstance(content, str) else to_json(wire, indent=2).decode()
        return cls(content=text, goal=goal.export.name or goal.short_name, why=choice.why, result=wire)
