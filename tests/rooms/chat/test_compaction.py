"""A conversation that becomes too long: what a model is shown gets shorter, and nothing that was said is lost."""

import pytest
from hypothesis import given, strategies as st

from goalport import ActionContext, AgentPlatform, action
from goalport.base.caller import Caller
from goalport.base.errors import ModelRefused
from goalport.base.events import ConversationCompacted
from goalport.models.llm import AssistantMessage, Message, Models, ModelsSettings, ToolCall, ToolReply, UserMessage
from goalport.runtime.ai import PatternGuard
from goalport.runtime.chat import Conversation, chatbot
from goalport.runtime.chat.compaction import estimated_tokens, next_compaction
from goalport.runtime.chat.conversation import LEFT_OUT
from goalport.store import InMemoryProcessStore
from goalport.testing import ScriptedModel

ANNA = Caller("anna")
TEXTS = st.text("ab ", max_size=400)
TURNS = st.tuples(TEXTS, st.none() | TEXTS, TEXTS)


def _said(turns: list[tuple[str, str | None, str]]) -> list[Message]:
    """Turns: what a person said, what a tool gave, if one was called, and the reply."""
    messages: list[Message] = []
    for number, (asked, result, reply) in enumerate(turns):
        messages.append(UserMessage(asked))
        if result is not None:
            call = ToolCall(str(number), "look")
            messages += [AssistantMessage(calls=(call,)), ToolReply(call.id, call.name, result)]
        messages.append(AssistantMessage(reply))
    return messages


@given(st.lists(TURNS, min_size=1, max_size=8), st.integers(1, 500))
def test_only_whole_turns_are_made_shorter_and_never_the_newest(
    turns: list[tuple[str, str | None, str]], limit: int
) -> None:
    messages = _said(turns)
    wanted = next_compaction(messages, limit)
    if wanted is None:
        return
    assert estimated_tokens(messages) > limit
    assert isinstance(messages[wanted.up_to], UserMessage)
    kept = messages[wanted.up_to :]
    called = {call.id for each in kept if isinstance(each, AssistantMessage) for call in each.calls}
    assert all(each.call_id in called for each in kept if isinstance(each, ToolReply))
    newest = max(place for place, each in enumerate(messages) if isinstance(each, UserMessage))
    assert 0 < wanted.up_to <= newest


def test_a_message_that_comes_before_the_result_of_a_tool_begins_no_turn() -> None:
    call = ToolCall("1", "look")
    called: list[Message] = [UserMessage("a " * 400), AssistantMessage(calls=(call,))]
    hurried = [*called, UserMessage("Hurry!"), ToolReply("1", "look", "There."), AssistantMessage("I looked.")]
    assert next_compaction(hurried, 100) is None
    wanted = next_compaction([*hurried, UserMessage("And?")], 100)
    assert wanted is not None
    assert wanted.up_to == len(hurried)


def test_nothing_is_made_shorter_that_is_short_enough() -> None:
    messages = _said([("one", None, "two")])
    assert next_compaction(messages, estimated_tokens(messages)) is None


@chatbot(description="Has a short memory", max_history_tokens=120)
class Forgetful:
    """It shows its model all that it may."""

    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, conversation: Conversation, context: ActionContext) -> None:
        """Say how many tokens there are, and what comes first."""
        shown = conversation.messages
        await context.send_message(AssistantMessage(f"{estimated_tokens(shown)}: {shown[0].content}"))


async def test_a_model_summarises_what_is_old_and_the_last_turn_knows_the_first() -> None:
    model = ScriptedModel([f"Anna's number is 42, and there were {number} summaries." for number in range(1, 200)])
    async with AgentPlatform([Forgetful], models=model) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        compacted, reply = list[ConversationCompacted](), ""
        for number in range(1, 202):
            text = "My number is 42." if number == 1 else f"This is message {number}. " + "word " * 10
            turn = await session.begin_turn(UserMessage(text))
            compacted += [each async for each in turn.events() if isinstance(each, ConversationCompacted)]
            reply = (await turn.result()).text
        assert int(reply.partition(":")[0]) <= 120
        assert "Anna's number is 42" in reply
        assert all(each.tokens_after < each.tokens_before and each.what == "summary" for each in compacted)
        assert len(compacted) > 10
        assert len(session.conversation.entries) == 402
        assert "My number is 42." in model.calls[0].messages[-1].content


async def test_without_a_model_what_is_old_is_left_out_and_the_event_says_so() -> None:
    async with AgentPlatform([Forgetful]) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        happened, number = list[ConversationCompacted](), -1
        while not happened and number < 12:
            number += 1
            turn = await session.begin_turn(UserMessage(f"This is message {number}. " + "word " * 10))
            happened = [each async for each in turn.events() if isinstance(each, ConversationCompacted)]
        assert happened
        assert "is left out" in session.conversation.messages[0].content
        assert len(session.conversation.entries) == 2 * number + 2


async def test_old_results_of_tools_are_left_out_before_anything_is_summarised() -> None:
    async with AgentPlatform([Forgetful], models=ScriptedModel([])) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        call = ToolCall("1", "look")
        earlier = [
            UserMessage("Look."),
            AssistantMessage(calls=(call,)),
            ToolReply("1", "look", "x" * 1_000),
            AssistantMessage("I did."),
        ]
        turn = await session.begin_turn(UserMessage("And?"), earlier=earlier)
        (compacted,) = [each async for each in turn.events() if isinstance(each, ConversationCompacted)]
        assert compacted.what == "tool results"
        assert session.conversation.messages[2] == ToolReply("1", "look", LEFT_OUT)
        assert session.conversation.entries[2].text == "x" * 1_000


async def test_a_long_history_is_summarised_piece_by_piece() -> None:
    model = ScriptedModel([f"Notes {number}." for number in range(1, 20)])
    earlier = [each for _ in range(20) for each in (UserMessage("a" * 4_000), AssistantMessage("b" * 4_000))]
    async with AgentPlatform([Forgetful], models=model) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        turn = await session.begin_turn(UserMessage("And?"), earlier=earlier)
        (compacted,) = [each async for each in turn.events() if isinstance(each, ConversationCompacted)]
        assert (compacted.what, compacted.messages) == ("summary", 40)
        assert f"Notes {len(model.calls)}." in session.conversation.messages[0].content
    assert len(model.calls) == 5
    asked = [call.messages[-1].content for call in model.calls]
    assert all(len(each) < 42_000 for each in asked)
    assert all(f"Notes {number}." in each for number, each in enumerate(asked[1:], start=1))


async def test_a_message_of_any_length_is_summarised_by_its_beginning_and_its_end() -> None:
    model = ScriptedModel(["They shouted.", "Noted."])
    earlier = [UserMessage(f"Dear all, {'a' * 900_000} yours, Anna"), AssistantMessage("b")]
    async with AgentPlatform([Forgetful], models=model) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        turn = await session.begin_turn(UserMessage("And?"), earlier=earlier)
        assert [each async for each in turn.events()]
    asked = model.calls[0].messages[-1].content
    assert "Dear all" in asked
    assert "yours, Anna" in asked
    assert len(asked) < 10_000


async def test_a_turn_goes_on_when_no_summary_can_be_made(caplog: pytest.LogCaptureFixture) -> None:
    async with AgentPlatform([Forgetful], models=ScriptedModel([ModelRefused("It is asleep.")])) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        await session.on_user_message(UserMessage("a " * 400))
        assert (await session.on_user_message(UserMessage("So?"))).text.endswith(": " + "a " * 400)
    assert "was not made shorter: It is asleep." in caplog.text


async def test_guards_object_to_what_is_summarised() -> None:
    model, guards = ScriptedModel([]), [PatternGuard("swordfish", "Names the password")]
    async with AgentPlatform([Forgetful], models=model, guards=guards) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        await session.on_user_message(UserMessage("swordfish " * 60))
        assert (await session.on_user_message(UserMessage("So?"))).messages
    assert not model.calls


async def test_what_a_model_has_summarised_is_kept_when_there_is_no_model_any_more() -> None:
    store = InMemoryProcessStore()
    async with AgentPlatform([Forgetful], models=ScriptedModel(["Anna likes tea."]), store=store) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        await session.on_user_message(UserMessage("a " * 400))
        await session.on_user_message(UserMessage("b " * 400))
    async with AgentPlatform([Forgetful], models=Models(environment={}), store=store) as later:
        again = await later.chatbots["Forgetful"].find_session(session.conversation.id, ANNA)
        assert again is not None
        for text in ("And?", "c " * 400, "So?"):
            await again.on_user_message(UserMessage(text))
        (first, *_) = again.conversation.messages
        assert "Anna likes tea." in first.content
        assert first.content.count("is left out") == 1


async def test_the_default_model_summarises_where_the_cheapest_cannot_be_asked() -> None:
    settings = ModelsSettings(default_llm="scripted", llms={"cheapest": "openai:gpt-4.1-nano"})
    models = Models(settings, models=[ScriptedModel(["By the default one.", "Its title."])], environment={})
    async with AgentPlatform([Forgetful], models=models) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        earlier = [UserMessage("a " * 400), AssistantMessage("Oh.")]
        turn = await session.begin_turn(UserMessage("Hm?"), earlier=earlier)
        assert "By the default one." in (await turn.result()).text
