"""Ready-made workflows: one function, several at once, a consensus, repetitions (sections 3.7.1, 3.7.2 and 3.6.11)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from goalport import (
    ActionContext,
    AgentInvocation,
    AgentPlatform,
    Ai,
    Export,
    LlmOptions,
    achieves_goal,
    action,
    agent,
)
from goalport.agents import Agent
from goalport.runtime import Completed
from goalport.testing import ScriptedModel, ScriptedModels, client_of, contains
from goalport.workflow import (
    ConsensusBuilder,
    Feedback,
    History,
    RepeatUntil,
    RepeatUntilAcceptable,
    ScatterGatherBuilder,
    SimpleAgentBuilder,
)


class Joke(BaseModel):
    setup: str
    punchline: str


class Topic(BaseModel):
    content: str


JOKE = Joke(setup="Why did the cow cross the road?", punchline="To get to the udder side.")


async def test_the_simplest_agent_tells_a_joke() -> None:
    joker = (
        SimpleAgentBuilder.returning(Joke)
        .running(lambda tac: tac.ai.with_default_llm().create_object("Tell me a joke", Joke))
        .build_agent("joker", "This is guaranteed to return a dreadful joke")
    )
    async with AgentPlatform([joker], models=ScriptedModel([JOKE])) as platform:
        assert await AgentInvocation.on(platform).returning(Joke).invoke() == JOKE


async def test_a_simple_agent_takes_what_it_consumes_and_its_goal_is_published() -> None:
    joker = (
        SimpleAgentBuilder.returning(Joke)
        .consuming(Topic)
        .running(lambda topic, tac: tac.ai.create_object(f"A joke about {topic.content}", Joke))
        .build_agent("Joker", "Jokes about a topic", export=Export(remote=True, name="joke"))
    )
    models = ScriptedModels()
    models.when_create_object(contains("about cows"), Joke).then_return(JOKE)
    async with AgentPlatform([joker], models=models) as platform, client_of(platform) as client:
        result = await client.call_tool("joke", {"content": "cows"})
    assert result.structured_content is not None
    assert result.structured_content["punchline"] == JOKE.punchline


class Assertions(BaseModel):
    claims: list[str]


class FactCheck(BaseModel):
    model: str
    true: int


class FactChecks(BaseModel):
    checks: list[FactCheck]


@agent(description="Checks facts with several models")
@dataclass
class FactChecker:
    models: Sequence[str] = ("gpt", "claude", "gemini")

    @achieves_goal(description="Facts are checked")
    @action
    async def run_and_consolidate_fact_checks(self, assertions: Assertions, context: ActionContext) -> FactChecks:
        return await (
            ScatterGatherBuilder.returning(FactChecks)
            .from_elements(FactCheck)
            .generated_by([self.fact_check_with(model) for model in self.models])
            .consolidated_by(self.reconcile_fact_checks)
            .as_sub_process(context)
        )

    @staticmethod
    def fact_check_with(model: str):  # noqa: ANN205 - inferred
        async def check(assertions: Assertions, ai: Ai) -> FactCheck:
            return await ai.with_llm(model).create_object(f"{model}, check {assertions.claims}", FactCheck)

        return check

    def reconcile_fact_checks(self, checks: list[FactCheck]) -> FactChecks:
        return FactChecks(checks=checks)


ASSERTIONS = Assertions(claims=["Cows fly"])


def checked(model: str) -> FactCheck:
    return FactCheck(model=model, true=0)


def three_checks() -> ScriptedModels:
    models = ScriptedModels()
    for model in ("gpt", "claude", "gemini"):
        models.when_create_object(contains(f"{model}, check"), FactCheck).then_return(checked(model))
    return models


async def test_facts_are_checked_by_several_models_within_an_action() -> None:
    async with AgentPlatform([FactChecker()], models=three_checks()) as platform:
        process = await platform.run("FactChecker", ASSERTIONS)
    expected = FactChecks(checks=[checked("gpt"), checked("claude"), checked("gemini")])
    assert process.outcome == Completed(expected)
    assert process.last(FactCheck) is None, "nothing but the result leaves the workflow"
    assert [each.action for each in process.history] == ["FactChecker.run_and_consolidate_fact_checks"]


def fact_checker_agent(llms: Sequence[LlmOptions]) -> Agent:
    """As section 3.7.2 has it: a function that makes the agent, whose result is deployed."""
    return (
        ScatterGatherBuilder.returning(FactChecks)
        .from_elements(FactCheck)
        .generated_by([FactChecker.fact_check_with(str(each.model)) for each in llms])
        .consolidated_by(lambda checks: FactChecks(checks=checks))
        .build_agent("FactCheckerAgent", "Checks facts with several models")
    )


async def test_the_same_is_an_agent_that_is_deployed() -> None:
    made = fact_checker_agent([LlmOptions(model="gpt", temperature=0.3), LlmOptions(model="claude", temperature=0.0)])
    async with AgentPlatform([made], models=three_checks()) as platform:
        process = await platform.run("FactCheckerAgent", ASSERTIONS)
    assert process.outcome == Completed(FactChecks(checks=[checked("gpt"), checked("claude")]))
    assert [each.action for each in process.history] == ["FactCheckerAgent.generate", "FactCheckerAgent.consolidate"]


class Verdict(BaseModel):
    guilty: bool


async def test_a_consensus_is_found_among_several_sources() -> None:
    async def ask(judge: str, ai: Ai) -> Verdict:
        return await ai.create_object(f"{judge}: guilty?", Verdict)

    def judge(name: str):  # noqa: ANN202 - inferred
        async def rule(ai: Ai) -> Verdict:
            return await ask(name, ai)

        return rule

    court = (
        ConsensusBuilder.returning(Verdict)
        .sourced_from([judge("Anna"), judge("Berta"), judge("Carla")])
        .with_consensus_by(lambda said: Verdict(guilty=sum(each.guilty for each in said) * 2 > len(said)))
        .build_agent("Court", "Rules by majority")
    )
    models = ScriptedModels()
    for name, guilty in {"Anna": True, "Berta": False, "Carla": True}.items():
        models.when_create_object(contains(name), Verdict).then_return(Verdict(guilty=guilty))
    async with AgentPlatform([court], models=models) as platform:
        assert await AgentInvocation.on(platform).returning(Verdict).invoke() == Verdict(guilty=True)


class Draft(BaseModel):
    words: int


async def test_a_step_is_repeated_until_a_condition_holds_and_sees_its_attempts() -> None:
    seen: list[list[int]] = []

    async def write(history: History[Draft], ai: Ai) -> Draft:
        seen.append([each.result.words for each in history])
        return await ai.create_object("Write", Draft)

    writer = (
        RepeatUntil.returning(Draft)
        .repeating(write)
        .with_max_iterations(4)
        .until(lambda draft: draft.words > 500)
        .build_agent("Writer", "Writes enough")
    )
    script = [Draft(words=100), Draft(words=400), Draft(words=600)]
    async with AgentPlatform([writer], models=ScriptedModel(script)) as platform:
        assert await AgentInvocation.on(platform).returning(Draft).invoke() == Draft(words=600)
    assert seen == [[], [100], [100, 400]]


class ReportRequest(BaseModel):
    topic: str
    words: int


class Report(BaseModel):
    report: str


@agent(description="Writes reports")
@dataclass
class Reporter:
    prompts: list[str] = field(default_factory=list[str])

    @achieves_goal(description="A report that is good enough")
    async def report(self, request: ReportRequest, context: ActionContext) -> Report:
        return await (
            RepeatUntilAcceptable.returning(Report)
            .with_max_iterations(5)
            .with_score_threshold(0.8)
            .repeating(
                lambda feedback, tac: tac.ai.create_object(
                    f"Given the topic, generate a report in {request.words} words.\n# Topic\n{request.topic}\n"
                    f"# Feedback\n{feedback.text if feedback else 'No feedback provided'}",
                    Report,
                )
            )
            .with_evaluator(
                lambda report, tac: tac.ai.create_object(
                    f"Evaluate the report.\n# Report\n{report.report}\n# Topic\n{request.topic}", Feedback
                )
            )
            .as_sub_process(context)
        )


async def test_a_report_is_written_again_with_the_feedback_until_it_is_acceptable() -> None:
    script = [Report(report="thin"), Feedback(0.3, "Add sources"), Report(report="rich"), Feedback(0.9, "Good")]
    model = ScriptedModel(script)
    async with AgentPlatform([Reporter()], models=model) as platform:
        process = await platform.run("Reporter", ReportRequest(topic="Cows", words=50))
    assert process.outcome == Completed(Report(report="rich"))
    first, _, second, _ = (str(call.messages[-1]) for call in model.calls)
    assert "No feedback provided" in first
    assert "Add sources" in second


async def test_the_best_attempt_is_the_result_when_none_was_acceptable() -> None:
    script = [Report(report="a"), Feedback(0.4), Report(report="b"), Feedback(0.6), Report(report="c"), Feedback(0.5)]
    reports = (
        RepeatUntilAcceptable.returning(Report)
        .with_max_iterations(3)
        .repeating(lambda tac: tac.ai.create_object("Write", Report))
        .with_evaluator(lambda report, tac: tac.ai.create_object(f"Evaluate {report.report}", Feedback))
        .build_agent("Reports", "Writes a report")
    )
    async with AgentPlatform([reports], models=ScriptedModel(script)) as platform:
        assert await AgentInvocation.on(platform).returning(Report).invoke() == Report(report="b")
