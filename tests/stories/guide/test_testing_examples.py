"""Section 3.26 of the guide, on testing: its unit tests and its integration test, as they are written in Python."""

from dataclasses import dataclass
from typing import Protocol

import pytest

from goalport import (
    AgentInvocation,
    AgentPlatform,
    Ai,
    OperationContext,
    Persona,
    UserInput,
    achieves_goal,
    action,
    agent,
)
from goalport.testing import FakeEngine, FakeOperationContext, ScriptedModels, contains

AUTHOR = Persona(name="Ida Quill", persona="a storyteller", voice="warm", objective="make people listen")
CRITIC = Persona(name="Max Sharp", persona="a critic", voice="fair and dry", objective="find what is good")


@dataclass(frozen=True)
class Story:
    text: str


@dataclass(frozen=True)
class ReviewedStory:
    story: Story
    review: str
    reviewer: Persona

    @property
    def content(self) -> str:
        return f"{self.story.text}\n\n{self.review}\n\n{self.reviewer.name}"


@agent(description="Writes a story about what the user says, and has it reviewed")
class WriteAndReviewAgent:
    def __init__(self, story_words: int = 100, review_words: int = 50) -> None:
        self.story_words = story_words
        self.review_words = review_words

    @action
    async def craft_story(self, user_input: UserInput, context: OperationContext) -> Story:
        ai = context.ai.with_llm(temperature=0.9).with_prompt_contributors(AUTHOR)
        prompt = f"Craft a short story of at most {self.story_words} words about: {user_input.content}"
        return await ai.create_object(prompt, Story)

    @achieves_goal(description="A story with a review")
    @action
    async def review_story(self, user_input: UserInput, story: Story, context: OperationContext) -> ReviewedStory:
        ai = context.ai.with_llm(temperature=0.2).with_tool_groups("web").with_prompt_contributors(CRITIC)
        prompt = (
            f"Here is a short story to review, in at most {self.review_words} words.\n"
            f"It was written for: {user_input.content}\n\n{story.text}"
        )
        return ReviewedStory(story, await ai.generate_text(prompt), CRITIC)


WISH = UserInput("A story about a knight who fears horses")
STORY = Story("Sir Walter walked to the war.")


@pytest.fixture
def context() -> FakeOperationContext:
    return FakeOperationContext()


async def test_crafting_a_story_prompts_with_the_wish_and_is_creative(context: FakeOperationContext) -> None:
    context.expect_response(STORY)

    await WriteAndReviewAgent(200, 400).craft_story(WISH, context)

    asked = context.llm_invocations[0]
    assert "knight" in asked.prompt
    assert "200 words" in asked.prompt
    assert asked.interaction.llm.temperature == pytest.approx(0.9)


async def test_a_review_prompts_with_the_story_and_takes_one_call(context: FakeOperationContext) -> None:
    context.expect_response("A tale of courage, on foot.")

    await WriteAndReviewAgent(200, 400).review_story(WISH, STORY, context)

    (asked,) = context.llm_invocations
    assert "knight" in asked.prompt
    assert "review" in asked.prompt
    assert asked.interaction.contributors == (CRITIC,)


async def test_tool_groups_are_there_where_they_should_be_and_nowhere_else(context: FakeOperationContext) -> None:
    context.expect_response(STORY, "Fine.")
    agent = WriteAndReviewAgent()

    await agent.review_story(WISH, await agent.craft_story(WISH, context), context)

    writing, reviewing = context.llm_invocations
    assert writing.interaction.tool_groups == ()
    assert "web" in reviewing.interaction.tool_groups


async def test_several_calls_are_answered_in_order(context: FakeOperationContext) -> None:
    context.expect_response(STORY, "Dry, and yet moving.")
    agent = WriteAndReviewAgent()

    story = await agent.craft_story(UserInput("Horses in space"), context)
    reviewed = await agent.review_story(UserInput("Horses in space"), story, context)

    assert story == STORY
    assert reviewed == ReviewedStory(STORY, "Dry, and yet moving.", CRITIC)
    assert [each.interaction.llm.temperature for each in context.llm_invocations] == [0.9, 0.2]
    context.verify_responses_used()


class Almanac(Protocol):
    async def saying_for(self, day: str) -> str: ...


@agent(description="Opens a day with a verse")
class DayOpener:
    def __init__(self, almanac: Almanac) -> None:
        self.almanac = almanac

    @achieves_goal(description="A verse for the day")
    async def open_day(self, user_input: UserInput, context: OperationContext) -> Story:
        saying = await self.almanac.saying_for(user_input.content)
        return await context.ai.create_object(f"Make a verse of this saying: {saying}", Story)


async def test_a_service_is_replaced_by_handing_another_to_the_constructor(context: FakeOperationContext) -> None:
    asked: list[str] = []

    class Sayings:
        async def saying_for(self, day: str) -> str:
            asked.append(day)
            return "Red sky at night"

    context.expect_response(Story("The sky was red."))

    assert await DayOpener(Sayings()).open_day(UserInput("Monday"), context) == Story("The sky was red.")
    assert asked == ["Monday"]
    assert "Red sky at night" in context.llm_invocations[0].prompt


class Jester:
    """A class with an injected `Ai`, outside of any agent."""

    def __init__(self, ai: Ai) -> None:
        self.ai = ai

    async def tell_joke_about(self, topic: str) -> str:
        return await self.ai.with_default_llm().generate_text(f"Tell me a joke about {topic}")


async def test_a_class_with_an_injected_ai_is_tested_without_a_platform() -> None:
    joke = "What do frogs order? French flies."
    engine = FakeEngine(joke)

    assert await Jester(engine.ai).tell_joke_about("frogs") == joke

    (asked,) = engine.llm_invocations
    assert asked.prompt == "Tell me a joke about frogs"
    assert (asked.interaction.llm.model, asked.interaction.llm.role) == (None, None)


async def test_the_whole_workflow_runs_on_a_platform_with_scripted_models(scripted_models: ScriptedModels) -> None:
    story = Story("Machines dream of us.")
    expected = ReviewedStory(story, "Bold, and short.", CRITIC)
    scripted_models.when_create_object(contains("Craft a short story"), Story).then_return(story)
    scripted_models.when_generate_text(contains("a short story to review")).then_return(expected.review)

    async with AgentPlatform([WriteAndReviewAgent], models=scripted_models) as platform:
        invocation = AgentInvocation.on(platform).returning(ReviewedStory)
        reviewed = await invocation.invoke(UserInput("A story about artificial minds"))

    assert story.text in reviewed.content
    assert reviewed == expected
    scripted_models.verify_create_object_matching(
        lambda prompt: "Craft a short story" in prompt,
        Story,
        lambda asked: asked.llm.temperature == 0.9 and not asked.tool_groups,
    )
    scripted_models.verify_generate_text_matching(lambda prompt: "a short story to review" in prompt)
    scripted_models.verify_no_more_interactions()
