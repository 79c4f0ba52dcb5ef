"""Requests over AG-UI that are no runs, hostile ones among them, and what there is to run."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from goalport import ActionContext, action
from goalport.base.caller import ANONYMOUS
from goalport.models.llm import Image, UserMessage
from goalport.runtime.chat import chatbot
from tests.rooms.agui.front_end import FrontEnd, front_end, only
from tests.rooms.agui.talkers import Cook, Kitchen
from tests.rooms.chat.talkers import Parrot

HELLO = {"id": "m", "role": "user", "content": "Hello"}
PIXEL = base64.b64encode(b"\x89PNG").decode()


def image(**source: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": "Look"}, {"type": "image", "source": source}]
    return {"id": "m", "role": "user", "content": parts}


def given(*messages: object, **more: object) -> dict[str, Any]:
    return {"threadId": "t", "runId": "r", "messages": [*messages], **more}


async def post(web: FrontEnd, body: object, path: str = "/agui/Parrot", **headers: str) -> tuple[int, dict[str, Any]]:
    """The status and the body of the answer to a request that is refused."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await web.http.post(path, content=content, headers={"content-type": "application/json", **headers})
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (given(HELLO, threadId=""), 422, "threadId"),
        (given(HELLO, threadId="t" * 1001), 422, "threadId"),
        (given(HELLO, runId=""), 422, "runId"),
        (given(HELLO, threadId=7), 422, "threadId"),
        ({"threadId": "t", "runId": "r"}, 422, "messages"),
        (given({"id": "m", "role": "pirate", "content": "Arr"}), 422, "messages[0]"),
        (given({"role": "user", "content": "Hello"}), 422, "messages[0]"),
        (given({"id": "m", "role": "user", "content": [{"type": "binary", "mimeType": "a/b"}]}), 422, "messages[0]"),
        (given(HELLO, tools=[{"name": "paint", "description": "Paints"}]), 422, "tools"),
        (given(HELLO, resume=[{"interruptId": "q", "status": "maybe"}]), 422, "resume[0]"),
        ([], 422, ""),
        (b"{", 400, ""),
        (b'{"threadId": "\xff"}', 400, ""),
        (b'{"threadId": "t", "runId": "r", "messages": [], "state": NaN}', 400, ""),
        (b"[" * 100_000, 400, ""),
    ],
)
async def test_what_is_no_run_is_refused_with_its_fields(tmp_path: Path, body: object, status: int, field: str) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        code, problem = await post(web, body)
        assert code == status
        if status == 422 and field:
            assert any(each["field"].startswith(field) for each in problem["errors"]), problem


async def test_who_may_not_and_what_is_not_there_is_refused(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot(), max_body_bytes=10_000) as web:
        code, problem = await post(web, given(HELLO), "/agui/Parot")
        assert (code, "Parrot" in problem["detail"]) == (404, True)
        code, problem = await post(web, given({**HELLO, "content": "x" * 20_000}))
        assert (code, problem["status"], "10,000 bytes" in problem["detail"]) == (413, 413, True), problem
        answer = await web.http.put("/agui/Parrot", json=given(HELLO))
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST, HEAD, OPTIONS")
        answer = await web.http.post("/agui/Parrot", content="Hello", headers={"content-type": "text/plain"})
        assert answer.status_code == 415


async def test_a_million_characters_are_a_message(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        thread = web.thread("Parrot")
        text = "long " * 200_000
        await thread.run(text)
        assert thread.said[-1] == f"assistant: 1: {text} … {text}"


async def test_images_come_with_the_message_and_no_address_is_fetched(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        thread = web.thread("Parrot")
        thread.messages = [image(type="data", value=PIXEL, mimeType="image/png")]
        await thread.run()
        conversation = await web.platform.conversations.find("t-1", ANONYMOUS)
        assert conversation is not None
        assert conversation.entries[0].message == UserMessage("Look", (Image("image/png", b"\x89PNG"),))
        for number, source in enumerate(
            [
                {"type": "url", "value": "http://169.254.169.254/latest/meta-data"},
                {"type": "file", "value": "file-1"},
                {"type": "data", "value": "no base64!", "mimeType": "image/png"},
                {"type": "data", "value": PIXEL, "mimeType": "text/html"},
            ]
        ):
            other = web.thread("Parrot", f"t-{number + 2}")
            other.messages = [image(**source)]
            events = await other.run()
            assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "invalid-input"), source
            assert "messages[0]" in events[-1]["message"]


async def test_a_message_without_a_text_and_an_image_is_refused(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        for number, content in enumerate(("", " \n", [{"type": "text", "text": " "}])):
            thread = web.thread("Parrot", f"t-{number}")
            thread.messages = [{"id": "m", "role": "user", "content": content}]
            events = await thread.run()
            assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "invalid-input")
            assert events[-1]["message"] == "messages[0].content: should have a text or an image, but is empty"


async def test_a_state_that_is_no_object_is_left_alone(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        for state in ([1], "state", 7, False):
            thread = web.thread("Parrot")
            thread.state = state
            events = await thread.run("Hello")
            assert events[-1]["type"] == "RUN_FINISHED"
            assert not only(events, "STATE_SNAPSHOT")
            assert not only(events, "STATE_DELTA")


async def test_what_there_is_to_run_is_listed_with_what_it_can_do(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot(), Cook(), Kitchen()) as web:
        told = (await web.http.get("/agui")).json()
        assert [(each["name"], each["path"]) for each in told["agents"]] == [
            ("Parrot", "/agui/Parrot"),
            ("cook", "/agui/cook"),
            ("prepare", "/agui/prepare"),
        ]
        kitchen = (await web.http.get("/agui/prepare")).json()
        assert kitchen == told["agents"][2]["capabilities"]
        assert kitchen["identity"]["name"] == "prepare"
        assert [*kitchen["custom"]["inputSchema"]["properties"]] == ["dish", "plates"]
        assert told["agents"][0]["capabilities"]["humanInTheLoop"]["interrupts"] is True


@chatbot(name="Tea & Co", description="Sells tea")
class Shop:
    """Its name is no part of a path as it is."""

    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, context: ActionContext) -> None:
        """Answer."""
        await context.send_message("Tea?")


async def test_the_path_of_an_agent_leads_to_it_whatever_its_name_is(tmp_path: Path) -> None:
    async with front_end(tmp_path, Shop()) as web:
        (told,) = (await web.http.get("/agui")).json()["agents"]
        assert told["name"] == "Tea & Co"
        answer = await web.http.post(told["path"], json=given(HELLO))
        assert '"delta":"Tea?"' in answer.text


async def test_the_door_can_be_closed(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot(), agui=False) as web:
        assert (await web.http.get("/agui")).status_code == 404
