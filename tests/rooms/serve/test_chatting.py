"""Chatbots as MCP tools: conversations that clients hold by calls, in both eras of the protocol."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from goalport import ActionContext, achieves_goal, action, condition
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import Declined
from goalport.base.secrecy import register_secrets
from goalport.models.llm import AssistantMessage, UserMessage
from goalport.runtime.chat import Asset, Conversation, chatbot, conversation_of
from goalport.runtime.process import Stuck
from tests.rooms.serve.askers import Answering, Gate, call, handle_of
from tests.rooms.serve.served import ERAS, as_admin, as_caller, served, text_of

YES = {"confirmed": True}


@chatbot(description="Says again what it is told, and what it was told first.")
class Parrot:
    @action(trigger=UserMessage, can_rerun=True)
    async def repeat(self, message: UserMessage, conversation: Conversation, context: ActionContext) -> None:
        if message.content == "fail":
            raise ValueError("a sore throat")
        said = [each.text for each in conversation.entries if each.role == "user"]
        reply = AssistantMessage(f"{len(said)}: {said[0]} … {message.content}")
        if "map" in message.content:
            conversation.add_message(reply, assets=[Asset(name="Map", uri="https://maps/1", media_type="text/html")])
        await context.send_message(reply)


@chatbot(description="Writes slowly")
class Novelist:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    @action(trigger=UserMessage, can_rerun=True)
    async def write(self, context: ActionContext) -> None:
        async def pieces() -> AsyncGenerator[str]:
            yield "Once "
            yield "upon"
            await self.gate.passed(context)
            yield " a time"

        await context.send_message("A novel.")
        await context.send_message(pieces())


@chatbot(description="Writes for those alone who read", stop_when_reader_leaves=True)
class Hasty(Novelist):
    pass


@chatbot(description="Pays what it is told to")
class Payer:
    @action(trigger=UserMessage, can_rerun=True, cost=0.2)
    async def pay(self, message: UserMessage, context: ActionContext) -> None:
        await context.send_message("Let me ask.")
        try:
            agreed = await context.ask(f"Really {message.content}?", bool)
        except Declined:
            agreed = False
        await context.send_message("Paid." if agreed else "Not paid.")

    @condition
    def farewell(self, message: UserMessage) -> bool:
        return message.content == "bye"

    @achieves_goal(description="Say goodbye")
    @action(trigger=UserMessage, pre=["farewell"])
    async def leave(self, message: UserMessage, context: ActionContext) -> Asset:
        await context.send_message("Goodbye.")
        return Asset(name=message.content)


async def say(client: Client, tool: str, message: str, conversation: str | None = None) -> CallToolResult:
    return await call(client, tool, message=message, **({"conversationId": conversation} if conversation else {}))


def reply_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    reply: Any = result.structured_content
    return reply


@pytest.mark.parametrize("era", ERAS)
async def test_a_conversation_goes_on_with_the_id_of_its_first_answer(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Parrot()) as server, server.client(era) as client:
        first = await say(client, "chat_parrot", "one")
        known = reply_of(first)["conversationId"]
        assert reply_of(first) == {
            "reply": "1: one … one",
            "conversationId": known,
            "assets": [],
            "finished": False,
            "pages": 1,
        }
        assert known in text_of(first)
        assert text_of(first).startswith("1: one … one")
        assert [reply_of(await say(client, "chat_parrot", each, known))["reply"] for each in ("two", "three")] == [
            "2: one … two",
            "3: one … three",
        ]
        assert reply_of(await say(client, "chat_parrot", "anew"))["reply"] == "1: anew … anew"


async def test_an_empty_message_is_refused_and_begins_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        for empty in ("", " \n"):
            refused = await say(client, "chat_parrot", empty)
            assert refused.is_error
            assert "message: should not be empty" in text_of(refused)
        assert await server.state.platform.store.conversations.list() == []


async def test_a_reply_brings_its_assets_along(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        reply = reply_of(await say(client, "chat_parrot", "a map, please"))
    (asset,) = reply["assets"]
    assert asset == {"name": "Map", "uri": "https://maps/1", "mediaType": "text/html", "text": ""}


@pytest.mark.parametrize("era", ERAS)
async def test_the_text_so_far_comes_as_progress(tmp_path: Path, era: str) -> None:
    gate = Gate()
    told: list[str] = []
    amounts: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        amounts.append(progress)
        told.append(message or "")
        if message == "A novel.\n\nOnce upon":
            gate.opened.set()

    async with served(tmp_path, Novelist(gate)) as server, server.client(era) as client:
        with anyio.fail_after(60):
            result = await client.call_tool("chat_novelist", {"message": "Write"}, progress_callback=note)
    assert isinstance(result, CallToolResult)
    assert reply_of(result)["reply"] == "A novel.\n\nOnce upon a time"
    assert amounts == sorted(set(amounts))
    assert "at the gate" in told


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_ends_during_a_reply_says_so_to_a_client_with_progress(tmp_path: Path, era: str) -> None:
    gate = Gate()
    answers: list[object] = []

    async def note(progress: float, total: float | None, message: str | None) -> None: ...

    async with served(tmp_path, Novelist(gate)) as server, server.client(era) as client:

        async def write() -> None:
            answers.append(await client.call_tool("chat_novelist", {"message": "Write"}, progress_callback=note))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                await gate.begun.wait()
                await server.platform.processes.close()
    (answer,) = answers
    assert isinstance(answer, CallToolResult)
    assert answer.is_error
    assert "goes on elsewhere" in text_of(answer)


async def test_a_secret_that_comes_in_two_pieces_is_not_told(tmp_path: Path) -> None:
    gate, told = Gate(), list[str]()
    owner = Gate()
    register_secrets(owner, ["Once upon"])

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        if (message or "").startswith("A novel.\n\n"):
            gate.opened.set()

    async with served(tmp_path, Novelist(gate)) as server, server.client() as client:
        with anyio.fail_after(60):
            result = await client.call_tool("chat_novelist", {"message": "Write"}, progress_callback=note)
        assert isinstance(result, CallToolResult)
        known = reply_of(result)["conversationId"]
        (text,) = (await client.read_resource(f"goalport://conversations/{known}")).contents
    assert isinstance(text, TextResourceContents)
    assert "Once upon" not in f"{told} {result} {text}"


@pytest.mark.parametrize("era", ERAS)
async def test_a_question_is_asked_by_elicitation_and_the_reply_has_all_that_was_said(tmp_path: Path, era: str) -> None:
    person = Answering.with_(YES, "decline")
    async with served(tmp_path, Payer()) as server, server.client(era, elicitation_callback=person) as client:
        paid = reply_of(await say(client, "chat_payer", "pay 5"))
        assert paid["reply"] == "Let me ask.\n\nPaid."
        kept = reply_of(await say(client, "chat_payer", "pay 6", paid["conversationId"]))
        assert kept["reply"] == "Let me ask.\n\nNot paid."
    assert person.asked == ["Really pay 5?", "Really pay 6?"]


async def test_without_elicitation_a_question_comes_as_a_handle_that_names_the_conversation(tmp_path: Path) -> None:
    async with served(tmp_path, Payer()) as server, server.client() as client:
        asked = await say(client, "chat_payer", "pay 5")
        handle = handle_of(server, "chat_payer", asked)
        assert handle["status"] == "waiting"
        assert "say the same again" in handle["next"]["instruction"]
        paid = reply_of(await call(client, handle["next"]["tool"], **handle["next"]["arguments"] | {"answer": True}))
        assert paid["reply"] == "Let me ask.\n\nPaid."
        assert paid["conversationId"] == handle["conversationId"]
        status = reply_of(await call(client, "process_status", processId=handle["processId"]))
        assert status == paid
        asked = await say(client, "chat_payer", "pay 6", paid["conversationId"])
        assert handle_of(server, "chat_payer", asked)["processId"] == handle["processId"]


async def test_what_is_said_while_a_question_is_open_is_answered_after_the_answer(tmp_path: Path) -> None:
    async with served(tmp_path, Payer()) as server, server.client() as client:
        first = handle_of(server, "chat_payer", await say(client, "chat_payer", "pay 5"))
        later = await say(client, "chat_payer", "pay 6", first["conversationId"])
        assert handle_of(server, "chat_payer", later)["questions"] == first["questions"]
        next_one = await call(client, "process_answer", processId=first["processId"], answer=True)
        (question,) = handle_of(server, "chat_payer", next_one)["questions"]
        assert question["message"] == "Really pay 6?"
        done = reply_of(await call(client, "process_answer", processId=first["processId"], answer=False))
    assert done["reply"] == "Paid.\n\nLet me ask.\n\nNot paid."


async def test_a_question_that_nobody_wants_any_more_can_be_cancelled(tmp_path: Path) -> None:
    async with served(tmp_path, Payer()) as server, server.client() as client:
        handle = handle_of(server, "chat_payer", await say(client, "chat_payer", "pay 5"))
        assert not (await call(client, "process_cancel", processId=handle["processId"])).is_error
        over = reply_of(await say(client, "chat_payer", "bye", handle["conversationId"]))
    assert (over["reply"], over["finished"]) == ("Goodbye.", True)


async def test_nothing_more_is_answered_in_a_conversation_that_is_over(tmp_path: Path) -> None:
    async with served(tmp_path, Payer()) as server, server.client() as client:
        over = reply_of(await say(client, "chat_payer", "bye"))
        assert over["finished"]
        again = await say(client, "chat_payer", "hello?", over["conversationId"])
    assert again.is_error
    assert "Begin another" in text_of(again)


async def test_a_turn_that_fails_is_an_error_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot(), show_errors=True) as server, server.client() as client:
        known = reply_of(await say(client, "chat_parrot", "hello"))["conversationId"]
        failed = await say(client, "chat_parrot", "fail", known)
        assert failed.is_error
        assert "a sore throat" in text_of(failed)
        assert known in text_of(failed)
        assert reply_of(await say(client, "chat_parrot", "well?", known))["reply"] == "3: hello … well?"


async def test_a_conversation_of_somebody_else_is_as_unknown_as_one_that_is_not_there(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot(), Payer()) as server, server.client() as client:
        with as_caller("anna"):
            known = reply_of(await say(client, "chat_parrot", "mine"))["conversationId"]
            elsewhere = await say(client, "chat_payer", "mine", known)
        with as_caller("ben"):
            theirs = await say(client, "chat_parrot", "mine", known)
            unknown = await say(client, "chat_parrot", "mine", "made-up")
        with as_caller("anna"):
            assert reply_of(await say(client, "chat_parrot", "again", known))["reply"] == "2: mine … again"
    assert theirs.is_error
    assert elsewhere.is_error
    assert text_of(theirs) == text_of(unknown).replace("made-up", known)
    assert "There is no conversation" in text_of(theirs)


async def test_what_an_admin_says_in_a_conversation_runs_for_its_owner(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        with as_caller("anna"):
            known = reply_of(await say(client, "chat_parrot", "mine"))["conversationId"]
        (await server.process()).kill("It is replaced.")
        with as_admin("root"):
            assert reply_of(await say(client, "chat_parrot", "really?", known))["reply"] == "2: mine … really?"
        (record,) = await server.platform.conversations.list(Caller("anna", "https://issuer"))
        assert (await server.platform.process(record.process)).caller.id == "anna"


async def test_two_calls_at_once_are_answered_one_after_another(tmp_path: Path) -> None:
    replies: list[str] = []
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        known = reply_of(await say(client, "chat_parrot", "first"))["conversationId"]

        async def one(message: str) -> None:
            replies.append(reply_of(await say(client, "chat_parrot", message, known))["reply"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "left")
            tasks.start_soon(one, "right")
    assert sorted(each[:1] for each in replies) == ["2", "3"]
    assert {each.rpartition(" ")[2] for each in replies} == {"left", "right"}


async def _leave(client: Client, gate: Gate, tool: str) -> None:
    """Call a chatbot and give up the call once its reply has begun."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(say, client, tool, "Write")
        with anyio.fail_after(60):
            await gate.begun.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("era", ERAS)
async def test_a_reply_is_finished_for_a_client_that_has_gone(tmp_path: Path, era: str) -> None:
    gate = Gate()
    async with served(tmp_path, Novelist(gate)) as server, server.client(era) as client:
        await _leave(client, gate, "chat_novelist")
        gate.opened.set()
        process = await server.process()
        with anyio.fail_after(60):
            await process.rest()
        conversation = conversation_of(process)
        assert conversation is not None
        assert conversation.entries[-1].text == "Once upon a time"


@pytest.mark.parametrize("era", ERAS)
async def test_a_reply_is_stopped_where_the_chatbot_says_so_and_the_conversation_goes_on(
    tmp_path: Path, era: str
) -> None:
    gate = Gate()
    async with served(tmp_path, Hasty(gate)) as server, server.client(era) as client:
        await _leave(client, gate, "chat_hasty")
        process = await server.process()
        with anyio.fail_after(60):
            outcome = await process.rest()
        assert isinstance(outcome, Stuck)
        assert outcome.turn_failed
        gate.opened.set()
        (record,) = await server.platform.conversations.list(process.caller)
        reply = reply_of(await say(client, "chat_hasty", "Again", record.id))["reply"]
    assert reply == "A novel.\n\nOnce upon a time"


async def test_a_reply_that_nobody_wants_any_more_is_cancelled_and_the_conversation_goes_on(tmp_path: Path) -> None:
    gate = Gate()
    answers: list[CallToolResult] = []
    async with served(tmp_path, Novelist(gate)) as server, server.client() as client:

        async def write() -> None:
            answers.append(await say(client, "chat_novelist", "Write"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                await gate.begun.wait()
                process = await server.process()
                cancelled = await call(client, "process_cancel", processId=process.id)
                assert "goes on with the next message" in text_of(cancelled)
        assert answers[0].is_error
        assert "cancelled" in text_of(answers[0])
        gate.opened.set()
        (record,) = await server.platform.conversations.list(ANONYMOUS)
        reply = reply_of(await say(client, "chat_novelist", "Again", record.id))["reply"]
    assert reply == "A novel.\n\nOnce upon a time"


async def test_a_megabyte_is_said_and_its_long_reply_is_read_in_pages(tmp_path: Path) -> None:
    words = "word \u00e9 " * 150_000
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        said = await say(client, "chat_parrot", words)
        reply = reply_of(said)
        assert reply["pages"] > 1
        assert len(said.model_dump_json()) < server.state.settings.max_result_bytes
        process = await server.process()
        whole = ""
        for number in range(1, reply["pages"] + 1):
            page = (await call(client, "process_result", processId=process.id, page=number)).content[1]
            assert isinstance(page, TextContent)
            whole += page.text
    assert whole == f"1: {words} … {words}"
    assert whole.startswith(reply["reply"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "message"),
        ({"message": ""}, "message"),
        ({"message": 7}, "message"),
        ({"message": "hi", "conversation": "x"}, "conversationId"),
    ],
)
async def test_wrong_arguments_are_told(tmp_path: Path, arguments: dict[str, Any], complaint: str) -> None:
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        refused = await call(client, "chat_parrot", **arguments)
        assert refused.is_error
        assert complaint in text_of(refused)
        assert not await server.platform.processes.records()
