"""`resources/read`: goalport's own resources, and those of raw handlers.

`publish.own_resources` makes the contents of the own ones. `server` is above.
"""

import json

from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ReadResourceRequestParams, ReadResourceResult, TextResourceContents

from goalport.domain import Agent
from goalport.errors import UnknownName
from goalport.process import AgentProcess
from goalport.publish.output import Pages
from goalport.publish.own_resources import ResourceUri, agent_view, goals_view, process_view, read_uri
from goalport.secrecy import hide_known
from goalport.serve.sessions import current_caller
from goalport.serve.state import Context, McpState

__all__ = ["may_watch", "read_resource"]


async def read_resource(context: Context, params: ReadResourceRequestParams) -> HandlerResult:
    """The contents at a URI. Raises `MCPError` (-32602) if there is no such resource for this caller."""
    state, uri = context.lifespan_context, str(params.uri)
    raw = state.publication.resources.get(uri)
    if raw is not None:
        return await state.answer_of(uri, raw.handler(context, params))
    named = read_uri(uri)
    if named is not None:
        return _own(state, uri, named)
    for template in state.publication.templates:
        if template.matches(uri):
            return await state.answer_of(uri, template.handler(context, params))
    raise _not_found(uri)


def may_watch(state: McpState, uri: str) -> bool:
    """Whether the current caller may watch a URI: every one, except those of other callers' processes."""
    named = read_uri(uri)
    return named is None or not named.process or state.process(named.process, current_caller()) is not None


def _own(state: McpState, uri: str, named: ResourceUri) -> ReadResourceResult:
    if named.goals:
        return _json(uri, goals_view(state.publication.tools, state.platform))
    if named.agent:
        return _json(uri, agent_view(_named(state, named.agent, uri)))
    process = state.process(named.process, current_caller())
    if process is None:
        raise _not_found(uri)
    return _result(state, uri, named, process) if named.result else _process(uri, process)


def _json(uri: str, data: object) -> ReadResourceResult:
    text = hide_known(json.dumps(data, indent=2, ensure_ascii=False))
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="application/json", text=text)])


def _not_found(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"There is no resource {uri[:200]!r}, or not for you.", {"uri": uri})


def _named(state: McpState, name: str, uri: str) -> Agent:
    try:
        return state.platform.agents.named(name)
    except UnknownName:
        raise _not_found(uri) from None


def _process(uri: str, process: AgentProcess) -> ReadResourceResult:
    view = process_view(process)
    picture = f"```mermaid\n{view['mermaid']}\n```"
    shown = TextResourceContents(uri=uri, mime_type="text/markdown", text=picture)
    return ReadResourceResult(contents=[*_json(uri, view).contents, shown])


def _result(state: McpState, uri: str, named: ResourceUri, process: AgentProcess) -> ReadResourceResult:
    result = Pages.of(process, state.settings.max_result_bytes)
    if result is None:
        raise _not_found(uri)
    if named.page is None:
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=result.media, text=result.text)])
    if not 1 <= named.page <= len(result.pages):
        raise MCPError(INVALID_PARAMS, f"The result has the pages 1 to {len(result.pages)}.", {"uri": uri})
    more = {"goalport/page": named.page, "goalport/pages": len(result.pages)}
    text = result.pages[named.page - 1]
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=result.media, text=text, _meta=more)])
