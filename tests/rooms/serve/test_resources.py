import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, TextResourceContents
from pydantic import BaseModel

from goalport import Export, UserInput, achieves_goal, action, agent
from goalport.base.caller import Caller
from tests.rooms.serve.served import ERAS, Served, served


class Greeting(BaseModel):
    content: str


@agent(description="Greets people", provider="tests", version="2.0.0")
class Greeter:
    @action
    async def think(self, said: UserInput) -> str:
        """Find the words."""
        return said.content

    @achieves_goal(
        description="A greeting", tags=["polite"], examples=["greet Ada"], export=Export(remote=True, name="greet")
    )
    @action
    async def greet(self, words: str) -> Greeting:
        return Greeting(content=f"Hello {words}")


async def read(client: Client, uri: str) -> Any:
    content = (await client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/json"
    return json.loads(content.text)


async def greeted(client: Client) -> str:
    result = await client.call_tool("greet", {"content": "Ada"})
    assert result.meta is not None
    return f"goalport://processes/{result.meta['goalport/processId']}"


@pytest.mark.parametrize("era", ERAS)
async def test_goals_and_agents_are_listed_and_processes_have_a_template(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Greeter()) as server, server.client(era) as client:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
    assert [each.uri for each in listed] == ["goalport://agents/Greeter", "goalport://goals"]
    assert {each.uri_template for each in templates} == {
        "goalport://agents/{name}",
        "goalport://processes/{id}",
        "goalport://processes/{id}/result",
        "goalport://processes/{id}/result/{page}",
    }


@pytest.mark.parametrize("era", ERAS)
async def test_the_goals_say_by_which_tools_they_are_reached(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Greeter()) as server, server.client(era) as client:
        (goal,) = await read(client, "goalport://goals")
    assert (goal["goal"], goal["tools"], goal["output"]) == ("Greeter.greet", ["greet"], "Greeting")
    assert (goal["tags"], goal["examples"]) == (["polite"], ["greet Ada"])


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_tells_what_its_actions_need_and_give(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Greeter()) as server, server.client(era) as client:
        agent = await read(client, "goalport://agents/Greeter")
    assert (agent["provider"], agent["version"]) == ("tests", "2.0.0")
    think = next(each for each in agent["actions"] if each["name"] == "Greeter.think")
    assert (think["needs"], think["gives"], think["description"]) == (["UserInput"], "str", "Find the words.")


async def test_a_resource_is_written_in_the_letters_of_its_language(tmp_path: Path) -> None:
    @agent(description="Grüßt auf Finnisch: hyvää päivää")
    class Finnish:
        @achieves_goal(description="A greeting", export=Export(remote=True))
        def greet(self, said: UserInput) -> Greeting:
            return Greeting(content=said.content)

    async with served(tmp_path, Finnish()) as server, server.client() as client:
        (content,) = (await client.read_resource("goalport://agents/Finnish")).contents
    assert isinstance(content, TextResourceContents)
    assert "Grüßt auf Finnisch: hyvää päivää" in content.text


@pytest.mark.parametrize("era", ERAS)
async def test_a_process_tells_its_state_its_history_and_a_picture(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Greeter()) as server, server.client(era) as client:
        uri = await greeted(client)
        process = await read(client, uri)
        picture = (await client.read_resource(uri)).contents[1]
    assert process["status"] == "completed"
    assert process["goal"] == "Greeter.greet"
    assert [each["action"] for each in process["history"]] == ["Greeter.think", "Greeter.greet"]
    assert process["plan"] == []
    assert process["mermaid"].startswith("flowchart LR")
    assert isinstance(picture, TextResourceContents)
    assert picture.mime_type == "text/markdown"
    assert "think" in picture.text


@pytest.mark.parametrize("era", ERAS)
async def test_a_process_of_somebody_else_is_not_found(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Greeter()) as server, server.client(era) as client:
        theirs = await of_another_caller(server)
        for uri in (theirs, f"{theirs}/result", f"{theirs}/result/1"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.code == INVALID_PARAMS
            assert "Hello" not in caught.value.message


async def of_another_caller(server: Served) -> str:
    process = server.platform.start("Greeter", UserInput("Bob"), caller=Caller("bob", "https://issuer"))
    await process.wait()
    return f"goalport://processes/{process.id}"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "uri",
    [
        "goalport://nothing",
        "goalport://agents/Nobody",
        "goalport://processes/none",
        "goalport://processes/none/result",
        "goalport://goals/",
        "file:///etc/passwd",
    ],
)
async def test_what_there_is_not_is_a_protocol_error_that_names_it(tmp_path: Path, era: str, uri: str) -> None:
    async with served(tmp_path, Greeter()) as server, server.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.code == INVALID_PARAMS
    assert caught.value.error.data == {"uri": uri}


async def test_a_page_beyond_the_last_is_refused_with_their_number(tmp_path: Path) -> None:
    async with served(tmp_path, Greeter()) as server, server.client() as client:
        uri = await greeted(client)
        with pytest.raises(MCPError, match="1 to 1"):
            await client.read_resource(f"{uri}/result/2")


async def test_an_agent_whose_name_is_no_address_is_found_all_the_same(tmp_path: Path) -> None:
    odd = agent(name="Ä / B", description="Odd")(type("Odd", (Greeter,), {}))()
    async with served(tmp_path, odd) as server, server.client() as client:
        uri = (await client.list_resources()).resources[0].uri
        assert (await read(client, uri))["name"] == "Ä / B"
