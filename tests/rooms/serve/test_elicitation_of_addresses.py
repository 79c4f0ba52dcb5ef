"""Questions that are answered at an address: to agree to open it is no answer yet."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from mcp.client import ClientRequestContext
from mcp_types import (
    ElicitCompleteNotification,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
)

from goalport import Export, WaitFor, achieves_goal, action, agent
from goalport.agents.domain import VisitedUrl
from tests.rooms.serve.askers import Order, Receipt, call, handle_of
from tests.rooms.serve.following_tasks import CreatedTask, FollowingTasks, ask, create, state_of_task
from tests.rooms.serve.served import ERAS, served, text_of

PAGE = "https://pay.example.com/7"


@agent(description="Has a person pay on a page")
class Till:
    @action
    def ask(self, order: Order) -> WaitFor[VisitedUrl]:
        return WaitFor.url("Pay there", PAGE)

    @achieves_goal(description="A receipt", export=Export(remote=True, name="check_out"))
    def check_out(self, visited: VisitedUrl) -> Receipt:
        return Receipt(content=f"paid at {visited.url}")


@agent(description="Has a person sign in on a page of ours")
class Porter:
    @action
    def ask(self, order: Order) -> WaitFor[VisitedUrl]:
        page = "http://127.0.0.1:8000/sign-in?process={process_id}&question={question_id}"
        return WaitFor.url("Sign in", page, calls_back=True)

    @achieves_goal(description="A receipt", export=Export(remote=True, name="sign_in", wait_budget=5))
    def enter(self, visited: VisitedUrl) -> Receipt:
        return Receipt(content="signed in")


@agent(description="Has a person sign in, and waits three seconds for them", name="Hasty")
class Hasty(Porter):
    @achieves_goal(description="A receipt", export=Export(remote=True, name="sign_in_soon", wait_budget=3))
    def enter(self, visited: VisitedUrl) -> Receipt:
        return Receipt(content="signed in")


@dataclass
class Person:
    """Somebody who opens addresses, and what they saw."""

    opens: str = "accept"
    done: str | bool = True
    at_page: Callable[[str], object] = lambda _: None
    seen: list[str] = field(default_factory=list[str])
    completed: list[str] = field(default_factory=list[str])

    async def __call__(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        if isinstance(params, ElicitRequestURLParams):
            self.seen.append(params.url)
            self.at_page(params.url)
            return ElicitResult.model_validate({"action": self.opens})
        self.seen.append(params.message)
        if isinstance(self.done, str):
            return ElicitResult.model_validate({"action": self.done})
        return ElicitResult(action="accept", content={"confirmed": self.done})

    async def notice(self, message: object) -> None:
        if isinstance(message, ElicitCompleteNotification):
            self.completed.append(message.params.elicitation_id)


def asked_at(url: str) -> tuple[str, str]:
    """The process and the question that an address names."""
    named = parse_qs(urlsplit(url).query)
    return named["process"][0], named["question"][0]


@pytest.mark.parametrize("era", ERAS)
async def test_who_has_opened_an_address_says_in_a_form_that_it_is_done(tmp_path: Path, era: str) -> None:
    person = Person()
    async with served(tmp_path, Till()) as server, server.client(era, elicitation_callback=person) as client:
        result = await call(client, "check_out", size=30)
    assert result.structured_content == {"content": f"paid at {PAGE}"}
    assert person.seen == [PAGE, "Pay there\n\nSend this once it is done there."]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("person", "steps"), [(("decline", True), 1), (("accept", "decline"), 2), (("accept", False), 2)]
)
async def test_a_no_at_either_is_a_no(tmp_path: Path, era: str, person: tuple[str, str | bool], steps: int) -> None:
    somebody = Person(*person)
    async with served(tmp_path, Till()) as server, server.client(era, elicitation_callback=somebody) as client:
        result = await call(client, "check_out", size=30)
    assert result.is_error
    assert len(somebody.seen) == steps


@pytest.mark.parametrize("era", ERAS)
async def test_who_leaves_the_form_open_finds_the_handle(tmp_path: Path, era: str) -> None:
    person = Person(done="cancel")
    async with served(tmp_path, Till()) as server, server.client(era, elicitation_callback=person) as client:
        handle = handle_of(server, "check_out", await call(client, "check_out", size=30))
        assert handle["questions"][0]["url"] == PAGE
        result = await call(client, "process_answer", processId=handle["processId"], answer=True)
    assert result.structured_content == {"content": f"paid at {PAGE}"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_page_that_calls_back_completes_the_call_that_waits_for_it(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Porter()) as server, anyio.create_task_group() as web:

        async def call_back(url: str) -> None:
            await server.platform.answer(*asked_at(url), response=True)

        person = Person(at_page=lambda url: web.start_soon(call_back, url))
        async with server.client(era, elicitation_callback=person, message_handler=person.notice) as client:
            result = await call(client, "sign_in", size=30)
            assert result.structured_content == {"content": "signed in"}, result
            process = await server.process()
            (question,) = process.questions
            assert [asked_at(each) for each in person.seen] == [(process.id, question.id)]
            assert person.completed == ([question.id] if era == "legacy" else [])


@pytest.mark.parametrize("era", ERAS)
async def test_a_page_that_takes_longer_than_the_call_leaves_the_handle_and_nobody_else_says_done(
    tmp_path: Path, era: str
) -> None:
    person = Person()
    async with served(tmp_path, Hasty()) as server, server.client(era, elicitation_callback=person) as client:
        result = await call(client, "sign_in_soon", size=30)
        handle = handle_of(server, "sign_in_soon", result)
        assert "The page itself says when it is done" in text_of(result)
        assert len(person.seen) == 1
        claimed = await call(client, "process_answer", processId=handle["processId"], answer=True)
        assert handle_of(server, "sign_in_soon", claimed)["questions"] == handle["questions"]
        await server.platform.answer(*asked_at(handle["questions"][0]["url"]), response=True)
        result = await call(client, "process_status", processId=handle["processId"], waitSeconds=5)
    assert result.structured_content == {"content": "signed in"}


async def test_a_task_goes_from_the_address_to_the_form_and_to_its_result(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Till()) as server,
        server.client(extensions=[FollowingTasks()], elicitation_callback=Person()) as client,
    ):
        with anyio.fail_after(60):
            task = await create(client, "check_out", size=30)
            ((page, request),) = (await state_of_task(client, task, "input_required"))["inputRequests"].items()
            assert (request["params"]["mode"], request["params"]["url"]) == ("url", PAGE)
            await ask(client.session, "tasks/update", task, {page: {"action": "accept"}})
            ((form, request),) = (await state_of_task(client, task, "input_required"))["inputRequests"].items()
            assert form != page
            assert request["params"]["mode"] == "form"
            done = {"action": "accept", "content": {"confirmed": True}}
            await ask(client.session, "tasks/update", task, {form: done})
            told = await state_of_task(client, task, "completed")
    assert told["result"]["structuredContent"] == {"content": f"paid at {PAGE}"}


async def test_a_task_works_while_a_person_is_at_a_page_that_calls_back(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Hasty()) as server,
        server.client(extensions=[FollowingTasks()], elicitation_callback=Person()) as client,
    ):
        with anyio.fail_after(60):
            begun = await client.session.call_tool("sign_in_soon", {"size": 30}, allow_input_required=True)
            assert isinstance(begun, InputRequiredResult)
            ((question, request),) = (begun.input_requests or {}).items()
            created = await client.session.call_tool(
                "sign_in_soon",
                {"size": 30},
                request_state=begun.request_state,
                input_responses={question: ElicitResult(action="accept")},
                allow_claimed=True,
            )
            assert isinstance(created, CreatedTask)
            told = await ask(client.session, "tasks/get", created.task_id)
            assert told["status"] == "working"
            assert isinstance(request.params, ElicitRequestURLParams)
            await server.platform.answer(*asked_at(request.params.url), response=True)
            told = await state_of_task(client, created.task_id, "completed")
    assert told["result"]["structuredContent"] == {"content": "signed in"}
