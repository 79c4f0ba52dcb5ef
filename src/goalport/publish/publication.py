"""All that one server publishes at one moment: tools, prompts, resources, and what could not be published and why.

A publication is immutable; a reload makes a new one. Publishing runs no action, calls no model and connects nowhere.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from mcp.shared.inbound import X_MCP_HEADER_KEY
from mcp_types import Prompt, Resource, ResourceTemplate, Tool

from goalport.domain import Action, Agent
from goalport.platform import AgentPlatform, asks_a_model
from goalport.publish.companions import Companion, following, reading
from goalport.publish.faults import Fault, read_or_fault
from goalport.publish.function_tool import FunctionTool, banner
from goalport.publish.goal_tool import GoalTool, Terms
from goalport.publish.group_tools import PublishedGroups, exported_groups, publish_groups
from goalport.publish.lint import warnings_of_list, warnings_of_tool
from goalport.publish.names import fault_of
from goalport.publish.offers import Broken, Offer, Refusal, offers_of
from goalport.publish.prompts import GoalPrompt
from goalport.publish.raw_definitions import RawPrompt, RawResource, RawTemplate, RawTool
from goalport.publish.resource_uris import own_resources, own_templates
from goalport.settings import Settings
from goalport.tools import ToolGroupRequirement
from goalport.workspace import Workspace

__all__ = ["Publication", "PublishedPrompt", "PublishedTool", "publish"]

PublishedTool = GoalTool | FunctionTool | RawTool | Companion
PublishedPrompt = GoalPrompt | RawPrompt
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Something to publish under a name, and its owner as messages name it."""

    name: str
    owner: str
    published: PublishedTool
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Publication:
    """What clients can list and use, and what could not be published."""

    tools: Mapping[str, PublishedTool]
    of_groups: PublishedGroups
    """The tools that came from exported groups, and those that are absent there."""
    prompts: Mapping[str, PublishedPrompt]
    resources: Mapping[str, RawResource]
    templates: tuple[RawTemplate, ...]
    mirrored: Mapping[str, Mapping[str, Any]]
    """The input schemas, by tool, that make clients repeat arguments in headers, which are compared with the call."""
    tool_list: tuple[Tool, ...]
    """Tools and prompts are sorted by name, resources and templates by URI."""
    prompt_list: tuple[Prompt, ...]
    resource_list: tuple[Resource, ...]
    template_list: tuple[ResourceTemplate, ...]
    refusals: tuple[Refusal, ...]
    """Goals that are not published."""
    problems: tuple[str, ...]
    """What should have been published and could not be; one sentence each."""
    warnings: tuple[str, ...]
    """Flaws of what is published, such as a missing tool group or a name that some client drops; one sentence each."""


def publish(
    platform: AgentPlatform, workspace: Workspace, settings: Settings, before: PublishedGroups | None = None
) -> Publication:
    """The publication of this platform and workspace; unchanged tools of groups are reused from `before`."""
    problems: list[str] = []
    offered = list(offers_of(platform))
    candidates = [
        *_goals(platform, offered, problems),
        *_functions(workspace, settings, problems),
        *_raw(workspace),
    ]
    settled = _tools(candidates, problems)
    of_groups = publish_groups(exported_groups(platform), {name: each.owner for name, each in settled.items()}, before)
    problems += of_groups.problems
    settled |= {name: _Candidate(name, "", each) for name, each in of_groups.present.items()}
    prompts = _prompts(settled.values(), workspace, problems)
    resources = _resources(workspace, problems)
    templates = workspace.values(RawTemplate)
    published = [each.published.tool for each in settled.values()]
    return Publication(
        tools={name: each.published for name, each in settled.items()},
        of_groups=of_groups,
        prompts=prompts,
        resources=resources,
        templates=templates,
        mirrored={each.name: each.input_schema for each in published if _is_mirrored(each)},
        tool_list=_sorted(published, lambda each: each.name),
        prompt_list=_sorted((each.prompt for each in prompts.values()), lambda each: each.name),
        resource_list=_sorted(
            [*own_resources(platform), *(each.resource for each in resources.values())],
            lambda each: each.uri,
        ),
        template_list=_sorted(
            [*own_templates(), *(each.template for each in templates)], lambda each: each.uri_template
        ),
        refusals=tuple(each for each in offered if isinstance(each, Refusal)),
        problems=(*_of_parts(platform, workspace), *problems),
        warnings=tuple(_warnings(platform, published)),
    )


def _of_parts(platform: AgentPlatform, workspace: Workspace) -> Iterator[str]:
    """The problems of modules and agents that could not be read or deployed, and of upstream servers."""
    yield from map(str, workspace.problems)
    yield from platform.problems
    yield from map(str, platform.upstream.problems)


def _prompts(candidates: Iterable[_Candidate], workspace: Workspace, problems: list[str]) -> dict[str, PublishedPrompt]:
    wanted: list[tuple[str, str, GoalTool | RawPrompt]] = [
        (each.prompt, each.owner, each.published) for each in candidates if isinstance(each.published, GoalTool)
    ]
    wanted += [(each.prompt.name, f"the raw prompt {each.prompt.name}", each) for each in workspace.values(RawPrompt)]
    return {
        name: GoalPrompt.of(name, each) if isinstance(each, GoalTool) else each
        for name, each in _settle("prompt", wanted, problems).items()
    }


def _resources(workspace: Workspace, problems: list[str]) -> dict[str, RawResource]:
    resources: dict[str, RawResource] = {}
    for each in workspace.values(RawResource):
        uri = each.resource.uri
        if resources.setdefault(uri, each) is not each:
            problems.append(f"Two raw resources are at {uri}; the first is published. Give the other another address.")
    return resources


def _tools(candidates: Sequence[_Candidate], problems: list[str]) -> dict[str, _Candidate]:
    """The candidates by name, with the companion tools that the goals need; problems are appended to `problems`."""
    goals = [each.published for each in candidates if isinstance(each.published, GoalTool)]
    handing = [each.tool.annotations for each in goals if each.terms.hands_over]
    large = any(each.terms.output.may_be_large for each in goals)
    needed = [*(following(handing) if handing else ()), *([reading()] if large else ())]
    companions = {each.tool.name: each for each in needed}
    free = _without(companions.keys(), candidates, problems)
    settled = _settle("tool", ((each.name, each.owner, each) for each in free), problems)
    return settled | {name: _Candidate(name, f"the companion tool {name}", each) for name, each in companions.items()}


def _warnings(platform: AgentPlatform, published: Sequence[Tool]) -> Iterator[str]:
    yield from _missing_groups(platform)
    yield from platform.groups.clashes
    yield from platform.upstream.warnings
    yield from warnings_of_list(published)
    for tool in published:
        yield from warnings_of_tool(tool)


def _missing_groups(platform: AgentPlatform) -> Iterator[str]:
    for agent in (*platform.agents, *platform.agents.components):
        for action in agent.actions:
            for role in action.settings.tool_groups:
                if (unmet := platform.expected_groups.unmet(ToolGroupRequirement(role))) is not None:
                    why = platform.groups.why_missing(role)
                    yield _without_tools(action.name, role, unmet if why else "")
            for unmet in filter(None, map(platform.expected_groups.unmet, action.requirements)):
                yield f"{action.name} cannot run. {unmet}"


def _without_tools(action: str, role: str, why: str) -> str:
    asks = f"{action} asks for the tool group {role!r}"
    return f"{asks}, but runs without. {why}" if why else f"{asks}, and there is none: it runs without tools."


def _is_mirrored(tool: Tool) -> bool:
    return X_MCP_HEADER_KEY in json.dumps(tool.input_schema)


def _sorted(entries: Iterable[T], key: Callable[[T], str]) -> tuple[T, ...]:
    return tuple(sorted(entries, key=key))


def _goals(
    platform: AgentPlatform, offered: Iterable[Offer | Refusal | Broken], problems: list[str]
) -> Iterator[_Candidate]:
    for offer in offered:
        match offer:
            case Offer():
                match read_or_fault(partial(_goal_tool, platform, offer)):
                    case Fault(reason):
                        problems.append(f"The {offer.owner} is not published: {_unreadable(offer.agent)} {reason}")
                    case tool:
                        yield _Candidate(offer.name, f"the {offer.owner}", tool, offer.prompt)
            case Broken(goal, agent, reason):
                owner = f"goal {goal.name} of agent {agent.name}"
                problems.append(f"The {owner} is not published: {_unreadable(agent)} {reason}")
            case Refusal():
                pass


def _goal_tool(platform: AgentPlatform, offer: Offer) -> GoalTool:
    actions = platform.agents.scope(offer.agent).actions.values()
    may_wait = any(_may_ask(platform, action) for action in actions)
    asks_models = any(map(asks_a_model, offer.agent.actions))
    terms = Terms.of(offer.name, offer.goals, may_wait=may_wait, asks_models=asks_models)
    return GoalTool.of(offer.agent, offer.goals, offer.starts, terms, offer.apart)


def _may_ask(platform: AgentPlatform, action: Action) -> bool:
    """Whether an action may ask a person: by its output, or in its middle by a tool of a group that it names."""
    configured = platform.upstream.groups.config
    groups = filter(None, map(platform.groups.find, action.roles))
    return (
        action.outputs.may_wait
        or any(role in configured for role in action.roles)
        or any(tool.may_ask for group in groups for tool in group.tools)
    )


def _unreadable(agent: Agent) -> str:
    where = f" ({agent.source})" if agent.source else ""
    return f"its export or its types{where} cannot be described in JSON."


def _without(taken: Collection[str], candidates: Iterable[_Candidate], problems: list[str]) -> Iterator[_Candidate]:
    """The candidates whose name is not in `taken`, the names of the companion tools; the others become problems."""
    for each in candidates:
        if each.name in taken:
            problems.append(
                f"{_capital(each.owner)} cannot be called {each.name!r}: so is the tool by which processes that wait"
                " are followed. Rename it."
            )
        else:
            yield each


def _functions(workspace: Workspace, settings: Settings, problems: list[str]) -> Iterator[_Candidate]:
    banners = (banner(settings.name),) if settings.hello_banner else ()
    for tool in (*banners, *workspace.exported_tools()):
        match read_or_fault(partial(FunctionTool.of, tool)):
            case Fault(reason):
                problems.append(f"The exported tool {tool.name} is not published: {reason}")
            case published:
                yield _Candidate(tool.name, f"the exported tool {tool.name}", published)


def _raw(workspace: Workspace) -> Iterator[_Candidate]:
    for each in workspace.values(RawTool):
        yield _Candidate(each.tool.name, f"the raw tool {each.tool.name}", each)


def _settle(kind: str, wanted: Iterable[tuple[str, str, T]], problems: list[str]) -> dict[str, T]:
    """The candidates by name. A name that two candidates claim goes to neither of them and becomes a problem."""
    claims: dict[str, list[tuple[str, T]]] = {}
    for name, owner, thing in wanted:
        claims.setdefault(name, []).append((owner, thing))
    settled: dict[str, T] = {}
    for name, claimants in claims.items():
        owners = [owner for owner, _ in claimants]
        fault = fault_of(name) if kind == "tool" else None
        if fault is not None:
            problems.append(f"{_capital(' and '.join(owners))} cannot be a {kind} called {name!r}: {fault}. Rename it.")
        elif len(claimants) > 1:
            problems.append(
                f"{_capital(' and '.join(owners))} all want to be the {kind} {name!r}, so none of them is published."
                " Give all but one another name."
            )
        else:
            settled[name] = claimants[0][1]
    return settled


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
