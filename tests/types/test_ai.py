"""What users ask of an `Ai` keeps its types: pyright checks these lines, and they run."""

from enum import Enum
from typing import Literal, assert_type

from pydantic import BaseModel

from goalport.models.llm import AssistantMessage, LlmOptions, Models, UserMessage
from goalport.runtime.ai import AgenticTool, Ai, LlmEngine
from goalport.testing import ScriptedModel
from goalport.tools import ToolGroupResolver


class Story(BaseModel):
    text: str


class Poem(BaseModel):
    lines: list[str]


class Sign(Enum):
    LEO = "leo"


def ai_that_says(*replies: object) -> Ai:
    return Ai(LlmEngine(Models(models=[ScriptedModel(replies)], environment={}), ToolGroupResolver))


async def test_an_object_has_the_type_that_was_asked_for() -> None:
    story, poem = Story(text="Once"), Poem(lines=["Roses"])
    ai = ai_that_says(story, [story], {"a": story}, {"result": poem}, "leo", "no", 3, "text", True)

    assert_type(await ai.create_object("…", Story), Story)
    assert_type(await ai.create_object("…", list[Story]), list[Story])
    assert_type(await ai.create_object("…", dict[str, Story]), dict[str, Story])
    assert_type(await ai.create_object("…", Story | Poem), Story | Poem)
    assert_type(await ai.create_object("…", Sign), Sign)
    assert_type(await ai.create_object("…", Literal["yes", "no"]), Literal["yes", "no"])
    assert_type(await ai.create_object("…", int), int)
    assert_type(await ai.create_object("…", str), str)
    assert_type(await ai.create_object("…", bool), bool)


async def test_an_object_that_may_be_declined_may_be_none() -> None:
    ai = ai_that_says({"failure": "no"}, [Story(text="Once")])

    assert_type(await ai.create_object_if_possible("…", Story), Story | None)
    assert_type(await ai.create_object_if_possible("…", list[Story]), list[Story] | None)


async def test_text_messages_conditions_and_vectors_are_what_they_are() -> None:
    ai = ai_that_says("Hello", "Fine", {"result": True, "confidence": 0.9, "explanation": "so"})

    assert_type(await ai.generate_text("…"), str)
    assert_type(await ai.respond([UserMessage("Hi")]), AssistantMessage)
    assert_type(await ai.evaluate_condition("it rains", "The street is wet."), bool)
    assert_type(await ai.embed(), list[list[float]])


async def test_creating_keeps_the_type_through_its_steps() -> None:
    creation = ai_that_says([Story(text="Once")]).creating(list[Story]).with_example("Short", [Story(text="Once")])

    assert_type(await creation.from_prompt("…"), list[Story])


async def test_a_stream_gives_objects_of_the_type() -> None:
    async for story in ai_that_says(Story(text="Once")).streaming().objects("…", Story):
        assert_type(story, Story)


def test_options_are_checked_by_name_and_type() -> None:
    ai = ai_that_says()
    assert_type(ai.with_llm("gpt-4.1", temperature=0.9), Ai)
    assert_type(ai.with_llm(LlmOptions(role="best")), Ai)
    assert_type(ai.with_llm(role="best").with_tool_groups("web", "maps").with_id("x"), Ai)
    assert_type(ai.with_llm(role="best", temperature=0.9, max_tokens=500, thinking="low"), Ai)
    assert_type(AgenticTool("clerk", "Answers").with_llm("gpt-4.1", temperature=0), AgenticTool)


def refused(ai: Ai) -> None:
    """Never run: each line must be refused by the type checker."""
    ai.with_llm(temprature=0.9)  # type: ignore[call-arg]
    ai.with_llm(temperature="hot")  # type: ignore[arg-type]
    ai.with_llm(3)  # type: ignore[arg-type]
    AgenticTool("clerk", "Answers").with_llm(temprature=0.9)  # type: ignore[call-arg]
    ai.with_images("picture.png")  # type: ignore[arg-type]
    ai.with_tool_groups(1)  # type: ignore[arg-type]
    ai.creating(Story).with_example("Short", Poem(lines=[]))  # type: ignore[arg-type]
