"""Who may run what over AG-UI, how often, and what the log says of it."""

import logging
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from goalport import ActionContext, action
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from tests.rooms.agui.front_end import front_end
from tests.rooms.agui.talkers import Cook, Thinker, Waiter
from tests.rooms.auth.test_scopes import challenge_of
from tests.rooms.auth.tokens import bearer, spoken
from tests.rooms.chat.talkers import Moody, Parrot
from tests.rooms.rest.web import web

RUN = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hello"}]}


@chatbot(description="Talks to a few", scopes=["finance:talk"])
class Banker:
    """Only who has its scope may talk to it."""

    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, context: ActionContext) -> None:
        """Answer."""
        await context.send_message("How much?")


async def test_only_who_has_its_scopes_finds_an_agent_and_runs_it(tmp_path: Path) -> None:
    async with web(tmp_path, Banker(), Cook(), authentication=spoken()) as server:

        async def run(name: str, *scopes: str) -> httpx2.Response:
            headers = {**bearer("ada", *scopes), "Documented": "elsewhere"}
            return await server.http.post(f"/agui/{name}", json=RUN, headers=headers)

        async def listed(*scopes: str) -> list[str]:
            headers = {**bearer("ada", *scopes), "Documented": "elsewhere"}
            told = (await server.http.get("/agui", headers=headers)).json()
            return [each["name"] for each in told["agents"]]

        for name, scope in (("Banker", "finance:talk"), ("cook", "goals:write")):
            refused = await run(name, "goals:read")
            assert (refused.status_code, challenge_of(refused)["scope"]) == (403, scope)
            assert "RUN_FINISHED" in (await run(name, "goals:read", scope)).text
        assert await listed("goals:read") == []
        assert await listed("goals:read", "finance:talk") == ["Banker"]
        assert await listed("goals:read", "goals:write") == ["cook"]
        nobody = await server.http.post("/agui/Banker", json=RUN, headers={"Documented": "elsewhere"})
        assert nobody.status_code == 401


async def test_limits_of_callers_hold_for_runs(tmp_path: Path) -> None:
    limits = {"calls_per_minute": 2}
    async with front_end(tmp_path, Waiter(), Parrot(), limits=limits) as server:
        thread = server.thread("Waiter")
        for _ in range(2):
            assert (await thread.run("" if thread.messages else "Hello"))[-1]["type"] == "RUN_FINISHED"
        refused = await server.http.post("/agui/Parrot", json=RUN)
        assert (refused.status_code, refused.json()["limit"]) == (429, "calls_per_minute")
        resume = [{"interruptId": thread.state["goalport"]["questions"][0]["id"], "status": "cancelled"}]
        assert (await thread.run(resume=resume))[0]["type"] == "RUN_STARTED"


async def test_a_message_beside_an_answer_counts_as_a_call(tmp_path: Path) -> None:
    async with front_end(tmp_path, Waiter(), limits={"calls_per_minute": 1}) as server:
        thread = server.thread("Waiter")
        await thread.run("Hello")
        resume = [{"interruptId": thread.state["goalport"]["questions"][0]["id"], "status": "cancelled"}]
        await thread.run(resume=resume)
        refused = (await thread.run("Hello again", resume=resume))[-1]
        assert (refused["type"], refused["code"]) == ("RUN_ERROR", "limit-reached")


async def test_a_turn_counts_as_a_process_while_it_runs(tmp_path: Path) -> None:
    thinker = Thinker()
    async with front_end(tmp_path, thinker, Parrot(), limits={"processes": 1}) as server:
        busy, other = server.thread("Thinker"), server.thread("Parrot")
        events = list[dict[str, Any]]()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(busy.run, "wait")
                while not thinker.begun:
                    await anyio.sleep(0.01)
                events = await other.run("Hello")
                thinker.go_on.set()
        assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "limit-reached")
        await other.run()
        assert other.said == ["user: Hello", "assistant: 1: Hello … Hello"]


async def test_only_so_many_runs_are_read_at_once(tmp_path: Path) -> None:
    thinker = Thinker()
    async with front_end(tmp_path, thinker, Parrot(), max_event_streams=1) as server:
        events = server.thread("Thinker").say("wait").stream()
        while not thinker.begun:
            await anext(events)
        refused = await server.http.post("/agui/Parrot", json=RUN)
        assert (refused.status_code, "1 streams of events open" in refused.json()["detail"]) == (429, True)
        thinker.go_on.set()
        assert [each async for each in events][-1]["type"] == "RUN_FINISHED"


async def test_the_log_has_a_line_for_each_run_that_says_what_came_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "goalport.calls")
    async with front_end(tmp_path, Waiter(), Moody(), Parrot(), Cook()) as server:
        await server.thread("Waiter", caller="ada").run("Hello")
        await server.thread("Moody").run("fail")
        await server.thread("Parrot").run("Hello")
        await server.thread("Parrot").run(resume=[{"interruptId": "q", "status": "cancelled"}])
        await server.thread("cook").run("noodles")
        await server.http.get("/agui")
    lines = [each.getMessage().split(" after ") for each in caplog.records if each.name == "goalport.calls"]
    assert [line for line, _ in lines] == [
        "Waiter waiting",
        "Moody failed",
        "Parrot completed",
        "Parrot refused",
        "cook completed",
        "GET /agui completed",
    ]
    assert "over agui for ada (process " in lines[0][1]
