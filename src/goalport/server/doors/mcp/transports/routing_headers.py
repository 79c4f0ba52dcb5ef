"""The headers that repeat what a message says, by which a proxy may decide about it: they must not contradict it.

Revision 2026-07-28 requires them, and the SDK checks them there. Before, they mean nothing to the SDK, but a proxy that
reads them cannot tell. Above: `jsonrpc`, which reads the messages.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, cast

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    InboundModernRoute,
    classify_inbound_request,
    decode_header_value,
    find_duplicated_routing_header,
)
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_ROUTING: Final = frozenset({MCP_METHOD_HEADER.encode(), MCP_NAME_HEADER.encode()})
_REQUIRED: Final = _ROUTING | {MCP_PROTOCOL_VERSION_HEADER.encode()}
"""The headers that each request has since revision 2026-07-28."""
_ENCODED: Final = "=?"
"""How a name in a header begins that is encoded."""


def contradiction(headers: Iterable[tuple[bytes, bytes]], message: object) -> str | None:
    """What is wrong about the routing headers of a message; None if they say the same, or nothing."""
    found = _decoded(headers, _ROUTING)
    if not found:
        return None
    if doubled := find_duplicated_routing_header(found):
        return f"The header {doubled} is there more than once."
    said = dict(found)
    fields = cast("Mapping[str, Any]", message)
    method = fields.get("method")
    if said.get(MCP_METHOD_HEADER, method) != method:
        return f"The header {MCP_METHOD_HEADER} does not match the method of the message."
    key = NAME_BEARING_METHODS.get(str(method))
    params: Mapping[Any, object] = fields.get("params") or {}
    named = params.get(key)
    if MCP_NAME_HEADER in said and key is not None and decode_header_value(said[MCP_NAME_HEADER]) != named:
        return f"The header {MCP_NAME_HEADER} does not match the {key} in the message."
    return None


def agreed_version(headers: Iterable[tuple[bytes, bytes]], message: Mapping[str, Any]) -> str | None:
    """The revision, since 2026-07-28, of a request whose headers and message agree; None for one that is refused."""
    found = _decoded(headers, _REQUIRED)
    said = dict(found)
    if len(said) < len(found):
        return None
    if _repeats(said, message):
        return said[MCP_PROTOCOL_VERSION_HEADER]
    route = classify_inbound_request(message, headers=said)
    return route.protocol_version if isinstance(route, InboundModernRoute) else None


def _repeats(said: Mapping[str, str], message: Mapping[str, Any]) -> bool:
    """Whether headers repeat a message word for word, as most do.

    The SDK's check, of which this is the beginning, also knows encoded names, and costs several times as much.
    """
    params, method = message["params"], message["method"]
    meta, name = params.get("_meta"), params.get(NAME_BEARING_METHODS.get(method))
    if not isinstance(meta, dict) or CLIENT_CAPABILITIES_META_KEY not in meta or not isinstance(name, str):
        return False
    version = cast("dict[str, object]", meta).get(PROTOCOL_VERSION_META_KEY)
    told = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method, MCP_NAME_HEADER: name}
    return said == told and version in MODERN_PROTOCOL_VERSIONS and not name.startswith(_ENCODED)


def _decoded(headers: Iterable[tuple[bytes, bytes]], wanted: Collection[bytes]) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode("latin-1")) for name, value in headers if name in wanted]
