"""A scatter: twenty branches that each ask a model that takes 100 ms, beside one such call.

One model is in the program, so that goalport alone is measured. The other is behind HTTP, in a process of its own; what
the OpenAI SDK takes for the same requests is measured beside it.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from statistics import median
from typing import Final

from openai import AsyncOpenAI

from benchmarks.report import Table
from benchmarks.servers import started
from goalport import AgentPlatform, Ai
from goalport.agents.domain import Agent
from goalport.models.llm import AssistantMessage, ModelCall, ModelReply, Models
from goalport.runtime.workflow import ScatterGatherBuilder
from goalport.testing import ScriptedModel

__all__ = ["scatter"]

_BRANCHES: Final = 20
_PROMPT: Final = "What is the answer?"
_SHAPES: Final = ((1, 1), (_BRANCHES, _BRANCHES), (_BRANCHES, 8))
Work = Callable[[], Awaitable[object]]
Row = tuple[str, int, int]
"""What is asked, how many branches, how many at once."""


class _Slow(ScriptedModel):
    """A model in the program that answers after 100 ms."""

    async def reply(self, call: ModelCall, /) -> ModelReply:
        await asyncio.sleep(0.1)
        return ModelReply(message=AssistantMessage("42"), usage=self.usage, model=self.card.name)


async def _ask(ai: Ai) -> str:
    return await ai.generate_text(_PROMPT)


def _agent(branches: int, limit: int) -> Agent:
    scattering = ScatterGatherBuilder.returning(int).from_elements(str)
    named = {f"model {number}": _ask for number in range(branches)}
    workflow = scattering.generated_by(named, max_concurrency=limit).consolidated_by(len)
    return workflow.build_agent(f"Scatter{branches}x{limit}", "Asks a model several times")


def scatter(*, quick: bool = False) -> Table:
    """The table of scatters."""
    with started("provider", [sys.executable, "-m", "benchmarks.provider"]) as provider:
        found = asyncio.run(_measured(f"http://127.0.0.1:{provider.port}/slow/v1", 3 if quick else 15))
    rows: list[tuple[str, ...]] = []
    for (model, branches, limit), taken in found.items():
        ratio = median(taken) / median(found[model, 1, 1])
        aim = "≤ 2" if (model, limit) == ("in the program", _BRANCHES) else ""
        rows.append((model, str(branches), str(limit), f"{1e3 * median(taken):.0f} ms", f"{ratio:.2f}", aim))
    note = (
        f"Medians of {3 if quick else 15} processes each, in turn, from start to end. *ratio*: over one branch. Over"
        " HTTP, twenty requests take the processor time of twenty, most of it in the SDK, as the last row shows."
    )
    columns = ("model", "branches", "at once", "takes", "ratio", "aim")
    return Table("scatter", "Branches that each ask a model that takes 100 ms", columns, rows, [note])


async def _measured(base_url: str, rounds: int) -> Mapping[Row, list[float]]:
    async with AsyncExitStack() as stack:
        works = await _works(base_url, stack)
        found: dict[Row, list[float]] = {each: [] for each in works}
        for number in range(rounds + 1):
            for row, work in works.items():
                began = time.perf_counter()
                await work()
                if number:  # the first opens connections
                    found[row].append(time.perf_counter() - began)
    return found


async def _works(base_url: str, stack: AsyncExitStack) -> dict[Row, Work]:
    works: dict[Row, Work] = {}
    http = Models(environment={"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": base_url})
    for name, models in (("in the program", _Slow()), ("over HTTP", http)):
        agents = [_agent(*each) for each in _SHAPES]
        platform = await stack.enter_async_context(AgentPlatform(agents, models=models))
        for (branches, limit), built in zip(_SHAPES, agents, strict=True):

            async def process(
                platform: AgentPlatform = platform, agent: str = built.name, branches: int = branches
            ) -> None:
                assert (await platform.run(agent)).result_of_type(int) == branches

            works[name, branches, limit] = process
    sdk = await stack.enter_async_context(AsyncOpenAI(api_key="sk-none", base_url=base_url))

    async def requests(number: int) -> None:
        ask = partial(
            sdk.chat.completions.create, model="gpt-4.1-mini", messages=[{"role": "user", "content": _PROMPT}]
        )
        await asyncio.gather(*(ask() for _ in range(number)))

    works["OpenAI SDK alone", 1, 1] = lambda: requests(1)
    works["OpenAI SDK alone", _BRANCHES, _BRANCHES] = lambda: requests(_BRANCHES)
    return works
