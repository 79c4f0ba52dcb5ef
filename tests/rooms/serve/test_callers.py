import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents
from pydantic import BaseModel

from goalport import AgentProcess, Export, UserInput, achieves_goal, action, agent
from tests.rooms.serve.served import as_caller, served


class Greeting(BaseModel):
    content: str


@agent(description="Greets whoever calls")
class Greeter:
    @achieves_goal(description="A greeting", export=Export(remote=True, name="greet"))
    @action
    async def greet(self, said: UserInput) -> Greeting:
        process = AgentProcess.current()
        assert process is not None
        return Greeting(content=f"Hello {process.caller.id}")


async def greet(client: Client, **meta: Any) -> tuple[str, str]:
    given: Any = meta or None
    result = await client.call_tool("greet", {"content": "hi"}, meta=given)
    assert result.meta is not None
    content: Any = result.structured_content
    return content["content"], result.meta["goalport/processId"]


async def test_a_process_runs_for_whoever_the_token_names(tmp_path: Path) -> None:
    async with served(tmp_path, Greeter()) as server:
        with as_caller("ada"):
            async with server.client() as client:
                assert (await greet(client))[0] == "Hello ada"
        async with server.client() as client:
            assert (await greet(client))[0] == "Hello anonymous"


@pytest.mark.parametrize(("name", "issuer"), [("bob", "https://issuer"), ("ada", "https://other")])
async def test_only_its_caller_can_read_about_a_process(tmp_path: Path, name: str, issuer: str) -> None:
    async with served(tmp_path, Greeter()) as server:
        with as_caller("ada"):
            async with server.client() as client:
                process = (await greet(client))[1]
                content = (await client.read_resource(f"goalport://processes/{process}")).contents[0]
                assert isinstance(content, TextResourceContents)
                assert json.loads(content.text)["status"] == "completed"
        with as_caller(name, issuer):
            async with server.client() as client:
                with pytest.raises(MCPError):
                    await client.read_resource(f"goalport://processes/{process}")


async def test_the_key_of_one_caller_joins_no_process_of_another(tmp_path: Path) -> None:
    found: list[str] = []
    async with served(tmp_path, Greeter()) as server:
        for name in ("ada", "bob", "ada"):
            with as_caller(name):
                async with server.client() as client:
                    found.append((await greet(client, **{"goalport/idempotencyKey": "k"}))[1])
    assert found[0] == found[2] != found[1]
