"""`goalport models`, and what `check`, `run` and `serve` say of models before anybody asks one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rooms.cli.conftest import Command

POET = """
from dataclasses import dataclass
from goalport import Ai, Export, UserInput, achieves_goal, agent

@dataclass(frozen=True)
class Poem:
    content: str

@agent(description="Writes poems")
class Poet:
    @achieves_goal(description="A poem", export=Export(remote=True, starting_input_types=[UserInput]))
    async def write(self, user_input: UserInput, ai: Ai) -> Poem:
        return Poem(await ai.generate_text(user_input.content))
"""
SETTINGS = """
[models]
default_llm = "gpt-4.1"

[models.llms]
best = "anthropic:claude-sonnet-4-6"
cheapest = "gpt-4.1"

[[models.custom]]
name = "house"
base_url = "http://127.0.0.1:9"
knowledge_cutoff = 2025-06-01
prices = { input = 0.1, output = 0.4 }
"""
SDKS = ("anthropic", "google.genai", "mistralai", "openai", "pydantic_ai")
KNOWLEDGE = (
    *("goalport.knowledge.documents.reader", "goalport.knowledge.rag.sqlite_store"),
    *("goalport.knowledge.references.reference_file", "numpy"),
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def listed(goalport: Command, workspace: Path) -> dict[str, Any]:
    ran = goalport("models", "--workspace", str(workspace), "--format", "json")
    return {each["model"]: each for each in json.loads(ran.out)}


def test_models_are_listed_with_their_roles_and_what_they_lack(goalport: Command, workspace: Path) -> None:
    (workspace / "server" / "settings.toml").write_text(SETTINGS)
    (workspace / ".env").write_text("ANTHROPIC_API_KEY=sk-hush\nOPENAI_API_KEY=\n")

    found = listed(goalport, workspace)

    assert list(found) == ["gpt-4.1", "anthropic:claude-sonnet-4-6", "house"]
    assert (found["gpt-4.1"]["provider"], found["gpt-4.1"]["roles"]) == ("openai", ["default", "cheapest"])
    assert found["gpt-4.1"]["ready"] is False
    assert "OPENAI_API_KEY" in found["gpt-4.1"]["to_do"]
    assert found["anthropic:claude-sonnet-4-6"]["ready"] is True
    assert (found["house"]["prices"], found["house"]["knowledge_cutoff"]) == ("0.1 in, 0.4 out", "2025-06-01")
    assert "sk-hush" not in json.dumps(found)


def test_a_model_that_stands_in_the_workspace_is_the_default_where_none_was_chosen(
    goalport: Command, workspace: Path
) -> None:
    scripted = "from goalport.testing.scripted import ScriptedModel\n\nhouse = ScriptedModel()\n"
    (workspace / "tools" / "models.py").write_text(scripted)

    assert [(name, each["roles"], each["ready"]) for name, each in listed(goalport, workspace).items()] == [
        ("scripted", ["default"], True)
    ]


def test_in_a_pipe_models_are_lines_with_tabs(goalport: Command, workspace: Path) -> None:
    first, second = goalport("models", "--workspace", str(workspace)).out.splitlines()

    assert first.split("\t")[:4] == ["model", "provider", "roles", "ready"]
    assert second.split("\t")[:3] == ["gpt-4.1-mini", "openai", "default"]


def test_check_tells_of_a_model_that_is_wanted_and_fails_for_a_role_without_one(
    goalport: Command, workspace: Path
) -> None:
    (workspace / "agents" / "poet.py").write_text(POET)
    ran = goalport("check", "--workspace", str(workspace))
    assert ran.code == 0
    assert "model gpt-4.1-mini: not ready. openai has no key. Set OPENAI_API_KEY" in ran.out
    assert "actions of Poet that ask it fail" in ran.out

    (workspace / "server" / "settings.toml").write_text("[models.llms]\nbest = 'claude-sonnet-4-6'\n")
    ran = goalport("check", "--workspace", str(workspace))
    assert ran.code == 1
    assert "problem: [models] role 'best' (llms): anthropic has no key. Set ANTHROPIC_API_KEY" in ran.out


def test_serve_refuses_to_start_with_a_role_that_has_no_model(goalport: Command, workspace: Path) -> None:
    (workspace / "server" / "settings.toml").write_text("[models.llms]\nbest = 'claude-sonnet-4-6'\n")

    ran = goalport("serve", "--workspace", str(workspace), "--port", "0")

    assert ran.code == 1
    assert ran.err.startswith("error: [models] role 'best' (llms): anthropic has no key. Set ANTHROPIC_API_KEY")


def test_run_tells_what_to_set_and_shows_no_traceback(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "poet.py").write_text(POET)

    ran = goalport("run", "--workspace", str(workspace), "--goal", "poet_write", "--input", '{"content": "bees"}')

    assert ran.code == 1
    assert "Poet.write failed: openai has no key. Set OPENAI_API_KEY" in ran.err
    assert "Traceback" not in ran.err


def test_run_shows_which_model_is_asked(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "poet.py").write_text(POET)
    scripted = "from goalport.testing.scripted import ScriptedModel\n\nhouse = ScriptedModel(['Buzz'])\n"
    (workspace / "tools" / "models.py").write_text(scripted)

    ran = goalport("run", "--workspace", str(workspace), "--goal", "poet_write", "--input", '{"content": "bees"}')

    assert (ran.code, ran.out.strip()) == (0, "Buzz")
    assert "    asks scripted" in ran.err.splitlines()


@pytest.mark.parametrize("command", [["serve", "--transport", "stdio"], ["check"], ["models"]])
def test_what_asks_models_and_keeps_documents_is_not_loaded_before_it_is_needed(
    workspace: Path, no_keys: pytest.MonkeyPatch, command: list[str]
) -> None:
    (workspace / "agents" / "poet.py").write_text(POET)
    no_keys.setenv("OPENAI_API_KEY", "sk-hush")
    given = [*command, "--workspace", str(workspace)]
    code = f"import sys; from goalport.cli import execute; print(execute({given!r}), file=sys.stderr)"
    code += f"; print(*({{*{(*SDKS, *KNOWLEDGE)!r}}} & {{*sys.modules}}), 'loaded', file=sys.stderr)"

    called = [sys.executable, "-c", code]
    ran = subprocess.run(called, check=True, input="", capture_output=True, text=True, timeout=60)

    assert ran.stderr.splitlines()[-2:] == ["0", "loaded"]
