"""A question of a process that another program runs is answered through that program."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, AgentProcess, Export, UserInput, achieves_goal, agent
from goalport.base.errors import AlreadyAnswered, BadInput
from goalport.runtime.process import Completed
from goalport.store import Lease
from goalport.store.sqlite import SqliteProcessStore


@dataclass(frozen=True)
class Colour:
    name: str


@dataclass(frozen=True)
class Paint:
    litres: int


@dataclass(frozen=True)
class Wall:
    colour: str
    litres: int


@agent(description="Asks for a colour")
class Asker:
    @achieves_goal(description="A colour", export=Export(durable=True))
    async def ask(self, user_input: UserInput, context: ActionContext) -> Colour:
        return await context.ask(f"Which colour for {user_input.content}?", Colour)


@agent(description="Mixes paint")
@dataclass
class Mixer:
    mixed: anyio.Event = field(default_factory=anyio.Event)

    @achieves_goal(description="Paint", export=Export(durable=True))
    async def mix(self, user_input: UserInput) -> Paint:
        await self.mixed.wait()
        return Paint(len(user_input.content))


@agent(description="Paints a wall")
class Painter:
    @achieves_goal(description="A wall", export=Export(durable=True))
    async def paint(self, user_input: UserInput, context: ActionContext) -> Wall:
        colour, paint = await asyncio.gather(
            context.as_sub_process(Colour, "Asker"), context.as_sub_process(Paint, "Mixer")
        )
        return Wall(colour.name, paint.litres)


async def asked(process: AgentProcess) -> str:
    with anyio.fail_after(60):
        while not process.open_questions:
            await anyio.sleep(0.01)
    return process.open_questions[0].id


async def test_a_question_is_answered_while_another_program_runs_the_rest_of_its_family(tmp_path: Path) -> None:
    file, mixer = tmp_path / "processes.db", Mixer()
    async with (
        SqliteProcessStore(file) as store,
        SqliteProcessStore(file) as other_store,
        AgentPlatform([Painter, Asker, mixer], store=store) as here,
        AgentPlatform([Painter, Asker, Mixer()], store=other_store) as elsewhere,
    ):
        process = here.start("Painter", UserInput("a barn"))
        question = await asked(process)
        with anyio.fail_after(60):
            while not (await elsewhere.process(process.id)).open_questions:
                await anyio.sleep(0.01)
            with pytest.raises(BadInput, match="name"):
                await elsewhere.answer(process.id, question, {"colour": "red"})
            follower = await elsewhere.answer(process.id, question, {"name": "red"})
            with pytest.raises(AlreadyAnswered):
                await elsewhere.answer(process.id, question, {"name": "blue"})
            mixer.mixed.set()
            assert await process.wait() == Completed(Wall("red", 6))
            assert await follower.wait() == Completed(Wall("red", 6))


class OvertakenStore(SqliteProcessStore):
    """Somebody else is faster whenever its program sends a command, and it does not say that anything has changed."""

    overtake: Callable[[], Awaitable[object]]

    async def send(self, process_id: str, value: object, /) -> int:
        await self.overtake()
        return await super().send(process_id, value)

    async def versions(self, roots: Sequence[str], /) -> Mapping[str, int]:
        return {}


async def test_who_answers_too_late_does_not_see_the_question_as_open_any_more(tmp_path: Path) -> None:
    file, mixer = tmp_path / "processes.db", Mixer()
    async with (
        SqliteProcessStore(file) as store,
        OvertakenStore(file) as other_store,
        AgentPlatform([Painter, Asker, mixer], store=store) as here,
        AgentPlatform([Painter, Asker, Mixer()], store=other_store) as elsewhere,
    ):
        process = here.start("Painter", UserInput("a barn"))
        question = await asked(process)
        other_store.overtake = lambda: here.answer(process.id, question, {"name": "red"})
        with anyio.fail_after(60):
            while not (copy := await elsewhere.process(process.id)).open_questions:
                await anyio.sleep(0.01)
            with pytest.raises(AlreadyAnswered):
                await elsewhere.answer(process.id, question, {"name": "blue"})
            assert not copy.open_questions


class LateStore(SqliteProcessStore):
    """Gives leases as due that were used and given back, as when an answer comes between two steps of a program."""

    late: tuple[Lease, ...] = ()
    looks = 0
    """How often the program has looked since it was given these."""

    async def due(self, limit: int, /, *, without: Collection[str] = ()) -> Sequence[Lease]:
        self.looks += 1
        late, self.late = self.late, ()
        return [*late, *await super().due(limit, without=without)]


async def test_a_lease_that_was_given_back_meanwhile_is_not_used(tmp_path: Path) -> None:
    async with LateStore(tmp_path / "processes.db") as store, AgentPlatform([Asker], store=store) as platform:
        process = platform.start("Asker", UserInput("a barn"))
        question = await asked(process)
        await process.rest()
        lease = await store.claim(process.id)
        assert lease is not None
        await store.release(lease)
        store.late, store.looks = (lease,), 0
        with anyio.fail_after(60):
            while store.looks < 2:
                await anyio.sleep(0.01)
            assert (await store.versions([process.id]))[process.id] == lease.version, "nothing was saved"
            await platform.answer(process.id, question, {"name": "red"})
            assert await process.wait() == Completed(Colour("red"))
