"""The publishing report: what is published and what is not, and whether models, tool groups and servers are ready.

Goals come first, then what needs attention; `further_lines` has what is in order.

It is plain text, printed at start and by `goalport check`; `/health` has the numbers. It contains no secret. Writing it
calls no model and loads no provider's library.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args, get_origin

from goalport.agents.blackboard import DEFAULT_BINDING
from goalport.base.words import counted, first_line, listed, type_label, type_name
from goalport.runtime.platform import AgentPlatform, UpstreamServers
from goalport.runtime.process import asks_a_model
from goalport.server.publish.exported_tools import FunctionTool, RawTool
from goalport.server.publish.goal_tools import ChatTool, GoalTool
from goalport.server.publish.handle import Companion
from goalport.server.publish.portability import snake_identifier
from goalport.server.publish.publication import Publication, PublishedTool
from goalport.tools import Tool
from goalport.tools.upstream.upstream_server import ServerState


def report_of(publication: Publication, platform: AgentPlatform) -> Iterator[str]:
    """The indented lines about goals, resources and models, and about what is wrong."""
    for name, tool in publication.tools.items():
        if isinstance(tool, ChatTool):
            what, scopes = f"talk to the chatbot {tool.chatbot}", {*tool.mark.scopes}
        elif isinstance(tool, GoalTool) and not tool.is_tool:
            starts = ", ".join(tool.tool.input_schema.get("properties", {})) or "nothing"
            what = f"goal {' or '.join(tool.goals)} of {tool.agent.name}, from {starts}"
            what += "; may ask a person or take long" if tool.policy.may_give_handle else ""
            goals = [each for each in tool.agent.goals if each.name in tool.goals]
            scopes = {scope for each in goals for scope in each.export.scopes or ()}
        else:
            continue
        needed = f"; needs the scopes {' '.join(sorted(scopes))}" if scopes else ""
        yield f"  {name}: {what}{needed}"
    for agent in (*platform.agents, *platform.agents.components):
        for action in agent.actions:
            if action.access:
                yield f"  {action.name}: runs only for callers with {' and '.join(each.text for each in action.access)}"
    for namespace, provider in publication.providers.items():
        yield f"  {namespace}: resources, {_indented(provider.description)}"
    for refusal in publication.refusals:
        yield f"  not published: goal {refusal.goal.name} of {refusal.agent.name}, {_indented(refusal.reason)}"
    for problem in publication.problems:
        yield f"  problem: {_indented(problem)}"
    for warning in publication.warnings:
        yield f"  warning: {_indented(warning)}"
    for line in (*models_in_words(platform), *_groups_in_words(platform, fine=False)):
        yield f"  {_indented(line)}"


def remarks_on_goals(publication: Publication) -> Iterator[str]:
    """Sentences about what perhaps was not intended: goals that no client sees."""
    hidden = [
        each.goal.name for each in publication.refusals if not each.goal.export.remote and each.agent.chat is None
    ]
    if hidden:
        yield (
            f"No client can call {listed(hidden, _MOST_GOALS)}: to publish a goal, write"
            " @achieves_goal(…, export=Export(remote=True))."
        )


def warnings_on_arguments(publication: Publication) -> Iterator[str]:
    """Sentences about parameters of built-in types that nothing supplies, or whose arguments have a type's name."""
    for tool in publication.tools.values():
        if not isinstance(tool, GoalTool) or tool.is_tool:
            continue
        inputs = [each for action in tool.agent.actions for each in action.inputs]
        made = {kind for action in tool.agent.actions for each in action.outputs.exits for kind in each}
        known = {*made, *tool.arguments.kinds}
        for each in (one for one in inputs if not one.required and one.binding == DEFAULT_BINDING):
            if _is_builtin(each.type) and each.type not in known:
                yield (
                    f"{tool.tool.name}: nothing can give the parameter `{each.name}: {type_name(each.type)}`, which"
                    " always has its default. Take a class of your own with such a field."
                )
        for kind in tool.arguments.kinds:
            name = snake_identifier(type_label(kind))
            if _is_builtin(kind) and name in tool.arguments.schema["properties"]:
                field = next((each.name for each in inputs if each.type == kind), "…")
                yield (
                    f"{tool.tool.name}: an argument is called {name!r}, since arguments are named after their types."
                    f" Take a class of your own with the field `{field}: {type_name(kind)}`."
                )


def _is_builtin(kind: object) -> bool:
    """Whether a type consists of built-in classes only: `str`, `list[str]`."""
    return getattr(get_origin(kind) or kind, "__module__", "") == "builtins" and all(map(_is_builtin, get_args(kind)))


def further_lines(publication: Publication, platform: AgentPlatform) -> Iterator[str]:
    """The indented lines about tools that are no goals, and about groups and servers without problems."""
    kinds: dict[str, list[str]] = {}
    for name, tool in publication.tools.items():
        if not isinstance(tool, GoalTool | ChatTool) or (isinstance(tool, GoalTool) and tool.is_tool):
            kinds.setdefault(_KINDS[type(tool)], []).append(name)
    for kind, names in kinds.items():
        yield f"  {kind}: {', '.join(names)}"
    for line in _groups_in_words(platform, fine=True):
        yield f"  {_indented(line)}"


_MOST_GOALS: Final = 5
_KINDS: Final[Mapping[type[PublishedTool], str]] = {
    FunctionTool: "exported tools",
    GoalTool: "exported tools, each call of which is a process",
    RawTool: "raw tools",
    Companion: "tools of goalport itself",
}


def models_in_words(platform: AgentPlatform) -> Iterator[str]:
    """A line about the default model if some action asks it; if the model is not ready, the line says what to set."""
    declared = (*platform.agents, *platform.agents.components, *platform.agents.of_tools.values())
    asking = {each.name: each.planner.asks_models + sum(map(asks_a_model, each.actions)) for each in declared}
    number = sum(asking.values())
    if not number:
        return
    name, why = platform.models.default, platform.models.why_not_ready(platform.models.default)
    if not why:
        yield f"model {name}: ready, for {counted(number, 'action')}"
        return
    names = ", ".join(agent for agent, count in asking.items() if count)
    yield f"model {name}: not ready. {why} Until then, actions of {names} that ask it fail; all others are served."


class _GroupState(NamedTuple):
    """The state of a tool group, as the report shows it."""

    status: str
    tools: Sequence[Tool] = ()
    exports: bool = False
    why: str = ""


def groups_of(platform: AgentPlatform) -> dict[str, Any]:
    """Each tool group by role: whether it can be used, and how many tools it has. The log has the reasons."""
    return {role: {"status": each.status, "tools": len(each.tools)} for role, each in _states(platform).items()}


def servers_of(platform: AgentPlatform) -> dict[str, Any]:
    """Each upstream server by name: its transport and its state, but none of its messages, which may hold a secret."""
    return {
        each.name: {
            "status": each.state,
            "transport": each.transport,
            "protocol": each.protocol or None,
            "tools": each.tools,
            "calls": each.calls,
            "failures": each.failures,
        }
        for each in platform.upstream.reports()
    }


def _groups_in_words(platform: AgentPlatform, *, fine: bool) -> Iterator[str]:
    """A line for each tool group and upstream server without problems (`fine`), or for each one with problems."""
    for role, each in _states(platform).items():
        if (each.status in {"up", "disabled"}) is fine:
            exported = ", published" if each.exports else ""
            why = "" if fine else f". {first_line(each.why)}"
            yield f"tool group {role}: {each.status}, {counted(len(each.tools), 'tool')}{exported}{why}"
    for server in platform.upstream.reports():
        if (server.state in {ServerState.UP, ServerState.DISABLED}) is fine:
            connection = f", {server.protocol}, {counted(server.tools, 'tool')}" if server.protocol else ""
            why = f": {first_line(server.last_error)}" if server.last_error else ""
            yield f"upstream server {server.name}: {server.state}{connection}{why}"


def _states(platform: AgentPlatform) -> dict[str, _GroupState]:
    """The state of each tool group that is deployed or configured, sorted by role; without built-in groups."""
    states: dict[str, _GroupState] = {}
    reports = {each.role: each for each in platform.upstream.groups.reports()}
    for group in platform.groups.groups:
        report = reports.get(group.role)
        if report is not None and report.group is group:
            states[group.role] = _GroupState(report.status, group.tools, group.exports, report.why)
        elif not group.is_default:
            states[group.role] = _GroupState("up", group.tools, group.exports)
    for role, report in reports.items():
        if platform.groups.find(role) is None:
            states[role] = _GroupState(report.status, why=report.why)
    return dict(sorted(states.items()))


def switched_off(upstream: UpstreamServers) -> Iterator[str]:
    """A sentence for each tool group all of whose servers are disabled in the configuration."""
    servers = upstream.config.servers
    for role, group in upstream.groups.config.items():
        known = [servers[name] for name in group.servers if name in servers]
        if known and all(each.disabled for each in known):
            names = ", ".join(repr(each.name) for each in known)
            yield f"tool group {role}: not ready. In mcp_config.json, remove the `disabled` of {names}."


def _indented(text: str) -> str:
    """A text of several lines, with all lines but the first indented so that they do not look like new entries."""
    return text.strip().replace("\n", "\n      ")
