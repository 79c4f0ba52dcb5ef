"""All that one server publishes at one moment: tools, prompts, resources, and what could not be published and why.

A publication is immutable; a reload makes a new one. Publishing runs no action, calls no model and connects nowhere.
To use a thing, a caller needs the scopes that its export names, or else those that its hints imply. Every door lists
and looks up things in the view of its caller (`Views`). What a view lacks is unknown to that caller everywhere: in
lists, in the names that errors suggest, in completions. `auth`, above, knows which scopes a caller has.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from goalport.agents.domain import Agent, ChatbotMark, Goal
from goalport.base.caller import EVERY_SCOPE, Caller
from goalport.runtime.platform import AgentPlatform
from goalport.server.publish.exported_tools import (
    FunctionTool,
    GroupTools,
    PublishedGroups,
    RawPrompt,
    RawResource,
    RawTemplate,
    RawTool,
    banner,
    exported_groups,
    publish_groups,
    read_or_note,
    upstream_listings,
)
from goalport.server.publish.goal_tools import ChatTool, GoalPrompt, GoalTool, Offer, Refusal, offers_of
from goalport.server.publish.handle import RESULT, Companion, companions
from goalport.server.publish.output import may_be_large
from goalport.server.publish.portability import client_warnings, name_fault
from goalport.server.publish.resources import (
    ConversationResources,
    agent_uri,
    exports_of,
    own_resources,
    own_templates,
    providers,
    templates_of,
)
from goalport.tools import McpToolExport, ResourceProvider, ToolGroupRequirement
from goalport.workspace import Workspace
from goalport.workspace.settings import Settings

if TYPE_CHECKING:
    from mcp_types import Prompt, Resource, ResourceTemplate, Tool

Scopes = frozenset[str]
"""Scopes that are needed together, or that a caller has."""


@dataclass(frozen=True, slots=True)
class ScopeRules:
    """Which scopes are needed, as settings name them."""

    read: Scopes
    """The base scope: to list what is published, and to follow one's own processes."""
    write: Scopes

    def of_hints(self, scopes: Sequence[str] | None, *, read_only: bool | None) -> Scopes:
        """The `scopes` that an export names; if it names none (None), the scope to read or to write, by its hint."""
        if scopes is not None:
            return frozenset(scopes)
        return self.read if read_only else self.write

    def of_chatbot(self, mark: ChatbotMark) -> Scopes:
        """The scopes to talk to a chatbot: those that it names, else the scope to write, as a turn runs actions."""
        return frozenset(mark.scopes) or self.write

    def of_goals(self, goals: Iterable[Goal]) -> Scopes:
        """The scopes for a tool or a process that may reach any of these goals: those of all of them."""
        needed = (self.of_hints(each.export.scopes, read_only=each.export.read_only) for each in goals)
        return frozenset[str]().union(*needed)


@dataclass(frozen=True, slots=True)
class ScopesOfPublished:
    """The scopes that a caller needs for each published thing. What is in no table needs the scope to read."""

    rules: ScopeRules
    tools: Mapping[str, Scopes] = field(default_factory=dict[str, Scopes])
    """By the names of tools, including tools that are absent now."""
    prompts: Mapping[str, Scopes] = field(default_factory=dict[str, Scopes])
    resources: Mapping[str, Scopes] = field(default_factory=dict[str, Scopes])
    """By the URIs of raw resources."""
    providers: Mapping[str, Scopes] = field(default_factory=dict[str, Scopes])
    """By the namespaces of resource providers."""
    templates: Mapping[str, Scopes] = field(default_factory=dict[str, Scopes])
    """By the texts of URI templates."""

    @property
    def named(self) -> Scopes:
        """All scopes that anything needs."""
        tables = (self.tools, self.prompts, self.resources, self.providers, self.templates)
        return (self.rules.read | self.rules.write).union(*(each for table in tables for each in table.values()))


_HEADER: Final = "x-mcp-header"
"""The annotation of a property, in MCP's input schemas, by which clients repeat an argument in an HTTP header."""

T = TypeVar("T")
R = TypeVar("R", RawResource, RawTemplate)
PublishedTool = GoalTool | ChatTool | FunctionTool | RawTool | Companion
PublishedPrompt = GoalPrompt | RawPrompt


@dataclass(frozen=True, slots=True)
class Publication:
    """What clients can list and use, and what could not be published."""

    agents: tuple[Agent, ...]
    """The agents and components that this was made of."""
    tools: Mapping[str, PublishedTool]
    of_groups: PublishedGroups
    """The tools of exported groups, including tools that are absent now."""
    prompts: Mapping[str, PublishedPrompt]
    resources: Mapping[str, RawResource]
    providers: Mapping[str, ResourceProvider]
    """The providers of further resources, sorted by namespace; they are asked when a client lists resources."""
    templates: tuple[RawTemplate, ...]
    mirrored: Mapping[str, Mapping[str, Any]]
    """By tool, input schemas that make clients repeat arguments in HTTP headers, which are compared with the call."""
    tool_list: "tuple[Tool, ...]"
    """Tools and prompts are sorted by name, resources and templates by URI."""
    prompt_list: "tuple[Prompt, ...]"
    resource_list: "tuple[Resource, ...]"
    template_list: "tuple[ResourceTemplate, ...]"
    refusals: tuple[Refusal, ...]
    """Goals that are not published."""
    problems: tuple[str, ...]
    """What should have been published and could not be; one sentence each."""
    warnings: tuple[str, ...]
    """Flaws of what is published, such as a missing tool group or a name that some client drops; one sentence each."""
    scopes: ScopesOfPublished
    """The scopes that callers need for each thing, including things that a view lacks."""
    granted: Scopes | None = None
    """In a view (`Views`), the scopes of the callers who get it; None: this is no view, and has everything."""

    def shows_goal(self, goal: Goal) -> bool:
        """Whether a goal of a deployed agent may be shown, whether it is published or not."""
        return self._grants(self.scopes.rules.of_goals([goal]))

    def shows_agent(self, agent: Agent) -> bool:
        """Whether a deployed agent may be shown: some goal may, or it has none; a chatbot if callers may talk to it."""
        if agent.chat is not None:
            return self._grants(self.scopes.rules.of_chatbot(agent.chat))
        return not agent.goals or any(map(self.shows_goal, agent.goals))

    def _grants(self, needed: Scopes) -> bool:
        return self.granted is None or self.granted >= needed


class _Named(NamedTuple):
    """Something to publish under a name, and its owner as messages name it."""

    name: str
    owner: str
    published: PublishedTool


def publish(
    platform: AgentPlatform, workspace: Workspace, settings: Settings, before: PublishedGroups | None = None
) -> Publication:
    """The publication of this platform and workspace; unchanged tools of groups are reused from `before`."""
    # First the problems of modules and agents that could not be read or deployed, and of upstream servers.
    problems = [*map(str, workspace.problems), *platform.problems, *map(str, platform.upstream.problems)]
    agents, offered = platform.agents.all, list(offers_of(platform))
    references = exports_of(platform.references.published, problems)
    exports = [*workspace.values(McpToolExport), *references]
    if any(agent.chat is not None for agent in platform.agents):
        said = ConversationResources(platform.conversations, settings.max_result_bytes)
        exports.append(McpToolExport((), resources=(said,)))
    groups = exported_groups(platform)
    wanted = _wanted(platform, workspace, settings, offered, references, problems)
    named = _with_companions(platform, wanted, groups, problems)
    of_groups = publish_groups(groups, {name: each.owner for name, each in named.items()}, before)
    problems += of_groups.problems
    tools = {name: each.published for name, each in named.items()} | of_groups.present
    passed = (*upstream_listings(groups, platform.upstream.groups.config),)
    prompts = _prompts(named.values(), workspace, passed, problems)
    resources = _by_address((*workspace.values(RawResource), *passed), RawResource, problems)
    templates = _by_address((*workspace.values(RawTemplate), *passed), RawTemplate, problems)
    provided = providers(exports, problems)
    problems += [
        f"The settings require the goal {each!r}, and no goal is published as a tool of that name."
        for each in settings.required_goals
        if each not in tools
    ]
    listed = sorted((each.tool for each in tools.values()), key=lambda each: each.name)
    places = [*own_resources(platform), *(each.resource for each in resources.values())]
    shown = [*own_templates(), *(each for provider in provided.values() for each in templates_of(provider))]
    shown += [each.template for each in templates.values()]
    publication = Publication(
        agents=agents,
        tools=tools,
        of_groups=of_groups,
        prompts=prompts,
        resources=resources,
        providers=provided,
        templates=tuple(templates.values()),
        mirrored={each.name: each.input_schema for each in listed if _HEADER in json.dumps(each.input_schema)},
        tool_list=tuple(listed),
        prompt_list=tuple(sorted((each.prompt for each in prompts.values()), key=lambda each: each.name)),
        resource_list=tuple(sorted(places, key=lambda each: each.uri)),
        template_list=tuple(sorted(shown, key=lambda each: each.uri_template)),
        refusals=tuple(each for each in offered if isinstance(each, Refusal) and not each.unreadable),
        problems=tuple(problems),
        warnings=(*_warnings(platform), *client_warnings([each.tool for each in tools.values()])),
        scopes=ScopesOfPublished(ScopeRules(*(Scopes({settings.auth.scope(each)}) for each in ("read", "write")))),
    )
    return replace(publication, scopes=_scopes(publication, platform, exports))


def _scopes(publication: Publication, platform: AgentPlatform, exports: Sequence[McpToolExport]) -> ScopesOfPublished:
    rules, tools = publication.scopes.rules, dict[str, Scopes]()

    def of_reading(scopes: Sequence[str] | None) -> Scopes:
        return rules.of_hints(scopes, read_only=True)

    for name, published in {**publication.of_groups.absent, **publication.tools}.items():
        match published:
            case Companion():
                tools[name] = rules.read
            case GoalTool(agent=agent, goals=names):
                goals = platform.agents.scope(agent).goals
                tools[name] = rules.of_goals(map(goals.__getitem__, names))
            case ChatTool(mark=mark):
                tools[name] = rules.of_chatbot(mark)
            case FunctionTool(exported=exported):
                group = platform.upstream.groups.config.get(publication.of_groups.roles.get(name, ""))
                scopes = exported.scopes if group is None or group.scopes is None else group.scopes
                tools[name] = rules.of_hints(scopes, read_only=exported.read_only)
            case RawTool(tool=tool, scopes=scopes):
                read_only = tool.annotations is not None and tool.annotations.read_only_hint
                tools[name] = rules.of_hints(scopes, read_only=read_only)
    # Of two exports with one namespace, the first is published.
    spaces = {each.namespace: of_reading(export.scopes) for export in reversed(exports) for each in export.resources}
    provided = {
        template.uri_template: spaces[namespace]
        for namespace, provider in publication.providers.items()
        for template in templates_of(provider)
    }
    return ScopesOfPublished(
        rules,
        tools,
        prompts={
            name: tools[each.goal.tool.name] if isinstance(each, GoalPrompt) else of_reading(each.scopes)
            for name, each in publication.prompts.items()
        },
        resources={uri: of_reading(each.scopes) for uri, each in publication.resources.items()},
        providers=spaces,
        templates={each.address: of_reading(each.scopes) for each in publication.templates} | provided,
    )


def _wanted(
    platform: AgentPlatform,
    workspace: Workspace,
    settings: Settings,
    offered: Sequence[Offer | Refusal],
    references: Sequence[McpToolExport],
    problems: list[str],
) -> list[_Named]:
    """The tools of agents and of the workspace; what cannot be described is appended to `problems`."""
    wanted: list[_Named] = []
    for each in offered:
        where = f" ({each.agent.source})" if each.agent.source else ""
        cannot = f"is not published: its export or its types{where} cannot be described in JSON. "
        if isinstance(each, Offer):
            owner = " and ".join(f"goal {goal.name} of agent {each.agent.name}" for goal in each.goals)
            tool = read_or_note(partial(GoalTool.of, each), problems, f"The {owner} {cannot}")
            wanted += [] if tool is None else [_Named(each.name, f"the {owner}", tool)]
        elif each.unreadable:
            problems.append(f"The goal {each.goal.name} of agent {each.agent.name} {cannot}{each.reason}")
    chatbots = [ChatTool.of(agent) for agent in platform.agents if agent.chat is not None]
    wanted += [_Named(each.tool.name, f"the chatbot {each.chatbot}", each) for each in chatbots]
    banners = [banner(settings.name, settings.description)] if settings.hello_banner else []
    agents = {agent.goals[0].export.name: agent for agent in platform.agents.of_tools.values()}
    for tool in (*banners, *workspace.exported_tools(), *(tool for each in references for tool in each.tools())):
        agent, owner = agents.get(tool.name), f"the exported tool {tool.name}"
        of = partial(FunctionTool.of, tool) if agent is None else partial(GoalTool.of_tool, tool, agent)
        made = read_or_note(of, problems, f"T{owner[1:]} is not published: ")
        wanted += [] if made is None else [_Named(tool.name, owner, made)]
    raw = workspace.values(RawTool)
    return [*wanted, *(_Named(each.tool.name, f"the raw tool {each.tool.name}", each) for each in raw)]


def _with_companions(
    platform: AgentPlatform, wanted: Sequence[_Named], groups: Mapping[str, GroupTools], problems: list[str]
) -> dict[str, _Named]:
    """The tools by name, with the companion tools that they need; problems are appended to `problems`."""
    # Large results of exported groups become links, unless a group has a tool of that name, as another goalport does.
    names = {tool.name for each in groups.values() for tool in (*each.present, *each.absent)}
    links = RESULT not in names and any(each.exports for each in platform.upstream.groups.config.values())
    followed = [each.published for each in wanted if isinstance(each.published, GoalTool | ChatTool)]
    hints = [each.tool.annotations for each in followed if each.policy.may_give_handle]
    needed = companions(hints, large=links or any(may_be_large(each.policy.output.schema) for each in followed))
    problems += [
        f"{_capital(each.owner)} cannot be called {each.name!r}: so is the tool by which processes that wait are"
        " followed. Rename it."
        for each in wanted
        if each.name in needed
    ]
    tools = _by_name("tool", ((each.name, each.owner, each) for each in wanted if each.name not in needed), problems)
    return tools | {name: _Named(name, f"the companion tool {name}", each) for name, each in needed.items()}


def _prompts(
    tools: Iterable[_Named], workspace: Workspace, passed: Iterable[object], problems: list[str]
) -> dict[str, PublishedPrompt]:
    wanted: list[tuple[str, str, PublishedPrompt]] = [
        (each.name, each.owner, GoalPrompt.of(each.name, each.published))
        for each in tools
        if isinstance(each.published, ChatTool) or (isinstance(each.published, GoalTool) and not each.published.is_tool)
    ]
    wanted += [(each.prompt.name, f"the raw prompt {each.prompt.name}", each) for each in workspace.values(RawPrompt)]
    prompts = _by_name("prompt", wanted, problems)
    problems += [
        f"A prompt of an upstream server is not published: another one is called {each.prompt.name!r}. Give its group a"
        " prefix in `naming`."
        for each in passed
        if isinstance(each, RawPrompt) and prompts.setdefault(each.prompt.name, each) is not each
    ]
    return prompts


def _by_address(given: Iterable[object], kind: type[R], problems: list[str]) -> dict[str, R]:
    """The resources or templates by URI. Of two with the same URI only the first, as each URI has one set of scopes."""
    found: dict[str, R] = {}
    problems += [
        f"Two resources are at {each.address}; the first is published. Give the other another address."
        for each in given
        if isinstance(each, kind) and found.setdefault(each.address, each) is not each
    ]
    return found


def _by_name(kind: str, wanted: Iterable[tuple[str, str, T]], problems: list[str]) -> dict[str, T]:
    """The candidates by name. A name that two candidates claim goes to neither of them and becomes a problem."""
    claims: dict[str, list[tuple[str, T]]] = {}
    for name, owner, candidate in wanted:
        claims.setdefault(name, []).append((owner, candidate))
    unique: dict[str, T] = {}
    for name, claimants in claims.items():
        owners = _capital(" and ".join(owner for owner, _ in claimants))
        if kind == "tool" and (fault := name_fault(name)):
            problems.append(f"{owners} cannot be a {kind} called {name!r}: {fault}. Rename it.")
        elif len(claimants) == 1:
            unique[name] = claimants[0][1]
        else:
            problems.append(
                f"{owners} all want to be the {kind} {name!r}, so none of them is published."
                " Give all but one another name."
            )
    return unique


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _warnings(platform: AgentPlatform) -> Iterable[str]:
    for agent in (*platform.agents, *platform.agents.components):
        for action in agent.actions:
            for role in action.settings.tool_groups:
                if (unmet := platform.expected_groups.unmet(ToolGroupRequirement(role))) is not None:
                    asks = f"{action.name} asks for the tool group {role!r}"
                    if platform.groups.why_missing(role):
                        yield f"{asks}, but runs without. {unmet}"
                    else:
                        yield f"{asks}, and there is none: it runs without tools."
            for unmet in filter(None, map(platform.expected_groups.unmet, action.requirements)):
                yield f"{action.name} cannot run. {unmet}"
    yield from platform.groups.clashes
    yield from platform.upstream.warnings
    yield from platform.unstorable if platform.store.durable else ()


_MAX_VIEWS: Final = 128
"""How many views are kept. Each is for one set of scopes, and callers of one kind have the same set."""


class Views:
    """The views of the current publication, made when first needed and cached until the next publication."""

    def __init__(self) -> None:
        self._whole: Publication | None = None
        self._named = Scopes()
        self._views: dict[Scopes, Publication] = {}

    def of(self, whole: Publication, caller: Caller) -> Publication:
        """What this caller may list and use of a publication."""
        if whole is not self._whole:
            self._whole, self._named = whole, whole.scopes.named
            self._views.clear()
        granted = self._named if EVERY_SCOPE in caller.scopes else self._named & caller.scopes
        if (view := self._views.get(granted)) is not None:
            return view
        if len(self._views) >= _MAX_VIEWS:
            del self._views[next(iter(self._views))]
        scopes = whole.scopes

        def kept(published: Mapping[str, T], needed: Mapping[str, Scopes]) -> dict[str, T]:
            return {name: each for name, each in published.items() if granted >= needed.get(name, scopes.rules.read)}

        tools, prompts = kept(whole.tools, scopes.tools), kept(whole.prompts, scopes.prompts)
        templates = kept({each.uri_template: each for each in whole.template_list}, scopes.templates)
        view = replace(
            whole,
            granted=granted,
            tools=tools,
            of_groups=replace(whole.of_groups, absent=kept(whole.of_groups.absent, scopes.tools)),
            prompts=prompts,
            resources=kept(whole.resources, scopes.resources),
            providers=kept(whole.providers, scopes.providers),
            templates=tuple(each for each in whole.templates if each.address in templates),
            tool_list=tuple(each for each in whole.tool_list if each.name in tools),
            prompt_list=tuple(each for each in whole.prompt_list if each.name in prompts),
            template_list=tuple(templates.values()),
        )
        hidden = {agent_uri(each.name) for each in whole.agents if not view.shows_agent(each)}
        resources = kept({each.uri: each for each in whole.resource_list if each.uri not in hidden}, scopes.resources)
        self._views[granted] = view = replace(view, resource_list=tuple(resources.values()))
        return view
