"""Open WebUI: the requests that version 0.12.4 sends with its defaults, recorded, and the users whom it names."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AuthenticationError, PermissionDeniedError

from goalport import ActionContext, action
from goalport.base.observe.audit import read_audit
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from goalport.workspace.settings import audit_file_of
from tests.rooms.openai_api.chats import Chats, Echo, chats, history, make_key

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("open_webui.json").read_text("utf-8"))
HEADERS: dict[str, str] = RECORDED["headers"]
REQUESTS: dict[str, Any] = RECORDED["requests"]
TASKS = REQUESTS.keys() - {"chat", "documents"}
USER, CHAT = HEADERS["x-openwebui-user-id"], HEADERS["x-openwebui-chat-id"]
MODELS = """
from goalport.testing import ScriptedModel

model = ScriptedModel(['{"title": "Hello"}'])
"""


@chatbot(description="Says who asks")
class Mirror:
    @action(trigger=UserMessage, can_rerun=True)
    async def tell(self, context: ActionContext) -> None:
        caller = context.caller
        about = " ".join(f"{name}={caller.claims[name]}" for name in sorted(caller.claims))
        scopes = " ".join(sorted(caller.scopes))
        await context.send_message(f"{caller.id} of {caller.issuer}, {scopes}, {about}, admin={caller.admin}")


async def _stored(server: Chats, conversation: str) -> list[str]:
    return [each.text for each in await server.web.platform.store.conversations.messages(conversation)]


async def test_a_chat_is_one_conversation_and_what_the_interface_asks_stays_outside(tmp_path: Path) -> None:
    key = make_key(tmp_path, "webui", "goals:write", "goals:on-behalf-of")
    async with chats(tmp_path, Echo, key=key) as server:
        stored = ""
        for name, request in REQUESTS.items():
            answer = await server.post("chat/completions", request, **HEADERS)
            assert answer.status_code == 200, (name, answer.text)
            if name in TASKS:
                content = json.loads(answer.json()["choices"][0]["message"]["content"])
                assert content == {name: "" if name in {"title", "prompt", "text"} else []}
            if name == "chat":
                stored = answer.headers["x-conversation-id"]
                assert await _stored(server, stored) == ["hello from the page", "1: hello from the page"]
        documents = REQUESTS["documents"]["messages"][0]["content"]
        assert (await _stored(server, stored))[2:] == [documents, f"1: {' '.join(documents.split())}"]


async def test_a_cheap_model_answers_what_the_interface_asks(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "models.py").write_text(MODELS)
    async with chats(tmp_path, Echo) as server:
        answer = await server.post("chat/completions", REQUESTS["title"])
        assert answer.json()["choices"][0]["message"]["content"] == '{"title": "Hello"}'
        assert "x-conversation-id" not in answer.headers


async def test_a_key_that_may_act_for_others_says_for_whom(tmp_path: Path) -> None:
    key = make_key(tmp_path, "webui", "goals:write", "goals:admin", "goals:on-behalf-of")
    auth = {"claims": ["name", "email"]}
    async with chats(tmp_path, Mirror, key=key, auth=auth) as server:
        request = {"model": "Mirror", "messages": history("who am I")}
        told = (await server.post("chat/completions", request, **HEADERS)).json()["choices"][0]["message"]["content"]
        assert told == (
            f"{USER} of goalport:keys:webui, goals:read goals:write, email=ana@example.com name=Ana Lü, admin=False"
        )
        itself = (await server.post("chat/completions", request)).json()["choices"][0]["message"]["content"]
        assert itself.startswith("webui of goalport:keys, ")
        server.web.publisher.audit_trail.close()
        entries = list(read_audit(audit_file_of(server.web.publisher.settings)))
    told_of = [tuple(each.get(name) for name in ("caller", "issuer", "door", "call", "status")) for each in entries]
    assert told_of == [
        (USER, "goalport:keys:webui", "openai", "Mirror", "completed"),
        ("webui", "goalport:keys", "openai", "Mirror", "completed"),
    ]


async def test_users_of_one_key_have_conversations_of_their_own(tmp_path: Path) -> None:
    key = make_key(tmp_path, "webui", "goals:write", "goals:on-behalf-of")
    async with chats(tmp_path, Echo, key=key) as server:
        other = {**HEADERS, "x-openwebui-user-id": "somebody else"}
        answers = [await server.post("chat/completions", REQUESTS["chat"], **each) for each in (HEADERS, other)]
        first, second = (each.headers["x-conversation-id"] for each in answers)
        assert first != second
        for each in (first, second):
            assert await _stored(server, each) == ["hello from the page", "1: hello from the page"]


async def test_headers_of_any_other_key_say_nothing(tmp_path: Path) -> None:
    key = make_key(tmp_path, "anna", "goals:write")
    async with chats(tmp_path, Mirror, key=key) as server:
        answer = await server.post("chat/completions", {"model": "Mirror", "messages": history("hi")}, **HEADERS)
        assert answer.json()["choices"][0]["message"]["content"].startswith("anna of goalport:keys, ")
        assert answer.headers["x-conversation-id"] != CHAT


@chatbot(description="For some only", scopes=["finance:read"])
class Accountant:
    @action(trigger=UserMessage, can_rerun=True)
    async def tell(self, context: ActionContext) -> None:
        await context.send_message("42")


async def test_a_key_lists_and_uses_the_models_for_which_it_has_the_scopes(tmp_path: Path) -> None:
    reader, writer = make_key(tmp_path, "reader", "goals:read"), make_key(tmp_path, "writer", "goals:write")
    accountant = make_key(tmp_path, "accountant", "goals:read", "finance:read")
    async with chats(tmp_path, Echo, Accountant) as server:
        listed: list[list[str]] = []
        for key in (reader, writer, accountant):
            models = await server.openai.with_options(api_key=key).models.list()
            listed.append([each.id for each in models.data])
        assert listed == [[], ["Echo"], ["Accountant"]]
        with pytest.raises(PermissionDeniedError, match="finance:read") as refused:
            await server.openai.with_options(api_key=writer).chat.completions.create(
                model="Accountant", messages=history("hi")
            )
        assert refused.value.type == "permission_error"
        with pytest.raises(AuthenticationError):
            await server.openai.models.list()


async def test_a_user_has_no_scope_that_implies_those_of_an_administrator(tmp_path: Path) -> None:
    key = make_key(tmp_path, "webui", "operate")
    auth = {"implied_scopes": {"operate": ["goals:admin", "goals:on-behalf-of"]}}
    async with chats(tmp_path, Mirror, key=key, auth=auth) as server:
        answer = await server.post("chat/completions", {"model": "Mirror", "messages": history("who am I")}, **HEADERS)
        told = answer.json()["choices"][0]["message"]["content"]
        assert told == f"{USER} of goalport:keys:webui, goals:read goals:write, , admin=False"


async def test_a_chat_goes_on_with_another_chatbot_in_a_conversation_of_its_own(tmp_path: Path) -> None:
    key = make_key(tmp_path, "webui", "goals:write", "goals:on-behalf-of")
    async with chats(tmp_path, Echo, Mirror, key=key) as server:
        first = await server.post("chat/completions", REQUESTS["chat"], **HEADERS)
        others = set[str]()
        for number in (1, 2):
            said = history(*["hello", "back"] * (number - 1), "who am I")
            answer = await server.post("chat/completions", {"model": "Mirror", "messages": said}, **HEADERS)
            others.add(answer.headers["x-conversation-id"])
        echo = first.headers["x-conversation-id"]
        assert (len(others), echo in others) == (1, False)
        assert await _stored(server, echo) == ["hello from the page", "1: hello from the page"]


async def test_a_long_message_that_looks_like_a_task_is_answered_as_any_other(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        said = "### Task:\n" + "### " * 20_000
        answer = await server.post("chat/completions", {"model": "Echo", "messages": history(said)})
        assert answer.json()["choices"][0]["message"]["content"].startswith("1: ### Task:")
