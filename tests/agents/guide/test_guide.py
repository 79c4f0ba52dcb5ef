"""The chatbot over the docs: real files, index and conversations; the models are scripted."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio import fail_after

from agents.guide.agent import Guide
from goalport import AgentPlatform
from goalport.base.caller import Caller
from goalport.chat import ChatSession, TurnResult
from goalport.errors import ModelUnavailable
from goalport.events import ActionStarted, Event, MessageDelta
from goalport.models import Models, ModelsSettings, UserMessage
from goalport.testing import ScriptedModel, calls_tool
from tests.providers import Providers

ANNA = Caller("anna")
LAMP = """\
# The lamp

It turns all night.

## Care

Clean the glass every day with vinegar.

## Oil

Use whale oil.
"""


@pytest.fixture
def guide(tmp_path: Path) -> Guide:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "lamp.md").write_text(LAMP)
    return Guide(tmp_path, ("docs",), notes=tmp_path / "notes")


class Heard:
    def __init__(self) -> None:
        self.deltas: list[str] = []
        self.actions: list[str] = []

    def on_event(self, event: Event, /) -> None:
        if isinstance(event, MessageDelta):
            self.deltas.append(event.text)
        if isinstance(event, ActionStarted):
            self.actions.append(event.action.rpartition(".")[2])


@asynccontextmanager
async def talking(
    guide: Guide, model: ScriptedModel | Models | None = None
) -> AsyncGenerator[tuple[ChatSession, Heard]]:
    """A session with the chatbot; without a model, on a machine that has no key."""
    heard = Heard()
    async with AgentPlatform([guide], models=model or Models(environment={})) as platform:
        with fail_after(60):
            yield await platform.chatbots.named("guide").create_session(ANNA, heard), heard


async def say(session: ChatSession, text: str) -> TurnResult:
    result = await session.on_user_message(UserMessage(text))
    assert result.failure == ""
    return result


async def test_without_a_model_it_shows_what_it_finds_and_says_what_a_model_would_add(guide: Guide) -> None:
    async with talking(guide) as (session, _):
        found = await say(session, "How do I clean the glass?")
        nothing = await say(session, "xylophone")
    assert "**docs/lamp.md**: The lamp > Care (characters " in found.text
    assert "> Clean the glass every day with vinegar." in found.text
    assert found.text.endswith("set the key of a provider, such as OPENAI_API_KEY (docs/models.md).")
    assert nothing.text.startswith("I have found nothing about that in the docs.")


async def test_a_model_searches_answers_in_pieces_and_its_citations_are_located(guide: Guide) -> None:
    model = ScriptedModel([
        calls_tool("docs_textSearch", query="oil", topK=1),
        "With vinegar (docs/lamp.md), or with sand (docs/sand.md).",
    ])  # fmt: skip
    async with talking(guide, model) as (session, heard):
        reply = await say(session, "How do I clean the glass?")
    assert reply.text.startswith("With vinegar (docs/lamp.md), or with sand (docs/sand.md).\n\nSources:\n\n")
    start = LAMP.index("Clean")
    assert f"- **docs/lamp.md**: The lamp > Care (characters {start} to {start + 39})" in reply.text
    assert reply.text.endswith("- Not checked, because no passage of it was read: docs/sand.md")
    assert len(heard.deltas) > 2
    assert "".join(heard.deltas) == reply.text
    system = str(model.calls[0].messages[0].content)
    for part in ("decline other subjects", "Your name is Pilot.", "Never make up an answer."):
        assert part in system


@pytest.mark.parametrize("named", ["lamp.md", "docs/lamp.md", "file://{root}/docs/lamp.md"])
async def test_a_document_may_be_cited_by_its_name_its_path_or_its_address(
    guide: Guide, tmp_path: Path, named: str
) -> None:
    async with talking(guide, ScriptedModel([f"Daily ({named.format(root=tmp_path)})."])) as (session, _):
        reply = await say(session, "How often is the glass cleaned?")
    assert "- **docs/lamp.md**: The lamp > Care (characters" in reply.text
    assert "Not checked" not in reply.text


async def test_a_provider_is_asked_over_http_and_its_stream_is_passed_on(guide: Guide, aimock: Providers) -> None:
    aimock.answer({}, content="Every day, with vinegar (docs/lamp.md).")
    models = Models(ModelsSettings(default_llm="openai:gpt-4.1-mini"), environment=aimock.environment)
    async with talking(guide, models) as (session, heard):
        reply = await say(session, "How do I clean the glass?")
    await models.aclose()
    assert reply.text.startswith("Every day, with vinegar (docs/lamp.md).\n\nSources:")
    assert len(heard.deltas) > 1
    assert reply.usage.tokens > 0


async def test_persona_and_objective_are_chosen_by_name(tmp_path: Path, guide: Guide) -> None:
    model = ScriptedModel(["Vinegar."])
    teacher = Guide(tmp_path, ("docs",), persona="teacher", objective="short_answers")
    async with talking(teacher, model) as (session, _):
        await say(session, "How do I clean the glass?")
    system = str(model.calls[0].messages[0].content)
    assert "Your name is Quill." in system
    assert "at most three sentences" in system


async def test_a_model_that_fails_leaves_the_answer_to_the_passages_and_is_asked_again_next_time(guide: Guide) -> None:
    model = ScriptedModel([ModelUnavailable("No."), "Daily (docs/lamp.md)."])
    async with talking(guide, model) as (session, heard):
        first = await say(session, "How do I clean the glass?")
        second = await say(session, "And how often?")
    assert "Clean the glass every day" in first.text
    assert first.text.endswith("The model gave no answer this time, so these are the passages themselves.")
    assert second.text.startswith("Daily (docs/lamp.md).")
    assert heard.actions == ["answer", "show_passages", "answer"]


@pytest.mark.parametrize(
    ("message", "answered_by"),
    [
        ("hello", "greet"),
        ("What can you do?", "greet"),
        ("Hello, which oil is used?", "answer"),
        ("Please walk me through the care of the lamp.", "begin_reading"),
        ("note: say which vinegar", "propose_change"),
        ("next", "answer"),
    ],
)
async def test_what_a_message_asks_for_decides_what_is_worth_most(guide: Guide, message: str, answered_by: str) -> None:
    async with talking(guide, ScriptedModel(["An answer."] * 2)) as (session, heard):
        await say(session, message)
    assert heard.actions == [answered_by]


async def test_a_document_is_read_in_steps_with_questions_in_between(guide: Guide) -> None:
    async with talking(guide) as (session, heard):
        first = await say(session, "walk me through the lamp at night")
        care = await say(session, "next")
        await say(session, "which oil is used?")
        oil = await say(session, "next")
        again = await say(session, "back")
        await say(session, "next")
        over = await say(session, "next")
        afterwards = await say(session, "next")
        await say(session, "read me the oil section")
    assert first.text.startswith("**The lamp** (docs/lamp.md, 1 of 3)\n\nIt turns all night.")
    assert care.text.startswith("**The lamp > Care** (docs/lamp.md, 2 of 3)")
    assert oil.text.startswith("**The lamp > Oil** (docs/lamp.md, 3 of 3)")
    assert again.text == care.text
    assert over.text == "That was docs/lamp.md. Ask on, or read something else with me."
    assert afterwards.text.startswith("I have found nothing")
    assert heard.actions == [
        *("begin_reading", "turn_page", "show_passages", "turn_page", "turn_page", "turn_page", "turn_page"),
        *("show_passages", "begin_reading"),
    ]


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_note_is_written_once_a_person_agrees(guide: Guide, tmp_path: Path, *, agreed: bool) -> None:
    notes = tmp_path / "notes"
    async with talking(guide) as (session, heard):
        asked = await say(session, "note: say which vinegar")
        (question,) = asked.questions
        assert question.message.endswith("It says: say which vinegar")
        assert asked.messages == ()
        assert not notes.exists()
        turn = await session.answer(question.id, agreed)
        answered = await turn.result()
        await say(session, "hello")
    if agreed:
        (note,) = notes.iterdir()
        assert note.read_text() == "From: anna\n\nsay which vinegar\n"
        assert answered.text == f"Your note is written: {note.name}. Thank you."
    else:
        assert answered.text == "I have not written it down."
        assert not notes.exists()
    assert set(heard.actions) == {"propose_change", "greet"}


async def test_the_shipped_guide_answers_from_the_docs_of_goalport() -> None:
    async with talking(Guide()) as (session, _):
        found = await say(session, "coming from CrewAI")
    assert "**docs/migrating.md**: Coming from another library > CrewAI" in found.text
