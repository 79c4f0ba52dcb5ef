"""A server with the AG-UI door on a socket of this machine, and a front end. No test is in here."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
from ag_ui.core import Event
from pydantic import TypeAdapter

from goalport.runtime.platform import AgentPlatform
from goalport.server.publish.publisher import Publisher
from goalport.server.site.app import Site
from tests.listening import address_of, serving
from tests.rooms.rest.web import ByHeader
from tests.rooms.serve.served import state_of

EVENTS: Final[TypeAdapter[Any]] = TypeAdapter(Event)
"""The events of the protocol, as its own library reads them."""


@dataclass
class Thread:
    """A thread of a front end, which keeps its messages and its state as front ends do."""

    http: httpx2.AsyncClient
    agent: str
    id: str
    caller: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    state: Any = None
    runs: int = 0

    def say(self, text: str) -> "Thread":
        """Add a message of the person."""
        self.messages.append({"id": f"said-{len(self.messages)}", "role": "user", "content": text})
        return self

    def input(self, **more: Any) -> dict[str, Any]:
        """What the next run sends."""
        self.runs += 1
        given = {"threadId": self.id, "runId": f"run-{self.runs}", "messages": self.messages, "state": self.state}
        return {**given, **more}

    async def run(self, text: str = "", **more: Any) -> list[dict[str, Any]]:
        """Say something and run, or only run; the events, which the front end has taken over."""
        if text:
            self.say(text)
        found = [each async for each in self.stream(**more)]
        for each in found:
            self._apply(each)
        return found

    async def stream(self, **more: Any) -> AsyncIterator[dict[str, Any]]:
        """The events of a run as they come."""
        async with self.http.stream(
            "POST", f"/agui/{self.agent}", json=self.input(**more), headers=self.headers
        ) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    EVENTS.validate_json(line[6:])
                    yield json.loads(line[6:])

    @property
    def headers(self) -> dict[str, str]:
        return {"caller": self.caller} if self.caller else {}

    def _apply(self, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                self.messages.append({"id": event["messageId"], "role": "assistant", "content": ""})
            case "TEXT_MESSAGE_CONTENT":
                message = next(each for each in self.messages if each["id"] == event["messageId"])
                message["content"] += event["delta"]
            case "MESSAGES_SNAPSHOT":
                self.messages = [*event["messages"]]
            case "STATE_SNAPSHOT":
                self.state = event["snapshot"]
            case "STATE_DELTA":
                for each in event["delta"]:
                    _, *path, last = each["path"].split("/")
                    place = self.state
                    for name in path:
                        place = place[name]
                    place[last] = each["value"]
            case _:
                pass

    @property
    def said(self) -> list[str]:
        """What was said, as the front end shows it."""
        return [f"{each['role']}: {each['content']}" for each in self.messages if "content" in each]


@dataclass(frozen=True)
class FrontEnd:
    """A server, and what front ends do with it."""

    http: httpx2.AsyncClient
    publisher: Publisher

    @property
    def platform(self) -> AgentPlatform:
        return self.publisher.platform

    def thread(self, agent: str, thread: str = "t-1", caller: str = "") -> Thread:
        """A thread without messages."""
        return Thread(self.http, agent, thread, caller)


@asynccontextmanager
async def front_end(root: Path, *agents: object, **settings: Any) -> AsyncGenerator[FrontEnd]:
    """Serve agents on a free port for as long as the block lasts; the header `Caller` says who makes a request."""
    publisher = state_of(root, *agents, **settings).publisher
    async with (
        serving(ByHeader(Site(publisher))) as server,
        httpx2.AsyncClient(base_url=address_of(server), timeout=20) as http,
    ):
        yield FrontEnd(http, publisher)


def kinds(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The types of events, each once where several of a type follow each other."""
    found = [str(each["type"]) for each in events]
    return [each for at, each in enumerate(found) if not at or found[at - 1] != each]


def only(events: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """The events of a type."""
    return [each for each in events if each["type"] == kind]
