"""Titles that conversations get, and what conversations of one context share."""

import logging
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalport import ActionContext, AgentPlatform, action
from goalport.base.caller import Caller
from goalport.models.llm import AssistantMessage, UserMessage
from goalport.runtime.chat import FrontEnd, chatbot
from goalport.runtime.process import Context
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel
from tests.rooms.chat.talkers import Parrot

ANNA = Caller("anna")


@dataclass(frozen=True)
class Fact:
    """What a project knows."""

    text: str


@chatbot(description="Learns facts and shares them")
class Learner:
    """What it is told is known to all conversations of the context."""

    @action(trigger=UserMessage, can_rerun=True)
    async def learn(self, message: UserMessage, context: ActionContext) -> None:
        """Keep a fact, and say all that is known."""
        context.add(Fact(message.content))
        known = [each.text for each in context.blackboard.objects if isinstance(each, Fact)]
        await context.send_message(AssistantMessage(", ".join(known)))


async def test_a_conversation_is_called_by_its_first_words() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await platform.chatbots["Parrot"].create_session(ANNA)
        assert not session.conversation.title
        await session.on_user_message(UserMessage("What  is\nthe weather like in the north of the country this year?"))
        assert session.conversation.title == "What is the weather like in the north of the country this ye…"
        await session.on_user_message(UserMessage("And in the south?"))
        assert session.conversation.title.startswith("What is the weather")


async def test_a_title_that_a_person_gave_stays() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await platform.chatbots["Parrot"].create_session(ANNA)
        await platform.conversations.rename(session.conversation.id, ANNA, "Mine")
        await session.on_user_message(UserMessage("one"))
        (listed,) = await platform.conversations.list(ANNA)
        assert listed.title == session.conversation.title == "Mine"


async def test_what_a_project_knows_is_there_at_the_start_and_saved_after_each_turn() -> None:
    async with AgentPlatform([Learner]) as platform:
        context = Context("house", ANNA)
        context.add(Fact("old"))
        await platform.contexts.save(context)
        learner = platform.chatbots["Learner"]
        first = await learner.create_session(ANNA, context_id="house")
        assert (await first.on_user_message(UserMessage("red"))).text == "old, red"
        second = await learner.create_session(ANNA, context_id="house")
        assert (await second.on_user_message(UserMessage("blue"))).text == "old, red, blue"
        assert (await first.on_user_message(UserMessage("green"))).text == "old, red, green"
        saved = await platform.contexts.find("house", ANNA)
        assert saved is not None
        assert [each.text for each in saved.objects if isinstance(each, Fact)] == ["old", "red", "blue", "green"]


@chatbot(description="Learns facts for all of a household", context_id="house", context_scope="house:notes")
class Household(Learner):
    pass


async def test_the_context_of_a_chatbot_is_shared_by_those_who_have_its_scope() -> None:
    anna, bo = (Caller(name, scopes=frozenset({"house:notes"})) for name in ("anna", "bo"))
    async with AgentPlatform([Household], models=ScriptedModel([])) as platform:
        for caller, known in ((anna, "red"), (Caller("cy"), "blue"), (bo, "red, green"), (Caller("cy"), "old")):
            session = await platform.chatbots["Household"].create_session(caller)
            assert (await session.on_user_message(UserMessage(known.split(", ")[-1]))).text == known
        assert await platform.contexts.find("house", ANNA) is None


@chatbot(description="Remembers for each caller", context_id="mine")
class Personal(Learner):
    pass


async def test_the_context_of_a_chatbot_that_names_no_scope_is_each_callers_own() -> None:
    async with AgentPlatform([Personal], models=ScriptedModel([])) as platform:
        for caller, known in ((ANNA, "red"), (Caller("bo"), "blue"), (ANNA, "red, green")):
            session = await platform.chatbots["Personal"].create_session(caller)
            assert (await session.on_user_message(UserMessage(known.split(", ")[-1]))).text == known


@dataclass(eq=False)
class Column:
    """It compares element by element, as tables do."""

    values: list[int]

    def __eq__(self, other: object) -> bool:
        raise ValueError("The truth of a column is not known.")

    def __hash__(self) -> int:
        return len(self.values)


class Handle:
    """Something that no store can write."""


@chatbot(description="Knows what cannot all be kept")
class Hoarder:
    @action(trigger=UserMessage, can_rerun=True)
    async def hoard(self, message: UserMessage, context: ActionContext) -> None:
        for each in (Handle(), Column([len(message.content)]), Fact(message.content)):
            context.add(each)
        await context.send_message("Kept.")


async def test_what_can_be_stored_is_shared_though_other_things_cannot(tmp_path: Path) -> None:
    async with (
        SqliteProcessStore(tmp_path / "processes.db") as store,
        AgentPlatform([Hoarder], store=store) as platform,
    ):
        session = await platform.chatbots["Hoarder"].create_session(ANNA, context_id="attic")
        for text in ("red", "blue"):
            assert (await session.on_user_message(UserMessage(text))).failure == ""
        saved = await platform.contexts.find("attic", ANNA)
        assert saved is not None
        assert [each.text for each in saved.objects if isinstance(each, Fact)] == ["red", "blue"]
        assert not any(isinstance(each, Handle) for each in saved.objects)


async def test_what_a_front_end_told_in_one_conversation_is_not_shared() -> None:
    told = FrontEnd(context=(("Who is there", "anna@example.com"),))
    async with AgentPlatform([Learner], models=ScriptedModel([])) as platform:
        session = await platform.chatbots["Learner"].create_session(ANNA, context_id="house")
        await (await session.begin_turn(UserMessage("red"), context=[told])).result()
        saved = await platform.contexts.find("house", ANNA)
        assert saved is not None
        assert list(saved.objects) == [Fact("red")]


async def test_the_first_conversation_of_a_context_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with AgentPlatform([Learner], models=ScriptedModel([])) as platform:
        session = await platform.chatbots["Learner"].create_session(ANNA, context_id="house")
        assert (await session.on_user_message(UserMessage("red"))).text == "red"
    assert not [each.message for each in caplog.records if each.levelno >= logging.WARNING]


async def test_conversations_without_a_context_share_nothing() -> None:
    async with AgentPlatform([Learner], models=ScriptedModel([])) as platform:
        for text in ("red", "blue"):
            session = await platform.chatbots["Learner"].create_session(ANNA)
            assert (await session.on_user_message(UserMessage(text))).text == text
