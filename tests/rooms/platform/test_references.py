"""`references.yml` of a workspace: what its types make, how prompts name them, and what is said of mistakes."""

from pathlib import Path

import pytest

from goalport import AgentPlatform
from goalport.base.errors import UnknownName
from goalport.cli import execute
from goalport.knowledge.rag import DocumentIngestion
from goalport.knowledge.skills import SkillTrust
from goalport.models.llm import Models, ToolReply
from goalport.testing import FakeEngine, ScriptedModel, calls_tool
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings

SKILL = "---\nname: {name}\ndescription: Use it to {name}.\n---\nFirst {name}, then rest.\n"
EVERY_TYPE = """
- type: LiteralText
  name: tone
  description: How we talk
  notes: Be brief.
  publish: true

- type: Persona
  name: Alex the Analyst
  persona: A careful analyst
  voice: Calm
  objective: Explain figures

- type: RoleGoalBackstory
  role: Engineer
  goal: Clean code
  backstory: Ten years of it

- {type: Documents, name: handbook, description: How we work, goal: Find the rule, under: handbook}
- {type: LocalSkills, name: own, description: Our skills, path: skills}
- {type: LocalSkills, name: one, description: One skill, path: skills/plan}
- {type: GitHubSkills, name: others, description: Skills of others, url: "https://github.com/octocat/skills"}
- {type: ProjectSkills, name: project, description: Skills of the project}
- {type: goalport_workspace.tools.wiki.Wiki, space: Sales}
"""
WIKI = """
from goalport.knowledge.references import LlmReference, Reference

class Wiki:
    def __init__(self, space: str) -> None:
        self.space = space

    def reference(self) -> LlmReference:
        if self.space == "none":
            raise RuntimeError("No such space.")
        return Reference(self.space, "Our wiki", f"The pages of {self.space}.")
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("agents", "tools", "handbook", "other"):
        (tmp_path / name).mkdir()
    for parent, name in (("skills", "plan"), ("skills", "review"), (".agents/skills", "release")):
        (tmp_path / parent / name).mkdir(parents=True)
        (tmp_path / parent / name / "SKILL.md").write_text(SKILL.format(name=name))
    (tmp_path / "tools" / "wiki.py").write_text(WIKI)
    (tmp_path / "handbook" / "tokens.md").write_text("# Tokens\n\nA token is renewed every hour.\n")
    (tmp_path / "other" / "tokens.md").write_text("# Coins\n\nA token for the washing machine.\n")
    (tmp_path / "references.yml").write_text(EVERY_TYPE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opened(workspace: Path, *replies: object) -> AgentPlatform:
    settings = load_settings(workspace, store="memory")
    return AgentPlatform.from_workspace(
        load_workspace(workspace), settings, models=Models(models=[ScriptedModel([*replies])])
    )


def test_a_workspace_has_its_references_and_contributors_by_name(workspace: Path) -> None:
    platform = opened(workspace)

    assert platform.problems == ()
    assert [*platform.references] == ["tone", "handbook", "own", "one", "others", "project", "Sales"]
    assert [*platform.references.contributors] == ["Alex the Analyst", "Engineer"]
    assert [each.name for each in platform.references.published] == ["tone"]
    notes = {name: each.notes() for name, each in platform.references.items()}
    assert "- plan: Use it to plan.\n- review: Use it to review." in notes["own"]
    assert ("plan" in notes["one"], "review" in notes["one"]) == (True, False)
    assert "Those of octocat/skills@HEAD are not fetched yet" in notes["others"]
    assert "There are no skills yet" in notes["project"]
    assert notes["Sales"] == "The pages of Sales."


async def test_a_prompt_names_what_it_refers_to(workspace: Path) -> None:
    model = ScriptedModel([calls_tool("handbook_textSearch", query="token", topK=5), "Every hour."])
    settings = load_settings(workspace, store="memory")
    platform = AgentPlatform.from_workspace(load_workspace(workspace), settings, models=Models(models=[model]))
    async with platform:
        async with DocumentIngestion(platform.documents) as ingestion:
            await ingestion.ingest("handbook", "other")
        ai = platform.ai.with_references("handbook", platform.references["tone"])
        assert await ai.with_prompt_contributors("Alex the Analyst").generate_text("How often?") == "Every hour."

    system = str(model.calls[0].messages[0])
    assert "You are Alex the Analyst." in system
    assert "Goal: Find the rule" in system
    assert "Be brief." in system
    (found,) = [each for each in model.calls[1].messages if isinstance(each, ToolReply)]
    assert "renewed every hour" in found.content
    assert "washing machine" not in found.content


async def test_a_reference_that_is_named_twice_is_there_once(workspace: Path) -> None:
    model = ScriptedModel(["Every hour."])
    settings = load_settings(workspace, store="memory")
    platform = AgentPlatform.from_workspace(load_workspace(workspace), settings, models=Models(models=[model]))
    async with platform:
        ai = platform.ai.with_references("handbook", "own").with_references("handbook", platform.references["own"])
        assert await ai.generate_text("How often?") == "Every hour."
    system = str(model.calls[0].messages[0])
    assert (system.count("Reference: handbook"), system.count("Reference: own")) == (1, 1)


def test_a_name_that_is_not_there_is_refused_before_a_model_is_asked(workspace: Path) -> None:
    ai = opened(workspace).ai
    with pytest.raises(UnknownName, match=r"Unknown reference .tune.\. Did you mean .tone.\?"):
        ai.with_references("tune")
    with pytest.raises(UnknownName, match=r"Unknown prompt contributor .Alex.\. Known: Alex the Analyst, Engineer\."):
        ai.with_prompt_contributors("Alex")
    with pytest.raises(UnknownName, match="There is no reference at all"):
        AgentPlatform().ai.with_references("tone")


async def test_a_unit_test_of_an_action_needs_no_workspace() -> None:
    engine = FakeEngine("Hello")
    ai = engine.ai.with_references("tone").with_prompt_contributors("Alex the Analyst")
    assert await ai.generate_text("Greet") == "Hello"
    assert [each.name for each in engine.llm_invocations[0].interaction.references] == ["tone"]


def test_skills_of_a_project_are_there_once_they_are_trusted(workspace: Path) -> None:
    SkillTrust(workspace / ".goalport" / "skill-trust.json").trust(workspace / ".agents/skills/release")
    assert "- release: Use it to release." in opened(workspace).references["project"].notes()


def test_mistakes_are_told_with_their_lines_and_the_rest_is_there(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = workspace / "references.yml"
    file.write_text(
        """\
- {type: LiteralText, name: tone, description: How we talk, notes: Be brief.}
- type: Document
  name: handbook
- type: LocalSkills
  name: own
  description: Our skills
  path: nowhere
- type: Persona
  name: Alex
  persona: A careful analyst
  voice: Calm
  objective: Explain figures
  publish: true
- {type: FileText, path: a.md, publish: maybe}
- {type: goalport_workspace.tools.wiki.Wiki, space: none}
- {type: LiteralText, description: How we talk, notes: Be rude.,
   name: tone}
"""
    )
    assert [each.removeprefix(f"{file}:") for each in opened(workspace).problems] == [
        "2: there is no type 'Document'. Did you mean 'Documents'?",
        f"4: LocalSkills: There is no folder '{workspace}/nowhere' with skills in it.",
        "13: publish: expected nothing, as only references are published, but came True.",
        "14: publish: expected true or false, but came 'maybe'.",
        "15: the entry cannot be read: RuntimeError: No such space.",
        "17: another entry is called 'tone' too. Give them different names.",
    ]
    assert opened(workspace).references["tone"].notes() == "Be brief."

    assert execute(["check"]) == 1
    assert f"problem: {file}:2: there is no type 'Document'." in capsys.readouterr().out


def test_a_file_that_is_no_yaml_is_one_problem(workspace: Path) -> None:
    (workspace / "references.yml").write_text("- type: [\n")
    (problem,) = opened(workspace).problems
    assert problem.startswith(f"{workspace}/references.yml:")


def test_references_are_read_again_with_the_workspace(workspace: Path) -> None:
    platform = opened(workspace)
    ai = platform.ai
    (workspace / "references.yml").write_text("- {type: LiteralText, name: new, description: New, notes: New.}")
    platform.load(load_workspace(workspace))
    assert [*platform.references] == ["new"]
    assert ai.with_references("new").interaction.references[0].notes() == "New."
