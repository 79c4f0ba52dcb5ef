"""Many answer one question at the same time, through every door and from another program: the first answer counts."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult

from goalport import AgentPlatform
from goalport.errors import AlreadyAnswered
from tests.rooms.serve.following_tasks import FollowingTasks, ask, create, state_of_task
from tests.rooms.serve.served import state_of, text_of
from tests.stories.fleets import KEYS, fleet
from tests.stories.servers import Running

Answer = Callable[[], Coroutine[Any, Any, None]]
FOR_ADA = {"content": "Ada"}
ONE_PROCESS: Any = {"goalport/idempotencyKey": "the crown of Ada"}
"""Every call with this key is about the same process."""


@dataclass
class Asked:
    """The one question of a process, those who answer it with a colour of their own, and what they are told."""

    process_id: str
    question: str
    waiting: list[Answer] = field(default_factory=list[Answer])
    taken: list[str] = field(default_factory=list[str])
    """The colours of those who are told that their answer counts."""
    late: list[str] = field(default_factory=list[str])
    """The colours of those who are told that it came too late."""
    crowns: list[Any] = field(default_factory=list[Any])
    """The results that were told; through some doors also to those whose answer does not count."""

    def await_answers(self, door: str, times: int, answer: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        first = len(self.waiting)
        self.waiting += [partial(answer, f"{door} {number}") for number in range(first, first + times)]

    def over_rest(self, http: httpx2.AsyncClient) -> None:
        async def answer(colour: str) -> None:
            given = {"awaitableId": self.question, "response": {"colour": colour}, "wait": 60}
            told = await http.post(f"/api/v1/process/{self.process_id}/continue", json=given)
            if told.status_code == 409:
                self.late.append(colour)
                return
            assert told.status_code == 200, told.text
            self.taken.append(colour)
            self.crowns.append(told.json()["result"])

        self.await_answers("rest", 5, answer)

    def with_companions(self, client: Client) -> None:
        async def answer(colour: str) -> None:
            given = {"processId": self.process_id, "questionId": self.question, "answer": {"colour": colour}}
            told = await client.call_tool("process_answer", given)
            if told.is_error:
                assert "the first answer counts" in text_of(told), told
                self.late.append(colour)
                return
            self.taken.append(colour)
            self.crowns.append(told.structured_content)

        self.await_answers("companion", 5, answer)

    async def with_repeated_calls(self, client: Client) -> None:
        asked = await client.session.call_tool("crown", FOR_ADA, meta=ONE_PROCESS, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        assert [*(asked.input_requests or ())] == [self.question]

        async def answer(colour: str) -> None:
            told = await client.session.call_tool(
                "crown",
                FOR_ADA,
                meta=ONE_PROCESS,
                input_responses={self.question: accepted(colour)},
                request_state=asked.request_state,
                allow_input_required=True,
            )
            assert isinstance(told, CallToolResult)
            self.crowns.append(told.structured_content)

        self.await_answers("repeated", 5, answer)

    async def with_a_task(self, client: Client) -> None:
        assert await create(client, "crown", meta=ONE_PROCESS, **FOR_ADA) == self.process_id
        asked = await state_of_task(client, self.process_id, "input_required")
        assert [*asked["inputRequests"]] == [self.question]

        async def answer(colour: str) -> None:
            given = accepted(colour).model_dump(mode="json", exclude_none=True)
            await ask(client.session, "tasks/update", self.process_id, {self.question: given})

        self.await_answers("task", 5, answer)

    def from_a_program(self, platform: AgentPlatform) -> None:
        async def answer(colour: str) -> None:
            try:
                process = await platform.answer(self.process_id, self.question, {"colour": colour})
            except AlreadyAnswered:
                self.late.append(colour)
                return
            self.taken.append(colour)
            await process.wait()

        self.await_answers("program", 8, answer)


@dataclass
class Form:
    """A person who reads a form in mid-call, and answers it when everybody does."""

    colour: str
    shown: anyio.Event = field(default_factory=anyio.Event)
    filled: anyio.Event = field(default_factory=anyio.Event)
    process_id: str = ""
    crowns: list[Any] = field(default_factory=list[Any])

    async def __call__(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert params.message == "Which gem?"
        self.shown.set()
        await self.filled.wait()
        return accepted(self.colour)

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total) != (0, 0)
        _, self.process_id, *_ = (message or "").split()  # "process … begins"


@asynccontextmanager
async def in_mid_call(server: Running, colour: str) -> AsyncGenerator[Form]:
    """A form that a call shows; at the end of the block the call has ended."""
    form = Form(colour)
    async with (
        server.client("http", "legacy", elicitation_callback=form) as client,
        anyio.create_task_group() as calls,
    ):

        async def call() -> None:
            told = await client.call_tool("crown", FOR_ADA, meta=ONE_PROCESS, progress_callback=form.note)
            form.crowns.append(told.structured_content)

        calls.start_soon(call)
        await form.shown.wait()
        yield form


def accepted(colour: str) -> ElicitResult:
    return ElicitResult(action="accept", content={"colour": colour})


async def never(_: object, params: ElicitRequestParams) -> ElicitResult:
    raise AssertionError(params)


async def question_of(http: httpx2.AsyncClient, process_id: str) -> str:
    (question,) = (await http.get(f"/api/v1/process/{process_id}")).json()["questions"]
    return question["awaitableId"]


@asynccontextmanager
async def answering(server: Running, asked: Asked) -> AsyncGenerator[None]:
    """The clients of one server that wait to answer."""
    tasks = FollowingTasks()
    async with (
        httpx2.AsyncClient(base_url=server.address, timeout=60) as http,
        server.client("http", "auto") as plain,
        server.client("http", "auto", elicitation_callback=never) as asking,
        server.client("http", "auto", elicitation_callback=never, extensions=[tasks]) as following,
    ):
        asked.over_rest(http)
        asked.with_companions(plain)
        await asked.with_repeated_calls(asking)
        await asked.with_a_task(following)
        yield
        ended = await state_of_task(following, asked.process_id, "completed")
        asked.crowns.append(ended["result"]["structuredContent"])


async def test_of_fifty_answers_through_every_door_one_counts(tmp_path: Path) -> None:
    async with fleet(tmp_path) as servers:
        one, two = servers.servers
        with anyio.fail_after(90):
            async with in_mid_call(one, "form 1") as first, in_mid_call(two, "form 2") as second:
                assert second.process_id == first.process_id
                async with httpx2.AsyncClient(base_url=one.address, timeout=60) as http:
                    asked = Asked(first.process_id, await question_of(http, first.process_id))
                other = state_of(tmp_path, store="sqlite", state_keys=KEYS).platform
                async with other, answering(one, asked), answering(two, asked):
                    asked.from_a_program(other)
                    assert len(asked.waiting) == 48
                    first.filled.set()
                    second.filled.set()
                    async with anyio.create_task_group() as tasks:
                        for each in asked.waiting:
                            tasks.start_soon(each)
        crowns = [*asked.crowns, *first.crowns, *second.crowns]
        (mounted,) = [line.removeprefix("mount ") for line in servers.lines()]
        assert asked.taken in ([], [mounted])
        assert all(each == {"content": f"{mounted} for Ada"} for each in crowns)
        assert len(asked.taken) + len(asked.late) == 28
        assert "Traceback" not in one.heard.text + two.heard.text
