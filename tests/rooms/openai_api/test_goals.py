"""A published goal that can be started from a sentence is a model: its result is the reply."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import InternalServerError

from goalport import ActionContext, Export, UserInput, achieves_goal, agent
from tests.rooms.openai_api.chats import Echo, chats, history


@dataclass(frozen=True)
class Poem:
    content: str


@dataclass(frozen=True)
class Order:
    size: int


@agent(description="Writes")
class Poet:
    @achieves_goal(description="A poem", export=Export(remote=True, name="write_poem"))
    async def write(self, said: UserInput, context: ActionContext) -> Poem:
        context.progress("Looking for\na rhyme")
        if said.content == "nothing":
            raise ValueError("no ink")
        return Poem(f"Ode to {said.content}")

    @achieves_goal(description="A pizza", export=Export(remote=True, name="order_pizza"))
    async def order(self, order: Order) -> Poem:
        return Poem(f"{order.size} cm")


async def test_goals_that_take_a_sentence_are_listed_beside_chatbots(tmp_path: Path) -> None:
    async with chats(tmp_path, Poet, Echo) as server:
        listed = (await server.openai.models.list()).data
        assert [each.id for each in listed] == ["Echo", "write_poem"]
        shown = await server.openai.models.retrieve("write_poem")
        assert (shown.id, shown.object, shown.owned_by) == ("write_poem", "model", "goalport")


async def test_the_result_of_a_goal_is_the_reply_and_its_progress_comes_as_comments(tmp_path: Path) -> None:
    async with chats(tmp_path, Poet) as server:
        create = server.openai.chat.completions.create
        said = history("first", "Ode to first", "a lamp")
        reply = await create(model="write_poem", messages=said)
        assert reply.choices[0].message.content == "Ode to a lamp"
        stream = await create(model="write_poem", messages=said, stream=True)
        assert "".join([each.choices[0].delta.content or "" async for each in stream]) == "Ode to a lamp"
        request = {"model": "write_poem", "messages": said, "stream": True}
        assert ": Looking for a rhyme\n" in (await server.post("chat/completions", request)).text
        response = await server.openai.responses.create(model="write_poem", input="a lamp")
        assert response.output_text == "Ode to a lamp"


async def test_a_goal_that_fails_is_an_error(tmp_path: Path) -> None:
    async with chats(tmp_path, Poet) as server:
        with pytest.raises(InternalServerError, match="write_poem failed"):
            await server.openai.chat.completions.create(model="write_poem", messages=history("nothing"))
        response = await server.openai.responses.create(model="write_poem", input="nothing")
        assert response.status == "failed"
        assert response.error is not None
        assert "write_poem failed" in response.error.message


async def test_a_goal_goes_on_from_its_result_with_another_input(tmp_path: Path) -> None:
    async with chats(tmp_path, Poet) as server:
        create = server.openai.responses.create
        first = await create(model="write_poem", input="a lamp")
        second = await create(model="write_poem", input="a table", previous_response_id=first.id)
        assert second.output_text == "Ode to a table"
        assert second.id != first.id


async def test_instructions_after_the_message_of_the_user_are_no_input(tmp_path: Path) -> None:
    async with chats(tmp_path, Poet) as server:
        said: Any = [{"role": "user", "content": "a lamp"}, {"role": "system", "content": "Be brief."}]
        reply = await server.openai.chat.completions.create(model="write_poem", messages=said)
        assert reply.choices[0].message.content == "Ode to a lamp"
