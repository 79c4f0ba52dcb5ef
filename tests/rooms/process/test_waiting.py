"""Waiting for people: a question is a return value, one answer counts, and everything else goes on meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from goalport.agents.domain import State, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import AlreadyAnswered, BadInput, ProcessWaiting, UnknownName
from goalport.runtime.platform import AgentInvocation, AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    AgentProcess,
    Completed,
    Failed,
    Killed,
    ProcessStatus,
    Stuck,
    Waiting,
    run_subagent,
)
from tests.rooms.toy_domain import Draft


class Feedback(BaseModel):
    comments: str
    stars: int = 3


@dataclass(frozen=True)
class Story:
    content: str


@agent(description="Writes a story and asks what people think of it")
class Writer:
    def __init__(self) -> None:
        self.calls: list[str] = []

    @action
    async def draft(self, user_input: UserInput) -> Draft:
        self.calls.append("draft")
        return Draft(user_input.content)

    @action
    async def ask(self, draft: Draft) -> WaitFor[Feedback]:
        self.calls.append("ask")
        return WaitFor.form_submission(f"What do you think of {draft.text!r}?", Feedback)

    @achieves_goal(description="A story that somebody has seen")
    async def finish(self, draft: Draft, feedback: Feedback) -> Story:
        return Story(f"{draft.text} ({feedback.comments}, {feedback.stars})")


async def settled(process: AgentProcess) -> object:
    with anyio.fail_after(60):
        return await process.wait()


async def test_a_process_waits_with_its_question_and_goes_on_with_the_answer() -> None:
    writer = Writer()
    platform = AgentPlatform([writer])
    process = await platform.run("Writer", UserInput("tale"))
    assert process.status is ProcessStatus.WAITING
    assert isinstance(process.outcome, Waiting)
    (question,) = process.open_questions
    assert (question.message, question.response_type) == ("What do you think of 'tale'?", Feedback)
    await platform.answer(process.id, question.id, {"comments": "fine", "stars": 5})
    assert await settled(process) == Completed(Story("tale (fine, 5)"))
    assert writer.calls == ["draft", "ask"]
    assert [each.action for each in process.history] == ["Writer.draft", "Writer.ask", "Writer.finish"]


async def test_an_answer_of_another_type_leaves_the_question_open_and_the_first_good_one_counts() -> None:
    platform = AgentPlatform([Writer])
    process = await platform.run("Writer", UserInput("tale"))
    (question,) = process.open_questions
    with pytest.raises(BadInput, match="stars"):
        await platform.answer(process.id, question.id, {"comments": "x", "stars": "many"})
    with pytest.raises(UnknownName, match="question"):
        await platform.answer(process.id, "q-nowhere", {})
    assert process.status is ProcessStatus.WAITING
    await platform.answer(process.id, response=Feedback(comments="ok"))
    with pytest.raises(AlreadyAnswered, match="answered already"):
        await platform.answer(process.id, question.id, Feedback(comments="late"))
    assert await settled(process) == Completed(Story("tale (ok, 3)"))


async def test_a_declined_question_leaves_another_way_or_fails_with_the_reason() -> None:
    @agent(description="d")
    class Careful(Writer):
        @action(cost=5)
        def guess(self, draft: Draft) -> Feedback:
            return Feedback(comments="nobody asked")

    platform = AgentPlatform([Writer, Careful])
    process = await platform.run("Writer", UserInput("tale"))
    await platform.answer(process.id, declined="I have no time.")
    outcome = await settled(process)
    assert isinstance(outcome, Failed)
    assert "Writer.ask was declined: I have no time" in outcome.reason
    other = await platform.run("Careful", UserInput("tale"))
    await platform.answer(other.id, declined="no")
    assert await settled(other) == Completed(Story("tale (nobody asked, 3)"))


@dataclass(frozen=True)
class Order:
    euros: int


@agent(description="Orders")
class Orders:
    @achieves_goal(description="An order that somebody confirmed")
    def confirm(self, user_input: UserInput) -> Order | WaitFor[Order]:
        order = Order(int(user_input.content))
        return order if order.euros < 100 else WaitFor.confirmation(order, f"Spend {order.euros} euros?")


async def test_a_confirmation_gives_its_object_with_a_yes_and_nothing_with_a_no() -> None:
    platform = AgentPlatform([Orders])
    assert (await platform.run("Orders", UserInput("5"))).outcome == Completed(Order(5))
    yes, no = [await platform.run("Orders", UserInput("500")) for _ in range(2)]
    assert yes.open_questions[0].response_type is bool
    await platform.answer(yes.id, response=True)
    await platform.answer(no.id, response=False)
    assert await settled(yes) == Completed(Order(500))
    assert isinstance(await settled(no), Failed)


async def test_several_questions_are_open_at_once_and_work_that_needs_none_is_done_meanwhile() -> None:
    @agent(description="d")
    class Survey:
        @action
        def first(self, user_input: UserInput) -> WaitFor[Feedback]:
            return WaitFor.form_submission("first?", Feedback)

        @action
        def second(self, user_input: UserInput) -> WaitFor[Order]:
            return WaitFor.form_submission("second?", Order)

        @action
        def meanwhile(self, user_input: UserInput) -> Draft:
            return Draft("done meanwhile")

        @achieves_goal(description="g")
        def end(self, feedback: Feedback, order: Order, draft: Draft) -> Story:
            return Story(f"{feedback.comments} {order.euros} {draft.text}")

    platform = AgentPlatform([Survey])
    process = await platform.run("Survey", UserInput("x"))
    one, two = process.open_questions
    assert process.last(Draft) == Draft("done meanwhile")
    await platform.answer(process.id, two.id, {"euros": 7})
    assert isinstance(await settled(process), Waiting)
    await platform.answer(process.id, one.id, {"comments": "good"})
    assert await settled(process) == Completed(Story("good 7 done meanwhile"))


async def test_nobody_answering_in_time_counts_as_a_no() -> None:
    @agent(description="d")
    class Hasty:
        @achieves_goal(description="g")
        def ask(self, user_input: UserInput) -> WaitFor[Feedback]:
            return WaitFor.form_submission("quick?", Feedback, expires_in=0.01)

    process = await AgentPlatform([Hasty]).run("Hasty", UserInput("x"))
    with anyio.fail_after(60):
        while not isinstance(outcome := await process.wait(), Failed):
            await anyio.sleep(0.01)
    assert "Nobody answered in time" in outcome.reason
    assert next(iter(process.questions)).status == "expired"


async def test_a_question_of_ones_own_translates_the_answer() -> None:
    @dataclass(frozen=True)
    class Choose(WaitFor[Order]):
        options: tuple[int, ...]

        @property
        def response_type(self) -> object:
            return int

        def accept(self, response: int) -> Order | None:
            return Order(self.options[response]) if response < len(self.options) else None

    @agent(description="d")
    class Chooses:
        @achieves_goal(description="g")
        def ask(self, user_input: UserInput) -> Choose:
            return Choose("which?", (10, 20))

    platform = AgentPlatform([Chooses])
    process = await platform.run("Chooses", UserInput("x"))
    await platform.answer(process.id, response=1)
    assert await settled(process) == Completed(Order(20))


class Stage(State): ...


class Asking(Stage):
    text: str

    @action
    def ask(self) -> WaitFor[Feedback]:
        return WaitFor.form_submission(f"How is {self.text}?", Feedback)

    @action(clear_blackboard=True)
    def judge(self, feedback: Feedback) -> "Finished | Revising":
        return Finished(self.text) if feedback.stars > 3 else Revising(self.text, feedback.comments)


class Revising(Stage):
    text: str
    comments: str

    @action(clear_blackboard=True)
    def revise(self) -> Asking:
        return Asking(f"{self.text}, {self.comments}")


class Finished(Stage):
    text: str

    @achieves_goal(description="Accepted")
    def end(self) -> Story:
        return Story(self.text)


@agent(description="Writes until somebody is content")
class WriteAndReview:
    @action
    def craft(self, user_input: UserInput) -> Asking:
        return Asking(user_input.content)


async def test_a_person_is_asked_in_each_round_of_a_loop_of_states() -> None:
    platform = AgentPlatform([WriteAndReview])
    process = await platform.run("WriteAndReview", UserInput("a story"))
    for comments, stars in (("longer", 1), ("funnier", 2), ("fine", 5)):
        (question,) = process.open_questions
        await platform.answer(process.id, question.id, {"comments": comments, "stars": stars})
        await settled(process)
    assert process.outcome == Completed(Story("a story, longer, funnier"))


async def test_a_waiting_process_can_be_killed_and_is_not_a_result() -> None:
    platform = AgentPlatform([Writer])
    with pytest.raises(ProcessWaiting, match="What do you think"):
        await AgentInvocation.on(platform).returning(Story).invoke(UserInput("x"))
    (record,) = await platform.processes.records()
    waiting = await platform.process(record.id)
    waiting.kill("Never mind.")
    assert waiting.outcome == Killed("Never mind.")


async def test_a_process_that_was_killed_asks_nothing_any_more_and_takes_no_answer() -> None:
    platform = AgentPlatform([Writer])
    process = await platform.run("Writer", UserInput("x"))
    (question,) = process.open_questions
    process.kill("Never mind.")
    assert process.open_questions == ()
    for declined in ("", "no time"):
        with pytest.raises(BadInput, match="has ended: killed"):
            await platform.answer(process.id, question.id, Feedback(comments="good"), declined=declined)
    assert question.status == "open"
    assert process.last(Feedback) is None


class Outer:
    def __init__(self, run: Callable[[ActionContext, UserInput], Any]) -> None:
        self.run = run
        self.begun = 0


@agent(description="Has somebody else write")
class Delegates:
    def __init__(self) -> None:
        self.begun = 0

    @achieves_goal(description="g")
    async def delegate(self, user_input: UserInput, context: ActionContext) -> Draft:
        self.begun += 1
        story = await context.as_sub_process(Story, "Writer")
        again = await run_subagent(Orders(), Order, UserInput("5"))
        return Draft(f"{story.content} for {again.euros}")


async def test_a_question_of_a_sub_process_parks_its_parent_which_finds_what_it_had_started() -> None:
    delegates, writer = Delegates(), Writer()
    platform = AgentPlatform([delegates, writer, Orders])
    process = await platform.run("Delegates", UserInput("tale"))
    assert process.status is ProcessStatus.WAITING
    (child,) = process.children
    assert child.parent is process
    (question,) = process.open_questions
    await platform.answer(process.id, question.id, Feedback(comments="good"))
    assert await settled(process) == Completed(Draft("tale (good, 3) for 5"))
    assert delegates.begun == 2
    assert writer.calls == ["draft", "ask"]
    assert process.last(Story) is None


async def test_what_a_sub_process_costs_counts_for_its_parent_and_killing_goes_down() -> None:
    @agent(description="d")
    class Spends:
        @achieves_goal(description="g")
        async def spend(self, user_input: UserInput, context: ActionContext) -> Story:
            context.spend(cost=0.25, input_tokens=10)
            return Story("spent")

    @agent(description="d")
    class Parent:
        @achieves_goal(description="g")
        async def run(self, user_input: UserInput, context: ActionContext) -> Draft:
            stories = await context.parallel_map(
                range(4), lambda _: context.as_sub_process(Story, "Spends"), max_concurrency=2
            )
            return Draft(stories[0].content)

    platform = AgentPlatform([Parent, Spends])
    process = await platform.run("Parent", UserInput("x"))
    assert process.outcome == Completed(Draft("spent"))
    assert (process.usage.cost, process.usage.tokens, len(process.children)) == (1.0, 40, 4)


async def test_a_circle_of_sub_agents_ends_with_the_names_of_the_agents() -> None:
    @agent(description="d")
    class Circle:
        @achieves_goal(description="g")
        async def round(self, user_input: UserInput, context: ActionContext) -> Story:
            return await context.as_sub_process(Story, "Circle")

    with anyio.fail_after(60):
        process = await AgentPlatform([Circle]).run("Circle", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert "Circle → Circle" in process.outcome.reason


async def test_a_sub_process_that_gets_stuck_fails_the_action_that_started_it() -> None:
    @agent(description="d")
    class Needs:
        @achieves_goal(description="g")
        def end(self, order: Order) -> Story:
            raise AssertionError

    @agent(description="d")
    class Asks:
        @achieves_goal(description="g")
        async def end(self, user_input: UserInput, context: ActionContext) -> Draft:
            return Draft((await context.as_sub_process(Story, "Needs")).content)

    process = await AgentPlatform([Needs, Asks]).run("Asks", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert "Order" in process.outcome.reason
    assert isinstance(process.children[0].outcome, Stuck)


async def test_killing_a_sub_process_that_waits_lets_its_parent_find_another_way_or_fail() -> None:
    platform = AgentPlatform([Delegates(), Writer(), Orders])
    process = await platform.run("Delegates", UserInput("tale"))
    process.children[0].kill("Nobody will answer.")
    outcome = await settled(process)
    assert isinstance(outcome, Failed)
    assert "Nobody will answer" in outcome.reason
