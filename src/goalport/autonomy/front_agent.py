"""The front agent: one goal that takes a sentence, finds the goal that fits, and reaches it.

It is an agent like others, so that its progress, its questions and its results behave over every door as those of any
goal. What it starts is a sub-process. Below: `autonomy`. Above: the platform deploys it if the settings say so.
"""

from typing import Any, Final, Self, cast

from pydantic import BaseModel, Field, TypeAdapter
from pydantic_core import to_json

from goalport.autonomy.autonomy import Autonomy, Choice
from goalport.autonomy.start_objects import start_objects
from goalport.domain import Export, Goal, UserInput, achieves_goal, agent
from goalport.process import ActionContext

__all__ = ["Achieved", "front_agent"]

_NAME: Final = "achieve"


class Achieved(BaseModel):
    """What was reached, and by which goal."""

    content: str = Field(description="The result, to be read")
    goal: str = Field(description="The goal that was chosen")
    why: str = Field(description="Why it was chosen")
    result: Any = Field(None, description="The result of the goal")

    @classmethod
    def of(cls, choice: Choice, goal: Goal, result: object) -> Self:
        """What is said of a goal that was chosen and reached."""
        if goal.output is None:
            wire: object = None
        else:
            wire = TypeAdapter[Any](cast("Any", goal.output)).dump_python(result, mode="json", by_alias=True)
        content = result if isinstance(result, str) else getattr(result, "content", None)
        text = content if isinstance(content, str) else to_json(wire, indent=2).decode()
        return cls(content=text, goal=goal.export.name or goal.short_name, why=choice.why, result=wire)


@agent(name="FrontAgent", description="Does what a sentence asks for, with whichever goal of this server fits")
class _FrontAgent:
    """Chooses among the published goals. In open mode, all actions of the platform may help to reach the chosen one."""

    def __init__(self, autonomy: Autonomy, *, open_mode: bool) -> None:
        self._autonomy = autonomy
        self._open_mode = open_mode

    @achieves_goal(
        description="Do what a sentence asks for. The goal of this server that fits best is chosen and reached",
        export=Export(remote=True, name=_NAME, long=True, starting_input_types=[UserInput]),
    )
    async def achieve(self, user_input: UserInput, context: ActionContext) -> Achieved:
        """Choose a goal and reach it in a sub-process."""
        goals = [goal for each in self._autonomy.platform.agents for goal in each.goals]
        published = [each for each in goals if each.export.remote and each.export.name != _NAME]
        choice = await self._autonomy.choose_goal(user_input, among=published, assembled=self._open_mode, ai=context.ai)
        context.progress(choice.why)
        (goal,) = choice.agent.goals
        inputs = await start_objects(self._autonomy.platform, [goal], user_input, context.ai, context.ask)
        kind = cast("type[object]", goal.output or object)
        return Achieved.of(choice, goal, await context.as_sub_process(kind, choice.agent, *inputs))


def front_agent(autonomy: Autonomy, *, open_mode: bool = False) -> object:
    """An agent whose goal `achieve` takes a sentence and reaches the published goal that fits it best."""
    return _FrontAgent(autonomy, open_mode=open_mode)
