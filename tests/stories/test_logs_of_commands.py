"""The log in `run`, `chat` and `shell`: as the settings say, and silent where they say nothing."""

import json
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command, home, program
from tests.stories.servers import running, workspace

__all__ = ["home", "program"]

FILES = {
    "agents/one.py": """
from dataclasses import dataclass

from goalport import ActionContext, UserInput, achieves_goal, action, agent
from goalport.chat import Conversation, chatbot
from goalport.models import UserMessage

@dataclass(frozen=True)
class Text:
    content: str

@agent(description="Says")
class Sayer:
    @achieves_goal(description="Say it")
    def say(self, user_input: UserInput) -> Text:
        return Text("said")

@chatbot(description="Talks")
class Talk:
    @action(trigger=UserMessage, can_rerun=True)
    async def respond(self, conversation: Conversation, context: ActionContext) -> None:
        await context.send_message("hello")
"""
}
COMMANDS = {"run": ("run", "say"), "chat": ("chat", "-m", "hello"), "shell": ("shell",)}
BEGINS = {"run": "Sayer", "chat": "Talk", "shell": "Sayer"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_logs_as_the_settings_say(tmp_path: Path, program: Command, command: str) -> None:
    def told(toml: str) -> str:
        folder = str(workspace(tmp_path, {**FILES, "server/settings.toml": toml}))
        extra = ("--input", '{"content": "x"}') if command == "run" else ()
        shell = """run say --input '{"content": "x"}'\n"""
        return program(*COMMANDS[command], *extra, "-w", folder, stdin=shell if command == "shell" else "").err

    begins = BEGINS[command]
    assert begins not in told("").replace("1/1", "").replace(f" {begins}.say", "").replace(f" {begins}.respond", "")
    debug = told('log_level = "debug"')
    assert f"{begins} begins for " in debug
    assert " DEBUG " in debug
    spoken = told('log_personality = "starwars"')
    assert f"A long time ago, {begins} answered a call from " in spoken
    lines = [each for each in told('log_level = "debug"\nlog_format = "json"').splitlines() if each.startswith("{")]
    assert any(f"{begins} begins for" in json.loads(each)["message"] for each in lines)


LOUD = """
import logging

from pydantic import BaseModel

from goalport import Export, achieves_goal, agent

logging.getLogger("goalport.server.doors.mcp.calls").setLevel("DEBUG")

class Number(BaseModel):
    value: int

@agent(description="Doubles")
class Doubler:
    @achieves_goal(description="Double it", export=Export(remote=True, name="double"))
    def double(self, number: Number) -> int:
        return 2 * number.value
"""


async def test_a_module_of_the_workspace_sets_the_level_of_one_logger(tmp_path: Path) -> None:
    async with running(tmp_path, {"agents/loud.py": LOUD}) as server, server.client("http", "auto") as client:
        await client.call_tool("double", {"values": 1})
        assert " DEBUG goalport.server.doors.mcp.calls " in await server.heard.until("double was refused: ")
