"""`goalport references` and `goalport skills`."""

import json
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command

SKILL = "---\nname: {name}\ndescription: Use it to {name}.\n---\nFirst {name}, then rest.\n"
REFERENCES = """
- {type: LiteralText, name: tone, description: How we talk, notes: Be brief., publish: true}
- {type: Persona, name: Alex, persona: An analyst, voice: Calm, objective: Explain}
- {type: FileText, path: rules.md}
- {type: LocalSkills, name: own, description: Our skills, path: skills}
- {type: ProjectSkills, name: project, description: Skills of the project}
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "agents").mkdir()
    for parent, name in (("skills", "plan"), (".agents/skills", "release"), (".agents/skills", "review")):
        (tmp_path / parent / name / "scripts").mkdir(parents=True)
        (tmp_path / parent / name / "SKILL.md").write_text(SKILL.format(name=name))
    (tmp_path / ".agents/skills/release/scripts/tag.py").write_text("print('v1')\n")
    (tmp_path / ".agents/skills/release/.hidden").write_text("ssh\n")
    (tmp_path / "rules.md").write_text("Never promise a loan.\n")
    (tmp_path / "references.yml").write_text(REFERENCES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_references_and_personas_are_listed(goalport: Command, workspace: Path) -> None:
    listed = json.loads(goalport("references", "--format", "json").out)
    assert [(each["name"], each["type"], each["published"]) for each in listed] == [
        ("tone", "LiteralText", True),
        ("rules", "FileText", False),
        ("own", "LocalSkills", False),
        ("project", "ProjectSkills", False),
        ("Alex", "Persona", False),
    ]
    assert [each["state"] for each in listed[:2]] == ["ready", "refreshed before each request"]

    (workspace / "references.yml").unlink()
    assert "There are none. Write some in" in goalport("references").err


def test_what_a_model_is_told_is_shown(goalport: Command, workspace: Path) -> None:
    assert "Never promise a loan." in goalport("references", "--read", "rules").out
    own = goalport("references", "--read", "own").out
    assert own.startswith("Reference: own\nOur skills\n")
    assert "Its tools have names that begin with own_" in own
    assert "- activate: Get the instructions of a skill" in own
    assert goalport("references", "--read", "Alex").out.startswith("You are Alex.")
    for written, meant in (("tome", "tone"), ("Alexa", "Alex")):
        ran = goalport("references", "--read", written)
        assert (ran.code, f"Did you mean {meant!r}?" in ran.err) == (2, True)


def test_skills_are_checked(goalport: Command, workspace: Path) -> None:
    ran = goalport("skills", "check", "skills", ".agents/skills")
    assert (ran.code, ran.out, "Nothing is wrong." in ran.err) == (0, "", True)

    (workspace / "skills/plan/SKILL.md").write_text("---\nname: plans\ndescription: Plans.\n---\nRead scripts/a.py.\n")
    ran = goalport("skills", "check", "skills")
    assert ran.code == 1
    first, second = ran.out.splitlines()
    assert first.startswith("skills/plan/SKILL.md:2: name: expected the name of its folder, 'plan'")
    assert second.startswith("skills/plan/SKILL.md:5: it mentions 'scripts/a.py'")
    ran = goalport("skills", "check", "skills", "--no-files", "--format", "json")
    assert [(each["path"], each["line"]) for each in json.loads(ran.out)] == [("skills/plan/SKILL.md", 2)]
    assert goalport("skills", "check").code == 2


def test_skills_of_a_project_are_trusted_after_a_look(goalport: Command, workspace: Path) -> None:
    def states() -> dict[str, str]:
        listed = json.loads(goalport("skills", "list", "--format", "json").out)
        return {each["skill"]: each["state"] for each in listed}

    assert states() == {"plan": "ready", "release": "not trusted", "review": "not trusted"}
    refused = goalport("skills", "trust", ".agents/skills/release")
    assert (refused.code, "add --yes to trust 1 skill" in refused.err) == (2, True)
    assert states()["release"] == "not trusted"

    ran = goalport("skills", "trust", ".agents/skills/release", "--yes")
    assert ran.code == 0
    assert ran.out.splitlines()[:4] == [
        "release: Use it to release.",
        f"  folder: {workspace}/.agents/skills/release",
        "  files: .hidden, SKILL.md, scripts/tag.py",
        "  scripts: scripts/tag.py",
    ]
    assert states() == {"plan": "ready", "release": "trusted", "review": "not trusted"}
    assert "- release: Use it to release." in goalport("references", "--read", "project").out
    (workspace / ".agents/skills/release/scripts/tag.py").write_text("print('other')\n")
    assert states()["release"] == "not trusted"


def test_a_withheld_skill_is_warned_of_with_the_command_that_trusts_it(
    goalport: Command, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    goalport("references")
    folder = workspace / ".agents/skills/review"
    assert f"'review' is withheld until somebody trusts it as it is now: goalport skills trust {folder}" in caplog.text


def test_a_folder_without_skills_cannot_be_trusted(goalport: Command, workspace: Path) -> None:
    ran = goalport("skills", "trust", "agents", "--yes")
    assert (ran.code, "Expected a SKILL.md in agents" in ran.err) == (1, True)
    assert goalport("skills", "trust").code == 2
