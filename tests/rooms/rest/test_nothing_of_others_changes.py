"""Whatever a caller sends who knows every id of another one, what that one sees stays as it was."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2
from hypothesis import given, settings, strategies as st

from tests.rooms.rest.test_processes import Counter
from tests.rooms.rest.web import PROCESS, Web, web
from tests.rooms.serve.askers import Gate, Pizzeria, Slow
from tests.rooms.site.test_guard import HEADERS, INITIALIZE

MCP = {**HEADERS, "Documented": "no"}
ADA = {"Caller": "ada", "Issuer": "https://one", "Idempotency-Key": "k", "Documented": "no"}
OTHERS: Sequence[Mapping[str, str]] = (
    {"Caller": "bob", "Issuer": "https://one"},
    {"Caller": "ada", "Issuer": "https://other"},
    {},
)
HAM = {"name": "ham", "portions": 2}
_IDS = st.sampled_from(["{waiting}", "{running}", "{done}"])
_QUESTIONS = st.sampled_from(["{question}", "made-up"])
_ANSWERS = st.sampled_from([{"response": HAM}, {"declined": "no"}, {"response": {"name": "glue"}}])


def _over_rest(parts: tuple[str, str, str, dict[str, Any], bool]) -> dict[str, Any]:
    method, process, question, answer, is_keyed = parts
    path = {"POST": f"{PROCESS}/{process}/continue", "EVENTS": f"/events/process/{process}"}
    path["LIST"] = f"/api/v1/processes?all=true&after={process}"
    body = {"awaitableId": question, "wait": 0, **answer} if method == "POST" else None
    if method == "START":
        body = {"goal": "order_pizza", "input": {"size": 30}, "wait": 0}
    verb = {"EVENTS": "GET", "LIST": "GET", "START": "POST"}.get(method, method)
    place = PROCESS if method == "START" else path.get(method, f"{PROCESS}/{process}")
    return {"method": verb, "path": place, "body": body, "headers": {"Idempotency-Key": "k"} if is_keyed else {}}


_REST = st.tuples(
    st.sampled_from(["GET", "DELETE", "POST", "EVENTS", "LIST", "START"]), _IDS, _QUESTIONS, _ANSWERS, st.booleans()
).map(_over_rest)
_TOOLS = st.one_of(
    st.fixed_dictionaries({"processId": _IDS}).map(lambda given: ("process_cancel", given)),
    st.fixed_dictionaries({"processId": _IDS}).map(lambda given: ("process_status", given)),
    st.fixed_dictionaries({"processId": _IDS, "answer": st.just(HAM)}, optional={"questionId": _QUESTIONS}).map(
        lambda given: ("process_answer", given)
    ),
    st.fixed_dictionaries({"processId": _IDS, "answer": st.booleans()}).map(lambda given: ("process_answer", given)),
    st.just(("order_pizza", {"size": 30})),
)
_MESSAGES = st.one_of(
    _TOOLS.map(lambda call: ("tools/call", {"name": call[0], "arguments": call[1]})),
    st.tuples(_IDS, st.sampled_from(["", "/result", "/result/1"])).map(
        lambda each: ("resources/read", {"uri": f"goalport://processes/{each[0]}{each[1]}"})
    ),
    _IDS.map(lambda each: ("resources/subscribe", {"uri": f"goalport://processes/{each}"})),
    st.tuples(st.sampled_from(["tasks/get", "tasks/update", "tasks/cancel"]), _IDS).map(
        lambda each: (each[0], {"taskId": each[1], "inputResponses": {"{question}": {"action": "decline"}}})
    ),
    st.integers(1, 9).map(lambda number: ("notifications/cancelled", {"requestId": number})),
)
_CALLS = _REST | st.tuples(_MESSAGES, st.booleans()).map(
    lambda each: {"message": each[0][0], "params": each[0][1], "is_modern": each[1]}
)


async def test_no_sequence_of_calls_changes_what_another_caller_sees(tmp_path: Path) -> None:
    found: list[tuple[Mapping[str, str], list[dict[str, Any]]]] = []

    @settings(max_examples=30, database=None, derandomize=True)
    @given(st.sampled_from(OTHERS), st.lists(_CALLS, min_size=1, max_size=8))
    def collect(who: Mapping[str, str], calls: list[dict[str, Any]]) -> None:
        found.append((who, calls))

    collect()
    gate = Gate()
    async with web(tmp_path, Pizzeria(), Counter(), Slow(gate)) as server:
        names = await _begun(server, gate)
        before = await _seen(server, names)
        for who, calls in found:
            session = await server.http.post("/mcp", json=INITIALIZE, headers={**MCP, **who})
            for each in calls:
                await _sent(server, json.loads(_named(each, names)), who, session.headers["mcp-session-id"])
            assert await _seen(server, names) == before, (who, calls)
        gate.opened.set()
        path = f"{PROCESS}/{names['waiting']}/continue"
        answered = await server.http.post(path, json={"response": HAM}, headers=ADA)
        assert answered.json()["result"] == {"content": "30 cm with 2 ham"}


async def _begun(server: Web, gate: Gate) -> Mapping[str, str]:
    """What Ada has: a process that waits for her, one that runs and one that is done; all their ids."""
    waiting = (await server.http.post(PROCESS, json={"goal": "order_pizza", "input": {"size": 30}}, headers=ADA)).json()
    ids = {"waiting": waiting["processId"], "question": waiting["awaitableId"]}
    for name, goal, start, wait in (("running", "bake", {"size": 1}, 0), ("done", "count", {"player_name": "A"}, 20)):
        body = {"goal": goal, "input": start, "wait": wait}
        answer = await server.http.post(PROCESS, json=body, headers={**ADA, "Idempotency-Key": name})
        ids[name] = answer.json()["processId"]
    with anyio.fail_after(60):
        await gate.begun.wait()
    return ids


async def _seen(server: Web, names: Mapping[str, str]) -> list[object]:
    """All that Ada sees: her list, her processes, the events of one, and what her key leads to."""
    paths = ("/api/v1/processes", *(f"{PROCESS}/{names[each]}" for each in ("waiting", "running", "done")))
    seen: list[object] = [(await server.http.get(each, headers=ADA)).json() for each in paths]
    seen.append((await server.http.get(f"/events/process/{names['done']}", headers=ADA)).text)
    body = {"goal": "order_pizza", "input": {"size": 30}, "wait": 0}
    seen.append((await server.http.post(PROCESS, json=body, headers=ADA)).json()["processId"])
    return seen


def _named(call: Mapping[str, Any], names: Mapping[str, str]) -> str:
    text = json.dumps(call)
    for name, identity in names.items():
        text = text.replace(f"{{{name}}}", identity)
    return text


async def _sent(server: Web, call: Mapping[str, Any], who: Mapping[str, str], session: str) -> None:
    if "method" in call:
        await _answer(server.http, call["method"], call["path"], call["body"], {**who, **call["headers"]})
        return
    method, params = call["message"], dict(call["params"])
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if not method.startswith("notifications/"):
        message["id"] = 1
    headers = {**MCP, **who}
    if call["is_modern"]:
        tasks: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        said = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "t", "version": "1"}}
        meta: dict[str, Any] = {**said, "clientCapabilities": tasks}
        params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
        name = params.get("name") or params.get("uri") or params.get("taskId") or ""
        headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
    else:
        headers["Mcp-Session-Id"] = session
    await _answer(server.http, "POST", "/mcp", message, headers)


async def _answer(http: httpx2.AsyncClient, method: str, path: str, body: object, headers: Mapping[str, str]) -> None:
    with anyio.fail_after(60):
        answer = await http.request(method, path, json=body, headers={**headers, "Documented": "no"})
    assert answer.status_code < 500, answer.text
