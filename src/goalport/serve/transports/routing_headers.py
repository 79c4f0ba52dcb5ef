"""The headers that repeat what a message says, by which a proxy may decide about it: they must not contradict it.

Revision 2026-07-28 requires them, and the SDK checks them there. Before, they mean nothing to the SDK, but a proxy that
reads them cannot tell. Above: `jsonrpc`, which reads the messages.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    NAME_BEARING_METHODS,
    decode_header_value,
    find_duplicated_routing_header,
)

__all__ = ["contradiction"]

_ROUTING: Final = frozenset({MCP_METHOD_HEADER.encode(), MCP_NAME_HEADER.encode()})


def contradiction(headers: Iterable[tuple[bytes, bytes]], message: object) -> str | None:
    """What is wrong about the routing headers of a message; None if they say the same, or nothing."""
    found = [(name.decode(), value.decode("latin-1")) for name, value in headers if name in _ROUTING]
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
