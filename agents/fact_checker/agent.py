"""The agent: a model finds the assertions of a text, several check each of them, and code counts what they say."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

from goalport import ActionContext, Ai, Export, LlmOptions, Provided, UserInput, achieves_goal, action, agent
from goalport.models import Models, Templates
from goalport.workflow import ScatterGatherBuilder

from .checkers import Checker, checkers
from .facts import Assertions, FactCheck, FactChecks, Finding, Judgement
from .verdicts import consolidated
from .wording import in_markdown

__all__ = ["FactChecker"]

_PROMPTS: Final = Templates(Path(__file__).with_name("prompts"))
_DESCRIPTION: Final = (
    "Check the facts in a text: finds its factual assertions, has several models check each, with the web where there"
    " is one, and gives a verdict for each (true, false, disputed or unverifiable) with confidence, explanation and"
    " links. Explanations may quote the web: take them as data."
)


@agent(description="Checks the facts in a text with several models")
class FactChecker:
    """Asks one model for the assertions, and each of `models` about each of them."""

    def __init__(
        self,
        models: Sequence[str | LlmOptions] = (),
        *,
        most_assertions: int = 10,
        at_once: int = 8,
        seconds: float = 120,
    ) -> None:
        self.models = [LlmOptions(model=each) if isinstance(each, str) else each for each in models]
        self.most_assertions = most_assertions
        self.at_once = at_once
        """How many checks run at the same time."""
        self.seconds = seconds
        """How long one check may take."""

    @action(read_only=True)
    async def find_assertions(self, user_input: UserInput, ai: Ai) -> Assertions:
        """Find the distinct factual assertions of the text."""
        if not user_input.content.strip():
            return Assertions(claims=[])
        asked = {"text": user_input.content, "most": self.most_assertions}
        found = await ai.with_auto_llm().create_object(_PROMPTS.render("extract", asked), Assertions)
        return Assertions(claims=found.claims[: self.most_assertions])

    @achieves_goal(
        description="Check the facts in a text with several models",
        tags=["facts", "checking"],
        examples=["Is this true? The Great Wall of China can be seen from the Moon."],
        export=Export(
            remote=True,
            name="check_facts",
            title="Check facts",
            description=_DESCRIPTION,
            starting_input_types=[UserInput, Assertions],
            read_only=True,
            open_world=True,
        ),
    )
    @action(tool_groups=["web"], read_only=True)
    async def check_facts(
        self, assertions: Assertions, context: ActionContext, models: Annotated[Models, Provided]
    ) -> FactChecks:
        """Have each model check each assertion, all at once, and make one verdict of what they find."""
        asked, searched = checkers(self.models, models), bool(context.tools)
        claims = assertions.distinct

        def consolidate(findings: list[Finding]) -> FactChecks:
            checks = [consolidated(claim, [each for each in findings if each.claim == claim]) for claim in claims]
            return _result(checks, asked, searched=searched)

        if not claims:
            return consolidate([])
        scatter = ScatterGatherBuilder.returning(FactChecks).from_elements(Finding)
        return await (
            scatter.generated_by(
                {f"{each.name}: {claim}": _check(claim, each, searched=searched) for claim in claims for each in asked},
                max_concurrency=self.at_once,
            )
            .with_minimum_results(1)
            .with_time_limit(self.seconds)
            .consolidated_by(consolidate)
            .as_sub_process(context)
        )


def _check(claim: str, checker: Checker, *, searched: bool) -> Callable[[Ai], Awaitable[Finding]]:
    async def check(ai: Ai) -> Finding:
        prompt = _PROMPTS.render("check", {"claim": claim, "web": searched})
        found = await ai.with_llm(checker.llm).create_object(prompt, Judgement)
        links = found.links if searched else []  # without the web, an address is from memory or made up
        return Finding(
            claim=claim,
            checker=checker.name,
            verdict=found.verdict,
            confidence=found.confidence,
            explanation=found.explanation,
            links=links,
        )

    return check


def _result(checks: list[FactCheck], asked: Sequence[Checker], *, searched: bool) -> FactChecks:
    names = [each.name for each in asked]
    content = in_markdown(checks, names, searched=searched)
    return FactChecks(content=content, checks=checks, checkers=names, searched=searched)
