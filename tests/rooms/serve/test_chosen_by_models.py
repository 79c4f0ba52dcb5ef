"""Goals whose steps or which themselves a model chooses, over MCP: progress, questions, handles, tasks and keys."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult

from goalport import ActionContext, Export, PlannerType, UserInput, achieves_goal, action, agent
from tests.rooms.rest.web import web
from tests.rooms.serve.askers import Answering, Pizzeria, call, handle_of
from tests.rooms.serve.following_tasks import FollowingTasks
from tests.rooms.serve.served import ERAS, served, text_of
from tests.rooms.toy_domain import Draft, Parcel, Person

SAID = {"content": "A parcel for Nina"}
NINA = {"name": "Nina"}
HAM = {"name": "ham", "portions": 2}
PARCEL = {"text": "a book for Nina"}
MODEL = """
from goalport.testing import ScriptedModel, calls_tool

model = ScriptedModel({replies})
"""
STEPS = '[[calls_tool("ask")], [calls_tool("wrap")]]'
BOTH = '[[calls_tool("ask"), calls_tool("wrap")]]'


@agent(description="Sends parcels", planner=PlannerType.SUPERVISOR)
class Post:
    @action
    async def ask(self, user_input: UserInput, context: ActionContext) -> Person:
        return await context.ask("For whom?", Person)

    @action
    def wrap(self, user_input: UserInput) -> Draft:
        return Draft("a book")

    @achieves_goal(description="Send a parcel", export=Export(remote=True, name="send_parcel"))
    def send(self, person: Person, draft: Draft) -> Parcel:
        return Parcel(f"{draft.text} for {person.name}")


@agent(description="Sends at once")
class Quick:
    @achieves_goal(description="Send a parcel", export=Export(remote=True, name="send_parcel"))
    def send(self, user_input: UserInput) -> Parcel:
        return Parcel(user_input.content)

    @achieves_goal(description="Write a draft", export=Export(remote=True, name="draft"))
    def draft(self, user_input: UserInput) -> Draft:
        return Draft(user_input.content)


def answering(replies: str) -> dict[str, str]:
    return {"agents/models.py": MODEL.format(replies=replies)}


def rating(*pairs: tuple[str, float]) -> str:
    ratings = [{"name": name, "confidence": confidence} for name, confidence in pairs]
    return repr({"ratings": ratings})


PIZZA = f"[{rating(('order_pizza', 0.9))}, {{'result': {{'size': 30}}, 'failure': None}}]"
BAKED = "30 cm with 2 ham"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("replies", [STEPS, BOTH])
async def test_a_supervisor_asks_in_the_middle_of_its_call(tmp_path: Path, era: str, replies: str) -> None:
    told: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    person = Answering.with_(NINA)
    async with (
        served(tmp_path, Post(), files=answering(replies)) as server,
        server.client(era, elicitation_callback=person) as client,
    ):
        with anyio.fail_after(60):
            result = await client.call_tool("send_parcel", SAID, progress_callback=note)
    assert isinstance(result, CallToolResult)
    assert result.structured_content == PARCEL, result
    assert person.asked == ["For whom?"]
    assert any("wrap" in (message or "") for message in told)


@pytest.mark.parametrize("era", ERAS)
async def test_a_supervisor_goes_on_by_its_handle(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Post(), files=answering(STEPS)) as server, server.client(era) as client:
        handle = handle_of(server, "send_parcel", await call(client, "send_parcel", **SAID))
        next_: dict[str, Any] = {"processId": handle["processId"], "answer": NINA}
        result = await call(client, "process_answer", **next_)
        done = await call(client, "process_status", processId=handle["processId"], waitSeconds=10)
    assert PARCEL in (result.structured_content, done.structured_content), (result, done)


@pytest.mark.parametrize("era", ERAS)
async def test_the_goal_that_was_chosen_asks_by_form_and_by_handle(tmp_path: Path, era: str) -> None:
    person, said = Answering.with_(HAM), {"content": "A pizza of 30 cm"}
    async with (
        served(tmp_path / "form", Pizzeria(), Quick(), files=answering(PIZZA), front_tool=True) as server,
        server.client(era, elicitation_callback=person) as client,
    ):
        result = await call(client, "achieve", **said)
    assert result.structured_content is not None
    assert (result.structured_content["goal"], result.structured_content["content"]) == ("order_pizza", BAKED)
    async with (
        served(tmp_path / "handle", Pizzeria(), Quick(), files=answering(PIZZA), front_tool=True) as server,
        server.client(era) as client,
    ):
        handle = handle_of(server, "achieve", await call(client, "achieve", **said))
        assert "pizza of 30 cm" in str(handle["questions"])
        await call(client, "process_answer", processId=handle["processId"], answer=HAM)
        done = await call(client, "process_status", processId=handle["processId"], waitSeconds=10)
    assert BAKED in text_of(done)


async def test_the_goal_that_was_chosen_is_followed_as_a_task(tmp_path: Path) -> None:
    extension = FollowingTasks(Answering.with_(HAM))
    person: Any = Answering.with_()
    async with served(tmp_path, Pizzeria(), Quick(), files=answering(PIZZA), front_tool=True) as server:
        async with server.client(extensions=[extension], elicitation_callback=person) as client:
            result = await call(client, "achieve", content="A pizza of 30 cm")
        assert result.structured_content is not None
        assert result.structured_content["content"] == BAKED
        assert extension.statuses[-1] == "completed"


async def test_a_choice_is_paid_once_under_one_key(tmp_path: Path) -> None:
    key: Any = {"goalport/idempotencyKey": "k1"}
    sent = {"content": "A parcel"}
    ranks = f'[{rating(("send_parcel", 0.9))}, "Done."]'
    async with served(tmp_path, Quick(), files=answering(ranks), front_tool=True) as server, server.client() as client:
        first = await client.call_tool("achieve", sent, meta=key)
        again = await client.call_tool("achieve", sent, meta=key)
    assert isinstance(first, CallToolResult)
    assert isinstance(again, CallToolResult)
    assert first.structured_content == again.structured_content
    assert not first.is_error


async def test_it_is_reached_over_rest_too(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria(), Quick(), files=answering(PIZZA), front_tool=True) as server:
        begun = await server.start("achieve", {"content": "A pizza of 30 cm"})
        state: dict[str, Any] = begun.json()
        ended = await server.resume(state, HAM)
        told = ended.json()
        assert (told["result"]["content"], told["result"]["goal"]) == (BAKED, "order_pizza")
        assert told["cost"]["modelCalls"] == 2
