"""The front agent: one goal that takes a sentence, finds the goal that fits, and reaches it.

It is an agent like others, so that its progress, its questions and its results behave over every door as those of any
goal. What it starts is a sub-process. Below: `autonomy`. Above: the platform deploys it if the settings say so.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, Field, TypeAdapter
from pydantic_core import to_json

from goalport.autonomy.autonomy import Autonomy, Choice
from goalport.domain import Export, Goal, UserInput, achieves_goal, agent
from goalport.process import ActionContext
from goalport.words import type_name

__all__ = ["Achieved", "front_agent"]

_NAME: Final = "achieve"


class Achieved(BaseModel):
    """What was reached, and by which goal."""

    content: str = Field(description="The result, to be read")
    goal: str = Field(description="The goal that was chosen")
    why: str = Field(description="Why it was chosen")
    result: Any = Field(None, description="The result of the goal")


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
        inputs = await _inputs(self._autonomy, goal, user_input, context)
        kind = cast("type[object]", goal.output or object)
        return _achieved(choice, goal, await context.as_sub_process(kind, choice.agent, *inputs))


def front_agent(autonomy: Autonomy, *, open_mode: bool = False) -> object:
    """An agent whose goal `achieve` takes a sentence and reaches the published goal that fits it best."""
    return _FrontAgent(autonomy, open_mode=open_mode)


async def _inputs(autonomy: Autonomy, goal: Goal, said: UserInput, context: ActionContext) -> Sequence[object]:
    """What the goal starts from: the sentence, or objects that a model makes of it; a person is asked for the rest."""
    made: list[object] = [said]
    for kind in _starting_types(autonomy, goal):
        prompt = f"Take a {type_name(kind)} from this request.\n\n<request>\n{said.content}\n</request>"
        found = await context.ai.create_object_if_possible(prompt, cast("type[object]", kind))
        if found is None:
            found = await context.ask(f"{goal.description}: some details are missing.", cast("type[object]", kind))
        made.append(found)
    return made


def _starting_types(autonomy: Autonomy, goal: Goal) -> Sequence[object]:
    """The types of which objects are needed besides the sentence; none, where the sentence is enough."""
    declared = goal.export.starting_input_types
    if declared:  # they are alternatives
        return () if UserInput in declared else declared[:1]
    return [each for each in autonomy.platform.starting_types(goal) if each is not UserInput]


def _achieved(choice: Choice, goal: Goal, result: object) -> Achieved:
    if goal.output is None:
        wire: object = None
    else:
        wire = TypeAdapter[Any](cast("Any", goal.output)).dump_python(result, mode="json", by_alias=True)
    content = result if isinstance(result, str) else getattr(result, "content", None)
    text = content if isinstance(content, str) else to_json(wire, indent=2).decode()
    return Achieved(content=text, goal=choice.name, why=choice.why, result=wire)
