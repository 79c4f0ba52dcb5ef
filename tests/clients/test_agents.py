"""Agents of other frameworks and ours give work to each other over A2A: a person answers in between, and the server of
goalport is killed meanwhile."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from a2a.types import TaskState
from anyio import to_thread

from tests.clients.running import CLIENTS, environment, obeying, started
from tests.stories.servers import Running, running
from tests.stories.test_a2a import FILES
from tests.stories.test_calling_agents import PAINTED, post

ADK_READY = re.compile(r"ready on (?P<address>http://\S+)")
ASK = "await painter.ask(said.content)"
COMPLETED, INPUT_REQUIRED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED


@asynccontextmanager
async def served(root: Path, files: Mapping[str, str], port: int = 0) -> AsyncGenerator[Running]:
    """A server that is killed with the block; what it has stored stays."""
    async with running(root, files, port=port, data_dir=str(root / "data")) as server:
        yield server
        server.process.kill()


async def test_an_agent_of_adk_hands_over_to_a_goal_that_asks(adk_python: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with served(tmp_path, FILES) as server:
            port, card = server.port, f"{server.address}/a2a/agents/Editor/.well-known/agent-card.json"
            command = [adk_python, str(CLIENTS / "adk_client.py"), card]
            tell = stack.enter_context(obeying(command, tmp_path, 120))
            begun = await to_thread.run_sync(tell, "a fox")
        async with served(tmp_path, FILES, port):
            ended = await to_thread.run_sync(tell, "Lovely")
    # ADK adds to what a person says what its own agents did before.
    assert begun["asked"][0]["input_required"].startswith("What do you say to: Once upon a time: a fox")
    story = ended["said"][0]
    assert story.startswith("Once upon a time: a fox")
    assert story.endswith(". (Lovely)")


async def test_an_action_calls_an_agent_of_adk_that_asks(adk_python: str, tmp_path: Path) -> None:
    with started([adk_python, str(CLIENTS / "adk_agent.py")], ADK_READY, environment(tmp_path), 120) as ready:
        agent = PAINTED.replace("ADDRESS", ready["address"]).replace(', skill="SKILL"', "")
        files = {"agents/painting.py": agent.replace('(await painter.ask(said.content, dict))["said"]', ASK)}
        async with served(tmp_path, files) as server:
            asked = await post(server, "", {"goal": "paint", "input": {"content": "ask me"}})
            assert asked["prompt"] == "painter asks: Which colour?"
        async with served(tmp_path, files) as server:
            answer = {"awaitableId": asked["awaitableId"], "response": {"answer": "red"}}
            ended = await post(server, f"/{asked['processId']}/continue", answer)
    assert ended.get("result") == "It is {'result': 'red'}.", ended


async def test_the_client_of_the_js_sdk_has_a_task_that_asks(node: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with served(tmp_path, FILES) as server:
            port, command = server.port, [node, str(CLIENTS / "node" / "a2a.mjs"), f"{server.address}/"]
            tell = stack.enter_context(obeying(command, tmp_path, 120))
            begun = await to_thread.run_sync(tell, {"text": "a fox"})
        async with served(tmp_path, FILES, port):
            about = {name: begun[name] for name in ("taskId", "contextId")}
            shown = await to_thread.run_sync(tell, about)
            ended = await to_thread.run_sync(tell, {**about, "text": "Lovely"})
    assert begun["state"] == shown["state"] == INPUT_REQUIRED
    assert begun["texts"][0].startswith("What do you say to: Once upon a time: a fox.")
    assert (ended["state"], ended["results"]) == (COMPLETED, ["Once upon a time: a fox. (Lovely)"])
