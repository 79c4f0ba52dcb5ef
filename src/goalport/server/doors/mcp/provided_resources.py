"""Listing, reading and completing resources that exports provide, each time for the caller of the request.

The list begins with what a server always has, goals and agents among them, and goes on with what is provided, page by
page: a provider is asked for no more than a page has room for. A provider that fails is left out of the list, and its
error is the answer to who reads from it. `resources` and `server` are above.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ListResourcesResult,
    PaginatedRequestParams,
    ReadResourceResult,
    Resource,
)

from goalport.base.errors import BadInput, GoalportError
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.pagination import Pagination, cursor_of, page_across, place_of
from goalport.server.doors.mcp.state import Context, HandlerFailed, McpState
from goalport.server.publish.provided import contents_of, listed
from goalport.tools import ResourceProvider

_log = logging.getLogger(__name__)
_RESOURCES: Final = Pagination[Resource]("resources", lambda listed: listed.uri)
_PROVIDED: Final = "provided"


async def list_resources(context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
    """A page of the resources. Raises `MCPError` (-32602) for an invalid cursor."""
    state = context.lifespan_context
    size = state.settings.page_size
    place = place_of(params, [_RESOURCES.kind, _PROVIDED])
    begin, found = "", list[Resource]()
    if place is not None and place[0] == _PROVIDED:
        begin = place[1]
    else:
        found, cursor = _RESOURCES.page(state.publication.resource_list, params, size)
        if cursor is not None:
            return ListResourcesResult(resources=found, next_cursor=cursor)
    provided, after = await page_across(state.publication.providers, begin, size - len(found), partial(_listed, state))
    cursor = cursor_of(_PROVIDED, after) if after else None
    return ListResourcesResult(resources=[*found, *provided], next_cursor=cursor)


async def _listed(
    state: McpState, provider: ResourceProvider, limit: int, after: str
) -> tuple[Sequence[Resource], str]:
    listing = provider.list_resources(current_caller(), limit=limit, after=after)
    try:
        page = await state.answer_of(f"The list of {provider.namespace}", listing)
    except (GoalportError, HandlerFailed) as error:
        _log.warning("The resources at %s are not listed: %s", provider.namespace, error)
        return [], ""
    return [listed(each) for each in page.resources], page.after


async def read_provided(state: McpState, uri: str) -> ReadResourceResult | None:
    """The contents at a URI that a provider has; None if it is not there for this caller. Raises `MCPError`."""
    for namespace, provider in state.publication.providers.items():
        if uri.startswith(namespace):
            try:
                read = await state.answer_of(uri, provider.read_resource(uri, current_caller()))
            except BadInput as problem:
                raise MCPError(INVALID_PARAMS, str(problem), {"uri": uri}) from problem
            except GoalportError as error:
                _log.warning("%s cannot be read: %s", uri, error)
                raise MCPError(INTERNAL_ERROR, str(error), {"uri": uri}) from error
            return None if read is None else ReadResourceResult(contents=[contents_of(uri, read)])
    return None


async def complete_provided(
    state: McpState, template: str, variable: str, typed: str, given: Mapping[str, str]
) -> Sequence[str]:
    """The values that a provider knows for a variable of its template; none for a template of no provider."""
    for namespace, provider in state.publication.providers.items():
        if template.startswith(namespace):
            try:
                completing = provider.complete(variable, typed, given, current_caller())
                return await state.answer_of(f"The completion of {namespace}", completing)
            except (GoalportError, HandlerFailed) as error:
                _log.warning("Nothing can be completed at %s: %s", namespace, error)
                return []
    return []
