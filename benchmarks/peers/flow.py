# It runs in an environment of its own as well as in goalport's, so that its peers' libraries are not known to both.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""A flow of trivial async steps in one library: `flow.py LIBRARY STEPS`. Reads numbers of runs, writes what they took.

The first line that it writes has the seconds of the import, of building the flow, and of the first run. For each line
on standard input it makes so many runs and writes the CPU seconds of each on average, and the kilobytes that it has.
Each step adds one to a number; the result is checked.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypedDict

Flow = Callable[[], Awaitable[int]]


def goalport(steps: int) -> Flow:
    from benchmarks.loop import chain
    from goalport import AgentPlatform
    from goalport.process import Completed

    made = chain(steps)
    platform = AgentPlatform([made.agent])

    async def run() -> int:
        process = await platform.run(f"Chain{steps}", made.first)
        outcome = process.outcome
        assert isinstance(outcome, Completed)
        return outcome.value.value  # pyright: ignore[reportAttributeAccessIssue] - the class is made on the fly

    return run


def langgraph(steps: int) -> Flow:
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        value: int

    async def step(state: State) -> State:
        return {"value": state["value"] + 1}

    graph = StateGraph(State)
    for number in range(steps):
        graph.add_node(f"step_{number}", step)
        graph.add_edge(START if number == 0 else f"step_{number - 1}", f"step_{number}")
    graph.add_edge(f"step_{steps - 1}", END)
    compiled = graph.compile()
    limit: Any = {"recursion_limit": steps + 5}

    async def run() -> int:
        return (await compiled.ainvoke({"value": 0}, limit))["value"]

    return run


def pydantic_graph(steps: int) -> Flow:
    from pydantic_graph import GraphBuilder, StepContext

    builder = GraphBuilder(input_type=int, output_type=int)

    async def step(ctx: StepContext[None, None, int]) -> int:
        return ctx.inputs + 1

    nodes = [builder.step(step, node_id=f"step_{number}") for number in range(steps)]
    path: list[Any] = [builder.start_node, *nodes, builder.end_node]
    builder.add(*(builder.edge_from(one).to(other) for one, other in itertools.pairwise(path)))
    graph = builder.build()

    async def run() -> int:
        return await graph.run(inputs=0)

    return run


async def main(library: str, steps: int) -> None:
    began = time.perf_counter()
    run = {"goalport": goalport, "langgraph": langgraph, "pydantic-graph": pydantic_graph}[library](steps)
    built = time.perf_counter()
    assert await run() == steps
    print(json.dumps({"built": built - began, "first": time.perf_counter() - built}), flush=True)
    for line in sys.stdin:
        runs, started = int(line), time.process_time()
        for _ in range(runs):
            await run()
        taken = (time.process_time() - started) / runs
        print(json.dumps({"cpu": taken, "kilobytes": _resident()}), flush=True)


def _resident() -> int:
    """Resident kilobytes; 0 where the machine does not tell. What `getrusage` says begins with the parent's."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
