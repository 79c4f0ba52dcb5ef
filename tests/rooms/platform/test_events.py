"""The events of a process can be read while it runs, later, by other programs, and from where a reader stopped."""

import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, Export, ProcessOptions, UserInput, achieves_goal, action, agent
from goalport.base.errors import HandedOver, UnknownName
from goalport.base.events import (
    ActionFinished,
    ActionStarted,
    Event,
    ModelReplied,
    ProcessCreated,
    ProcessFinished,
    ProgressUpdated,
)
from goalport.runtime.process import LoggedEvent
from goalport.store.database import DatabaseProcessStore
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel
from tests.postgres import PostgresServer

OpenStore = Callable[[], DatabaseProcessStore]


@dataclass(frozen=True)
class Draft:
    text: str


@dataclass(frozen=True)
class Story:
    text: str


@dataclass(frozen=True)
class Title:
    text: str


@agent(description="Finds titles")
class Titler:
    @achieves_goal(description="A title", export=Export(durable=True))
    async def find(self, user_input: UserInput, context: ActionContext) -> Title:
        context.progress("thinking of a title")
        return Title(f"On {user_input.content}")


@agent(description="Writes stories")
@dataclass
class Writer:
    may_go_on: anyio.Event = field(default_factory=anyio.Event)

    @action
    async def draft(self, user_input: UserInput, context: ActionContext) -> Draft:
        context.progress("sharpening the pencil")
        await self.may_go_on.wait()
        return Draft(user_input.content)

    @achieves_goal(description="A story", export=Export(durable=True))
    async def finish(self, draft: Draft, context: ActionContext) -> Story:
        title = await context.as_sub_process(Title, "Titler")
        return Story(f"{title.text}: {draft.text}")


@agent(description="Asks before it writes")
class Asker:
    @achieves_goal(description="An asked story", export=Export(durable=True))
    async def ask(self, user_input: UserInput, context: ActionContext) -> Story:
        return Story(await context.ask(f"What of {user_input.content}?", str))


@agent(description="Asks a model")
class Poet:
    @achieves_goal(description="A poem", export=Export(durable=True))
    async def write(self, user_input: UserInput, context: ActionContext) -> Story:
        return Story(await context.ai.generate_text(f"A poem of {user_input.content}"))


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if request.param == "sqlite":
        return lambda: SqliteProcessStore(tmp_path / "processes.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.database()
    return lambda: PostgresProcessStore(url)


async def until(events: AsyncGenerator[LoggedEvent], kind: type, found: list[LoggedEvent]) -> list[LoggedEvent]:
    """The events up to the first of a kind, added to those that were found."""
    with anyio.fail_after(120):
        async for each in events:
            found.append(each)
            if isinstance(each.event, kind):
                break
    return found


async def until_it_waits(platform: AgentPlatform, process_id: str) -> list[LoggedEvent]:
    async with aclosing(platform.events(process_id)) as events:
        return await until(events, ProcessFinished, [])


async def all_of(platform: AgentPlatform, process_id: str, after: int = 0) -> list[LoggedEvent]:
    with anyio.fail_after(120):
        return [each async for each in platform.events(process_id, after)]


def told(events: list[LoggedEvent]) -> list[str]:
    """What the events tell of actions and progress, in order."""
    found: list[str] = []
    for _, event in events:
        match event:
            case ProcessCreated(agent=name):
                found.append(f"{name} is created")
            case ActionStarted(action=name):
                found.append(f"{name} starts")
            case ActionFinished(action=name, status=status):
                found.append(f"{name} {status}")
            case ProgressUpdated(message=message):
                found.append(message)
            case ProcessFinished(status=status):
                found.append(status)
            case _:
                pass
    return found


COURSE = [
    *(
        "Writer is created",
        "Writer.draft starts",
        "sharpening the pencil",
        "Writer.draft succeeded",
        "Writer.finish starts",
    ),
    *("Titler is created", "Titler.find starts", "thinking of a title", "Titler.find succeeded", "completed"),
    *("Writer.finish succeeded", "completed"),
]


async def test_events_come_as_they_happen_with_those_of_sub_processes_and_end_with_the_process(
    open_store: OpenStore,
) -> None:
    writer = Writer()
    async with open_store() as store, AgentPlatform([writer, Titler], store=store) as platform:
        process = platform.start("Writer", UserInput("the sea"))
        async with aclosing(platform.events(process.id)) as events:
            found = await until(events, ProgressUpdated, [])
            writer.may_go_on.set()
            found += [each async for each in events]
        assert told(found) == COURSE
        numbers = [each.number for each in found]
        assert numbers == sorted(set(numbers))
        assert await all_of(platform, process.id) == found, "what is stored is what was told"


async def test_a_reader_that_comes_back_misses_no_event_and_gets_none_twice(open_store: OpenStore) -> None:
    writer = Writer()
    writer.may_go_on.set()
    async with open_store() as store, AgentPlatform([writer, Titler], store=store) as platform:
        process = platform.start("Writer", UserInput("the sea"))
        await process.wait()
        events = await all_of(platform, process.id)
        for place, (number, _) in enumerate(events, start=1):
            assert await all_of(platform, process.id, after=number) == events[place:]


async def test_another_program_reads_the_events_while_the_process_runs(open_store: OpenStore) -> None:
    writer = Writer()
    async with (
        open_store() as store,
        open_store() as other_store,
        AgentPlatform([writer, Titler], store=store) as here,
        AgentPlatform([Writer(), Titler], store=other_store) as elsewhere,
    ):
        process = here.start("Writer", UserInput("the sea"))
        with anyio.fail_after(120):
            while await store.find(process.id) is None:
                await anyio.sleep(0.01)
        async with aclosing(elsewhere.events(process.id)) as events:
            found = await until(events, ProgressUpdated, [])
            assert (await elsewhere.process(process.id)).status == "running"
            writer.may_go_on.set()
            with anyio.fail_after(120):
                found += [each async for each in events]
        assert told(found) == COURSE


async def test_the_program_that_goes_on_numbers_its_events_higher(open_store: OpenStore) -> None:
    async with open_store() as store, AgentPlatform([Asker], store=store) as first:
        process = first.start("Asker", UserInput("the sea"))
        await process.wait()
        before = await until_it_waits(first, process.id)
        process_id = process.id
        del process
    async with open_store() as store, AgentPlatform([Asker], store=store) as second:
        await second.answer(process_id, response="fish")
        after = await all_of(second, process_id, after=before[-1].number)
        assert told(after) == ["Asker.ask starts", "Asker.ask succeeded", "completed"]
        assert after[0].number > before[-1].number
        assert await all_of(second, process_id) == [*before, *after]


async def test_a_process_that_another_program_ends_keeps_the_events_from_before(open_store: OpenStore) -> None:
    async with (
        open_store() as store,
        open_store() as other_store,
        AgentPlatform([Asker], store=store) as here,
        AgentPlatform([Asker], store=other_store) as elsewhere,
    ):
        process = here.start("Asker", UserInput("the sea"))
        await process.wait()
        before = await until_it_waits(here, process.id)
        async with aclosing(elsewhere.events(process.id, before[-1].number)) as events:
            (await elsewhere.process(process.id)).kill()
            with anyio.fail_after(120):
                after = [each async for each in events]
        assert told(after) == ["killed"]
        for platform in (here, elsewhere):
            assert await all_of(platform, process.id) == [*before, *after]


async def test_the_events_of_a_process_in_memory_are_kept_if_its_options_say_so() -> None:
    writer = Writer()
    writer.may_go_on.set()
    async with AgentPlatform([writer, Titler]) as platform:
        process = platform.start("Writer", UserInput("the sea"), options=ProcessOptions(keep_events=True))
        await process.wait()
        assert told(await all_of(platform, process.id)) == COURSE
        other = platform.start("Writer", UserInput("the sea"))
        await other.wait()
        assert await all_of(platform, other.id) == []


async def test_a_process_in_memory_that_waited_keeps_the_events_from_before_and_after_its_answer() -> None:
    async with AgentPlatform([Asker]) as platform:
        process = platform.start("Asker", UserInput("the sea"), options=ProcessOptions(keep_events=True))
        await process.rest()
        before = await until_it_waits(platform, process.id)
        process_id = process.id
        del process
        await anyio.wait_all_tasks_blocked()
        gc.collect()  # it is made of its records again
        await (await platform.answer(process_id, response="fish")).rest()
        after = await all_of(platform, process_id, after=before[-1].number)
        assert told(after) == ["Asker.ask starts", "Asker.ask succeeded", "completed"]
        assert await all_of(platform, process_id) == [*before, *after]


async def test_the_events_of_a_sub_process_are_its_own() -> None:
    writer = Writer()
    writer.may_go_on.set()
    async with AgentPlatform([writer, Titler]) as platform:
        process = platform.start("Writer", UserInput("the sea"), options=ProcessOptions(keep_events=True))
        await process.wait()
        (child,) = process.children
        assert told(await all_of(platform, child.id)) == [
            *("Titler is created", "Titler.find starts", "thinking of a title", "Titler.find succeeded", "completed")
        ]


async def test_what_a_model_said_is_kept_only_with_the_journals(tmp_path: Path) -> None:
    for keep_journals, words in ((False, ""), (True, "roses are red")):
        model = ScriptedModel(["roses are red"])
        async with (
            SqliteProcessStore(tmp_path / f"{keep_journals}.db") as store,
            AgentPlatform([Poet], store=store, models=model, keep_journals=keep_journals) as platform,
        ):
            process = platform.start("Poet", UserInput("flowers"))
            await process.wait()
            replies = [
                each.event for each in await all_of(platform, process.id) if isinstance(each.event, ModelReplied)
            ]
            assert [each.reply for each in replies] == [words]
            assert replies[0].tool_calls == ()


async def test_a_reader_is_told_when_the_program_ends_before_the_process(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with SqliteProcessStore(file) as store, AgentPlatform([Asker], store=store) as platform:
        process = platform.start("Asker", UserInput("the sea"))
        await process.wait()
        async with aclosing(platform.events(process.id)) as events, anyio.create_task_group() as tasks:
            await until(events, ProcessFinished, [])
            tasks.start_soon(platform.aclose)
            with anyio.fail_after(120), pytest.raises(HandedOver):
                await anext(events)


async def test_a_listener_looks_at_the_process_of_an_event(open_store: OpenStore) -> None:
    seen: list[tuple[str, str, int]] = []
    writer = Writer()
    writer.may_go_on.set()
    async with open_store() as store, AgentPlatform([writer, Titler], store=store) as platform:

        class Looker:
            def on_event(self, event: Event, /) -> None:
                process = platform.live_process(event.process_id)
                if process is not None and isinstance(event, ActionFinished | ProcessFinished):
                    seen.append((process.agent.name, process.status, len(process.history)))

        platform.subscribe(Looker())
        await platform.run("Writer", UserInput("the sea"))
        assert platform.live_process("nobody") is None
    assert seen == [
        ("Writer", "running", 1),
        ("Titler", "running", 1),
        ("Titler", "completed", 1),
        ("Writer", "running", 2),
        ("Writer", "completed", 2),
    ]


async def test_there_are_no_events_of_a_process_that_nobody_knows() -> None:
    async with AgentPlatform([Asker]) as platform:
        with pytest.raises(UnknownName):
            await anext(platform.events("nobody"))
