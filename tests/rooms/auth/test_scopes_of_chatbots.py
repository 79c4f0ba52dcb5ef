"""Who may talk to a chatbot, over MCP: by the scopes that it names, or by the scope to write."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult

from goalport import ActionContext, action
from goalport.base.caller import Caller
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from tests.rooms.auth.test_scopes import challenge_of
from tests.rooms.auth.tokens import client_of, spoken
from tests.rooms.rest.web import web
from tests.rooms.serve.served import ERAS


@chatbot(description="Talks to everybody who may start goals")
class Porter:
    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, message: UserMessage, context: ActionContext) -> None:
        agreed = "ask" not in message.content or await context.ask("Let them in?", bool)
        await context.send_message("Come in." if agreed else "Stay out.")


@chatbot(description="Talks to a few", scopes=["finance:talk"])
class Banker(Porter):
    pass


NEEDED = {"chat_porter": "goals:write", "chat_banker": "finance:talk"}


@pytest.mark.parametrize("era", ERAS)
async def test_only_who_has_its_scopes_sees_a_chatbot_and_talks_to_it(tmp_path: Path, era: str) -> None:
    authentication = spoken()
    async with web(tmp_path, Porter(), Banker(), authentication=authentication) as server:
        for tool, scope in NEEDED.items():
            refusals: list[httpx2.Response] = []
            async with client_of(server, "ada", "goals:read", era=era, refusals=refusals) as client:
                assert tool not in {each.name for each in (await client.list_tools()).tools}
                assert tool not in {each.name for each in (await client.list_prompts()).prompts}
                with pytest.raises(MCPError):
                    await client.read_resource(f"goalport://agents/{tool.removeprefix('chat_').title()}")
                with pytest.raises(MCPError):
                    await client.call_tool(tool, {"message": "hello"})
                assert [challenge_of(each)["scope"] for each in refusals] == [scope]
            async with client_of(server, "ada", "goals:read", scope, era=era) as client:
                assert tool in {each.name for each in (await client.list_tools()).tools}
                reply: Any = (await client.call_tool(tool, {"message": "hello"})).structured_content
                assert reply["reply"] == "Come in."
        for name, scope in (("Porter", "goals:write"), ("Banker", "finance:talk")):
            bot = server.platform.chatbots[name]
            assert server.platform.may_chat(Caller("ada", scopes=frozenset({scope})), bot)
            assert not server.platform.may_chat(Caller("ada", scopes=frozenset({"goals:read"})), bot)


@pytest.mark.parametrize("era", ERAS)
async def test_who_may_no_longer_talk_to_a_chatbot_answers_none_of_its_questions(tmp_path: Path, era: str) -> None:
    asked: list[str] = []

    async def answer(context: object, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="decline")

    async with web(tmp_path, Banker(), authentication=spoken()) as server:
        async with client_of(server, "ada", "goals:read", "finance:talk", era=era) as client:
            handle: Any = (await client.call_tool("chat_banker", {"message": "ask"})).structured_content
        async with client_of(server, "ada", "goals:write", era=era, elicitation_callback=answer) as client:
            with pytest.raises(MCPError):
                await client.call_tool(handle["next"]["tool"], handle["next"]["arguments"])
            status: Any = (await client.call_tool("process_status", {"processId": handle["processId"]})).model_dump()
            assert status["structured_content"]["status"] == "waiting"
            assert not asked
        async with client_of(server, "ada", "goals:read", "finance:talk", era=era) as client:
            reply: Any = (
                await client.call_tool(handle["next"]["tool"], {**handle["next"]["arguments"], "answer": True})
            ).structured_content
            assert reply["reply"] == "Come in."
