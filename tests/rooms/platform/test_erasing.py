"""What one caller has left is erased, wherever it is kept, and what others have left is not."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import BadInput, UnknownName
from goalport.knowledge.rag import SqliteDocumentStore
from goalport.models.llm import UserMessage
from goalport.runtime.platform.erasure import Erased, caller_known_as
from goalport.runtime.process import Context
from goalport.store import InMemoryProcessStore, ProcessStore
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.store.sqlite import SqliteProcessStore
from tests.postgres import PostgresServer
from tests.rooms.chat.talkers import Parrot
from tests.rooms.rag.toy_documents import document

ADA, BOB = Caller("ada", "https://one"), Caller("bob", "https://one")
OTHER_ADA = Caller("ada", "https://other")
WORD = "Rumpelstiltskin"


@agent(description="Writes a long letter")
class Writer:
    @achieves_goal(description="A letter")
    @action
    async def write(self, text: UserInput) -> str:
        return text.content * 10_000


@agent(description="Asks before it writes")
class Asker:
    @action
    async def ask(self, text: UserInput) -> WaitFor[int]:
        return WaitFor.form_submission(f"How long shall {text.content} be?", int)

    @achieves_goal(description="A letter of a length")
    @action
    async def write(self, length: int, text: UserInput) -> str:
        return text.content[:length]


@agent(description="Never ends by itself")
class Endless:
    @achieves_goal(description="Nothing")
    @action
    async def think(self, text: UserInput, context: ActionContext) -> str:
        context.progress(text.content)
        await anyio.sleep_forever()
        return ""


KINDS = ("sqlite", "postgres", "memory")


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, kind: str) -> str:
    if kind != "postgres":
        return ""
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


@asynccontextmanager
async def opened(kind: str, url: str, folder: Path) -> AsyncGenerator[tuple[AgentPlatform, ProcessStore]]:
    """A platform that keeps processes in one of the stores, and documents in a file."""
    stores = {
        "sqlite": lambda: SqliteProcessStore(folder / "processes.db"),
        "postgres": lambda: PostgresProcessStore(url),
        "memory": InMemoryProcessStore,
    }
    store = stores[kind]()
    documents = SqliteDocumentStore(folder / "documents.db")
    platform = AgentPlatform([Writer, Asker, Endless, Parrot], store=store, documents=documents)
    async with platform, documents:
        yield platform, store
        await platform.aclose()
        if not isinstance(store, InMemoryProcessStore):
            await store.close()


async def live_for(platform: AgentPlatform, caller: Caller, word: str) -> None:
    """Leave something of each kind."""
    letter = await platform.start_stored(
        "Writer", UserInput(word), once=(f"key of {caller}", "-"), keep_events=False, caller=caller
    )
    assert letter is not None
    await letter.wait()
    waiting = await platform.start_stored("Asker", UserInput(word), caller=caller)
    assert waiting is not None
    await waiting.wait()
    endless = await platform.start_stored("Endless", UserInput(word), caller=caller)
    assert endless is not None
    session = await platform.chatbots["Parrot"].create_session(caller)
    await session.on_user_message(UserMessage(word))
    context = Context("notes", caller)
    context.add(UserInput(word))
    await platform.contexts.save(context)
    uri = f"{caller.issuer}/{caller.id}.md"
    await platform.documents.put(*document(uri, {"Note": "A note"}), readers=[caller, "staff"])


def said_in(folder: Path, words: bytes) -> list[str]:
    """The files in which something is said, also those without a name that this program has open."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    opened_here = [each for each in Path("/proc/self/fd").iterdir() if str(folder) in str(each.resolve())]
    return [str(each) for each in (*files, *opened_here) if words in each.read_bytes()]


LEFT = Erased(conversations=1, processes=4, contexts=1, documents=1, sign_ins=0)
NOTHING = Erased(0, 0, 0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_all_that_one_caller_has_left_is_erased(kind: str, postgres_url: str, tmp_path: Path) -> None:
    async with opened(kind, postgres_url, tmp_path) as (platform, store):
        await live_for(platform, ADA, WORD)
        for each in (BOB, OTHER_ADA, ANONYMOUS):
            await live_for(platform, each, "other words")
        assert await platform.erase(ADA, dry_run=True) == LEFT
        processes = [each.id for each in await store.records(caller=ADA)]
        assert kind != "sqlite" or said_in(tmp_path, WORD.encode())
        with anyio.fail_after(60):
            assert await platform.erase(ADA) == LEFT

        assert await platform.erase(ADA, dry_run=True) == NOTHING
        assert not [each for each in await store.records() if each.caller.same_as(ADA)]
        for process in processes:
            with pytest.raises(UnknownName):
                await platform.process(process)
        for each in (BOB, OTHER_ADA, ANONYMOUS):
            assert await platform.erase(each, dry_run=True) == LEFT
        if kind == "sqlite":
            assert not said_in(tmp_path, WORD.encode())
            assert not said_in(tmp_path, b'"https://one", "ada"')
        assert await platform.erase(ANONYMOUS) == LEFT
        assert await platform.erase(ANONYMOUS, dry_run=True) == NOTHING


async def test_an_erased_idempotency_key_is_free_again(tmp_path: Path) -> None:
    async with opened("sqlite", "", tmp_path) as (platform, _):
        first = await platform.start_stored("Writer", UserInput(WORD), once=("key", "-"), keep_events=False, caller=ADA)
        assert first is not None
        await first.wait()
        await platform.erase(ADA)
        second = await platform.start_stored(
            "Writer", UserInput("other"), once=("key", "-"), keep_events=False, caller=ADA
        )
        assert second is not None
        assert second.id != first.id


async def test_of_several_callers_of_one_id_the_issuer_is_named(tmp_path: Path) -> None:
    async with opened("sqlite", "", tmp_path) as (platform, store):
        assert await caller_known_as("ada", None, store) == Caller("ada")
        await live_for(platform, ADA, WORD)
        assert await caller_known_as("ada", None, store) == ADA
        await live_for(platform, OTHER_ADA, WORD)
        with pytest.raises(BadInput, match="Name one of 'https://one', 'https://other'"):
            await caller_known_as("ada", None, store)
        assert await caller_known_as("ada", ADA.issuer, store) == ADA


async def test_what_another_program_runs_is_ended_and_erased(tmp_path: Path) -> None:
    async with opened("sqlite", "", tmp_path) as (here, _), opened("sqlite", "", tmp_path) as (elsewhere, store):
        running = await here.start_stored("Endless", UserInput(WORD), caller=ADA)
        assert running is not None
        with anyio.fail_after(60):
            assert (await elsewhere.erase(ADA)).processes == 1
            assert (await running.wait()).status == "killed"
        assert await store.records() == []
