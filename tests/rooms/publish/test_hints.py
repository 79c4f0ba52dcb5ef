"""The hints of the companions: what may come of an answer is what may come of the goals that it lets go on."""

from pathlib import Path

import pytest
from mcp_types import ToolAnnotations

from goalport import Export, achieves_goal, action, agent
from tests.rooms.serve.askers import Cashier, Order, Payment, Pizza, Receipt
from tests.rooms.serve.served import published, tool_of


@agent(description="Bakes what it has")
class Gentle:
    @achieves_goal(
        description="A pizza", export=Export(remote=True, name="bake", long=True, destructive=False, open_world=False)
    )
    @action
    async def bake(self, order: Order) -> Pizza:
        return Pizza(content="baked")


@agent(description="Looks out of the window")
class Looker:
    @achieves_goal(
        description="A view", export=Export(remote=True, name="look", long=True, read_only=True, open_world=True)
    )
    @action
    async def look(self, payment: Payment) -> Receipt:
        return Receipt(content="rain")


def hints_of(root: Path, name: str, *agents: object) -> ToolAnnotations:
    hints = tool_of(published(root, *agents), name).annotations
    assert hints is not None
    return hints


def test_answering_does_no_more_than_the_goals_that_it_resumes(tmp_path: Path) -> None:
    for agents, destructive, open_world in (
        ([Gentle()], False, False),
        ([Looker()], False, True),
        ([Gentle(), Looker()], False, True),
        ([Gentle(), Cashier()], True, True),
    ):
        hints = hints_of(tmp_path, "process_answer", *agents)
        assert (hints.read_only_hint, hints.idempotent_hint) == (False, False)
        assert (hints.destructive_hint, hints.open_world_hint) == (destructive, open_world)


@pytest.mark.parametrize("name", ["process_status", "process_result"])
def test_looking_changes_nothing(tmp_path: Path, name: str) -> None:
    hints = hints_of(tmp_path, name, Cashier())
    assert hints == ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )


def test_cancelling_ends_something_and_does_no_more_the_second_time(tmp_path: Path) -> None:
    hints = hints_of(tmp_path, "process_cancel", Gentle())
    assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
    assert (hints.idempotent_hint, hints.open_world_hint) == (True, False)
