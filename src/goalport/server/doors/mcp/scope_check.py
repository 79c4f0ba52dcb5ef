"""The scopes of MCP requests: which ones a request needs, and its refusal where the caller lacks some.

A request is checked twice by the same rule. Over HTTP, `guarded` looks at the message before the SDK does, and
refuses with status 403 and a challenge, by which clients ask for more rights (step-up). `ScopeCheck` checks the
requests of every transport: it refuses where there is no HTTP, and where the setting `auth.step_up` is "tool-error".
`server` and the transports are above.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, CallToolRequestParams
from starlette.types import ASGIApp, Receive, Scope, Send

from goalport.base.errors import BadInput
from goalport.server.auth import current_caller
from goalport.server.auth.guard import route_path
from goalport.server.doors.mcp.jsonrpc import message_of
from goalport.server.doors.mcp.state import McpState
from goalport.server.publish.handle import ANSWER, CANCEL, Companion
from goalport.server.publish.publication import Scopes
from goalport.server.publish.resources import read_uri

_FREE: Final = frozenset({"initialize", "ping", "server/discover"})
"""What every caller may ask: who the server is, and whether it is there."""
_LONGEST_NAME: Final = 100
_OF_PROCESS: Final = frozenset({ANSWER, CANCEL})
"""The companion tools that change how a process goes on."""
_NOTHING: Final[Mapping[str, Any]] = {}


async def needed_scopes(state: McpState, method: str, params: Mapping[str, Any]) -> Scopes:
    """The scopes that a request needs, all of them. Parameters that are missing or of a wrong type are not checked."""
    scopes = state.publisher.publication.scopes
    match method, params:
        case "tools/call", {"name": str() as name, **rest}:
            if name in _OF_PROCESS and isinstance(state.publisher.publication.tools.get(name), Companion):
                return await _of_process(state, rest.get("arguments"), "processId")
            return scopes.tools.get(name, scopes.rules.read)
        case "prompts/get", {"name": str() as name}:
            return scopes.prompts.get(name, scopes.rules.read)
        case (("resources/read" | "resources/subscribe" | "skills/get"), {"uri": str() as uri}):
            return scopes_of_resource(state, uri)
        case "completion/complete", {"ref": {"type": "ref/prompt", "name": str() as name}}:
            return scopes.prompts.get(name, scopes.rules.read)
        case "completion/complete", {"ref": {"uri": str() as uri}}:
            return scopes.templates.get(uri, scopes.rules.read)
        case (("tasks/update" | "tasks/cancel"), _):
            return await _of_process(state, params, "taskId")
        case _:
            return Scopes() if method in _FREE else scopes.rules.read


def scopes_of_resource(state: McpState, uri: str) -> Scopes:
    """The scopes to read or watch a resource. It is looked up in the order in which `resources` finds it."""
    whole = state.publisher.publication
    scopes = whole.scopes
    if uri in scopes.resources:
        return scopes.resources[uri]
    if read_uri(uri) is not None:
        return scopes.rules.read
    provided = next((each for each in whole.providers if uri.startswith(each)), None)
    if provided is not None:
        return scopes.providers[provided]
    template = next((each.template.uri_template for each in whole.templates if each.matches(uri)), "")
    return scopes.templates.get(template, scopes.rules.read)


async def _of_process(state: McpState, named: object, key: str) -> Scopes:
    """What it takes to change how the process goes on whose id, or that of a task of it, stands under a key."""
    named_id = cast("Mapping[str, object]", named).get(key) if isinstance(named, dict) else None
    try:
        process = await state.process(named_id.partition(":")[0]) if isinstance(named_id, str) else None
    except BadInput:  # the request itself is told why
        process = None
    return state.access.base if process is None else state.access.of_process(process)


async def refuse_call(state: McpState, params: CallToolRequestParams) -> None:
    """Raise `BadInput` for a call of a tool whose caller lacks scopes."""
    if state.access.challenges is not None:
        needed = await needed_scopes(state, "tools/call", {"name": params.name, "arguments": params.arguments})
        if state.access.lacks(needed):
            raise BadInput(state.access.refusal(needed))


class ScopeCheck:
    """SDK middleware that refuses requests whose caller lacks scopes. Calls of tools check by `refuse_call`."""

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is not None and ctx.method != "tools/call":
            state: McpState = ctx.lifespan_context
            needed = await needed_scopes(state, ctx.method, ctx.params or _NOTHING)
            if state.access.lacks(needed):
                raise MCPError(INVALID_REQUEST, state.access.refusal(needed), {"requiredScopes": sorted(needed)})
        return await call_next(ctx)


def guarded(app: ASGIApp, state: McpState) -> ASGIApp:
    """The app, behind a guard where requests that lack scopes are refused by HTTP status 403 and a challenge.

    It stands behind `PostReader` and decides by the body alone. A message that its headers contradict never runs:
    `PostReader` has refused it, or in revision 2026-07-28 the SDK will.
    """
    challenges = state.access.challenges
    if challenges is None or state.settings.auth.step_up != "http":
        return app

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        message = cast("Mapping[str, Any]", message_of(scope) or _NOTHING)
        method, params = message.get("method"), message.get("params") or _NOTHING
        if isinstance(method, str) and "id" in message:
            needed = await needed_scopes(state, method, params)
            if state.access.lacks(needed):
                if method == "tools/call" and isinstance(name := params.get("name"), str):
                    # It is logged as a call that a tool refuses is.
                    with state.publisher.calls.of("mcp", name[:_LONGEST_NAME], current_caller()) as call:
                        call.known, call.status = name in state.publisher.publication.tools, "refused"
                refused = challenges.at(route_path(scope)).insufficient_scope(needed, state.access.refusal(needed))
                await refused(scope, receive, send)
                return
        await app(scope, receive, send)

    return guard
