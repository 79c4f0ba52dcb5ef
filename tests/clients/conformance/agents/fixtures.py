"""Goals that ask nobody: a text, an image, an error, progress by steps and in words, and the prompts of goals."""

from dataclasses import dataclass, field

import anyio
from mcp_types import ImageContent

from goalport import ActionContext, Export, achieves_goal, action, agent

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


@agent(description="Tells what it does")
class Teller:
    """What an action tells of its progress is a log message too, for clients that asked for log messages."""

    @achieves_goal(description="Work in three parts", export=Export(remote=True, name="test_tool_with_logging"))
    @action
    async def work(self, context: ActionContext) -> str:
        context.progress("Tool execution started")
        await anyio.sleep(0.05)
        context.progress("Tool processing data")
        await anyio.sleep(0.05)
        context.progress("Tool execution completed")
        return "Told of three parts"


@agent(description="Tells one thing")
class QuietTeller:
    @achieves_goal(description="Work in one part", export=Export(remote=True, name="test_logging_tool"))
    @action
    async def work(self, context: ActionContext) -> str:
        context.progress("Only for a request that asked for log messages")
        return "Told of it, if that was wanted"


@agent(description="Has a prompt without arguments")
class Prompted:
    @achieves_goal(description="A simple prompt", export=Export(remote=True, name="test_simple_prompt"))
    @action
    async def say(self) -> str:
        return "This is what the prompt asks a model to call."


@dataclass(frozen=True)
class Arguments:
    """What the arguments of a prompt are made of, and their descriptions."""

    arg1: str = field(metadata={"description": "First argument"})
    arg2: str = field(metadata={"description": "Second argument"})


@agent(description="Has a prompt with arguments")
class PromptedWithArguments:
    @achieves_goal(description="A prompt with arguments", export=Export(remote=True, name="test_prompt_with_arguments"))
    @action
    async def say(self, arguments: Arguments) -> str:
        return f"arg1='{arguments.arg1}', arg2='{arguments.arg2}'"
