"""The agent itself: it writes the first draft, and knows how long the texts may be."""

from goalport import Ai, UserInput, action, agent

from .stages import AssessStory, drafted
from .story import Lengths

__all__ = ["WriteAndReview"]


@agent(description="Writes a story from an idea, revises it with a person, and reviews it")
class WriteAndReview:
    """Asks a model for each draft, what a comment means, and the review; and a person after each draft."""

    def __init__(self, lengths: Lengths | None = None) -> None:
        self.lengths = lengths or Lengths()

    @action(read_only=True)
    async def write(self, user_input: UserInput, ai: Ai) -> AssessStory:
        """Write a first draft."""
        return AssessStory(user_input, await drafted(ai, user_input, self.lengths), self.lengths, 0)
