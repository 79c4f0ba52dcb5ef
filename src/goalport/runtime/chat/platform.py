"""What chatbots need of the platform, which is above them."""

from collections.abc import Iterator
from typing import Protocol

from goalport.agents.domain import Agent
from goalport.base.caller import ANONYMOUS, Caller
from goalport.models.llm import Models
from goalport.runtime.ai import Ai
from goalport.runtime.chat.conversations import Conversations
from goalport.runtime.process import AgentProcess, ContextRepository, ProcessOptions


class DeployedAgents(Protocol):
    """What is deployed on a platform."""

    def __iter__(self) -> Iterator[Agent]: ...

    def named(self, name: str, /) -> Agent:
        """The agent of a name. Raises `UnknownName`."""
        ...


class Recovery(Protocol):
    """What goes on with the processes of programs that ended."""

    async def recover(self, process: AgentProcess, /) -> None:
        """Go on with a process whose program ended in the middle of its work; not if another program runs it."""
        ...


class Platform(Protocol):
    """What chatbots need of a platform; `AgentPlatform` has it."""

    @property
    def agents(self) -> DeployedAgents:
        """The deployed agents."""
        ...

    @property
    def options(self) -> ProcessOptions:
        """The options of runs that are given none."""
        ...

    @property
    def conversations(self) -> Conversations:
        """The stored conversations."""
        ...

    @property
    def processes(self) -> Recovery:
        """The processes that it runs."""
        ...

    @property
    def contexts(self) -> ContextRepository:
        """The stores of objects that outlive processes."""
        ...

    @property
    def models(self) -> Models:
        """The models."""
        ...

    @property
    def ai(self) -> Ai:
        """Access to models outside of actions."""
        ...

    def deploy(self, agent: object, /) -> Agent:
        """Deploy an agent."""
        ...

    def create_agent_process(
        self, agent: str | Agent, /, *, options: ProcessOptions | None = None, caller: Caller = ANONYMOUS
    ) -> AgentProcess:
        """A process that has not begun."""
        ...

    async def process(self, process_id: str, /) -> AgentProcess:
        """The process of an id."""
        ...

    async def tell(
        self, process: str | AgentProcess, /, *objects: object, caller: Caller | None = None
    ) -> AgentProcess:
        """Begin a turn of a process with more objects."""
        ...

    async def stop_turn(self, process_id: str, reason: str, /) -> None:
        """Stop the turn of a process, whoever runs it."""
        ...

    async def answer(
        self, process_id: str, question_id: str | None = None, response: object = None, *, declined: str = ""
    ) -> AgentProcess:
        """Answer a question of a process."""
        ...
