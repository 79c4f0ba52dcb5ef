"""Calls of upstream tools: what goes out, what comes back, and what a person is asked meanwhile."""

import json
import os
from collections.abc import Mapping

import anyio
import pytest

from goalport.base.errors import ReplanRequested, ToolError
from goalport.tools.upstream.active_calls import call_hooks
from goalport.tools.upstream.tool import ToolRequest
from tests.rooms.upstream.connected import connected, plain


async def test_arguments_go_out_and_text_comes_back() -> None:
    async with connected(plain()) as servers:
        result = await servers.call("echo", text="Guten Tag ☀")
    assert (result.text, result.blocks, result.is_error) == ("Guten Tag ☀", (), False)


async def test_images_sounds_and_resources_come_back_as_they_are_and_in_their_order() -> None:
    async with connected(plain()) as servers:
        result = await servers.call("picture")
    assert [each.type for each in result.content] == ["image", "text", "audio", "resource"]


async def test_structured_content_comes_back_beside_its_text() -> None:
    async with connected(plain()) as servers:
        result = await servers.call("structured")
    assert (result.text, result.structured, result.artifact) == ("2", {"sum": 2}, {"sum": 2})


async def test_an_error_of_the_tool_is_a_result_for_the_model() -> None:
    async with connected(plain()) as servers:
        result = await servers.call("fail")
    assert (result.text, result.is_error) == ("It cannot be done: try less", True)


async def test_what_breaks_the_tools_own_schema_is_no_result() -> None:
    async with connected(plain()) as servers:
        result = await servers.call("lie")
    assert result.is_error
    assert "what the server 'plain' answered is no result" in result.text


async def test_a_result_that_is_too_long_is_cut_and_says_so() -> None:
    async with connected(plain()) as servers:
        result = await servers.call("huge", count=3_000_000)
        assert 999_000 < len(result.text) <= 1_000_000
        assert "not all of it is here" in str(result.content[-1])
        assert (await servers.call("echo", text="well")).text == "well"


async def test_a_message_beyond_all_bounds_ends_the_connection_which_comes_back() -> None:
    async with connected(plain()) as servers:
        result = await servers.call("huge", count=20_000_000)
        assert result.is_error
        assert "more than 16,777,216 bytes" in result.text
        assert (await servers.call("echo", text="well")).text == "well"


async def test_a_call_that_takes_too_long_is_ended_on_both_sides() -> None:
    async with connected(plain(timeout=0.3)) as servers:
        result = await servers.call("never")
        assert result.is_error
        assert "gave nothing within 0.3 s" in result.text
        assert len(json.loads((await servers.call("cancelled")).text)) == 1


async def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    async with connected(plain()) as servers:
        with anyio.move_on_after(0.2) as scope:
            await servers.call("slow")
        assert scope.cancelled_caught
        assert len(json.loads((await servers.call("cancelled")).text)) == 1


async def test_progress_is_passed_on() -> None:
    heard: list[tuple[float, float | None, str | None]] = []
    complete = anyio.Event()

    async def hear(done: float, total: float | None, words: str | None) -> None:
        heard.append((done, total, words))
        if len(heard) == 2:
            complete.set()

    async with connected(plain()) as servers:
        with call_hooks(progress=hear):
            assert (await servers.call("progress")).text == "done"
        with anyio.fail_after(60):
            await complete.wait()
    assert heard == [(1, 2, "step 1"), (2, 2, "step 2")]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_question_of_the_server_is_answered_by_whoever_called(revision: str) -> None:
    asked: list[tuple[str, object]] = []

    async def ask(message: str, schema: object, key: str = "") -> Mapping[str, object]:
        asked.append((message, schema))
        return {"sign": "Scorpio"}

    async with connected(plain("--revision", revision)) as servers:
        with call_hooks(ask=ask):
            result = await servers.call("ask")
    assert json.loads(result.text) == {"action": "accept", "content": {"sign": "Scorpio"}}
    assert asked[0][0] == "Which sign?"
    assert "sign" in str(asked[0][1])


async def test_a_question_that_nobody_can_be_asked_is_declined_and_the_model_hears_why() -> None:
    async with connected(plain()) as servers:
        result = await servers.call("ask")
    assert json.loads(result.text) == {"action": "decline"}
    assert "there is nobody to ask" in str(result.content[-1])


async def test_a_question_may_be_declined_by_who_is_asked() -> None:
    async def ask(message: str, schema: object, key: str = "") -> None:
        return None

    async with connected(plain()) as servers:
        with call_hooks(ask=ask):
            result = await servers.call("ask")
    assert json.loads(result.text) == {"action": "decline"}


async def test_a_page_that_the_server_wants_opened_is_shown_to_whoever_called() -> None:
    asked: list[tuple[str, object]] = []

    async def ask(message: str, address: object, key: str = "") -> object:
        asked.append((message, address))
        return True

    async with connected(plain("--revision", "2025-11-25")) as servers:
        with call_hooks(ask=ask):
            result = await servers.call("ask_page")
    assert json.loads(result.text) == {"action": "accept"}
    assert asked == [("Which sign?", "https://example.com/")]


async def test_whoever_is_asked_may_steer_the_process_instead() -> None:
    async def ask(message: str, schema: object, key: str = "") -> Mapping[str, object]:
        raise ReplanRequested("somebody else has to be asked first")

    async with connected(plain()) as servers:
        with call_hooks(ask=ask), pytest.raises(ReplanRequested, match="asked first"):
            await servers.call("ask")
        assert (await servers.call("echo", text="well")).text == "well"


async def test_the_time_of_a_call_stands_still_while_a_person_thinks() -> None:
    async def ask(message: str, schema: object, key: str = "") -> Mapping[str, object]:
        with anyio.move_on_after(1):
            await anyio.Event().wait()
        return {"sign": "Leo"}

    async with connected(plain(timeout=0.5)) as servers:
        with call_hooks(ask=ask):
            result = await servers.call("ask")
    assert "Leo" in result.text


async def test_a_person_is_not_asked_any_more_when_the_call_is_cancelled() -> None:
    ends: list[str] = []
    asked = anyio.Event()

    async def ask(message: str, schema: object, key: str = "") -> Mapping[str, object]:
        asked.set()
        try:
            await anyio.Event().wait()
        finally:
            ends.append("gone")
        return {}

    async with connected(plain()) as servers, anyio.create_task_group() as tasks:

        async def call() -> None:
            with call_hooks(ask=ask):
                await servers.call("ask")

        tasks.start_soon(call)
        await asked.wait()
        tasks.cancel_scope.cancel()
    assert ends == ["gone"]


async def test_a_question_never_reaches_somebody_elses_caller() -> None:
    async def ask(message: str, schema: object, key: str = "") -> Mapping[str, object]:
        raise AssertionError("it is not known whose question it is")

    async with connected(plain(timeout=0.5)) as servers, anyio.create_task_group() as tasks:

        async def other() -> None:
            await servers.call("never")

        tasks.start_soon(other)
        await anyio.wait_all_tasks_blocked()
        with call_hooks(ask=ask):
            result = await servers.call("ask")
        assert "which of several calls it belongs to; `concurrency` 1 in its entry" in str(result.content[-1])
        tasks.cancel_scope.cancel()


async def test_what_the_server_refuses_is_said_in_its_words() -> None:
    async with connected(plain()) as servers:
        with pytest.raises(ToolError, match="refused the call: Unknown tool: nonsense"):
            await servers.server().client.call(ToolRequest("nonsense", {}))
        assert servers.server().report().failures == 1


async def test_an_error_with_the_code_of_a_lost_connection_loses_nothing() -> None:
    async with connected(plain("--odd-tools")) as servers:
        pid = (await servers.call("pid")).text
        others: list[bool] = []

        async def other() -> None:
            others.append((await servers.call("never")).is_error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            await anyio.wait_all_tasks_blocked()
            refused = await servers.call("quota")
            assert refused.is_error
            assert "refused the call: quota exceeded" in refused.text
            assert (await servers.call("pid")).text == pid
            assert others == []
            tasks.cancel_scope.cancel()
        assert servers.server().report().connections == 1


async def test_a_server_gets_no_more_calls_at_once_than_it_is_good_for() -> None:
    ended: list[str] = []

    async def call(name: str) -> None:
        await servers.call(name)
        ended.append(name)

    async with connected(plain(concurrency=1, timeout=0.5)) as servers, anyio.create_task_group() as tasks:
        tasks.start_soon(call, "never")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(call, "echo")
    assert ended == ["never", "echo"]


async def test_a_server_inherits_few_variables_and_gets_those_that_it_is_given() -> None:
    os.environ["GOALPORT_TEST_SECRET"] = "not-for-others"
    try:
        async with connected(plain(env={"GIVEN": "yes"})) as servers:
            environment = json.loads((await servers.call("environment")).text)
    finally:
        del os.environ["GOALPORT_TEST_SECRET"]
    assert environment["GIVEN"] == "yes"
    assert "GOALPORT_TEST_SECRET" not in environment


async def test_a_server_that_stays_busy_is_said_to_be() -> None:
    results: list[str] = []

    async def call() -> None:
        results.append((await servers.call("never")).text)

    async with connected(plain(concurrency=1, timeout=0.3)) as servers, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(call)
    assert "never: the server 'plain' is busy with other calls. Try again later." in results


async def test_whoever_is_asked_may_say_why_there_is_no_answer() -> None:
    async def ask(message: str, schema: object, key: str = "") -> Mapping[str, object]:
        raise ToolError("the person is asleep")

    async with connected(plain()) as servers:
        with call_hooks(ask=ask):
            result = await servers.call("ask")
    assert json.loads(result.text) == {"action": "decline"}
    assert "the person is asleep" in str(result.content[-1])
