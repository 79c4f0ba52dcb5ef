"""Services of a workspace, and what extends goalport there: found, made once, injected, entered and left."""

import signal
from pathlib import Path

import anyio
import pytest

from tests.rooms.cli.conftest import Command, home, program
from tests.stories.servers import running, workspace
from tests.stories.test_shutdown import text_of

__all__ = ["home", "program"]

SHOP = """
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import BaseModel

from goalport import service, settings

def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

@settings("shop")
class ShopSettings(BaseModel):
    town: str = "Ulm"

class Prices(Protocol):
    def price(self, sku: str) -> int: ...

@dataclass
class Line:
    town: str
    calls: list[str] = field(default_factory=list)

@dataclass
class LinePrices(Prices):
    line: Line

    def price(self, sku: str) -> int:
        self.line.calls.append(sku)
        return len(self.line.calls)

@service
async def line(settings: ShopSettings) -> AsyncIterator[Line]:
    note("the line opens")
    yield Line(settings.town)
    note("the line closes")

@service
def prices(line: Line) -> Iterator[Prices]:
    note("the prices are there")
    yield LinePrices(line)
    note("the prices are gone")

@service
class Clerk:
    made = 0

    def __init__(self, settings: ShopSettings) -> None:
        Clerk.made += 1
        self.name = f"clerk {Clerk.made} of {settings.town}"
"""
SELLER = """
from dataclasses import dataclass

from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent, condition
from goalport.chat import Conversation, chatbot
from goalport.models import UserMessage
from goalport_workspace.server.shop import Clerk, Line, Prices

@dataclass(frozen=True)
class Offer:
    content: str

@agent(description="Sells")
class Seller:
    def __init__(self, prices: Prices, clerk: Clerk, discount: int = 0) -> None:
        self.prices, self.clerk = prices, clerk

    @condition
    def open(self, clerk: Clerk, line: Line) -> bool:
        return clerk is self.clerk and line is self.prices.line

    @achieves_goal(description="Make an offer", export=Export(remote=True, name="offer"))
    @action(pre=["open"])
    async def offer(self, user_input: UserInput, prices: Prices) -> Offer:
        assert prices is self.prices
        return Offer(f"{self.clerk.name}: {prices.price(user_input.content)}")

@chatbot(description="Talks")
class Talk:
    @action(trigger=UserMessage, can_rerun=True)
    async def respond(self, conversation: Conversation, line: Line, context: ActionContext) -> None:
        await context.send_message(f"the line of {line.town}")
"""
TILL = """
from typing import Annotated

from goalport import Provided, tool
from goalport_workspace.server.shop import Clerk, Line, ShopSettings

@tool(export=True)
async def where(street: str, line: Annotated[Line, Provided], clerk: Clerk, settings: ShopSettings) -> str:
    return f"{street} in {line.town}, {clerk.name}, {settings.town}"
"""
FILES = {"server/shop.py": SHOP, "agents/seller.py": SELLER, "server/settings.toml": '[shop]\ntown = "Bonn"\n'}
LEFT = ["the line opens", "the prices are there", "the prices are gone", "the line closes"]


def notes(text: str) -> list[str]:
    return [each for each in text.splitlines() if each.startswith("the ")]


async def test_they_are_entered_when_first_needed_and_left_when_the_server_stops(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as server:
        assert notes(server.heard.text) == []
        async with server.client("http", "auto") as client:
            told = [text_of(await client.call_tool("offer", {"content": "x"})) for _ in range(2)]
            assert told == ["clerk 1 of Bonn: 1", "clerk 1 of Bonn: 2"]
        assert notes(server.heard.text) == LEFT[:2]
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            assert await server.process.wait() == 0
        await server.heard.until(LEFT[-1])
        assert notes(server.heard.text) == LEFT


async def test_a_published_tool_is_given_them_and_clients_do_not_see_them(tmp_path: Path) -> None:
    async with running(tmp_path, {**FILES, "tools/till.py": TILL}) as server, server.client("http", "auto") as client:
        found = {each.name: each for each in (await client.list_tools()).tools}["where"]
        assert list(found.input_schema["properties"]) == ["street"]
        told = text_of(await client.call_tool("where", {"street": "Till Lane"}))
        assert (told, notes(server.heard.text)) == ("Till Lane in Bonn, clerk 1 of Bonn, Bonn", LEFT[:1])


async def test_at_reload_those_of_the_old_workspace_are_left(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, "--reload") as server, server.client("http", "auto") as client:
        await client.call_tool("offer", {"content": "x"})
        (tmp_path / "server/shop.py").write_text(SHOP.replace("the line", "the new line"))
        await server.heard.until("Loaded the workspace anew")
        await server.heard.until(LEFT[-1])
        assert text_of(await client.call_tool("offer", {"content": "x"})).endswith("of Bonn: 1")
        assert notes(server.heard.text) == [*LEFT, "the new line opens", "the prices are there"]


def test_run_and_chat_leave_them_too_and_check_enters_none(tmp_path: Path, program: Command) -> None:
    folder = str(workspace(tmp_path, FILES))

    ran = program("run", "offer", "--input", '{"content": "x"}', "-w", folder)
    assert (ran.out.strip(), notes(ran.err)) == ("clerk 1 of Bonn: 1", LEFT)
    talked = program("chat", "-m", "hello", "-w", folder)
    assert ("the line of Bonn" in talked.out, notes(talked.err)) == (True, [LEFT[0], LEFT[-1]])
    checked = program("check", "-w", folder)
    assert ("0 problems" in checked.out or "nothing is wrong" in checked.out, notes(checked.err)) == (True, [])
    assert "offer" in program("plan", "offer", "-w", folder).out


BEGIN = """from collections.abc import AsyncIterator
from goalport import UserInput, achieves_goal, agent, service
from goalport.workspace import guard, listener, ranker

class Answer(str): ...

class Beta: ...
"""
AGENT = """
@agent(description="A")
class Asker:
    @achieves_goal(description="Ask")
    def ask(self, user_input: UserInput, alpha: Alpha) -> Answer:
        return Answer("asked")
"""
PROBLEMS = {
    "a circle": (
        "@service\nclass Alpha:\n    def __init__(self, b: Beta): ...\n\n@service\ndef beta(a: Alpha) -> Beta: ...\n",
        "one.py:9: Alpha, which needs {file}:13: beta, which needs {file}:9: Alpha: a circle.",
    ),
    "two of one type": (
        "@service\nclass Alpha: ...\n\n@service\ndef alpha() -> Alpha:\n    return Alpha()\n",
        "one.py:12: alpha gives a Alpha, as does {file}:9: Alpha, which is used.",
    ),
    "what nothing gives": (
        "class Gone: ...\n\n@service\nclass Alpha:\n    def __init__(self, gone: Gone) -> None: ...\n",
        "one.py:11: Alpha needs Gone for 'gone', which nothing gives. Mark what does with @service",
    ),
    "no annotation": ("@service\ndef alpha():\n    return 1\n", "alpha ({file}:9)"),
    "a listener that hears nothing": ("@listener\nclass Deaf: ...\n", "one.py:9: Deaf is a listener, but lacks on_ev"),
    "a guard that has to be entered": (
        "@guard\nasync def late() -> AsyncIterator[Answer]:\n    yield Answer()\n",
        "one.py:9: late is made when the workspace is loaded, so neither it nor what it needs can be entered",
    ),
    "a ranker that fails": (
        "@ranker\nclass Broken:\n    def __init__(self) -> None:\n        raise ValueError('no luck')\n",
        "one.py:9: Broken could not be made: ValueError: no luck, in line 12.",
    ),
    "parentheses": (
        "@service()\nclass Alpha: ...\n",
        "@service takes no arguments. Write it without parentheses.",
    ),
    "a class without a mark": (
        f"class Alpha: ...\n{AGENT}    def __init__(self, alpha: Alpha) -> None: ...\n",
        "'alpha'. Deploy an instance: `asker = Asker(…)`, or mark with @service or @settings what gives it.",
    ),
    "an object": ("service(3)\n", "@service marks classes and functions, but came to 3."),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_what_is_wrong_with_one_is_told_with_file_and_line(tmp_path: Path, program: Command, case: str) -> None:
    text, told = PROBLEMS[case]
    folder = workspace(tmp_path, {"agents/one.py": BEGIN + "\n" + text})

    checked = program("check", "-w", str(folder))

    assert told.format(file=folder / "agents/one.py") in checked.out
    assert checked.code == 1


@pytest.mark.parametrize(
    "text",
    [
        "@service\nclass Alpha:\n    def __init__(self) -> None:\n        raise ValueError('no luck')\n",
        "class Alpha: ...\n\n@service\nasync def alpha() -> Alpha:\n    raise ValueError('no luck')\n",
    ],
)
def test_one_that_fails_to_start_is_told_where_it_is_needed(tmp_path: Path, program: Command, text: str) -> None:
    folder = str(workspace(tmp_path, {"agents/one.py": f"{BEGIN}\n{text}{AGENT}"}))

    ran = program("run", "hello", "-w", folder)

    assert "could not be made: ValueError: no luck, in line 1" in ran.err
    assert "agents/one.py:" in ran.err


@pytest.mark.parametrize("way", ["def", "async def"])
def test_one_that_gives_none_is_told_so(tmp_path: Path, program: Command, way: str) -> None:
    text = f"{BEGIN}\nclass Alpha: ...\n\n@service\n{way} alpha() -> Alpha:\n    Alpha()\n{AGENT}"

    ran = program("run", "hello", "-w", str(workspace(tmp_path, {"agents/one.py": text})))

    assert "alpha could not be made: TypeError: it gives None, and not a Alpha." in ran.err


def test_one_that_does_not_end_is_cancelled_and_the_result_is_there(tmp_path: Path, program: Command) -> None:
    begin = BEGIN.replace("class Answer(str): ...", "class Answer(BaseModel):\n    content: str")
    agent = AGENT.replace('Answer("asked")', 'Answer(content="asked")')
    text = f"""import asyncio\nfrom pydantic import BaseModel\n{begin}
class Alpha: ...

@service
async def alpha() -> AsyncIterator[Alpha]:
    yield Alpha()
    await asyncio.Event().wait()
{agent}"""
    files = {"agents/one.py": text, "server/settings.toml": "shutdown_seconds = 0"}

    ran = program("run", "hello", "-w", str(workspace(tmp_path, files)))

    assert (ran.code, ran.out.strip()) == (0, "asked")
    assert "alpha did not end within 1 seconds, and is cancelled." in ran.err


def test_a_service_that_an_agent_misses_is_asked_for_in_words_that_a_workspace_can_follow(
    tmp_path: Path, program: Command
) -> None:
    lacking = AGENT.replace("alpha: Alpha", "alpha: Annotated[Alpha, Provided]")
    text = f"from typing import Annotated\nfrom goalport import Provided\n{BEGIN}\nclass Alpha: ...\n{lacking}"

    checked = program("check", "-w", str(workspace(tmp_path, {"agents/one.py": text})))

    assert "Give one: mark it with @service in a workspace" in checked.out


EXTENSIONS = """
import inspect
import sys
from collections.abc import Mapping, Sequence

from goalport import ActionContext, service
from goalport.runtime import Objection
from goalport.runtime import Candidate
from goalport.events import ActionFinished, Event
from goalport.workspace import argument_resolver, guard, listener, ranker

@service
class Diary:
    lines: list[str] = []

@listener
class Durations:
    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    def on_event(self, event: Event, /) -> None:
        if isinstance(event, ActionFinished):
            self.diary.lines.append(event.action)
            print("heard", self.diary.lines, file=sys.stderr, flush=True)

@guard
class Polite:
    def check_input(self, text: str, /) -> Objection | None:
        return Objection("It is rude") if "rude" in text else None

    def check_output(self, text: str, /) -> Objection | None:
        return None

class Tenant(str): ...

@argument_resolver
class Tenants:
    def supports(self, parameter: inspect.Parameter, /) -> bool:
        return parameter.annotation is Tenant

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        return Tenant("house")

@ranker
class Longest:
    async def rank(self, candidates: Sequence[Candidate], intent: str, /) -> Mapping[str, float]:
        return {each.name: 0.9 if each.name in intent else 0.1 for each in candidates}
"""
TELLERS = """
from dataclasses import dataclass

from goalport import Ai, UserInput, achieves_goal, agent
from goalport.models import AssistantMessage, ModelCard, ModelReply, TokenUsage
from goalport_workspace.tools.extensions import Tenant

class House:
    card = ModelCard(name="house", provider="own")

    async def reply(self, call, /):
        return ModelReply(message=AssistantMessage("told"), usage=TokenUsage())

    async def stream(self, call, /):
        yield await self.reply(call)

house = House()

@dataclass(frozen=True)
class One:
    content: str

@dataclass(frozen=True)
class Two:
    content: str

@agent(description="Says who lives here")
class Lodger:
    @achieves_goal(description="Say who lives here")
    def say(self, user_input: UserInput, tenant: Tenant) -> One:
        return One(f"{tenant} lives here")

@agent(description="Asks a model")
class Teller:
    @achieves_goal(description="Ask")
    async def tell(self, user_input: UserInput, ai: Ai) -> Two:
        return Two(await ai.generate_text(user_input.content))
"""


def test_listeners_guards_resolvers_and_a_ranker_are_found_and_used(tmp_path: Path, program: Command) -> None:
    folder = str(workspace(tmp_path, {"tools/extensions.py": EXTENSIONS, "agents/tellers.py": TELLERS}))

    lodging = program("run", "Lodger please", "-w", folder)
    assert (lodging.out.strip(), "heard ['Lodger.say']" in lodging.err) == ("house lives here", True)
    assert program("run", "Teller, be kind", "-w", folder).out.strip() == "told"
    assert "It is rude" in program("run", "Teller, be rude", "-w", folder).err
