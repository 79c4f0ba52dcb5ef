"""A goal that is given a secret waits, the server is killed, and the next one has the secret; no file shows it."""

from pathlib import Path

import anyio

from tests.stories.servers import running
from tests.stories.test_surviving import call

DOORMAN = """
from pydantic import BaseModel, SecretStr
from goalport import Export, WaitFor, achieves_goal, action, agent

class Login(BaseModel):
    user: str
    password: SecretStr

class Code(BaseModel):
    digits: str

class Entered(BaseModel):
    content: str

@agent(description="Opens a door")
class Doorman:
    @action
    def ask(self, login: Login) -> WaitFor[Code]:
        return WaitFor.form_submission("The code?", Code)

    @achieves_goal(description="Somebody came in", export=Export(remote=True, name="enter"))
    def enter(self, login: Login, code: Code) -> Entered:
        letters = len(login.password.get_secret_value())
        return Entered(content=f"{login.user}, {letters} letters, {code.digits}")
"""
FILES = {"agents/doormen.py": DOORMAN}


async def contents(folder: Path) -> bytes:
    return b"".join([await each.read_bytes() async for each in anyio.Path(folder).rglob("*") if await each.is_file()])


async def test_a_secret_survives_a_killed_server_with_its_key_and_is_refused_with_another(tmp_path: Path) -> None:
    login = {"user": "Lynda", "password": "hunter2-geheim"}
    async with running(tmp_path, FILES, store="sqlite") as first:
        async with first.client("http", "legacy") as client:
            handle = (await call(client, "enter", **login)).structured_content
        assert handle is not None
        first.process.kill()
        await first.process.wait()
    written = await contents(tmp_path / ".goalport")
    assert b"Lynda" in written
    assert b"geheim" not in written
    answer = {"processId": handle["processId"], "answer": {"digits": "4711"}}
    async with running(tmp_path, {}, store="sqlite", state_keys="another" * 8) as second:
        async with second.client("http", "legacy") as client:
            refused = await call(client, "process_answer", **answer)
        assert refused.is_error
        assert "sealed with another key" in str(refused.content)
        assert "GOALPORT_STATE_KEYS" in str(refused.content)
    async with running(tmp_path, {}, store="sqlite") as third, third.client("http", "legacy") as client:
        result = await call(client, "process_answer", **answer)
        assert result.structured_content == {"content": "Lynda, 14 letters, 4711"}
    assert b"geheim" not in await contents(tmp_path / ".goalport")
