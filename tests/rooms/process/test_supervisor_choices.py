"""What a supervisor's model may call, with which parameters, how often it is asked, and what goes on without it."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from goalport.agents.domain import PlannerType, UserInput, achieves_goal, action, agent, component
from goalport.base.errors import ModelUnavailable
from goalport.models.llm import ToolCall
from goalport.runtime.platform import AgentPlatform, SupervisorInvocation
from goalport.runtime.process import (
    ActionContext,
    AgentProcess,
    Budget,
    Completed,
    Failed,
    Outcome,
    ProcessOptions,
    ProcessStatus,
    Stuck,
    Terminated,
)
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel, calls_tool
from tests.rooms.process import namesakes
from tests.rooms.toy_domain import Draft, Horoscope, Invoice, Order, Parcel, Person, Receipt

pytestmark = pytest.mark.anyio

REQUEST = UserInput("A parcel for Nina")
ASKS_AND_ORDERS = [calls_tool("ask"), calls_tool("order")]


@agent(description="Sends parcels", planner=PlannerType.SUPERVISOR)
class Post:
    """Asks for the person in the middle of an action."""

    @action
    async def ask(self, user_input: UserInput, context: ActionContext) -> Person:
        return await context.ask("For whom?", Person)

    @action
    def order(self, user_input: UserInput) -> Order:
        return Order("a book")

    @achieves_goal(description="Send a parcel")
    def send(self, person: Person, order: Order) -> Parcel:
        return Parcel(f"{order.item} for {person.name}")


@agent(description="Asks for a person")
class Clerk:
    @achieves_goal(description="Find out for whom")
    async def find(self, user_input: UserInput, context: ActionContext) -> Person:
        return await context.ask("For whom?", Person)


@agent(description="Sends parcels", planner=PlannerType.SUPERVISOR)
class BranchOffice:
    """Lets another agent ask for the person."""

    @action
    async def ask(self, user_input: UserInput, context: ActionContext) -> Person:
        return await context.as_sub_process(Person, Clerk(), user_input)

    @action
    def order(self, user_input: UserInput) -> Order:
        return Order("a book")

    @achieves_goal(description="Send a parcel")
    def send(self, person: Person, order: Order) -> Parcel:
        return Parcel(f"{order.item} for {person.name}")


@agent(description="Writes", planner=PlannerType.SUPERVISOR)
class Office:
    """Its actions need what only the model can give."""

    @action
    def draft(self, order: Order) -> Draft:
        return Draft(order.item)

    @achieves_goal(description="Write a receipt")
    def receipt(self, draft: Draft) -> Receipt:
        return Receipt(draft.text)


async def run(declared: object, replies: Sequence[object], **options: object) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(replies)
    async with AgentPlatform([declared], models=model) as platform:
        process = await platform.run(type(declared).__name__, REQUEST, options=ProcessOptions().with_(**options))
        assert process.outcome is not None
        return process.outcome, model


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


@pytest.mark.parametrize("declared", [Post(), BranchOffice()])
async def test_an_action_that_waited_goes_on_with_the_answer_and_is_not_chosen_again(declared: object) -> None:
    model = ScriptedModel([calls_tool("ask"), calls_tool("order")])
    async with AgentPlatform([declared], models=model) as platform:
        process = await platform.run(type(declared).__name__, REQUEST)
        assert process.status is ProcessStatus.WAITING
        await platform.answer(process.id, response={"name": "Nina"})
        assert await process.wait() == Completed(Parcel("a book for Nina"))
    assert ran(process) == ["ask", "order", "send"]
    assert len(model.calls) == 2


async def test_an_action_that_waited_goes_on_in_another_program(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    asks = ScriptedModel([calls_tool("ask")])
    async with SqliteProcessStore(file) as store, AgentPlatform([Post()], models=asks, store=store) as one:
        process = await one.run("Post", REQUEST)
    orders = ScriptedModel([calls_tool("order")])
    async with SqliteProcessStore(file) as store, AgentPlatform([Post()], models=orders, store=store) as other:
        again = await other.answer(process.id, response={"name": "Nina"})
        assert await again.wait() == Completed(Parcel("a book for Nina"))
    assert again.ledger.requests == 2


async def test_of_two_actions_that_wait_each_goes_on_with_its_own_answer() -> None:
    @agent(description="Asks twice", planner=PlannerType.SUPERVISOR)
    class Twice:
        @action
        async def who(self, user_input: UserInput, context: ActionContext) -> Person:
            return await context.ask("Who?", Person)

        @action
        async def what(self, user_input: UserInput, context: ActionContext) -> Order:
            return await context.ask("What?", Order)

        @achieves_goal(description="Send")
        def send(self, person: Person, order: Order) -> Parcel:
            return Parcel(f"{order.item} for {person.name}")

    model = ScriptedModel([[calls_tool("who"), calls_tool("what")]])
    async with AgentPlatform([Twice()], models=model) as platform:
        process = await platform.run("Twice", REQUEST)
        questions = {each.message: each.id for each in process.open_questions}
        await platform.answer(process.id, questions["What?"], {"item": "a book"})
        await process.wait()
        assert (ran(process), process.status) == (["what"], ProcessStatus.WAITING)
        await platform.answer(process.id, questions["Who?"], {"name": "Nina"})
        assert await process.wait() == Completed(Parcel("a book for Nina"))
    assert len(model.calls) == 1


@pytest.mark.parametrize(
    "call",
    [
        calls_tool("nothing_like_it"),
        calls_tool("draft", order={"item": [1]}),
        calls_tool("draft"),
        calls_tool("draft", order={"item": "a book"}, colour="red"),
        ToolCall("1", "draft", "{no json"),
        ToolCall("1", "draft", '["a list"]'),
    ],
)
async def test_calls_that_cannot_be_made_count_as_rounds(call: ToolCall) -> None:
    outcome, model = await run(Office(), [call] * 9, max_rounds=2)
    assert outcome == Terminated("The supervisor's model was asked 2 times, and no more is allowed (max_rounds).")
    assert len(model.calls) == 2


async def test_a_call_that_was_put_right_is_made_in_the_same_round_trip() -> None:
    replies = [calls_tool("draft", order={"item": 5}), calls_tool("draft", order={"item": "a book"})]
    outcome, model = await run(Office(), replies, max_rounds=2)
    assert outcome == Completed(Receipt("a book"))
    assert "item" in str(model.calls[1].messages[-1])


async def test_when_no_more_may_be_asked_the_goal_is_reached_if_it_can_be() -> None:
    @agent(description="Writes", planner=PlannerType.SUPERVISOR)
    class Ready:
        @action
        def draft(self, order: Order) -> Draft:
            return Draft(order.item)

        @achieves_goal(description="Write a receipt")
        def receipt(self, user_input: UserInput) -> Receipt:
            return Receipt(user_input.content)

    outcome, _ = await run(Ready(), [calls_tool("draft", order="text")] * 3, max_rounds=1)
    assert outcome == Completed(Receipt(REQUEST.content))


async def test_one_tool_called_fifty_times_runs_once() -> None:
    outcome, model = await run(Office(), [[calls_tool("draft", order={"item": "a book"})] * 50])
    assert outcome == Completed(Receipt("a book"))
    assert len(model.calls) == 1


async def test_optional_inputs_that_are_not_there_may_be_given() -> None:
    @agent(description="Predicts", planner=PlannerType.SUPERVISOR)
    class Astrologer:
        @action
        def predict(self, user_input: UserInput, person: Person | None = None, draft: Draft | None = None) -> Horoscope:
            return Horoscope("everybody" if person is None else person.name)

        @action
        def write(self, user_input: UserInput) -> Draft:
            return Draft("…")

        @achieves_goal(description="Print")
        def print(self, horoscope: Horoscope) -> Receipt:
            return Receipt(horoscope.text)

    outcome, model = await run(Astrologer(), [calls_tool("predict", person={"name": "Nina"})])
    assert outcome == Completed(Receipt("Nina"))
    offered = {each.name: each.input_schema for each in model.calls[0].tools}
    assert cast("dict[str, object]", offered["predict"]["properties"]).keys() == {"person"}, "the draft can be made"
    assert "required" not in offered["predict"]
    assert (await run(Astrologer(), [calls_tool("predict")]))[0] == Completed(Receipt("everybody"))


async def test_inputs_whose_types_are_called_alike_are_parameters_of_their_own() -> None:
    @agent(description="Compares", planner=PlannerType.SUPERVISOR)
    class Comparer:
        @action
        def compare(self, one: Person, other: namesakes.Person) -> Draft:
            return Draft(f"{one.name}, {other.age}")

        @achieves_goal(description="Print")
        def print(self, draft: Draft) -> Receipt:
            return Receipt(draft.text)

    outcome, _ = await run(Comparer(), [calls_tool("compare", person={"name": "Nina"}, person_2={"age": 5})])
    assert outcome == Completed(Receipt("Nina, 5"))


async def test_actions_that_are_called_alike_are_tools_of_their_own() -> None:
    @component
    class Left:
        @action
        def make(self, user_input: UserInput) -> Person:
            return Person("left")

        @action
        def größe(self, user_input: UserInput) -> Invoice:  # noqa: PLC2401 - users may
            return Invoice("")

    @component
    class Right:
        @action
        def make(self, user_input: UserInput) -> Order:
            return Order("right")

        @action
        def left_make(self, user_input: UserInput) -> Draft:
            return Draft("")

        @action
        def gräße(self, user_input: UserInput) -> Horoscope:  # noqa: PLC2401 - users may
            return Horoscope("")

        @action
        def send(self, person: Person, order: Order) -> Parcel:
            return Parcel(f"{order.item}, {person.name}")

    model = ScriptedModel([[calls_tool("left_make"), calls_tool("right_make")]])
    async with AgentPlatform(models=model) as platform:
        invocation = SupervisorInvocation.on(platform).returning(Parcel).with_scope(Left(), Right())
        assert await invocation.invoke(REQUEST) == Parcel("right, left")
    assert sorted(each.name for each in model.calls[0].tools) == [
        "gr__e",
        "gr__e_2",
        "left_make",
        "left_make_2",
        "right_make",
    ]


async def test_a_budget_a_deadline_and_a_model_without_an_answer_end_it_with_a_reason() -> None:
    both = [calls_tool("draft", order={"item": "a book"})]
    spent, _ = await run(Office(), [calls_tool("nothing_like_it"), both], budget=Budget(cost=0.0005))
    assert isinstance(spent, Terminated)
    assert "budget" in spent.reason
    actions, _ = await run(Post(), [calls_tool("order")], budget=Budget(actions=1))
    assert isinstance(actions, Terminated)
    assert actions.reason.startswith("The budget of 1 actions is used up. Allow more by ")
    away, _ = await run(Office(), [ModelUnavailable("scripted", "overloaded")])
    assert isinstance(away, Failed)
    silent, _ = await run(Office(), ["", ""])
    assert silent == Stuck("The supervisor's model chose no action.")


async def test_every_object_can_be_shown_to_the_model() -> None:
    class Ring:
        def __init__(self) -> None:
            self.ring = self

    @agent(description="Makes odd things", planner=PlannerType.SUPERVISOR)
    class Workshop:
        @action
        def cast(self, user_input: UserInput) -> bytes:
            return b"\xff"

        @action
        def bend(self, user_input: UserInput) -> Ring:
            return Ring()

        @achieves_goal(description="Wrap")
        def wrap(self, metal: bytes, ring: Ring) -> Parcel:
            return Parcel("wrapped")

    outcome, _ = await run(Workshop(), [calls_tool("cast"), calls_tool("bend")])
    assert outcome == Completed(Parcel("wrapped"))
