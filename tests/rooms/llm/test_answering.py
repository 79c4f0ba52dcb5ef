"""What comes back from each provider, over HTTP, from a mock that nobody here wrote."""

import json
from base64 import b64encode
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from goalport.models.llm import (
    AssistantMessage,
    Image,
    LanguageModel,
    LlmOptions,
    ModelCall,
    Models,
    ModelsSettings,
    ProviderSettings,
    SystemMessage,
    TextDelta,
    Thinking,
    ToolCall,
    ToolReply,
    UserMessage,
)
from tests.providers import Providers
from tests.rooms.llm.asking import LOOK_UP, PERSON, call, pieces_of
from tests.rooms.llm.servers import claude, responses, serving
from tests.spans import recorded_spans

CHAT = "openai:gpt-4.1-mini"
RESPONSES = "openai-responses:gpt-4.1-mini"
CLAUDE = "anthropic:claude-opus-4-8"
OLDER_CLAUDE = "anthropic:claude-haiku-4-0"
GEMINI = "gemini:gemini-2.5-flash"
DEEPSEEK = "deepseek:deepseek-chat"
OLLAMA = "ollama:qwen3:latest"
ALL = (CHAT, RESPONSES, CLAUDE, OLDER_CLAUDE, GEMINI, DEEPSEEK, OLLAMA)
BY_TOOL = (OLDER_CLAUDE, DEEPSEEK)
"""They do not write by a schema, so the object is the arguments of a tool."""
PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


@pytest.fixture
async def models(aimock: Providers) -> AsyncGenerator[Models]:
    once: dict[str, ProviderSettings] = dict.fromkeys(
        ("openai", "anthropic", "gemini", "deepseek", "ollama"), ProviderSettings(max_attempts=1)
    )
    models = Models(ModelsSettings(providers=once), environment=aimock.environment)
    yield models
    await models.aclose()


@pytest.fixture
def model(models: Models, name: str) -> LanguageModel:
    return models.choose(LlmOptions(model=name))


each_provider = pytest.mark.parametrize("name", ALL)


@each_provider
async def test_a_model_answers_in_words(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer("the weather", content="It rains.")
    reply = await model.reply(call("How is the weather?"))
    assert (reply.message.content, reply.message.calls, reply.finish) == ("It rains.", (), "stop")
    assert reply.output is None
    assert reply.model.startswith(model.card.name)


@each_provider
async def test_a_system_message_stands_above_the_conversation(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer({"systemMessage": "You are a pirate."}, content="Arr.")
    asked = ModelCall(messages=(SystemMessage("You are a pirate."), UserMessage("Hello")))
    assert (await model.reply(asked)).message.content == "Arr."


@each_provider
async def test_a_tool_is_called_and_its_result_is_heard(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer(
        {"userMessage": "Rome", "hasToolResult": False},
        toolCalls=[{"name": "look_up", "arguments": {"subject": "Rome"}}],
    )
    aimock.answer({"toolResultContains": "753 BC"}, content="It is old.")
    first = await model.reply(call("Tell me of Rome", tools=(LOOK_UP,)))
    (called,) = first.message.calls
    assert (called.name, json.loads(called.arguments), first.finish) == ("look_up", {"subject": "Rome"}, "tool_call")
    result = ToolReply(called.id, called.name, "Founded in 753 BC")
    second = await model.reply(call("Tell me of Rome", first.message, result, tools=(LOOK_UP,)))
    assert second.message.content == "It is old."


@each_provider
async def test_a_tool_is_described_to_the_model(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer(content="No need to.")
    await model.reply(call("Hello", tools=(LOOK_UP,)))
    (request,) = aimock.requests()
    (tool,) = request["tools"]
    function = tool.get("function", tool)
    assert (function["name"], function["description"]) == ("look_up", "Look something up.")
    assert function["parameters"]["properties"]["subject"] == {"type": "string"}


@pytest.mark.parametrize("name", [each for each in ALL if each not in BY_TOOL])
async def test_a_model_that_can_writes_an_object_by_its_schema(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer("Ada", content='{"name": "Ada", "age": 36}')
    reply = await model.reply(call("Who was Ada?", output=PERSON))
    assert json.loads(reply.output or "") == {"name": "Ada", "age": 36}
    (request,) = aimock.requests()
    assert not request.get("tools")


@pytest.mark.parametrize("name", BY_TOOL)
async def test_another_model_gives_an_object_as_the_arguments_of_a_tool(
    model: LanguageModel, aimock: Providers
) -> None:
    aimock.answer({"toolName": "final_result"}, toolCalls=[_final({"name": "Ada", "age": 36})])
    reply = await model.reply(call("Who was Ada?", output=PERSON))
    assert json.loads(reply.output or "") == {"name": "Ada", "age": 36}
    assert (reply.message.calls, reply.finish) == ((), "stop")


@pytest.mark.parametrize("name", BY_TOOL)
async def test_a_request_for_repair_is_valid_after_an_object_by_tool(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer({"userMessage": "Who was", "toolName": "final_result"}, toolCalls=[_final({"name": "Ada"})])
    aimock.answer({"userMessage": "age is missing"}, toolCalls=[_final({"name": "Ada", "age": 36})])
    first = await model.reply(call("Who was Ada?", output=PERSON))
    second = await model.reply(call("Who was Ada?", first.message, UserMessage("The age is missing"), output=PERSON))
    assert json.loads(second.output or "") == {"name": "Ada", "age": 36}
    roles = [message["role"] for message in aimock.requests()[-1]["messages"]]
    assert sorted(roles) == ["assistant", "tool", "user", "user"]


@pytest.mark.parametrize("name", BY_TOOL)
async def test_a_tool_that_is_called_beside_the_object_comes_first(model: LanguageModel, aimock: Providers) -> None:
    look_up = {"name": "look_up", "arguments": {"subject": "Ada"}}
    aimock.answer("Ada", toolCalls=[look_up, _final({"name": "?", "age": 0})])
    reply = await model.reply(call("Who was Ada?", output=PERSON, tools=(LOOK_UP,)))
    assert ([each.name for each in reply.message.calls], reply.output) == (["look_up"], None)


@pytest.mark.parametrize("name", BY_TOOL)
async def test_an_object_in_words_counts_too(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer("Ada", content='```json\n{"name": "Ada", "age": 36}\n```')
    reply = await model.reply(call("Who was Ada?", output=PERSON))
    assert reply.output == '{"name": "Ada", "age": 36}'


@each_provider
async def test_what_was_never_answered_is_answered_before_anything_else_is_said(
    model: LanguageModel, aimock: Providers
) -> None:
    """Providers refuse a conversation in which a call has no answer."""
    aimock.answer(content="Fine.")
    wish = AssistantMessage("Let me see", (ToolCall("t1", "look_up", '{"subject": "x"}'),))
    again = AssistantMessage("And", (ToolCall("t2", "look_up", '{"subject": "y"}'),))
    said = (UserMessage("Look"), wish, again, UserMessage("Never mind"), wish)
    reply = await model.reply(ModelCall(messages=said, tools=(LOOK_UP,)))
    assert reply.message.content == "Fine."
    told = [message["role"] for message in aimock.requests()[-1]["messages"]]
    assert told.count("tool") == 3
    assert "Let me see" in json.dumps(aimock.requests()[-1])


async def test_azure_is_asked_for_its_deployment(aimock: Providers) -> None:
    aimock.answer("Hi", content="Hello")
    azure = {"AZURE_OPENAI_API_KEY": "z", "AZURE_OPENAI_ENDPOINT": aimock.address, "OPENAI_API_VERSION": "2024-10-21"}
    models = Models(environment=azure)
    assert (await models.choose(LlmOptions(model="azure:my-gpt")).reply(call("Hi"))).message.content == "Hello"
    assert await models.embedding("azure:my-vectors").embed(["cat"])
    await models.aclose()
    paths = [entry["path"] for entry in aimock.journal()]
    assert [path.partition("?")[0] for path in paths] == [
        "/openai/deployments/my-gpt/chat/completions",
        "/openai/deployments/my-vectors/embeddings",
    ]


@each_provider
async def test_words_are_streamed(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer("story", {"chunkSize": 4}, content="Once upon a time")
    asked = call("Tell me a story")
    pieces = [piece async for piece in model.stream(asked) if isinstance(piece, TextDelta)]
    assert len(pieces) > 2
    assert "".join(piece.text for piece in pieces) == "Once upon a time"


@each_provider
async def test_a_streamed_answer_ends_with_all_of_it(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer("story", content="Once upon a time")
    text, _, reply = await pieces_of(model, call("Tell me a story"))
    assert (text, reply.message.content, reply.finish) == ("Once upon a time", "Once upon a time", "stop")


@each_provider
async def test_the_json_of_an_object_is_streamed(model: LanguageModel, aimock: Providers) -> None:
    person = {"name": "Ada", "age": 36}
    if model.card.provider == "deepseek" or model.card.name == OLDER_CLAUDE.partition(":")[2]:
        aimock.answer("Ada", {"chunkSize": 5}, toolCalls=[_final(person)])
    else:
        aimock.answer("Ada", {"chunkSize": 5}, content=json.dumps(person))
    text, _, reply = await pieces_of(model, call("Who was Ada?", output=PERSON))
    assert json.loads(text) == person
    assert json.loads(reply.output or "") == person


@each_provider
async def test_tool_calls_are_streamed_too(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer("Rome", toolCalls=[{"name": "look_up", "arguments": {"subject": "Rome"}}])
    text, _, reply = await pieces_of(model, call("Tell me of Rome", tools=(LOOK_UP,)))
    assert (text, [each.name for each in reply.message.calls]) == ("", ["look_up"])


@each_provider
async def test_thoughts_are_heard_apart_from_the_answer(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer("riddle", content="A man.", reasoning="Four legs, then two …")
    asked = call("Solve the riddle")
    reply = await model.reply(asked)
    assert (reply.message.thinking, reply.message.content) == ("Four legs, then two …", "A man.")
    text, thoughts, reply = await pieces_of(model, asked)
    assert (thoughts, text, reply.message.thinking) == ("Four legs, then two …", "A man.", "Four legs, then two …")


async def test_a_models_own_message_goes_back_as_it_came(aimock: Providers) -> None:
    thought = {"type": "thinking", "thinking": "Legs", "signature": "signed-by-claude"}
    async with serving(claude(thought, {"type": "text", "text": "A man."})) as server:
        model = server.model(OLDER_CLAUDE)
        first = await model.reply(call("Solve the riddle"))
        assert first.message.thinking == "Legs"
        await model.reply(call("Solve the riddle", first.message, UserMessage("Why?")))
    assert thought in server.bodies[-1]["messages"][1]["content"]


async def test_what_another_provider_said_is_told_in_plain_words(aimock: Providers, models: Models) -> None:
    aimock.answer("riddle", content="A man.", reasoning="Legs")
    aimock.answer("Why", content="Because.")
    first = await models.choose(LlmOptions(model=CLAUDE)).reply(call("Solve the riddle"))
    await models.choose(LlmOptions(model=CHAT)).reply(call("Solve the riddle", first.message, UserMessage("Why?")))
    assert aimock.requests()[-1]["messages"][1]["role"] == "assistant"
    assert "A man." in json.dumps(aimock.requests()[-1])


@pytest.mark.parametrize("name", [CHAT, GEMINI, OLLAMA])
async def test_an_image_is_shown_to_the_model(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer("in the picture", content="A pixel.")
    shown = ModelCall(messages=(UserMessage("What is in the picture?", (Image("image/png", PIXEL),)),))
    assert (await model.reply(shown)).message.content == "A pixel."
    assert "iVBORw0KGgoAAAANSUhEUg" in json.dumps(aimock.requests()[-1])


async def test_claude_is_shown_an_image() -> None:
    async with serving(claude({"type": "text", "text": "A pixel."})) as server:
        model = server.model(OLDER_CLAUDE)
        await model.reply(ModelCall(messages=(UserMessage("What is it?", (Image("image/png", PIXEL),)),)))
    shown = {"type": "base64", "media_type": "image/png", "data": b64encode(PIXEL).decode()}
    assert shown in [part.get("source") for part in server.bodies[0]["messages"][0]["content"]]


async def test_a_model_of_the_responses_api_is_shown_an_image() -> None:
    async with serving(responses({"type": "output_text", "text": "A pixel.", "annotations": []})) as server:
        asked = ModelCall(messages=(UserMessage("What is it?", (Image("image/png", PIXEL),)),))
        assert (await server.model(RESPONSES).reply(asked)).message.content == "A pixel."
    shown = f"data:image/png;base64,{b64encode(PIXEL).decode()}"
    assert shown in [part.get("image_url") for part in server.bodies[0]["input"][0]["content"]]


@each_provider
async def test_an_image_that_a_tool_gave_is_shown(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer({"turnIndex": 0}, toolCalls=[{"name": "look_up", "arguments": {"subject": "x"}}])
    aimock.answer({"turnIndex": 1}, content="A pixel.")
    first = await model.reply(call("Look", tools=(LOOK_UP,)))
    (called,) = first.message.calls
    seen = ToolReply(called.id, called.name, "Here it is", images=(Image("image/png", PIXEL),))
    second = await model.reply(call("Look", first.message, seen, tools=(LOOK_UP,)))
    assert second.message.content == "A pixel."


@pytest.mark.parametrize("name", [CHAT])
async def test_hyperparameters_are_passed_on(model: LanguageModel, aimock: Providers) -> None:
    aimock.answer(content="Yes.")
    options = LlmOptions(
        temperature=0.3, top_p=0.5, max_tokens=7, frequency_penalty=0.1, presence_penalty=0.2, thinking=None
    )
    await model.reply(ModelCall(messages=(UserMessage("Well?"),), options=options))
    sent: dict[str, Any] = aimock.requests()[-1]
    wanted = {"temperature": 0.3, "top_p": 0.5, "frequency_penalty": 0.1, "presence_penalty": 0.2}
    assert {name: sent[name] for name in wanted} == wanted
    assert 7 in {sent.get("max_tokens"), sent.get("max_completion_tokens")}


@pytest.mark.parametrize(
    ("name", "thinking", "sent"),
    [
        ("openai:gpt-5", "low", {"reasoning_effort": "low"}),
        ("openai:gpt-4.1-mini", "low", {}),
        ("openai:gpt-5", None, {}),
    ],
)
async def test_how_hard_to_think_is_told_to_a_model_that_can(
    model: LanguageModel, aimock: Providers, thinking: Thinking | None, sent: dict[str, str]
) -> None:
    aimock.answer(content="Hm.")
    await model.reply(ModelCall(messages=(UserMessage("Think"),), options=LlmOptions(thinking=thinking)))
    assert {key: value for key, value in aimock.requests()[0].items() if key == "reasoning_effort"} == sent


@pytest.mark.parametrize("name", [CHAT, CLAUDE, GEMINI])
async def test_usage_and_its_price_are_counted(model: LanguageModel, aimock: Providers) -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "input_tokens": 1_000, "output_tokens": 100}
    aimock.answer(content="Cheap.", usage=usage)
    whole = await model.reply(call("What do you cost?"))
    _, _, streamed = await pieces_of(model, call("What do you cost?"))
    for used in (whole.usage, streamed.usage):
        assert (used.input_tokens, used.output_tokens) == (1_000, 100)
        assert 0 < used.cost < 0.1


async def test_texts_become_vectors(models: Models, aimock: Providers) -> None:
    aimock.answer({"inputText": "cat"}, embedding=[0.25, -0.5])
    service = models.embedding("text-embedding-3-small")
    assert service.dimensions is None
    assert await service.embed(["cat", "cats"]) == [[0.25, -0.5], [0.25, -0.5]]
    assert (service.name, service.dimensions) == ("text-embedding-3-small", 2)
    assert await service.embed([]) == []


def _final(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": "final_result", "arguments": arguments}


@pytest.mark.parametrize("model", [CHAT, "anthropic:claude-opus-4-8"])
async def test_no_library_below_makes_a_second_span_of_a_call(aimock: Providers, models: Models, model: str) -> None:
    aimock.answer("How are you", content="Fine")
    chosen = models.choose(LlmOptions(model=model))
    with recorded_spans() as spans:
        await chosen.reply(call("How are you?"))
        await pieces_of(chosen, call("How are you?"))
        # Anthropic's SDK has spans of its own for its requests over HTTP.
        assert [name for name in spans.of_others if name.startswith("chat")] == []
