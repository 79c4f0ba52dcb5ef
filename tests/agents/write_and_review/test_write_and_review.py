"""A story written with a person, through the official client: the model is scripted, the person answers each draft."""

from typing import Any

import anyio
from mcp_types import CallToolResult

from agents.write_and_review.agent import WriteAndReview
from agents.write_and_review.stages import REVIEWER, WRITER
from agents.write_and_review.story import Assessment, Lengths, Story
from goalport.testing import McpClient, ScriptedModel

FIRST, SECOND = "A heron learned to read.", "A heron learned to read, and laughed."
IDEA = {"content": "a heron that learns to read"}


def accepts(*, story: bool) -> Assessment:
    return Assessment(acceptable=story)


async def test_a_story_is_revised_until_the_person_accepts_it_and_then_reviewed(mcp_client: McpClient) -> None:
    model = ScriptedModel(
        [Story(text=FIRST), accepts(story=False), Story(text=SECOND), accepts(story=True), "Short and sweet."]
    )
    comments = ["It should laugh.", "I like it."]
    asked: list[str] = []
    with anyio.fail_after(60):
        async with mcp_client(WriteAndReview(Lengths(story=40, review=20)), models=model) as client:
            told = structured(await client.call_tool("write_and_review_story", IDEA))
            for said in comments:
                (question,) = told["questions"]
                asked.append(question["message"])
                assert question["schema"]["required"] == ["comments"]
                answer = {"processId": told["processId"], "answer": {"comments": said}}
                told = structured(await client.call_tool("process_answer", answer))
    assert [FIRST in asked[0], SECOND in asked[1]] == [True, True]
    assert told == {
        "content": f"{SECOND}\n\n*{REVIEWER.name}:* Short and sweet.",
        "story": SECOND,
        "review": "Short and sweet.",
        "reviewer": REVIEWER.name,
        "revisions": 1,
    }


async def test_a_model_is_told_the_idea_the_comments_and_who_it_is(mcp_client: McpClient) -> None:
    model = ScriptedModel(
        [Story(text=FIRST), accepts(story=False), Story(text=SECOND), accepts(story=True), "Short and sweet."]
    )
    with anyio.fail_after(60):
        async with mcp_client(WriteAndReview(Lengths(story=40, review=20)), models=model) as client:
            told = structured(await client.call_tool("write_and_review_story", IDEA))
            for said in ("It should laugh.", "I like it."):
                answer = {"processId": told["processId"], "answer": {"comments": said}}
                told = structured(await client.call_tool("process_answer", answer))
    write, assess, revise, accept, review = (str(each.messages) for each in model.calls)
    for prompt, words in (
        (write, [IDEA["content"], "40 words", WRITER.role]),
        (assess, [FIRST, "It should laugh."]),
        (revise, [FIRST, "It should laugh.", IDEA["content"]]),
        (accept, [SECOND, "I like it."]),
        (review, [SECOND, "20 words", REVIEWER.name]),
    ):
        assert [each for each in words if each not in prompt] == []


async def test_without_a_model_the_call_says_what_to_set(mcp_client: McpClient) -> None:
    with anyio.fail_after(60):
        async with mcp_client(WriteAndReview()) as client:
            result = await client.call_tool("write_and_review_story", IDEA)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert "_API_KEY" in str(result.content)


def structured(result: object) -> dict[str, Any]:
    assert isinstance(result, CallToolResult), result
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content
