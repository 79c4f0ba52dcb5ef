"""Actions that ask in their middle: the message that they react to is theirs, until they are over."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from anyio import fail_after

from goalport import ActionContext, AgentPlatform, action, cost
from goalport.base.caller import Caller
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from goalport.store.sqlite import SqliteProcessStore

ANNA = Caller("anna")


@chatbot(description="Does what it is told, when it is told twice")
class Deliberate:
    """What is worth most changes from one plan to the next."""

    plans = 0

    @cost
    def rising(self) -> float:
        Deliberate.plans += 1
        return float(Deliberate.plans)

    @action(trigger=UserMessage, can_rerun=True, cost_method="rising")
    async def act(self, message: UserMessage, context: ActionContext) -> None:
        if await context.ask(f"Really {message.content}?", bool):
            await context.send_message(f"Done: {message.content}")

    @action(trigger=UserMessage, can_rerun=True, cost=1.5)
    async def chat(self, message: UserMessage, context: ActionContext) -> None:
        await context.send_message(f"You said {message.content}")


@chatbot(description="Tries a good answer before a bad one")
class Resourceful:
    @action(trigger=UserMessage, can_rerun=True, cost=0.1)
    async def well(self, message: UserMessage) -> None:
        if "hard" in message.content:
            raise ValueError("too hard")

    @action(trigger=UserMessage, can_rerun=True, cost=0.2)
    async def badly(self, context: ActionContext) -> None:
        await context.send_message("Somehow.")


async def test_a_message_about_which_an_action_asks_is_answered_by_no_other() -> None:
    Deliberate.plans = 0
    async with AgentPlatform([Deliberate]) as platform:
        session = await platform.chatbots["Deliberate"].create_session(ANNA)
        asked = await session.on_user_message(UserMessage("paint it"))
        assert [each.message for each in asked.questions] == ["Really paint it?"]
        assert asked.messages == ()
        turn = await session.answer(asked.questions[0].id, response=True)
        assert (await turn.result()).text == "Done: paint it"
        assert [each.role for each in session.conversation.entries] == ["user", "assistant"]


async def test_an_action_goes_on_with_its_own_message_though_another_was_answered_meanwhile(tmp_path: Path) -> None:
    Deliberate.plans = 0
    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        async with AgentPlatform([Deliberate], store=store) as platform:
            session = await platform.chatbots["Deliberate"].create_session(ANNA)
            asked = await session.on_user_message(UserMessage("paint it"))
            meanwhile = await session.on_user_message(UserMessage("nice weather"))
            assert meanwhile.text == "You said nice weather"
            assert [each.id for each in meanwhile.questions] == [asked.questions[0].id]
        async with AgentPlatform([Deliberate], store=store) as later:
            again = await later.chatbots["Deliberate"].find_session(session.conversation.id, ANNA)
            assert again is not None
            turn = await again.answer(asked.questions[0].id, response=True)
            assert (await turn.result()).text == "Done: paint it"
            assert (await again.on_user_message(UserMessage("thanks"))).text == "You said thanks"


async def test_what_another_action_answers_in_place_of_one_that_failed_is_no_failure() -> None:
    async with AgentPlatform([Resourceful]) as platform:
        session = await platform.chatbots["Resourceful"].create_session(ANNA)
        result = await session.on_user_message(UserMessage("a hard question"))
        assert (result.text, result.failure) == ("Somehow.", "")
        easy = await session.on_user_message(UserMessage("an easy one"))
        assert easy.messages == (), "what failed in one turn may be done in the next"


@chatbot(description="Thinks for long about what to do")
@dataclass
class Thinker:
    """Its costs are computed by something slow."""

    thinks: asyncio.Event = field(default_factory=asyncio.Event)
    known: asyncio.Event = field(default_factory=asyncio.Event)
    plans: int = 0

    @cost
    async def slowly(self) -> float:
        self.plans += 1
        if self.plans > 4:
            self.thinks.set()
            await self.known.wait()
        return 1.0 if self.plans == 1 else 3.0

    @action(trigger=UserMessage, can_rerun=True, cost_method="slowly")
    async def act(self, message: UserMessage, context: ActionContext) -> None:
        if await context.ask(f"Really {message.content}?", bool):
            await context.send_message(f"Done: {message.content}")

    @action(trigger=UserMessage, can_rerun=True, cost=2.0)
    async def chat(self, message: UserMessage, context: ActionContext) -> None:
        await context.send_message(f"You said {message.content}")


async def test_an_answer_that_comes_while_costs_are_computed_is_heeded() -> None:
    thinker = Thinker()
    async with AgentPlatform([thinker]) as platform:
        session = await platform.chatbots["Thinker"].create_session(ANNA)
        asked = await session.on_user_message(UserMessage("paint it"))
        thinker.plans = 3  # what comes next is planned at once, and what follows from it is not
        with fail_after(30):
            await session.begin_turn(UserMessage("nice weather"))
            await thinker.thinks.wait()
            turn = await session.answer(asked.questions[0].id, response=True)
            thinker.known.set()
            await turn.result()
        assert [each.text for each in session.conversation.entries if each.role == "assistant"] == [
            "You said nice weather",
            "Done: paint it",
        ]
