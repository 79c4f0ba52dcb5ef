"""A chatbot without answers of its own: what a message asks for is done by the agent that fits it best.

Below: autonomy, which chooses, and conversations. Above: the platform, which has it if the settings say so, and
`goalport chat`, which has it where there is no other chatbot.
"""

from dataclasses import replace

from goalport.agents.domain import Agent, Goal, UserInput, action, read_agent
from goalport.base.errors import NothingChosen
from goalport.base.words import in_json
from goalport.models.llm import UserMessage
from goalport.runtime.autonomy import Autonomy, start_objects
from goalport.runtime.chat import Conversation, chatbot
from goalport.runtime.process import SERVICE_TYPES, ActionContext


@chatbot(description="Does what a message asks for, with whichever agent fits it best")
class ChoosingChatbot:
    """Answers a message with the result of the agent that was chosen for it."""

    def __init__(self, autonomy: Autonomy, *, open_mode: bool, published: bool) -> None:
        self._autonomy, self._open_mode, self._published = autonomy, open_mode, published

    @action(trigger=UserMessage, can_rerun=True, cost=1e8)  # actions that answer messages go first
    async def choose(self, message: UserMessage, conversation: Conversation, context: ActionContext) -> None:
        """Run what fits the message best, and send its result."""
        said, before = UserInput(message.content), conversation.messages[:-1]
        choose = self._autonomy.choose_goal if self._open_mode else self._autonomy.choose_agent
        try:
            choice = await choose(said, among=self._goals(context), conversation=before, ai=context.ai)
        except NothingChosen as nothing:
            await context.send_message(str(nothing))
            return
        context.progress(choice.why)
        platform, goals = self._autonomy.platform, choice.agent.goals
        inputs = await start_objects(platform, goals, said, context.ai, context.ask)
        result = await context.as_sub_process(object, choice.agent, *inputs)
        content = getattr(result, "content", result)
        await context.send_message(
            "Done." if result is None else content if isinstance(content, str) else in_json(result)
        )

    def _goals(self, context: ActionContext) -> list[Goal]:
        """The goals that the caller may start: those of a server only if they are published."""
        platform = self._autonomy.platform
        goals = (goal for each in platform.agents if each.chat is None for goal in each.goals)
        started = (each for each in goals if platform.may_start(context.caller, each))
        return [each for each in started if each.export.remote or not self._published]


def choosing_chatbot(name: str, autonomy: Autonomy, *, open_mode: bool, published: bool) -> Agent:
    """The agent of a chatbot that gives a message to the agent that fits best, if no action reacts to it.

    `open_mode` is that of autonomy. `published`: only goals that are published are chosen.
    """
    own = read_agent(ChoosingChatbot(autonomy, open_mode=open_mode, published=published), SERVICE_TYPES)
    return replace(own, name=name, open=True, source="")
