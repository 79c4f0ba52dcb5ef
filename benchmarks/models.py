"""Typed objects from models: what `Ai.create_object` adds to the same request made with the OpenAI SDK alone.

Both ask one local provider, which is a process of its own; the SDK sends what goalport was seen to send, and reads the
object with pydantic. `python -m benchmarks.models --profile` shows where the time goes.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

import httpx2
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion
from pydantic import BaseModel, Field

from benchmarks.provider import CONTENT
from benchmarks.report import Table
from benchmarks.servers import started
from benchmarks.startup import seconds_of, served_modules
from goalport import AgentPlatform
from goalport.models.llm import Models

__all__ = ["models"]

_PROMPT: Final = "Write an article about a river, with a title, tags, paragraphs and how much you like it."
_CROWD: Final = 16
_ALL_NAMES = "import goalport; [getattr(goalport, name) for name in goalport.__all__]"
_AGENT = '''\
from goalport import Ai, Export, achieves_goal, action, agent
from pydantic import BaseModel

class Subject(BaseModel):
    """What is asked for."""
    name: str

class Poem(BaseModel):
    """What comes of it."""
    content: str

@agent(description="Writes poems")
class Poet:
    @achieves_goal(description="A poem", export=Export(remote=True, name="write_poem"))
    @action
    async def write(self, subject: Subject, ai: Ai) -> Poem:
        return await ai.create_object(f"A poem about {subject.name}", Poem)
'''

Ask = Callable[[], Awaitable[object]]


class Article(BaseModel):
    """An article, as it is asked of the model."""

    title: str = Field(min_length=1, max_length=200)
    tags: list[str] = Field(max_length=10)
    paragraphs: list[str]
    rating: int = Field(ge=1, le=5)


@dataclass(frozen=True)
class _Found:
    """Latencies in seconds, one at a time, and calls per second of a crowd, a figure for each round."""

    alone: list[float]
    crowd: list[float]

    @property
    def p50(self) -> float:
        return 1e3 * median(self.alone)


def models(*, quick: bool = False) -> Table:
    """The table of typed objects from models."""
    rounds, calls, starts = (2, 5, 1) if quick else (9, 60, 5)
    with started("provider", [sys.executable, "-m", "benchmarks.provider"]) as provider:
        sdk, ours = asyncio.run(_measured(f"http://127.0.0.1:{provider.port}/v1", rounds, calls))
    ratio = median(own / other for own, other in zip(ours.crowd, sdk.crowd, strict=True))
    rows = [
        ("OpenAI SDK, one call at a time", f"{sdk.p50:.2f} ms", ""),
        ("`create_object`, one call at a time", f"{ours.p50:.2f} ms", ""),
        ("what `create_object` adds", f"{ours.p50 - sdk.p50:.2f} ms", "≤ 2 ms"),
        (f"OpenAI SDK, {_CROWD} calls at once", f"{median(sdk.crowd):.0f}/s", ""),
        (f"`create_object`, {_CROWD} calls at once", f"{median(ours.crowd):.0f}/s", ""),
        ("throughput of `create_object` over the SDK's", f"{ratio:.2f}", "≥ 0.7"),
        *_starting(starts),
    ]
    note = (
        f"Medians of {rounds} rounds of {calls} calls each; the SDK and goalport take turns in one process and ask a"
        " provider that answers at once. The SDK sends the same body, and pydantic reads the object. What goalport does"
        " besides: it counts tokens and cost, tells events, and would repair, try again and call tools."
    )
    return Table("models", "Typed objects from models", ("what", "takes", "aim"), rows, [note])


def _starting(times: int) -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        agents = Path(folder) / "agents"
        agents.mkdir()
        (agents / "poet.py").write_text(_AGENT, encoding="utf-8")
        modules = served_modules(Path(folder))
    return [
        ("`import goalport`", _s(seconds_of([sys.executable, "-c", "import goalport"], times)), "≤ 0.5 s"),
        ("`import goalport` and all its names", _s(seconds_of([sys.executable, "-c", _ALL_NAMES], times)), ""),
        ("modules of a server whose agents ask models", modules, "no model SDK"),
    ]


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s"


async def _measured(base_url: str, rounds: int, calls: int) -> tuple[_Found, _Found]:
    async with _both(base_url) as asks:
        found = [_Found([], []) for _ in asks]
        for ask in asks:
            await _alone(ask, 20)
        for _ in range(rounds):
            # Call by call, so that both meet the machine in the same mood.
            for _ in range(calls):
                for ask, each in zip(asks, found, strict=True):
                    each.alone.extend(await _alone(ask, 1))
            for ask, each in zip(asks, found, strict=True):
                each.crowd.append(await _crowd(ask, calls * _CROWD // 4))
        return found[0], found[1]


@asynccontextmanager
async def _both(base_url: str) -> AsyncGenerator[Sequence[Ask]]:
    """How the SDK and how goalport ask for the same object."""
    catalogue = Models(environment={"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": base_url})
    async with AgentPlatform(models=catalogue) as platform, AsyncOpenAI(api_key="sk-none", base_url=base_url) as sdk:

        async def ours() -> object:
            return await platform.ai.create_object(_PROMPT, Article)

        assert await ours() == Article.model_validate(CONTENT)
        sent = await _last(base_url)

        async def theirs() -> object:
            reply = cast("ChatCompletion", await sdk.chat.completions.create(**sent))
            return Article.model_validate_json(reply.choices[0].message.content or "")

        assert await theirs() == await ours()
        yield theirs, ours


async def _last(base_url: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(trust_env=False) as http:
        response = await http.get(f"{base_url.removesuffix('/v1')}/last")
    return json.loads(response.content)


async def _alone(ask: Ask, calls: int) -> list[float]:
    taken: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        await ask()
        taken.append(time.perf_counter() - began)
    return taken


async def _crowd(ask: Ask, calls: int) -> float:
    """Calls per second, with so many open at any time."""
    left = calls

    async def one() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await ask()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(_CROWD):
            tasks.create_task(one())
    return calls / (time.perf_counter() - began)


async def _profiled(base_url: str, profile: cProfile.Profile, *, sdk: bool) -> None:
    async with _both(base_url) as (theirs, ours):
        ask = theirs if sdk else ours
        await _alone(ask, 50)
        with profile:
            await _alone(ask, 500)


def main() -> None:
    """Print the table, or a profile of 500 calls."""
    parser = argparse.ArgumentParser(prog="benchmarks.models")
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    parser.add_argument("--sdk", action="store_true", help="show it of the SDK alone")
    options = parser.parse_args()
    if not options.profile:
        print(models().markdown)
        return
    profile = cProfile.Profile()
    with started("provider", [sys.executable, "-m", "benchmarks.provider"]) as provider:
        asyncio.run(_profiled(f"http://127.0.0.1:{provider.port}/v1", profile, sdk=options.sdk))
    pstats.Stats(profile).sort_stats("cumulative").print_stats(60)


if __name__ == "__main__":
    main()
