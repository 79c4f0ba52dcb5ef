"""What a goal that was chosen by a sentence starts from: the sentence, and objects that a model takes from it.

Above: `front_agent`, which asks people as a process does, and the command line, which asks on the terminal.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, cast

from goalport.agents.domain import Goal, UserInput
from goalport.base.words import type_name
from goalport.runtime.ai import Ai

AskForObject: TypeAlias = Callable[[str, type[object]], Awaitable[object]]
"""Asks a person for an object of a type, with a message."""


class StartingTypes(Protocol):
    """What is needed of a platform; `AgentPlatform` has it."""

    def starting_types(self, goal: str | Goal, /) -> tuple[object, ...]: ...


async def start_objects(
    platform: StartingTypes, goals: Sequence[Goal], said: UserInput, ai: Ai, ask: AskForObject
) -> list[object]:
    """The objects to start from: the sentence, and what the goal needs besides, of all goals that which needs least.

    A model takes them from the sentence; a person is asked for what the sentence does not say.
    """
    needs = [(_needed(platform, each), each) for each in goals]
    kinds, goal = min(needs, key=lambda each: len(each[0]))
    made: list[object] = [said]
    for kind in kinds:
        prompt = f"Take a {type_name(kind)} from this request.\n\n<request>\n{said.content}\n</request>"
        found = await ai.create_object_if_possible(prompt, cast("type[object]", kind))
        if found is None:
            found = await ask(f"{goal.description}: some details are missing.", cast("type[object]", kind))
        made.append(found)
    return made


def _needed(platform: StartingTypes, goal: Goal) -> Sequence[object]:
    """The types of which objects are needed besides the sentence; none, where the sentence is enough."""
    declared = goal.export.starting_input_types
    if declared:  # they are alternatives
        return () if UserInput in declared else declared[:1]
    return [each for each in platform.starting_types(goal) if each is not UserInput]
