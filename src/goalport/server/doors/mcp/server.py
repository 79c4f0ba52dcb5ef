"""The MCP server: the SDK's low-level `Server`, which serves a publication to clients of every protocol version.

It connects methods with handlers and declares the capabilities; lists, prompts and completion are answered here.
`calls` answers tool calls, and `resources` requests for resources; the transports are above.
"""

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, runtime_checkable

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import HandlerResult
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider

from goalport import __version__
from goalport.base.errors import BadInput, GoalportError, UnknownName
from goalport.base.handshake import INSTRUCTIONS, SKILLS
from goalport.server.auth import current_caller
from goalport.server.doors.mcp import calls, resources
from goalport.server.doors.mcp.notifications import without_deprecations
from goalport.server.doors.mcp.requests import CallContext
from goalport.server.doors.mcp.resources import cursor_of, list_resources, page_across, page_of, place_of
from goalport.server.doors.mcp.state import Context, HandlerFailed, McpState, check_scopes
from goalport.server.doors.mcp.tasks import add_tasks
from goalport.server.publish.goal_tools import GoalPrompt
from goalport.server.publish.output import WrittenResult

_log = logging.getLogger(__name__)
_LISTS: Final = CacheHint(ttl_ms=5_000, scope="private")
_CONTENTS: Final = CacheHint(ttl_ms=0, scope="private")
_HINTS: Final[Mapping[CacheableMethod, CacheHint]] = {
    "tools/list": _LISTS,
    "prompts/list": _LISTS,
    "resources/list": _LISTS,
    "resources/templates/list": _LISTS,
    "resources/read": _CONTENTS,
}
_MOST = 100


class GoalServer(Server[McpState]):
    """The low-level server; it declares `listChanged` for all its lists in every protocol version."""

    is_traced = True
    """Whether the SDK makes a span for each request."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The server's part of the handshake. The SDK's HTTP sessions call this without arguments."""
        everything = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        options = notification_options or everything
        return super().create_initialization_options(options, experimental_capabilities, extensions or {})


def make_server(state: McpState) -> tuple[GoalServer, resources.SubscriptionStreams]:
    """The server for this state, and its subscription streams, which a shutdown closes."""

    @asynccontextmanager
    async def lifespan(_: Server[McpState]) -> AsyncGenerator[McpState]:
        yield state

    def input_schema(tool: str) -> Mapping[str, Any] | None:
        return state.publisher.publication.mirrored.get(tool)

    streams = resources.SubscriptionStreams(state.notifications)
    with without_deprecations():
        server = GoalServer(
            state.settings.name,
            version=__version__,
            instructions=INSTRUCTIONS,
            lifespan=lifespan,
            cache_hints=_HINTS,
            get_tool_input_schema=input_schema,
            on_list_tools=_list_tools,
            on_call_tool=_call_tool,  # pyright: ignore - it returns dicts, which the SDK accepts too
            on_list_prompts=_list_prompts,
            on_get_prompt=_get_prompt,  # pyright: ignore - as above
            on_list_resources=list_resources,
            on_list_resource_templates=_list_templates,
            on_read_resource=resources.read_resource,  # pyright: ignore - as above
            on_subscribe_resource=resources.subscribe,
            on_unsubscribe_resource=resources.unsubscribe,
            on_subscriptions_listen=streams,
            on_completion=_complete,  # pyright: ignore - as above
            on_set_logging_level=_set_level,
        )
    server.add_notification_handler("notifications/initialized", types.NotificationParams, resources.initialized)
    server.add_request_handler("skills/list", types.PaginatedRequestParams, _list_skills)
    server.add_request_handler("skills/get", _GetSkillParams, _get_skill)
    server.extensions[SKILLS] = {}
    add_tasks(server)
    server.is_traced = not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)
    if not server.is_traced:
        server.middleware.clear()
    if state.access.challenges is not None:
        server.middleware.append(check_scopes)
    security = RequestStateSecurity(keys=state.keys, ttl=state.settings.state_ttl_seconds)
    server.middleware.append(RequestStateBoundary(security, default_audience=state.settings.name))
    return server, streams


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> HandlerResult:
    answer = await calls.call_tool(CallContext.of(context), params)
    return answer.wire if isinstance(answer, WrittenResult) else answer


async def _list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    listed = context.lifespan_context.publication.tool_list
    page, cursor = page_of(context, params, "tools", listed, lambda each: each.name)
    return types.ListToolsResult(tools=page, next_cursor=cursor)


async def _list_prompts(context: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    listed = context.lifespan_context.publication.prompt_list
    page, cursor = page_of(context, params, "prompts", listed, lambda each: each.name)
    return types.ListPromptsResult(prompts=page, next_cursor=cursor)


async def _list_templates(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    listed = context.lifespan_context.publication.template_list
    page, cursor = page_of(context, params, "templates", listed, lambda each: each.uri_template)
    return types.ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)


async def _get_prompt(context: Context, params: types.GetPromptRequestParams) -> HandlerResult:
    state = context.lifespan_context
    prompts = state.publication.prompts
    published = prompts.get(params.name)
    if published is None:
        raise MCPError(types.INVALID_PARAMS, str(UnknownName("prompt", params.name[:100], prompts)))
    if isinstance(published, GoalPrompt):
        try:
            return published.message(params.arguments or {})
        except BadInput as refusal:
            raise MCPError(types.INVALID_PARAMS, str(refusal)) from None
    return await state.answer_of_raw(params.name, published.handler, context, params)


async def _set_level(context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    session = context.lifespan_context.notifications.session_of(context)
    session.log_level = params.level
    session.on_change()
    return types.EmptyResult()


async def _complete(context: Context, params: types.CompleteRequestParams) -> HandlerResult:
    """The values that begin with the typed text. Raises `MCPError` (-32602) for an unknown prompt or template."""
    state, reference = context.lifespan_context, params.ref
    publication, argument, typed = state.publication, params.argument.name, params.argument.value
    values: Sequence[str] = ()
    if isinstance(reference, types.PromptReference):
        published = publication.prompts.get(reference.name)
        if published is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {reference.name[:100]!r}.")
        values = published.options(argument) if isinstance(published, GoalPrompt) else ()
    elif reference.uri not in {template.uri_template for template in publication.template_list}:
        raise MCPError(types.INVALID_PARAMS, f"There is no resource template {reference.uri[:100]!r}.")
    elif reference.uri == "goalport://agents/{name}" and argument == "name":
        values = [each.name for each in state.platform.agents if publication.shows_agent(each)]
    provided = "" if isinstance(reference, types.PromptReference) else reference.uri
    values = [each for each in values if each.casefold().startswith(typed.casefold())]
    for namespace, provider in publication.providers.items():
        if provided.startswith(namespace):
            given = (params.context.arguments if params.context is not None else None) or {}
            try:
                completing = provider.complete(argument, typed, given, current_caller())
                values = await state.answer_of(f"The completion of {namespace}", completing)
            except (GoalportError, HandlerFailed) as error:
                _log.warning("Nothing can be completed at %s: %s", namespace, error)
            break
    completion = types.Completion(values=list(values[:_MOST]), total=len(values), has_more=len(values) > _MOST)
    return types.CompleteResult(completion=completion)


_KIND: Final = "skills"
_FRESH: Final = {"resultType": "complete", "ttlMs": 5_000, "cacheScope": "private"}


@runtime_checkable
class SkillProvider(Protocol):
    """Provides skills; it provides their files as resources too."""

    async def skill_entries(self, *, limit: int, after: str = "") -> tuple[Sequence[Mapping[str, Any]], str]:
        """The entries of at most `limit` skills, and `after` for the next call; empty if there are no more."""
        ...

    async def skill_entry(self, uri: str, /) -> Mapping[str, Any] | None:
        """The entry of the skill whose SKILL.md has this URI; None: there is no such skill."""
        ...


class _GetSkillParams(types.RequestParams):
    uri: str


async def _list_skills(context: Context, params: types.PaginatedRequestParams) -> HandlerResult:
    """Answer `skills/list`. Raises `MCPError` (-32602) for an invalid cursor."""
    state = context.lifespan_context
    place = place_of(params, [_KIND])
    listing = page_across(
        _providers(state),
        "" if place is None else place[1],
        state.settings.page_size,
        lambda provider, limit, after: provider.skill_entries(limit=limit, after=after),
    )
    skills, after = await state.answer_of("skills/list", listing)
    more = {"nextCursor": cursor_of(_KIND, after)} if after else {}
    return {**_FRESH, "skills": skills, **more}


async def _get_skill(context: Context, params: _GetSkillParams) -> HandlerResult:
    """Answer `skills/get`. Raises `MCPError` (-32602) if there is no such skill."""
    state = context.lifespan_context
    for namespace, provider in _providers(state).items():
        if params.uri.startswith(namespace):
            entry = await state.answer_of(params.uri, provider.skill_entry(params.uri))
            if entry is not None:
                return {**_FRESH, "skill": entry}
    raise MCPError(types.INVALID_PARAMS, f"There is no skill at {params.uri[:200]!r}.", {"uri": params.uri})


def _providers(state: McpState) -> Mapping[str, SkillProvider]:
    return {
        namespace: provider
        for namespace, provider in state.publication.providers.items()
        if isinstance(provider, SkillProvider)
    }
