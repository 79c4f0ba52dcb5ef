"""Whatever happened on a blackboard, and however often it was recorded meanwhile, its records say it."""

from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import given, strategies as st

from goalport import AgentPlatform, AgentProcess, UserInput, achieves_goal, agent
from goalport.agents.blackboard import Blackboard
from goalport.runtime.process.recording import FamilyRecords, Recorder
from goalport.store import Codec, InMemoryProcessStore, Lease, ProcessRecord

NAMES = ("it", "draft", "note")
Step: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, eq=False)
class Thing:
    number: int


@agent(description="Does nothing")
class Idle:
    @achieves_goal(description="A thing")
    def make(self, user_input: UserInput) -> Thing:
        return Thing(0)


def take(board: Blackboard, things: list[Thing], step: Step) -> None:
    what, name, number = step
    match what:
        case "bind":
            board.bind(name, things[number])
        case "protect":
            board.bind_protected(name, things[number])
        case "declare":
            board.declare(name, [things[number]], list[Thing])
        case "hide":
            board.hide(things[number])
        case "state":
            board.set_condition(name, bool(number % 2))
        case _:
            board.clear()


def seen(board: Blackboard) -> object:
    """Everything that can be read of a blackboard; objects by their identity."""
    state = board.state
    return (
        [(id(each.value), each.kind) for each in state.entries],
        {name: id(each.value) for name, each in state.names.items()},
        [id(each) for each in board.objects],
        dict(state.conditions),
        state.protected,
        board.last_result and id(board.last_result),
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["bind", "bind", "protect", "declare", "hide", "state", "clear", "record"]),
        st.sampled_from(NAMES),
        st.integers(0, 4),
    ),
    max_size=25,
)


@given(STEPS)
async def test_a_blackboard_comes_back_from_records_that_were_made_along_the_way(steps: list[Step]) -> None:
    platform, store, recorder = AgentPlatform([Idle]), InMemoryProcessStore(), Recorder()
    process, things = platform.create_agent_process("Idle"), [Thing(each) for each in range(5)]
    lease = Lease(process.id)
    for step in steps:
        if step[0] == "record":
            lease = await store.save([recorder.changes(process)], lease, wake_at=None, release=False)
        else:
            take(process.blackboard, things, step)
    await store.save([recorder.changes(process)], lease, wake_at=None, release=True)

    def make(record: ProcessRecord, _: AgentProcess | None, __: Codec) -> AgentProcess:
        return AgentProcess(record.id, process.scope, process.options, process.caller, process.platform, process.groups)

    records = FamilyRecords(lambda _, __: None, make, None, durable=False)
    (found,) = records.restored((await store.family(process.id))[0], {})
    assert seen(found.blackboard) == seen(process.blackboard)
    assert not records.changes(found).objects
