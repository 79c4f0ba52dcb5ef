"""References are made ready before each request: brought up to date, and fitted to the question."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest

from goalport.base.errors import TerminateAgent
from goalport.knowledge.references import LlmReference, TextReference
from goalport.models.llm import SystemMessage
from goalport.runtime.ai import Ai
from goalport.runtime.ai.llm_engine import ready_references
from goalport.testing import ScriptedModel, calls_tool, streams
from goalport.tools import Tool
from tests.rooms.ai.scripted import ai_with


@dataclass(eq=False)
class News:
    """A reference that is out of date until it is refreshed."""

    name: str = "news"
    description: str = "What is new"
    refreshed: int = 0
    fails: Exception | None = None
    meets: anyio.Event | None = None
    waits_for: anyio.Event | None = None
    told: list[str] = field(default_factory=list[str])
    about: str = ""

    async def refresh(self) -> None:
        if self.meets is not None and self.waits_for is not None:
            self.meets.set()
            await self.waits_for.wait()
        if self.fails is not None:
            raise self.fails
        self.refreshed += 1

    async def for_question(self, question: str, /) -> LlmReference:
        self.told.append(question)
        return replace(self, about=question)

    def notes(self) -> str:
        return f"Edition {self.refreshed} about {self.about}."

    def tools(self) -> Sequence[Tool]:
        return ()


def asking(*references: LlmReference, replies: Sequence[Any] = ("Yes",)) -> tuple[Ai, ScriptedModel]:
    model = ScriptedModel([*replies])
    return ai_with(model).with_references(*references), model


def prompt_of(model: ScriptedModel) -> str:
    first = model.calls[-1].messages[0]
    assert isinstance(first, SystemMessage)
    return first.content


async def test_the_system_prompt_is_made_of_what_is_up_to_date_and_fits_the_question() -> None:
    news = News()
    ai, model = asking(news, replies=["{", "3", "Yes"])

    assert await ai.create_object("How many?", int) == 3
    assert (news.refreshed, news.told) == (1, ["How many?"])
    assert "Edition 1 about How many?." in prompt_of(model)
    await ai.generate_text("Really?")
    assert "Edition 2 about Really?." in prompt_of(model)


async def test_streams_are_ready_too() -> None:
    news = News()
    ai, model = asking(news, replies=[streams("Ye", "s")])

    assert "".join([each async for each in ai.streaming().text("Now?")]) == "Yes"
    assert "Edition 1 about Now?." in prompt_of(model)


async def test_references_are_made_ready_at_the_same_time() -> None:
    one, two = anyio.Event(), anyio.Event()
    ai, _ = asking(News("a", meets=one, waits_for=two), News("b", meets=two, waits_for=one))

    with anyio.fail_after(60):
        await ai.generate_text("Go")


async def test_one_that_fails_is_used_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    ai, model = asking(News("broken", fails=KeyError("gone")), News())

    with caplog.at_level(logging.WARNING):
        assert await ai.generate_text("Go") == "Yes"

    assert "Edition 0 about ." in prompt_of(model)
    assert "Edition 1 about Go." in prompt_of(model)
    assert [each.getMessage() for each in caplog.records] == [
        "The reference 'broken' is used as it was: KeyError('gone')"
    ]


async def test_one_that_takes_long_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    slow = News("slow", meets=anyio.Event(), waits_for=anyio.Event())

    with caplog.at_level(logging.WARNING), anyio.fail_after(60):
        assert await ready_references([slow], (), seconds=0.01) == (slow,)

    assert "'slow' was not ready within 0.01 seconds" in caplog.text


async def test_a_text_that_came_too_late_is_read_by_its_tools_and_delays_no_other_request() -> None:
    reads = 0

    async def read() -> str:
        nonlocal reads
        reads += 1
        if reads == 1:
            await anyio.sleep_forever()
        return "A long story."

    story = TextReference("story", "A story", "story.md", read)
    for _ in range(2):
        await ready_references([story], (), seconds=0.01)
    assert reads == 1
    ai, model = asking(story, replies=[calls_tool("story_read"), "Read."])
    await ai.generate_text("Tell")

    assert "has not been read yet" in prompt_of(model)
    assert "A long story." in str(model.calls[-1].messages[-1])


async def test_a_reference_may_end_the_process_that_asks() -> None:
    ai, _ = asking(News(fails=TerminateAgent("Over")))

    with pytest.raises(TerminateAgent):
        await ai.generate_text("Go")
