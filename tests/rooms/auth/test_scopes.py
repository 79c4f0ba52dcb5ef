"""What callers see and may do by their scopes, over MCP in both eras and over REST."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult, PromptReference, ResourceTemplateReference
from pydantic import BaseModel

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent
from tests.rooms.auth.tokens import METADATA, bearer, client_of, spoken
from tests.rooms.rest.web import PROCESS, Web, web
from tests.rooms.serve.served import ERAS, text_of
from tests.rooms.site.test_guard import HEADERS, INITIALIZE

FILES = {
    "tools/more.py": '''
from mcp_types import GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from goalport import tool
from goalport.server.doors.mcp.raw import raw_prompt, raw_resource, raw_template
from goalport.tools import McpToolExport


@tool(export=True, read_only=True)
def rates() -> str:
    """The rates"""
    return "1.1"


@tool(export=True, scopes=["finance:write"])
def pay_out() -> str:
    """Pay out"""
    return "paid"


@tool(export=True, scopes=[])
def opening_hours() -> str:
    """When the bank is open"""
    return "always"


async def say(context, params):
    return GetPromptResult(messages=[])


async def read(context, params):
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text="It is secret.")])


audit = raw_prompt(Prompt(name="audit"), say, scopes=["finance:write"])
ledger = raw_resource(Resource(uri="bank://ledger", name="ledger"), read, scopes=["finance:write"])
accounts = raw_template(ResourceTemplate(uri_template="bank://accounts/{id}", name="account"), read, scopes=["audit"])
''',
}


class Statement(BaseModel):
    content: str


@agent(description="Keeps money")
class Bank:
    @achieves_goal(description="The balance", export=Export(remote=True, name="balance", read_only=True))
    def balance(self, said: UserInput) -> Statement:
        return Statement(content="7")


@agent(description="Moves money")
class Cashier:
    @achieves_goal(description="Move money", export=Export(remote=True, name="transfer"))
    def transfer(self, said: UserInput) -> Statement:
        return Statement(content="moved")


@agent(description="Closes the books")
class Treasurer:
    @achieves_goal(description="Close", export=Export(remote=True, name="close", scopes=["finance:write", "audit"]))
    def close(self, said: UserInput) -> Statement:
        return Statement(content="closed")


class Loan(BaseModel):
    content: str


@agent(description="Lends")
class Lender:
    @action
    def ask(self, said: UserInput) -> WaitFor[Loan]:
        return WaitFor.form_submission("Which loan?", Loan)

    @achieves_goal(description="A loan", export=Export(remote=True, name="lend", scopes=["finance:write"]))
    def lend(self, loan: Loan) -> Statement:
        return Statement(content=loan.content)


SCOPES_OF = {
    "balance": {"goals:read"},
    "transfer": {"goals:write"},
    "close": {"finance:write", "audit"},
    "rates": {"goals:read"},
    "pay_out": {"finance:write"},
    "opening_hours": set[str](),
    "helloBanner": {"goals:read"},
}
ARGUMENTS: dict[str, dict[str, Any]] = {name: {"content": "hi"} for name in ("balance", "transfer", "close")}


@asynccontextmanager
async def bank(root: Path, *more: object, **auth: Any) -> AsyncGenerator[Web]:
    given: dict[str, Any] = {"authentication": spoken(**auth), "files": FILES, "auth": auth}
    async with web(root, Bank(), Cashier(), Treasurer(), *more, **given) as server:
        yield server


def implied(*scopes: str) -> set[str]:
    return {*scopes, *(["goals:read"] if "goals:write" in scopes else [])}


async def is_answered(client: Client, tool: str) -> bool:
    """Whether a call of a tool is answered, which those that lack scopes are not."""
    try:
        return not (await client.call_tool(tool, ARGUMENTS.get(tool, {}))).is_error
    except MCPError:
        return False


@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_that_are_listed_are_exactly_those_that_can_be_called(tmp_path: Path, era: str) -> None:
    async with bank(tmp_path) as server:
        for scopes in (["goals:read"], ["goals:write"], ["goals:read", "audit", "finance:write"], ["*"]):
            async with client_of(server, "ada", *scopes, era=era) as client:
                listed = {each.name for each in (await client.list_tools()).tools} & SCOPES_OF.keys()
                answered = {name for name in SCOPES_OF if await is_answered(client, name)}
            every = "*" in scopes
            assert listed == answered == {name for name in SCOPES_OF if every or SCOPES_OF[name] <= implied(*scopes)}


@pytest.mark.parametrize("era", ERAS)
async def test_one_challenge_names_all_the_scopes_that_a_request_needs(tmp_path: Path, era: str) -> None:
    refusals: list[httpx2.Response] = []
    async with (
        bank(tmp_path) as server,
        client_of(server, "ada", "goals:read", "audit", era=era, refusals=refusals) as client,
    ):
        account = ResourceTemplateReference(uri="bank://accounts/{id}")
        requests: list[tuple[Callable[[], Awaitable[object]], str]] = [
            (lambda: client.call_tool("close", {"content": "hi"}), "audit finance:write"),
            (lambda: client.call_tool("transfer", {"content": "hi"}), "goals:write"),
            (lambda: client.get_prompt("audit"), "finance:write"),
            (lambda: client.get_prompt("transfer", {"content": "hi"}), "goals:write"),
            (lambda: client.read_resource("bank://ledger"), "finance:write"),
            (lambda: client.complete(PromptReference(name="audit"), {"name": "x", "value": ""}), "finance:write"),
        ]
        for ask, needed in requests:
            with pytest.raises(MCPError):
                await ask()
            assert refusals, needed
            refused = refusals.pop()
            assert challenge_of(refused) == {
                "error": "insufficient_scope",
                "error_description": refused.json()["error_description"],
                "scope": needed,
                "resource_metadata": METADATA,
            }
        assert refusals == []
        assert (await client.complete(account, {"name": "id", "value": ""})).completion.values == []
        assert await server.platform.processes.records() == []


def challenge_of(response: httpx2.Response) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', response.headers["WWW-Authenticate"]))


async def test_who_has_no_scopes_learns_who_the_server_is_and_what_to_ask_for(tmp_path: Path) -> None:
    async with bank(tmp_path) as server:
        for era in ERAS:
            refusals: list[httpx2.Response] = []
            async with client_of(server, "ada", era=era, refusals=refusals) as client:
                assert refusals == []
                with pytest.raises(MCPError):
                    await client.list_tools()
                assert [challenge_of(each)["scope"] for each in refusals] == ["goals:read"]


async def test_the_health_has_details_for_those_who_may_read(tmp_path: Path) -> None:
    async with bank(tmp_path) as server:
        for scopes, shown in (((), False), (("finance:write",), False), (("goals:read",), True)):
            async with httpx2.AsyncClient(headers=bearer("ada", *scopes)) as http:
                answer = await http.get(f"{server.http.base_url}/health")
            assert answer.status_code == 200
            assert ("processes" in answer.json()) is shown, scopes


async def test_what_a_caller_may_not_use_is_named_nowhere(tmp_path: Path) -> None:
    async with bank(tmp_path) as server, client_of(server, "ada", "goals:read") as client:
        shown: list[object] = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resources(),
            await client.list_resource_templates(),
            await client.read_resource("goalport://goals"),
            await client.read_resource("goalport://agents/Bank"),
            await client.complete(
                ResourceTemplateReference(uri="goalport://agents/{name}"), {"name": "name", "value": ""}
            ),
        ]
        for name in ("transfe", "goalport://agents/Cashier", "goalport://agents/Cashie"):
            with pytest.raises(MCPError) as unknown:
                await (client.call_tool(name) if name == "transfe" else client.read_resource(name))
            shown.append(str(unknown.value).replace("Cashie", "").replace("'transfe'", ""))
        text = " ".join(each.model_dump_json() if isinstance(each, BaseModel) else str(each) for each in shown)
    assert "balance" in text
    assert "Bank" in text
    for hidden in ("transfer", "Cashier", "Treasurer", "close", "ledger", "audit", "accounts", "pay_out"):
        assert hidden not in text


async def test_a_host_that_stops_at_403_gets_the_sentence_as_the_tools_error(tmp_path: Path) -> None:
    refusals: list[httpx2.Response] = []
    async with bank(tmp_path, step_up="tool-error") as server:
        for era in ERAS:
            async with client_of(server, "ada", "goals:read", "audit", era=era, refusals=refusals) as client:
                refused = await client.call_tool("close", {"content": "hi"})
                assert refused.is_error
                assert text_of(refused) == (
                    "This needs the scope finance:write, which your credential does not have. Calling again does not"
                    " help: ask whoever runs this server for a credential that has it."
                )
                with pytest.raises(MCPError, match="needs the scope finance:write"):
                    await client.read_resource("bank://ledger")
    assert refusals == []


@pytest.mark.parametrize(("scopes", "granted"), [(["finance:write", "audit"], False), (["*"], True)])
async def test_a_session_whose_log_level_was_refused_gets_no_log_messages(
    tmp_path: Path, scopes: list[str], *, granted: bool
) -> None:
    headers = bearer("ada", *scopes) | HEADERS
    async with bank(tmp_path, step_up="tool-error") as server, httpx2.AsyncClient(headers=headers) as http:

        async def post(**message: Any) -> httpx2.Response:
            return await http.post(f"{server.http.base_url}/mcp", json={"jsonrpc": "2.0", **message})

        http.headers["Mcp-Session-Id"] = (await post(**INITIALIZE)).headers["mcp-session-id"]
        await post(method="notifications/initialized")
        level = await post(id=2, method="logging/setLevel", params={"level": "debug"})
        assert ("needs the scope goals:read" in level.text) is not granted
        closed = await post(id=3, method="tools/call", params={"name": "close", "arguments": {"content": "hi"}})
    assert "structuredContent" in closed.text
    assert ("notifications/message" in closed.text) is granted


async def test_headers_that_name_another_tool_than_the_body_open_no_way_around(tmp_path: Path) -> None:
    async with bank(tmp_path) as server:
        for name, told in (("close", ["balance"]), ("balance", ["close"]), ("balance", ["balance", "balance"])):
            headers = [
                *bearer("ada", "goals:read").items(),
                ("Accept", "application/json, text/event-stream"),
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", "tools/call"),
                *(("Mcp-Name", each) for each in told),
            ]
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"name": name, "arguments": {"content": "hi"}, "_meta": meta}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            async with httpx2.AsyncClient() as http:
                answer = await http.post(f"{server.http.base_url}/mcp", json=message, headers=headers)
            assert answer.status_code == (403 if name == "close" else 400)
        assert await server.platform.processes.records() == []


async def test_to_answer_or_end_a_process_takes_as_much_as_to_start_it(tmp_path: Path) -> None:
    async with bank(tmp_path, Lender()) as server:
        async with client_of(server, "ada", "goals:read", "finance:write") as client:
            begun: Any = (await client.call_tool("lend", {"content": "hi"})).structured_content
        process = begun["processId"]
        given = {"processId": process, "answer": {"content": "a house"}}
        refusals: list[httpx2.Response] = []
        async with client_of(server, "ada", "goals:read", refusals=refusals) as client:
            assert not (await client.call_tool("process_status", {"processId": process})).is_error
            for tool in ("process_answer", "process_cancel"):
                with pytest.raises(MCPError):
                    await client.call_tool(tool, given)
                assert challenge_of(refusals.pop())["scope"] == "finance:write"
        http, at = server.http, f"{PROCESS}/{process}"
        http.headers.update(bearer("ada", "goals:read"))
        response = {"response": {"content": "a house"}}
        assert (await http.get(at)).status_code == 200
        assert (await http.delete(at)).status_code == 403
        assert (await http.post(f"{at}/continue", json=response)).status_code == 403
        async with client_of(server, "bob", "goals:read") as client:
            stranger = await client.call_tool("process_cancel", {"processId": process})
            assert text_of(stranger).startswith("There is no process")
        lender = bearer("ada", "goals:read", "finance:write")
        assert (await http.post(f"{at}/continue", json=response, headers=lender)).json()["status"] == "completed"


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_without_the_scopes_is_not_asked_what_a_process_asks(tmp_path: Path, era: str) -> None:
    async def answer(_: ClientRequestContext, __: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"content": "a house"})

    async with bank(tmp_path, Lender()) as server:
        async with client_of(server, "ada", "goals:read", "finance:write", era=era) as client:
            begun: Any = (await client.call_tool("lend", {"content": "hi"})).structured_content
        given = {"processId": begun["processId"], "waitSeconds": 20}
        for scopes, status in ((("goals:read",), "waiting"), (("goals:read", "finance:write"), "completed")):
            async with client_of(server, "ada", *scopes, era=era, elicitation_callback=answer) as client:
                await client.call_tool("process_status", given)
            (process,) = await server.platform.processes.records()
            assert process.status == status


async def test_an_answer_to_what_no_call_asks_takes_the_scopes_of_the_goal_too(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    async with bank(tmp_path, Lender()) as server:
        async with client_of(server, "ada", "goals:read", "finance:write") as client:
            begun: Any = (await client.call_tool("lend", {"content": "hi"})).structured_content
        server.http.headers.update(bearer("ada", "goals:read"))
        identity = f"goalport-question:{begun['processId']}:{begun['questions'][0]['id']}:0"
        for loan, scopes in (("a boat", ["goals:read"]), ("a house", ["goals:read", "finance:write"])):
            headers = {**bearer("ada", *scopes), "Accept": "application/json, text/event-stream", "Documented": "no"}
            opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            opened = await server.http.post("/mcp", json=opening, headers=headers)
            headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            answer = {"action": "accept", "content": {"content": loan}}
            message = {"jsonrpc": "2.0", "id": identity, "result": answer}
            assert (await server.http.post("/mcp", json=message, headers=headers)).status_code == 202
        with anyio.fail_after(60):
            while (state := (await server.http.get(f"{PROCESS}/{begun['processId']}")).json())["status"] == "waiting":
                pass
            state = (await server.http.get(f"{PROCESS}/{begun['processId']}?wait=10")).json()
        assert state["result"] == {"content": "a house"}


async def test_rest_shows_and_starts_what_the_scopes_allow(tmp_path: Path) -> None:
    async with bank(tmp_path) as server:
        reader, http = bearer("ada", "goals:read"), server.http
        http.headers.update(reader)
        goals = (await http.get("/api/v1/platform-info/goals")).json()["goals"]
        assert [each["tools"] for each in goals] == [["balance"]]
        agents = (await http.get("/api/v1/platform-info/agents")).json()["agents"]
        assert [each["name"] for each in agents] == ["Bank"]
        assert "transfer" not in (await http.get("/openapi.json")).text
        assert (await server.start("balance", {"content": "hi"})).status_code == 200
        for named in ({"goal": "transfer"}, {"agent": "Cashier"}):
            refused = await http.post(PROCESS, json={**named, "input": {"content": "hi"}})
            assert refused.status_code == 403
            assert challenge_of(refused)["scope"] == "goals:write"
            assert refused.json()["scopes"] == ["goals:write"]
            assert refused.json()["detail"].startswith("This needs the scope goals:write, which your credential")
        unknown = await http.post(PROCESS, json={"goal": "transfe", "input": {"content": "hi"}})
        assert unknown.status_code == 422
        assert "transfer" not in unknown.json()["detail"]
        http.headers.update(bearer("ada"))
        listed = await http.get("/api/v1/processes", headers={"Documented": "no"})
        assert (listed.status_code, challenge_of(listed)["scope"]) == (403, "goals:read")


async def test_messages_over_sse_are_refused_by_their_bodies(tmp_path: Path) -> None:
    params = {"name": "transfer", "arguments": {"content": "hi"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with bank(tmp_path) as server:
        headers = {**bearer("ada", "goals:read"), "Documented": "no"}
        answer = await server.http.post("/messages/?session_id=00", json=message, headers=headers)
        assert (answer.status_code, challenge_of(answer)["scope"]) == (403, "goals:write")
