import re
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    ElicitResult,
    InputResponses,
    TextContent,
    TextResourceContents,
)

from tests.rooms.serve.served import ERAS, served, text_of

RAW = """
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult, GetPromptResult, ImageContent, InputRequiredResult, Prompt, PromptArgument, PromptMessage,
    ReadResourceResult, Resource, ResourceTemplate, TextContent, TextResourceContents, Tool,
    ElicitRequest, ElicitRequestFormParams, ElicitResult,
)
from goalport.server.doors.mcp import changed, raw_prompt, raw_resource, raw_template, raw_tool, resource_updated

SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "$defs": {"a": {}}}

def text(words):
    return TextContent(type="text", text=words)

async def echo(context, params):
    return CallToolResult(content=[text(f"{params.arguments} in {context.protocol_version}")], is_error=False)

async def plain(context, params):
    return {"content": [{"type": "text", "text": "a dict"}], "resultType": "complete"}

async def refuse(context, params):
    raise MCPError(-32050, "not today", {"why": "holiday"})

async def break_(context, params):
    raise RuntimeError("the cable is loose\\nTraceback and secrets")

async def ask(context, params):
    answer = (params.input_responses or {}).get("name")
    if isinstance(answer, ElicitResult):
        return CallToolResult(content=[text(f"{answer.content['name']} after {params.request_state}")])
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    request = ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=schema))
    return InputRequiredResult(input_requests={"name": request}, request_state="my state")

async def announce(context, params):
    await changed(context, "tools", "prompts")
    await resource_updated(context, "note://one")
    return CallToolResult(content=[text("told")])

def tool(name, handler):
    return raw_tool(Tool(name=name, description="Raw", input_schema=SCHEMA), handler)

tools = None
echoing, dicts = tool("echo", echo), tool("dict", plain)
refusing, breaking = tool("refuse", refuse), tool("break", break_)
asking, announcing = tool("ask", ask), tool("announce", announce)

async def prompt(context, params):
    return GetPromptResult(messages=[PromptMessage(role="user", content=text(f"about {params.arguments['topic']}"))])

topic = raw_prompt(Prompt(name="topic", arguments=[PromptArgument(name="topic", required=True)]), prompt)
broken_prompt = raw_prompt(Prompt(name="broken"), break_)

async def read(context, params):
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text=f"read {params.uri}")])

one = raw_resource(Resource(uri="note://one", name="one"), read)
many = raw_template(ResourceTemplate(uri_template="note://{year}/{title}", name="many"), read)
broken_resource = raw_resource(Resource(uri="note://broken", name="broken"), break_)
"""
FILES = {"tools/raw.py": RAW}


@pytest.mark.parametrize("era", ERAS)
async def test_a_handler_gets_the_sdks_context_and_params(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, files=FILES) as server, server.client(era) as client:
        assert text_of(await client.call_tool("echo", {"a": 1})).startswith("{'a': 1} in 20")


async def test_a_definition_is_published_word_for_word(tmp_path: Path) -> None:
    async with served(tmp_path, files=FILES) as server, server.client() as client:
        tool = next(each for each in (await client.list_tools()).tools if each.name == "echo")
    assert tool.input_schema["$schema"].startswith("https://json-schema.org")
    assert "$defs" in tool.input_schema


@pytest.mark.parametrize("era", ERAS)
async def test_a_handler_may_answer_with_a_dict(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, files=FILES) as server, server.client(era) as client:
        assert text_of(await client.call_tool("dict", {})) == "a dict"


@pytest.mark.parametrize("era", ERAS)
async def test_a_protocol_error_of_a_handler_goes_out_as_it_is(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, files=FILES) as server, server.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("refuse", {})
    error = caught.value.error
    assert (error.code, error.message, error.data) == (-32050, "not today", {"why": "holiday"})


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_breaks_is_an_error_result_and_a_log_line(
    tmp_path: Path, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, files=FILES) as server, server.client(era) as client:
        result = await client.call_tool("break", {})
    assert result.is_error
    assert re.fullmatch(r"break failed: RuntimeError\. The server's log has it as error [0-9a-f]{8}\.", text_of(result))
    assert "the cable is loose" in caplog.text


@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_or_resource_that_breaks_is_an_internal_error_without_details(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, files=FILES) as server, server.client(era) as client:
        for attempt in (client.get_prompt("broken", {}), client.read_resource("note://broken")):
            with pytest.raises(MCPError, match="failed: RuntimeError") as caught:
                await attempt
            assert caught.value.code == INTERNAL_ERROR
            assert "cable" not in caught.value.message


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_resources_and_templates_answer_by_themselves(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, files=FILES) as server, server.client(era) as client:
        message = (await client.get_prompt("topic", {"topic": "rain"})).messages[0].content
        assert isinstance(message, TextContent)
        assert message.text == "about rain"
        for uri in ("note://one", "note://2024/rain"):
            content = (await client.read_resource(uri)).contents[0]
            assert isinstance(content, TextResourceContents)
            assert content.text == f"read {uri}"
        with pytest.raises(MCPError) as caught:
            await client.read_resource("note://2024/rain/more")
    assert caught.value.code == INVALID_PARAMS


async def test_a_state_comes_back_to_the_handler_as_it_left_it_and_sealed_to_the_client(tmp_path: Path) -> None:
    async with served(tmp_path, files=FILES) as server, server.client() as client:
        asked = await client.session.call_tool("ask", {}, allow_input_required=True)
        state = getattr(asked, "request_state", "")
        assert state
        assert "my state" not in state
        answers: InputResponses = {"name": ElicitResult(action="accept", content={"name": "Ada"})}
        told = await client.session.call_tool(
            "ask", {}, input_responses=answers, request_state=state, allow_input_required=True
        )
        assert isinstance(told, CallToolResult)
        assert text_of(told) == "Ada after my state"


@pytest.mark.parametrize("forged", ["nonsense", "v1.AAAA", ""])
async def test_a_state_that_was_tampered_with_is_refused(tmp_path: Path, forged: str) -> None:
    async with served(tmp_path, files=FILES) as server, server.client() as client:
        with pytest.raises(MCPError) as caught:
            await client.session.call_tool("ask", {}, request_state=forged, allow_input_required=True)
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("era", ERAS)
async def test_a_handler_can_say_that_lists_and_resources_changed(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, files=FILES) as server, server.client(era) as client:
        assert text_of(await client.call_tool("announce", {})) == "told"
