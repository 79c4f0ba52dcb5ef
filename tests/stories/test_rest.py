"""Whoever got the id of a process over REST finds it again, whatever happens to the server; the door can be shut."""

from pathlib import Path

import anyio
import httpx2
import pytest

from tests.stories.servers import running

FILES = {
    "agents/baker.py": """
from pydantic import BaseModel
from goalport import Export, WaitFor, achieves_goal, action, agent

class Order(BaseModel):
    size: int

class Topping(BaseModel):
    name: str

class Pizza(BaseModel):
    content: str

@agent(description="Bakes")
class Baker:
    @action
    def ask(self, order: Order) -> WaitFor[Topping]:
        return WaitFor.form_submission("What shall be on it?", Topping)

    @achieves_goal(description="A pizza", export=Export(remote=True, name="order_pizza"))
    def bake(self, order: Order, topping: Topping) -> Pizza:
        return Pizza(content=f"{order.size} cm with {topping.name}")
"""
}
OPEN = {"HOST": "0.0.0.0", "AUTH__INSECURE_NO_AUTH": "true"}  # noqa: S104
ORDER = {"goal": "order_pizza", "input": {"size": 30}, "wait": 0}


async def test_a_process_is_found_again_though_its_server_was_killed_right_after_the_answer(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, lease_seconds="1") as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=30) as http:
            begun = await http.post("/api/v1/process", json=ORDER)
        server.process.kill()
        assert begun.status_code == 202
        state = begun.json()
    async with (
        running(tmp_path, FILES, lease_seconds="1") as server,
        httpx2.AsyncClient(base_url=server.address, timeout=60) as http,
    ):
        with anyio.fail_after(60):
            waiting = (await http.get(state["links"]["self"], params={"wait": 50})).json()
        assert waiting["status"] == "waiting"
        ended = await http.post(state["links"]["continue"], json={"response": {"name": "ham"}})
        assert ended.json()["result"] == {"content": "30 cm with ham"}
        events = (await http.get(state["links"]["events"])).text
        assert "ProcessCreated" in events
        assert "ProcessFinished" in events


@pytest.mark.parametrize(
    ("settings", "status"),
    [({}, 202), ({"REST": "false"}, 404), (OPEN, 404), ({**OPEN, "REST": "true"}, 202)],
    ids=str,
)
async def test_the_door_is_open_where_only_this_machine_can_call_or_the_setting_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], status: int
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"GOALPORT_{name}", value)
    async with running(tmp_path, FILES) as server:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=30) as http:
            assert (await http.post("/api/v1/process", json=ORDER)).status_code == status
            assert (await http.get("/openapi.json")).status_code == (200 if status == 202 else 404)
        assert ("REST: " in server.announced) == (status == 202)
