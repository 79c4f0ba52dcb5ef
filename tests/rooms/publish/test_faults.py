"""Declarations that break when they are read: each is told, and everything else is served."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from goalport import Export, achieves_goal, action, agent
from goalport.server.site.startup import watch
from tests.rooms.serve.served import LoggedError, logged_error, published, served


class Person(BaseModel):
    name: str


class Poem(BaseModel):
    content: str


class Explosive:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise ZeroDivisionError("not today")


class Nameless(type):
    def __repr__(cls) -> str:
        raise ValueError("no words")


class Wordless(metaclass=Nameless):
    pass


@agent(description="Starts from what explodes")
class Bomber:
    @achieves_goal(description="A poem", export=Export(remote=True, name="bomb"))
    @action
    async def bomb(self, thing: Explosive) -> Poem:
        return Poem(content="x")


@agent(description="Makes what cannot be told")
class Mumbler:
    @achieves_goal(description="Something", export=Export(remote=True, name="mumble"))
    @action
    async def mumble(self, person: Person) -> Wordless:
        return Wordless()


@agent(description="Fine")
class Poet:
    @achieves_goal(description="A poem", export=Export(remote=True, name="write"))
    @action
    async def write(self, person: Person) -> Poem:
        return Poem(content=person.name)


@pytest.mark.parametrize(
    ("broken", "goal", "why"),
    [(Bomber, "Bomber.bomb", "ZeroDivisionError: not today"), (Mumbler, "Mumbler.mumble", "ValueError: no words")],
)
def test_types_that_raise_are_a_problem_of_their_goal_and_the_rest_is_served(
    tmp_path: Path, broken: type, goal: str, why: str
) -> None:
    publication = published(tmp_path, broken(), Poet())
    assert set(publication.tools) == {"helloBanner", "process_result", "write"}
    problem = next(each for each in publication.problems if goal in each)
    assert why in problem
    assert f"of agent {broken.__name__}" in problem
    assert f"{__name__}: {broken.__name__}" in problem


def an_export_with(**odd: object) -> Export:
    export = Export(remote=True, name="odd")
    for name, value in odd.items():
        object.__setattr__(export, name, value)
    return export


@pytest.mark.parametrize(
    "odd", [{"name": 5}, {"description": 5}, {"starting_input_types": Person}, {"starting_input_types": [3]}]
)
def test_an_odd_export_is_a_problem_of_its_goal_and_the_rest_is_served(tmp_path: Path, odd: dict[str, object]) -> None:
    @agent(description="Odd")
    class Odd:
        @achieves_goal(description="A poem", export=an_export_with(**odd))
        @action
        async def write(self, person: Person) -> Poem:
            return Poem(content=person.name)

    publication = published(tmp_path, Odd(), Poet())
    assert set(publication.tools) == {"helloBanner", "process_result", "write"}
    told = [*publication.problems, *(f"{each.goal.name} {each.reason}" for each in publication.refusals)]
    assert any("Odd.write" in each for each in told)


@pytest.fixture
def told() -> Generator[LoggedError]:
    with logged_error("goalport.server.publish") as error:
        yield error


async def test_a_reload_that_breaks_is_logged_and_the_next_one_is_done(tmp_path: Path, told: LoggedError) -> None:
    files = {"agents/empty.py": "", "server/settings.toml": ""}
    async with served(tmp_path, files=files) as server, anyio.create_task_group() as tasks:
        whole = server.state.publisher.workspace
        tasks.start_soon(watch, server.state.publisher, 0.02)
        await anyio.wait_all_tasks_blocked()
        server.state.publisher.workspace = None  # pyright: ignore[reportAttributeAccessIssue] - as broken as can be
        (tmp_path / "agents/empty.py").write_text("x = 1")
        with anyio.fail_after(60):
            await told.told.wait()
        assert "Loading the workspace anew broke" in told.words
        server.state.publisher.workspace = whole
        announced = anyio.Event()
        server.state.notifications.bus.subscribe(lambda _: announced.set())
        (tmp_path / "agents/empty.py").write_text("more = 22")
        with anyio.fail_after(60):
            await announced.wait()
        tasks.cancel_scope.cancel()


async def test_a_name_that_leads_nowhere_does_not_end_the_watch(tmp_path: Path) -> None:
    files = {"agents/empty.py": ""}
    async with served(tmp_path, files=files) as server, anyio.create_task_group() as tasks:
        (tmp_path / "agents/gone.txt").symlink_to(tmp_path / "nowhere")
        announced = anyio.Event()
        server.state.notifications.bus.subscribe(lambda _: announced.set())
        tasks.start_soon(watch, server.state.publisher, 0.02)
        await anyio.wait_all_tasks_blocked()
        (tmp_path / "agents/empty.py").write_text("more = 22")
        with anyio.fail_after(60):
            await announced.wait()
        tasks.cancel_scope.cancel()
