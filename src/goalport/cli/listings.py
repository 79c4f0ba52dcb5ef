"""`goalport check`, `agents`, `goals`, `actions`, `models`, …: what is in a workspace, and what is wrong with it.

Nothing runs, no model is asked, and no provider's library is loaded.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, cast

from cyclopts import Parameter

from goalport.agents.domain import Input
from goalport.agents.domain.formulas import names_known, needs_of
from goalport.base.colours import coloured
from goalport.base.errors import UnknownName
from goalport.base.secrecy import hide, register_secrets
from goalport.base.words import counted, type_label
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.terminal import Format, Record, say, show, show_json, show_lines
from goalport.cli.workspace import LoadedWorkspace, loop_of, open_with_warnings, open_workspace
from goalport.knowledge.references import Refreshing, refreshed
from goalport.knowledge.references.reference import described
from goalport.models.llm import ModelCard
from goalport.models.prompts import contribution_of
from goalport.runtime.platform import mistakes_in, remarks_in
from goalport.runtime.platform.workspace_parts import declared_settings, document_problems
from goalport.server.publish.goal_tools import GoalTool, Offer, Refusal, offers_of
from goalport.server.publish.portability import without_hints
from goalport.server.publish.publication import publish
from goalport.server.publish.report import models_in_words, remarks_on_goals, switched_off, warnings_on_arguments
from goalport.workspace import load_workspace
from goalport.workspace.settings import listed_settings, load_settings, secrets_in, secrets_of

OfAgent = Annotated[str | None, Parameter(help="Only those of this agent.")]


def check(*, format: Format = "text", allow_warnings: bool = False, workspace: WorkspaceFolder = Path()) -> int:
    """Read the workspace and say what is wrong with it; nothing runs.

    Args:
        allow_warnings: Exit with 1 for problems, but not for warnings.

    Examples:
        goalport check
        goalport check --workspace my-agents --format json
    """
    loaded = open_workspace(workspace)
    platform, agents, expected = loaded.platform, loaded.platform.agents, loaded.platform.expected_groups
    published = publish(platform, loaded.workspace, loaded.settings)
    prompts = [each.tool for each in published.tools.values() if isinstance(each, GoalTool) and not each.is_tool]
    # Problems prevent something from being served; warnings are about what is served but some clients cannot use.
    problems = [
        *published.problems,
        *map(str, mistakes_in(agents, expected)),
        *(f"[models] {each}" for each in platform.models.problems()),
        *document_problems(platform.models, loaded.settings),
    ]
    warnings = [loaded.no_agents_message] if loaded.lacks_agents else []
    warnings += [*published.warnings, *warnings_on_arguments(published)]
    # Hints are about what is perhaps not intended: methods that seem to lack a mark or a trigger, goals that are not
    # published, types that no store could write.
    hints = [
        *(() if platform.store.durable else platform.unstorable),
        *remarks_in(agents, expected),
        *remarks_on_goals(published),
        *without_hints(prompts),
    ]
    models, groups = [*models_in_words(platform)], [*switched_off(platform.upstream)]
    numbers = {"agent": len(agents), "goal": len(agents.goals), "tool": len(published.tools)}
    if format == "json":
        findings = {"problems": problems, "warnings": warnings, "agents": numbers["agent"], "goals": numbers["goal"]}
        findings |= {"tools": [*published.tools], "resources": [*published.providers]}
        show_json(findings | {"models": models, "groups": groups, "hints": hints})
    else:
        wrong = [*(f"problem: {each}" for each in problems), *(f"warning: {each}" for each in warnings)]
        for line in (*wrong, *models, *groups, *(f"note: {each}" for each in hints)):
            print(coloured(line, sys.stdout))
        there = ", ".join(counted(number, what) for what, number in numbers.items())
        counts = f"{counted(len(problems), 'problem')}, {counted(len(warnings), 'warning')}"
        print(f"{there}: {counts if wrong else 'nothing is wrong'}.")
    return 1 if problems or (warnings and not allow_warnings) else 0


def agents(*, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:
    """List the agents: what each is for, what it has, and where it is declared.

    Examples:
        goalport agents
        goalport agents --format json
    """
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


def goals(*, agent: OfAgent = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:
    """List the goals: the tools that each is published as, or why it is not.

    Examples:
        goalport goals
        goalport goals --agent StarNewsFinder
    """
    loaded = open_with_warnings(workspace)
    published = publish(loaded.platform, loaded.workspace, loaded.settings).tools
    offered = list(offers_of(loaded.platform))
    records: list[Record] = []
    for owner, goal in loaded.platform.agents.goals:
        offers = [each for each in offered if isinstance(each, Offer) and each.agent is owner and goal in each.goals]
        reasons = [each.reason for each in offered if isinstance(each, Refusal) and each.goal is goal]
        record = {
            "goal": goal.name,
            "agent": owner.name,
            "published_as": [each.name for each in offers if each.name in published],
            "starts_from": [" and ".join(map(type_label, each.starts)) for each in offers],
            "makes": None if goal.output is None else type_label(goal.output),
            "description": goal.description,
            "not_published": " ".join(reasons),
        }
        if agent in {None, owner.name}:
            records.append(record)
    _show_parts(loaded, records, format, agent, "goals")


def actions(*, agent: OfAgent = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:
    """List the actions: what each needs from the blackboard, and what it makes.

    Examples:
        goalport actions
        goalport actions --agent StarNewsFinder --format json
    """
    loaded = open_with_warnings(workspace)
    records = [
        {
            "action": action.short_name,
            "agent": owner.name,
            "needs": [type_label(each.type) for each in action.inputs if each.required],
            "makes": [" and ".join(map(type_label, exit_)) for exit_ in action.outputs.exits],
            "trigger": "" if action.settings.trigger is None else type_label(action.settings.trigger),
            "pre": list(action.settings.pre),
            "post": list(action.settings.post),
            "cost": "computed" if action.cost is not None else action.settings.cost,
            "description": action.description.partition("\n")[0],
        }
        for owner in (*loaded.platform.agents, *loaded.platform.agents.components)
        if agent in {None, owner.name}
        for action in owner.actions
    ]
    _show_parts(loaded, records, format, agent, "actions")


def conditions(*, agent: OfAgent = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:
    """List the conditions: what decides each, and which actions ask for it.

    Examples:
        goalport conditions
        goalport conditions --agent WriteAndReview --format json
    """
    loaded = open_with_warnings(workspace)
    records: list[Record] = []
    for owner in (*loaded.platform.agents, *loaded.platform.agents.components):
        needs = {step.short_name: needs_of(step, names_known(owner)) for step in owner.actions}
        records += [
            {
                "condition": condition.name,
                "agent": owner.name,
                "reads": [type_label(part.type) for part in condition.parameters if isinstance(part, Input)],
                "asked_by": [name for name, terms in needs.items() if any(condition.name in term for term in terms)],
                "cost": condition.cost,
            }
            for condition in (owner.conditions if agent in {None, owner.name} else ())
        ]
    _show_parts(loaded, records, format, agent, "conditions")


def _show_parts(
    loaded: LoadedWorkspace, records: Sequence[Record], format: Format, agent: str | None, what: str
) -> None:
    """Print parts of agents, or why there are none. Raises `UnknownName` when there is no such agent."""
    none = f"No agent here has {what}."
    if not len(loaded.platform.agents):
        none = loaded.no_agents_message
    elif agent is not None and not records:
        none = f"{loaded.platform.agents.named(agent).name} has no {what}."
    show(records, format, none=none)


def models(*, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:
    """List the language models: provider, roles, price in US dollars per million tokens, and what is to be set.

    A model counts as ready when nothing is missing here; its provider is not asked.

    Examples:
        goalport models
        goalport models --format json
    """
    loaded = open_with_warnings(workspace)
    settings, known = loaded.settings.models, loaded.platform.models
    wanted = [known.default, *settings.models_of_roles.values(), *(each.name for each in settings.custom)]
    cards = known.cards()
    by_name: dict[str, ModelCard] = {}
    for name in wanted:
        fitting = (each for each in cards if name in {each.name, f"{each.provider}:{each.name}"})
        by_name[name] = next(fitting, ModelCard(name=name, provider=""))
    by_name.update({each.name: each for each in cards if each not in by_name.values()})
    records: list[Record] = []
    for name, card in by_name.items():
        unready = known.why_not_ready(name)
        roles = [role for role, model in settings.models_of_roles.items() if model == name]
        records.append(
            {
                "model": name,
                "provider": card.provider,
                "roles": [*(["default"] if name == known.default else []), *roles],
                "ready": not unready,
                # Where the settings give no price, it is the provider's list price, which is looked up when needed.
                "prices": None if card.prices is None else f"{card.prices.input:g} in, {card.prices.output:g} out",
                "knowledge_cutoff": None if card.knowledge_cutoff is None else card.knowledge_cutoff.isoformat(),
                "to_do": unready,
            }
        )
    show(records, format, none="There are no models.")


def settings(
    *,
    set_only: Annotated[bool, Parameter("--set")] = False,
    format: Format = "text",
    workspace: WorkspaceFolder = Path(),
) -> int:
    """List the settings of goalport, and those that the workspace declares; secrets are not shown.

    Args:
        set_only: Only those that something sets.

    Examples:
        goalport settings --set
        goalport settings --profile production --format json
    """
    root = workspace_root(workspace)
    known = load_settings(root)
    declared = declared_settings(known, load_workspace(root))
    register_secrets(declared, (*secrets_of(known), *secrets_in(declared.tables)))
    records = [
        {"setting": name, "value": _shown(value), "source": source or "default"}
        for name, value, source in listed_settings(known, declared)
        if source or not set_only
    ]
    show(records, format, none="Nothing is set.")
    for problem in declared.problems:
        say(f"problem: {problem}")
    return 1 if declared.problems else 0


def _shown(value: object) -> object:
    if isinstance(value, tuple | list | frozenset):
        return [_shown(each) for each in cast("Iterable[object]", value)]
    return value if value is None or isinstance(value, bool | int | float) else hide(str(value))


def references(*, read: str | None = None, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:
    """List what prompts can name: the references and personas of references.yml.

    Args:
        read: Show what a model is told of the one with this name.

    Examples:
        goalport references
        goalport references --read handbook
    """
    loaded = open_with_warnings(workspace)
    found = loaded.platform.references
    if read is None:
        records = [
            {
                "name": name,
                "type": found.types[name],
                "description": "" if (one := found.get(name)) is None else one.description,
                "state": "refreshed before each request" if isinstance(found.get(name), Refreshing) else "ready",
                "published": any(each is found.get(name) for each in found.published),
            }
            for name in (*found, *found.contributors)
        ]
        show(records, format, none=f"There are none. Write some in {loaded.workspace.root / 'references.yml'}.")
    elif read in found.contributors:
        show_lines(contribution_of(found.contributor(read)).splitlines())
    elif read in found:
        reference = found.reference(read)
        with loop_of(loaded) as runner:
            runner.run(refreshed(reference))
            show_lines(described(reference).splitlines())
            tools = [f"- {each.name}: {each.description}" for each in reference.tools()]
            show_lines(["", "Tools:", *tools] if tools else ())
    else:
        raise UnknownName("reference", read, [*found, *found.contributors])
