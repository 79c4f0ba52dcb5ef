"""Goals without an input: a text, an image, an error, and one of several steps to see progress by."""

from dataclasses import dataclass

from mcp_types import ImageContent

from goalport import Export, achieves_goal, action, agent

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"


@agent(description="Says one sentence")
class SimpleText:
    """Its goal's output is a string: it is the text of the result as it is."""

    @achieves_goal(description="A simple text", export=Export(remote=True, name="test_simple_text"))
    @action
    async def say(self) -> str:
        return "This is a simple text response for testing."


@agent(description="Shows one pixel")
class Picture:
    """Its goal's output is a content block: it passes through."""

    @achieves_goal(description="A small image", export=Export(remote=True, name="test_image_content"))
    @action
    async def show(self) -> ImageContent:
        return ImageContent(type="image", data=PIXEL, mime_type="image/png")


@agent(description="Always fails")
class Failing:
    """Its only action raises, so no plan is left and the reason is told."""

    @achieves_goal(description="Never reached", export=Export(remote=True, name="test_error_handling"))
    @action
    async def fail(self) -> str:
        raise ValueError("This tool intentionally returns an error for testing")


@dataclass(frozen=True)
class FirstHalf:
    """What half of the work leaves behind."""

    done: int


@dataclass(frozen=True)
class SecondHalf:
    """What the other half leaves behind."""

    done: int


@agent(description="Works in three steps")
class Steps:
    """Each action is a step of the progress."""

    @action
    async def begin(self) -> FirstHalf:
        return FirstHalf(50)

    @action
    async def go_on(self, first: FirstHalf) -> SecondHalf:
        return SecondHalf(first.done + 50)

    @achieves_goal(description="All steps done", export=Export(remote=True, name="test_tool_with_progress"))
    @action
    async def finish(self, second: SecondHalf) -> str:
        return f"Done: {second.done} of 100"
