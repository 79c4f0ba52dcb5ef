"""Actions that ask models: which Ai they get, what it costs whom, and how a budget or an end stops them."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

import anyio
import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    Budget,
    OperationContext,
    ProcessOptions,
    Provided,
    UserInput,
    achieves_goal,
    action,
    agent,
    condition,
    cost,
    tool,
)
from goalport.base.errors import GoalportError, ModelUnavailable, NonRetryable
from goalport.base.events import Event, ModelCalled, ModelReplied, ToolCalled
from goalport.models.llm import ModelCall, ModelCard, Prices, TokenUsage, UserMessage
from goalport.runtime.ai import Ai
from goalport.runtime.process import Completed, Failed, Killed, MaxTokens, Terminated
from goalport.testing.scripted import ScriptedModel, calls_tool
from goalport.tools import ToolGroup
from tests.rooms.toy_domain import Text

CENT = TokenUsage(input_tokens=60, output_tokens=40, cost=0.01)


@dataclass(frozen=True)
class Topic:
    name: str


@dataclass(frozen=True)
class Outline:
    points: str


@agent(description="Writes about what the user names")
class Writer:
    @action
    async def find_topic(self, user_input: UserInput, ai: Ai) -> Topic:
        return await ai.create_object(f"What is this about? {user_input.content}", Topic)

    @action
    async def outline(self, topic: Topic, context: OperationContext) -> Outline:
        points = await context.ai.generate_text(f"Points about {topic.name}")
        return Outline(points + await context.ai.generate_text("More points"))

    @achieves_goal(description="A text")
    @action
    async def write(self, outline: Outline, ai: Annotated[Ai, Provided]) -> Text:
        return Text(await ai.generate_text(f"Write: {outline.points}"))


async def test_actions_ask_models_and_the_ledger_knows_what_each_spent() -> None:
    model = ScriptedModel([Topic("bees"), "a", "b", "Bees!"], usage=CENT)
    process = await AgentPlatform([Writer], models=model).run("Writer", UserInput("bees"))

    assert process.outcome == Completed(Text("Bees!"))
    assert process.usage == TokenUsage(input_tokens=240, output_tokens=160, cost=0.04)
    assert {name: usage.tokens for name, usage in process.ledger.by_action.items()} == {
        "Writer.find_topic": 100,
        "Writer.outline": 200,
        "Writer.write": 100,
    }
    assert process.ledger.by_model == {"scripted": process.usage}
    assert process.ledger.requests == len(process.ledger.entries) == 4
    assert [each.usage.cost for each in process.history] == [0.01, 0.02, 0.01]


async def test_events_of_a_model_name_the_process_and_the_action() -> None:
    heard: list[Event] = []

    class Ears:
        def on_event(self, event: Event, /) -> None:
            heard.append(event)

    model = ScriptedModel([Topic("bees"), "a", "b", "Bees!"])
    process = await AgentPlatform([Writer], models=model, listeners=[Ears()]).run("Writer", UserInput("bees"))

    told = [each for each in heard if isinstance(each, (ModelCalled, ModelReplied))]
    assert {each.process_id for each in told} == {process.id}
    assert [each.action for each in told if isinstance(each, ModelCalled)] == [
        "Writer.find_topic",
        "Writer.outline",
        "Writer.outline",
        "Writer.write",
    ]


@agent(description="Adds with tools")
class Adder:
    @achieves_goal(description="A sum")
    @action(tool_groups=["maths", "nowhere"])
    async def add(self, user_input: UserInput, ai: Ai) -> Text:
        return Text(await ai.generate_text(user_input.content))


def maths() -> ToolGroup:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return ToolGroup.of("maths", add)


async def test_the_tools_of_an_actions_groups_are_its_ais_and_wait_as_long_as_the_run_wants() -> None:
    model = ScriptedModel([calls_tool("add", a=1, b=2), "Three."])
    platform = AgentPlatform([Adder], models=model, tool_groups=[maths()])
    begun = anyio.current_time()
    process = await platform.run("Adder", UserInput("1 + 2?"), options=ProcessOptions(tool_delay=0.5))

    assert process.outcome == Completed(Text("Three."))
    assert [each.name for each in model.calls[0].tools] == ["add"]
    assert 0.5 <= anyio.current_time() - begun < 1.0


@agent(description="Asks again and again")
class Insatiable:
    def __init__(self) -> None:
        self.turns = 0

    @achieves_goal(description="Never reached")
    async def ask(self, user_input: UserInput, ai: Ai) -> Text:
        while True:
            try:
                await ai.generate_text(user_input.content)
                self.turns += 1
            except ModelUnavailable:
                return Text("")

    @achieves_goal(description="Another way")
    @action(cost=1.0)
    async def other_way(self, user_input: UserInput) -> Text:
        return Text("the other way")


FREE = ModelCard(name="scripted", provider="test")


def endless(call: ModelCall) -> object:
    assert call.messages
    return "more"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (ProcessOptions(budget=Budget(cost=0.03)), "The budget of 0.03 USD is used up (0.03 USD spent)."),
        (ProcessOptions(budget=Budget(tokens=300)), "The budget of 300 tokens is used up (300 spent)."),
        (ProcessOptions(early_termination=MaxTokens(300)), "300 tokens are used, of 300 allowed."),
    ],
)
@pytest.mark.parametrize(
    ("card", "usage"),
    [(FREE, CENT), (replace(FREE, prices=Prices(input=0, output=250)), replace(CENT, cost=0.0))],
    ids=["cost", "prices"],
)
async def test_a_budget_ends_the_process_between_two_turns_and_no_other_way_is_tried(
    options: ProcessOptions, reason: str, card: ModelCard, usage: TokenUsage
) -> None:
    insatiable = Insatiable()
    model = ScriptedModel([endless] * 10, card=card, usage=usage)
    process = await AgentPlatform([insatiable], models=model).run("Insatiable", UserInput("more?"), options=options)

    assert process.outcome == Terminated(reason)
    assert (insatiable.turns, len(model.calls)) == (3, 3)
    assert [(each.action, each.status) for each in process.history] == [("Insatiable.ask", "terminated")]


async def test_an_action_that_swallows_the_end_of_its_budget_ends_the_process_all_the_same() -> None:
    @agent(description="Takes whatever comes for an answer")
    class Stubborn:
        @action
        async def think(self, user_input: UserInput, ai: Ai) -> Topic:
            for _ in range(3):
                with suppress(GoalportError):
                    await ai.generate_text("Think")
            return Topic("none")

        @achieves_goal(description="A text")
        async def write(self, topic: Topic) -> Text:
            return Text(topic.name)

    model = ScriptedModel(["a", "b", "c"], usage=CENT)
    options = ProcessOptions(budget=Budget(cost=0.01))
    process = await AgentPlatform([Stubborn], models=model).run("Stubborn", UserInput(""), options=options)

    assert process.outcome == Terminated("The budget of 0.01 USD is used up (0.01 USD spent).")
    assert len(model.calls) == 1


async def test_a_last_turn_that_goes_beyond_the_budget_still_counts_when_it_reaches_the_goal() -> None:
    model = ScriptedModel(["Done."], usage=CENT)
    options = ProcessOptions(budget=Budget(cost=0.001))
    process = await AgentPlatform([Adder], models=model).run("Adder", UserInput("?"), options=options)

    assert process.outcome == Completed(Text("Done."))


async def test_what_a_started_process_spends_counts_for_the_action_that_started_it_and_for_its_budget() -> None:
    @agent(description="Lets others write")
    class Editor:
        @achieves_goal(description="Two texts")
        async def collect(self, user_input: UserInput, context: ActionContext) -> Topic:
            first = await context.as_sub_process(Text, "Writer", user_input)
            second = await context.as_sub_process(Text, "Writer", user_input)
            return Topic(first.text + second.text)

    replies = [Topic("bees"), "a", "b", "Bees!"]
    platform = AgentPlatform([Editor, Writer], models=ScriptedModel([*replies, *replies], usage=CENT))
    process = await platform.run("Editor", UserInput("bees"))
    assert process.outcome == Completed(Topic("Bees!Bees!"))
    assert process.ledger.by_action == {"Editor.collect": process.usage}
    assert process.history[0].usage == process.usage
    assert [each.action for each in process.ledger.entries][:2] == ["Writer.find_topic", "Writer.outline"]
    assert {each.process_id for each in process.ledger.entries} == {each.id for each in process.children}

    model = ScriptedModel([*replies, *replies], usage=CENT)
    platform = AgentPlatform([Editor, Writer], models=model)
    process = await platform.run("Editor", UserInput("bees"), options=ProcessOptions(budget=Budget(cost=0.06)))
    assert process.outcome == Terminated("The budget of 0.06 USD is used up (0.06 USD spent).")
    assert [each.outcome for each in process.children][1] == process.outcome
    assert len(model.calls) == 6


async def test_actions_at_once_keep_their_spending_apart() -> None:
    @agent(description="Two at once")
    class Pair:
        @action
        async def left(self, user_input: UserInput, ai: Ai) -> Topic:
            return await ai.create_object("left", Topic)

        @action
        async def right(self, user_input: UserInput, ai: Ai) -> Outline:
            await ai.generate_text("right")
            return await ai.create_object("right", Outline)

        @achieves_goal(description="Both")
        async def join(self, topic: Topic, outline: Outline) -> Text:
            return Text(topic.name + outline.points)

    def answer(call: ModelCall) -> object:
        said = call.messages[-1]
        assert isinstance(said, UserMessage)
        return (Topic("l") if "left" in said.content else Outline("r")) if call.output else "text"

    platform = AgentPlatform([Pair], models=ScriptedModel([answer] * 3, usage=CENT))
    process = await platform.run("Pair", UserInput(""), options=ProcessOptions(concurrent=True))

    assert process.outcome == Completed(Text("lr"))
    assert {each.action: each.usage.tokens for each in process.history} == {
        "Pair.left": 100,
        "Pair.right": 200,
        "Pair.join": 0,
    }


async def test_conditions_and_costs_may_ask_too_and_it_counts() -> None:
    @agent(description="Asks before it acts")
    class Careful:
        @condition
        async def safe(self, user_input: UserInput, ai: Ai) -> bool:
            return await ai.generate_text("Is it safe?") == "yes"

        @cost(name="price")
        async def price(self, ai: Ai) -> float:
            return float(await ai.generate_text("How dear?"))

        @achieves_goal(description="Act")
        @action(pre=["safe"], cost_method="price")
        async def act(self, user_input: UserInput) -> Text:
            return Text("done")

    def answer(call: ModelCall) -> str:
        return "0.5" if "dear" in str(call.messages) else "yes"

    model = ScriptedModel([answer] * 9, usage=CENT)
    process = await AgentPlatform([Careful], models=model).run("Careful", UserInput("go"))

    assert process.outcome == Completed(Text("done"))
    assert set(process.ledger.by_action) == {"safe", "price"}


class InTheConstructor:
    """A little AI in an application's own class."""

    def __init__(self, ai: Ai) -> None:
        self.ai = ai

    async def joke(self) -> str:
        return await self.ai.generate_text("A joke, please")


async def test_an_ai_of_the_platform_asks_outside_of_a_process_and_counts_inside_of_one() -> None:
    @agent(description="Tells jokes")
    class Joker:
        def __init__(self, ai: Ai) -> None:
            self.jokes = InTheConstructor(ai)

        @achieves_goal(description="A joke")
        async def tell(self, user_input: UserInput) -> Text:
            return Text(await self.jokes.joke())

    platform = AgentPlatform([Joker], models=ScriptedModel(["ha"] * 2, usage=CENT))
    assert await InTheConstructor(platform.ai).joke() == "ha"
    process = await platform.run("Joker", UserInput(""))

    assert process.outcome == Completed(Text("ha"))
    assert process.ledger.by_action == {"Joker.tell": CENT}


async def test_an_attempt_that_nobody_waits_for_any_more_asks_no_model_and_spends_nothing() -> None:
    failures: list[Exception] = []
    kept: list[OperationContext] = []

    @agent(description="Keeps what it got")
    class Keeper:
        @achieves_goal(description="Keep")
        async def keep(self, user_input: UserInput, context: OperationContext) -> Text:
            kept.append(context)
            return Text("kept")

    model = ScriptedModel(["too late"])
    process = await AgentPlatform([Keeper], models=model).run("Keeper", UserInput(""))
    try:
        await kept[0].ai.generate_text("Still there?")
    except NonRetryable as error:
        failures.append(error)
    with pytest.raises(NonRetryable):
        kept[0].spend(input_tokens=1)

    assert "no longer waits" in str(failures[0])
    assert (model.calls, process.usage.tokens) == ([], 0)


async def test_killing_a_process_ends_the_request_and_asks_for_nothing_more() -> None:
    asked, cancelled = anyio.Event(), anyio.Event()

    class Slow(ScriptedModel):
        async def reply(self, call: ModelCall, /):  # noqa: ANN202
            asked.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
            return await super().reply(call)

    process = AgentPlatform([Adder], models=Slow()).start("Adder", UserInput("?"))
    with anyio.fail_after(60):
        await asked.wait()
        process.kill("Enough.")
        assert await process.wait() == Killed("Enough.")
        await cancelled.wait()


async def test_termination_is_seen_between_two_turns() -> None:
    heard: list[str] = []

    class Ears:
        def on_event(self, event: Event, /) -> None:
            if isinstance(event, ToolCalled):
                heard.append(event.process_id)
                (running,) = platform.processes.running
                running.terminate("Enough.")

    platform = AgentPlatform(
        [Adder],
        models=ScriptedModel([calls_tool("add", a=1, b=2)] * 9),
        tool_groups=[maths()],
        listeners=[Ears()],
    )
    process = await platform.run("Adder", UserInput("1 + 2?"))

    assert process.outcome == Terminated("Enough.")
    assert len(heard) == 1


async def test_a_models_failure_is_no_reason_to_repeat_an_action_and_is_told_in_its_own_words() -> None:
    model = ScriptedModel([ModelUnavailable("The model scripted does not answer. Try again later.")] * 2)
    process = await AgentPlatform([Adder], models=model).run("Adder", UserInput("?"))

    assert isinstance(process.outcome, Failed)
    assert process.outcome.reason == "Adder.add failed: The model scripted does not answer. Try again later"
    assert len(model.calls) == 1


async def test_without_a_model_goals_that_need_none_are_reached_and_others_say_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    @agent(description="Needs no model")
    class Plain:
        @achieves_goal(description="Reached")
        async def reach(self, user_input: UserInput, ai: Ai) -> Text:
            return Text(user_input.content)

    platform = AgentPlatform([Plain, Adder])
    assert (await platform.run("Plain", UserInput("fine"))).outcome == Completed(Text("fine"))
    process = await platform.run("Adder", UserInput("?"))

    assert isinstance(process.outcome, Failed)
    assert "OPENAI_API_KEY" in process.outcome.reason
