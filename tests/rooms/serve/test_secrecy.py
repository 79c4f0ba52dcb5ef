"""What unexpected exceptions say stays in the log, and secrets that the server knows are shown nowhere."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents
from pydantic import BaseModel

from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent, run_subagent
from goalport.agents.domain import RetryPolicy
from goalport.base.errors import NonRetryable, Retryable
from goalport.base.events import Event
from goalport.base.observe import as_json
from tests.rooms.serve.askers import call
from tests.rooms.serve.served import ERAS, Served, served, text_of

EACH_ERA = pytest.mark.parametrize("era", ERAS)
SECRET = "postgres-pass-4711-word"
DATABASE = f"postgres://svc:{SECRET}@db.example.com/prod"


class Row(BaseModel):
    content: str


class Sum(BaseModel):
    content: str


@agent(description="Reads rows")
class Reader:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    @achieves_goal(description="A row", export=Export(remote=True, name="read_row", long=False))
    @action(retry=RetryPolicy(attempts=1))
    async def read(self, user_input: UserInput) -> Row:
        raise self.error


@agent(description="Asks the reader")
class Asker:
    @achieves_goal(description="A sum", export=Export(remote=True, name="add_up", long=False))
    @action(retry=RetryPolicy(attempts=1))
    async def add(self, user_input: UserInput) -> Sum:
        return Sum(content=(await run_subagent("Reader", Row, user_input)).content)


class Teller:
    """Keeps what events say."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_event(self, event: Event) -> None:
        self.told.append(json.dumps(as_json(event)))


async def state_of(client: Client, process: str) -> str:
    contents = (await client.read_resource(f"goalport://processes/{process}")).contents
    return "".join(each.text for each in contents if isinstance(each, TextResourceContents))


@EACH_ERA
@pytest.mark.parametrize("goal", ["read_row", "add_up"])
async def test_of_an_unexpected_exception_a_client_sees_class_action_and_where_the_log_has_it(
    tmp_path: Path, era: str, goal: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    heard = Teller()
    async with served(tmp_path, Reader(ValueError("row 17 of table guests")), Asker()) as server:
        server.platform.subscribe(heard)
        async with server.client(era) as client:
            result = await call(client, goal, content="x")
            assert result.is_error
            assert result.meta is not None
            process = result.meta["goalport/processId"]
            seen = text_of(result) + await state_of(client, process) + "".join(heard.told)
    assert "guests" not in seen
    assert "Reader.read failed: ValueError" in text_of(result)
    found = re.search(r"under process ([\w-]+)\)", text_of(result))
    assert found is not None
    traced = next(each for each in caplog.records if each.exc_info and found[1] in each.getMessage())
    assert "row 17 of table guests" in caplog.text
    assert "Reader.read" in traced.getMessage()


async def test_what_a_step_says_that_tries_to_exit_stays_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with served(tmp_path, Reader(SystemExit("row 17 of table guests"))) as server, server.client() as client:
        text = text_of(await call(client, "read_row", content="x"))
    assert "Reader.read failed: It tried to exit the program (SystemExit)." in text
    assert "guests" not in text
    assert "SystemExit: row 17 of table guests" in caplog.text


@pytest.mark.parametrize("error", [NonRetryable("no rows are left"), Retryable("no rows are left")])
async def test_an_error_that_is_meant_for_people_is_told(tmp_path: Path, error: Exception) -> None:
    async with served(tmp_path, Reader(error)) as server, server.client() as client:
        assert "no rows are left" in text_of(await call(client, "read_row", content="x"))


async def test_a_setting_lets_clients_see_what_exceptions_say(tmp_path: Path) -> None:
    async with served(tmp_path, Reader(ValueError("row 17")), show_errors=True) as server, server.client() as client:
        assert "ValueError: row 17" in text_of(await call(client, "read_row", content="x"))


ODD = """
from goalport import tool
from goalport.server.doors.mcp import raw_tool, raw_prompt, raw_resource
from mcp_types import Prompt, Resource, Tool

@tool(export=True)
def divide(number: int) -> float:
    '''Divide.'''
    raise ValueError("row 17 of table guests")

async def broken(context, params):
    raise ValueError("row 17 of table guests")

raw = raw_tool(Tool(name="raw", input_schema={"type": "object"}), broken)
asking = raw_prompt(Prompt(name="asking"), broken)
page = raw_resource(Resource(uri="note://1", name="note"), broken)
"""


@EACH_ERA
async def test_what_tools_prompts_and_resources_raise_is_named_and_found_in_the_log(
    tmp_path: Path, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, files={"tools/odd.py": ODD}) as server, server.client(era) as client:
        said = [text_of(await call(client, name, **given)) for name, given in (("divide", {"number": 1}), ("raw", {}))]
        for asked in (client.get_prompt("asking"), client.read_resource("note://1")):
            with pytest.raises(MCPError) as broken:
                await asked
            said.append(str(broken.value))
    for text in said:
        assert "guests" not in text
        assert "ValueError" in text
        found = re.search(r"as error ([0-9a-f]{8})", text)
        assert found is not None
        traced = next(each for each in caplog.records if found[1] in each.getMessage())
        assert traced.exc_info
        assert "row 17 of table guests" in str(traced.exc_info[1])


@agent(description="Shows too much")
class Babbler:
    @achieves_goal(description="Talk", export=Export(remote=True, name="talk", long=False))
    @action(retry=RetryPolicy(attempts=1))
    async def talk(self, user_input: UserInput, context: ActionContext) -> Row:
        logging.getLogger("some.library").warning("connecting to %s", DATABASE)
        context.progress(f"asking {DATABASE}")
        if user_input.content == "fail":
            raise NonRetryable(f"cannot reach {DATABASE}") from OSError(DATABASE)
        return Row(content=f"asked {DATABASE}")


async def everything_of(server: Served, client: Client, said: str, caplog: pytest.LogCaptureFixture) -> str:
    heard, told = Teller(), list[str]()
    server.platform.subscribe(heard)

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    result: Any = await client.call_tool("talk", {"content": said}, progress_callback=note)
    state = await state_of(client, result.meta["goalport/processId"])
    return "\n".join([result.model_dump_json(), *told, *heard.told, state, caplog.text])


@EACH_ERA
@pytest.mark.parametrize("said", ["fail", "talk"])
@pytest.mark.parametrize("name", ["DATABASE_URL", "GUESTS_PASSWORD"])
async def test_a_secret_that_the_server_knows_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, era: str, said: str, name: str
) -> None:
    caplog.set_level(logging.DEBUG)
    if name == "DATABASE_URL":
        monkeypatch.setenv(name, DATABASE)
    else:
        (tmp_path / ".env").write_text(f"{name}={SECRET}\n")
    async with served(tmp_path, Babbler(), show_errors=True) as server, server.client(era) as client:
        shown = await everything_of(server, client, said, caplog)
    assert "db.example.com" in shown
    assert SECRET not in shown
    assert "connecting to postgres://" in caplog.text


@pytest.mark.parametrize(
    ("secret", "provider"),
    [
        ("house-key-of-the-settings", {"api_key": "house-key-of-the-settings"}),
        ("password-of-an-address", {"base_url": "http://svc:password-of-an-address@house/v1"}),
    ],
)
async def test_a_key_of_the_settings_is_hidden_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, secret: str, provider: dict[str, str]
) -> None:
    settings: dict[str, Any] = {"models": {"providers": {"openai": provider}}}
    error = NonRetryable(f"it said: {secret} is wrong")
    async with served(tmp_path, Reader(error), **settings) as server, server.client() as client:
        text = text_of(await call(client, "read_row", content="x"))
    assert "it said: *** is wrong" in text
    assert secret not in caplog.text


@pytest.mark.parametrize(
    "name", ["PGPASSWORD", "MYSQL_PWD", "SMTP_PASS", "GITHUB_PAT", "SECRET_KEY_BASE", "DATABASE_URL"]
)
async def test_secrets_of_the_environment_are_known_by_their_usual_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "postgres://svc:s%40cret-4711@db" if name == "DATABASE_URL" else "s@cret-4711")
    async with served(tmp_path, Reader(NonRetryable("it has s@cret-4711 in it"))) as server, server.client() as client:
        assert "it has *** in it" in text_of(await call(client, "read_row", content="x"))


@pytest.mark.parametrize(
    "said",
    [
        "postgres://svc:gues@ts@db",
        "password='the many guests'",
        '{"password": "many,guests"}',
        "eyJhbGciOiJIUzI1NiJ9.guests.guests",
    ],
)
async def test_what_looks_like_a_secret_is_hidden_to_its_end(tmp_path: Path, said: str) -> None:
    async with served(tmp_path, Reader(NonRetryable(f"with {said}, no rows"))) as server, server.client() as client:
        text = text_of(await call(client, "read_row", content="x"))
    assert "***" in text
    assert "ts" not in text.partition("with ")[2].partition(", no rows")[0]


async def test_words_and_short_values_of_the_environment_are_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MONKEY", "a-long-and-harmless-value"), ("USE_TOKEN", "yes"), ("SSL_KEY", str(tmp_path))):
        monkeypatch.setenv(name, value)
    error = NonRetryable(f"yes, a-long-and-harmless-value in {tmp_path}")
    async with served(tmp_path, Reader(error)) as server, server.client() as client:
        assert f"yes, a-long-and-harmless-value in {tmp_path}" in text_of(await call(client, "read_row", content="x"))
