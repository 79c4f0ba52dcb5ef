"""The official conformance suite against goalport as a client: how it reaches upstream servers and signs in."""

import asyncio
import json
import re
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2

from goalport.tools import Tool
from goalport.tools.upstream.active_calls import call_hooks
from goalport.tools.upstream.config import read_config
from goalport.tools.upstream.servers import UpstreamServers
from tests.clients.running import CLIENTS, CONFORMANCE, environment
from tests.rooms.upstream.signing_in import free_port

CLIENT = CLIENTS / "conformance_client.py"
BASELINE = CLIENTS / "conformance_client.yml"
EXPECTED = re.compile(r"^  - auth/", re.MULTILINE)
SIGNING_IN = 33
"""The scenarios of signing in that the suite has."""
DOCUMENT = "https://conformance-test.local/client-metadata.json"


async def entry(scenario: str, url: str, context: Mapping[str, str]) -> dict[str, Any]:
    """What a user writes under `oauth` for the server of a scenario; the context has what the user was given."""
    registered = {"clientId": context.get("client_id", ""), "clientSecret": "${CLIENT_SECRET}"}
    match scenario.removeprefix("auth/"):
        case "basic-cimd":
            return {"clientMetadataUrl": DOCUMENT}
        case "pre-registration":
            return {"grant": "authorization_code", "issuer": context["issuer"], **registered}
        case "client-credentials-basic":
            return registered
        case "client-credentials-jwt":
            signing = {"privateKey": "${PRIVATE_KEY_PEM}", "signingAlgorithm": context["signing_algorithm"]}
            return {"clientId": context["client_id"], **signing}
        case "enterprise-managed-authorization":
            identity = {
                "tokenEndpoint": context["idp_token_endpoint"],
                "clientId": context["idp_client_id"],
                "idToken": "${IDP_ID_TOKEN}",
            }
            return {"issuer": await issuer(url), "identityProvider": identity, **registered}
        case _:
            return {}


async def issuer(url: str) -> str:
    """The authorization server of a company's servers, which its people know."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.get(url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"))
    return str(answer.json()["authorization_servers"][0])


async def browser(url: str) -> None:
    """A person who agrees at once."""
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as client:
        await client.get(url)


async def accepted(_message: str, asked: Any, _key: str = "") -> Mapping[str, object]:
    """A person who sends a form as it is shown."""
    return {name: each["default"] for name, each in asked["properties"].items() if "default" in each}


def calls(tools: Sequence[Tool], context: Mapping[str, Any]) -> Iterator[tuple[Tool, Mapping[str, object]]]:
    """The calls that a scenario names, else one of each tool."""
    by_name = {each.name: each for each in tools}
    named = [(by_name[each["name"]], each["arguments"]) for each in context.get("toolCalls", ())]
    yield from named or ((each, arguments(each, tools[0])) for each in tools)


def arguments(tool: Tool, first: Tool) -> dict[str, object]:
    """Arguments of the types that a tool wants; objects are a schema, as some tool wants to see how it came here."""
    values: dict[str, object] = {
        "string": "x",
        "number": 5,
        "integer": 3,
        "boolean": True,
        "object": first.input_schema,
        "array": [],
    }
    schema: Any = tool.input_schema
    return {name: values[each.get("type", "string")] for name, each in schema.get("properties", {}).items()}


async def connect(url: str, scenario: str, context: Mapping[str, str], folder: Path) -> str:
    """Connect as a user's `mcp_config.json` says, and call each tool. Returns what went wrong; empty: nothing did."""
    oauth = {"redirectPort": free_port(), **await entry(scenario, url, context)}
    server = {"url": url, "oauth": oauth, "connectTimeout": "20s", "timeout": "15s"}
    file = folder / "mcp_config.json"
    file.write_text(json.dumps({"mcpServers": {"suite": server}}))
    config = read_config(file, {name.upper(): str(value) for name, value in context.items()})
    assert not config.problems
    async with UpstreamServers(config, folder, 20, show_sign_in=browser) as servers:
        found = servers.servers["suite"]
        with call_hooks(ask=accepted):
            tools = [each.tool for each in found.tools]
            results = [await tool.call(arguments) for tool, arguments in calls(tools, context)]
        return "; ".join(filter(None, [found.last_error, *(each.text for each in results if each.is_error)]))


async def test_the_client_scenarios_pass(node: str, tmp_path: Path) -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        url, scenario, context = json.loads(await reader.readline())
        folder = tmp_path / scenario.replace("/", "-")
        folder.mkdir()
        wrong = await connect(url, scenario, json.loads(context or "{}"), folder)
        writer.write(wrong.replace("\n", " ").encode() + b"\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = f"{sys.executable} -I -S {CLIENT} {server.sockets[0].getsockname()[1]}"
    wanted = ["--suite", "all", "--expected-failures", str(BASELINE), "--output-dir", str(tmp_path / "out")]
    command = [node, CONFORMANCE, "client", "--command", client, *wanted]
    async with server:
        with anyio.fail_after(120):
            suite = await anyio.run_process(command, cwd=tmp_path, env=environment(tmp_path), check=False)
    said = suite.stdout.decode()
    assert suite.returncode == 0, said[-4000:]
    passed = {line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("✓ auth/")}
    assert len(passed) == SIGNING_IN - len(EXPECTED.findall(BASELINE.read_text("utf-8")))
