"""`goalport chat --server`: the chatbots of a running server, over its AG-UI door."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from goalport import ActionContext, WaitFor, action, condition
from goalport.cli.conversations import READER
from goalport.models.llm import UserMessage
from goalport.runtime.chat import Conversation, chatbot
from tests.rooms.auth.tokens import spoken
from tests.rooms.cli.conftest import Command, Ran
from tests.rooms.rest.web import Web, web


@dataclass(frozen=True)
class Parcel:
    number: int

    def __post_init__(self) -> None:
        if self.number > 100:
            raise ValueError("should be at most 100")


async def pieces(text: str) -> AsyncGenerator[str]:
    for word in text.split(" "):
        yield f"{word} "


@chatbot(description="Answers questions about parcels")
class Support:
    @action(trigger=UserMessage, can_rerun=True, cost=0.5)
    async def respond(self, conversation: Conversation, context: ActionContext) -> None:
        said = [each.text for each in conversation.entries if each.role == "user"]
        if said[-1] == "fail":
            raise ValueError("the parcels are on fire")
        await context.send_message(pieces(f"{len(said)}: {said[-1]}."))

    @condition
    def is_about_a_parcel(self, message: UserMessage) -> bool:
        return message.content == "parcel"

    @action(trigger=UserMessage, can_rerun=True, pre=["is_about_a_parcel"])
    async def ask(self, message: UserMessage) -> WaitFor[Parcel]:
        return WaitFor.form_submission("Which parcel?", Parcel)

    @action(trigger=Parcel, can_rerun=True)
    async def find(self, parcel: Parcel, context: ActionContext) -> None:
        await context.send_message(f"Parcel {parcel.number} is on its way.")


Chat = Callable[..., Awaitable[Ran]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Web]:
    async with web(tmp_path, Support()) as server:
        yield server


@pytest.fixture
def chat(server: Web, goalport: Command) -> Chat:
    async def talk(*options: str, lines: str = "") -> Ran:
        address = str(server.http.base_url)
        return await to_thread.run_sync(lambda: goalport("chat", *options, "--server", address, stdin=lines))

    return talk


async def test_a_conversation_at_a_server_is_streamed_continued_edited_and_answered_again(
    chat: Chat, server: Web
) -> None:
    begun = await chat("-c", "ticket-1", lines="one\ntwo\n")
    assert (begun.code, begun.out) == (0, "1: one. \n2: two. \n")
    assert "Support.respond" in begun.err

    ran = await chat("-c", "ticket-1", lines="/history\nthree\n/edit drei\n/again\n")
    shown = ["you> one", "1: one. ", "you> two", "2: two. "]
    assert ran.out.splitlines() == [*shown, "3: three. ", "3: drei. ", "3: drei. "]
    exported = await server.platform.conversations.export("ticket-1", READER)
    assert [each["content"] for each in exported["messages"] if each["role"] == "user"] == [
        "one",
        "two",
        "three",
        "drei",
    ]


async def test_a_question_of_a_server_is_asked_and_answered(chat: Chat) -> None:
    asked = await chat("-c", "ticket-2", "-m", "parcel")
    assert (asked.code, asked.out) == (1, "Which parcel?\n")

    ran = await chat("-c", "ticket-2", lines='/answer {"number": 101}\n/answer {"number": 7}\nbye\n')
    assert "should be at most 100" in ran.err
    assert ran.out.splitlines() == ["Which parcel?", "Parcel 7 is on its way.", "2: bye. "]


async def test_between_two_messages_a_chatbot_is_resting_and_after_a_failed_turn_it_is_stuck(
    chat: Chat, server: Web
) -> None:
    for conversation, said in (("ticket-3", "hello"), ("ticket-4", "fail")):
        await chat("-c", conversation, "-m", said)

    async def statuses(**query: str) -> list[str]:
        answer = await server.http.get("/api/v1/processes", params=query)
        return [each["status"] for each in answer.json()["processes"]]

    assert await statuses() == ["stuck", "resting"]
    assert await statuses(status="resting") == ["resting"]
    assert await statuses(status="stuck") == ["stuck"]


async def test_what_goes_wrong_at_a_server_is_told(chat: Chat) -> None:
    failed = await chat("-m", "fail", "-m", "hello")
    assert failed.code == 1
    assert "error: " in failed.err
    assert failed.out == "2: hello. \n"
    assert "Unknown chatbot or goal 'Nobody'" in (await chat("Nobody", "-m", "hello")).err
    assert "--conversation ID" in (await chat("--continue", "-m", "hello")).err
    assert "goalport conversations" in (await chat(lines="/list\n")).err


async def test_the_id_that_is_told_is_that_of_the_conversation_also_if_a_caller_has_chosen_another(
    tmp_path: Path, goalport: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOALPORT_TOKEN", "ada=goals:read+goals:write")
    async with web(tmp_path, Support(), authentication=spoken()) as server:

        async def say(conversation: str, text: str) -> dict[str, Any]:
            options = ("--server", str(server.http.base_url), "--json", "-c", conversation, "-m", text)
            return json.loads((await to_thread.run_sync(lambda: goalport("chat", *options))).out.splitlines()[0])

        begun = await say("ticket-1", "one")
        assert len((await server.platform.conversations.export(begun["conversation"], READER))["messages"]) == 2
        for each in ("ticket-1", begun["conversation"]):
            assert (await say(each, "more"))["conversation"] == begun["conversation"]
        assert await server.platform.conversations.find("ticket-1", READER) is None
