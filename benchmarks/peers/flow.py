# It runs in an environment of its own as well as in goalport's, so that its peers' libraries are not known to both.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportUntypedBaseClass=false
"""A flow of trivial async steps in one library: `flow.py LIBRARY STEPS`. Reads numbers of runs, writes what they took.

The first line that it writes has the seconds of the import with building the flow, and of the first run, and the bytes
that a run leaves behind. For each line on standard input it makes so many runs and writes the CPU seconds of each on
average, and the kilobytes that it has. Each step adds one to a number; the result is checked.
"""

import asyncio
import gc
import itertools
import json
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypedDict

Flow = Callable[[], Awaitable[int]]


def goalport(steps: int) -> Flow:
    from benchmarks.loop import chain
    from goalport import AgentPlatform
    from goalport.runtime.process import Completed

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


def llama_index_workflows(steps: int) -> Flow:
    from workflows import Workflow, step
    from workflows.events import Event, StartEvent, StopEvent

    class First(StartEvent):
        value: int

    class Last(StopEvent):
        value: int

    class AddingOne(Workflow):
        """Steps that are added below."""

    def add(name: str, takes: type[Any], gives: type[Any]) -> None:
        async def one(ev: Any) -> Any:
            return gives(value=ev.value + 1)

        one.__name__, one.__annotations__ = name, {"ev": takes, "return": gives}
        step(workflow=AddingOne)(one)

    between = [type(f"Part{number}", (Event,), {"__annotations__": {"value": int}}) for number in range(1, steps)]
    for number, (takes, gives) in enumerate(itertools.pairwise([First, *between, Last])):
        add(f"step_{number}", takes, gives)
    flow = AddingOne(timeout=None)

    async def run() -> int:
        return (await flow.run(start_event=First(value=0))).value

    return run


def google_adk(steps: int) -> Flow:
    from google.adk.runners import InMemoryRunner
    from google.adk.workflow import FunctionNode, Workflow
    from google.genai import types

    async def step(node_input: int) -> int:
        return node_input + 1

    nodes = [FunctionNode(func=step, name=f"step_{number}") for number in range(steps)]
    runner = InMemoryRunner(node=Workflow(name="flow", edges=[("START", *nodes)]), app_name="flow")
    zero = types.Content(role="user", parts=[types.Part(text="0")])

    async def run() -> int:
        session = await runner.session_service.create_session(app_name="flow", user_id="user")
        events = runner.run_async(user_id="user", session_id=session.id, new_message=zero)
        return [event.output async for event in events if event.output is not None][-1]

    return run


LIBRARIES = {
    "goalport": goalport,
    "pydantic-graph": pydantic_graph,
    "langgraph": langgraph,
    "llama-index-workflows": llama_index_workflows,
    "google-adk": google_adk,
}


async def main(library: str, steps: int) -> None:
    began = time.perf_counter()
    run = LIBRARIES[library](steps)
    built = time.perf_counter()
    assert await run() == steps
    first = time.perf_counter() - built
    print(json.dumps({"built": built - began, "first": first, "kept": await _kept(run)}), flush=True)
    for line in sys.stdin:
        runs, started = int(line), time.process_time()
        for _ in range(runs):
            await run()
        taken = (time.process_time() - started) / runs
        print(json.dumps({"cpu": taken, "kilobytes": _resident()}), flush=True)


async def _kept(run: Flow, runs: int = 50) -> float:
    """Bytes of Python's memory that a run leaves behind, on average."""
    for _ in range(10):
        await run()
    tracemalloc.start()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(runs):
        await run()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / runs


def _resident() -> int:
    """Resident kilobytes; 0 where the machine does not tell. What `getrusage` says begins with the parent's."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
