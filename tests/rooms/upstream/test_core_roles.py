"""The core roles appear when a server that plays them is configured, with the tools that it has today."""

from pathlib import Path

import pytest

from goalport.tools import CoreToolGroups, Permission, math_group
from goalport.tools.upstream.config import GroupConfig, McpConfig, ServerConfig
from goalport.tools.upstream.tool import Pins
from goalport.tools.upstream.upstream_groups import UpstreamGroups, core_groups
from tests.rooms.upstream.listed import Listed, Servers

BRAVE = """brave_web_search brave_local_search brave_video_search brave_image_search brave_news_search brave_summarizer
brave_place_search brave_llm_context"""
WIKIPEDIA = """search_wikipedia get_article get_summary summarize_article_for_query get_related_topics get_links
get_coordinates test_wikipedia_connectivity"""
GITHUB = """issue_read issue_write list_issues search_issues add_issue_comment pull_request_read list_pull_requests
create_pull_request merge_pull_request assign_copilot_to_issue get_file_contents delete_file create_repository"""
MAPS = """maps_geocode maps_reverse_geocode maps_search_places maps_place_details maps_distance_matrix maps_elevation
maps_directions"""
PLAYWRIGHT = "browser_navigate browser_snapshot browser_click browser_take_screenshot browser_install"


def stdio(name: str, *command: str) -> ServerConfig:
    return ServerConfig(name, "stdio", command=command[0], args=command[1:])


def roles_of(*servers: ServerConfig) -> list[str]:
    return list(core_groups(McpConfig({each.name: each for each in servers})))


def tools_of(tmp_path: Path, server: ServerConfig, tools: str) -> dict[str, list[str]]:
    servers = Servers(McpConfig({server.name: server}), {server.name: Listed()})
    servers.lists(server.name, *tools.split())
    groups = UpstreamGroups(servers, Pins(tmp_path / "pins.json"))
    assert groups.warnings() == ()
    found = {each.role: [tool.name for tool in each.tools] for each in groups.groups()}
    return {role: names for role, names in found.items() if role != server.name or role in core_groups(servers.config)}


@pytest.mark.parametrize(
    ("server", "roles"),
    [
        (stdio("brave-search-mcp", "docker", "run", "-i", "--rm", "-e", "BRAVE_API_KEY", "mcp/brave-search"), ["web"]),
        (stdio("s", "npx", "-y", "@brave/brave-search-mcp-server"), ["web"]),
        (stdio("s", "uvx", "mcp-server-fetch"), ["web"]),
        (stdio("s", "/opt/bin/mcp-server-fetch"), ["web"]),
        (stdio("wikipedia-mcp", "wiki"), ["web"]),
        (stdio("s", "npx", "-y", "@modelcontextprotocol/server-google-maps"), ["maps"]),
        (stdio("s", "npx", "@playwright/mcp@latest"), ["browser_automation"]),
        (stdio("puppeteer-mcp", "x"), ["browser_automation"]),
        (stdio("s", "docker", "run", "-i", "ghcr.io/github/github-mcp-server"), ["github"]),
        (ServerConfig("s", "http", url="https://api.githubcopilot.com/mcp/"), []),
        (ServerConfig("github", "http", url="https://api.githubcopilot.com/mcp/"), ["github"]),
        (ServerConfig("s", "http", url="https://mcp.github.example/mcp"), ["github"]),
        (stdio("docker-mcp", "docker", "mcp", "gateway", "run"), ["web", "maps", "browser_automation", "github"]),
        (stdio("MCP_DOCKER", "docker", "mcp", "gateway", "run"), ["web", "maps", "browser_automation", "github"]),
        (stdio("files", "npx", "@modelcontextprotocol/server-filesystem", "/home/ada/github", "C:/fetch"), []),
        (stdio("git", "uvx", "mcp-server-git", "--repository", "./github"), []),
        (ServerConfig("fetch", "stdio", command="x", disabled=True), ["web"]),
    ],
)
def test_servers_are_known_by_their_names_packages_and_hosts(server: ServerConfig, roles: list[str]) -> None:
    assert roles_of(server) == roles


@pytest.mark.parametrize(
    ("server", "listed", "role", "expected"),
    [
        ("brave-search", BRAVE, "web", set(BRAVE.split()) - {"brave_local_search", "brave_place_search"}),
        ("fetch", "fetch", "web", {"fetch"}),
        ("wikipedia", WIKIPEDIA, "web", {"search_wikipedia", "get_article", "get_summary", "get_related_topics"}),
        ("google-maps", MAPS, "maps", set(MAPS.split())),
        ("playwright", PLAYWRIGHT, "browser_automation", set(PLAYWRIGHT.split()) - {"browser_install"}),
        (
            "puppeteer",
            "puppeteer_navigate puppeteer_click",
            "browser_automation",
            {"puppeteer_navigate", "puppeteer_click"},
        ),
        ("github", GITHUB, "github", set(GITHUB.split()[:8])),
        (
            "github",
            "create_issue get_issue list_pull_requests fork_repository",
            "github",
            {"create_issue", "get_issue", "list_pull_requests"},
        ),
    ],
)
def test_a_role_takes_the_tools_of_today(
    tmp_path: Path, server: str, listed: str, role: str, expected: set[str]
) -> None:
    found = tools_of(tmp_path, stdio(server, "x"), listed)

    assert list(found) == [role]
    assert set(found[role]) == expected


def test_a_gateway_gives_each_role_its_own(tmp_path: Path) -> None:
    listed = f"{MAPS} {PLAYWRIGHT} search_wikipedia fetch fetch_content brave_web_search issue_read list_directory"
    found = tools_of(tmp_path, stdio("MCP_DOCKER", "docker", "mcp", "gateway", "run"), listed)

    assert found["web"] == ["brave_web_search", "fetch", "fetch_content", "search_wikipedia"]
    assert found["maps"] == sorted(MAPS.split())
    assert found["github"] == ["issue_read"]
    assert "list_directory" not in {name for each in found.values() for name in each}


def test_a_role_that_the_configuration_declares_is_left_to_it_and_a_core_group_gives_way() -> None:
    fetch = stdio("fetch", "uvx", "mcp-server-fetch")
    config = McpConfig({"fetch": fetch}, {"web": GroupConfig("web", ("fetch",), include=("x",))})

    assert core_groups(config) == {}
    assert core_groups(McpConfig({"fetch": fetch}))["web"].permissions == {Permission.INTERNET_ACCESS}


def test_a_core_group_is_a_default(tmp_path: Path) -> None:
    servers = Servers(McpConfig({"fetch": stdio("fetch", "x")}), {"fetch": Listed()})
    servers.lists("fetch", "fetch")

    groups = UpstreamGroups(servers, Pins(tmp_path / "p.json")).groups()
    assert [(each.role, each.is_default) for each in groups] == [("fetch", True), ("web", True)]


def test_a_core_role_goes_before_the_name_of_a_server() -> None:
    github = ServerConfig("github", "http", url="https://api.githubcopilot.com/mcp/")
    assert "github/merge_*" in core_groups(McpConfig({"github": github}))["github"].exclude


def test_a_disabled_server_plays_a_role_only_where_no_other_does() -> None:
    off = ServerConfig("fetch", "stdio", command="x", disabled=True)
    assert core_groups(McpConfig(servers={"fetch": off}))["web"].servers == ("fetch",)
    both = McpConfig(servers={"fetch": off, "brave": stdio("brave", "npx", "x")})
    assert core_groups(both)["web"].servers == ("brave",)


def test_each_configuration_has_roles_of_its_own_beside_those_of_its_servers(tmp_path: Path) -> None:
    brave, playwright = (
        McpConfig({name: ServerConfig(name, "stdio", command=name)}) for name in ("brave", "playwright")
    )
    servers = Servers(brave)
    groups = UpstreamGroups(servers, Pins(tmp_path / "pins.json"))
    found: list[list[str]] = []
    for servers.config in (brave, playwright, brave):
        found.append([*groups.config])
    assert found == [["brave", "web"], ["playwright", "browser_automation"], ["brave", "web"]]


def test_the_guides_names_for_core_groups_are_what_those_groups_are_called() -> None:
    core = CoreToolGroups
    servers = [stdio(name, name) for name in ("brave", "maps", "playwright", "github")]
    found = core_groups(McpConfig({each.name: each for each in servers}))
    assert {role: each.description for role, each in found.items()} == {
        core.WEB: core.WEB_DESCRIPTION,
        core.MAPS: core.MAPS_DESCRIPTION,
        core.BROWSER_AUTOMATION: core.BROWSER_AUTOMATION_DESCRIPTION,
        core.GITHUB: core.GITHUB_DESCRIPTION,
    }
    assert (math_group().role, math_group().description) == (core.MATH, core.MATH_DESCRIPTION)
