"""The front agent: one goal that takes a sentence, finds the goal that fits, and reaches it.

It is an agent like others, so that its progress, its questions and its results behave over every door as those of any
goal. What it starts is a sub-process. Below: `autonomy`. Above: the platform deploys it if the settings say so.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

from goalport.agents.domain import Export, Goal, UserInput, achieves_goal, agent
from goalport.base.errors import ProcessEnded
from goalport.base.words import type_name
from goalport.runtime.ai import Ai
from goalport.runtime.autonomy.autonomy import Autonomy, Platform
from goalport.runtime.autonomy.ranking import Achieved
from goalport.runtime.process import ActionContext


@agent(description="Does what a sentence asks for, with whichever goal of this server fits", opaque=True)
class FrontAgent:
    """Its goal `achieve` takes a sentence, and reaches the published goal that fits best and its caller may start.

    In open mode, all actions of the platform may help to reach that.
    """

    def __init__(self, autonomy: Autonomy, *, open_mode: bool = False) -> None:
        self._autonomy, self._open_mode = autonomy, open_mode

    @achieves_goal(
        description="Do what a sentence asks for. The goal of this server that fits best is chosen and reached",
        export=Export(remote=True, name="achieve", long=True, starting_input_types=[UserInput]),
    )
    async def achieve(self, user_input: UserInput, context: ActionContext) -> Achieved:
        """Choose a goal and reach it in a sub-process."""
        platform = self._autonomy.platform
        goals = (goal for each in platform.agents for goal in each.goals)
        among = [each for each in goals if each.export.remote and platform.may_start(context.caller, each)]
        choice = await self._autonomy.choose_goal(user_input, among=among, assembled=self._open_mode, ai=context.ai)
        context.progress(choice.why)
        (goal,) = choice.agent.goals
        inputs = await start_objects(platform, [goal], user_input, context.ai, context.ask)
        kind = cast("type[object]", goal.output or object)
        try:
            result = await context.as_sub_process(kind, choice.agent, *inputs)
        except ProcessEnded as end:
            raise type(end)(end.process_id, f"{choice.why} It was not reached. {end.reason}") from end
        return Achieved.of(choice, goal, result)


AskForObject: TypeAlias = Callable[[str, type[object]], Awaitable[object]]
"""Asks a person for an object of a type, with a message."""


async def start_objects(
    platform: Platform, goals: Sequence[Goal], said: UserInput, ai: Ai, ask: AskForObject
) -> list[object]:
    """The objects to start from: the sentence, and what the goal needs besides, of all goals that which needs least.

    A model takes them from the sentence; a person is asked for what the sentence does not say.
    """
    needs: list[tuple[Sequence[object], Goal]] = []
    for goal in goals:
        if declared := goal.export.starting_input_types:  # they are alternatives
            needs.append((() if UserInput in declared else declared[:1], goal))
        else:
            needs.append(([each for each in platform.starting_types(goal) if each is not UserInput], goal))
    kinds, goal = min(needs, key=lambda each: len(each[0]))
    made: list[object] = [said]
    for kind in kinds:
        prompt = f"Take a {type_name(kind)} from this request.\n\n<request>\n{said.content}\n</request>"
        found = await ai.create_object_if_possible(prompt, cast("type[object]", kind))
        if found is None:
            found = await ask(f"{goal.description}: some details are missing.", cast("type[object]", kind))
        made.append(found)
    return made
