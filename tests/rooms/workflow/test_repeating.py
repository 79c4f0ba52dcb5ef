"""Repetitions: limits, scores, what the steps are told, and what survives questions and mistakes."""

import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, Ai, ProcessOptions, ProcessStatus
from goalport.base.errors import DeclarationError, InvalidScore
from goalport.base.events import ProgressUpdated
from goalport.runtime.process import AgentProcess, Completed, Failed, Outcome
from goalport.runtime.workflow import Attempt, Feedback, History, RepeatUntil, RepeatUntilAcceptable, Workflow
from goalport.testing import FakeOperationContext, ScriptedModel
from tests.rooms.toy_domain import Draft, Order

REPEATED = RepeatUntilAcceptable.returning(Draft)
ANY: Any = REPEATED
"""The builder for those who do not check types."""


def counted(history: History[Draft]) -> Draft:
    return Draft(str(len(history) + 1))


def scored(*scores: float) -> Callable[[Draft], Feedback]:
    def score(draft: Draft) -> Feedback:
        return Feedback(scores[int(draft.text) - 1], f"of {draft.text}")

    return score


async def settled(process: AgentProcess) -> Outcome:
    with anyio.fail_after(60):
        return await process.wait()


async def run(workflow: Workflow[Draft], *inputs: object, **how: Any) -> AgentProcess:
    with anyio.fail_after(60):
        return await AgentPlatform([workflow.build_agent("Repeats", "Repeats")]).run("Repeats", *inputs, **how)


@pytest.mark.parametrize(
    ("scores", "result"),
    [((0.95,), "1"), ((0.2, 0.9, 0.99), "2"), ((0.2, 0.7, 0.5), "2"), ((0.4, 0.4, 0.4), "3"), ((0.0, 0.0, 0.0), "3")],
)
async def test_the_first_acceptable_attempt_or_the_best_is_the_result(scores: tuple[float, ...], result: str) -> None:
    workflow = REPEATED.with_max_iterations(3).repeating(counted).with_evaluator(scored(*scores))
    assert (await run(workflow)).outcome == Completed(Draft(result))


@pytest.mark.parametrize(("threshold", "result"), [(0, "1"), (0.5, "2"), (1, "3")])
async def test_the_first_attempt_with_the_score_that_is_wanted_is_the_result(threshold: float, result: str) -> None:
    repeated = REPEATED.with_score_threshold(threshold).with_max_iterations(3).repeating(counted)
    assert (await run(repeated.with_evaluator(scored(0.2, 0.5, 1.0)))).outcome == Completed(Draft(result))


async def test_a_criterion_decides_in_place_of_the_threshold() -> None:
    repeated = REPEATED.with_acceptance_criteria(lambda feedback: feedback.text == "of 2")
    workflow = repeated.repeating(counted).with_evaluator(scored(1.0, 0.1))
    assert (await run(workflow)).outcome == Completed(Draft("2"))


async def test_the_history_has_all_attempts_and_its_best_is_what_the_workflow_gives() -> None:
    repeated = REPEATED.with_acceptance_criteria(lambda feedback: feedback.text == "of 2").repeating(counted)
    workflow = repeated.with_evaluator(scored(0.8, 0.1)).returning_history()
    history = await workflow.as_sub_process(FakeOperationContext())
    assert [(each.result.text, each.score, each.accepted) for each in history] == [("1", 0.8, False), ("2", 0.1, True)]
    assert history.best == history.last, "what was accepted is the result, whatever its score is"
    none_accepted = REPEATED.with_max_iterations(2).repeating(counted).with_evaluator(scored(0.8, 0.1))
    history = await none_accepted.returning_history().as_sub_process(FakeOperationContext())
    assert history.best == Attempt(Draft("1"), Feedback(0.8, "of 1"))
    last = (
        await RepeatUntil.returning(Draft)
        .repeating(counted)
        .until(lambda _: False)
        .returning_history()
        .as_sub_process(FakeOperationContext())
    )
    assert last.best == Attempt(Draft("5"))


@pytest.mark.parametrize("answer", [None, 1, "yes"])
async def test_a_condition_that_gives_no_bool_ends_the_work_with_an_error(answer: Any) -> None:
    process = await run(RepeatUntil.returning(Draft).repeating(counted).until(lambda _: answer))
    assert isinstance(process.outcome, Failed)
    assert "to give a bool, but it gave" in process.outcome.reason


async def test_a_condition_or_a_later_round_that_raises_ends_the_work_with_its_error() -> None:
    def raises(_: Draft) -> bool:
        raise ValueError("No light")

    process = await run(RepeatUntil.returning(Draft).repeating(counted).until(raises))
    assert "No light" in str(process.outcome)

    def once(history: History[Draft]) -> Draft:
        if len(history):
            raise ValueError("No ink")
        return Draft("1")

    process = await run(RepeatUntil.returning(Draft).repeating(once).until(lambda _: False))
    assert "No ink" in str(process.outcome)


async def test_the_generator_is_told_the_last_attempt_and_the_feedback_to_it() -> None:
    told: list[object] = []

    def improve(draft: Draft | None, feedback: Feedback | None, history: History[Draft]) -> Draft:
        told.append((draft, feedback))
        return counted(history)

    await run(REPEATED.with_max_iterations(2).repeating(improve).with_evaluator(scored(0.1, 0.2)))
    assert told == [(None, None), (Draft("1"), Feedback(0.1, "of 1"))]


async def test_feedback_and_attempts_of_other_workflows_are_not_taken_for_its_own() -> None:
    told: list[object] = []

    def improve(draft: Draft | None, feedback: Feedback | None, history: History[Draft]) -> Draft:
        told.append((draft, feedback, len(history)))
        return Draft("1")

    inner = REPEATED.repeating(improve).with_evaluator(scored(1))

    async def outer(context: ActionContext) -> Draft:
        return await inner.as_sub_process(context)

    workflow = REPEATED.with_max_iterations(2).repeating(outer).with_evaluator(scored(0.1))
    assert (await run(workflow, Feedback(0.5, "old"))).outcome == Completed(Draft("1"))
    assert told == [(None, None, 0)] * 2


async def test_an_object_that_is_there_can_be_what_is_improved() -> None:
    def longer(draft: Draft) -> Draft:
        return Draft(draft.text + "!")

    workflow = RepeatUntil.returning(Draft).repeating(longer).until(lambda draft: len(draft.text) > 3)
    agent = workflow.build_agent("Repeats", "Repeats")
    assert [each.type for each in agent.actions[0].inputs] == [Draft]
    assert (await run(workflow, Draft("hm"))).outcome == Completed(Draft("hm!!"))


async def test_the_last_attempt_is_the_result_when_the_condition_never_holds() -> None:
    seen: list[int] = []

    def never(history: History[Draft], order: Order) -> bool:
        seen.append(len(history))
        return False

    workflow = RepeatUntil.returning(Draft).with_max_iterations(3).repeating(counted).until(never)
    assert (await run(workflow, Order("tea"))).outcome == Completed(Draft("3"))
    assert seen == [1, 2, 3]


async def test_progress_tells_each_round_and_how_it_ended() -> None:
    said: list[str] = []

    class Hears:
        def on_event(self, event: object, /) -> None:
            if isinstance(event, ProgressUpdated):
                said.append(event.message)

    workflow = REPEATED.with_max_iterations(2).repeating(counted).with_evaluator(scored(0.6, 0.25))
    await run(workflow, options=ProcessOptions(listeners=(Hears(),)))
    assert said == [
        "round 1 of 2, score 0.6",
        "round 2 of 2, score 0.25",
        "No attempt of 2 was accepted: the result is the best attempt, score 0.6.",
    ]


@pytest.mark.parametrize("score", [7, -0.1, math.nan, math.inf, "good", True, None])
def test_a_score_that_is_not_from_0_to_1_is_refused(score: Any) -> None:
    with pytest.raises(InvalidScore, match="Expected a score from 0 to 1, but got"):
        Feedback(score)


async def test_an_evaluator_with_such_a_score_or_another_error_ends_the_work_with_it() -> None:
    process = await run(REPEATED.repeating(counted).with_evaluator(scored(7)))
    assert isinstance(process.outcome, Failed)
    assert "Expected a score from 0 to 1, but got 7" in process.outcome.reason

    def raises(draft: Draft) -> Feedback:
        raise ValueError(f"No words for {draft.text}")

    process = await run(REPEATED.repeating(counted).with_evaluator(raises))
    assert isinstance(process.outcome, Failed)
    assert "No words for 1" in process.outcome.reason


async def test_a_model_is_told_when_its_score_is_not_from_0_to_1() -> None:
    async def evaluate(draft: Draft, ai: Ai) -> Feedback:
        return await ai.create_object(f"Evaluate {draft.text}", Feedback)

    model = ScriptedModel(['{"score": 7, "text": "Great"}', Feedback(0.95, "Great")])
    agent = REPEATED.repeating(counted).with_evaluator(evaluate).build_agent("Repeats", "Repeats")
    async with AgentPlatform([agent], models=model) as platform:
        assert (await platform.run("Repeats")).outcome == Completed(Draft("1"))
    assert "score" in str(model.calls[1].messages[-1])


async def test_a_person_may_be_the_evaluator_and_nothing_is_paid_twice() -> None:
    async def write(feedback: Feedback | None, ai: Ai) -> Draft:
        return Draft(await ai.generate_text(f"Write, {feedback.text if feedback else 'please'}"))

    async def ask(draft: Draft, context: ActionContext) -> Feedback:
        good = await context.ask(f"Is {draft.text} good?", bool)
        return Feedback(float(good), "No")

    model = ScriptedModel(["a", "b"])
    agent = REPEATED.with_acceptance_criteria(lambda each: each.score == 1).repeating(write).with_evaluator(ask)
    async with AgentPlatform([agent.build_agent("Repeats", "Repeats")], models=model) as platform:
        process = platform.start("Repeats")
        await settled(process)
        assert [each.message for each in process.questions.open] == ["Is a good?"]
        await platform.answer(process.id, response=True)
        assert await settled(process) == Completed(Draft("a"))
    assert process.status is ProcessStatus.COMPLETED
    assert len(model.calls) == 1


class Praise(Feedback):
    """Feedback of another kind."""


def needs(feedback: Praise) -> Draft:
    return Draft(feedback.text)


MISTAKES: dict[str, Callable[[], object]] = {
    "a limit of 1 or more rounds, but it is 0": lambda: REPEATED.with_max_iterations(0),
    "a limit of 1 or more rounds, but it is '3'": lambda: ANY.with_max_iterations("3"),
    "a threshold from 0 to 1, but it is nan": lambda: REPEATED.with_score_threshold(math.nan),
    "a threshold from 0 to 1, but it is -0.1": lambda: REPEATED.with_score_threshold(-0.1),
    "a threshold from 0 to 1, but it is 1.1": lambda: REPEATED.with_score_threshold(1.1),
    "a threshold from 0 to 1, but it is '0.5'": lambda: ANY.with_score_threshold("0.5"),
    "a threshold from 0 to 1, but it is True": lambda: ANY.with_score_threshold(True),
    "a function to repeat": lambda: REPEATED.with_evaluator(scored()),
    "no feedback in the first round": lambda: REPEATED.repeating(needs),
    "a function that gives": lambda: REPEATED.repeating(3),  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownLambdaType]
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_where_it_is_written(mistake: str) -> None:
    with pytest.raises(DeclarationError, match=mistake):
        MISTAKES[mistake]()


def test_a_history_knows_its_best_attempt() -> None:
    empty = History[Draft]()
    assert (empty.last, empty.best, list(empty)) == (None, None, [])
    attempts = [Attempt(Draft("a"), Feedback(0.5)), Attempt(Draft("b"), Feedback(0.7)), Attempt(Draft("c"))]
    history = empty
    for each in attempts:
        history = history.with_attempt(each)
    assert (history.last, history.best, len(history)) == (attempts[2], attempts[1], 3)
