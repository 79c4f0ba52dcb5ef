"""Servers that have listed tools, as records: what groups look at, without a connection. No test is in here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_types import Tool as Definition, ToolAnnotations

from goalport.tools import Tool, ToolResult
from goalport.tools.upstream.config import GroupConfig, McpConfig, ServerConfig
from goalport.tools.upstream.connection import Listing
from goalport.tools.upstream.tool import ToolRequest, UpstreamTool, tools_of_list
from goalport.tools.upstream.upstream_server import ServerState


async def sign_in(arguments: Mapping[str, object]) -> ToolResult:
    return ToolResult.of_error("Nobody is here.")


async def call(request: ToolRequest) -> ToolResult:
    return ToolResult.of_text(f"{request.own_name} {dict(request.arguments)}")


def definition(name: str, description: str = "", **hints: bool) -> Definition:
    return Definition(
        name=name,
        description=description or name,
        input_schema={"type": "object"},
        annotations=ToolAnnotations.model_validate(hints) if hints else None,
    )


@dataclass
class Listed:
    """A server with its last list."""

    tools: tuple[UpstreamTool, ...] = ()
    state: ServerState = ServerState.UP
    retry_at: float = 0.0
    sign_in: Tool = field(default_factory=lambda: Tool("sign_in", "Sign in", {"type": "object"}, sign_in))
    name: str = ""
    reader: UpstreamTool | None = None
    listing: Listing = field(default_factory=Listing)

    async def fetch(self, kind: str, name: str, arguments: Mapping[str, str]) -> ToolResult:
        return await call(ToolRequest(name, arguments))


@dataclass
class Servers:
    """All servers, and what the configuration says."""

    config: McpConfig
    servers: dict[str, Listed] = field(default_factory=dict[str, Listed])
    connected: bool = True

    def lists(self, server: str, *tools: str | Definition) -> None:
        """The server lists these tools from now on."""
        definitions = [definition(each) if isinstance(each, str) else each for each in tools]
        self.servers[server].tools = tools_of_list(server, definitions, call)[0]


def servers_of(*groups: GroupConfig, pinned: bool = False, **tools: str) -> Servers:
    """Servers by their names, each with the names of its tools, and groups of them."""
    configs = {name: ServerConfig(name, "stdio", command=name, pin=pinned) for name in tools}
    made = Servers(McpConfig(configs, {each.role: each for each in groups}), {name: Listed() for name in tools})
    for name, listed in tools.items():
        made.lists(name, *listed.split())
    return made
