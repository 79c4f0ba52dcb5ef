"""Testing with a whole platform: the plan that leads to a goal, upstream servers in memory, and an MCP client of goals.

The client is the official one, connected without a network to the server that goalport would run. `plugin` makes
fixtures of these functions.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any, Final, cast

from goalport.runtime.platform import CONFIG_FILE, AgentPlatform, UpstreamServers
from goalport.testing.models import ScriptedModels
from goalport.tools import ToolGroup
from goalport.tools.upstream import McpConfig, ServerConfig
from goalport.tools.upstream.config import read_config
from goalport.tools.upstream.connection import Transport
from goalport.workspace import Workspace
from goalport.workspace.settings import load_settings

if TYPE_CHECKING:
    import pytest
    from mcp import Client
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

_KEPT: Final = ("timeout", "concurrency", "sampling", "protocol_version", "enabled_tools", "disabled_tools")
"""The settings of a configured server that are also used for a server in memory."""


def plan_of(
    agent: object,
    given: Sequence[object],
    *,
    goal: str = "",
    components: Iterable[object] = (),
    tool_groups: Iterable[ToolGroup] = (),
    services: Iterable[object] = (),
) -> list[str]:
    """The names of the methods that lead from objects of the given types to a goal, in order.

    `assert plan_of(StarNewsFinder(…), given=[UserInput]) == ["extract_star_person", …]`. `goal` is needed when the
    agent has several. Conditions are assumed to turn out as the plan needs it. Raises `AssertionError`, with the
    reason, when there is no plan.
    """
    platform = AgentPlatform([agent, *components], tool_groups=tool_groups, services=services)
    found = platform.agents.goal(goal)[1] if goal else next(goal for _, goal in platform.agents.goals)
    explanation = platform.explain(found, given)
    if explanation.plan is None:
        raise AssertionError(explanation.text())
    return [step.action.rpartition(".")[2] for step in explanation.plan.steps]


def upstream_of(
    servers: "Mapping[str, Server[Any] | MCPServer]", config: McpConfig | Path | str | None = None
) -> UpstreamServers:
    """Upstream servers in memory for a platform: each is an object of the MCP SDK, by its name in the configuration.

    `AgentPlatform(agents, upstream=upstream_of({"github": server}, "mcp_config.json"))`. The tool groups are those of
    the configuration or its file; a server in none of them is a group with the server's name. The configuration's
    other servers are left out, and nothing is pinned.
    """
    read = config if isinstance(config, McpConfig) else McpConfig() if config is None else read_config(Path(config), {})
    # Entries lack what is only needed to reach a server. Opening waits for a required server, and fails if it fails.
    entries: dict[str, ServerConfig] = {}
    for name in servers:
        entry = read.servers.get(name)
        kept = {each: getattr(entry, each) for each in _KEPT} if entry is not None else {}
        entries[name] = ServerConfig(name, "stdio", required=True, **kept)
    groups = {role: replace(each, pin=False) for role, each in read.groups.items()}
    transports = {name: _InMemory(each) for name, each in servers.items()}
    return UpstreamServers(McpConfig(entries, groups), Path(gettempdir()), transports=transports)


class _InMemory(Transport):
    """The transport to a server object in this process."""

    def __init__(self, server: "Server[Any] | MCPServer") -> None:
        self._server = server

    def open(self) -> AbstractAsyncContextManager[Any]:
        from mcp.client._memory import InMemoryTransport

        return InMemoryTransport(self._server)


McpClient = Callable[..., "AbstractAsyncContextManager[Client]"]
"""The fixture `mcp_client`: call it with agents, or without any for the workspace under test."""


@asynccontextmanager
async def client_of(
    platform: AgentPlatform, *, workspace: Workspace | None = None, options: Mapping[str, Any] | None = None
) -> "AsyncGenerator[Client]":
    """A client of a server that publishes the goals of a platform, and the tools that a workspace exports.

    `options` go to `mcp.Client`: `mode`, `elicitation_callback`, … The platform is closed at the end.
    """
    from mcp import Client

    from goalport.server.doors.mcp.server import make_server
    from goalport.server.doors.mcp.state import McpState
    from goalport.server.publish.publisher import Publisher

    with TemporaryDirectory() as folder:
        root = workspace.root if workspace else Path(folder)
        settings = load_settings(root, data_dir=Path(folder))
        async with platform:
            server, _ = make_server(McpState(Publisher(platform, workspace or Workspace(root), settings)))
            async with Client(server, **(options or {})) as client:
                yield client


def platform_of(
    request: "pytest.FixtureRequest", upstream: UpstreamServers | None = None, services: Iterable[object] = ()
) -> AgentPlatform:
    """A platform that serves the workspace under test, with the scripted models of the test if it has any.

    `services` replace services of the workspace with the same types, and take precedence over `replaced_services`.
    """
    workspace: Workspace = request.getfixturevalue("goalport_workspace")
    services = (*services, *request.getfixturevalue("replaced_services"))
    setup: dict[str, Any] = {"models": _scripted(request), "upstream": upstream, "services": services}
    return AgentPlatform.from_workspace(workspace, load_settings(workspace.root), **setup)


def clients_for(request: "pytest.FixtureRequest") -> McpClient:
    """A function that connects clients to the workspace under test, or to the agents that are passed to it."""

    @asynccontextmanager
    async def connect(
        *agents: object, options: dict[str, Any] | None = None, upstream: Any = None, **settings: Any
    ) -> "AsyncGenerator[Client]":
        if isinstance(upstream, Mapping):
            servers = cast("Mapping[str, Any]", upstream)
            upstream = upstream_of(servers, request.config.rootpath / CONFIG_FILE)
        if agents:
            setup: dict[str, Any] = {"models": _scripted(request), "upstream": upstream, **settings}
            opened = client_of(AgentPlatform(agents, **setup), options=options)
        else:
            services = settings.pop("services", ())
            own = platform_of(request, upstream, services) if upstream or services else None
            platform: AgentPlatform = own or request.getfixturevalue("agent_platform")
            workspace: Workspace = request.getfixturevalue("goalport_workspace")
            opened = client_of(platform, workspace=workspace, options=options)
        async with opened as client:
            yield client

    return connect


def _scripted(request: "pytest.FixtureRequest") -> ScriptedModels | None:
    """The scripted models of the test, if it uses that fixture; requesting the fixture here would create them."""
    return request.getfixturevalue("scripted_models") if "scripted_models" in request.fixturenames else None
