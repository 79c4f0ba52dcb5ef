"""The stages of a story: a person comments on it, it is revised until they accept it, and then it is reviewed.

Each stage has all that it needs, since the actions that lead back clear the blackboard.
"""

from pathlib import Path
from typing import Final

from goalport import Ai, Export, Persona, State, UserInput, WaitFor, achieves_goal, action
from goalport.models import RoleGoalBackstory, Templates

from .story import Assessment, HumanFeedback, Lengths, ReviewedStory, Story

__all__ = ["REVIEWER", "WRITER", "AssessStory", "Done", "ReviseStory", "Stage", "drafted"]

WRITER: Final = RoleGoalBackstory(
    role="Storyteller",
    goal="Write short stories that people read to the end",
    backstory="Kept the log of a lighthouse for eleven years, and nobody noticed that half of it was invented",
)
REVIEWER: Final = Persona(
    name="Ottoline Marchbanks",
    persona="A book reviewer who has forgiven many books and remembers all of them",
    voice="Exact, kind and short",
    objective="To tell a reader whether the next five minutes are well spent",
)
_PROMPTS: Final = Templates(Path(__file__).with_name("prompts"))
_DESCRIPTION: Final = (
    "Write a short story from an idea, show it to the person, revise it until they accept it, and review it. The person"
    " is asked for comments after each draft."
)


class Stage(State):
    """How far a story has come."""

    wanted: UserInput
    story: Story
    lengths: Lengths
    revisions: int


class AssessStory(Stage):
    """The story is there, and the person says what they think."""

    @action(read_only=True)
    def ask_for_feedback(self) -> WaitFor[HumanFeedback]:
        """Show the story to the person."""
        return WaitFor.form_submission(f"What do you think of this story?\n\n{self.story.text}", HumanFeedback)

    @action(clear_blackboard=True, read_only=True)
    async def assess(self, feedback: HumanFeedback, ai: Ai) -> "Done | ReviseStory":
        """Find out whether the person accepts the story."""
        asked = {"story": self.story, "feedback": feedback}
        assessment = await ai.create_object(_PROMPTS.render("assess", asked), Assessment)
        if assessment.acceptable:
            return Done(self.wanted, self.story, self.lengths, self.revisions)
        return ReviseStory(self.wanted, self.story, self.lengths, self.revisions, feedback)


class ReviseStory(Stage):
    """The person wants something changed."""

    feedback: HumanFeedback

    @action(clear_blackboard=True, read_only=True)
    async def revise(self, ai: Ai) -> AssessStory:
        """Write the story again, as the person wants it."""
        story = await drafted(ai, self.wanted, self.lengths, self)
        return AssessStory(self.wanted, story, self.lengths, self.revisions + 1)


class Done(Stage):
    """The person has accepted the story."""

    @achieves_goal(
        description="A story that a person accepted, with a review",
        tags=["story", "writing"],
        examples=["A story about a heron that learns to read"],
        export=Export(
            remote=True,
            name="write_and_review_story",
            title="Write a story together",
            description=_DESCRIPTION,
            starting_input_types=[UserInput],
            read_only=True,
            open_world=False,
        ),
    )
    @action(read_only=True)
    async def review(self, ai: Ai) -> ReviewedStory:
        """Have the story reviewed."""
        asked = {"story": self.story, "wanted": self.wanted, "words": self.lengths.review}
        review = await ai.with_prompt_contributors(REVIEWER).generate_text(_PROMPTS.render("review", asked))
        return ReviewedStory(
            content=f"{self.story.text}\n\n*{REVIEWER.name}:* {review}",
            story=self.story.text,
            review=review,
            reviewer=REVIEWER.name,
            revisions=self.revisions,
        )


async def drafted(ai: Ai, wanted: UserInput, lengths: Lengths, before: ReviseStory | None = None) -> Story:
    """A draft by the writer; `before` is the story that is to be revised, with what the person said."""
    asked = {"wanted": wanted, "words": lengths.story, "before": before}
    writer = ai.with_llm(auto=True, temperature=0.7).with_prompt_contributors(WRITER)
    return await writer.create_object(_PROMPTS.render("write", asked), Story)
