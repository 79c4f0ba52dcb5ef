"""Conversations as MCP resources: what was said, as Markdown or JSON, for the caller to whom it belongs.

They are listed with the newest first. It is a provider of resources like documents and skills (`provided`), but of the
platform itself. `publication` is above, and so is `doors.mcp.resources`, which tells subscribers of changes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote, unquote

from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.base.words import cleaned
from goalport.runtime.chat import Conversation, ConversationMessage, Conversations
from goalport.server.publish.output import Pages
from goalport.store import ConversationRecord
from goalport.tools import ListedResource, ReadResource, ResourcePage, ResourceTemplate

CONVERSATIONS: Final = "goalport://conversations/"
_URI: Final = re.compile(rf"{CONVERSATIONS}([^/]+)(?:/(json|[0-9]{{1,6}}))?")
_MARKDOWN, _JSON = "text/markdown", "application/json"
_MOST_COMPLETED: Final = 50


def conversation_uri(conversation_id: str) -> str:
    """The URI of a conversation."""
    return f"{CONVERSATIONS}{quote(conversation_id, safe='')}"


def conversation_uris(conversation_id: str) -> Sequence[str]:
    """The URIs at which clients may watch a conversation."""
    return conversation_uri(conversation_id), f"{conversation_uri(conversation_id)}/json"


def conversation_at(uri: str) -> str:
    """The id of the conversation that a URI names; empty if it names none."""
    match = _URI.fullmatch(uri)
    return "" if match is None else unquote(match[1])


class ConversationResources:
    """Provides the conversations of callers with chatbots; see `ResourceProvider`."""

    namespace: str = CONVERSATIONS
    description: str = "the conversations of each caller with chatbots"

    def __init__(self, conversations: Conversations, page_bytes: int) -> None:
        """`page_bytes`: the most bytes that a page has in JSON."""
        self._conversations, self._page_bytes = conversations, page_bytes

    def templates(self) -> Sequence[ResourceTemplate]:
        """The templates of its URIs."""
        return [
            ResourceTemplate(uri=f"{CONVERSATIONS}{path}", name=name, description=description, media_type=media)
            for path, name, description, media in (
                ("{id}", "conversation", "A conversation of yours with a chatbot: what was said", _MARKDOWN),
                ("{id}/{page}", "conversation page", "One page of that, from 1", _MARKDOWN),
                ("{id}/json", "conversation data", "A conversation of yours as data, with speakers and times", _JSON),
            )
        ]

    async def list_resources(self, caller: Caller, /, *, limit: int, after: str = "") -> ResourcePage:
        """Conversations of a caller, the one that was continued last first. Raises `StoreError`."""
        found = await self._conversations.list(caller, after=after, limit=limit + 1)
        shown = found[:limit]
        return ResourcePage([_listed(each) for each in shown], shown[-1].id if len(found) > len(shown) else "")

    async def read_resource(self, uri: str, caller: Caller, /) -> ReadResource | None:
        """A conversation or a page of it; None if there is none, or it is another's. Raises what it cannot read."""
        match = _URI.fullmatch(uri)
        conversation = None if match is None else await self._conversations.find(unquote(match[1]), caller)
        if match is None or conversation is None:
            return None
        if match[2] == "json":
            return ReadResource(content=json.dumps(_data(conversation), indent=2, ensure_ascii=False), media_type=_JSON)
        written = Pages.of_text(_MARKDOWN, "\n\n".join(_markdown(conversation)) + "\n", self._page_bytes)
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


def _listed(record: ConversationRecord) -> ListedResource:
    continued = f"{record.updated_at:%Y-%m-%d %H:%M} UTC"
    return ListedResource(
        uri=conversation_uri(record.id),
        name=record.id,
        title=record.title,
        description=f"Conversation with {record.chatbot}, continued last at {continued}",
        media_type=_MARKDOWN,
    )


def _markdown(conversation: Conversation) -> Iterator[str]:
    yield f"# {cleaned(conversation.title) or f'Conversation with {conversation.chatbot}'}"
    state = "It is over." if conversation.finished else "It can be continued."
    yield f"Conversation {conversation.id} with {conversation.chatbot}. {state}"
    for each in _spoken(conversation):
        yield f"## {cleaned(each.name or each.role)}, {each.at:%Y-%m-%d %H:%M:%S} UTC"
        yield each.text
        yield from (f"- {asset.name}{f': {asset.uri}' if asset.uri else ''}" for asset in each.assets)


def _data(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "chatbot": conversation.chatbot,
        "title": conversation.title,
        "finished": conversation.finished,
        "createdAt": conversation.created_at.isoformat(),
        "messages": [
            {
                "id": each.id,
                "role": each.role,
                "name": each.name,
                "at": each.at.isoformat(),
                "text": each.text,
                "assets": [asdict(asset) for asset in each.assets],
            }
            for each in _spoken(conversation)
        ],
    }


def _spoken(conversation: Conversation) -> Iterator[ConversationMessage]:
    """What people and the chatbot have said, without instructions, calls of tools and what these returned."""
    return (each for each in conversation.entries if each.role in {"user", "assistant"} and each.text)
