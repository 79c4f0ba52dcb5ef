"""Resources of goalport, of exports and of raw handlers: listing, reading, and subscriptions to changes.

A cursor names its list and the last entry of its page, so it stays valid when the list changes meanwhile. The resources
of exports come last in the list, as the caller of the request may see them; a provider that fails is skipped.
`publish.resources` makes the contents of goalport's own resources, and `notifications` notifies the subscribers, which
are clients of both eras; `server` is above.
"""

import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar, cast

import anyio
import mcp_types as types
from mcp.server.context import HandlerResult
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ListenHandler
from mcp.shared.exceptions import MCPError

from goalport.base.errors import BadInput, GoalportError, HandedOver, UnknownName
from goalport.base.events import Event
from goalport.base.secrecy import hide_known
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.notifications import Notifications
from goalport.server.doors.mcp.state import Context, HandlerFailed, McpState, scopes_of_resource
from goalport.server.doors.mcp.tasks import ENDED, POLL_MS, refuse_without_tasks, state_of, task_of
from goalport.server.publish.output import Pages, Wire
from goalport.server.publish.publisher import Task
from goalport.server.publish.resources import (
    ResourceUri,
    agent_view,
    contents_of,
    conversation_at,
    goals_view,
    listed,
    process_view,
    read_uri,
)
from goalport.tools import ResourceProvider

ListedT = TypeVar("ListedT")
SourceT = TypeVar("SourceT")


def cursor_of(kind: str, place: str) -> str:
    """The cursor of a place in a list; `kind`, one word, names the list."""
    return urlsafe_b64encode(f"{kind} {place}".encode()).decode()


def place_of(params: types.PaginatedRequestParams | None, kinds: Sequence[str]) -> tuple[str, str] | None:
    """The kind and the place in the cursor of a request; None without a cursor.

    Raises `MCPError` (-32602) for an invalid cursor, and for one of a kind that is not in `kinds`.
    """
    if params is None or params.cursor is None:
        return None
    try:
        kind, separator, place = urlsafe_b64decode(params.cursor.encode()).decode().partition(" ")
    except ValueError:
        kind = separator = place = ""
    if kind not in kinds or not separator:
        raise MCPError(types.INVALID_PARAMS, f"The cursor is not one of the list of {kinds[0]}. Ask again without one.")
    return kind, place


def page_of(
    context: Context,
    params: types.PaginatedRequestParams | None,
    kind: str,
    entries: Sequence[ListedT],
    key: Callable[[ListedT], str],
) -> tuple[list[ListedT], str | None]:
    """A page of a list that is sorted by a unique key, and the cursor of the next page.

    It begins after the last key of the page before. Raises `MCPError` for an invalid cursor.
    """
    place, size = place_of(params, [kind]), context.lifespan_context.settings.page_size
    rest = entries if place is None else [entry for entry in entries if key(entry) > place[1]]
    return list(rest[:size]), None if len(rest) <= size else cursor_of(kind, key(rest[size - 1]))


async def page_across(
    sources: Mapping[str, SourceT],
    begin: str,
    room: int,
    page: Callable[[SourceT, int, str], Awaitable[tuple[Sequence[ListedT], str]]],
) -> tuple[list[ListedT], str]:
    """At most `room` entries of several sources, which are sorted by name, and the place of the next entry.

    `page` takes a source, a limit and a cursor (empty at first), and returns a page of entries and the next cursor.
    A place is the name of a source, a line break and a cursor of `page`; it is empty if there are no more entries.
    """
    found = list[ListedT]()
    first, _, after = begin.partition("\n")
    names = list(sources)
    for name in names[bisect_left(names, first) :]:
        if len(found) >= room:
            return found, f"{name}\n"
        entries, end = await page(sources[name], room - len(found), after if name == first else "")
        found += entries
        if end:
            return found, f"{name}\n{end}"
    return found, ""


_log = logging.getLogger(__name__)
_RESOURCES, _PROVIDED = "resources", "provided"


async def list_resources(context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    """A page of the resources. Raises `MCPError` (-32602) for an invalid cursor."""
    state = context.lifespan_context
    size = state.settings.page_size
    place = place_of(params, [_RESOURCES, _PROVIDED])
    begin, found = "", list[types.Resource]()
    if place is not None and place[0] == _PROVIDED:
        begin = place[1]
    else:
        found, cursor = page_of(context, params, _RESOURCES, state.publication.resource_list, lambda each: each.uri)
        if cursor is not None:
            return types.ListResourcesResult(resources=found, next_cursor=cursor)

    async def page(provider: ResourceProvider, limit: int, after: str) -> tuple[Sequence[types.Resource], str]:
        listing = provider.list_resources(current_caller(), limit=limit, after=after)
        try:
            page = await state.answer_of(f"The list of {provider.namespace}", listing)
        except (GoalportError, HandlerFailed) as error:
            _log.warning("The resources at %s are not listed: %s", provider.namespace, error)
            return [], ""
        return [listed(each) for each in page.resources], page.after

    provided, after = await page_across(state.publication.providers, begin, size - len(found), page)
    cursor = cursor_of(_PROVIDED, after) if after else None
    return types.ListResourcesResult(resources=[*found, *provided], next_cursor=cursor)


async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> HandlerResult:
    """The contents at a URI. Raises `MCPError` (-32602) if there is no such resource for this caller."""
    state, uri = context.lifespan_context, str(params.uri)
    raw = state.publication.resources.get(uri)
    if raw is None and (own := read_uri(uri)) is not None:
        return await _read_own(state, uri, own)
    for namespace, provider in () if raw is not None else state.publication.providers.items():
        if not uri.startswith(namespace):
            continue
        try:
            read = await state.answer_of(uri, provider.read_resource(uri, current_caller()))
        except BadInput as problem:
            raise MCPError(types.INVALID_PARAMS, str(problem), {"uri": uri}) from problem
        except GoalportError as error:
            _log.warning("%s cannot be read: %s", uri, error)
            raise MCPError(types.INTERNAL_ERROR, str(error), {"uri": uri}) from error
        if read is not None:
            return types.ReadResourceResult(contents=[contents_of(uri, read)])
        break
    raw = raw or next((each for each in state.publication.templates if each.matches(uri)), None)
    if raw is None:
        raise _not_found(uri)
    return await state.answer_of_raw(uri, raw.handler, context, params)


async def _read_own(state: McpState, uri: str, own: ResourceUri) -> types.ReadResourceResult:
    shown = state.publication
    if own.goals:
        return _json(uri, goals_view(shown.tools, state.platform.agents, shown.shows_goal))
    if own.agent:
        try:
            agent = state.platform.agents.named(own.agent)
        except UnknownName:
            raise _not_found(uri) from None
        if not shown.shows_agent(agent):
            raise _not_found(uri)
        return _json(uri, agent_view(agent, shown.shows_goal))
    try:
        process = await state.process(own.process)
    except BadInput as problem:
        raise MCPError(types.INVALID_PARAMS, str(problem), {"uri": uri}) from problem
    if process is None:
        raise _not_found(uri)
    if not own.result:
        view = process_view(process)
        read = _json(uri, view)
        picture = f"```mermaid\n{view['mermaid']}\n```"
        read.contents.append(types.TextResourceContents(uri=uri, mime_type="text/markdown", text=picture))
        return read
    result, page = Pages.of(process, state.settings.max_result_bytes), own.page
    if result is None:
        raise _not_found(uri)
    text, more = result.text, None
    if page is not None:
        if not 1 <= page <= len(result.pages):
            raise MCPError(types.INVALID_PARAMS, f"The result has the pages 1 to {len(result.pages)}.", {"uri": uri})
        text, more = result.pages[page - 1], {"goalport/page": page, "goalport/pages": len(result.pages)}
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=result.media, text=text, _meta=more)]
    )


def _json(uri: str, data: object) -> types.ReadResourceResult:
    text = hide_known(json.dumps(data, indent=2, ensure_ascii=False))
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=text)]
    )


def _not_found(uri: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, f"There is no resource {uri[:200]!r}, or not for you.", {"uri": uri})


async def initialized(context: Context, _: types.NotificationParams) -> None:
    """From now on, notify this handshake-era client of changed lists: its handshake is complete."""
    context.lifespan_context.notifications.session_of(context)


async def subscribe(context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
    """Notify this client whenever the resource changes. Raises `MCPError` (-32602) if it may not read the resource."""
    state, uri = context.lifespan_context, str(params.uri)
    if not await _may_watch(state, uri):
        raise _not_found(uri)
    session = state.notifications.session_of(context)
    state.notifications.subscribe(session.uris, session.uris | {uri})
    session.on_change()
    await _watch(state, uri)
    return types.EmptyResult()


async def unsubscribe(context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    """No longer notify this client when the resource changes."""
    notifications = context.lifespan_context.notifications
    session = notifications.session_of(context)
    notifications.subscribe(session.uris, session.uris - {str(params.uri)})
    session.on_change()
    return types.EmptyResult()


async def _may_watch(state: McpState, uri: str) -> bool:
    """Whether the caller may watch a URI: it has the scopes, and may follow the process or conversation there."""
    if state.access.lacks(scopes_of_resource(state, uri)):
        return False
    if conversation_id := conversation_at(uri):
        return await state.platform.conversations.find(conversation_id, current_caller()) is not None
    own = read_uri(uri)
    return own is None or not own.process or await state.process(own.process) is not None


async def _watch(state: McpState, uri: str) -> None:
    """If the URI is of a process that has not ended, notify its subscribers at each event of the process."""
    own = read_uri(uri)
    process = await state.process(own.process) if own is not None and own.process else None
    if process is not None and not process.over:
        listener = _ProcessListener(state.notifications, uri)
        listener.unsubscribe = process.subscribe(listener)


@dataclass(slots=True)
class _ProcessListener:
    """Marks the resource of a process as changed at each event, until it has no subscribers."""

    notifications: Notifications
    uri: str
    unsubscribe: Callable[[], None] = lambda: None

    def on_event(self, event: Event, /) -> None:
        """Mark the resource as changed."""
        if self.notifications.watched[self.uri] <= 0:
            self.unsubscribe()
        else:
            self.notifications.mark(self.uri)


_TASKS: Final = "taskIds"


class _TaskNotification(types.Notification[Wire, Literal["notifications/tasks"]]):
    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: Wire


class SubscriptionStreams:
    """`subscriptions/listen`: the SDK's streams, limited to the resources and tasks that the caller may watch."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._handler = ListenHandler(notifications.bus)
        self.close = self._handler.close
        """Closes all streams with their final response."""

    async def __call__(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream, also with notifications about the tasks that the client names.

        Raises `MCPError` for a client that names tasks and does not declare the extension.
        """
        state, wanted = context.lifespan_context, params.notifications
        uris = [uri for uri in map(str, wanted.resource_subscriptions or ()) if await _may_watch(state, uri)]
        allowed = wanted.model_copy(update={"resource_subscriptions": uris})
        limited = params.model_copy(update={"notifications": allowed})
        watched = set[str]()
        self._notifications.subscribe(watched, uris)
        try:
            for uri in watched:
                await _watch(state, uri)
            if _TASKS not in (wanted.model_extra or {}):
                return await self._handler(context, limited)
            return await self._with_tasks(context, limited)
        finally:
            self._notifications.subscribe(watched, ())

    async def _with_tasks(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        refuse_without_tasks(context)
        named = cast("object", (params.notifications.model_extra or {})[_TASKS])
        if not isinstance(named, list) or not all(isinstance(each, str) for each in cast("list[object]", named)):
            raise MCPError(types.INVALID_PARAMS, f"Expected a list of task ids as {_TASKS}.")
        found = [await task_of(context, each) for each in dict.fromkeys(cast("list[str]", named))]
        # Unknown tasks, and tasks of other callers, are left out.
        stream = _Stream(context, [each for each in found if each is not None])
        session = cast("ServerSession", stream)  # the handler only sends notifications with it
        refusal: MCPError | None = None
        result = types.SubscriptionsListenResult()
        async with anyio.create_task_group() as tasks:
            for each in stream.tasks:
                tasks.start_soon(stream.follow, each)
            try:
                result = await self._handler(replace(context, session=session), params)
            except MCPError as error:
                refusal = error
            tasks.cancel_scope.cancel()
        if refusal is not None:
            raise refusal
        return result


@dataclass(slots=True)
class _Stream:
    """The session of one stream: it adds the tasks to the acknowledgement, and sends their notifications after it."""

    context: Context
    tasks: Sequence[Task]
    acknowledged: anyio.Event = field(default_factory=anyio.Event)

    async def send_notification(
        self, notification: types.ServerNotification, related_request_id: types.RequestId | None = None
    ) -> None:
        """Send what the SDK's handler sends."""
        if isinstance(notification, types.SubscriptionsAcknowledgedNotification):
            kinds = notification.params.notifications.model_dump(by_alias=True, exclude_none=True)
            told = types.SubscriptionFilter.model_validate({**kinds, _TASKS: [each.id for each in self.tasks]})
            notification.params.notifications = told
        await self.context.session.send_notification(notification, related_request_id)
        self.acknowledged.set()

    async def follow(self, task: Task) -> None:
        """Notify the client of the state of a task, now and at each change, until the task has ended.

        The state is read again as often as a client would poll, since another server may change it.
        """
        await self.acknowledged.wait()
        told: Mapping[str, Any] = {}
        while told.get("status") not in ENDED:
            try:
                state = await state_of(self.context, task)
            except MCPError:  # The store does not answer just now.
                state = told
            if state != told:
                params = {"_meta": {SUBSCRIPTION_ID_META_KEY: self.context.request_id}, **state}
                notification = cast("types.ServerNotification", _TaskNotification(params=params))
                await self.context.session.send_notification(notification, self.context.request_id)
            told = state
            try:
                with anyio.move_on_after(POLL_MS / 1_000):
                    await task.process.changed()
            except HandedOver:
                return
