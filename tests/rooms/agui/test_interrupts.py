"""Questions over AG-UI: they interrupt a run, and another run answers them, on this server or another one."""

from pathlib import Path
from typing import Any

from tests.rooms.agui.front_end import front_end
from tests.rooms.agui.talkers import Waiter

ORDER = {"dish": "soup", "plates": 2}


def interrupts(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The interrupts that ended a run."""
    assert events[-1]["type"] == "RUN_FINISHED", events[-1]
    return list(events[-1]["outcome"]["interrupts"])


def answer(interrupt: dict[str, Any], payload: object) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def cancel(interrupt: dict[str, Any]) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "cancelled"}


def error(events: list[dict[str, Any]]) -> tuple[str, str]:
    assert events[-1]["type"] == "RUN_ERROR", events[-1]
    return events[-1]["code"], events[-1]["message"]


async def test_questions_interrupt_runs_and_are_answered_by_the_next_ones(tmp_path: Path) -> None:
    async with front_end(tmp_path, Waiter()) as web:
        thread = web.thread("Waiter")
        events = await thread.run("I am hungry")
        (form,) = interrupts(events)
        assert (form["reason"], form["message"]) == ("input_required", "What would you like?")
        assert form["responseSchema"]["required"] == ["dish", "plates"]
        assert thread.state["goalport"]["questions"][0]["id"] == form["id"]
        before = [each["type"] for each in events][-3:-1]
        assert before == ["MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"]

        (yes,) = interrupts(await thread.run(resume=[answer(form, ORDER)]))
        assert (yes["reason"], yes["responseSchema"]) == ("confirmation", {"type": "boolean"})

        events = await thread.run(resume=[answer(yes, {"approved": True})])
        assert events[-1]["outcome"] == {"type": "success"}
        assert thread.said == ["user: I am hungry", "assistant: Here: soup"]
        assert thread.state["goalport"]["questions"] == []


async def test_what_answers_nothing_changes_nothing(tmp_path: Path) -> None:
    async with front_end(tmp_path, Waiter()) as web:
        thread = web.thread("Waiter")
        (form,) = interrupts(await thread.run("Hello"))
        code, told = error(await thread.run(resume=[answer(form, {"dish": "soup", "plates": "many"})]))
        assert code == "invalid-answer"
        assert "plates" in told
        code, told = error(await thread.run(resume=[answer({"id": "q-0"}, ORDER)]))
        assert code == "unknown-interrupt"
        code, told = error(await thread.run("Hurry up"))
        assert code == "open-interrupts"
        assert form["id"] in told
        thread.messages.pop()
        assert interrupts(await thread.run()) == [form]
        stranger = web.thread("Waiter", caller="eve")
        assert error(await stranger.run(resume=[answer(form, ORDER)]))[0] == "unknown-interrupt"
        assert interrupts(await thread.run(resume=[answer(form, ORDER)]))[0]["message"] == "2 x soup?"


async def test_an_answer_may_be_sent_again_and_another_one_may_not(tmp_path: Path) -> None:
    async with front_end(tmp_path, Waiter()) as web:
        thread = web.thread("Waiter")
        (form,) = interrupts(await thread.run("Hello"))
        (yes,) = interrupts(await thread.run(resume=[answer(form, ORDER)]))
        assert interrupts(await thread.run(resume=[answer(form, ORDER)])) == [yes]
        code, told = error(await thread.run(resume=[answer(form, {"dish": "cake", "plates": 1})]))
        assert code == "already-answered"
        assert "first answer counts" in told
        await thread.run(resume=[answer(yes, False)])
        assert thread.said[-1] == "assistant: Then not."
        thread.messages.pop()
        events = await thread.run(resume=[answer(yes, False)])
        assert events[-1]["outcome"] == {"type": "success"}
        assert thread.said[-1] == "assistant: Then not."
        assert error(await thread.run(resume=[answer(yes, True)]))[0] == "already-answered"


async def test_an_interrupt_is_cancelled_also_when_somebody_else_has_answered(tmp_path: Path) -> None:
    async with front_end(tmp_path, Waiter()) as web:
        thread = web.thread("Waiter")
        (form,) = interrupts(await thread.run("Hello"))
        (process,) = await web.platform.processes.records()
        await web.platform.answer(process.id, form["id"], ORDER)
        (yes,) = interrupts(await thread.run(resume=[cancel(form)]))
        events = await thread.run(resume=[cancel(yes)])
        assert events[-1]["type"] == "RUN_ERROR"


async def test_another_server_goes_on_with_what_was_asked(tmp_path: Path) -> None:
    settings = {"store": "sqlite", "state_keys": "k" * 32}
    async with front_end(tmp_path, Waiter(), **settings) as one, front_end(tmp_path, Waiter(), **settings) as other:
        thread = one.thread("Waiter")
        (form,) = interrupts(await thread.run("Hello"))
        thread.http = other.http
        (yes,) = interrupts(await thread.run(resume=[answer(form, ORDER)]))
        thread.http = one.http
        await thread.run(resume=[answer(yes, True)])
        assert thread.said == ["user: Hello", "assistant: Here: soup"]
