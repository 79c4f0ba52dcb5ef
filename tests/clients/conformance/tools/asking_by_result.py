"""Tools and a prompt that ask by returning what they need, as revision 2026-07-28 does it.

The client answers by calling again, with the answers and the state; the server seals the state, so these
handlers see it as they gave it. Each says why no goal says it; what a goal can ask is in `agents/asking`.
"""

from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    Prompt,
    PromptMessage,
    SamplingMessage,
    TextContent,
    Tool,
)

from goalport.server.doors.mcp import raw_prompt, raw_tool

Context = ServerRequestContext[Any, Any]
Answer = CallToolResult | InputRequiredResult


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


def question(message: str, field: str) -> InputRequest:
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def for_the_model(text: str, max_tokens: int) -> InputRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def needed(state: str | None = None, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def answered(answers: Mapping[str, InputResponse] | None, key: str, field: str) -> object:
    """The field of an accepted answer; None when that question is still open."""
    answer = (answers or {}).get(key)
    return (answer.content or {}).get(field) if isinstance(answer, ElicitResult) else None


async def ask_name(_: Context, params: CallToolRequestParams) -> Answer:
    """Raw, as the suite answers under a name of its own and without the state; a goal names its questions itself."""
    name = answered(params.input_responses, "user_name", "name")
    return said(f"Hello, {name}!") if name else needed(user_name=question("What is your name?", "name"))


async def ask_model(_: Context, params: CallToolRequestParams) -> Answer:
    """Raw, as goals ask people, and models only through goalport's own models."""
    reply = (params.input_responses or {}).get("capital_question")
    if isinstance(reply, CreateMessageResult) and isinstance(reply.content, TextContent):
        return said(reply.content.text)
    return needed(capital_question=for_the_model("What is the capital of France?", 100))


async def ask_roots(_: Context, params: CallToolRequestParams) -> Answer:
    """Raw, as goals never ask for the folders of a client."""
    reply = (params.input_responses or {}).get("client_roots")
    if isinstance(reply, ListRootsResult):
        return said("Roots: " + ", ".join(str(root.uri) for root in reply.roots))
    return needed(client_roots=ListRootsRequest())


async def ask_everyone(_: Context, params: CallToolRequestParams) -> Answer:
    """Raw, as goals ask people only, and this also asks for a model's answer and for folders."""
    requests: dict[str, InputRequest] = {
        "user_name": question("What is your name?", "name"),
        "greeting": for_the_model("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    missing = {key: request for key, request in requests.items() if key not in (params.input_responses or {})}
    return needed("everyone", **missing) if missing else said("All three answered")


async def ask_whom_the_client_has(ctx: Context, params: CallToolRequestParams) -> Answer:
    """Raw, as the client of the suite can only sample, and a goal that cannot ask a person gives the handle."""
    if params.input_responses:
        return said("Answered")
    capabilities = ctx.session.client_capabilities or ClientCapabilities()
    requests: dict[str, InputRequest] = {}
    if capabilities.sampling is not None:
        requests["greeting"] = for_the_model("Generate a greeting", 50)
    if capabilities.elicitation is not None:
        requests["user_name"] = question("What is your name?", "name")
    return needed(None, **requests) if requests else said("There is nobody to ask")


async def prompt_with_context(_: Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
    """Raw, as a goal's prompt asks nothing: it is filled in before it is sent."""
    context = answered(params.input_responses, "user_context", "context")
    if context is None:
        return needed(user_context=question("What context should the prompt use?", "context"))
    text = TextContent(type="text", text=f"Use this context: {context}")
    return GetPromptResult(messages=[PromptMessage(role="user", content=text)])


def tool(name: str, description: str) -> Tool:
    return Tool(name=f"test_input_required_result_{name}", description=description, input_schema={"type": "object"})


elicitation = raw_tool(tool("elicitation", "Asks the user"), ask_name)
sampling = raw_tool(tool("sampling", "Asks the client's model"), ask_model)
list_roots = raw_tool(tool("list_roots", "Asks for the client's roots"), ask_roots)
multiple_inputs = raw_tool(tool("multiple_inputs", "Asks user, model and roots at once"), ask_everyone)
capabilities = raw_tool(tool("capabilities", "Asks only what the client can answer"), ask_whom_the_client_has)
prompt = raw_prompt(
    Prompt(name="test_input_required_result_prompt", description="Asks the user for its context"), prompt_with_context
)
