"""What stays in memory of conversations: the processes of those that were used last, and of those that wait."""

import gc

from goalport import AgentPlatform
from goalport.base.caller import Caller
from goalport.models.llm import UserMessage
from tests.rooms.chat.talkers import Careful, Parrot

ANNA = Caller("anna")


async def test_an_idle_session_keeps_no_process_and_goes_on_all_the_same() -> None:
    async with AgentPlatform([Parrot, Careful]) as platform:
        asking = await platform.chatbots["Careful"].create_session(ANNA)
        await asking.on_user_message(UserMessage("jump"))
        sessions = [await platform.chatbots["Parrot"].create_session(ANNA) for _ in range(101)]
        for each in sessions:
            await each.on_user_message(UserMessage("one"))
        gc.collect()
        assert [each.last_seen is None for each in sessions] == [True] + [False] * 100
        assert [each.message for each in asking.questions] == ["Really jump?"]
        assert sessions[0].idle
        assert not sessions[0].questions
        assert (await sessions[0].on_user_message(UserMessage("two"))).text == "2: one … two"
        assert sessions[0].last_seen is not None
        assert (await (await asking.answer(response=True)).result()).text == "Done: jump"


async def test_of_long_conversations_fewer_stay_in_memory() -> None:
    async with AgentPlatform([Parrot]) as platform:
        first, second, third = (platform.create_agent_process("Parrot") for _ in range(3))
        conversations = platform.conversations
        for process, messages in ((first, 4_000), (second, 4_000), (first, 4_001), (third, 4_000)):
            conversations.keep(process, messages)
        assert list(conversations.recent) == [first.id, third.id]
        conversations.keep(second, 20_000)
        assert list(conversations.recent) == [second.id]
