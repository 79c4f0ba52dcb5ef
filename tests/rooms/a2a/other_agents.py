"""A server with the A2A door on a socket of this machine, and another agent that calls it. No test is in here."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2

from goalport.runtime.platform import AgentPlatform
from goalport.server.auth import Authentication
from goalport.server.publish.publisher import Publisher
from goalport.server.site.app import Site
from tests.listening import address_of, serving
from tests.rooms.rest.web import ByHeader
from tests.rooms.serve.served import state_of

BINDINGS: Final = ("jsonrpc", "http+json")
VERSION: Final = {"A2A-Version": "1.0"}
_METHODS: Final = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("GET", "/tasks/{id}:subscribe"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
}
_ids = count()


class Refused(Exception):
    """A request that was refused: the reason of the error, and its message."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.reason = next((each["reason"] for each in error.get("details", error.get("data", ()))), "")
        self.message = str(error["message"])
        super().__init__(f"{self.reason}: {self.message}")


def message(*parts: Any, **more: Any) -> dict[str, Any]:
    """A message of texts and data, with an id of its own."""
    said = [{"text": each} if isinstance(each, str) else {"data": each} for each in parts]
    return {"messageId": f"m-{next(_ids)}", "role": "ROLE_USER", "parts": said, **more}


@dataclass(frozen=True)
class Other:
    """Another agent, which calls a server over one of the bindings."""

    http: httpx2.AsyncClient
    publisher: Publisher
    binding: str = "jsonrpc"
    caller: str = ""
    agent: str = ""

    @property
    def platform(self) -> AgentPlatform:
        return self.publisher.platform

    @property
    def _path(self) -> str:
        return f"/a2a/agents/{self.agent}" if self.agent else "/a2a"

    @property
    def _headers(self) -> dict[str, str]:
        return {**VERSION, **({"caller": self.caller} if self.caller else {})}

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if self.binding == "jsonrpc":
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return {"method": "POST", "url": self._path, "json": body, "headers": self._headers}
        verb, path = _METHODS[method]
        url = f"{self._path}{path.format(**params)}"
        rest = {name: value for name, value in params.items() if f"{{{name}}}" not in path}
        given = {"json": rest} if verb == "POST" else {"params": rest}
        return {"method": verb, "url": url, "headers": self._headers, **given}

    async def call(self, method: str, **params: Any) -> Any:
        """The result of a call. Raises `Refused`."""
        answer = (await self.http.request(**self._request(method, params))).json()
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"] if self.binding == "jsonrpc" else answer

    async def send(self, *parts: Any, configuration: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The task that a message begins or goes on with."""
        given = {"message": message(*parts, **more), **({"configuration": configuration} if configuration else {})}
        return (await self.call("SendMessage", **given))["task"]

    async def answer(self, task: Mapping[str, Any], *parts: Any, **more: Any) -> dict[str, Any]:
        """The task after a message that answers its question."""
        return await self.send(*parts, taskId=task["id"], **more)

    async def stream(self, method: str, **params: Any) -> AsyncGenerator[dict[str, Any]]:
        """The updates of a stream as they come. Raises `Refused`."""
        async with self.http.stream(**self._request(method, params)) as answer:
            if not answer.headers["content-type"].startswith("text/event-stream"):
                raise Refused(json.loads(await answer.aread())["error"])
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    found = json.loads(line[6:])
                    if "error" in found:
                        raise Refused(found["error"])
                    yield found["result"] if self.binding == "jsonrpc" else found


def state_in(update: Mapping[str, Any]) -> str:
    """The state that a task or an update tells, in lower case and without its prefix; empty if it tells none."""
    about = update.get("task") or update.get("statusUpdate") or update
    return about.get("status", {}).get("state", "").removeprefix("TASK_STATE_").lower()


def words_of(task: Mapping[str, Any]) -> str:
    """What the status of a task or an update says."""
    about = task.get("statusUpdate") or task
    return about["status"]["message"]["parts"][0]["text"]


@asynccontextmanager
async def other_agent(
    root: Path, *agents: object, authentication: Authentication | None = None, **settings: Any
) -> AsyncGenerator[Other]:
    """Serve agents on a free port for as long as the block lasts; the header `Caller` says who makes a request."""
    publisher = state_of(root, *agents, **settings).publisher
    site = Site(publisher, authentication)
    async with (
        serving(ByHeader(site) if authentication is None else site.app) as server,
        httpx2.AsyncClient(base_url=address_of(server), timeout=20) as http,
    ):
        yield Other(http, publisher)
