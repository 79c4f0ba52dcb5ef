"""What is asked of people and models without `await` is never taken for the answer."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, Ai, UserInput, achieves_goal, agent
from goalport.runtime.process import Failed, Waiting
from goalport.testing import ScriptedModel
from tests.rooms.toy_domain import Draft

USES: dict[str, Callable[[Any], object]] = {
    "bool": bool,
    "text": str,
    "formatted": lambda result: f"{result}",
    "iterated": list,
    "attribute": lambda result: result.text,
}


async def helper() -> str:
    return "ready"


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("called", ["ask", "generate_text", "send_message", "as_sub_process"])
async def test_what_was_not_awaited_is_refused_however_it_is_used(called: str, use: str) -> None:
    def begin(context: ActionContext, ai: Ai) -> object:
        match called:
            case "ask":
                return context.ask("Really?", bool)
            case "generate_text":
                return ai.generate_text("Hello")
            case "send_message":
                return context.send_message("Hello")
            case _:
                return context.as_sub_process(Draft, "Other")

    @agent(description="Forgets")
    class Forgets:
        @achieves_goal(description="g")
        async def act(self, user_input: UserInput, context: ActionContext, ai: Ai) -> Draft:
            return Draft(str(USES[use](begin(context, ai))))

    @agent(description="Forgets in a thread")
    class ForgetsInThread:
        @achieves_goal(description="g")
        def act(self, user_input: UserInput, context: ActionContext, ai: Ai) -> Draft:
            return Draft(str(USES[use](begin(context, ai))))

    for each in (Forgets, ForgetsInThread):
        process = await AgentPlatform([each], models=ScriptedModel(["Hi"])).run(each.__name__, UserInput("x"))
        assert isinstance(process.outcome, Failed)
        assert f"The result of {called}(…) was not awaited. Write `await` before it" in process.outcome.reason


RESULTS: list[Callable[[ActionContext], Any]] = [lambda _: helper(), lambda context: context.ask("Really?", bool)]


@pytest.mark.parametrize("result", RESULTS)
async def test_a_result_that_is_still_to_be_awaited_is_refused(result: Callable[[ActionContext], Any]) -> None:
    @agent(description="Forgets")
    class Forgets:
        @achieves_goal(description="g")
        async def act(self, user_input: UserInput, context: ActionContext) -> Draft:
            return result(context)

    process = await AgentPlatform([Forgets]).run("Forgets", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert "returned something that is still to be awaited. Write `await` before it" in process.outcome.reason


async def test_what_is_to_be_awaited_may_be_awaited_later_and_by_tasks() -> None:
    @agent(description="Awaits")
    class Awaits:
        @achieves_goal(description="g")
        async def act(self, user_input: UserInput, context: ActionContext, ai: Ai) -> Draft:
            texts: list[str] = []

            async def collect(text: Awaitable[str]) -> None:
                texts.append(await text)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collect, ai.generate_text("One"))
                tasks.start_soon(ai.generate_text, "Two")
            later = context.ask("Really?", bool)
            return Draft(f"{texts} {await later}")

    platform = AgentPlatform([Awaits], models=ScriptedModel(["a", "b"]))
    process = await platform.run("Awaits", UserInput("x"))
    assert isinstance(process.outcome, Waiting)
