"""An agent made with the SDK of A2A. Its skills end, ask, fail and wait. No test is in here."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from a2a.helpers import new_data_part, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette
from starlette.datastructures import Headers

from tests.listening import address_of, serving

SKILLS = ("echo", "ask", "fail", "reject", "sign_in", "never", "slow", "reply", "picture")


@dataclass
class Agent(AgentExecutor):
    """Does what the skill in the metadata of a message says, and notes what it was sent."""

    card: AgentCard = field(default_factory=AgentCard)
    sent: list[Message] = field(default_factory=list[Message])
    cards_read: int = 0
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    cancelled: anyio.Event = field(default_factory=anyio.Event)
    begun: anyio.Event = field(default_factory=anyio.Event)
    joined: anyio.Event = field(default_factory=anyio.Event)
    """Set when a task is followed that had begun before."""
    go_on: anyio.Event = field(default_factory=anyio.Event)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = context.message
        assert message is not None
        self.sent.append(message)
        given = context.get_user_input()
        task_id, context_id = context.task_id or "", context.context_id or ""
        updater = TaskUpdater(event_queue, task_id, context_id)

        def says(text: str) -> Message:
            return updater.new_agent_message([new_text_part(text)])

        asked = context.current_task is not None
        skill = dict(message.metadata).get("skill", "ask" if asked else "echo")
        if skill == "reply":
            await event_queue.enqueue_event(says(f"Hello {given}"))
            return
        if not asked:
            state = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(Task(id=task_id, context_id=context_id, status=state, history=[message]))
        await updater.start_work(says("Reading"))
        match skill:
            case "ask" if not asked:
                await updater.requires_input(says("Which colour?"))
                return
            case "fail":
                await updater.failed(says("The paint is empty."))
                return
            case "reject":
                await updater.reject(says("Not for you."))
                return
            case "sign_in":
                await updater.requires_auth(says("Open https://paint.example/login"))
                return
            case "never":
                self.begun.set()
                await anyio.Event().wait()
            case "slow":
                self.begun.set()
                await self.go_on.wait()
                await updater.add_artifact([new_data_part({"said": given})])
            case "picture":
                parts = [Part(raw=b"png", media_type="image/png"), Part(url="https://paint.example/a", filename="a")]
                await updater.add_artifact(parts)
            case _:
                data: list[Any] = [dict(part.data.struct_value) for part in message.parts if part.HasField("data")]
                parts = [new_data_part({"said": given, "data": data, "count": 3})]
                await updater.add_artifact(parts)
        await updater.complete(says("Done"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.set()
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


class _Handler(DefaultRequestHandler):
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any]:
        agent: Any = self.agent_executor
        agent.joined.set()
        inherited: Any = super()
        async for each in inherited.on_subscribe_to_task(params, context):
            yield each


@asynccontextmanager
async def agent_served(
    *, streaming: bool = True, binding: str = "JSONRPC", version: str = "1.0", at: str = ""
) -> AsyncGenerator[tuple[Agent, str]]:
    """Serve it for as long as the block lasts; the agent, and the address of its card. `at` is what the card says."""
    agent, app = Agent(), Starlette()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            agent.headers.append(dict(Headers(scope=scope)))
            agent.cards_read += scope["path"].endswith("agent-card.json")
        await app(scope, receive, send)

    async with serving(noting) as server:
        address = address_of(server)
        card = AgentCard(
            name="Painter",
            description="Paints",
            version="1",
            supported_interfaces=[
                AgentInterface(url=at or f"{address}/rpc", protocol_binding=binding, protocol_version=version)
            ],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[
                AgentSkill(id=each, name=each.title(), description=f"Does {each}", tags=["t"], examples=["red"])
                for each in SKILLS
            ],
        )
        agent.card = card
        handler = _Handler(agent, InMemoryTaskStore(), card)
        app.router.routes += create_agent_card_routes(card)
        if binding == "JSONRPC":
            app.router.routes += create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)
        else:
            app.router.routes += create_rest_routes(handler, path_prefix="/rpc", enable_v0_3_compat=True)

        yield agent, address
