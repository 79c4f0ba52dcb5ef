"""The Skills extension of MCP (`io.modelcontextprotocol/skills`, SEP-2640): the entries of exported skills.

An entry says what a skill is for and which files it has, with their digests; the files are resources like others. The
base is revision 2026-07-28, but the methods answer clients of every revision. `server` is above.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from mcp.server.context import HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

from goalport.base.handshake import SKILLS
from goalport.server.doors.mcp.pagination import cursor_of, page_across, place_of
from goalport.server.doors.mcp.state import Context, McpState

_KIND: Final = "skills"
_FRESH: Final = {"resultType": "complete", "ttlMs": 5_000, "cacheScope": "private"}


@runtime_checkable
class SkillProvider(Protocol):
    """Provides skills; it provides their files as resources too."""

    async def skill_entries(self, *, limit: int, after: str = "") -> tuple[Sequence[Mapping[str, Any]], str]:
        """The entries of at most `limit` skills, and what the next are asked for with; empty: there are no more."""
        ...

    async def skill_entry(self, uri: str, /) -> Mapping[str, Any] | None:
        """The entry of the skill whose SKILL.md has this URI; None: there is no such skill."""
        ...


class _GetSkillParams(RequestParams):
    """The parameters of `skills/get`."""

    uri: str


def add_skills(server: Server[McpState]) -> None:
    """Let a server answer requests about skills, and declare that it does."""
    server.add_request_handler("skills/list", PaginatedRequestParams, _list)
    server.add_request_handler("skills/get", _GetSkillParams, _get)
    server.extensions[SKILLS] = {}


async def _list(context: Context, params: PaginatedRequestParams) -> HandlerResult:
    """Answer `skills/list`. Raises `MCPError` (-32602) for an invalid cursor."""
    state = context.lifespan_context
    place = place_of(params, [_KIND])
    size, begin = state.settings.page_size, "" if place is None else place[1]
    listing = page_across(_providers(state), begin, size, _entries)
    skills, after = await state.answer_of("skills/list", listing)
    more = {"nextCursor": cursor_of(_KIND, after)} if after else {}
    return {**_FRESH, "skills": skills, **more}


async def _entries(provider: SkillProvider, limit: int, after: str) -> tuple[Sequence[Mapping[str, Any]], str]:
    return await provider.skill_entries(limit=limit, after=after)


async def _get(context: Context, params: _GetSkillParams) -> HandlerResult:
    """Answer `skills/get`. Raises `MCPError` (-32602) if there is no such skill."""
    state = context.lifespan_context
    for namespace, provider in _providers(state).items():
        if params.uri.startswith(namespace):
            entry = await state.answer_of(params.uri, provider.skill_entry(params.uri))
            if entry is not None:
                return {**_FRESH, "skill": entry}
    raise MCPError(INVALID_PARAMS, f"There is no skill at {params.uri[:200]!r}.", {"uri": params.uri})


def _providers(state: McpState) -> Mapping[str, SkillProvider]:
    return {
        namespace: provider
        for namespace, provider in state.publication.providers.items()
        if isinstance(provider, SkillProvider)
    }
