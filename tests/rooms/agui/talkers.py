"""Chatbots and an agent for tests of front ends, which need no model."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio

from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.models.llm import TextDelta, ThinkingDelta, UserMessage
from goalport.runtime.chat import Conversation, chatbot


@chatbot(description="Thinks aloud, and speaks in pieces")
class Thinker:
    """Its replies are streamed; a person may be made to wait for their end, or see one fail."""

    def __init__(self) -> None:
        self.go_on = anyio.Event()
        """Set when a reply to "wait" may go on."""
        self.begun = 0
        """How many replies it has begun."""

    @action(trigger=UserMessage, can_rerun=True)
    async def think(self, message: UserMessage, conversation: Conversation, context: ActionContext) -> None:
        """Think, then say how often people have spoken."""
        self.begun += 1
        await context.send_message(self._pieces(message.content, len(conversation.entries)))

    async def _pieces(self, said: str, number: int) -> AsyncIterator[TextDelta | ThinkingDelta]:
        yield ThinkingDelta("Hm. ")
        yield ThinkingDelta("Well.")
        yield TextDelta(f"Number {number}: ")
        if "wait" in said:
            await self.go_on.wait()
        if "fail" in said:
            raise ValueError("no words left")
        yield TextDelta(f"you said {said!r}.")


@chatbot(description="Stops when nobody listens", stop_when_reader_leaves=True)
class Shy(Thinker):
    """Its replies end with their reader."""


@dataclass(frozen=True)
class Order:
    """What is ordered."""

    dish: str
    plates: int


@dataclass(frozen=True)
class Agreed:
    """What may be prepared."""

    order: Order


@dataclass(frozen=True)
class Meal:
    """What is served."""

    text: str


@chatbot(description="Takes orders, and asks what it does not know")
class Waiter:
    """It asks for a form, and for a yes, in the middle of an action."""

    @action(trigger=UserMessage, can_rerun=True)
    async def serve(self, message: UserMessage, context: ActionContext) -> None:
        """Serve what is ordered."""
        order = await context.ask("What would you like?", Order)
        if await context.ask(f"{order.plates} x {order.dish}?", bool):
            await context.send_message(f"Here: {order.dish}")
        else:
            await context.send_message("Then not.")


@agent(description="Cooks a meal that is ordered in a sentence")
class Cook:
    """A goal that starts from a sentence."""

    @achieves_goal(description="A meal", export=Export(remote=True, name="cook", starting_input_types=[UserInput]))
    @action
    async def cook(self, order: UserInput, context: ActionContext) -> Meal:
        """Cook it."""
        context.progress("The water boils")
        return Meal(f"A plate of {order.content}")


@agent(description="Prepares what is ordered in a form, once a person agrees")
class Kitchen:
    """A goal that starts from typed input, and asks."""

    @action
    def confirm(self, order: Order) -> WaitFor[Agreed]:
        """Ask whether it may begin."""
        return WaitFor.confirmation(Agreed(order), f"Begin with {order.plates} x {order.dish}?")

    @achieves_goal(description="A meal by form", export=Export(remote=True, name="prepare"))
    @action
    def prepare(self, agreed: Agreed) -> Meal:
        """Prepare it."""
        return Meal(f"{agreed.order.plates} plates of {agreed.order.dish}")
