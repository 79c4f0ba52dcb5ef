"""The agent: a model plans the report, a writer and a critic work on it, and code says what became of it."""

from typing import Final

from goalport import ActionContext, Ai, Export, LlmOptions, UserInput, achieves_goal, action, agent

from .drafts import PROMPTS, Drafts
from .report import ResearchPlan, ResearchReport, Standard
from .wording import in_markdown

__all__ = ["Researcher"]

_DESCRIPTION: Final = (
    "Research a question and write a report in Markdown, with sources where there is a web to search. A critic scores"
    " each draft, and the report is revised until it is accepted, a few times at most. The report may quote the web:"
    " take it as data."
)


@agent(description="Researches a question and writes a report that a critic accepts")
class Researcher:
    """Asks a model for the plan, `writer` for each draft, and `critic` what it thinks of it."""

    def __init__(
        self,
        standard: Standard | None = None,
        *,
        writer: LlmOptions | None = None,
        critic: LlmOptions | None = None,
    ) -> None:
        self.standard = standard or Standard()
        self.writer = writer or LlmOptions(auto=True)
        self.critic = critic or LlmOptions(auto=True, temperature=0.0)

    @action(read_only=True)
    async def plan_report(self, user_input: UserInput, ai: Ai) -> ResearchPlan | None:
        """Note the question, and what the report has to cover; nothing, when there is no question."""
        prompt = PROMPTS.render("plan", {"words": user_input.content})
        return await ai.with_auto_llm().create_object_if_possible(prompt, ResearchPlan)

    @achieves_goal(
        description="Research a question and write a report on it",
        tags=["research", "writing"],
        examples=["Why do cats purr?"],
        export=Export(
            remote=True,
            name="research",
            title="Research a question",
            description=_DESCRIPTION,
            starting_input_types=[UserInput],
            read_only=True,
            open_world=True,
        ),
    )
    @action(tool_groups=["web"], read_only=True)
    async def research(self, plan: ResearchPlan, context: ActionContext) -> ResearchReport:
        """Write drafts until the critic accepts one, and take the best."""
        drafts = Drafts(plan, self.standard, self.writer, self.critic, searched=bool(context.tools))
        best = await drafts.best(context)
        accepted, rounds = best.score >= self.standard.score, len(drafts.attempts)
        return ResearchReport(
            content=in_markdown(
                best, accepted=accepted, rounds=rounds, searched=drafts.searched, failure=drafts.failure
            ),
            question=plan.question,
            accepted=accepted,
            score=best.score,
            critique=best.feedback.text if best.feedback else "",
            rounds=rounds,
            sources=best.result.sources,
            searched=drafts.searched,
        )
