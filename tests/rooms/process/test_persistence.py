"""A process that was made of its records goes on as the one that the records were made of."""

import gc
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    Ai,
    Budget,
    Named,
    ProcessOptions,
    ProcessStatus,
    State,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
    run_subagent,
    tool,
)
from goalport.base.errors import AlreadyAnswered, BadInput
from goalport.base.events import ActionStarted, Event
from goalport.runtime.process import Completed, Failed, Killed, Stuck, Terminated, Waiting
from goalport.store import InMemoryProcessStore, ProcessStore
from goalport.store.database import DatabaseProcessStore
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing.scripted import ScriptedModel, calls_tool
from goalport.tools import ToolGroup


@dataclass(frozen=True)
class Draft:
    text: str


@dataclass(frozen=True)
class Comment:
    text: str


@dataclass(frozen=True)
class Story:
    text: str


@agent(description="Writes, and asks what a person thinks")
class Writer:
    def __init__(self) -> None:
        self.ran: list[str] = []

    @action
    async def draft(self, user_input: UserInput) -> Draft:
        self.ran.append("draft")
        return Draft(user_input.content)

    @action
    async def ask(self, draft: Draft) -> WaitFor[Comment]:
        self.ran.append("ask")
        return WaitFor.form_submission(f"What of {draft.text}?", Comment)

    @achieves_goal(description="A story")
    async def write(self, draft: Draft, comment: Comment) -> Story:
        self.ran.append("write")
        return Story(f"{draft.text}, {comment.text}")


OpenStore = Callable[[], ProcessStore]
"""Opens the store of a test: each time another connection to the same one."""


@pytest.fixture(params=["memory", "sqlite"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenStore]:
    memory, files = InMemoryProcessStore(), list[DatabaseProcessStore]()
    url = request.getfixturevalue("postgres").database() if request.param == "postgres" else ""

    def opened() -> ProcessStore:
        if request.param == "memory":
            return memory
        files.append(PostgresProcessStore(url) if url else SqliteProcessStore(tmp_path / "processes.db"))
        return files[-1]

    yield opened
    for each in files:
        await each.close()


everywhere = pytest.mark.parametrize("open_store", ["memory", "sqlite", "postgres"], indirect=True)
"""For what databases may hold differently: numbers, texts, times, and what refers to what."""


class Elsewhere:
    """Another platform with the same store, and the same process as that platform has it."""

    def __init__(self, store: ProcessStore, *agents: object, **settings: Any) -> None:
        self.platform = AgentPlatform(agents, store=store, **settings)

    async def process(self, process: AgentProcess) -> AgentProcess:
        found = await self.platform.process(process.id)
        assert found is not process
        return found

    async def answered(self, process: AgentProcess, response: object) -> object:
        with anyio.fail_after(60):
            found = await self.platform.answer(process.id, response=response)
            return await found.wait()


async def rested(process: AgentProcess) -> AgentProcess:
    with anyio.fail_after(60):
        await process.rest()
    return process


async def test_a_process_that_waits_is_answered_elsewhere_and_nothing_runs_twice(open_store: OpenStore) -> None:
    store, writer = open_store(), Writer()
    process = await rested(AgentPlatform([writer], store=store).start("Writer", UserInput("tale")))
    elsewhere = Elsewhere(open_store(), writer)
    found = await elsewhere.process(process)
    assert (found.status, found.goal, found.plan) == (ProcessStatus.WAITING, process.goal, process.plan)
    assert found.outcome == process.outcome
    assert found.history == process.history
    assert (found.created_at, found.finished_at) == (process.created_at, process.finished_at)
    assert await elsewhere.answered(process, {"text": "fine"}) == Completed(Story("tale, fine"))
    assert writer.ran == ["draft", "ask", "write"]
    assert [each.action for each in found.history] == ["Writer.draft", "Writer.ask", "Writer.write"]


async def test_an_answer_that_does_not_fit_leaves_the_question_open_elsewhere_too(open_store: OpenStore) -> None:
    store = open_store()
    process = await rested(AgentPlatform([Writer()], store=store).start("Writer", UserInput("tale")))
    elsewhere = Elsewhere(open_store(), Writer())
    with pytest.raises(BadInput, match="text"):
        await elsewhere.platform.answer(process.id, response={"words": 3})
    found = await elsewhere.process(process)
    (question,), (asked,) = found.open_questions, process.open_questions
    assert (question.id, question.message, question.asked_at) == (asked.id, asked.message, asked.asked_at)


async def test_a_process_that_nobody_holds_is_let_go_and_comes_back_when_it_is_asked_for() -> None:
    platform = AgentPlatform([Writer()])
    process_id = (await rested(platform.start("Writer", UserInput("tale")))).id
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, AgentProcess) and each.id == process_id]
    first, second = await platform.process(process_id), await platform.process(process_id)
    assert first is second
    with anyio.fail_after(60):
        await platform.answer(process_id, response=Comment("good"))
        assert await first.wait() == Completed(Story("tale, good"))


async def test_whoever_subscribed_to_a_process_hears_of_it_after_it_has_waited() -> None:
    heard: list[str] = []

    class Ears:
        def on_event(self, event: Event, /) -> None:
            if isinstance(event, ActionStarted):
                heard.append(event.action)

    platform = AgentPlatform([Writer()])
    process = platform.start("Writer", UserInput("tale"))
    process_id = process.id
    process.subscribe(Ears())
    await rested(process)
    del process
    gc.collect()
    with anyio.fail_after(60):
        found = await platform.answer(process_id, response=Comment("good"))
        await found.wait()
    assert heard == ["Writer.draft", "Writer.ask", "Writer.write"]


class Stage(State):
    pass


class Offered(Stage):
    price: int

    @action
    async def haggle(self) -> "WaitFor[Bid]":
        return WaitFor.form_submission(f"{self.price}?", Bid)

    @action(clear_blackboard=True)
    async def decide(self, bid: "Bid") -> "Offered | Sold":
        return Sold(bid.euros) if bid.euros >= self.price else Offered(self.price - 1)


@dataclass(frozen=True)
class Bid:
    euros: int


class Sold(Stage):
    price: int

    @achieves_goal(description="A sale")
    async def sell(self) -> Story:
        return Story(f"sold for {self.price}")


@agent(description="Sells")
class Market:
    @action
    async def offer(self, user_input: UserInput) -> Offered:
        return Offered(int(user_input.content))


async def test_states_loops_and_answers_go_on_from_store_to_store(open_store: OpenStore) -> None:
    store = open_store()
    process = await rested(AgentPlatform([Market()], store=store).start("Market", UserInput("4")))
    for euros in (1, 2):
        outcome = await Elsewhere(open_store(), Market()).answered(process, Bid(euros))
        assert isinstance(outcome, Waiting)
    assert await Elsewhere(open_store(), Market()).answered(process, Bid(2)) == Completed(Story("sold for 2"))


@dataclass
class Tools:
    calls: list[str] = field(default_factory=list[str])

    @tool
    async def look_up(self, word: str) -> str:
        """Look a word up."""
        self.calls.append(word)
        return f"{word} is a word"


@agent(description="Asks in the middle")
class Traveller:
    @achieves_goal(description="A story")
    async def plan(self, user_input: UserInput, ai: Ai, context: ActionContext) -> Story:
        where = await ai.with_tool_groups("words").generate_text(f"Where to, {user_input.content}?")
        when = await context.ask(f"When to {where}?", str)
        return Story(f"{where} {when}")


@everywhere
async def test_what_a_model_and_a_tool_have_done_is_not_done_again_elsewhere(open_store: OpenStore) -> None:
    store, tools = open_store(), Tools()
    model, words = ScriptedModel([calls_tool("look_up", word="Oslo"), "Oslo"]), ToolGroup.of("words", tools)
    here = AgentPlatform([Traveller()], store=store, models=model, tool_groups=[words])
    process = await rested(here.start("Traveller", UserInput("Ann")))
    elsewhere = Elsewhere(open_store(), Traveller(), models=model, tool_groups=[words])
    assert await elsewhere.answered(process, "in May") == Completed(Story("Oslo in May"))
    assert tools.calls == ["Oslo"]
    found = await elsewhere.process(process)
    assert found.usage == process.usage
    assert found.ledger.by_model == process.ledger.by_model
    assert found.history[0].usage == process.usage


@agent(description="Has another agent write")
class Publisher:
    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    @achieves_goal(description="A book")
    async def publish(self, user_input: UserInput) -> Draft:
        story = await run_subagent(self.writer, Story, user_input)
        return Draft(f"A book: {story.text}")


@everywhere
async def test_a_parent_and_its_child_find_each_other_again(open_store: OpenStore) -> None:
    store, writer = open_store(), Writer()
    process = await rested(
        AgentPlatform([Publisher(writer), writer], store=store).start("Publisher", UserInput("tale"))
    )
    elsewhere = Elsewhere(open_store(), Publisher(writer), writer)
    (child,) = (await elsewhere.process(process)).children
    assert child.status is ProcessStatus.WAITING
    assert await elsewhere.platform.process(child.id) is child
    assert await elsewhere.answered(process, Comment("good")) == Completed(Draft("A book: tale, good"))
    assert writer.ran == ["draft", "ask", "write"]


async def test_killing_elsewhere_ends_the_child_too_and_is_stored(open_store: OpenStore) -> None:
    store, writer = open_store(), Writer()
    process = await rested(
        AgentPlatform([Publisher(writer), writer], store=store).start("Publisher", UserInput("tale"))
    )
    found = await Elsewhere(open_store(), Publisher(writer), writer).process(process)
    found.kill("Enough.")
    await rested(found)
    third = await Elsewhere(open_store(), Publisher(writer), writer).process(process)
    assert (third.outcome, third.children[0].outcome) == (Killed("Enough."), Killed("Enough."))
    assert third.open_questions == ()


@agent(description="Spends, and asks")
class Spender:
    @action
    async def ask(self, user_input: UserInput, context: ActionContext) -> WaitFor[Comment]:
        context.spend(cost=0.75, input_tokens=10)
        return WaitFor.form_submission("More?", Comment)

    @action
    async def spend(self, comment: Comment, context: ActionContext) -> Draft:
        context.spend(cost=0.5, input_tokens=10)
        return Draft(comment.text)

    @achieves_goal(description="A story")
    async def write(self, draft: Draft) -> Story:
        return Story(draft.text)


@everywhere
async def test_budgets_count_on_elsewhere(open_store: OpenStore) -> None:
    store = open_store()
    options = ProcessOptions(budget=Budget(cost=1.0))
    here = AgentPlatform([Spender()], store=store)
    process = await rested(here.start("Spender", UserInput("x"), options=options))
    elsewhere = Elsewhere(open_store(), Spender())
    outcome = await elsewhere.answered(process, Comment("go"))
    assert outcome == Terminated("The budget of 1.00 USD is used up (1.25 USD spent).")
    found = await elsewhere.process(process)
    assert {name: spent.cost for name, spent in found.ledger.by_action.items()} == {
        "Spender.ask": 0.75,
        "Spender.spend": 0.5,
    }


@agent(description="Needs a named draft")
class Editor:
    @achieves_goal(description="A story")
    async def edit(self, first: Annotated[Draft, Named("first")], drafts: list[Draft]) -> Story:
        return Story(f"{first.text} of {len(drafts)}")


@everywhere
async def test_what_is_on_the_blackboard_is_there_elsewhere_with_its_names_types_and_identity(
    open_store: OpenStore,
) -> None:
    store, kept, listed = open_store(), Draft("kept"), Draft("listed")
    here = AgentPlatform([Editor()], store=store)
    process = here.create_agent_process("Editor", kept)
    board = process.blackboard
    board.bind_protected("second", kept)
    board.add(hidden := Draft("hidden"))
    board.hide(hidden)
    board.declare("it", drafts := [listed, kept], list[Draft])
    board.set_condition("Editor.ready", True)
    process.resume()
    assert isinstance((await rested(process)).outcome, Stuck)
    other = (await Elsewhere(open_store(), Editor()).process(process)).blackboard
    assert other.objects == board.objects
    assert hidden in other.history
    assert hidden not in other.objects
    assert other.get("second") is other.objects[0]
    assert cast("list[Draft]", other.last(list[Draft]))[-1] is other.objects[0]
    assert other.last(list[Draft]) == drafts
    assert other.get_condition("Editor.ready") is True
    other.clear()
    assert other.objects == [kept]


async def test_a_stuck_process_goes_on_elsewhere_with_what_it_lacked(open_store: OpenStore) -> None:
    store = open_store()
    process = await rested(AgentPlatform([Editor()], store=store).start("Editor", Draft("one")))
    elsewhere = Elsewhere(open_store(), Editor())
    found = await elsewhere.process(process)
    found.blackboard.bind("first", Draft("one"))
    found.blackboard.declare("it", [Draft("two")], list[Draft])
    with anyio.fail_after(60):
        assert await found.run() == Completed(Story("one of 1"))


async def test_the_history_grows_with_each_store_and_nothing_is_in_it_twice(open_store: OpenStore) -> None:
    store, ran = open_store(), list[Sequence[str]]()
    process = await rested(AgentPlatform([Market()], store=store).start("Market", UserInput("4")))
    for euros in (1, 1, 2):
        elsewhere = Elsewhere(open_store(), Market())
        await elsewhere.answered(process, Bid(euros))
        await rested(await elsewhere.process(process))
        ran.append(
            [
                each.action.rpartition(".")[2]
                for each in (await Elsewhere(open_store(), Market()).process(process)).history
            ]
        )
    first = ["offer", "haggle", "decide", "haggle"]
    assert ran == [first, [*first, "decide", "haggle"], [*first, "decide", "haggle", "decide", "sell"]]


@agent(description="Asks, and does not wait long")
class Hasty:
    @achieves_goal(description="A comment")
    async def ask(self, user_input: UserInput) -> WaitFor[Comment]:
        return WaitFor.form_submission("Quick?", Comment, expires_in=0.05)


@everywhere
async def test_a_question_that_expired_while_no_program_ran_is_declined_when_its_process_is_asked_for(
    open_store: OpenStore,
) -> None:
    process = await rested(AgentPlatform([Hasty()], store=open_store()).start("Hasty", UserInput("x")))
    (question,) = process.open_questions
    elsewhere = Elsewhere(open_store(), Hasty())
    with anyio.fail_after(60):
        while isinstance(outcome := await (await elsewhere.process(process)).wait(), Waiting):
            await anyio.sleep(0.01)
    assert isinstance(outcome, Failed)
    assert "Nobody answered in time" in outcome.reason
    assert question.expires_at is not None


async def test_processes_are_counted_as_they_are_now(open_store: OpenStore) -> None:
    platform = AgentPlatform([Writer(), Market()], store=open_store())
    process = await rested(platform.start("Writer", UserInput("tale")))
    await rested(platform.start("Market", UserInput("4")))
    assert dict(await platform.processes.counts()) == {"waiting": 2}
    await platform.answer(process.id, response=Comment("good"))
    await rested(process)
    assert dict(await platform.processes.counts()) == {"waiting": 1, "completed": 1}


@dataclass(frozen=True, slots=True)
class Ready:
    pass


async def test_an_object_without_fields_is_stored_as_any_other(open_store: OpenStore) -> None:
    process = await rested(AgentPlatform([Writer()], store=open_store()).start("Writer", UserInput("tale"), Ready()))
    found = await Elsewhere(open_store(), Writer()).process(process)
    assert found.last(Ready) == Ready()


async def test_an_answer_that_comes_too_late_is_refused_in_the_next_program(open_store: OpenStore) -> None:
    process = await rested(AgentPlatform([Hasty()], store=open_store()).start("Hasty", UserInput("x")))
    (question,) = process.open_questions
    assert question.expires_at is not None
    while datetime.now(UTC) <= question.expires_at:
        pass  # no timer of the first program runs meanwhile, as if it had ended
    with pytest.raises((AlreadyAnswered, BadInput)):
        await Elsewhere(open_store(), Hasty()).platform.answer(process.id, question.id, Comment("late"))


async def test_a_process_that_is_killed_while_it_is_written_is_killed_in_the_next_program(
    open_store: OpenStore,
) -> None:
    process = AgentPlatform([Writer()], store=open_store()).start("Writer", UserInput("tale"))
    with anyio.fail_after(60):
        while process.status is not ProcessStatus.WAITING:
            await anyio.sleep(0.01)
        process.kill("Enough.")
        await process.rest()
    assert (await Elsewhere(open_store(), Writer()).process(process)).outcome == Killed("Enough.")
