"""The large example of the page on states, and the first agent of section 2.5: write, ask a person, revise, review.

Its models are replaced by an author who writes by rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult
from pydantic import BaseModel

from goalport import (
    AgentPlatform,
    AgentProcess,
    Export,
    ProcessStatus,
    State,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
)
from goalport.events import ActionStarted, Event, StateEntered
from goalport.runtime import Completed
from goalport.testing import McpClient, plan_of


class Story(BaseModel):
    text: str


class ReviewedStory(BaseModel):
    story: Story
    review: str
    reviewer: str

    @property
    def content(self) -> str:
        return f"{self.story.text}\n\n{self.review}\n{self.reviewer}"


class HumanFeedback(BaseModel):
    comments: str


@dataclass(frozen=True)
class Properties:
    story_word_count: int
    review_word_count: int


@dataclass
class Author:
    """Does by rule what the models of the example do, and notes what it did."""

    done: list[str] = field(default_factory=list[str])

    def write(self, subject: str, word_count: int) -> Story:
        self.done.append("write")
        return Story(text=" ".join(f"Once a {subject} lived far away".split()[:word_count]))

    def accepts(self, feedback: HumanFeedback) -> bool:
        self.done.append("assess")
        return "good" in feedback.comments

    def revise(self, story: Story, feedback: HumanFeedback) -> Story:
        self.done.append("revise")
        return Story(text=f"{story.text}, {feedback.comments}")

    def review(self, story: Story, word_count: int) -> str:
        self.done.append("review")
        return " ".join(["Reads", "very", "well", "indeed"][:word_count])


AUTHOR = Author()
"""The state classes find it here; each test begins with an empty list of what it did."""


class Stage(State): ...


class AssessStory(Stage):
    user_input: UserInput
    story: Story
    properties: Properties

    @action
    def get_feedback(self) -> WaitFor[HumanFeedback]:
        return WaitFor.form_submission(f"Please give feedback on the story\n{self.story.text}", HumanFeedback)

    @action(clear_blackboard=True)
    async def assess(self, feedback: HumanFeedback) -> Stage:
        if AUTHOR.accepts(feedback):
            return Done(self.user_input, self.story, self.properties)
        return ReviseStory(self.user_input, self.story, feedback, self.properties)


class ReviseStory(Stage):
    user_input: UserInput
    story: Story
    human_feedback: HumanFeedback
    properties: Properties

    @action(clear_blackboard=True)
    async def revise_story(self) -> AssessStory:
        return AssessStory(self.user_input, AUTHOR.revise(self.story, self.human_feedback), self.properties)


class Done(Stage):
    user_input: UserInput
    story: Story
    properties: Properties

    @achieves_goal(
        description="A story that a person accepted, with a reviewer's opinion",
        export=Export(remote=True, name="writeAndReviewStory"),
    )
    @action
    async def review_story(self) -> ReviewedStory:
        review = AUTHOR.review(self.story, self.properties.review_word_count)
        return ReviewedStory(story=self.story, review=review, reviewer="Media Book Review")


@agent(description="Writes a story about what the user says, and reviews it")
class WriteAndReviewAgent:
    def __init__(self, story_word_count: int = 4, review_word_count: int = 3) -> None:
        self.properties = Properties(story_word_count, review_word_count)

    @action
    async def craft_story(self, user_input: UserInput) -> AssessStory:
        draft = AUTHOR.write(user_input.content, self.properties.story_word_count)
        return AssessStory(user_input, draft, self.properties)


@pytest.fixture(autouse=True)
def fresh_author() -> None:
    AUTHOR.done.clear()


async def settled(process: AgentProcess) -> None:
    with anyio.fail_after(60):
        await process.wait()


class Transitions:
    """Hears which states are entered."""

    def __init__(self) -> None:
        self.entered: list[str] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, StateEntered):
            self.entered.append(event.state)


class FeedbackAtEachAction:
    """Notes what the blackboard has when an action starts."""

    def __init__(self, process: AgentProcess) -> None:
        self._process = process
        self.feedback: dict[str, HumanFeedback | None] = {}

    def on_event(self, event: Event) -> None:
        if isinstance(event, ActionStarted):
            self.feedback[event.action] = self._process.last(HumanFeedback)


ASKS = ["AssessStory.get_feedback", "AssessStory.assess"]
REVISES = ["ReviseStory.revise_story"]


@pytest.mark.parametrize("wishes", [[], ["shorter"], ["shorter", "with a dragon", "without"]])
async def test_a_person_is_asked_and_the_story_revised_until_it_is_accepted(wishes: Sequence[str]) -> None:
    heard = Transitions()
    async with AgentPlatform([WriteAndReviewAgent()], listeners=[heard]) as platform:
        process = await platform.run("WriteAndReviewAgent", UserInput("fox"))
        for number, comments in enumerate([*wishes, "good"]):
            assert process.status is ProcessStatus.WAITING
            (question,) = process.open_questions
            told = ", ".join(["Once a fox lived", *wishes[:number]])
            assert question.message == f"Please give feedback on the story\n{told}"
            await platform.answer(process.id, question.id, {"comments": comments})
            await settled(process)
    assert isinstance(process.outcome, Completed)
    result = process.result_of_type(ReviewedStory)
    assert result.story.text == ", ".join(["Once a fox lived", *wishes])
    assert result.content.endswith("\n\nReads very well\nMedia Book Review")
    assert [each.action for each in process.history] == [
        "WriteAndReviewAgent.craft_story",
        *(ASKS + REVISES) * len(wishes),
        *ASKS,
        "Done.review_story",
    ]
    assert AUTHOR.done == ["write", *["assess", "revise"] * len(wishes), "assess", "review"]
    assert heard.entered == ["AssessStory", *["ReviseStory", "AssessStory"] * len(wishes), "Done"]


async def test_the_answer_is_there_within_its_state_and_gone_after_the_transition() -> None:
    async with AgentPlatform([WriteAndReviewAgent()]) as platform:
        process = await platform.run("WriteAndReviewAgent", UserInput("fox"))
        assert process.last(HumanFeedback) is None
        process.subscribe(seen := FeedbackAtEachAction(process))
        await platform.answer(process.id, response=HumanFeedback(comments="longer"))
        await settled(process)
        assert seen.feedback["AssessStory.assess"] == HumanFeedback(comments="longer")
        assert process.last(HumanFeedback) is None
        assert [type(each) for each in process.blackboard.objects] == [AssessStory]
        state = process.last(AssessStory)
        assert state is not None
        assert (state.user_input, state.properties) == (UserInput("fox"), Properties(4, 3))


async def test_the_numbers_of_the_constructor_go_through_every_state() -> None:
    async with AgentPlatform([WriteAndReviewAgent(story_word_count=2, review_word_count=1)]) as platform:
        process = await platform.run("WriteAndReviewAgent", UserInput("fox"))
        await platform.answer(process.id, response={"comments": "good"})
        await settled(process)
    result = process.result_of_type(ReviewedStory)
    assert (result.story.text, result.review) == ("Once a", "Reads")


async def test_two_people_are_asked_independently() -> None:
    async with AgentPlatform([WriteAndReviewAgent()]) as platform:
        one = await platform.run("WriteAndReviewAgent", UserInput("fox"))
        two = await platform.run("WriteAndReviewAgent", UserInput("crow"))
        await platform.answer(two.id, response={"comments": "good"})
        await settled(two)
    assert two.result_of_type(ReviewedStory).story.text == "Once a crow lived"
    assert one.status is ProcessStatus.KILLED


async def test_a_scripted_person_gets_the_reviewed_story_from_the_exported_tool(mcp_client: McpClient) -> None:
    script = iter(["longer", "good now"])
    async with mcp_client(WriteAndReviewAgent()) as client:
        with anyio.fail_after(60):
            found = read(await client.call_tool("writeAndReviewStory", {"content": "fox"}))
            while found.get("status") == "waiting":
                (question,) = found["questions"]
                assert set(question["schema"]["properties"]) == {"comments"}
                answer = {"processId": found["processId"], "answer": {"comments": next(script)}}
                found = read(await client.call_tool("process_answer", answer))
    assert found == {
        "story": {"text": "Once a fox lived, longer"},
        "review": "Reads very well",
        "reviewer": "Media Book Review",
    }


def read(result: Any) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    found: Any = result.structured_content
    return found


@agent(description="Writes stories and reviews them")
class FirstAgent:
    @action
    async def write_story(self, user_input: UserInput) -> Story:
        return AUTHOR.write(user_input.content, 100)

    @achieves_goal(description="Review a story")
    @action
    async def review_story(self, story: Story) -> ReviewedStory:
        return ReviewedStory(story=story, review=AUTHOR.review(story, 2), reviewer="An editor")


async def test_the_first_agent_writes_and_then_reviews() -> None:
    assert plan_of(FirstAgent, given=[UserInput]) == ["write_story", "review_story"]
    process = await AgentPlatform([FirstAgent]).run("FirstAgent", UserInput("robot"))
    assert process.result_of_type(ReviewedStory).review == "Reads very"
    assert AUTHOR.done == ["write", "review"]
