"""The MCP server: the SDK's low-level `Server`, fed from a publication, for every revision of the protocol.

It wires methods to handlers and says what the server can do. What a call means is in `calls`, what a list holds in
`publication`, how bytes come and go in `http` and `stdio`.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import HandlerResult
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    GetPromptRequestParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
)
from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider

from goalport import __version__
from goalport.errors import BadInput, UnknownName
from goalport.greeting import INSTRUCTIONS
from goalport.publish.prompts import GoalPrompt
from goalport.serve import calls, completion, news, resources
from goalport.serve.connections import set_log_level, without_deprecations
from goalport.serve.failures import answer_of
from goalport.serve.pagination import PROMPTS, RESOURCES, TEMPLATES, TOOLS
from goalport.serve.sealing import sealing_keys
from goalport.serve.serving import Context, Serving

__all__ = ["GoalServer", "make_server"]

_LISTS: Final = CacheHint(ttl_ms=5_000, scope="private")
_CONTENTS: Final = CacheHint(ttl_ms=0, scope="private")
_HINTS: Final[Mapping[CacheableMethod, CacheHint]] = {
    "tools/list": _LISTS,
    "prompts/list": _LISTS,
    "resources/list": _LISTS,
    "resources/templates/list": _LISTS,
    "resources/read": _CONTENTS,
}


class GoalServer(Server[Serving]):
    """The low-level server, which says in every era that its lists may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What the handshake answers. The SDK's HTTP sessions ask for it without arguments."""
        everything = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        options = notification_options or everything
        return super().create_initialization_options(options, experimental_capabilities, extensions or {})


def make_server(serving: Serving) -> tuple[GoalServer, news.Listening]:
    """The server for this state, and its open streams, which a shutdown closes."""

    @asynccontextmanager
    async def lifespan(_: Server[Serving]) -> AsyncGenerator[Serving]:
        yield serving

    listening = news.Listening(serving.changes)
    with without_deprecations():
        server = GoalServer(
            serving.settings.name,
            version=__version__,
            instructions=INSTRUCTIONS,
            lifespan=lifespan,
            cache_hints=_HINTS,
            get_tool_input_schema=lambda name: _mirrored_schema(serving, name),
            on_list_tools=_list_tools,
            on_call_tool=calls.call_tool,  # pyright: ignore - it answers with dicts, which the SDK takes too
            on_list_prompts=_list_prompts,
            on_get_prompt=_get_prompt,  # pyright: ignore - as above
            on_list_resources=_list_resources,
            on_list_resource_templates=_list_templates,
            on_read_resource=resources.read_resource,  # pyright: ignore - as above
            on_subscribe_resource=news.subscribe,
            on_unsubscribe_resource=news.unsubscribe,
            on_subscriptions_listen=listening,
            on_completion=completion.complete,  # pyright: ignore - as above
            on_set_logging_level=_set_level,
        )
    server.add_notification_handler("notifications/initialized", NotificationParams, news.joined)
    if isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        server.middleware.clear()
    security = RequestStateSecurity(keys=sealing_keys(serving.settings), ttl=serving.settings.state_ttl_seconds)
    server.middleware.append(RequestStateBoundary(security, default_audience=serving.settings.name))
    return server, listening


def _mirrored_schema(serving: Serving, name: str) -> Mapping[str, Any] | None:
    return serving.publication.mirrored.get(name)


async def _list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
    serving = context.lifespan_context
    page, cursor = TOOLS.page(serving.publication.tool_list, params, serving.settings.page_size)
    return ListToolsResult(tools=page, next_cursor=cursor)


async def _list_prompts(context: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
    serving = context.lifespan_context
    page, cursor = PROMPTS.page(serving.publication.prompt_list, params, serving.settings.page_size)
    return ListPromptsResult(prompts=page, next_cursor=cursor)


async def _list_resources(context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
    serving = context.lifespan_context
    page, cursor = RESOURCES.page(serving.publication.resource_list, params, serving.settings.page_size)
    return ListResourcesResult(resources=page, next_cursor=cursor)


async def _list_templates(context: Context, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
    serving = context.lifespan_context
    page, cursor = TEMPLATES.page(serving.publication.template_list, params, serving.settings.page_size)
    return ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)


async def _get_prompt(context: Context, params: GetPromptRequestParams) -> HandlerResult:
    serving = context.lifespan_context
    prompts = serving.publication.prompts
    published = prompts.get(params.name)
    if published is None:
        raise MCPError(INVALID_PARAMS, str(UnknownName("prompt", params.name[:100], prompts)))
    if isinstance(published, GoalPrompt):
        try:
            return published.message(params.arguments or {})
        except BadInput as refusal:
            raise MCPError(INVALID_PARAMS, str(refusal)) from None
    return await answer_of(params.name, published.handler(context, params), tells_errors=serving.settings.show_errors)


async def _set_level(context: Context, params: SetLevelRequestParams) -> EmptyResult:
    set_log_level(context, params.level)
    return EmptyResult()
