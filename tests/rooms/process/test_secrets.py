"""A process that holds a secret is stored where there is a key, and the secret is not in the file in clear."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel, SecretStr

from goalport import AgentPlatform, WaitFor, achieves_goal, action, agent
from goalport.base.errors import Unreadable
from goalport.base.sealing import ProcessSeals
from goalport.runtime.process import Completed
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.process.test_persistence import rested


class Login(BaseModel):
    user: str
    password: SecretStr


class Code(BaseModel):
    digits: SecretStr


@dataclass(frozen=True)
class Entered:
    by: str
    password: SecretStr


@agent(description="Opens a door with two secrets")
class Doorman:
    @action
    async def ask(self, login: Login) -> WaitFor[Code]:
        return WaitFor.form_submission(f"The code, {login.user}?", Code)

    @achieves_goal(description="Somebody came in")
    async def enter(self, login: Login, code: Code) -> Entered:
        assert code.digits.get_secret_value() == "0815-4711"
        return Entered(login.user, login.password)


LOGIN = Login(user="Lynda", password=SecretStr("hunter2-geheim"))


def platform(store: SqliteProcessStore, key: bytes | None) -> AgentPlatform:
    return AgentPlatform([Doorman()], store=store, seals=None if key is None else ProcessSeals(lambda: [key]))


def contents(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


async def test_another_platform_with_the_key_goes_on_with_the_secrets(tmp_path: Path) -> None:
    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        process = await rested(platform(store, b"k" * 32).start("Doorman", LOGIN))
        assert b"Lynda" in await asyncio.to_thread(contents, tmp_path)
        with anyio.fail_after(60):
            found = await platform(store, b"k" * 32).answer(process.id, response={"digits": "0815-4711"})
            assert found is not process
            assert await found.wait() == Completed(Entered("Lynda", SecretStr("hunter2-geheim")))
            await rested(found)
        again = await platform(store, b"k" * 32).process(process.id)
        assert again.outcome == found.outcome
    written = await asyncio.to_thread(contents, tmp_path)
    assert b"Lynda" in written
    assert b"geheim" not in written
    assert b"0815-4711" not in written


async def test_with_another_key_the_process_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        process = await rested(platform(store, b"k" * 32).start("Doorman", LOGIN))
        with pytest.raises(Unreadable, match=r"another key.*GOALPORT_STATE_KEYS"):
            await platform(store, b"x" * 32).process(process.id)
        assert (await platform(store, b"k" * 32).process(process.id)).open_questions


async def test_without_a_key_the_process_goes_on_and_is_not_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        door = platform(store, None)
        process = await rested(door.start("Doorman", LOGIN))
        with anyio.fail_after(60):
            found = await door.answer(process.id, response={"digits": "0815-4711"})
            assert await found.wait() == Completed(Entered("Lynda", SecretStr("hunter2-geheim")))
        assert not await store.records()
    assert "no key that encrypts it" in caplog.text
    assert "geheim" not in caplog.text
