"""Goals over AG-UI: started from a sentence or from typed input, and answered with text, state and a result."""

from pathlib import Path

from tests.rooms.agui.front_end import front_end, kinds, only
from tests.rooms.agui.talkers import Cook, Kitchen
from tests.rooms.agui.test_interrupts import answer, cancel, error, interrupts

ORDER = {"dish": "soup", "plates": 2}


async def test_a_goal_starts_from_a_sentence_and_its_result_is_text_state_and_result(tmp_path: Path) -> None:
    async with front_end(tmp_path, Cook()) as web:
        thread = web.thread("cook")
        events = await thread.run("noodles")
    assert kinds(events) == [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "STATE_DELTA",
        "STEP_STARTED",
        "CUSTOM",
        "STEP_FINISHED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STATE_DELTA",
        "RUN_FINISHED",
    ]
    assert events[-1]["result"] == {"text": "A plate of noodles"}
    assert thread.state["goalport"]["result"] == {"text": "A plate of noodles"}
    assert "A plate of noodles" in thread.said[-1]
    (progress,) = only(events, "CUSTOM")
    assert (progress["name"], progress["value"]) == ("goalport.progress", {"message": "The water boils"})
    (plan,) = [each["delta"][0] for each in events if each["type"] == "STATE_DELTA"][:1]
    assert plan["path"] == "/goalport/plan"
    assert len(plan["value"]["steps"]) == 1


async def test_a_goal_with_typed_input_asks_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    async with front_end(tmp_path, Kitchen()) as web:
        thread = web.thread("prepare")
        thread.state = {"theme": "dark"}
        (yes,) = interrupts(await thread.run(forwardedProps={"input": ORDER}))
        assert (yes["reason"], yes["message"]) == ("confirmation", "Begin with 2 x soup?")
        assert error(await thread.run(resume=[answer(yes, {"what": 1})]))[0] == "invalid-answer"
        events = await thread.run(resume=[answer(yes, True)])
        assert events[-1]["result"] == {"text": "2 plates of soup"}
        assert (await thread.run(resume=[answer(yes, True)]))[-1]["result"] == {"text": "2 plates of soup"}
        assert thread.state["theme"] == "dark"
        assert error(await thread.run(resume=[answer(yes, False)]))[0] == "already-answered"
        (no,) = interrupts(await thread.run(forwardedProps={"input": ORDER}))
        for _ in range(2):
            assert error(await thread.run(resume=[answer(no, False)]))[0] == "no-result"
        stranger = web.thread("prepare", caller="eve")
        assert error(await stranger.run(resume=[answer(yes, True)]))[0] == "unknown-interrupt"


async def test_a_goal_whose_question_is_cancelled_says_why_it_has_no_result(tmp_path: Path) -> None:
    async with front_end(tmp_path, Kitchen()) as web:
        thread = web.thread("prepare")
        thread.state = {"input": ORDER}
        (yes,) = interrupts(await thread.run())
        code, told = error(await thread.run(resume=[cancel(yes)]))
        assert code == "no-result"
        assert "prepare" in told


async def test_of_two_answers_to_one_question_the_first_counts(tmp_path: Path) -> None:
    async with front_end(tmp_path, Kitchen()) as web:
        thread = web.thread("prepare")
        (yes,) = interrupts(await thread.run(forwardedProps={"input": ORDER}))
        code, told = error(await thread.run(resume=[answer(yes, True), answer(yes, False)]))
        assert (code, "answered already" in told) == ("already-answered", True)
        assert (await thread.run(resume=[answer(yes, True)]))[-1]["result"] == {"text": "2 plates of soup"}


async def test_a_run_that_is_sent_again_joins_the_process_that_it_began(tmp_path: Path) -> None:
    async with front_end(tmp_path, Kitchen()) as web:
        thread = web.thread("prepare")
        first = interrupts(await thread.run(forwardedProps={"input": ORDER}, runId="r"))
        assert interrupts(await thread.run(forwardedProps={"input": ORDER}, runId="r")) == first
        other = await thread.run(forwardedProps={"input": {"dish": "cake", "plates": 1}}, runId="r")
        assert error(other)[0] == "repeated-run"
        assert len(await web.platform.processes.records()) == 1


async def test_wrong_input_of_a_goal_is_told_with_its_fields(tmp_path: Path) -> None:
    async with front_end(tmp_path, Kitchen(), Cook()) as web:
        code, told = error(await web.thread("prepare").run("Two soups"))
        assert (code, "dish, plates" in told) == ("invalid-input", True)
        code, told = error(await web.thread("prepare").run(forwardedProps={"input": {"dish": "soup", "plates": "x"}}))
        assert (code, "plates" in told) == ("invalid-input", True)
        code, told = error(await web.thread("cook").run())
        assert (code, "message of the user" in told) == ("invalid-input", True)
