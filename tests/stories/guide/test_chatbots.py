"""Chatbots (sections 3.12.11 to 3.12.17): actions that react to messages, chosen by what they are worth."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goalport import ActionContext, AgentPlatform, Blackboard, State, achieves_goal, action, component, cost
from goalport.base.caller import Caller
from goalport.chat import AgentProcessChatbot, ChatSession, Conversation, chatbot
from goalport.errors import ConversationEnded
from goalport.events import Event, MessageDelta, MessageSent
from goalport.knowledge import DocumentIngestion, SqliteDocumentStore, ToolishRag
from goalport.models import AssistantMessage, Image, SystemMessage, Templates, UserMessage
from goalport.runtime import Verbosity
from goalport.testing import ScriptedModel, calls_tool

CLAUSE = Caller("clause")
PIXEL = Image("image/png", b"\x89PNG\r\n\x1a\n")
TEMPLATES: Mapping[str, str] = {
    "ragbot": '{% include "elements/guardrails.jinja" %}\n\n{% include "elements/personalization.jinja" %}',
    "elements/guardrails": "{# For all. #}\nDO NOT DISCUSS POLITICS OR CONTROVERSIAL TOPICS.",
    "elements/personalization": """\
{% set persona_template = "personas/" ~ properties.persona ~ ".jinja" %}
{% include persona_template %}

{% set objective_template = "objectives/" ~ properties.objective ~ ".jinja" %}
{% include objective_template %}""",
    "personas/clause": "Your name is Clause.\nYou are a brilliant legal chatbot.",
    "objectives/legal": "You answer questions definitively.\nNEVER FABRICATE ANSWERS.",
}


@dataclass
class Channel:
    """The output channel: it hears what happens in the turns of a session."""

    events: list[Event] = field(default_factory=list[Event])

    def on_event(self, event: Event, /) -> None:
        self.events.append(event)

    @property
    def messages(self) -> list[str]:
        return [each.text for each in self.events if isinstance(each, MessageSent)]


@dataclass(frozen=True)
class Properties:
    """What the guide's `RagbotProperties` hold."""

    persona: str = "clause"
    objective: str = "legal"
    chat_llm: str = "scripted"


@component
class ChatActions:
    """Section 3.12.13: an action that answers each message from sources, with the template of 3.12.16."""

    def __init__(self, search_operations: SqliteDocumentStore, properties: Properties) -> None:
        self.toolish_rag = ToolishRag("sources", "Sources for answering user questions", search_operations)
        self.properties = properties

    @action(can_rerun=True, trigger=UserMessage)
    async def respond(self, conversation: Conversation, context: ActionContext) -> None:
        assistant_message = await (
            context.ai.with_llm(self.properties.chat_llm)
            .with_reference(self.toolish_rag)
            .with_template("ragbot")
            .respond_with_system_prompt(conversation, {"properties": self.properties})
        )
        await context.send_message(conversation.add_message(assistant_message))


@pytest.fixture
def templates(tmp_path: Path) -> Templates:
    for name, text in TEMPLATES.items():
        file = tmp_path / "prompts" / f"{name}.jinja"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Templates(tmp_path / "prompts")


@pytest.fixture
async def law(tmp_path: Path) -> SqliteDocumentStore:
    (tmp_path / "taxes.md").write_text("# Taxes\n\nThey are due in May.\n")
    store = SqliteDocumentStore()
    async with DocumentIngestion(store) as ingestion:
        await ingestion.ingest(tmp_path / "taxes.md")
    return store


async def ask(session: ChatSession, *texts: str) -> list[str]:
    """The replies to some messages, one after the other, none of which fails."""
    results = [await session.on_user_message(UserMessage(each)) for each in texts]
    assert not any(each.failure for each in results)
    return [each.text for each in results]


async def test_a_chatbot_of_the_whole_platform_answers_from_sources_by_a_template(
    law: SqliteDocumentStore, templates: Templates, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel([
        calls_tool("sources_textSearch", query="taxes due", topK=2),
        "In May (Taxes).",
        "You asked about taxes.",
    ])  # fmt: skip
    platform = AgentPlatform([ChatActions(law, Properties())], models=model, templates=templates)
    chatbot = AgentProcessChatbot.utility_from_platform(platform, Verbosity(show_prompts=True))
    channel = Channel()
    session = await chatbot.create_session(CLAUSE, channel)
    with caplog.at_level(logging.INFO, logger="goalport.process"):
        await ask(session, "What does this document say about taxes?", "What did I ask?")

    assert channel.messages == ["In May (Taxes).", "You asked about taxes."]
    assert [each.role for each in session.conversation.entries] == ["user", "assistant", "user", "assistant"]
    system, *said = model.calls[-1].messages
    assert isinstance(system, SystemMessage)
    for instruction in ("POLITICS", "Your name is Clause.", "NEVER FABRICATE"):
        assert instruction in system.content
    assert [each.content for each in said] == [
        "What does this document say about taxes?",
        "In May (Taxes).",
        "What did I ask?",
    ]
    assert "They are due in May." in str(model.calls[1].messages[-1].content)
    for shown in ("What did I ask?", "POLITICS", "Your name is Clause.", "They are due in May."):
        assert caplog.text.count(shown) == 1
    assert "sources_textSearch" in caplog.text
    assert "(as before: system prompt, tools, 1 message)" in caplog.text


async def test_a_session_is_found_again_by_the_id_of_its_conversation(
    law: SqliteDocumentStore, templates: Templates
) -> None:
    platform = AgentPlatform(
        [ChatActions(law, Properties())], models=ScriptedModel(["Hello.", "Again."]), templates=templates
    )
    chatbot = AgentProcessChatbot.utility_from_platform(platform)
    session = await chatbot.create_session(CLAUSE)
    await ask(session, "Good day")
    again = await chatbot.find_session(session.conversation.id, CLAUSE)
    assert again is not None
    assert again.process_id == session.process_id != ""
    assert again.conversation.last_message_if_from_user() is None
    await ask(again, "Good night")
    assert [each.text for each in again.conversation.entries] == ["Good day", "Hello.", "Good night", "Again."]
    assert await chatbot.find_session(session.conversation.id, Caller("somebody else")) is None


@chatbot(description="Answers thoroughly until it has heard a lot")
class Dynamic:
    """Section 3.12.15: a cost that depends on what is on the blackboard."""

    @cost
    def dynamic(self, blackboard: Blackboard) -> float:
        return 100 if len(blackboard.objects) > 5 else 10

    @action(can_rerun=True, trigger=UserMessage, cost_method="dynamic")
    async def respond(self, context: ActionContext) -> None:
        await context.send_message("At length.")

    @action(can_rerun=True, trigger=UserMessage, cost=50)
    async def sum_up(self, context: ActionContext) -> None:
        await context.send_message("In short.")


async def test_a_cost_is_computed_for_each_message_from_the_blackboard() -> None:
    session = await AgentPlatform([Dynamic]).chatbots.named("Dynamic").create_session(CLAUSE)
    replies = await ask(session, *"abcdefgh")
    assert replies[0] == "At length."
    assert replies[-1] == "In short."
    assert sorted(replies) == replies, "the choice changes once, when there is much on the blackboard"


@dataclass(frozen=True)
class DocumentArrived:
    """Something that happens while nobody says anything."""

    name: str


@chatbot(description="Reacts to messages and to documents")
class Reactive:
    """Section 3.12.14: actions may be triggered by other types than messages."""

    @action(can_rerun=True, trigger=UserMessage)
    async def respond(self, message: UserMessage, context: ActionContext) -> None:
        await context.send_message(f"You said {message.content}.")

    @action(can_rerun=True, trigger=DocumentArrived)
    async def announce(self, document: DocumentArrived, context: ActionContext) -> None:
        await context.send_message(f"{document.name} is here.")


async def test_another_event_triggers_its_own_action_alone() -> None:
    channel = Channel()
    session = await AgentPlatform([Reactive]).chatbots.named("Reactive").create_session(CLAUSE, channel)
    await session.on_user_message(UserMessage("hello"))
    await session.trigger(DocumentArrived("taxes.md"))
    await session.trigger(DocumentArrived("laws.md"))
    assert channel.messages == ["You said hello.", "taxes.md is here.", "laws.md is here."]
    assert [each.role for each in session.conversation.entries] == ["user", "assistant", "assistant", "assistant"]


@chatbot(description="Answers with a short prompt")
class Plain:
    """Section 3.12.16: a simple prompt in the code, and messages as they are; here streamed."""

    @action(can_rerun=True, trigger=UserMessage)
    async def respond(self, conversation: Conversation, context: ActionContext) -> None:
        ai = context.ai.with_system_prompt("You are a helpful assistant. Answer questions concisely.")
        await context.send_message(ai.streaming().respond(conversation.messages))


async def test_a_reply_is_heard_while_the_model_writes_it() -> None:
    channel, model = Channel(), ScriptedModel(["To be brief: yes."])
    session = await AgentPlatform([Plain], models=model).chatbots.named("Plain").create_session(CLAUSE, channel)
    await ask(session, "May I?")
    deltas = [each for each in channel.events if isinstance(each, MessageDelta)]
    assert len(deltas) > 1
    assert "".join(each.text for each in deltas) == "To be brief: yes."
    (sent,) = [each for each in channel.events if isinstance(each, MessageSent)]
    assert {each.message_id for each in deltas} == {sent.message_id}
    assert session.conversation.entries[-1].id == sent.message_id
    assert "concisely" in str(model.calls[0].messages[0].content)


async def test_a_model_sees_the_images_of_a_message_in_later_turns_too() -> None:
    model = ScriptedModel(["A dot.", "It was white."])
    session = await AgentPlatform([Plain], models=model).chatbots.named("Plain").create_session(CLAUSE)
    await session.on_user_message(UserMessage("What is this?", images=(PIXEL,)))
    await ask(session, "Which colour?")
    first = next(each for each in model.calls[-1].messages if isinstance(each, UserMessage))
    assert first.images == (PIXEL,)
    assert session.conversation.entries[0].message == UserMessage("What is this?", images=(PIXEL,))


async def test_a_system_message_of_the_session_holds_for_all_its_turns() -> None:
    model = ScriptedModel(["Aye.", "Aye."])
    chatbot = AgentPlatform([Plain], models=model).chatbots.named("Plain")
    session = await chatbot.create_session(CLAUSE, system_message="Speak as a sailor.")
    await ask(session, "Ready?", "Still?")
    for call in model.calls:
        assert "Speak as a sailor." in [each.content for each in call.messages if isinstance(each, SystemMessage)][-1]


class Phase(State): ...


@dataclass(frozen=True)
class Booked:
    """What the conversation was for."""

    city: str
    nights: int


class AskingNights(Phase):
    """The city is known."""

    city: str

    @action(can_rerun=True, trigger=UserMessage, value=0.9)
    async def take_nights(self, message: UserMessage, context: ActionContext) -> "Confirming | AskingNights":
        if not message.content.isdigit():
            await context.send_message("How many nights, in digits?")
            return self
        await context.send_message(f"{message.content} nights in {self.city}?")
        return Confirming(city=self.city, nights=int(message.content))


class Confirming(Phase):
    """All is known, and somebody has to say yes."""

    city: str
    nights: int

    @achieves_goal(description="Book a journey")
    @action(trigger=UserMessage, value=0.9)
    async def book(self, context: ActionContext) -> Booked:
        await context.send_message("Booked. Goodbye.")
        return Booked(self.city, self.nights)


@chatbot(description="Books journeys")
class Booking:
    """Section 3.12.17 and the goals of 3.12.11: states that last from message to message, and a goal at the end."""

    @action(trigger=UserMessage)
    async def begin(self, message: UserMessage, context: ActionContext) -> AskingNights:
        await context.send_message(f"To {message.content}, for how many nights?")
        return AskingNights(city=message.content)


async def test_states_last_from_message_to_message_and_a_goal_ends_the_conversation() -> None:
    platform = AgentPlatform([Booking])
    session = await platform.chatbots.named("Booking").create_session(CLAUSE)
    assert await ask(session, "Oslo", "a few", "3") == [
        "To Oslo, for how many nights?",
        "How many nights, in digits?",
        "3 nights in Oslo?",
    ]
    assert not session.is_finished()
    last = await session.on_user_message(UserMessage("yes"))
    assert last.text == "Booked. Goodbye."
    assert last.finished
    assert session.is_finished()
    process = await platform.process(session.process_id)
    assert process.result_of_type(Booked) == Booked("Oslo", 3)
    with pytest.raises(ConversationEnded):
        await session.on_user_message(UserMessage("And back?"))


@chatbot(description="Has two answers of equal type")
class Levels:
    """The actions of a message compete by value less cost, and only one of them answers."""

    @action(can_rerun=True, trigger=UserMessage, value=0.9, cost=0.5)
    async def dear(self, context: ActionContext) -> None:
        await context.send_message("dear")

    @action(can_rerun=True, trigger=UserMessage, value=0.7, cost=0.1)
    async def worthwhile(self, context: ActionContext) -> None:
        await context.send_message(AssistantMessage("worthwhile"))


async def test_the_greatest_value_less_cost_answers_alone() -> None:
    session = await AgentPlatform([Levels]).chatbots.named("Levels").create_session(CLAUSE)
    assert await ask(session, "one", "two") == ["worthwhile", "worthwhile"]
