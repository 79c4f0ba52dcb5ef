"""Resources: the goals, agents and processes, conversations, and what exports and published references provide.

Documents and skills provide their own resources. Of every other reference that `references.yml` publishes, the notes
are a resource: these notes and its tools are what a model of this server gets. Only the caller who owns a conversation
can read it. This module makes URIs, definitions and contents; it knows no session and sends nothing.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

from goalport import tools
from goalport.agents.domain import Agent, Goal
from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, type_name
from goalport.knowledge.references import LlmReference, refreshed
from goalport.runtime.chat import Conversation, ConversationMessage, Conversations
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionInvocation, AgentProcess, Question
from goalport.server.publish.exported_tools import read_or_note
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.handle import open_question
from goalport.server.publish.output import Pages
from goalport.tools import ListedResource, ReadResource, ResourcePage
from goalport.tools.schemas import UNREADABLE

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

_GOALS: Final = "goalport://goals"
_AGENT: Final = "goalport://agents/"
_PROCESS: Final = "goalport://processes/"
_JSON: Final = "application/json"
_MARKDOWN: Final = "text/markdown"
_URI: Final = re.compile(r"goalport://(?:(goals)|agents/([^/]+)|processes/([^/]+)(?:/(result)(?:/([0-9]{1,6}))?)?)")
_CLASSES: Final = {"declined": "declined", "replanned": "declined", "terminated": "declined", "failed": "failed"}
"""The class of a step in the diagram of a process, by the status of its action; others are done."""


class ResourceUri(NamedTuple):
    """What a URI of goalport names: the goals, an agent, or a process."""

    goals: bool
    agent: str
    process: str
    result: bool
    """Whether the URI names the output of the process and not its state."""
    page: int | None
    """The number of a page of the output, from 1; None for the whole output."""


def read_uri(uri: str) -> ResourceUri | None:
    """What a URI names; None if it is not a URI of goalport's own resources."""
    if (match := _URI.fullmatch(uri)) is None:
        return None
    goals, agent, process, result, page = match.groups("")
    return ResourceUri(bool(goals), unquote(agent), unquote(process), bool(result), int(page) if page else None)


def result_uri(process_id: str) -> str:
    """The URI of the whole output of a process."""
    return f"{_PROCESS}{quote(process_id, safe='')}/result"


def agent_uri(name: str) -> str:
    """The URI of an agent."""
    return f"{_AGENT}{quote(name, safe='')}"


def own_resources(platform: AgentPlatform) -> "Iterator[Resource]":
    """The resources that are listed: the goals, and each agent."""
    from mcp_types import Resource

    yield Resource(uri=_GOALS, name="goals", title="Goals", description="Every goal and its tools", mime_type=_JSON)
    for agent in platform.agents:
        yield Resource(uri=agent_uri(agent.name), name=agent.name, description=agent.description, mime_type=_JSON)


def own_templates() -> "Iterator[ResourceTemplate]":
    """The URI templates of the resources that are not listed, as there are too many."""
    from mcp_types import ResourceTemplate

    for path, name, description, media in (
        ("agents/{name}", "agent", "An agent: its actions, goals and conditions", _JSON),
        ("processes/{id}", "process", "A process that you started: status, plan, history and a picture", _JSON),
        ("processes/{id}/result", "result", "The whole output of a process that you started", None),
        ("processes/{id}/result/{page}", "result page", "One page of that output, from 1", None),
    ):
        yield ResourceTemplate(uri_template=f"goalport://{path}", name=name, description=description, mime_type=media)


def goals_view(
    published: Mapping[str, object], agents: Iterable[Agent], shows: Callable[[Goal], bool]
) -> list[dict[str, Any]]:
    """Every goal of these agents that may be shown, with the names of the published tools that start it."""
    tools: dict[tuple[str, str], list[str]] = {}
    for name, each in published.items():
        if isinstance(each, GoalTool):
            for goal in each.goals:
                tools.setdefault((each.agent.name, goal), []).append(name)
    return [
        {
            "goal": goal.name,
            "agent": agent.name,
            "description": goal.description,
            "output": type_name(goal.output) if goal.output is not None else None,
            "value": goal.value,
            "tags": list(goal.tags),
            "examples": list(goal.examples),
            "tools": tools.get((agent.name, goal.name), []),
        }
        for agent in agents
        for goal in agent.goals
        if shows(goal)
    ]


def agent_view(agent: Agent, shows: Callable[[Goal], bool]) -> dict[str, Any]:
    """An agent: its actions, the goals that may be shown, and its conditions."""
    return {
        "name": agent.name,
        "description": agent.description,
        "provider": agent.provider,
        "version": agent.version,
        "actions": [
            {
                "name": each.name,
                "description": each.description,
                "needs": [type_name(given.type) for given in each.inputs if given.required],
                "gives": type_name(each.outputs.type) if each.outputs.type is not None else None,
                **({"access": [rule.text for rule in each.access]} if each.access else {}),
            }
            for each in agent.actions
        ],
        "goals": [{"name": each.name, "description": each.description} for each in agent.goals if shows(each)],
        "conditions": [each.name for each in agent.conditions],
    }


def process_view(process: AgentProcess) -> dict[str, Any]:
    """A process: its status, plan, questions, history and cost, and a diagram of it."""
    return {
        "id": process.id,
        "agent": process.agent.name,
        "status": str(process.status),
        "reason": process.outcome.reason if process.outcome is not None else None,
        "goal": process.goal.name if process.goal is not None else None,
        "plan": list(process.plan),
        "questions": [question_view(each) for each in process.open_questions],
        "history": [invocation_view(each) for each in process.history],
        "createdAt": process.created_at.isoformat(),
        "finishedAt": process.finished_at.isoformat() if process.over and process.finished_at is not None else None,
        "cost": cost_of(process),
        "models": {name: {"usd": used.cost, "tokens": used.tokens} for name, used in process.ledger.by_model.items()},
        "mermaid": "\n".join(_flowchart(process)),
    }


def invocation_view(each: ActionInvocation) -> dict[str, Any]:
    """An entry of the history of a process."""
    return {
        "action": each.action,
        "startedAt": each.started_at.isoformat(),
        "seconds": round(each.seconds, 6),
        "status": each.status,
        "error": each.error,
        "usd": each.usage.cost,
        "tokens": each.usage.tokens,
        "attempts": each.attempts,
        "missingTools": list(each.missing_tools),
    }


def cost_of(process: AgentProcess) -> Mapping[str, float]:
    """What the models cost a process and its child processes: US dollars, tokens, and the number of model requests."""
    spent = process.usage
    return {
        "usd": spent.cost,
        "inputTokens": spent.input_tokens,
        "outputTokens": spent.output_tokens,
        "modelCalls": process.ledger.requests,
    }


def _flowchart(process: AgentProcess) -> Iterator[str]:
    """A process as the lines of a Mermaid flowchart: the actions that ran with their status, and those planned."""
    yield "flowchart LR"
    steps = [(each.action, f"{each.seconds:.2f} s", _CLASSES.get(each.status, "done")) for each in process.history]
    steps += [(action, "planned", "planned") for action in process.plan]
    goal = process.goal.name if process.goal is not None else "goal"
    *names, goal = (each.rpartition(".")[2].replace('"', "'") for each in (*(step[0] for step in steps), goal))
    for number, (name, (_, note, kind)) in enumerate(zip(names, steps, strict=True)):
        yield f'    a{number}["{name}<br/>{note}"]:::{kind}'
    yield f'    g(["{goal}: {process.status}"])'
    places = [*(f"a{number}" for number in range(len(steps))), "g"]
    yield from (f"    {before} --> {after}" for before, after in pairwise(places))
    yield "    classDef done fill:#d4edda"
    yield "    classDef declined fill:#fff3cd"
    yield "    classDef failed fill:#f8d7da"
    yield "    classDef planned stroke-dasharray: 4"


def question_view(question: Question) -> dict[str, Any]:
    """An open question; without a schema if its answer cannot be read from JSON."""
    try:
        view = open_question(question)
    except UNREADABLE:
        view = {"id": question.id, "message": question.message}
    return {**view, "askedAt": question.asked_at.isoformat()}


CONVERSATIONS: Final = "goalport://conversations/"
_CONVERSATION_URI: Final = re.compile(rf"{CONVERSATIONS}([^/]+)(?:/(json|[0-9]{{1,6}}))?")
_MOST_COMPLETED: Final = 50


def conversation_uris(conversation_id: str) -> Sequence[str]:
    """The URIs at which clients may watch a conversation: as text, and as data."""
    uri = f"{CONVERSATIONS}{quote(conversation_id, safe='')}"
    return uri, f"{uri}/json"


def conversation_at(uri: str) -> str:
    """The id of the conversation that a URI names; empty if it names none."""
    match = _CONVERSATION_URI.fullmatch(uri)
    return "" if match is None else unquote(match[1])


class ConversationResources:
    """Provides the conversations of callers with chatbots; see `ResourceProvider`."""

    namespace: str = CONVERSATIONS
    description: str = "the conversations of each caller with chatbots"

    def __init__(self, conversations: Conversations, page_bytes: int) -> None:
        """`page_bytes`: the most bytes that a page has in JSON."""
        self._conversations, self._page_bytes = conversations, page_bytes

    def templates(self) -> Sequence[tools.ResourceTemplate]:
        """The templates of its URIs."""
        return [
            tools.ResourceTemplate(uri=f"{CONVERSATIONS}{path}", name=name, description=description, media_type=media)
            for path, name, description, media in (
                ("{id}", "conversation", "A conversation of yours with a chatbot: what was said", _MARKDOWN),
                ("{id}/{page}", "conversation page", "One page of that, from 1", _MARKDOWN),
                ("{id}/json", "conversation data", "A conversation of yours as data, with speakers and times", _JSON),
            )
        ]

    async def list_resources(self, caller: Caller, /, *, limit: int, after: str = "") -> ResourcePage:
        """Conversations of a caller, the most recently continued first. Raises `StoreError`."""
        found = await self._conversations.list(caller, after=after, limit=limit + 1)
        shown = [
            ListedResource(
                uri=conversation_uris(each.id)[0],
                name=each.id,
                title=each.title,
                description=f"Conversation with {each.chatbot}, continued last at {each.updated_at:%Y-%m-%d %H:%M} UTC",
                media_type=_MARKDOWN,
            )
            for each in found[:limit]
        ]
        return ResourcePage(shown, shown[-1].name if len(found) > limit else "")

    async def read_resource(self, uri: str, caller: Caller, /) -> ReadResource | None:
        """A conversation or a page; None if it is missing or another's. Raises `BadInput` and `StoreError`."""
        match = _CONVERSATION_URI.fullmatch(uri)
        conversation = None if match is None else await self._conversations.find(unquote(match[1]), caller)
        if match is None or conversation is None:
            return None
        # What people and the chatbot have said, without instructions, calls of tools and what these returned.
        said = [each for each in conversation.entries if each.role in {"user", "assistant"} and each.text]
        if match[2] == "json":
            data = json.dumps(_data(conversation, said), indent=2, ensure_ascii=False)
            return ReadResource(content=data, media_type=_JSON)
        written = Pages.of_text(_MARKDOWN, _markdown(conversation, said), self._page_bytes)
        if match[2] is None:
            return ReadResource(content=written.text, media_type=_MARKDOWN)
        page, last = int(match[2]), len(written.pages)
        if not 1 <= page <= last:
            raise BadInput(f"Conversation {conversation.id} has the pages 1 to {last}; came {page}.")
        meta = {"goalport/page": page, "goalport/pages": last}
        return ReadResource(content=written.pages[page - 1], media_type=_MARKDOWN, meta=meta)

    async def complete(self, variable: str, typed: str, given: Mapping[str, str], caller: Caller, /) -> Sequence[str]:
        """The ids of the newest conversations of a caller that begin with what was typed, or have it in their title."""
        if variable != "id":
            return []
        words = typed.casefold()
        found = await self._conversations.list(caller, limit=_MOST_COMPLETED)
        return [each.id for each in found if each.id.startswith(typed) or words in each.title.casefold()]


def _markdown(conversation: Conversation, said: Sequence[ConversationMessage]) -> str:
    parts = [f"# {cleaned(conversation.title) or f'Conversation with {conversation.record.chatbot}'}"]
    state = "It is over." if conversation.record.finished else "It can be continued."
    parts.append(f"Conversation {conversation.id} with {conversation.record.chatbot}. {state}")
    for each in said:
        parts += [f"## {cleaned(each.name or each.role)}, {each.at:%Y-%m-%d %H:%M:%S} UTC", each.text]
        parts += [f"- {asset.name}{f': {asset.uri}' if asset.uri else ''}" for asset in each.assets]
    return "\n\n".join(parts) + "\n"


def _data(conversation: Conversation, said: Sequence[ConversationMessage]) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "chatbot": conversation.record.chatbot,
        "title": conversation.title,
        "finished": conversation.record.finished,
        "createdAt": conversation.record.created_at.isoformat(),
        "messages": [
            {
                "id": each.id,
                "role": each.role,
                "name": each.name,
                "at": each.at.isoformat(),
                "text": each.text,
                "assets": [asdict(asset) for asset in each.assets],
            }
            for each in said
        ],
    }


def exports_of(references: Iterable[LlmReference], problems: list[str]) -> list[tools.McpToolExport]:
    """The exports of published references; those that cannot be exported are appended to `problems`."""
    exports: list[tools.McpToolExport] = []
    noted: dict[str, LlmReference] = {}
    prefixes: dict[str, str] = {}
    for each in references:
        prefix, told = tools.reference_prefix(each.name), f"The reference {each.name} is not published: "
        export = read_or_note(partial(tools.McpToolExport.from_llm_reference, each), problems, told)
        if export is None:
            continue
        if export.tools() and prefixes.setdefault(prefix, each.name) != each.name:
            problems.append(
                f"{told}the names of its tools would begin with {prefix}, as those of {prefixes[prefix]} do. Give one"
                " of them another name."
            )
            continue
        exports.append(export)
        if not export.resources:
            noted[each.name] = each
    return [*exports, tools.McpToolExport((), resources=(PublishedNotes(noted),))] if noted else exports


@dataclass(frozen=True, slots=True)
class PublishedNotes:
    """The notes of references as resources, brought up to date whenever they are read; everybody may read them."""

    references: Mapping[str, LlmReference]
    namespace: str = "goalport://references/"
    description: str = "the notes of references"

    def templates(self) -> Sequence[tools.ResourceTemplate]:
        words = "The notes of a reference: what a model should know of it"
        uri = f"{self.namespace}{{name}}"
        return [tools.ResourceTemplate(uri=uri, name="reference", description=words, media_type=_MARKDOWN)]

    async def list_resources(self, _caller: Caller, /, *, limit: int, after: str = "") -> ResourcePage:
        names = sorted(each for each in self.references if each > after)
        found = [
            ListedResource(
                uri=f"{self.namespace}{quote(each, safe='')}",
                name=each,
                description=self.references[each].description,
                media_type=_MARKDOWN,
            )
            for each in names[:limit]
        ]
        return ResourcePage(found, names[limit - 1] if len(names) > limit else "")

    async def read_resource(self, uri: str, _caller: Caller, /) -> ReadResource | None:
        reference = self.references.get(unquote(uri.removeprefix(self.namespace)))
        if reference is None:
            return None
        await refreshed(reference)
        return ReadResource(content=reference.notes(), media_type=_MARKDOWN)

    async def complete(self, variable: str, typed: str, given: Mapping[str, str], _caller: Caller, /) -> Sequence[str]:
        return sorted(each for each in self.references if variable == "name" and each.startswith(typed))


def providers(exports: Iterable[tools.McpToolExport], problems: list[str]) -> dict[str, tools.ResourceProvider]:
    """The resource providers, by namespace and sorted by it; a second one of a namespace is appended to `problems`."""
    found: dict[str, tools.ResourceProvider] = {}
    problems += [
        f"Two exports have resources at {each.namespace}; those of the first are published. Give the other reference"
        " another name."
        for export in exports
        for each in export.resources
        if each.templates() and found.setdefault(each.namespace, each) is not each
    ]
    return dict(sorted(found.items()))


def templates_of(provider: tools.ResourceProvider) -> "list[ResourceTemplate]":
    """The templates as clients list them."""
    from mcp_types import ResourceTemplate

    return [
        ResourceTemplate(
            uri_template=each.uri,
            name=each.name,
            description=each.description or None,
            mime_type=each.media_type or None,
        )
        for each in provider.templates()
    ]


def listed(resource: ListedResource) -> "Resource":
    """A resource as clients list it."""
    from mcp_types import Resource

    return Resource(
        uri=resource.uri,
        name=resource.name,
        title=resource.title or None,
        description=resource.description or None,
        mime_type=resource.media_type or None,
        size=resource.size,
    )


def contents_of(uri: str, read: ReadResource) -> "TextResourceContents | BlobResourceContents":
    """The content of a resource as a client gets it."""
    from mcp_types import BlobResourceContents, TextResourceContents

    meta, media, content = dict(read.meta) or None, read.media_type, read.content
    if isinstance(content, bytes):
        return BlobResourceContents(uri=uri, mime_type=media, blob=b64encode(content).decode(), _meta=meta)
    return TextResourceContents(uri=uri, mime_type=media, text=hide_known(content), _meta=meta)
