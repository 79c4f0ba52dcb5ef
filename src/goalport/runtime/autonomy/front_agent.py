"""The front agent: one goal that takes a sentence, finds the goal that fits, and reaches it.

It is an agent like others, so that its progress, its questions and its results behave over every door as those of any
goal. What it starts is a sub-process. Below: `autonomy`. Above: the platform deploys it if the settings say so.
"""

from typing import cast

from goalport.agents.domain import Export, UserInput, achieves_goal, agent
from goalport.base.errors import ProcessEnded
from goalport.runtime.autonomy.autonomy import Autonomy
from goalport.runtime.autonomy.choice import Achieved
from goalport.runtime.autonomy.start_objects import start_objects
from goalport.runtime.process import ActionContext


@agent(description="Does what a sentence asks for, with whichever goal of this server fits", opaque=True)
class FrontAgent:
    """Chooses among the published goals that its caller may start.

    In open mode, all actions of the platform may help to reach the chosen one.
    """

    def __init__(self, autonomy: Autonomy, *, open_mode: bool) -> None:
        self._autonomy = autonomy
        self._open_mode = open_mode

    @achieves_goal(
        description="Do what a sentence asks for. The goal of this server that fits best is chosen and reached",
        export=Export(remote=True, name="achieve", long=True, starting_input_types=[UserInput]),
    )
    async def achieve(self, user_input: UserInput, context: ActionContext) -> Achieved:
        """Choose a goal and reach it in a sub-process."""
        goals = [goal for each in self._autonomy.platform.agents for goal in each.goals]
        may_start = self._autonomy.platform.may_start
        published = [each for each in goals if each.export.remote and may_start(context.caller, each)]
        choice = await self._autonomy.choose_goal(user_input, among=published, assembled=self._open_mode, ai=context.ai)
        context.progress(choice.why)
        (goal,) = choice.agent.goals
        inputs = await start_objects(self._autonomy.platform, [goal], user_input, context.ai, context.ask)
        kind = cast("type[object]", goal.output or object)
        try:
            result = await context.as_sub_process(kind, choice.agent, *inputs)
        except ProcessEnded as end:
            raise type(end)(end.process_id, f"{choice.why} It was not reached. {end.reason}") from end
        return Achieved.of(choice, goal, result)


def front_agent(autonomy: Autonomy, *, open_mode: bool = False) -> object:
    """An agent whose goal `achieve` takes a sentence and reaches the published goal that fits it best."""
    return FrontAgent(autonomy, open_mode=open_mode)
