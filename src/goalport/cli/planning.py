"""`goalport plan`: which actions reach a goal and why each is there, or what is missing.

Nothing runs: conditions count as unknown. Below the program; the platform is below it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.cli.folder import WorkspaceFolder
from goalport.cli.place import opened
from goalport.domain import Agent, Goal
from goalport.errors import UnknownName
from goalport.plan import Available
from goalport.platform import AgentPlatform

UNREACHABLE = 1


def plan(
    goal: Annotated[str, Parameter(help="The goal: its published, full or short name.")],
    /,
    *,
    given: Annotated[
        list[str] | None,
        Parameter(
            name=("--given",),
            negative="",
            help="A type that is there at the beginning; repeat it for more. Default: what the goal can be started from.",
        ),
    ] = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Explain which actions reach a goal, or why none do. Exit codes: 0 there is a plan, 1 there is none."""
    platform = opened(workspace).platform
    agent, found = platform.goal(goal)
    starts = [_types(platform, agent, given)] if given else _starts(platform, found)
    reached = [_explain(platform, found, start) for start in starts]
    return 0 if all(reached) else UNREACHABLE


def _explain(platform: AgentPlatform, goal: Goal, start: Sequence[object]) -> bool:
    explanation = platform.explain(goal, start)
    print(f"{goal.name} from {' and '.join(map(_named, start)) or 'nothing'}:")
    print(explanation.text())
    return explanation.plan is not None


def _starts(platform: AgentPlatform, goal: Goal) -> Sequence[Sequence[object]]:
    """Declared start types are alternatives; derived ones are needed together."""
    types = platform.starting_types(goal)
    return [[each] for each in types] if goal.export.starting_input_types else [types]


def _types(platform: AgentPlatform, agent: Agent, names: Sequence[str]) -> list[object]:
    known = {_named(kind): kind for kind in _known(platform, agent)}
    for name in names:
        if name not in known:
            raise UnknownName("type", name, known)
    return [known[name] for name in names]


def _known(platform: AgentPlatform, agent: Agent) -> Iterator[object]:
    for fact in platform.deployed.scope(agent).facts:
        if isinstance(fact, Available):
            yield fact.type


def _named(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))
