"""A process that waits is ended and answered at the same time: its end is stored, and no answer brings it back."""

from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from goalport import ActionContext, AgentPlatform, Export, UserInput, achieves_goal, agent
from goalport.base.errors import AlreadyAnswered, BadInput
from goalport.runtime.process import ProcessStatus
from goalport.store.sqlite import SqliteProcessStore


@agent(description="Asks twice")
class Asker:
    @achieves_goal(description="A pair", export=Export(durable=True))
    async def ask(self, user_input: UserInput, context: ActionContext) -> str:
        return await context.ask("First?", str) + await context.ask("Second?", str)


@pytest.mark.parametrize("answers", [1, 2])
async def test_a_process_that_is_killed_while_it_is_answered_stays_killed(tmp_path: Path, answers: int) -> None:
    file = tmp_path / "processes.db"
    async with (
        SqliteProcessStore(file) as store,
        SqliteProcessStore(file) as other_store,
        AgentPlatform([Asker], store=store) as here,
        AgentPlatform([Asker], store=other_store) as elsewhere,
    ):

        async def answer(process_id: str, question_id: str) -> None:
            with suppress(AlreadyAnswered, BadInput):
                await here.answer(process_id, question_id, "yes")

        for turns in range(15):
            process = await here.run("Asker", UserInput("x"))
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for _ in range(answers):
                        tasks.start_soon(answer, process.id, process.open_questions[0].id)
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
                    process.kill("Nobody wants it.")
                await process.rest()
            assert process.status is ProcessStatus.KILLED
            assert (await elsewhere.process(process.id)).status is ProcessStatus.KILLED, turns
