"""In revision 2026-07-28 a call that asks ends, and the client repeats it with the answers and the server's state."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult

from tests.rooms.serve.askers import Answering, Pizzeria, handle_of
from tests.rooms.serve.served import Served, served, text_of
from tests.rooms.serve.test_callers import as_caller

HAM = ElicitResult(action="accept", content={"name": "ham", "portions": 2})
SIZE = {"size": 30}
BAKED = {"content": "30 cm with 2 ham"}
REFUSED = "Invalid or expired requestState"


async def never(_: object, params: ElicitRequestParams) -> ElicitResult:
    raise AssertionError(params)


async def begun(client: Client) -> tuple[str, str]:
    """A call that asks: the state and the id of its question."""
    with anyio.fail_after(60):
        asked = await client.session.call_tool("order_pizza", SIZE, allow_input_required=True)
    assert isinstance(asked, InputRequiredResult)
    assert asked.input_requests is not None
    assert asked.request_state is not None
    (question,) = asked.input_requests
    return asked.request_state, question


async def repeated(
    client: Client,
    state: str,
    responses: Mapping[str, ElicitResult],
    tool: str = "order_pizza",
    arguments: Mapping[str, Any] = SIZE,
) -> CallToolResult | InputRequiredResult:
    with anyio.fail_after(60):
        return await client.session.call_tool(
            tool,
            dict(arguments),
            request_state=state,
            input_responses=dict(responses),
            allow_input_required=True,
        )


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def processes(server: Served) -> int:
    return len(await server.platform.processes.records())


async def test_another_connection_goes_on_with_the_same_process(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server:
        async with server.client(elicitation_callback=never) as client:
            state, question = await begun(client)
        async with server.client(elicitation_callback=never) as other:
            result = await repeated(other, state, {question: HAM})
        assert isinstance(result, CallToolResult)
        assert result.structured_content == BAKED
        assert await processes(server) == 1


async def test_the_state_shows_nothing_and_is_refused_once_it_is_changed(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Pizzeria()) as server,
        server.client(elicitation_callback=never) as client,
    ):
        state, question = await begun(client)
        assert (await server.process()).id not in state
        tampered = [state[:-6] + ("A" * 6), json.dumps([(await server.process()).id, 1, {}]), "", f"{state}A"]
        for each in tampered:
            with pytest.raises(MCPError, match=REFUSED):
                await repeated(client, each, {question: HAM})
        assert (await server.process()).status == "waiting"


async def test_the_state_is_refused_for_other_arguments_tools_and_callers(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server:
        with as_caller("ada"):
            async with server.client(elicitation_callback=never) as client:
                state, question = await begun(client)
                with pytest.raises(MCPError, match=REFUSED):
                    await repeated(client, state, {question: HAM}, arguments={"size": 31})
                process = (await server.process()).id
                with pytest.raises(MCPError, match=REFUSED):
                    await repeated(client, state, {question: HAM}, "process_status", {"processId": process})
        for other in (as_caller("bob"), as_caller("ada", "https://elsewhere"), nullcontext()):
            with other:
                async with server.client(elicitation_callback=never) as client:
                    with pytest.raises(MCPError, match=REFUSED):
                        await repeated(client, state, {question: HAM})
        assert (await server.process()).status == "waiting"
        assert await processes(server) == 1


async def test_the_state_expires(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Pizzeria(), state_ttl_seconds=0.2) as server,
        server.client(elicitation_callback=never) as client,
    ):
        state, question = await begun(client)

        async def until_refused() -> None:
            while True:
                await repeated(client, state, {question: ElicitResult(action="cancel")})

        with anyio.fail_after(60), pytest.raises(MCPError, match=REFUSED):
            await until_refused()
        assert (await server.process()).status == "waiting"


async def test_an_answer_that_comes_again_gives_the_outcome_and_runs_nothing(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Pizzeria()) as server,
        server.client(elicitation_callback=never) as client,
    ):
        state, question = await begun(client)
        other = ElicitResult(action="accept", content={"name": "cheese"})
        for answer in (HAM, HAM, other, ElicitResult(action="decline")):
            result = await repeated(client, state, {question: answer})
            assert isinstance(result, CallToolResult)
            assert result.structured_content == BAKED
        assert len((await server.process()).history) == 2


async def test_answers_without_the_state_begin_nothing(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Pizzeria()) as server,
        server.client(elicitation_callback=never) as client,
    ):
        with pytest.raises(MCPError, match="no requestState"):
            await client.session.call_tool("order_pizza", SIZE, input_responses={"q-1": HAM})
        assert await processes(server) == 0


async def test_a_process_that_is_forgotten_is_an_error_and_never_a_new_one(tmp_path: Path) -> None:
    async with (
        served(made(tmp_path / "one"), Pizzeria(), state_keys=["k" * 32]) as server,
        server.client(elicitation_callback=never) as client,
    ):
        state, question = await begun(client)
    async with (
        served(made(tmp_path / "other"), Pizzeria(), state_keys=["k" * 32]) as server,
        server.client(elicitation_callback=never) as client,
    ):
        result = await repeated(client, state, {question: HAM})
        assert isinstance(result, CallToolResult)
        assert "There is no process" in text_of(result)
        assert await processes(server) == 0


async def test_what_is_not_answered_is_asked_again_until_the_handle_comes(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Pizzeria()) as server,
        server.client(elicitation_callback=never) as client,
    ):
        state, question = await begun(client)
        for _ in range(2):
            asked = await repeated(client, state, {"q-of-another": HAM})
            assert isinstance(asked, InputRequiredResult)
            assert asked.request_state is not None
            assert [*(asked.input_requests or {})] == [question]
            state = asked.request_state
        result = await repeated(client, state, {})
        assert isinstance(result, CallToolResult)
        assert handle_of(server, "order_pizza", result)["status"] == "waiting"


async def test_a_client_that_follows_handles_by_itself_is_not_asked(tmp_path: Path) -> None:
    person = Answering.with_()
    async with served(tmp_path, Pizzeria()) as server, server.client(elicitation_callback=person) as client:
        result = await client.call_tool("order_pizza", SIZE, meta={"goalport/handle": True})
        assert handle_of(server, "order_pizza", result)["status"] == "waiting"
        assert person.asked == []
