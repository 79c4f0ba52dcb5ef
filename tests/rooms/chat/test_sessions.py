"""Sessions: one reply per message, by the action that is worth most; and what survives, fails, waits and ends."""

import asyncio

import pytest
from anyio import fail_after

from goalport import AgentPlatform
from goalport.base.caller import Caller
from goalport.base.errors import BadInput, ConversationEnded
from goalport.base.events import Event, MessageDelta, MessageSent, QuestionAsked
from goalport.models.llm import UserMessage
from goalport.runtime.chat import AgentProcessChatbot, ChatSession
from tests.rooms.chat.talkers import Careful, Moody, Nudge, Parrot, Plain, Slow, TwoMinds, Wave

ANNA, BEN = Caller("anna"), Caller("ben")


async def _session(platform: AgentPlatform, name: str) -> ChatSession:
    return await platform.chatbots.named(name).create_session(ANNA)


async def test_each_message_gets_one_reply_and_the_first_message_is_known_in_the_last_turn() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await _session(platform, "Parrot")
        for number in range(1, 201):
            result = await session.on_user_message(UserMessage(f"message {number}"))
            assert [each.text for each in result.messages] == [f"{number}: message 1 … message {number}"]
        assert len(session.conversation.entries) == 400
        assert session.idle
        assert not session.is_finished()


async def test_the_cheapest_action_answers_and_costs_are_computed_for_each_message() -> None:
    async with AgentPlatform([TwoMinds]) as platform:
        session = await _session(platform, "TwoMinds")
        replies = [(await session.on_user_message(UserMessage("So?"))).text for _ in range(4)]
        assert replies == ["Short", "Short", "Long", "Long"]


async def test_another_event_than_a_message_triggers_the_action_for_it() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await _session(platform, "Parrot")
        assert (await session.trigger(Nudge("rain"))).text == "Oh, rain"
        assert (await session.on_user_message(UserMessage("hello"))).text == "1: hello … hello"


async def test_one_of_the_actions_that_take_a_message_without_a_trigger_answers_it_once() -> None:
    async with AgentPlatform([Plain]) as platform:
        session = await _session(platform, "Plain")
        told = [(await session.on_user_message(UserMessage(each))).text for each in ("yes", "thanks", "no")]
        assert told == ["You said yes.", "You are welcome.", "You said no."]
        assert (await session.trigger(Wave("Hello"))).text == "Hello too!"
        assert (await session.trigger(Nudge("rain"))).text == "After Hello: rain."


async def test_a_failed_turn_is_told_and_the_next_message_is_answered() -> None:
    async with AgentPlatform([Moody]) as platform:
        session = await _session(platform, "Moody")
        failed = await session.on_user_message(UserMessage("fail"))
        assert "a bad mood" in failed.failure
        assert not failed.messages
        assert (await session.on_user_message(UserMessage("please"))).text == "Fine."


async def test_a_question_waits_for_its_answer_and_the_channel_hears_of_both() -> None:
    class Channel:
        def __init__(self) -> None:
            self.events: list[Event] = []

        def on_event(self, event: Event, /) -> None:
            self.events.append(event)

    async with AgentPlatform([Careful]) as platform:
        channel = Channel()
        session = await platform.chatbots["Careful"].create_session(ANNA, channel)
        asked = await session.on_user_message(UserMessage("jump"))
        (question,) = asked.questions
        assert question.message == "Really jump?"
        assert [each.question_id for each in channel.events if isinstance(each, QuestionAsked)] == [question.id]
        turn = await session.answer(question.id, response=True)
        told = [each.text async for each in turn.events() if isinstance(each, MessageSent)]
        assert told == [(await turn.result()).text] == ["Done: jump"]


async def test_messages_that_come_at_once_are_answered_one_after_another() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await _session(platform, "Parrot")
        other = await platform.chatbots["Parrot"].find_session(session.conversation.id, ANNA)
        assert other is not None
        with fail_after(60):
            results = await asyncio.gather(
                *(each.on_user_message(UserMessage(f"from {number}")) for number, each in enumerate((session, other)))
            )
        assert sorted(each.text[0] for each in results) == ["1", "2"]
        assert [each.role for each in session.conversation.entries] == ["user", "assistant"] * 2


def _following(session: ChatSession, message_id: str) -> int:
    """How many messages follow one, each in its branch."""
    return sum(each.parent == message_id for each in session.conversation.loaded.messages.values())


async def test_an_edited_message_forks_the_conversation_and_the_other_branch_stays() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await _session(platform, "Parrot")
        for text in ("one", "two"):
            await session.on_user_message(UserMessage(text))
        first_reply = session.conversation.entries[1]
        turn = await session.begin_turn(UserMessage("deux"), after=first_reply.id)
        assert (await turn.result()).text == "2: one … deux"
        assert [each.text for each in session.conversation.entries[2:]] == ["deux", "2: one … deux"]
        assert _following(session, first_reply.id) == 2
        exported = await platform.conversations.export(session.conversation.id, ANNA)
        assert len(exported["messages"]) == 6


async def test_a_reply_can_be_made_again_in_a_branch_of_its_own() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await _session(platform, "Parrot")
        await session.on_user_message(UserMessage("one"))
        await (await session.regenerate()).result()
        asked = session.conversation.entries[0].id
        assert [each.role for each in session.conversation.entries] == ["user", "assistant"]
        assert _following(session, asked) == 2


async def test_a_conversation_is_its_callers_alone() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await _session(platform, "Parrot")
        chatbot, conversation_id = platform.chatbots["Parrot"], session.conversation.id
        assert await chatbot.find_session(conversation_id, BEN) is None
        with pytest.raises(BadInput, match="already"):
            await chatbot.create_session(BEN, conversation_id=conversation_id)
        assert not await platform.conversations.list(BEN)
        assert not await platform.conversations.delete(conversation_id, BEN)
        assert await platform.conversations.delete(conversation_id, ANNA)
        assert await chatbot.find_session(conversation_id, ANNA) is None


@pytest.mark.parametrize("conversation_id", ["two words", "two\nlines", "\0", "\ud800", "Straße", "x" * 201])
async def test_what_a_header_or_a_store_cannot_hold_is_no_id_of_a_conversation(conversation_id: str) -> None:
    async with AgentPlatform([Parrot]) as platform:
        chatbot = platform.chatbots["Parrot"]
        with pytest.raises(BadInput, match="Expected an id of at most 200 characters"):
            await chatbot.create_session(ANNA, conversation_id=conversation_id)
        assert await chatbot.find_session(conversation_id, ANNA) is None


async def test_a_killed_process_is_followed_by_another_that_knows_the_conversation() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await _session(platform, "Parrot")
        await session.on_user_message(UserMessage("one"))
        process = await platform.process(session.process_id)
        process.kill()
        await process.rest()
        assert (await session.on_user_message(UserMessage("two"))).text == "2: one … two"
        assert session.process_id != process.id


async def test_a_goal_ends_the_conversation() -> None:
    async with AgentPlatform([Careful]) as platform:
        session = await _session(platform, "Careful")
        ended = await session.on_user_message(UserMessage("Goodbye"))
        assert ended.text == "Bye"
        assert ended.finished
        assert session.is_finished()
        with pytest.raises(ConversationEnded):
            await session.on_user_message(UserMessage("Wait"))


async def test_a_chatbot_of_all_agents_uses_their_actions() -> None:
    async with AgentPlatform([Parrot]) as platform:
        chatbot = AgentProcessChatbot.utility_from_platform(platform, name="everything")
        session = await chatbot.create_session(ANNA)
        assert (await session.on_user_message(UserMessage("hi"))).text == "1: hi … hi"


async def test_a_stopped_reply_ends_the_turn_and_not_the_conversation() -> None:
    async with AgentPlatform([Slow]) as platform:
        session = await _session(platform, "Slow")
        turn = await session.begin_turn(UserMessage("wait"))
        with fail_after(60):
            async for event in turn.events():
                if isinstance(event, MessageDelta):
                    turn.cancel("Enough.")
            result = await turn.result()
        assert result.failure == "Enough."
        assert not result.messages
        assert (await session.on_user_message(UserMessage("go"))).text == "go"


async def test_a_second_reader_follows_the_turn_from_its_beginning() -> None:
    async with AgentPlatform([Slow]) as platform:
        session = await _session(platform, "Slow")
        turn = await session.begin_turn(UserMessage("wait"))
        with fail_after(60):
            async for event in turn.events():
                if isinstance(event, MessageDelta):
                    break
            other = await platform.chatbots["Slow"].find_session(session.conversation.id, ANNA)
            assert other is not None
            followed = await other.follow()
            assert followed is not None
            deltas = list[str]()
            async for event in followed.events():
                if isinstance(event, MessageDelta):
                    deltas.append(event.text)
                    followed.cancel()
        assert deltas == ["wait"]
