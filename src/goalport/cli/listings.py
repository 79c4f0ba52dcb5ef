"""`goalport agents`, `goals`, `actions`, `conditions` and `models`: the contents of a workspace, as tables or JSON.

No model is asked, and no provider's library is loaded. Below the program; platform and publish are below it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.agents.domain import Action, Agent, Condition, Input
from goalport.agents.domain.formulas import names_known, needs_of
from goalport.base.words import type_label
from goalport.cli.options import WorkspaceFolder
from goalport.cli.terminal import Format, Record, show
from goalport.cli.workspace import LoadedWorkspace, open_with_warnings
from goalport.models.llm import ModelCard
from goalport.server.publish.goal_tools import Offer, Refusal, offers_of
from goalport.server.publish.publication import publish

OfAgent = Annotated[str | None, Parameter(help="Only those of this agent.")]


def agents(*, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002 - the option's name
    """List the agents: what each is for, what it has, and where it is declared."""
    loaded = open_with_warnings(workspace)
    records = [
        {
            "agent": agent.name,
            "description": agent.description,
            "kind": "agent" if agent.chat is None else "chatbot",
            "version": agent.version,
            "provider": agent.provider,
            "goals": list(dict.fromkeys(goal.short_name for goal in agent.goals)),
            "actions": list(dict.fromkeys(action.short_name for action in agent.actions)),
            "source": agent.source,
        }
        for agent in loaded.platform.agents
    ]
    show(records, format, none=loaded.no_agents_message)


def goals(*, agent: OfAgent = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002
    """List the goals: the tools that each is published as, or why it is not."""
    loaded = open_with_warnings(workspace)
    records = [each for each in _goals(loaded) if agent in {None, each["agent"]}]
    show(records, format, none=_empty_message(loaded, agent, "goals"))


def actions(*, agent: OfAgent = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002
    """List the actions: what each needs from the blackboard, and what it makes."""
    loaded = open_with_warnings(workspace)
    held = [*loaded.platform.agents, *loaded.platform.agents.components]
    records = [_action(each, step) for each in held if agent in {None, each.name} for step in each.actions]
    show(records, format, none=_empty_message(loaded, agent, "actions"))


def conditions(*, agent: OfAgent = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002
    """List the conditions: what decides each, and which actions ask for it."""
    loaded = open_with_warnings(workspace)
    held = [*loaded.platform.agents, *loaded.platform.agents.components]
    records = [
        {
            "condition": condition.name,
            "agent": each.name,
            "reads": [type_label(part.type) for part in condition.parameters if isinstance(part, Input)],
            "asked_by": [step.short_name for step in each.actions if _asks(each, step, condition)],
            "cost": condition.cost,
        }
        for each in held
        if agent in {None, each.name}
        for condition in each.conditions
    ]
    show(records, format, none=_empty_message(loaded, agent, "conditions"))


def _asks(agent: Agent, action: Action, condition: Condition) -> bool:
    return any(condition.name in term for term in needs_of(action, names_known(agent)))


def models(*, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002 - the option's name
    """List the language models: provider, roles, price in US dollars per million tokens, and what is to be set.

    A model counts as ready when nothing is missing here; its provider is not asked.
    """
    loaded = open_with_warnings(workspace)
    show(list(_models(loaded)), format, none="There are no models.")


def _empty_message(loaded: LoadedWorkspace, agent: str | None, what: str) -> str:
    """Why a list of goals or actions is empty, in a sentence. Raises `UnknownName` when there is no such agent."""
    if not len(loaded.platform.agents):
        return loaded.no_agents_message
    if agent is None:
        return f"No agent here has {what}."
    return f"{loaded.platform.agents.named(agent).name} has no {what}."


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
        "trigger": "" if action.settings.trigger is None else type_label(action.settings.trigger),
        "pre": list(action.settings.pre),
        "post": list(action.settings.post),
        "cost": "computed" if action.cost is not None else action.settings.cost,
        "description": action.description.partition("\n")[0],
    }


def _models(loaded: LoadedWorkspace) -> Iterator[Record]:
    settings, known = loaded.settings.models, loaded.platform.models
    names = [known.default, *settings.models_of_roles.values(), *(each.name for each in settings.custom)]
    cards = known.cards()
    by_name = {name: _card(name, cards) for name in dict.fromkeys(names)}
    further = {each.name: each for each in cards if each not in by_name.values()}
    for name, card in (by_name | further).items():
        unready = known.unready(name)
        roles = [role for role, model in settings.models_of_roles.items() if model == name]
        yield {
            "model": name,
            "provider": card.provider,
            "roles": [*(["default"] if name == known.default else []), *roles],
            "ready": not unready,
            # Where the settings give no price, it is the provider's list price, which is looked up when needed.
            "prices": None if card.prices is None else f"{card.prices.input:g} in, {card.prices.output:g} out",
            "knowledge_cutoff": None if card.knowledge_cutoff is None else card.knowledge_cutoff.isoformat(),
            "to_do": unready,
        }


def _card(name: str, cards: tuple[ModelCard, ...]) -> ModelCard:
    """The card of a model, by its name with or without its provider in front."""
    fitting = (each for each in cards if name in {each.name, f"{each.provider}:{each.name}"})
    return next(fitting, ModelCard(name=name, provider=""))
