"""Over MCP, what one caller has started is for every other caller as if it were not there; an admin follows it all."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from goalport import UserInput
from goalport.base.caller import Caller
from goalport.runtime.process import AgentProcess
from tests.rooms.platform.test_left_behind import Mint
from tests.rooms.serve.askers import Pizzeria, call
from tests.rooms.serve.following_tasks import FollowingTasks, ask
from tests.rooms.serve.served import ERAS, Served, as_admin, as_caller, served, text_of

# The revisions before 2026-07-28 subscribe as the SDK wants nobody to any more.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

OTHERS = {"another caller": ("bob", "https://issuer"), "the same name of another issuer": ("ada", "https://other")}
HAM = {"name": "ham", "portions": 2}
Request = Callable[[Client, str, str], Awaitable[object]]


def _tool(name: str, **arguments: Any) -> Request:
    async def send(client: Client, process: str, question: str) -> object:
        given = {key: question if each == "{question}" else each for key, each in arguments.items()}
        return await call(client, name, processId=process, **given)

    return send


def _resource(uri: str) -> Request:
    async def send(client: Client, process: str, _: str) -> object:
        return await client.read_resource(uri.format(id=process))

    return send


async def _escaped(client: Client, process: str, _: str) -> object:
    uri = f"goalport://processes/%{ord(process[0]):X}{process[1:]}"
    try:
        return await client.read_resource(uri)
    except MCPError as error:
        raise MCPError(error.code, error.message.replace(uri, "")) from None


async def _subscription(client: Client, process: str, _: str) -> object:
    return await client.session.subscribe_resource(f"goalport://processes/{process}")  # pyright: ignore[reportDeprecated]


REQUESTS: Mapping[str, Request] = {
    "its status": _tool("process_status"),
    "its status after a while": _tool("process_status", waitSeconds=0.1),
    "an answer": _tool("process_answer", answer=HAM),
    "an answer to its question": _tool("process_answer", questionId="{question}", answer=HAM),
    "a yes": _tool("process_answer", answer=True),
    "its result": _tool("process_result"),
    "a page of its result": _tool("process_result", page=2),
    "its end": _tool("process_cancel"),
    "its resource": _resource("goalport://processes/{id}"),
    "its resource, escaped": _escaped,
    "the resource of its result": _resource("goalport://processes/{id}/result"),
    "a page of that resource": _resource("goalport://processes/{id}/result/1"),
}


async def answer_to(request: Request, client: Client, process: str, question: str = "none") -> str:
    """What a client is told, with the ids taken out of it."""
    try:
        told = str(await request(client, process, question))
    except MCPError as error:
        told = f"{error.code} {error.message}"
    return told.replace(process, "…").replace(question, "…")


def made_up(identity: str) -> str:
    """An id of the same form that nothing has."""
    return identity[:-1] + ("0" if identity[-1] != "0" else "1")


@asynccontextmanager
async def ordered(root: Path) -> AsyncGenerator[tuple[Served, AgentProcess, str]]:
    """A server at which Ada's order waits for an answer."""
    async with served(root, Pizzeria(), store="sqlite") as server:
        with as_caller("ada"):
            async with server.client() as client:
                handle: Any = (await call(client, "order_pizza", size=30)).structured_content
        process = await server.platform.process(handle["processId"])
        (question,) = process.open_questions
        yield server, process, question.id


@pytest.mark.parametrize("era", ERAS)
async def test_the_ids_of_another_caller_are_unknown(tmp_path: Path, era: str) -> None:
    requests = {**REQUESTS, **({"its changes": _subscription} if era == "legacy" else {})}
    async with ordered(tmp_path) as (server, process, question):
        for who, caller in OTHERS.items():
            with as_caller(*caller):
                async with server.client(era) as client:
                    for name, request in requests.items():
                        answered = await answer_to(request, client, process.id, question)
                        unknown = await answer_to(request, client, made_up(process.id), made_up(question))
                        assert answered == unknown, (who, name)
                        assert "or it is not yours" in answered or "or not for you" in answered, name
        assert process.status == "waiting"
        assert [each.status for each in process.questions] == ["open"]


async def test_the_tasks_of_another_caller_are_unknown(tmp_path: Path) -> None:
    answer = {"q": {"action": "accept", "content": HAM}}
    async with ordered(tmp_path) as (server, process, question):
        for who, caller in OTHERS.items():
            with as_caller(*caller):
                async with server.client(extensions=[FollowingTasks()]) as client:
                    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                        given = {question: answer["q"]} if method == "tasks/update" else None

                        async def about(task: str, method: Any = method, given: Any = given) -> str:
                            with pytest.raises(MCPError) as refused:
                                await ask(client.session, method, task, given)
                            return f"{refused.value.code} {refused.value.message}".replace(task, "…")

                        assert await about(process.id) == await about(made_up(process.id)), (who, method)
        assert process.status == "waiting"


async def test_a_question_is_answered_at_its_own_process_alone(tmp_path: Path) -> None:
    async with ordered(tmp_path) as (server, process, question):
        with as_caller("bob"):
            async with server.client() as client:
                handle: Any = (await call(client, "order_pizza", size=20)).structured_content
                request = REQUESTS["an answer to its question"]
                answered = await answer_to(request, client, handle["processId"], question)
                assert answered == await answer_to(request, client, handle["processId"], made_up(question))
                assert "has asked no question" in answered
        assert process.status == "waiting"


@pytest.mark.parametrize("runs", [True, False], ids=["that another server runs", "that nobody runs"])
async def test_a_process_that_cannot_be_read_is_unknown_to_others_too(tmp_path: Path, *, runs: bool) -> None:
    async with served(tmp_path, mint := Mint(), store="sqlite") as first:
        process = first.platform.start("Mint", UserInput("gold"), caller=Caller("ada", "https://issuer"))
        with anyio.fail_after(60):
            await mint.begun.wait()
            if not runs:
                await first.platform.aclose()
            async with served(tmp_path, Pizzeria(), store="sqlite") as second:
                for who, caller in OTHERS.items():
                    with as_caller(*caller):
                        async with second.client() as client:
                            for name, request in REQUESTS.items():
                                answered = await answer_to(request, client, process.id)
                                unknown = await answer_to(request, client, made_up(process.id))
                                assert answered == unknown, (who, name)
                with as_admin("root"):
                    async with second.client() as client:
                        ended: Any = (await call(client, "process_cancel", processId=process.id)).structured_content
                        assert ended["status"] == "killed"


async def test_an_admin_sees_answers_and_ends_the_processes_of_others(tmp_path: Path) -> None:
    async with ordered(tmp_path) as (server, process, question), ordered_again(server) as other:
        with as_admin("root"):
            async with server.client() as client:
                status: Any = (await call(client, "process_status", processId=process.id)).structured_content
                assert [each["id"] for each in status["questions"]] == [question]
                shown = (await client.read_resource(f"goalport://processes/{process.id}")).contents[0]
                assert json.loads(getattr(shown, "text", ""))["status"] == "waiting"
                answered = await call(client, "process_answer", processId=process.id, answer=HAM)
                assert answered.structured_content == {"content": "30 cm with 2 ham"}
                ended: Any = (await call(client, "process_cancel", processId=other)).structured_content
                assert ended["status"] == "killed"
        with as_caller("ada"):
            async with server.client() as client:
                assert "30 cm with 2 ham" in text_of(await call(client, "process_status", processId=process.id))


@asynccontextmanager
async def ordered_again(server: Served) -> AsyncGenerator[str]:
    """Another order of Ada's that waits for an answer."""
    with as_caller("ada"):
        async with server.client() as client:
            handle: Any = (await call(client, "order_pizza", size=10)).structured_content
    yield handle["processId"]
