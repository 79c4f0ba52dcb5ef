"""`goalport plan`: which actions reach a goal and why each is there, or what is missing.

Nothing runs: conditions count as unknown. Below the program; the platform is below it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.cli.chosen import Chosen, chosen
from goalport.cli.folder import WorkspaceFolder
from goalport.cli.place import opened
from goalport.domain import Goal
from goalport.errors import BadInput, UnknownName
from goalport.plan import Available
from goalport.platform import AgentPlatform
from goalport.serve.names import label

REACHED, UNREACHED = 0, 1


def plan(
    goal: Annotated[str, Parameter(help="The goal: its published, full or short name.")],
    /,
    *,
    given: Annotated[
        list[str] | None,
        Parameter(negative="", help="A type to start from; repeat it for more. Default: those that the goal names."),
    ] = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Explain which actions reach a goal, or why none do.

    Exit codes: 0 there is a plan, 1 there is none.
    """
    place = opened(workspace)
    if not len(place.platform.agents):
        raise BadInput(place.no_agents)
    found = chosen(place.platform, goal)
    starts = (_types(place.platform, found, given),) if given else found.starts
    plans = [_explain(place.platform, each, types) for each in found.goals for types in starts]
    return REACHED if all(plans) else UNREACHED


def _explain(platform: AgentPlatform, goal: Goal, types: Sequence[object]) -> bool:
    explanation = platform.explain(goal, types)
    print(f"{goal.name} from {' and '.join(map(label, types)) or 'nothing'}:")
    print(explanation.text())
    return explanation.plan is not None


def _types(platform: AgentPlatform, found: Chosen, names: Sequence[str]) -> tuple[object, ...]:
    """The types of those names that some action of the agent takes or makes."""
    facts = platform.agents.scope(found.agent).facts
    known = {label(fact.type): fact.type for fact in facts if isinstance(fact, Available)}
    for name in names:
        if name not in known:
            raise UnknownName("type", name, known)
    return tuple(known[name] for name in names)
