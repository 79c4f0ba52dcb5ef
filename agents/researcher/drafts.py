"""The loop of a report: it is written, criticised and revised, until the critic accepts it or the limit is reached."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from goalport import ActionContext, Ai, LlmOptions
from goalport.errors import InvalidModelOutput, ModelError
from goalport.models import Templates
from goalport.workflow import Attempt, Feedback, History, RepeatUntilAcceptable

from .report import Draft, ResearchPlan, Standard

__all__ = ["PROMPTS", "Drafts"]

PROMPTS: Final = Templates(Path(__file__).with_name("prompts"))
_UNREADABLE: Final = "The critic gave no critique that can be read."


@dataclass
class Drafts:
    """The drafts of one report."""

    plan: ResearchPlan
    standard: Standard
    writer: LlmOptions
    critic: LlmOptions
    searched: bool
    """Whether the writer can search the web."""
    attempts: list[Attempt[Draft]] = field(default_factory=list[Attempt[Draft]], init=False)
    failure: str = field(default="", init=False)
    """Why there are no more drafts; empty: none was missing."""

    async def best(self, context: ActionContext) -> Attempt[Draft]:
        """Write drafts until one is accepted, or as many as the standard says; the one with the best score.

        Where a model fails, the drafts that were judged before count. Raises `ModelError` when there is none.
        """
        loop = RepeatUntilAcceptable.returning(Draft).with_max_iterations(self.standard.rounds)
        loop = loop.with_score_threshold(self.standard.score).repeating(self.write)
        try:
            await loop.with_evaluator(self.criticise).as_sub_process(context)
        except ModelError as error:
            if not self.attempts:
                raise
            self.failure = str(error)
        found = History(tuple(self.attempts)).best
        assert found is not None
        return found

    async def write(self, history: History[Draft], ai: Ai) -> Draft:
        """Write a draft; after the first, revise the best one as its critique asks."""
        prompt = PROMPTS.render("write", {**self._asked, "web": self.searched, "before": history.best})
        draft = await ai.with_llm(self.writer).create_object(prompt, Draft)
        return draft if self.searched else draft.model_copy(update={"sources": []})

    async def criticise(self, draft: Draft, history: History[Draft], ai: Ai) -> Feedback:
        """Judge a draft; the critic is told what it said before, so that it does not ask for other things each time."""
        prompt = PROMPTS.render("criticise", {**self._asked, "draft": draft, "before": history.best})
        try:
            feedback = await ai.with_llm(self.critic).create_object(prompt, Feedback)
        except InvalidModelOutput:  # the drafts are paid: they are not lost because a critic cannot count
            feedback = Feedback(0, _UNREADABLE)
        self.attempts.append(Attempt(draft, feedback))
        return feedback

    @property
    def _asked(self) -> dict[str, object]:
        return {"plan": self.plan, "standard": self.standard}
