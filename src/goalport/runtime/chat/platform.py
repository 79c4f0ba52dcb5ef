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
    def named(self, name: str, /) -> Agent: ...


class Recovery(Protocol):
    """What goes on with the processes of programs that ended."""

    async def recover(self, process: AgentProcess, /) -> None: ...


class Platform(Protocol):
    """What chatbots need of a platform; `AgentPlatform` has it."""

    @property
    def agents(self) -> DeployedAgents: ...
    @property
    def options(self) -> ProcessOptions: ...
    @property
    def conversations(self) -> Conversations: ...
    @property
    def processes(self) -> Recovery: ...
    @property
    def contexts(self) -> ContextRepository: ...
    @property
    def models(self) -> Models: ...
    @property
    def ai(self) -> Ai: ...
    def deploy(self, agent: object, /) -> Agent: ...
    def create_agent_process(
        self, agent: str | Agent, /, *, options: ProcessOptions | None = None, caller: Caller = ANONYMOUS
    ) -> AgentProcess: ...
    async def process(self, process_id: str, /) -> AgentProcess: ...
    async def tell(
        self, process: str | AgentProcess, /, *objects: object, caller: Caller | None = None
    ) -> AgentProcess: ...
    async def stop_turn(self, process_id: str, reason: str, /) -> None: ...
    async def answer(
        self, process_id: str, question_id: str | None = None, response: object = None, *, declined: str = ""
    ) -> AgentProcess: ...
