"""Chatbots: agents that people talk to, and their sessions.

Below: sessions and conversations, and the agents that are deployed. Above: the platform, which has the chatbots by
name, and the doors. (User guide, sections 3.12.12 and 3.12.13.)
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256

from goalport.agents.domain import Agent, ChatbotMark, PlannerType
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import BadInput, UnknownName
from goalport.base.events import EventListener
from goalport.runtime.chat.conversation import Conversation
from goalport.runtime.chat.session import ChatSession, Platform
from goalport.runtime.process import AgentProcess, Budget, Verbosity


class AgentProcessChatbot:
    """A chatbot whose conversations are processes of an agent: each message is an object to which actions react."""

    def __init__(self, platform: Platform, agent: str, *, verbosity: Verbosity | None = None) -> None:
        """`agent` is the name of a deployed agent. `verbosity`: what of its turns is written to the log."""
        self.platform, self.name, self._verbosity = platform, agent, verbosity

    @classmethod
    def utility_from_platform(
        cls, platform: Platform, verbosity: Verbosity | None = None, *, name: str = "chatbot", description: str = ""
    ) -> "AgentProcessChatbot":
        """A chatbot that answers with whichever action of the platform is worth most.

        These are the actions of all components and of the agents that are not opaque, also of those that are deployed
        later. `name` is that of the agent that is deployed for it. Raises `DeploymentError` if there is one of that
        name that is no such chatbot.
        """
        found = next((each for each in platform.agents if each.name == name and each.open), None)
        if found is None:
            platform.deploy(open_chatbot(name, description))
        return cls(platform, name, verbosity=verbosity)

    @property
    def agent(self) -> Agent:
        """The agent. Raises `UnknownName` if it is not deployed any more."""
        return self.platform.agents.named(self.name)

    @property
    def description(self) -> str:
        """What it is for, for people and models."""
        return self.agent.description

    @property
    def mark(self) -> ChatbotMark:
        """How people talk to it."""
        return self.agent.chat or ChatbotMark()

    async def create_session(
        self,
        caller: Caller = ANONYMOUS,
        channel: EventListener | None = None,
        *,
        system_message: str = "",
        conversation_id: str = "",
        context_id: str = "",
    ) -> ChatSession:
        """Begin a conversation of a caller, or go on with the one of that id, if it is theirs.

        `channel` receives the events of turns. `system_message` are instructions for the model, for a new conversation.
        `context_id`: the caller's context with whose objects a new conversation begins; empty: that of the chatbot,
        if any.
        Raises `BadInput` if there is a conversation of that id that is not theirs, or if none can have that id, and
        `StoreError`.
        """
        if conversation_id and (found := await self.find_session(conversation_id, caller, channel)) is not None:
            return found
        conversation = await self.platform.conversations.create(
            self.name, caller, conversation_id=conversation_id, context_id=context_id or self.mark.context_id
        )
        session = ChatSession(self, conversation, caller, channel, self.platform, self._new_process)
        if system_message:
            await session.instruct(system_message)
        return session

    async def find_session(
        self, conversation_id: str, caller: Caller = ANONYMOUS, channel: EventListener | None = None
    ) -> ChatSession | None:
        """The session of a conversation of this chatbot; None if there is none, or it is somebody else's.

        Raises `StoreError`.
        """
        conversation = await self.platform.conversations.find(conversation_id, caller)
        if conversation is None or conversation.chatbot != self.name:
            return None
        session = ChatSession(self, conversation, caller, channel, self.platform, self._new_process)
        await session.look_up()
        return session

    async def open_thread(self, thread: str, caller: Caller, *, system_message: str = "") -> ChatSession:
        """The session of the caller's conversation that a client calls `thread`; of a new one, if there is none.

        A new one has an id made of the caller and the thread, whatever ids others have, so that nobody learns which
        ids are taken; only that of the anonymous caller is called `thread`, where it can be. Raises `StoreError`.
        """
        if (found := await self.find_thread(thread, caller)) is not None:
            return found
        own = self._own_id(thread, caller)
        try:
            named = thread if caller.same_as(ANONYMOUS) else own
            return await self.create_session(caller, conversation_id=named, system_message=system_message)
        except BadInput:  # a request at the same time has begun it, or the anonymous caller cannot have it
            found = await self.find_thread(thread, caller)
            return found or await self.create_session(caller, conversation_id=own, system_message=system_message)

    async def find_thread(self, thread: str, caller: Caller) -> ChatSession | None:
        """The session that `open_thread` opens, if its conversation is there already. Raises `StoreError`."""
        found = await self.find_session(thread, caller)
        return found or await self.find_session(self._own_id(thread, caller), caller)

    def _own_id(self, thread: str, caller: Caller) -> str:
        return sha256("\n".join([*caller.identity, self.name, thread]).encode()).hexdigest()

    def _new_process(self, conversation: Conversation, caller: Caller) -> AgentProcess:
        """A process for a conversation, which has not begun. It is that of the owner, also where an admin speaks."""
        mark, given = self.mark, self.platform.options
        budget = Budget(actions=mark.max_actions_per_turn, cost=mark.max_cost_per_turn, tokens=mark.max_tokens_per_turn)
        options = given.with_(
            turns=True,
            budget=budget,
            deadline=mark.seconds_per_turn,
            context_id=conversation.context_id,
            context_scope=mark.context_scope if conversation.context_id == mark.context_id else "",
            keep_events=True,
            planner=PlannerType.UTILITY,
            verbosity=self._verbosity or given.verbosity,
        )
        owner = caller if caller.same_as(conversation.caller) else conversation.caller
        return self.platform.create_agent_process(self.name, options=options, caller=owner)


class Chatbots(Mapping[str, AgentProcessChatbot]):
    """The chatbots of a platform by name, as they are now."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def __iter__(self) -> Iterator[str]:
        return (each.name for each in self._platform.agents if each.chat is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> AgentProcessChatbot:
        if name not in tuple(self):
            raise KeyError(name)
        return AgentProcessChatbot(self._platform, name)

    def named(self, name: str) -> AgentProcessChatbot:
        """The chatbot of that name. Raises `UnknownName`, which says what there is."""
        if name not in self:
            raise UnknownName("chatbot", name, tuple(self))
        return self[name]


def open_chatbot(name: str, description: str = "") -> Agent:
    """The agent of a chatbot that uses the actions of all others."""
    return Agent(
        name,
        description or "Answers with whichever action of this server fits best.",
        planner=PlannerType.UTILITY,
        chat=ChatbotMark(),
        open=True,
    )
