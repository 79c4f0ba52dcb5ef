"""Workflows that are stored, that are published, and that are made of others."""

from dataclasses import dataclass
from pathlib import Path

import anyio
from pydantic import BaseModel

from goalport import ActionContext, AgentInvocation, AgentPlatform, Ai, Export, ProcessOptions
from goalport.base.events import ProgressUpdated
from goalport.runtime.process import AgentProcess, Completed, Outcome
from goalport.runtime.workflow import (
    Attempt,
    BranchFailure,
    Feedback,
    History,
    RepeatUntil,
    RepeatUntilAcceptable,
    ScatterGatherBuilder,
    SimpleAgentBuilder,
    Workflow,
)
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel, client_of


class Text(BaseModel):
    text: str


@dataclass(frozen=True)
class Report:
    content: str


async def settled(process: AgentProcess) -> Outcome:
    with anyio.fail_after(60):
        return await process.wait()


async def pays(ai: Ai) -> Text:
    return Text(text=await ai.generate_text("Write"))


async def broken() -> Text:
    raise ValueError("Out of ink")


async def confirmed(texts: list[Text], failures: list[BranchFailure], context: ActionContext) -> Report:
    content = await context.ask("What is it called?", str)
    return Report(f"{content}: {[each.text for each in texts]}, without {[each.branch for each in failures]}")


async def test_what_branches_gave_and_which_failed_is_there_after_a_restart(tmp_path: Path) -> None:
    scatter = ScatterGatherBuilder.returning(Report).from_elements(Text)
    scatter = scatter.generated_by({"gpt": pays, "claude": broken}).with_minimum_results(1)
    built = scatter.consolidated_by(confirmed).build_agent("Reporter", "Reports")
    model = ScriptedModel(["gold"])
    async with SqliteProcessStore(tmp_path / "p.db") as store, AgentPlatform([built], store=store, models=model) as one:
        process = one.start("Reporter")
        await settled(process)
    async with SqliteProcessStore(tmp_path / "p.db") as store, AgentPlatform([built], store=store, models=model) as two:
        again = await two.answer(process.id, response="News")
        assert await settled(again) == Completed(Report("News: ['gold'], without ['claude']"))
    assert len(model.calls) == 1


async def test_rounds_are_not_paid_again_after_a_restart(tmp_path: Path) -> None:
    async def criticise(text: Text, history: History[Text], context: ActionContext) -> Feedback:
        if len(history) == 1:
            return Feedback(await context.ask(f"How good is {text.text}?", float), "yours")
        return Feedback(0.2)

    repeated = RepeatUntilAcceptable.returning(Text).with_max_iterations(3).repeating(pays).with_evaluator(criticise)
    built = repeated.returning_history().build_agent("Writer", "Writes")
    model = ScriptedModel(["a", "b"])
    async with SqliteProcessStore(tmp_path / "p.db") as store, AgentPlatform([built], store=store, models=model) as one:
        process = one.start("Writer")
        await settled(process)
    async with SqliteProcessStore(tmp_path / "p.db") as store, AgentPlatform([built], store=store, models=model) as two:
        again = await two.answer(process.id, response=0.95)
        outcome = await settled(again)
    attempts = (Attempt(Text(text="a"), Feedback(0.2)), Attempt(Text(text="b"), Feedback(0.95, "yours"), accepted=True))
    assert outcome == Completed(History(attempts))
    assert len(model.calls) == 2


async def test_a_history_is_published_with_scores() -> None:
    repeated = RepeatUntilAcceptable.returning(Text).with_max_iterations(2).repeating(lambda _: Text(text="x"))
    workflow = repeated.with_evaluator(lambda _: Feedback(0.5, "longer")).returning_history()
    built = workflow.build_agent("Writer", "Writes", export=Export(remote=True, name="write"))
    attempt = {"result": {"text": "x"}, "feedback": {"score": 0.5, "text": "longer"}, "accepted": False}
    async with AgentPlatform([built]) as platform, client_of(platform) as client:
        assert (await client.call_tool("write", {})).structured_content == {"attempts": [attempt, attempt]}
        history = await AgentInvocation.on(platform).returning(History[Text]).invoke()
    assert history.best == history.last


async def test_one_workflow_is_built_and_run_as_often_as_you_like() -> None:
    repeated = RepeatUntil.returning(Text).with_max_iterations(2).repeating(lambda _: Text(text="x"))
    workflow = repeated.until(lambda _: False)
    one, two = workflow.build_agent("One", "d"), workflow.build_agent("Two", "d")

    async def outer(context: ActionContext) -> Report:
        result = await workflow.as_sub_process(context)
        history = await workflow.returning_history().as_sub_process(context)
        return Report(f"{result.text} and {len(history)}")

    both = SimpleAgentBuilder.returning(Report).running(outer).build_agent("Both", "d")
    async with AgentPlatform([one, two, both]) as platform:
        outcomes = [(await platform.run(each)).outcome for each in ("One", "Two", "Both")]
    assert outcomes == [Completed(Text(text="x")), Completed(Text(text="x")), Completed(Report("x and 2"))]


async def test_a_chain_of_workflows_in_workflows_says_where_it_is() -> None:
    repeated = RepeatUntil.returning(Text).with_max_iterations(1).repeating(lambda _: Text(text="x"))
    inner: Workflow[Text] = repeated.until(lambda _: True)

    async def branch(context: ActionContext) -> Text:
        return await inner.as_sub_process(context)

    scatter = ScatterGatherBuilder.returning(Report).from_elements(Text).generated_by({"gpt": branch})

    async def report(context: ActionContext) -> Report:
        return await scatter.consolidated_by(lambda texts: Report(texts[0].text)).as_sub_process(context)

    said: list[str] = []

    class Hears:
        def on_event(self, event: object, /) -> None:
            if isinstance(event, ProgressUpdated):
                said.append(event.message)

    outer = RepeatUntil.returning(Report).repeating(report).until(lambda _: True)
    async with AgentPlatform([outer.build_agent("Outer", "d")]) as platform:
        await platform.run("Outer", options=ProcessOptions(listeners=(Hears(),)))
    assert said == ["round 1: gpt: round 1 of 1", "round 1: 1/1 gpt", "round 1 of 5"]
