"""`goalport agents`, `goals` and `actions`: the contents of a workspace, as tables or JSON.

Below the program; platform and publish are below it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.cli.options import WorkspaceFolder
from goalport.cli.terminal import Format, Record, show
from goalport.cli.workspace import LoadedWorkspace, open_with_warnings
from goalport.domain import Action, Agent
from goalport.publish.goal_tools import Offer, Refusal, offers_of
from goalport.publish.publication import publish
from goalport.words import type_label

OfAgent = Annotated[str | None, Parameter(help="Only those of this agent.")]


def agents(*, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002 - the option's name
    """List the agents: what each is for, what it has, and where it is declared."""
    loaded = open_with_warnings(workspace)
    show([_agent(each) for each in loaded.platform.agents], format, none=loaded.no_agents)


def goals(*, agent: OfAgent = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002
    """List the goals: the tools that each is published as, or why it is not."""
    loaded = open_with_warnings(workspace)
    show([each for each in _goals(loaded) if agent in {None, each["agent"]}], format, none=_none(loaded, agent))


def actions(*, agent: OfAgent = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002
    """List the actions: what each needs from the blackboard, and what it makes."""
    loaded = open_with_warnings(workspace)
    held = [*loaded.platform.agents, *loaded.platform.agents.components]
    records = [_action(each, step) for each in held if agent in {None, each.name} for step in each.actions]
    show(records, format, none=_none(loaded, agent))


def _none(loaded: LoadedWorkspace, agent: str | None) -> str:
    """Why a list is empty, in a sentence. Raises `UnknownName` when there is no such agent."""
    if agent is None or not len(loaded.platform.agents):
        return loaded.no_agents
    return f"{loaded.platform.agents.named(agent).name} has none."


def _agent(agent: Agent) -> Record:
    return {
        "agent": agent.name,
        "description": agent.description,
        "version": agent.version,
        "provider": agent.provider,
        "goals": list(dict.fromkeys(goal.short_name for goal in agent.goals)),
        "actions": list(dict.fromkeys(action.short_name for action in agent.actions)),
        "source": agent.source,
    }


def _goals(loaded: LoadedWorkspace) -> Iterator[Record]:
    published = publish(loaded.platform, loaded.workspace, loaded.settings).tools
    offered = list(offers_of(loaded.platform))
    for agent, goal in loaded.platform.agents.goals:
        offers = [each for each in offered if isinstance(each, Offer) and each.agent is agent and goal in each.goals]
        reasons = [each.reason for each in offered if isinstance(each, Refusal) and each.goal is goal]
        yield {
            "goal": goal.name,
            "agent": agent.name,
            "published_as": [each.name for each in offers if each.name in published],
            "starts_from": [" and ".join(map(type_label, each.starts)) for each in offers],
            "makes": None if goal.output is None else type_label(goal.output),
            "description": goal.description,
            "not_published": " ".join(reasons),
        }


def _action(agent: Agent, action: Action) -> Record:
    needed = [each for each in action.inputs if each.required]
    return {
        "action": action.short_name,
        "agent": agent.name,
        "needs": [type_label(each.type) for each in needed],
        "makes": [" and ".join(map(type_label, exit_)) for exit_ in action.outputs.exits],
        "pre": list(action.settings.pre),
        "post": list(action.settings.post),
        "cost": "computed" if action.cost is not None else action.settings.cost,
        "description": action.description.partition("\n")[0],
    }
