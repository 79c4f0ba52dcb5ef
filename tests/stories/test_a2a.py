"""An agent of the SDK of A2A gives work to a server; the server is killed, and a person answers at the next one."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import httpx
import httpx2
import pytest
from a2a.client import ClientConfig, create_client
from a2a.types import (
    AuthenticationInfo,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from starlette.responses import Response

from tests.receiver import receiving
from tests.stories.servers import running

EDITOR = """
from dataclasses import dataclass

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent


@dataclass(frozen=True)
class Draft:
    text: str


@dataclass(frozen=True)
class Comment:
    text: str


@agent(description="Writes, and lets a person comment")
class Editor:
    @action
    def draft(self, said: UserInput) -> Draft:
        return Draft(f"Once upon a time: {said.content}.")

    @action
    def ask(self, draft: Draft) -> WaitFor[Comment]:
        return WaitFor.form_submission(f"What do you say to: {draft.text}", Comment)

    @achieves_goal(description="A story with a comment", export=Export(remote=True, name="edit"))
    def finish(self, draft: Draft, comment: Comment) -> str:
        return f"{draft.text} ({comment.text})"
"""
FILES = {"agents/editor.py": EDITOR}


def said(text: str) -> SendMessageRequest:
    return SendMessageRequest(message=Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text=text)]))


@pytest.fixture
async def patient() -> AsyncGenerator[httpx.AsyncClient]:
    """A client that waits while a server imports the SDK for its first request."""
    async with httpx.AsyncClient(timeout=60) as client:
        yield client


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_task_outlives_its_server_and_waits_for_a_person(
    tmp_path: Path, patient: httpx.AsyncClient, binding: str
) -> None:
    config = ClientConfig(supported_protocol_bindings=[binding], httpx_client=patient)
    async with running(tmp_path, FILES, data_dir=str(tmp_path / "data")) as server:
        async with await create_client(server.address, config) as client:
            with anyio.fail_after(60):
                told = [each async for each in client.send_message(said("a fox"))]
        task = told[0].task
        assert told[-1].status_update.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert "What do you say to: Once upon a time: a fox." in told[-1].status_update.status.message.parts[0].text
        server.process.kill()
    async with (
        running(tmp_path, FILES, data_dir=str(tmp_path / "data")) as server,
        await create_client(server.address, config) as client,
        httpx2.AsyncClient(timeout=60) as person,
    ):
        shown = await client.get_task(GetTaskRequest(id=task.id))
        assert (shown.status.state, shown.context_id) == (TaskState.TASK_STATE_INPUT_REQUIRED, task.context_id)
        asked = await person.get(f"{server.address}/api/v1/process/{task.id}")
        answer = {"awaitableId": asked.json()["awaitableId"], "response": {"text": "Lovely"}}
        await person.post(f"{server.address}/api/v1/process/{task.id}/continue", json=answer)
        done = await client.get_task(GetTaskRequest(id=task.id))
        assert done.status.state == TaskState.TASK_STATE_COMPLETED
        assert done.artifacts[0].parts[0].text == "Once upon a time: a fox. (Lovely)"
        assert [each.role for each in done.history] == [Role.ROLE_USER, Role.ROLE_AGENT, Role.ROLE_USER]
        again = [each async for each in client.send_message(said("a fox"))]
        assert again[0].task.id != task.id


async def test_what_a_killed_server_has_not_told_the_next_one_tells(tmp_path: Path, patient: httpx.AsyncClient) -> None:
    config = ClientConfig(supported_protocol_bindings=["JSONRPC"], httpx_client=patient)
    data, own = str(tmp_path / "data"), "127.0.0.1"
    async with receiving(Response(status_code=503)) as receiver:
        async with running(tmp_path, FILES, data_dir=data, a2a_push_allow=own) as server:
            async with await create_client(server.address, config) as client:
                with anyio.fail_after(60):
                    told = [each async for each in client.send_message(said("a fox"))]
                task = told[0].task
                secret = AuthenticationInfo(scheme="Bearer", credentials="of-the-receiver")
                hook = TaskPushNotificationConfig(
                    id="hook", task_id=task.id, url=receiver.url, token="of-the-client", authentication=secret
                )
                assert (await client.create_task_push_notification_config(hook)).url == receiver.url
            await receiver.until(lambda received: len(received) == 1)
            server.process.kill()
        written = b"".join(each.read_bytes() for each in (tmp_path / "data").rglob("*") if each.is_file())
        assert b"a2a notifications" in written
        assert b"of-the-receiver" not in written
        assert b"of-the-client" not in written
        async with (
            running(tmp_path, FILES, data_dir=data, a2a_push_allow=own) as server,
            await create_client(server.address, config) as client,
        ):
            first, again = (await receiver.until(lambda received: len(received) >= 2))[:2]
            assert again.json["task"]["status"] == first.json["task"]["status"]
            assert again.headers["authorization"] == "Bearer of-the-receiver"
            assert again.headers["x-a2a-notification-token"] == "of-the-client"
            shown = await client.get_task_push_notification_config(
                GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
            )
            assert (shown.url, shown.token, shown.authentication.credentials) == (receiver.url, "", "")
            answer = Message(message_id="m-2", task_id=task.id, role=Role.ROLE_USER, parts=[Part(text="Lovely")])
            with anyio.fail_after(60):
                assert [each async for each in client.send_message(SendMessageRequest(message=answer))]
            done = await receiver.told("COMPLETED")
            assert done.json["task"]["artifacts"][0]["parts"] == [{"text": "Once upon a time: a fox. (Lovely)"}]
            assert "of-the-" not in server.heard.text
