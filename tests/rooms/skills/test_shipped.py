"""The skill and the file of references that people copy from the docs are without mistakes."""

from goalport.knowledge.references import LlmReferenceProviders
from goalport.knowledge.skills import Skills, check_skills
from tests.docs.fences import ROOT
from tests.rooms.skills.folders import call

EXAMPLES = ROOT / "docs" / "examples"


async def test_the_shipped_skill_is_without_mistakes_and_can_be_activated() -> None:
    skills = Skills("writing", "Writing").with_local_skills(EXAMPLES / "skills")

    assert check_skills(EXAMPLES / "skills") == ()
    assert "Search before you answer" in await call(skills, "activate", name="cite-sources")


def test_the_shipped_references_are_without_mistakes() -> None:
    found = LlmReferenceProviders().read(EXAMPLES / "references.yml")

    assert found.problems == ()
    assert [*found] == ["tone", "skills", "goalport", "embabel-agent-examples", "skill-specification"]
    assert len(found.contributors) == 1
