"""Receivers of notifications are told how tasks are: with what they asked for, signed, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from starlette.responses import Response

from goalport.base.caller import Caller
from goalport.runtime.process.contexts import Context
from tests.receiver import Received, receiving
from tests.rooms.a2a.other_agents import BINDINGS, Refused, message, other_agent, state_in
from tests.rooms.agui.talkers import Cook, Kitchen, Thinker
from tests.rooms.serve.askers import Pizzeria

ALLOWED: dict[str, Any] = {"a2a_push_allow": ["127.0.0.1"]}
ORDER = {"dish": "soup", "plates": 2}


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_a_receiver_is_told_each_state_in_which_a_task_stays(tmp_path: Path, binding: str) -> None:
    async with receiving() as receiver, other_agent(tmp_path, Pizzeria(), **ALLOWED) as other:
        client = replace(other, binding=binding)
        auth = {"scheme": "Bearer", "credentials": "the credentials"}
        config = {"url": receiver.url, "token": "the token", "authentication": auth}
        task = await client.send({"size": 30}, configuration={"taskPushNotificationConfig": config})
        asked = await receiver.told("INPUT_REQUIRED")
        assert asked.json["task"]["id"] == task["id"]
        assert asked.json["task"]["status"]["message"] == task["status"]["message"]
        assert asked.headers["x-a2a-notification-token"] == "the token"
        assert asked.headers["authorization"] == "Bearer the credentials"
        assert "x-a2a-signature" not in asked.headers
        await client.answer(task, {"name": "ham"})
        done = await receiver.told("COMPLETED")
        assert done.json["task"]["artifacts"][0]["parts"][0]["data"] == {"content": "30 cm with 1 ham"}


async def test_a_turn_of_a_chatbot_is_told_too(tmp_path: Path, binding: str) -> None:
    async with receiving() as receiver, other_agent(tmp_path, Thinker(), **ALLOWED) as other:
        config = {"url": receiver.url}
        client = replace(other, binding=binding)
        task = await client.send("Hi", contextId="talk", configuration={"taskPushNotificationConfig": config})
        told = await receiver.told("COMPLETED")
        assert told.json["task"]["id"] == task["id"]
        assert told.json["task"]["artifacts"][0]["parts"] == [{"text": "Number 1: you said 'Hi'."}]


async def test_configurations_are_got_listed_and_deleted_without_their_secrets(tmp_path: Path, binding: str) -> None:
    async with receiving() as receiver, other_agent(tmp_path, Kitchen(), **ALLOWED) as other:
        client = replace(other, binding=binding)
        task = await client.send(ORDER)
        secret = {"token": "the token", "authentication": {"scheme": "Basic", "credentials": "the credentials"}}
        one = {"taskId": task["id"], "id": "one"}
        created = await client.call("CreateTaskPushNotificationConfig", **one, url=receiver.url, **secret)
        shown = {**one, "url": receiver.url, "authentication": {"scheme": "Basic"}}
        assert created == shown
        assert await client.call("GetTaskPushNotificationConfig", **one) == shown
        await receiver.told("INPUT_REQUIRED")
        await client.call("CreateTaskPushNotificationConfig", taskId=task["id"], url=f"{receiver.url}?second")
        listed = await client.call("ListTaskPushNotificationConfigs", taskId=task["id"])
        assert [each["id"] for each in listed["configs"]] == ["one", task["id"]]
        assert "the " not in str(listed)
        for _ in range(2):  # it may be deleted again
            await client.call("DeleteTaskPushNotificationConfig", **one)
        with pytest.raises(Refused, match="TASK_NOT_FOUND"):
            await client.call("GetTaskPushNotificationConfig", **one)
        await client.answer(task, "yes")
        assert (await receiver.told("COMPLETED")).headers.get("authorization") is None
        assert [each.headers.get("authorization") for each in receiver.received].count("Basic the credentials") == 1


async def test_nobody_sees_or_changes_who_is_told_of_the_tasks_of_others(tmp_path: Path, binding: str) -> None:
    async with receiving() as receiver, other_agent(tmp_path, Kitchen(), **ALLOWED) as other:
        ada, bob = (replace(other, binding=binding, caller=each) for each in ("ada", "bob"))
        task = await ada.send(ORDER, configuration={"taskPushNotificationConfig": {"id": "one", "url": receiver.url}})
        one = {"taskId": task["id"], "id": "one"}
        for method, given in {
            "CreateTaskPushNotificationConfig": {**one, "url": receiver.url},
            "GetTaskPushNotificationConfig": one,
            "ListTaskPushNotificationConfigs": {"taskId": task["id"]},
            "DeleteTaskPushNotificationConfig": one,
        }.items():
            with pytest.raises(Refused, match="TASK_NOT_FOUND"):
                await bob.call(method, **given)
        assert (await ada.call("GetTaskPushNotificationConfig", **one))["url"] == receiver.url
        begun = {"taskPushNotificationConfig": {"url": receiver.url}}
        with pytest.raises(Refused, match="TASK_NOT_FOUND"):
            await bob.answer(task, "yes", configuration=begun)


async def test_who_is_told_is_erased_with_the_caller(tmp_path: Path, binding: str) -> None:
    async with receiving() as receiver, other_agent(tmp_path, Kitchen(), **ALLOWED) as other:
        ada = replace(other, binding=binding, caller="ada")
        await ada.send(ORDER, configuration={"taskPushNotificationConfig": {"url": receiver.url}})
        assert [each for each in await other.platform.store.context_ids() if "ada" in each]
        await other.platform.erase(Caller("ada"))
        assert await other.platform.store.context_ids() == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"url": "http://169.254.169.254/latest/meta-data"}, "169.254.169.254 is not a public one"),
        ({"url": "http://[::ffff:127.0.0.1]/"}, "is not a public one"),
        ({"url": "http://127.0.0.1:1/"}, "a2a_push_allow"),
        ({"url": "http://localhost/"}, "is not a public one"),
        ({"url": "http://[::127.0.0.1]/"}, "is not a public one"),
        ({"url": "http://2130706433/"}, "is not a public one"),
        ({"url": "file:///etc/passwd"}, "only http:// and https://"),
        ({"url": "gopher://example.com/"}, "only http:// and https://"),
        ({"url": "no address"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://me:pass@127.0.0.2:9/"}, "no user name and password"),
        ({"url": "http://nobody.invalid/"}, "cannot be found"),
        ({"url": "http://127.0.0.2:9/", "token": "a\r\nX-Other: b"}, "token"),
        ({"url": "http://127.0.0.2:9/", "token": "t" * 5_000}, "token"),
        ({"url": "http://127.0.0.2:9/", "authentication": {"scheme": "Bearer", "credentials": "ä"}}, "credentials"),
        ({}, "url"),
    ],
)
async def test_an_address_that_may_not_be_told_is_refused_and_nothing_begins(
    tmp_path: Path, binding: str, config: dict[str, Any], words: str
) -> None:
    async with other_agent(tmp_path, Cook(), a2a_push_allow=["127.0.0.2/32"]) as other:
        client = replace(other, binding=binding)
        with pytest.raises(Refused, match="INVALID_PARAMS") as refused:
            await client.send("peas", configuration={"taskPushNotificationConfig": config})
        assert words in refused.value.message
        assert await other.platform.processes.records() == []
        task = await client.send("peas")
        with pytest.raises(Refused, match="INVALID_PARAMS"):
            await client.call("CreateTaskPushNotificationConfig", taskId=task["id"], **config)
        assert (await client.call("ListTaskPushNotificationConfigs", taskId=task["id"])).get("configs", []) == []


async def test_a_task_has_ten_configurations_at_most_and_an_answer_with_one_more_does_not_count(
    tmp_path: Path, binding: str
) -> None:
    async with receiving() as receiver, other_agent(tmp_path, Pizzeria(), **ALLOWED) as other:
        client = replace(other, binding=binding)
        task = await client.send({"size": 30})
        for number in range(10):
            await client.call("CreateTaskPushNotificationConfig", taskId=task["id"], id=str(number), url=receiver.url)
        more = {"id": "11", "url": receiver.url}
        with pytest.raises(Refused, match="Delete one first"):
            await client.call("CreateTaskPushNotificationConfig", taskId=task["id"], **more)
        answer, configuration = message({"name": "ham"}, taskId=task["id"]), {"taskPushNotificationConfig": more}
        with pytest.raises(Refused, match="Delete one first"):
            await client.call("SendMessage", message=answer, configuration=configuration)
        assert state_in(await client.call("GetTask", id=task["id"])) == "input_required"


async def test_a_notification_is_signed_by_the_key_of_the_server(tmp_path: Path) -> None:
    pem = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "card.pem").write_bytes(pem)
    async with receiving() as receiver, other_agent(tmp_path, Cook(), a2a_signing_key="card.pem", **ALLOWED) as other:
        await other.send("peas", configuration={"taskPushNotificationConfig": {"url": receiver.url}})
        told = await receiver.told("COMPLETED")
        signature = told.headers["x-a2a-signature"]
        keys = (await other.http.get("/.well-known/a2a-keys.json")).json()["keys"]
        key = next(each for each in keys if each["kid"] == jwt.get_unverified_header(signature)["kid"])
        audience = receiver.url.removesuffix("/hook")
        claims = jwt.decode(signature, jwt.PyJWK(key), algorithms=["ES256"], audience=audience)
        assert claims["request_body_sha256"] == sha256(told.body).hexdigest()
        with pytest.raises(jwt.InvalidAudienceError):
            jwt.decode(signature, jwt.PyJWK(key), algorithms=["ES256"], audience="http://127.0.0.1:1")


async def test_what_fails_is_tried_again_and_a_redirect_leads_nowhere(tmp_path: Path) -> None:
    async with (
        receiving() as inside,
        receiving(Response(status_code=503), Response(status_code=302, headers={"location": inside.url})) as receiver,
        other_agent(tmp_path, Cook(), a2a_push_allow=[receiver.url.removeprefix("http://").partition("/")[0]]) as other,
    ):
        await other.send("peas", configuration={"taskPushNotificationConfig": {"url": receiver.url}})
        told = await receiver.until(lambda received: len(received) == 3)
        assert told[0].body == told[1].body == told[2].body
        assert inside.received == []


async def test_what_fails_for_too_long_is_given_up_and_the_next_state_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = [Response(status_code=503), Response(status_code=503)]
    async with (
        receiving(*refusals) as receiver,
        other_agent(tmp_path, Pizzeria(), a2a_push_seconds=1, **ALLOWED) as other,
    ):
        config = {"url": receiver.url, "token": "the token"}
        task = await other.send({"size": 30}, configuration={"taskPushNotificationConfig": config})
        await receiver.until(lambda received: len(received) >= 2)
        await other.answer(task, {"name": "ham"})
        await receiver.told("COMPLETED")
        (line,) = (each.getMessage() for each in caplog.records if "given up" in each.getMessage())
        assert task["id"] in line
        assert "503" in line
        assert "the token" not in caplog.text


async def test_of_two_servers_of_a_store_one_tells(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"store": "sqlite", **ALLOWED}
    async with (
        receiving() as receiver,
        other_agent(tmp_path, Pizzeria(), **shared) as one,
        other_agent(tmp_path, Pizzeria(), **shared) as two,
    ):
        task = await one.send({"size": 30}, configuration={"taskPushNotificationConfig": {"url": receiver.url}})
        hook = f"{receiver.url}?second"
        await two.call("CreateTaskPushNotificationConfig", taskId=task["id"], id="second", url=hook)
        await receiver.until(lambda received: len(received) >= 2)
        await two.answer(task, {"name": "ham"})

        def completed(received: Sequence[Received]) -> list[str]:
            return [each.query for each in received if "TASK_STATE_COMPLETED" in each.body.decode()]

        await receiver.until(lambda received: len(completed(received)) >= 2)
        other = await one.send({"size": 20}, configuration={"taskPushNotificationConfig": {"url": receiver.url}})
        await receiver.until(lambda received: received[-1].json["task"]["id"] == other["id"])
        assert sorted(completed(receiver.received)) == ["", "second"]


async def test_what_others_keep_under_a_like_name_is_left_alone(tmp_path: Path) -> None:
    async with receiving() as receiver, other_agent(tmp_path, Cook(), store="sqlite", **ALLOWED) as other:
        context = Context("mine", Caller("a2a notifications"))
        context.add("something")
        await other.platform.contexts.save(context)
        async with other_agent(tmp_path, Cook(), store="sqlite", **ALLOWED) as later:
            await later.send("peas", configuration={"taskPushNotificationConfig": {"url": receiver.url}})
            await receiver.told("COMPLETED")
            assert await later.platform.contexts.find("mine", Caller("a2a notifications")) is not None


async def test_a_client_of_the_earlier_version_is_told_as_that_has_it(tmp_path: Path) -> None:
    async with receiving() as receiver, other_agent(tmp_path, Kitchen(), **ALLOWED) as other:
        task = await other.send(ORDER)

        async def rpc(method: str, params: dict[str, Any]) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": f"tasks/pushNotificationConfig/{method}", "params": params}
            answer = (await other.http.post("/a2a", json=body)).json()
            assert "error" not in answer
            return answer.get("result")

        config = {"url": receiver.url, "token": "the token"}
        made = await rpc("set", {"taskId": task["id"], "pushNotificationConfig": config})
        assert made["pushNotificationConfig"]["url"] == receiver.url
        assert (await rpc("get", {"id": task["id"]}))["pushNotificationConfig"]["url"] == receiver.url
        (told,) = await receiver.until(lambda received: len(received) == 1)
        assert (told.json["kind"], told.json["id"], told.json["status"]["state"]) == (
            "task",
            task["id"],
            "input-required",
        )
        assert len(await rpc("list", {"id": task["id"]})) == 1
        given = {"id": task["id"], "pushNotificationConfigId": task["id"]}
        assert await rpc("delete", given) is None
        assert await rpc("list", {"id": task["id"]}) == []


async def test_a_card_says_that_receivers_are_told(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook()) as other:
        card = (await other.http.get("/.well-known/agent-card.json")).json()
        assert card["capabilities"]["pushNotifications"] is True
        assert state_in((await other.call("SendMessage", message=message("peas")))["task"]) == "completed"
