"""The table `[process]`, `Export`'s limits and those of callers: how processes of a served workspace run."""

from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command, home, program
from tests.stories.servers import running, workspace
from tests.stories.test_shutdown import text_of

__all__ = ["home", "program"]

CLIMBER = """
from dataclasses import dataclass

from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent

@dataclass(frozen=True)
class Hut:
    name: str

@dataclass(frozen=True)
class Peak:
    content: str

@agent(description="Climbs", version="1.2")
class Climber:
    @action
    def to_the_hut(self, user_input: UserInput, context: ActionContext) -> Hut:
        context.spend(input_tokens=100, cost=3.0)
        return Hut(user_input.content)

    @achieves_goal(description="Be on the peak", export=Export(remote=True, name="climb"))
    def to_the_peak(self, hut: Hut, context: ActionContext) -> Peak:
        return Peak(f"{hut.name} {context.process.id} {context.process.options.test}")
"""
INPUT = ("run", "climb", "--input", '{"content": "up"}')


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("", "The budget of 2.00 USD is used up (3.00 USD spent)."),
        ("[process]\ncost = 9\nactions = 1", "The budget of 1 actions is used up."),
        ("[process]\ncost = 0\ntokens = 100", "The budget of 100 tokens is used up (100 spent)."),
        ("[process]\ncost = 0\ntokens = 0\nagent_name_in_id = true\nversion_in_id = true\ntest = true", "up Climber"),
        ("[process]\ncost = 9\ndebug = true", "Climber.to_the_hut → "),
    ],
)
def test_processes_run_as_the_table_says(tmp_path: Path, program: Command, toml: str, told: str) -> None:
    files = {"agents/climber.py": CLIMBER, "server/settings.toml": toml}

    ran = program(*INPUT, "-w", str(workspace(tmp_path, files)))

    assert told in ran.out + ran.err, ran
    assert ran.code == (0 if "[process]\ncost = 0\ntokens = 0" in toml or "debug" in toml else 1)


async def test_the_smallest_limit_counts_that_of_the_goal_and_that_of_the_caller(tmp_path: Path) -> None:
    narrow = CLIMBER.replace('name="climb"', 'name="climb", max_cost=2.5')
    files = {"agents/climber.py": narrow, "server/settings.toml": "description = 'For climbers'\n[process]\ncost = 9\n"}
    async with running(tmp_path, files) as server, server.client("http", "auto") as client:
        assert "The budget of 2.50 USD is used up" in text_of(await client.call_tool("climb", {"content": "up"}))
        assert "For climbers" in text_of(await client.call_tool("helloBanner", {}))
    limits = "[limits.callers.anonymous]\nprocess_actions = 1\n[process]\ncost = 9\nactions = 30\n"
    files = {"agents/climber.py": CLIMBER, "server/settings.toml": limits}
    async with running(tmp_path, files) as server, server.client("http", "auto") as client:
        assert "The budget of 1 actions is used up" in text_of(await client.call_tool("climb", {"content": "up"}))


def test_a_mistake_in_it_is_told_with_file_and_line(tmp_path: Path, program: Command) -> None:
    files = {"agents/climber.py": CLIMBER, "server/settings.toml": "[process]\ncost = -1\nspeed = 3"}

    told = program("check", "-w", str(workspace(tmp_path, files))).err

    assert "settings.toml:2: process.cost should be greater than or equal to 0; came -1" in told
    assert "settings.toml:3: there is no setting 'speed' in [process]." in told
