"""Chatbots for tests, which need no model."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from goalport import ActionContext, Blackboard, achieves_goal, action, condition, cost
from goalport.models.llm import AssistantMessage, UserMessage
from goalport.runtime.chat import Conversation, chatbot


@dataclass(frozen=True)
class Nudge:
    """Something that happens besides messages."""

    about: str


@dataclass(frozen=True)
class Farewell:
    """The end of a conversation."""

    text: str


@chatbot(description="Says again what it is told, and what it was told first")
class Parrot:
    """It remembers by the conversation alone."""

    @action(trigger=UserMessage, can_rerun=True)
    async def repeat(self, message: UserMessage, conversation: Conversation, context: ActionContext) -> None:
        """Say how many messages people have sent, the first of them, and the last."""
        said = [each.text for each in conversation.entries if each.role == "user"]
        await context.send_message(AssistantMessage(f"{len(said)}: {said[0]} … {message.content}"))

    @action(trigger=Nudge, can_rerun=True)
    async def react(self, nudge: Nudge, context: ActionContext) -> None:
        """Say what has happened."""
        await context.send_message(AssistantMessage(f"Oh, {nudge.about}"))


@chatbot(description="Answers cheaply at first, and thoroughly later")
class TwoMinds:
    """Its choice by costs is computed anew for each message."""

    @cost(name="growing")
    def growing(self, blackboard: Blackboard) -> float:
        """The cost of a short answer grows with what was said."""
        return float(sum(isinstance(each, UserMessage) for each in blackboard.objects))

    @action(trigger=UserMessage, can_rerun=True, cost_method="growing")
    async def shortly(self, context: ActionContext) -> None:
        """Answer in a word."""
        await context.send_message(AssistantMessage("Short"))

    @action(trigger=UserMessage, can_rerun=True, cost=2.5)
    async def thoroughly(self, context: ActionContext) -> None:
        """Answer at length."""
        await context.send_message(AssistantMessage("Long"))


class Wave(UserMessage):
    """A kind of message."""


@chatbot(description="Answers what its actions take, without a trigger")
class Plain:
    """Its actions would run again and again if each did so as soon as a message is there."""

    @condition
    def thanked(self, message: UserMessage) -> bool:
        """Whether somebody is grateful."""
        return "thank" in message.content

    @action(can_rerun=True)
    async def answer(self, message: UserMessage, context: ActionContext) -> None:
        """Say it again."""
        await context.send_message(f"You said {message.content}.")

    @action(can_rerun=True, pre=["thanked"], value=0.5)
    async def accept(self, message: UserMessage, context: ActionContext) -> None:
        """Be polite."""
        await context.send_message("You are welcome.")

    @action(can_rerun=True, value=0.9)
    async def wave(self, wave: Wave, context: ActionContext) -> None:
        """Answer one kind of message alone."""
        await context.send_message(f"{wave.content} too!")

    @action(trigger=Nudge, can_rerun=True, value=0.9)
    async def react(self, message: UserMessage, nudge: Nudge, context: ActionContext) -> None:
        """Say what has happened since the last message."""
        await context.send_message(f"After {message.content}: {nudge.about}.")


@chatbot(description="Fails when it is told to, and goes on after that")
class Moody:
    """One turn may fail, and the next one need not."""

    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, message: UserMessage, context: ActionContext) -> None:
        """Answer, or fail."""
        if "fail" in message.content:
            raise ValueError("a bad mood")
        await context.send_message(AssistantMessage("Fine."))


@chatbot(description="Says what it hears, and does not come to an end when it is told to wait")
class Slow:
    """It streams."""

    @action(trigger=UserMessage, can_rerun=True)
    async def echo(self, message: UserMessage, context: ActionContext) -> None:
        """Say the message, piece by piece."""
        await context.send_message(_pieces(message.content))


async def _pieces(text: str) -> AsyncGenerator[str]:
    yield text
    if text == "wait":
        await asyncio.Event().wait()


@chatbot(description="Asks before it does anything, and ends with a goal")
class Careful:
    """It asks people in the middle of an action."""

    @action(trigger=UserMessage, can_rerun=True, cost=0.2)
    async def act(self, message: UserMessage, context: ActionContext) -> None:
        """Do what was said, if that is wanted."""
        if await context.ask(f"Really {message.content}?", bool):
            await context.send_message(AssistantMessage(f"Done: {message.content}"))

    @condition
    def farewell(self, message: UserMessage) -> bool:
        """Whether somebody takes their leave."""
        return "bye" in message.content

    @achieves_goal(description="Say goodbye")
    @action(trigger=UserMessage, pre=["farewell"])
    async def leave(self, message: UserMessage, context: ActionContext) -> Farewell:
        """End the conversation."""
        await context.send_message(AssistantMessage("Bye"))
        return Farewell(message.content)
