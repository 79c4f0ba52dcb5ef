"""Talking where no chatbot is declared: each message goes to the agent that fits it best, over every door."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from anyio.to_thread import run_sync
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from tests.programs import ran
from tests.stories.servers import running, workspace

TRADES = """
from dataclasses import dataclass

from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent
from goalport.testing import ScriptedModel


@dataclass(frozen=True)
class Taste:
    sweet: bool


@dataclass(frozen=True)
class Cake:
    content: str


@dataclass(frozen=True)
class Song:
    title: str


@dataclass(frozen=True)
class Alarm:
    content: str


@agent(description="Bakes")
class Baker:
    @achieves_goal(description="Bake a cake", export=Export(remote=True, name="bake"))
    @action
    async def bake(self, user_input: UserInput, context: ActionContext) -> Cake:
        taste = await context.ask("How shall it taste?", Taste)
        return Cake(f"A {'sweet' if taste.sweet else 'salty'} cake.")


@agent(description="Sings")
class Singer:
    @achieves_goal(description="Sing a song", export=Export(remote=True, name="sing"))
    @action
    def sing(self, user_input: UserInput) -> Song:
        return Song(user_input.content)


@agent(description="Sweeps, and tells no client of it")
class Sweeper:
    @achieves_goal(description="Sweep the floor")
    @action
    def sweep(self, user_input: UserInput) -> None:
        return None


@agent(description="Rings a bell as soon as it can")
class Bell:
    @achieves_goal(description="Ring the bell")
    @action
    def ring(self) -> Alarm:
        return Alarm("Ding!")


FITS = {"cake": ("Baker", "bake"), "sing": ("Singer", "sing"), "sweep": ("Sweeper", "sweep")}


def says(call):
    listing, _, asked = call.messages[-1].content.rpartition("<request>")
    said = [each.content for each in call.messages[:-1]]
    if "again" in asked:  # what it means is in the messages before
        asked = next(each for each in reversed(said) if "cake" in each or "sing" in each)
    names = [name for word, names in FITS.items() if word in asked for name in names if f"- {name}:" in listing]
    return {"ratings": [{"name": each, "confidence": 0.9} for each in names[:1]]}


model = ScriptedModel([says] * 50)
"""
GREETER = """
from goalport import ActionContext, Blackboard, UserInput, achieves_goal, action, agent, component, cost
from goalport.models import UserMessage


@agent(description="Sings")
class Singer:
    @achieves_goal(description="Sing a song")
    def sing(self, user_input: UserInput) -> str:
        return "La la la"


@component
class Greeter:
    @cost
    def dynamic(self, board: Blackboard) -> float:
        return 100 if len(board.objects) > 5 else 10

    @action(trigger=UserMessage, can_rerun=True, cost_method="dynamic")
    async def greet(self, message: UserMessage, context: ActionContext) -> None:
        await context.send_message(f"Hello! You said: {message.content}")
"""
FILES = {"agents/trades.py": TRADES}
NOTHING_FITS = "No agent fits well enough."


async def goalport(*arguments: str, root: Path, typed: str = "", **settings: str) -> list[str]:
    """The lines that the program prints."""
    environment: Mapping[str, str] = {**os.environ, "HOME": str(root), "NO_COLOR": "1", **settings}
    said = await run_sync(partial(ran, arguments, environment, root, typed=typed))
    return [each for each in said.stdout.splitlines() if each]


async def test_messages_go_to_agents_their_questions_and_results_into_the_conversation(tmp_path: Path) -> None:
    workspace(tmp_path, FILES)
    typed = 'bake a cake\n/answer {"sweet": false}\nsweep here\nwhat is love\n'
    assert [each.partition(" The")[0] for each in await goalport("chat", root=tmp_path, typed=typed)] == [
        "How shall it taste?",
        "A salty cake.",
        "Done.",
        NOTHING_FITS,
    ]
    said = ("chat", "--continue", "-m", "sing something", "-m", "once again")
    assert await goalport(*said, root=tmp_path) == ['{"title":"sing something"}', '{"title":"once again"}']
    listed = await goalport("conversations", "list", root=tmp_path)
    told = await goalport("conversations", "show", listed[1].partition("\t")[0], root=tmp_path)
    assert [each for each in told if not each.startswith(("#", "**", "With"))][:4] == [
        "bake a cake",
        "A salty cake.",
        "sweep here",
        "Done.",
    ]


async def test_in_open_mode_the_goal_is_chosen(tmp_path: Path) -> None:
    workspace(tmp_path, FILES)
    settings = {"GOALPORT_FRONT_TOOL": "open"}
    said = ("chat", "-m", "sing something", "-m", "what is love")
    printed = await goalport(*said, root=tmp_path, **settings)
    assert printed[0] == '{"title":"sing something"}'
    assert printed[1].startswith("No goal fits well enough. The nearest are")


async def test_an_action_that_reacts_to_messages_goes_first_whatever_it_costs(tmp_path: Path) -> None:
    workspace(tmp_path, {"agents/greeter.py": GREETER})
    said = await goalport("chat", "-m", "sing to me", root=tmp_path, GOALPORT_CHATBOT="all")
    assert said == ["Hello! You said: sing to me"]


async def test_a_chatbot_of_the_settings_does_so_over_every_door(tmp_path: Path) -> None:
    workspace(tmp_path, FILES)
    (begun,) = await goalport("chat", "-m", "sing to me", root=tmp_path)
    listed = await goalport("conversations", "list", root=tmp_path)
    known = listed[1].partition("\t")[0]
    assert begun == '{"title":"sing to me"}'

    async def sweet(_: ClientRequestContext, asked: ElicitRequestParams) -> ElicitResult:
        assert isinstance(asked, ElicitRequestFormParams)
        return ElicitResult(action="accept", content={"sweet": True})

    async with running(tmp_path, {}, chatbot="all", store="sqlite") as server:
        async with server.client("http", "auto", elicitation_callback=sweet) as client:
            again = {"message": "and again", "conversationId": known}
            assert _reply(await client.call_tool("chat_all", again)) == '{"title":"and again"}'
            asking = {"message": "a cake please", "conversationId": known}
            assert _reply(await client.call_tool("chat_all", asking)) == "A sweet cake."
            assert _reply(await client.call_tool("chat_all", {"message": "sweep"})).startswith(NOTHING_FITS)
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as http:
            asked = {"model": "all", "messages": [{"role": "user", "content": "sing for openai"}]}
            completed = (await http.post("/v1/chat/completions", json=asked)).json()
            assert completed["choices"][0]["message"]["content"] == '{"title":"sing for openai"}'
        at = ("chat", "all", "--server", server.address)
        assert await goalport(*at, "-m", "sing over ag-ui", root=tmp_path) == ['{"title":"sing over ag-ui"}']
        told = await goalport("conversations", "show", known, root=tmp_path)
    assert told[-1] == "A sweet cake."


def _reply(result: CallToolResult) -> str:
    assert not result.is_error, result
    said: Any = result.structured_content
    return said["reply"]
