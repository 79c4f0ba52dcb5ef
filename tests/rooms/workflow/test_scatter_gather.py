"""Several functions at once: how many, what a failure does, who is asked, and what is said of it meanwhile."""

import math
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import anyio
import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    Ai,
    Budget,
    ProcessOptions,
    ProcessStatus,
    achieves_goal,
    agent,
)
from goalport.agents.domain import Agent, Injected
from goalport.base.errors import DeclarationError
from goalport.base.events import ProgressUpdated
from goalport.models.llm import AssistantMessage, ModelCall, ModelReply
from goalport.runtime.process import AgentProcess, Completed, Failed, Killed, Outcome, Terminated
from goalport.runtime.workflow import BranchFailure, RepeatUntil, ScatterGatherBuilder, Workflow
from goalport.testing import FakeOperationContext, ScriptedModel, ScriptedModels, contains
from tests.rooms.toy_domain import Order, Parcel, Text
from tests.spans import Spans, recorded_spans

Part = Callable[..., Awaitable[Text] | Text]
ANY: Any = ScatterGatherBuilder
"""The builder for those who do not check types."""


@pytest.fixture
def spans() -> Generator[Spans]:
    with recorded_spans() as found:
        yield found


@dataclass(frozen=True)
class Texts:
    texts: tuple[str, ...]


SCATTER = ScatterGatherBuilder.returning(Texts).from_elements(Text)


def gathered(*parts: Part, limit: int = 8, minimum: int | None = None, seconds: float | None = None) -> Workflow[Texts]:
    scatter = ScatterGatherBuilder.returning(Texts).from_elements(Text).generated_by(parts, max_concurrency=limit)
    scatter = scatter if minimum is None else scatter.with_minimum_results(minimum)
    scatter = scatter if seconds is None else scatter.with_time_limit(seconds)
    return scatter.consolidated_by(lambda texts: Texts(tuple(each.text for each in texts)))


def saying(text: str) -> Part:
    async def say() -> Text:
        return Text(text)

    return say


async def broken() -> Text:
    raise ValueError("Out of ink")


async def endless() -> Text:
    await anyio.sleep_forever()
    return Text("never")


def agent_of(workflow: Workflow[Texts]) -> AgentPlatform:
    return AgentPlatform([workflow.build_agent("Gatherer", "Gathers texts")])


async def run(workflow: Workflow[Texts], *inputs: object, options: ProcessOptions | None = None) -> AgentProcess:
    with anyio.fail_after(60):
        return await agent_of(workflow).run("Gatherer", *inputs, options=options)


class Said:
    """Hears the progress of a process."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_event(self, event: object, /) -> None:
        if isinstance(event, ProgressUpdated):
            self.messages.append(event.message)


async def settled(process: AgentProcess) -> Outcome:
    with anyio.fail_after(60):
        return await process.wait()


async def test_results_come_in_the_order_of_the_functions() -> None:
    process = await run(gathered(saying("a"), saying("b"), saying("c")))
    assert process.outcome == Completed(Texts(("a", "b", "c")))


async def test_twenty_model_calls_are_under_way_together_at_a_limit_of_twenty() -> None:
    all_here = anyio.Event()
    waiting = 0

    class Patient(ScriptedModel):
        async def reply(self, call: ModelCall, /) -> ModelReply:
            nonlocal waiting
            waiting += 1
            if waiting == 20:
                all_here.set()
            await all_here.wait()
            return ModelReply(message=AssistantMessage("done"), usage=self.usage, model=self.card.name)

    async def ask(ai: Ai) -> Text:
        return Text(await ai.generate_text("Do it"))

    made = gathered(*[ask] * 20, limit=20).build_agent("Gatherer", "Gathers texts")
    async with AgentPlatform([made], models=Patient()) as platform:
        with anyio.fail_after(60):
            process = await platform.run("Gatherer")
    assert process.outcome == Completed(Texts(("done",) * 20))


async def test_no_more_run_at_once_than_the_limit_says() -> None:
    running, most = 0, 0

    async def count() -> Text:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        running -= 1
        return Text("x")

    await run(gathered(*[count] * 9, limit=3))
    assert most == 3


async def test_one_that_fails_ends_all_and_is_named() -> None:
    process = await run(gathered(endless, broken))
    assert isinstance(process.outcome, Failed)
    assert "Out of ink" in process.outcome.reason


async def test_those_that_succeed_are_enough_if_that_is_said() -> None:
    process = await run(gathered(saying("a"), broken, saying("c"), minimum=2))
    assert process.outcome == Completed(Texts(("a", "c")))


async def test_too_few_that_succeed_are_a_failure_that_says_why() -> None:
    process = await run(gathered(saying("a"), broken, minimum=2))
    assert isinstance(process.outcome, Failed)
    assert "Expected at least 2 results, but 1 came. broken failed: ValueError: Out of ink" in process.outcome.reason


async def test_when_all_fail_each_is_named() -> None:
    process = await run(gathered(broken, broken, minimum=1))
    assert isinstance(process.outcome, Failed)
    reasons = "broken 1 failed: ValueError: Out of ink; broken 2 failed: ValueError: Out of ink"
    assert f"Expected at least 1 result, but none came. {reasons}" in process.outcome.reason


async def test_of_hundreds_that_fail_some_are_named() -> None:
    process = await run(gathered(*[broken] * 300, minimum=1))
    assert isinstance(process.outcome, Failed)
    assert process.outcome.reason.endswith("and 280 more")


async def test_the_consolidator_is_told_which_failed_and_why() -> None:
    def merge(texts: list[Text], failures: list[BranchFailure]) -> Texts:
        return Texts((*(each.text for each in texts), *(f"{each.branch}: {each.reason}" for each in failures)))

    scatter = SCATTER.generated_by({"gpt": saying("a"), "claude": broken}).with_minimum_results(1)
    process = await run(scatter.consolidated_by(merge))
    assert process.outcome == Completed(Texts(("a", "claude: ValueError: Out of ink")))
    lenient = scatter.consolidated_by(lambda _, context: Texts((str(context.last(list[BranchFailure])),)))
    process = await run(lenient)
    assert "claude" in str(process.outcome)
    assert (await run(SCATTER.generated_by([saying("a")]).consolidated_by(merge))).outcome == Completed(Texts(("a",)))


async def test_one_that_never_ends_is_left_out_after_its_time_limit() -> None:
    process = await run(gathered(saying("a"), endless, minimum=1, seconds=0.05))
    assert process.outcome == Completed(Texts(("a",)))


async def test_one_that_never_ends_fails_all_after_its_time_limit() -> None:
    process = await run(gathered(saying("a"), endless, seconds=0.05))
    assert isinstance(process.outcome, Failed)
    assert "did not end within 0.05 s" in process.outcome.reason


async def test_one_that_never_ends_ends_with_the_deadline_of_the_process() -> None:
    process = await run(gathered(endless), options=ProcessOptions(deadline=0.05))
    assert isinstance(process.outcome, Terminated | Killed)


async def test_it_ends_when_the_process_is_killed() -> None:
    async with agent_of(gathered(endless, minimum=1)) as platform:
        process = platform.start("Gatherer")
        process.kill("Enough")
        assert await settled(process) == Killed("Enough")


async def test_the_budget_of_the_process_holds_for_all_of_them() -> None:
    async def dear(context: ActionContext, ai: Ai) -> Text:
        context.spend(cost=1.0)
        return Text(await ai.generate_text("more"))

    made = gathered(*[dear] * 5, limit=1, minimum=1).build_agent("Gatherer", "Gathers texts")
    models = ScriptedModels()
    async with AgentPlatform([made], models=models) as platform:
        process = await platform.run("Gatherer", options=ProcessOptions(budget=Budget(cost=0.5)))
    assert isinstance(process.outcome, Terminated)
    assert not models.calls


async def test_a_function_that_gives_nothing_fails() -> None:
    def nothing():  # noqa: ANN202 - as a user may write it
        return None

    process = await run(gathered(nothing))  # pyright: ignore[reportArgumentType]
    assert isinstance(process.outcome, Failed)
    assert "to give a Text, but it gave nothing" in process.outcome.reason


async def test_progress_tells_how_many_are_over() -> None:
    said = Said()

    def named() -> Text:
        return Text("n")

    await run(gathered(saying("a"), named, broken, limit=1, minimum=1), options=ProcessOptions(listeners=(said,)))
    assert said.messages == ["1/3 say", "2/3 named", "3/3 broken failed: ValueError: Out of ink"]


async def test_names_of_branches_are_in_progress_and_in_the_description_of_the_step() -> None:
    said = Said()
    scatter = SCATTER.generated_by({"gpt 5": saying("a"), "claude": saying("b")}, max_concurrency=1)
    workflow = scatter.consolidated_by(lambda texts: Texts(tuple(each.text for each in texts)))
    process = await run(workflow, options=ProcessOptions(listeners=(said,)))
    assert process.outcome == Completed(Texts(("a", "b")))
    assert said.messages == ["1/2 gpt 5", "2/2 claude"]
    generate, consolidate = workflow.build_agent("Gatherer", "Gathers texts").actions
    assert generate.description == "Runs 2 functions, 1 at once: gpt 5, claude"
    assert consolidate.description == "Makes the result of them with a lambda"


async def test_what_happens_within_a_branch_is_reported_under_its_name() -> None:
    async def improve(context: ActionContext) -> Text:
        context.progress("begins")
        rounds = RepeatUntil.returning(Text).with_max_iterations(1).repeating(lambda _: Text("x"))
        return await rounds.until(lambda _: True).as_sub_process(context)

    said = Said()
    scatter = SCATTER.generated_by({"gpt": improve, "claude": improve}, max_concurrency=1)
    await run(scatter.consolidated_by(lambda _: Texts(())), options=ProcessOptions(listeners=(said,)))
    assert said.messages == [
        "gpt: begins",
        "gpt: round 1 of 1",
        "1/2 gpt",
        "claude: begins",
        "claude: round 1 of 1",
        "2/2 claude",
    ]


async def test_each_function_has_a_span(spans: Spans) -> None:
    def first() -> Text:
        return Text("1")

    await run(gathered(first, saying("2")))
    assert spans.parent("execute_step first") == "execute_action Gatherer.generate"
    assert spans.parent("execute_step say") == "execute_action Gatherer.generate"
    assert spans.parent("execute_step lambda") == "execute_action Gatherer.consolidate"


async def test_one_that_asks_a_person_lets_the_others_finish_and_nothing_is_paid_twice() -> None:
    async def asks(context: ActionContext) -> Text:
        return Text(await context.ask("Your name?", str))

    runs: list[int] = []

    async def pays(ai: Ai) -> Text:
        runs.append(1)
        return Text(await ai.generate_text("Say hello"))

    models = ScriptedModels()
    models.when_generate_text(contains("hello")).then_return("hello")
    made = gathered(asks, pays, limit=1).build_agent("Gatherer", "Gathers texts")
    async with AgentPlatform([made], models=models) as platform:
        process = platform.start("Gatherer")
        await settled(process)
        assert process.status is ProcessStatus.WAITING
        assert len(models.calls) == 1
        await platform.answer(process.id, response="Eva")
        assert await settled(process) == Completed(Texts(("Eva", "hello")))
    assert len(models.calls) == len(runs) == 1


async def test_workflows_within_workflows_ask_and_pay_once_too() -> None:
    async def pays(ai: Ai) -> Text:
        return Text(await ai.generate_text("Say hello"))

    async def asks(context: ActionContext) -> Text:
        return Text(await context.ask("Your name?", str))

    async def both(context: ActionContext) -> Text:
        first = await gathered(pays, pays).as_sub_process(context)
        second = await gathered(pays, asks).as_sub_process(context)
        return Text("; ".join((*first.texts, *second.texts)))

    @agent(description="d")
    class Nests:
        @achieves_goal(description="g")
        async def nest(self, context: ActionContext) -> Texts:
            return await gathered(both, pays).as_sub_process(context)

    model = ScriptedModel(list("abcd"))
    async with AgentPlatform([Nests], models=model) as platform:
        process = platform.start("Nests")
        await settled(process)
        assert model.unused == 0
        await platform.answer(process.id, response="Eva")
        outcome = await settled(process)
    assert isinstance(outcome, Completed)
    assert "; Eva" in str(outcome.value)
    assert len(model.calls) == 4


async def test_inputs_of_functions_are_those_of_the_agent() -> None:
    def pack(order: Order) -> Text:
        return Text(order.item)

    def label(parcel: Parcel | None) -> Text:
        return Text("plain" if parcel is None else parcel.text)

    made = gathered(pack, label).build_agent("Gatherer", "Gathers texts")
    assert [each.type for each in made.actions[0].inputs] == [Order]
    process = await run(gathered(pack, label), Order("tea"))
    assert process.outcome == Completed(Texts(("tea", "plain")))


async def test_an_input_that_is_missing_in_an_action_is_named_before_anything_runs() -> None:
    ran: list[int] = []

    def pack(order: Order) -> Text:
        return Text(order.item)

    def runs() -> Text:
        ran.append(1)
        return Text("x")

    @agent(description="d")
    class Packs:
        @achieves_goal(description="g")
        async def pack(self, text: Text, context: ActionContext) -> Texts:
            return await gathered(runs, pack).as_sub_process(context)

    process = await AgentPlatform([Packs]).run("Packs", Text("x"))
    assert isinstance(process.outcome, Failed)
    assert "takes an Order, which is not on the blackboard. Pass it" in process.outcome.reason
    assert not ran


async def test_what_functions_put_on_the_blackboard_stays_with_them() -> None:
    async def adds(context: ActionContext) -> Text:
        context.add(Parcel("secret"))
        return Text(str(context.last(Parcel)))

    async def sees(context: ActionContext) -> Text:
        return Text(str(context.last(Parcel)))

    process = await run(gathered(adds, sees, limit=1))
    assert process.outcome == Completed(Texts((str(Parcel("secret")), "None")))
    assert process.last(Parcel) is None


async def test_a_unit_test_calls_it_with_a_fake_context() -> None:
    async def ask(ai: Ai) -> Text:
        return Text(await ai.generate_text("Hello?"))

    context = FakeOperationContext()
    context.expect_response("hi")
    assert await gathered(ask).as_sub_process(context) == Texts(("hi",))


async def test_functions_of_every_kind_take_part() -> None:
    class Says:
        def __call__(self) -> Text:
            return Text("object")

    def say(text: str) -> Text:
        return Text(text)

    in_a_loop = [lambda _, text=text: Text(text) for text in ("one", "two")]  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
    scatter = SCATTER.generated_by([*in_a_loop, Says(), partial(say, "partial")])  # pyright: ignore[reportUnknownArgumentType]
    found = scatter.consolidated_by(lambda texts: Texts(tuple(each.text for each in texts)))
    assert (await run(found)).outcome == Completed(Texts(("one", "two", "object", "partial")))
    numbers = ScatterGatherBuilder.returning(int).from_elements(int).generated_by([lambda _: 1, lambda _: 2])
    for consolidate, result in ((len, 2), (sum, 3)):
        assert await numbers.consolidated_by(consolidate).as_sub_process(FakeOperationContext()) == result


async def test_a_workflow_whose_functions_ask_no_model_is_not_a_long_one() -> None:
    def waits(made: Agent) -> bool:
        parameters = chain(*(each.parameters for each in made.actions))
        return any(isinstance(each, Injected) and each.type is Ai for each in parameters)

    assert not waits(gathered(saying("a")).build_agent("Gatherer", "Gathers texts"))
    by_lambda = SCATTER.generated_by([lambda context: Text(context.action)]).consolidated_by(lambda _: Texts(()))
    assert waits(by_lambda.build_agent("Gatherer", "Gathers texts"))


MISTAKES: dict[str, Callable[[], object]] = {
    "at least one function": lambda: SCATTER.generated_by([]),
    "max_concurrency to be 1 or more": lambda: SCATTER.generated_by([endless], max_concurrency=0),
    "functions to generate elements, but it is None": lambda: (
        ANY.returning(Texts).from_elements(Text).generated_by(None)
    ),
    "names of functions, but one is ''": lambda: SCATTER.generated_by({"": endless}),
    "names of functions, but one is 3": lambda: ANY.returning(Texts).from_elements(Text).generated_by({3: endless}),
    "a function with a signature, but it has none. Call it in a lambda": lambda: (
        ANY.returning(int).from_elements(int).generated_by([endless]).consolidated_by(max)
    ),
    "parameters that are named one by one": lambda: ANY.returning(Texts).from_elements(int).generated_by([print]),
    "a minimum from 1 to 1, the": lambda: SCATTER.generated_by([endless]).with_minimum_results(2),
    "a minimum from 1 to 1, ": lambda: SCATTER.with_minimum_results(2).generated_by([endless]),
    "a minimum of 1 or more, but it is 0": lambda: SCATTER.with_minimum_results(0),
    "but it is True": lambda: SCATTER.generated_by([endless]).with_minimum_results(True),
    "but it is '2'": lambda: ANY.returning(Texts).from_elements(Text).with_minimum_results("2"),
    "seconds above 0, but it is '2'": lambda: ANY.returning(Texts).from_elements(Text).with_time_limit("2"),
    "a type for what its functions give, but it is 'Texts'": lambda: (
        ANY.returning("Texts").from_elements(Text).generated_by([endless]).consolidated_by(len)
    ),
    "seconds above 0": lambda: SCATTER.generated_by([endless]).with_time_limit(math.nan),
    "functions to generate elements": lambda: SCATTER.consolidated_by(lambda texts: Texts(tuple(map(str, texts)))),
    "a name of the agent": lambda: gathered(endless).build_agent(" ", "d"),
    "a description of the agent": lambda: gathered(endless).build_agent("n", ""),
    "a type for the parameter": lambda: SCATTER.generated_by([lambda _one, _two: Text("x")]),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_where_it_is_written(mistake: str) -> None:
    with pytest.raises(DeclarationError, match=mistake):
        MISTAKES[mistake]()
