"""What goes wrong at a provider: a typed error that says what to do, with no key in it; what passes is tried again."""

import json
import logging
from typing import Any

import anyio
import pytest

from goalport.base.errors import ModelError, ModelRefused, ModelUnavailable
from goalport.models.llm import (
    Image,
    LlmOptions,
    ModelCall,
    Models,
    ModelsSettings,
    ProviderSettings,
    Retry,
    TextDelta,
    ToolReply,
    ToolSpec,
    UserMessage,
)
from tests.providers import Providers
from tests.rooms.llm.asking import LOOK_UP, PERSON, call, pieces_of
from tests.rooms.llm.servers import (
    KEY,
    Answer,
    StrangeServer,
    body,
    chat,
    claude,
    error,
    page,
    responses,
    serving,
    silence,
    stream,
)

BUSY = error(429, "Slow down", {"retry-after": "0"})


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (error(401, f"Incorrect API key provided: {KEY}"), ModelRefused, "OPENAI_API_KEY"),
        (error(403, "Country not supported"), ModelRefused, "does not accept the key"),
        (error(404, "The model does not exist"), ModelRefused, "knows no model 'gpt-4.1-mini'"),
        (error(402, "Pay first"), ModelRefused, "no credit left"),
        (error(429, "Pay first", code="insufficient_quota"), ModelRefused, "no credit left"),
        (error(400, "Too long", code="context_length_exceeded"), ModelRefused, "too long"),
        (error(400, f"Bad parameter for {KEY}"), ModelRefused, "Bad parameter for ***"),
        (error(500, "Oops"), ModelUnavailable, "Oops. It was asked 3 times"),
        (error(503, "Overloaded"), ModelUnavailable, "It was asked 3 times"),
        (error(408, "Too late"), ModelUnavailable, "It was asked 3 times"),
        (BUSY, ModelUnavailable, "rate limit (429)"),
        (page(), ModelUnavailable, "/v1 is the API of openai"),
        (page(502), ModelUnavailable, "It was asked 3 times"),
        (body('{"choices": [{"mess'), ModelUnavailable, "cannot be read"),
        (body("{}"), ModelUnavailable, "cannot be read"),
        (body("[]"), ModelUnavailable, "cannot be read"),
        (body(""), ModelUnavailable, "cannot be read"),
    ],
)
async def test_what_went_wrong_is_said_with_what_to_do(answer: Answer, kind: type[ModelError], words: str) -> None:
    async with serving(answer) as server:
        with pytest.raises(kind) as caught:
            await server.model().reply(call("Hello"))
        with pytest.raises(ModelError):
            await pieces_of(server.model(), call("Hello"))
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("answer", [page(), body('{"content": [{'), body("{}"), body("[]"), error(500, "Oops")])
async def test_claude_fails_likewise(answer: Answer) -> None:
    async with serving(answer) as server:
        model = server.model("anthropic:claude-haiku-4-0", max_attempts=1)
        with pytest.raises(ModelUnavailable, match="anthropic:claude-haiku-4-0"):
            await model.reply(call("Hello"))
        with pytest.raises(ModelUnavailable, match="anthropic:claude-haiku-4-0"):
            await pieces_of(model, call("Hello"))


@pytest.mark.parametrize("passing", [BUSY, error(500, "Oops"), error(529, "Overloaded"), page(504)])
async def test_what_passes_is_tried_again(passing: Answer) -> None:
    async with serving(passing, passing, chat("At last")) as server:
        assert (await server.model().reply(call("Hello"))).message.content == "At last"
    assert len(server.bodies) == 3


@pytest.mark.parametrize("lasting", [error(400, "No"), error(401, "No"), error(404, "No"), body("{"), page()])
async def test_what_lasts_is_asked_once(lasting: Answer) -> None:
    async with serving(lasting) as server:
        with pytest.raises(ModelError):
            await server.model().reply(call("Hello"))
    assert len(server.bodies) == 1


async def test_each_retry_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Retry] = []
    with caplog.at_level(logging.WARNING, "goalport.models.llm"):
        async with serving(error(500, "Oops"), error(500, "Oops"), chat("At last")) as server:
            model = server.model(backoff_millis=2, backoff_multiplier=3)
            await model.reply(ModelCall(messages=(UserMessage("Hello"),), on_retry=told.append))
    assert [(each.attempt, round(each.delay_seconds, 6)) for each in told] == [(1, 0.002), (2, 0.006)]
    assert "Oops" in told[0].error
    assert len(caplog.records) == 2


async def test_the_wait_is_as_long_as_the_provider_says() -> None:
    told: list[Retry] = []
    async with serving(error(429, "Slow", {"retry-after-ms": "30"}), chat("At last")) as server:
        model = server.model(backoff_millis=60_000, backoff_max_interval=60_000)
        await model.reply(ModelCall(messages=(UserMessage("Hello"),), on_retry=told.append))
    assert told[0].delay_seconds == pytest.approx(0.03)


async def test_a_provider_that_wants_too_long_a_wait_is_not_asked_again() -> None:
    async with serving(error(429, "Slow", {"retry-after": "3600"})) as server:
        with pytest.raises(ModelUnavailable, match=r"wants 3600 s to pass; backoff_max_interval allows 1\."):
            await server.model().reply(call("Hello"))
    assert len(server.bodies) == 1


async def test_the_waits_grow_to_the_longest_and_no_further() -> None:
    told: list[Retry] = []
    async with serving(error(500, "Oops")) as server:
        model = server.model(max_attempts=5, backoff_millis=1, backoff_multiplier=4, backoff_max_interval=10)
        with pytest.raises(ModelUnavailable):
            await model.reply(ModelCall(messages=(UserMessage("Hello"),), on_retry=told.append))
    assert [each.delay_seconds for each in told] == [0.001, 0.004, 0.01, 0.01]


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelUnavailable, match=r"cannot be reached at http://127\.0\.0\.1:9/v1"):
        await StrangeServer("http://127.0.0.1:9").model().reply(call("Hello"))


async def test_a_password_in_an_address_is_in_no_error() -> None:
    for answer in (page(), error(404, "No such model")):
        async with serving(answer) as server:
            shown, server.address = server.address, server.address.replace("//", "//me:hunter2@")
            with pytest.raises(ModelError) as caught:
                await server.model(max_attempts=1).reply(call("Hello"))
            assert "hunter2" not in str(caught.value)
            assert shown in str(caught.value)
    with pytest.raises(ModelUnavailable, match=r"cannot be reached at http://127\.0\.0\.1:9/v1") as caught:
        await StrangeServer("http://me:hunter2@127.0.0.1:9").model(max_attempts=1).reply(call("Hello"))


async def test_a_prompt_that_is_no_text_is_told_as_such() -> None:
    async with serving(silence) as server:
        with pytest.raises(ModelRefused, match="half of a surrogate pair"):
            await server.model().reply(call("Half a \ud83d"))


async def test_a_server_that_stays_silent_is_given_up() -> None:
    async with serving(silence) as server:
        model = server.model(max_attempts=1, timeout=0.1)
        with pytest.raises(ModelUnavailable, match="no answer in time"):
            await model.reply(call("Hello"))
        with pytest.raises(ModelUnavailable, match="no answer in time"):
            await pieces_of(model, call("Hello"))


async def test_a_call_says_how_long_it_may_take() -> None:
    async with serving(silence) as server:
        model = server.model(max_attempts=1, timeout=3_600)
        hasty = ModelCall(messages=(UserMessage("Hello"),), options=LlmOptions(timeout=0.1))
        with pytest.raises(ModelUnavailable, match="no answer in time"):
            await model.reply(hasty)


async def test_a_request_ends_when_whoever_asked_is_cancelled() -> None:
    async with serving(silence) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(server.model().reply, call("Hello"))
        with anyio.fail_after(60):
            await server.asked.wait()
            tasks.cancel_scope.cancel()
    with anyio.fail_after(60):
        await server.gone.wait()


async def test_a_stream_ends_when_nobody_listens_any_more() -> None:
    async with serving(stream({"content": "One"}, {"content": "Two"}, ended=True)) as server:
        pieces = server.model().stream(call("Count"))
        assert await anext(pieces) == TextDelta("One")
        await pieces.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "openai-responses:gpt-4.1-mini", "anthropic:claude-opus-4-8"])
async def test_a_stream_that_breaks_off_is_an_error_and_not_a_short_answer(aimock: Providers, name: str) -> None:
    aimock.answer("story", {"truncateAfterChunks": 4, "chunkSize": 3}, content="Once upon a time there was a princess")
    patience = ProviderSettings(max_attempts=1)
    settings = ModelsSettings(providers=dict.fromkeys(("openai", "anthropic"), patience))
    models = Models(settings, environment=aimock.environment)
    with pytest.raises(ModelUnavailable):
        await pieces_of(models.choose(LlmOptions(model=name)), call("Tell me a story"))
    await models.aclose()


async def test_a_stream_that_merely_stops_is_an_error_too() -> None:
    async with serving(stream({"content": "Once upon"}, ended=False)) as server:
        with pytest.raises(ModelUnavailable, match="before it said that it was at its end"):
            await pieces_of(server.model(), call("Tell me a story"))
    assert len(server.bodies) == 1, "what was told cannot be taken back"


async def test_a_stream_that_never_began_is_tried_again() -> None:
    async with serving(error(500, "Oops"), stream({"content": "Once"}, ended=True)) as server:
        text, _, _ = await pieces_of(server.model(), call("Tell me a story"))
    assert text == "Once"


async def test_a_refusal_is_a_reply_that_says_so() -> None:
    async with serving(chat(None, refusal="I cannot help with that.")) as server:
        reply = await server.model().reply(call("Something bad", output=PERSON))
    assert (reply.finish, reply.output, reply.message.content) == ("refusal", None, "I cannot help with that.")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("openai-responses:gpt-4.1-mini", responses({"type": "refusal", "refusal": "I cannot help with that."})),
        ("anthropic:claude-haiku-4-0", claude({"type": "text", "text": "I cannot help with that."}, stop="refusal")),
    ],
)
async def test_every_kind_of_refusal_is_one(name: str, answer: Answer) -> None:
    async with serving(answer) as server:
        reply = await server.model(name).reply(call("Something bad", output=PERSON))
    assert (reply.finish, reply.output, reply.message.content) == ("refusal", None, "I cannot help with that.")


async def test_a_streamed_refusal_is_a_reply_that_says_so() -> None:
    async with serving(stream({"refusal": "I cannot "}, {"refusal": "help."}, ended=True)) as server:
        _, _, reply = await pieces_of(server.model(), call("Something bad", output=PERSON))
    assert (reply.finish, reply.output, reply.message.content) == ("refusal", None, "I cannot help.")


async def test_a_provider_that_does_not_take_a_schema_is_asked_by_a_tool() -> None:
    person = json.dumps({"name": "Ada", "age": 36})
    called = [{"id": "t1", "type": "function", "function": {"name": "final_result", "arguments": person}}]
    refused = error(400, "Invalid schema for response_format 'Person'")
    async with serving(refused, chat(None, tool_calls=called)) as server:
        model = server.model()
        replies = [await model.reply(call("Who was Ada?", output=PERSON)) for _ in range(2)]
    assert [json.loads(reply.output or "") for reply in replies] == [json.loads(person)] * 2
    assert ["response_format" in each for each in server.bodies] == [True, False, False], "it is not tried again"


async def test_a_tool_of_the_name_of_ours_is_a_tool_like_any_other() -> None:
    theirs = ToolSpec("final_result", "What came of it.", LOOK_UP.input_schema)
    wanted = {"id": "1", "type": "function", "function": {"name": "final_result", "arguments": "{}"}}
    async with serving(error(400, "Invalid schema for response_format"), chat(None, tool_calls=[wanted])) as server:
        reply = await server.model().reply(call("Who?", output=PERSON, tools=(theirs,)))
    assert [each.name for each in reply.message.calls] == ["final_result"]
    assert reply.output is None
    names = [each["function"]["name"] for each in server.bodies[1]["tools"]]
    assert sorted(names) == ["final_result", "final_result_"]


async def test_a_stream_of_an_object_is_asked_for_by_a_tool_likewise() -> None:
    function = {"name": "final_result", "arguments": '{"name": '}
    first = {"tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": function}]}
    rest = {"tool_calls": [{"index": 0, "function": {"arguments": '"Ada"}'}}]}
    refused = error(400, "Invalid schema for response_format 'Person'")
    async with serving(refused, stream(first, rest, ended=True)) as server:
        text, _, reply = await pieces_of(server.model(), call("Who was Ada?", output=PERSON))
    assert (text, reply.output) == ('{"name": "Ada"}', '{"name": "Ada"}')


async def test_a_schema_that_is_never_taken_is_an_error_that_says_so() -> None:
    async with serving(error(400, "Invalid schema: $ref is not supported")) as server:
        with pytest.raises(ModelRefused, match=r"does not take the schema of the type .*simpler type"):
            await server.model().reply(call("Who was Ada?", output=PERSON))
        with pytest.raises(ModelRefused, match="does not take the schema"):
            await pieces_of(server.model(), call("Who was Ada?", output=PERSON))


async def test_an_image_for_a_model_that_sees_none_is_refused_before_it_is_sent() -> None:
    async with serving(chat("?")) as server:
        with pytest.raises(ModelRefused, match="mine:blind takes no images"):
            await server.blind_model().reply(ModelCall(messages=(UserMessage("Look", (Image("image/png", b"1"),)),)))
    assert not server.bodies


async def test_a_model_that_sees_nothing_is_told_that_a_tools_image_is_left_out() -> None:
    wish = [{"id": "t1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}]
    async with serving(chat(None, tool_calls=wish), chat("Pity.")) as server:
        model = server.blind_model()
        first = await model.reply(call("Look", tools=(LOOK_UP,)))
        seen = ToolReply("t1", "look_up", "Here", images=(Image("image/png", b"1"),))
        await model.reply(call("Look", first.message, seen, tools=(LOOK_UP,)))
    assert "you cannot see images" in server.bodies[-1]["messages"][-1]["content"]


@pytest.mark.parametrize(("written", "heard"), [('{"subject": "Ro', '{"subject": "Ro'), ("", "{}"), ("Rome", "Rome")])
async def test_arguments_are_heard_as_the_model_wrote_them(written: str, heard: str) -> None:
    wish = [{"id": "t1", "type": "function", "function": {"name": "look_up", "arguments": written}}]
    async with serving(chat(None, tool_calls=wish), chat("Sorry.")) as server:
        model = server.model()
        first = await model.reply(call("Look", tools=(LOOK_UP,)))
        assert [each.arguments for each in first.message.calls] == [heard]
        wrong = ToolReply("t1", "look_up", "That is no JSON", is_error=True)
        assert (await model.reply(call("Look", first.message, wrong, tools=(LOOK_UP,)))).message.content == "Sorry."


async def test_a_failed_tool_is_told_as_one() -> None:
    wish: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "look_up", "input": {}}
    async with serving(claude(wish)) as server:
        model = server.model("anthropic:claude-haiku-4-0")
        first = await model.reply(call("Look", tools=(LOOK_UP,)))
        failed = ToolReply("t1", "look_up", "There is no such thing", is_error=True)
        await model.reply(call("Look", first.message, failed, tools=(LOOK_UP,)))
    (result,) = server.bodies[-1]["messages"][-1]["content"]
    assert (result["tool_use_id"], result["is_error"]) == ("t1", True)


async def test_embedding_fails_and_is_retried_likewise() -> None:
    async with serving(error(500, "Oops"), error(401, "No")) as server:
        with pytest.raises(ModelRefused, match="OPENAI_API_KEY"):
            await server.models().embedding("text-embedding-3-small").embed(["cat"])
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("address", "words"),
    [("http://127.0.0.1:9", "nothing answers there"), ("http://nowhere.invalid", "there is no host of that name")],
)
@pytest.mark.parametrize("name", ["gpt-4.1-mini", "anthropic:claude-haiku-4-0"])
async def test_a_provider_that_cannot_be_reached_is_given_up_after_seconds(name: str, address: str, words: str) -> None:
    told: list[Retry] = []
    server = StrangeServer(address)
    model = server.model(name, max_attempts=10, backoff_millis=300_000, backoff_max_interval=300_000)
    with anyio.fail_after(60), pytest.raises(ModelUnavailable, match=f"{words}.*It was asked 3 times"):
        await model.reply(ModelCall(messages=(UserMessage("Hello"),), on_retry=told.append))
    assert [(each.attempt, each.attempts, each.delay_seconds) for each in told] == [(1, 3, 1.0), (2, 3, 1.0)]
    await server.catalogues[0].aclose()
