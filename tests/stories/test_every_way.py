"""One goal, from its class to a client, over every transport in both eras of the protocol."""

import json

import jsonschema
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent, TextResourceContents

from tests.stories.servers import WAYS, Heard

FILES = {
    "agents/poet.py": """
from typing import Literal
from pydantic import BaseModel, Field
from goalport import ActionContext, Export, achieves_goal, action, agent

class Theme(BaseModel):
    topic: str = Field(description="What to write about")
    mood: Literal["glad", "sad"] = "glad"
    verses: int = Field(default=2, ge=1, le=9)

class Rhymes(BaseModel):
    words: list[str]

class Poem(BaseModel):
    content: str
    verses: int

@agent(description="Writes poems")
class Poet:
    @action
    def find_rhymes(self, theme: Theme, context: ActionContext) -> Rhymes:
        print("looking for rhymes")
        context.progress("leafing through the dictionary")
        return Rhymes(words=[theme.topic] * theme.verses)

    @achieves_goal(
        description="A poem about a topic",
        export=Export(remote=True, name="write_poem", starting_input_types=[Theme], read_only=True),
    )
    @action
    async def write(self, rhymes: Rhymes) -> Poem:
        if rhymes.words == ["nothing"]:
            raise ValueError("there is nothing to say")
        return Poem(content=" / ".join(rhymes.words), verses=len(rhymes.words))

poet = Poet()
""",
    "tools/counting.py": """
from goalport import tool

@tool(export=True)
def count_letters(text: str) -> int:
    '''Count the letters of a text.'''
    return len(text)
""",
    "tools/library.py": """
from pathlib import Path
from goalport import tool
from goalport.knowledge import DocumentIngestion, SqliteDocumentStore, ToolishRag
from goalport.knowledge import Skills
from goalport.tools import McpToolExport

ROOT = Path(__file__).parent.parent
letters = SqliteDocumentStore()
style = Skills("style", "How we write").with_local_skills(ROOT / "skills")
library = McpToolExport.from_llm_references([ToolishRag("letters", "Old letters", letters), style])

@tool(export=True)
async def take_in_letters() -> str:
    '''Take in the letters that came.'''
    async with DocumentIngestion(letters) as ingestion:
        return str(len(await ingestion.ingest(ROOT / "letters")))
""",
    "letters/byron.md": "# Lord Byron\n\nIt rhymes badly, but it rhymes.\n",
    "skills/rhyming/SKILL.md": "---\nname: rhyming\ndescription: For verses.\n---\nRhyme every second line.\n",
}
OF_LETTERS = ["broadenChunk", "listSections", "readSection", "regexSearch", "textSearch", "zoomOut"]
OF_SKILLS = ["activate", "listResources", "readResource"]


@pytest.mark.parametrize(("transport", "era"), WAYS)
async def test_a_goal_is_listed_called_and_read_about(connection: tuple[Client, Heard]) -> None:
    client, heard = connection
    await _lists(client)
    await _call_with_progress(client)
    await _mistakes(client)
    await _prompt(client)
    await _documents_and_skills(client)
    assert "write_poem" in heard.text
    await heard.until("ValueError: there is nothing to say")


async def _lists(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [
        "count_letters",
        "helloBanner",
        *(f"letters_{each}" for each in OF_LETTERS),
        "process_result",
        *(f"style_{each}" for each in OF_SKILLS),
        "take_in_letters",
        "write_poem",
    ]
    assert tools["write_poem"].input_schema["properties"]["mood"]["enum"] == ["glad", "sad"]
    assert tools["write_poem"].annotations is not None
    assert tools["write_poem"].annotations.read_only_hint
    banner = await client.call_tool("helloBanner", {})
    assert len(json.loads(_text(banner))["lines"]) == 6


async def _call_with_progress(client: Client) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    result = await client.call_tool("write_poem", {"topic": "rain"}, progress_callback=note)
    assert _text(result) == "rain / rain"
    assert result.structured_content == {"content": "rain / rain", "verses": 2}
    tool = next(tool for tool in (await client.list_tools()).tools if tool.name == "write_poem")
    assert tool.output_schema is not None
    jsonschema.validate(result.structured_content, tool.output_schema)
    assert result.meta is not None
    begun = f"process {result.meta['goalport/processId']} begins"
    assert [message for _, _, message in told][:3] == [begun, "leafing through the dictionary", "1/2 find_rhymes"]
    assert [progress for progress, _, _ in told] == sorted({progress for progress, _, _ in told})
    content = (await client.read_resource(f"goalport://processes/{result.meta['goalport/processId']}")).contents[0]
    assert isinstance(content, TextResourceContents)
    assert json.loads(content.text)["status"] == "completed"


async def _mistakes(client: Client) -> None:
    bad = await client.call_tool("write_poem", {"topik": "rain", "verses": 20})
    assert bad.is_error
    assert "topik: unknown. Did you mean 'topic'?" in _text(bad)
    failed = await client.call_tool("write_poem", {"topic": "nothing", "verses": 1})
    assert failed.is_error
    assert "Poet.write failed: ValueError (the server's log has it" in _text(failed)
    assert "there is nothing to say" not in _text(failed)
    with pytest.raises(MCPError) as caught:
        await client.call_tool("write_pome", {})
    assert caught.value.code == INVALID_PARAMS
    assert _text(await client.call_tool("count_letters", {"text": "rain"})) == "4"


async def _prompt(client: Client) -> None:
    message = (await client.get_prompt("write_poem", {"topic": "rain", "verses": "3"})).messages[0].content
    assert isinstance(message, TextContent)
    assert "- topic: rain\n- verses: 3" in message.text


async def _documents_and_skills(client: Client) -> None:
    assert _text(await client.call_tool("take_in_letters", {})) == "1"
    found = _text(await client.call_tool("letters_textSearch", {"query": "rhymes", "topK": 1}))
    uri = found.partition('resource="')[2].partition('"')[0]
    assert await _read(client, uri) == "# Lord Byron\n\nIt rhymes badly, but it rhymes."
    listed = {each.name: each.uri for each in (await client.list_resources()).resources}
    assert await _read(client, listed["Lord Byron"]) == "# Lord Byron\n\nIt rhymes badly, but it rhymes."
    assert await _read(client, listed["rhyming"]) == FILES["skills/rhyming/SKILL.md"]


async def _read(client: Client, uri: str) -> str:
    content = (await client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    return content.text


def _text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))
