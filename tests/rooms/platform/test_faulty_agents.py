"""Agents that cannot be read: each is told with its place, and the others are served."""

from pathlib import Path

import pytest

from goalport.runtime.platform import AgentPlatform
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings

GOOD = """
from dataclasses import dataclass
from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent

@dataclass(frozen=True)
class Out:
    x: int
"""
AGENT = """
@agent(description="d")
class {name}:
    {before}
    @achieves_goal(description="g"{goal})
    {action}
    def run({parameters}) -> Out:
        return Out(1)
"""


def agent(
    name: str, *, before: str = "", goal: str = "", action: str = "@action", parameters: str = "self, u: UserInput"
) -> str:
    return GOOD + AGENT.format(name=name, before=before, goal=goal, action=action, parameters=parameters)


FAULTS = {
    "constructor": (
        agent("Bad", before="def __init__(self): raise ValueError('no database')"),
        "bad.py:9) could not be read: ValueError: no database, in line 11",
    ),
    "abstract": (
        "from abc import ABC, abstractmethod\n"
        + agent("Bad", before="@abstractmethod\n    def think(self): ...").replace("class Bad", "class Bad(ABC)"),
        "Bad is marked as an agent, but abstract: it lacks think",
    ),
    "exits": (agent("Bad", before="def __init__(self): raise SystemExit(4)"), "SystemExit: 4"),
    "without_self": (agent("Bad", parameters=""), "Bad"),
    "attribute": (agent("Bad", parameters="self, u: 'Out.nope'"), "nope"),
    "syntax": (agent("Bad", parameters="self, u: 'list['"), "Bad"),
    "division": (agent("Bad", parameters="self, u: '1/0'"), "division"),
    "no_list": (agent("Bad", goal=", export=Export(starting_input_types=Out)"), "list of types"),
    "a_set": (agent("Bad", goal=", export=Export(starting_input_types={Out})"), "list of types"),  # of no sure order
    "instances": (agent("Bad", goal=", export=Export(starting_input_types=[Out(1)])"), "not an instance"),
    "a_dict": (agent("Bad", goal=', export={"remote": True}'), "Write Export(remote=True)"),
    "a_number": (agent("Bad", goal=", export=Export(name=5)"), "name to be a string"),
    "disconnect": (agent("Bad", goal=', export=Export(on_disconnect="dettach")'), "'dettach'"),
    "cost": (agent("Bad", action='@action(cost="cheap")'), "cost to be a number"),
    "retry": (agent("Bad", action="@action(retry=3)"), "RetryPolicy"),
    "pre": (agent("Bad", action='@action(pre="x")'), "list of names"),
}


def test_an_abstract_agent_is_no_fault_where_a_subclass_is_served(tmp_path: Path) -> None:
    source, _ = FAULTS["abstract"]
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "base.py").write_text(
        source + "\n@agent(description='d')\nclass Thinker(Bad):\n    def think(self): ...\n"
    )
    workspace = load_workspace(tmp_path)
    platform = AgentPlatform.from_workspace(workspace, load_settings(tmp_path))
    assert [each.name for each in platform.agents] == ["Thinker"]
    assert (workspace.problems, platform.problems) == ((), ())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_agent_is_told_of_and_the_others_are_served(fault: str, tmp_path: Path) -> None:
    source, words = FAULTS[fault]
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "bad.py").write_text(source)
    (folder / "good.py").write_text(agent("Good"))
    workspace = load_workspace(tmp_path)
    platform = AgentPlatform.from_workspace(workspace, load_settings(tmp_path))
    assert [each.name for each in platform.agents] == ["Good"]
    (told,) = [*map(str, workspace.problems), *platform.problems]
    assert words in told
    assert "bad" in told
