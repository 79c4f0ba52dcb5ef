"""A process is started, answered, looked at and ended over HTTP."""

from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from goalport import Export, WaitFor, achieves_goal, action, agent
from tests.rooms.rest.web import PROCESS, Web, web
from tests.rooms.serve.askers import Cashier, Gate, Pizzeria, Slow, Waiter


class Player(BaseModel):
    player_name: str


class UserChoice(BaseModel):
    name: Literal["Castle", "Forest"]


class AdventureResult(BaseModel):
    content: str


@agent(description="An adventure with one choice")
class Adventure:
    @action
    def get_choice(self, player: Player) -> WaitFor[UserChoice]:
        return WaitFor.form_submission(f"Where do you go, {player.player_name}?", UserChoice)

    @achieves_goal(description="The end of the adventure", export=Export(remote=True, name="play"))
    def process_choice(self, player: Player, choice: UserChoice) -> AdventureResult:
        return AdventureResult(content=f"{player.player_name} enters the {choice.name}")


@agent(description="Counts")
class Counter:
    @achieves_goal(description="The length of a text", export=Export(remote=True, name="count"))
    async def count(self, player: Player) -> int:
        return len(player.player_name)

    @achieves_goal(description="Nothing that anybody may ask for")
    async def secret(self, player: Player) -> AdventureResult:
        return AdventureResult(content="secret")


@agent(description="Fails")
class Clumsy:
    @achieves_goal(description="A vase", export=Export(remote=True, name="make_vase"))
    async def make(self, player: Player) -> AdventureResult:
        raise RuntimeError("it broke")


@pytest.mark.parametrize("place", ["Castle", "Forest"])
async def test_a_game_goes_from_its_start_over_the_options_to_its_end(tmp_path: Path, place: str) -> None:
    async with web(tmp_path, Adventure()) as server:
        begun = await server.start("play", {"player_name": "Ada"})
        assert begun.status_code == 202
        state = begun.json()
        assert (state["status"], state["prompt"]) == ("waiting", "Where do you go, Ada?")
        assert state["schema"]["properties"]["name"]["enum"] == ["Castle", "Forest"]
        assert [each["label"] for each in state["options"]] == ["Castle", "Forest"]
        assert begun.headers["location"] == state["links"]["self"] == f"{PROCESS}/{state['processId']}"

        shown = (await server.http.get(state["links"]["self"])).json()
        assert {name: shown[name] for name in state} == state

        (chosen,) = (each["response"] for each in state["options"] if each["label"] == place)
        ended = await server.resume(state, chosen)
        assert ended.status_code == 200
        assert ended.json()["result"] == {"content": f"Ada enters the {place}"}
        shown = (await server.http.get(state["links"]["self"])).json()
        assert (shown["status"], shown["result"]) == ("completed", {"content": f"Ada enters the {place}"})


@agent(description="Lets somebody choose a room")
class Hotel:
    @action
    def ask(self, player: Player) -> WaitFor[UserChoice]:
        places = [UserChoice(name="Castle"), UserChoice(name="Forest")]
        return WaitFor.choice("Where?", places, UserChoice, label=lambda each: f"In the {each.name}")

    @achieves_goal(description="A room", export=Export(remote=True, name="book"))
    def book(self, choice: UserChoice) -> AdventureResult:
        return AdventureResult(content=choice.name)


async def test_a_choice_shows_its_labels_and_takes_what_stands_for_them(tmp_path: Path) -> None:
    async with web(tmp_path, Hotel()) as server:
        state = (await server.start("book", {"player_name": "x"})).json()
        assert [each["label"] for each in state["options"]] == ["In the Castle", "In the Forest"]
        ended = await server.resume(state, state["options"][1]["response"])
        assert ended.json()["result"] == {"content": "Forest"}


async def test_a_process_that_does_not_exist_cannot_be_continued(tmp_path: Path) -> None:
    async with web(tmp_path, Adventure()) as server:
        refused = await server.http.post(f"{PROCESS}/nobody/continue", json={"awaitableId": "q-1", "response": {}})
        assert refused.status_code == 404
        assert refused.headers["content-type"] == "application/problem+json"
        assert "There is no process 'nobody', or it is not yours." in refused.json()["detail"]


async def test_a_result_that_is_no_object_stands_by_itself(tmp_path: Path) -> None:
    async with web(tmp_path, Counter()) as server:
        done = await server.start("count", {"player_name": "Ada"})
        assert (done.status_code, done.json()["result"]) == (200, 3)
        assert done.json()["cost"]["usd"] == 0
        by_agent = await server.http.post(
            PROCESS, json={"agent": "Counter", "bindings": {"player": {"player_name": "Al"}}}
        )
        assert by_agent.json()["result"] == 2


async def test_each_wrong_field_has_an_entry(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria(), Adventure()) as server:
        refused = await server.start("order_pizza", {"size": "big", "colour": "red"})
        assert refused.status_code == 422
        fields = {each["field"]: each["detail"] for each in refused.json()["errors"]}
        assert fields.keys() == {"input.size", "input.colour"}
        assert "should be a whole number" in fields["input.size"]

        state = (await server.start("order_pizza", {"size": 30})).json()
        refused = await server.resume(state, {"name": "ham", "portions": 0})
        assert [each["field"] for each in refused.json()["errors"]] == ["response.portions"]
        refused = await server.resume(state, "name: ham")
        (error,) = refused.json()["errors"]
        assert (error["field"], error["detail"]) == ("response", "should be an object with fields; came 'name: ham'")
        assert (await server.resume(state, {"name": "ham"})).json()["result"] == {"content": "30 cm with 1 ham"}


BODIES: list[tuple[dict[str, Any], str]] = [
    ({}, "goal"),
    ({"goal": "play", "agent": "Adventure"}, "goal"),
    ({"goal": "secret"}, "goal"),
    ({"goal": "Counter.secret"}, "goal"),
    ({"agent": "Nobody"}, "agent"),
    ({"goal": "play", "input": {}, "bindings": {}}, "bindings"),
    ({"goal": "play", "wait": -1}, "wait"),
    ({"goal": "play", "wait": 301}, "wait"),
    ({"goal": "play", "whatever": 1}, "whatever"),
    ({"goal": "play", "input": [1]}, "input"),
    ({"goal": "play", "input": {}}, "input.player_name"),
    ({"goal": "play", "bindings": {}}, "bindings.player"),
]


@pytest.mark.parametrize(("body", "field"), BODIES)
async def test_a_request_that_is_wrong_starts_nothing(tmp_path: Path, body: dict[str, Any], field: str) -> None:
    async with web(tmp_path, Adventure(), Counter()) as server:
        refused = await server.http.post(PROCESS, json=body)
        assert refused.status_code == 422, refused.text
        assert [each["field"] for each in refused.json()["errors"]] == [field]
        assert not await server.platform.processes.records()


async def test_a_body_that_is_no_json_is_refused(tmp_path: Path) -> None:
    async with web(tmp_path, Adventure(), max_body_bytes=1_000) as server:
        for content, media, status in (
            (b"{", "application/json", 400),
            (b'{"goal": NaN}', "application/json", 400),
            (b"\xff", "application/json", 400),
            (b"[]", "application/json", 422),
            (b"goal=play", "application/x-www-form-urlencoded", 415),
            (b"{" + b" " * 1_000 + b"}", "application/json", 413),
        ):
            refused = await server.http.post(PROCESS, content=content, headers={"Content-Type": media})
            assert refused.status_code == status, refused.text
        wrong = await server.http.put(PROCESS, json={})
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST, OPTIONS")
        assert (await server.http.get("/api/v1/nothing")).status_code == 404


async def test_only_the_first_of_fifty_answers_counts(tmp_path: Path) -> None:
    async with web(tmp_path, Cashier()) as server:
        state = (await server.start("pay", {"euros": 5})).json()
        assert state["options"] == [{"label": "Yes", "response": True}, {"label": "No", "response": False}]
        found: list[int] = []

        async def answer() -> None:
            found.append((await server.resume(state, response=True)).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(answer)
        assert sorted(found) == [200, *[409] * 49]
        late = await server.http.post(f"{PROCESS}/{state['processId']}/continue", json={"response": True})
        assert late.json()["type"] == "urn:goalport:problem:not-waiting"
        unknown = await server.resume({**state, "awaitableId": "q-0"}, response=True)
        assert (unknown.status_code, [each["field"] for each in unknown.json()["errors"]]) == (422, ["awaitableId"])


async def test_a_person_may_decline_and_the_process_says_that_nothing_came_of_it(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        state = (await server.start("order_pizza", {"size": 30})).json()
        path = f"{PROCESS}/{state['processId']}/continue"
        ended = await server.http.post(path, json={"awaitableId": state["awaitableId"], "declined": "I am full"})
        assert ended.status_code == 422
        told = ended.json()
        assert (told["type"], told["processStatus"]) == ("urn:goalport:problem:no-result", "failed")
        assert "I am full" in told["detail"]


async def test_a_failure_is_told_without_the_text_of_the_exception(tmp_path: Path) -> None:
    async with web(tmp_path, Clumsy()) as server:
        failed = await server.start("make_vase", {"player_name": "Ada"})
        assert failed.status_code == 422
        assert "make_vase failed" in failed.json()["detail"]
        assert "it broke" not in failed.text
        assert "it broke" not in (await server.http.get(failed.json()["links"]["self"])).text


async def test_who_does_not_wait_gets_the_id_and_finds_the_result_later(tmp_path: Path) -> None:
    gate = Gate()
    async with web(tmp_path, Slow(gate)) as server:
        begun = await server.start("bake", {"size": 30}, wait=0)
        assert begun.status_code == 202
        state = begun.json()
        assert state["status"] in {"not_started", "running"}
        assert "awaitableId" not in state
        stored = await server.platform.store.find(state["processId"])
        assert stored is not None
        await gate.begun.wait()
        running = (await server.http.get(state["links"]["self"])).json()
        assert (running["status"], "result" in running) == ("running", False)
        gate.opened.set()
        ended = await server.http.get(state["links"]["wait"])
        assert ended.json()["result"] == {"content": "at last"}
        assert [each["action"] for each in ended.json()["history"]] == ["Slow.bake"]


async def test_a_process_is_killed_by_its_deletion(tmp_path: Path) -> None:
    async with web(tmp_path, Slow(Gate())) as server:
        state = (await server.start("bake", {"size": 30}, wait=0.01)).json()
        for _ in range(2):
            ended = await server.http.delete(state["links"]["self"])
            assert (ended.status_code, ended.json()["status"]) == (200, "killed")
        refused = await server.http.post(state["links"]["continue"], json={"response": 1})
        assert refused.status_code == 409
        assert (await server.http.delete(f"{PROCESS}/nobody")).status_code == 404


async def test_a_client_that_leaves_before_its_answer_ends_the_process(tmp_path: Path) -> None:
    gate = Gate()
    async with web(tmp_path, Slow(gate)) as server:

        async def call() -> None:
            await server.start("bake", {"size": 30}, wait=20)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await gate.begun.wait()
            tasks.cancel_scope.cancel()
        (record,) = await server.platform.processes.records()
        with anyio.fail_after(60):
            outcome = await (await server.platform.process(record.id)).wait()
        assert outcome.status == "killed"


async def test_nobody_else_sees_a_process(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        server.http.headers["Caller"] = "ada"
        state = (await server.start("order_pizza", {"size": 30})).json()
        server.http.headers["Caller"] = "bob"
        path = state["links"]["self"]
        answers = [await server.http.get(path), await server.http.delete(path), await server.resume(state, {})]
        answers.append(await server.http.get(state["links"]["events"]))
        assert [each.status_code for each in answers] == [404] * 4
        details = {each.json()["detail"].replace(state["processId"], "…") for each in answers}
        unknown = (await server.http.get(f"{PROCESS}/nobody")).json()["detail"]
        assert details == {unknown.replace("nobody", "…")}
        assert (await server.http.get("/api/v1/processes")).json()["processes"] == []


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_a_repeated_request_joins_the_first(tmp_path: Path, store: str) -> None:
    async with web(tmp_path, Pizzeria(), store=store) as server:
        server.http.headers["Idempotency-Key"] = "k"
        first, again = [(await server.start("order_pizza", {"size": 30})).json() for _ in range(2)]
        assert first["processId"] == again["processId"]
        other = await server.start("order_pizza", {"size": 31})
        assert other.status_code == 422
        assert "was used for a call of order_pizza with other arguments" in other.json()["detail"]
        server.http.headers["Idempotency-Key"] = "k" * 257
        assert (await server.start("order_pizza", {"size": 30})).status_code == 422


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_processes_are_listed_page_by_page(tmp_path: Path, store: str) -> None:
    async with web(tmp_path, Pizzeria(), Counter(), store=store) as server:
        started = [(await server.start("order_pizza", {"size": size})).json()["processId"] for size in range(3)]
        started.append((await server.start("count", {"player_name": "Ada"})).json()["processId"])
        assert await _pages(server, "/api/v1/processes?limit=2") == [started[:1:-1], started[1::-1]]
        assert await _pages(server, "/api/v1/processes?newestFirst=false&limit=3") == [started[:3], started[3:]]
        assert await _pages(server, "/api/v1/processes?status=waiting&status=failed") == [started[2::-1]]
        unknown = await server.http.get(f"/api/v1/processes?after={started[0][:-1]}x")
        assert [each["field"] for each in unknown.json()["errors"]] == ["after"]
        for query in ("limit=0", "limit=x", "status=odd", "colour=red", "limit=1&limit=2"):
            refused = await server.http.get(f"/api/v1/processes?{query}")
            assert refused.status_code == 422, query


async def _pages(server: Web, path: str) -> list[list[str]]:
    pages: list[list[str]] = []
    following: str | None = path
    while following:
        page = (await server.http.get(following)).json()
        pages.append([each["processId"] for each in page["processes"]])
        following = page["links"].get("next")
    return pages


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_a_process_that_waits_has_not_finished(tmp_path: Path, store: str) -> None:
    async with web(tmp_path, Pizzeria(), store=store) as server:
        state = (await server.start("order_pizza", {"size": 30})).json()

        async def finished() -> list[bool]:
            (listed,) = (await server.http.get("/api/v1/processes")).json()["processes"]
            shown = (await server.http.get(state["links"]["self"])).json()
            return [each["finishedAt"] is not None for each in (listed, shown)]

        assert await finished() == [False, False]
        await server.resume(state, {"name": "ham"})
        assert await finished() == [True, True]


async def test_a_question_of_a_sub_process_is_answered_at_the_process_that_was_started(tmp_path: Path) -> None:
    async with web(tmp_path, Waiter(), Pizzeria()) as server:
        state = (await server.start("serve_guest", {"size": 30})).json()
        ended = await server.resume(state, {"name": "ham"})
        assert ended.json()["result"] == {"content": "Served: 30 cm with 1 ham"}


async def test_a_process_outlives_the_server_that_began_it(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        state = (await server.start("order_pizza", {"size": 30}, wait=0)).json()
    async with web(tmp_path, Pizzeria()) as server:
        waiting = (await server.http.get(state["links"]["self"], params={"wait": 20})).json()
        assert waiting["status"] == "waiting"
        ended = await server.resume({**state, **waiting["questions"][0]}, {"name": "ham"})
        assert ended.json()["result"] == {"content": "30 cm with 1 ham"}
