"""An action that begins again: which request of a model is the same as before, and what happens to calls still open."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest

from goalport import AgentPlatform, UserInput, achieves_goal, action, agent
from goalport.base.errors import ModelUnavailable
from goalport.models.llm import Image, ModelCall, ModelCard, Models
from goalport.runtime.ai import Ai
from goalport.runtime.process import ActionContext, AgentProcess, Completed, Killed, Outcome
from goalport.testing import ScriptedModel, ScriptedModels, contains
from goalport.tools import Tool, ToolGroup
from goalport.tools.upstream.active_calls import current_hooks
from tests.rooms.toy_domain import Text


async def settled(process: AgentProcess) -> Outcome:
    with anyio.fail_after(60):
        return await process.wait()


NO_ARGUMENTS: dict[str, object] = {}
Asking = Callable[[Ai, int], Ai]
SAME: Asking = lambda ai, _: ai.with_images(Image("image/png", b"1"))  # noqa: E731
OTHER_IMAGE: Asking = lambda ai, attempt: ai.with_images(Image("image/png", b"%d" % attempt))  # noqa: E731
OTHER_MODEL: Asking = lambda ai, attempt: ai.with_llm(f"model-{attempt}")  # noqa: E731


@pytest.mark.parametrize(("asking", "requests"), [(SAME, 1), (OTHER_IMAGE, 2), (OTHER_MODEL, 2)])
async def test_a_model_is_asked_again_when_it_or_an_image_is_another(asking: Asking, requests: int) -> None:
    attempts: list[int] = []

    @agent(description="d")
    class Looks:
        @achieves_goal(description="g")
        async def look(self, user_input: UserInput, ai: Ai, context: ActionContext) -> Text:
            attempts.append(1)
            said = await asking(ai, len(attempts)).generate_text("What is it?")
            return Text(said + await context.ask("Sure?", str))

    models = ScriptedModels()
    models.when_generate_text(contains("What is it?")).then_return("a bee")
    async with AgentPlatform([Looks], models=models) as platform:
        process = platform.start("Looks", UserInput("tale"))
        await settled(process)
        await platform.answer(process.id, response="!")
        assert await settled(process) == Completed(Text("a bee!"))
    assert len(attempts) == 2
    assert len(models.calls) == requests


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_model_that_failed_is_not_asked_again_where_another_answered(streamed: bool) -> None:  # noqa: FBT001
    @agent(description="d")
    class Looks:
        @achieves_goal(description="g")
        async def look(self, user_input: UserInput, ai: Ai, context: ActionContext) -> Text:
            ai, said = ai.with_llm("first").with_fallback("second"), ""
            for question in ("What is it?", "And its name?"):
                if streamed:
                    said += "".join([piece async for piece in ai.streaming().text(question)])
                else:
                    said += await ai.generate_text(question)
            return Text(said + await context.ask("Sure?", str))

    def fails(_: ModelCall) -> str:
        raise ModelUnavailable("Too busy.")

    first = ScriptedModel([fails] * 9, card=ModelCard(name="first", provider="test"))
    second = ScriptedModel(["a bee ", "Maya"], card=ModelCard(name="second", provider="test"))
    async with AgentPlatform([Looks], models=Models(models=[first, second], environment={})) as platform:
        process = platform.start("Looks", UserInput("tale"))
        await settled(process)
        asked = len(first.calls)
        await platform.answer(process.id, response="!")
        assert await settled(process) == Completed(Text("a bee Maya!"))
    assert (len(first.calls), len(second.calls)) == (asked, 2)


class Sky:
    """An upstream server's tool, which asks a person in the middle of its call."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.tool = replace(Tool.of(self._read, name="stars", description="Read the stars"), server="sky")

    async def _read(self) -> str:
        ask = current_hooks().ask
        assert ask is not None
        try:
            return str(await ask("Which sign?", {"type": "object", "properties": {"sign": {"type": "string"}}}))
        except asyncio.CancelledError:
            self.ended.set()
            raise


@agent(description="d")
class Astrologer:
    def __init__(self) -> None:
        self.attempts = 0

    @achieves_goal(description="g")
    @action(tool_groups=["sky"])
    async def read(self, user_input: UserInput, context: ActionContext) -> Text:
        self.attempts += 1
        if self.attempts > 1:
            return Text("without the stars")
        async with anyio.create_task_group() as group:
            group.start_soon(context.tool("stars").call, NO_ARGUMENTS)
            group.start_soon(context.ask, "Go on?", str)
        raise AssertionError


@pytest.mark.parametrize("how", ["answered", "killed"])
async def test_a_call_of_an_upstream_tool_that_is_still_open_ends_with_its_action(how: str) -> None:
    sky = Sky()
    async with AgentPlatform([Astrologer()], tool_groups=[ToolGroup.of("sky", sky.tool)]) as platform:
        process = platform.start("Astrologer", UserInput("tale"))
        await settled(process)
        asked = {question.message: question for question in process.open_questions}
        assert set(asked) == {"sky asks: Which sign?", "Go on?"}
        if how == "answered":
            await platform.answer(process.id, asked["Go on?"].id, "yes")
            await settled(process)
            await platform.answer(process.id, asked["sky asks: Which sign?"].id, {"sign": "Leo"})
            assert await settled(process) == Completed(Text("without the stars"))
        else:
            process.kill("Enough.")
            assert process.outcome == Killed("Enough.")
        with anyio.fail_after(60):
            await sky.ended.wait()
        assert process.open_questions == ()
