"""An action of a chatbot is tested alone, with a conversation that is stored nowhere."""

from goalport.base.events import MessageDelta, MessageSent
from goalport.models.llm import AssistantMessage, UserMessage
from goalport.runtime.chat import Conversation
from goalport.testing import FakeOperationContext
from tests.rooms.chat.talkers import Parrot
from tests.stories.guide.test_chatbots import Plain

SAID = (UserMessage("Rain?"), AssistantMessage("No."), UserMessage("Snow?"))


async def test_a_streamed_reply_is_heard_and_the_model_sees_the_conversation() -> None:
    context = FakeOperationContext(Conversation.of(*SAID))
    context.expect_stream("Not ", "today.")
    await context.perform(Plain().respond)
    assert [each.text for each in context.events if isinstance(each, MessageDelta)] == ["Not ", "today."]
    assert [each.text for each in context.events if isinstance(each, MessageSent)] == ["Not today."]
    assert list(context.llm_invocations[0].messages) == [*SAID]


async def test_what_was_said_before_is_in_its_entries() -> None:
    context = FakeOperationContext(Conversation.of(*SAID), SAID[-1])
    await context.perform(Parrot().repeat)
    assert [each.text for each in context.events if isinstance(each, MessageSent)] == ["2: Rain? … Snow?"]
