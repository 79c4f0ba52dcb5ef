"""Types flow through the builders of workflows: pyright checks these lines with the rest, and they run."""

from dataclasses import dataclass
from typing import assert_type

from goalport import ActionContext, Ai
from goalport.agents.domain import Agent
from goalport.runtime.workflow import (
    Attempt,
    BranchFailure,
    ConsensusBuilder,
    Feedback,
    History,
    RepeatUntil,
    RepeatUntilAcceptable,
    Repetition,
    ScatterGatherBuilder,
    SimpleAgentBuilder,
    Workflow,
)
from goalport.testing import FakeOperationContext


@dataclass(frozen=True)
class Topic:
    content: str


@dataclass(frozen=True)
class Joke:
    text: str


@dataclass(frozen=True)
class Jokes:
    jokes: list[Joke]


async def tell(topic: Topic, ai: Ai) -> Joke:
    return await ai.create_object(topic.content, Joke)


def merge(jokes: list[Joke], topic: Topic) -> Jokes:
    return Jokes(jokes)


def merge_all(jokes: list[Joke], failures: list[BranchFailure]) -> Jokes:
    return Jokes([*jokes, *(Joke(assert_type(each.branch, str) + assert_type(each.reason, str)) for each in failures)])


def criticise(joke: Joke, topic: Topic) -> Feedback:
    return Feedback(1.0, topic.content)


TOPIC = Topic("cows")
JOKE = Joke("Moo")
JOKE_AGAIN = Joke("again")


async def test_each_builder_ends_in_a_workflow_of_its_result() -> None:
    context = FakeOperationContext(TOPIC)
    simple = SimpleAgentBuilder.returning(Joke).consuming(Topic).running(tell)
    assert_type(simple, Workflow[Joke])
    assert_type(simple.build_agent("Joker", "Tells jokes"), Agent)
    context.expect_response(JOKE)
    assert_type(await simple.as_sub_process(context), Joke)

    scatter = ScatterGatherBuilder.returning(Jokes).from_elements(Joke).generated_by([tell, tell])
    assert_type(scatter.consolidated_by(merge), Workflow[Jokes])
    named = (
        ScatterGatherBuilder.returning(Jokes).from_elements(Joke).generated_by({"gpt": tell}).with_minimum_results(1)
    )
    assert_type(named.with_time_limit(1).consolidated_by(merge_all), Workflow[Jokes])
    by_name = ConsensusBuilder.returning(Joke).sourced_from(
        {"gpt": lambda tac: assert_type(tac, ActionContext) and JOKE}
    )
    assert_type(by_name.with_minimum_results(1).with_consensus_by(lambda jokes: jokes[0]), Workflow[Joke])
    assert_type(scatter.consolidated_by(lambda jokes: Jokes(assert_type(jokes, list[Joke]))), Workflow[Jokes])
    consensus = ConsensusBuilder.returning(Joke).sourced_from([lambda tac: tac.ai.create_object("A joke", Joke)])
    assert_type(consensus.with_consensus_by(lambda jokes, _tac: assert_type(jokes, list[Joke])[0]), Workflow[Joke])


async def test_what_lambdas_take_is_known() -> None:
    context = FakeOperationContext(TOPIC)
    told = SimpleAgentBuilder.returning(Joke).running(
        lambda tac: Joke(str(assert_type(tac, ActionContext).last(Topic)))
    )
    assert "cows" in (await told.as_sub_process(context)).text
    both = SimpleAgentBuilder.returning(Joke).consuming(Topic).running(lambda topic, _tac: Joke(topic.content))
    assert await both.as_sub_process(context) == Joke("cows")
    repeated = RepeatUntil.returning(Joke).repeating(lambda history, _tac: Joke(str(len(history))))
    assert_type(repeated.until(lambda joke: assert_type(joke, Joke).text == "1"), Repetition[Joke])
    until = repeated.until(lambda _joke, history: assert_type(history, History[Joke]).last == Attempt(Joke("2")))
    assert await until.as_sub_process(context) == Joke("2")
    accepted = (
        RepeatUntilAcceptable.returning(Joke)
        .repeating(lambda feedback, _tac: Joke((assert_type(feedback, Feedback | None) and "again") or "once"))
        .with_acceptance_criteria(lambda feedback, joke: feedback.score > 0.5 and joke.text == "again")
        .with_evaluator(criticise)
    )
    assert_type(accepted, Repetition[Joke])
    assert_type(accepted.returning_history(), Workflow[History[Joke]])
    best = assert_type(await accepted.returning_history().as_sub_process(context), History[Joke]).best
    assert best == Attempt(JOKE_AGAIN, Feedback(1.0, "cows"), accepted=True)
    assert_type(best, Attempt[Joke] | None)
    assert await accepted.as_sub_process(context) == JOKE_AGAIN


def what_is_refused() -> None:
    SimpleAgentBuilder.returning(Joke).running(lambda _: TOPIC)  # pyright: ignore[reportCallIssue, reportArgumentType]
    SimpleAgentBuilder.returning(Topic).running(tell)  # pyright: ignore[reportCallIssue, reportArgumentType]
    scatter = ScatterGatherBuilder.returning(Jokes).from_elements(Joke)
    scatter.generated_by([criticise])  # pyright: ignore[reportCallIssue, reportArgumentType]
    scatter.generated_by({"critic": criticise})  # pyright: ignore[reportCallIssue, reportArgumentType]
    scatter.generated_by({1: tell})  # pyright: ignore[reportCallIssue, reportArgumentType]
    ConsensusBuilder.returning(Joke).sourced_from([criticise])  # pyright: ignore[reportCallIssue, reportArgumentType]
    scatter.consolidated_by(tell)  # pyright: ignore[reportCallIssue, reportArgumentType]
    RepeatUntil.returning(Joke).repeating(tell).until(tell)  # pyright: ignore[reportCallIssue, reportArgumentType]
    RepeatUntilAcceptable.returning(Joke).repeating(tell).with_evaluator(tell)  # pyright: ignore[reportCallIssue, reportArgumentType]
