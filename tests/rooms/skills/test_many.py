"""Many skills: what they cost in a prompt, how the right ones are found, and how long it takes; and those of GitHub."""

import socket
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from goalport.base.errors import DocumentError
from goalport.knowledge.documents import GitHubArchives, WebFetcher
from goalport.knowledge.references import refreshed
from goalport.knowledge.skills import Skills
from goalport.runtime.ai.llm_engine import ready_references
from goalport.testing import ScriptedModel
from tests.rooms.ai.scripted import ai_with
from tests.rooms.documents.archives import ONE, TWO, archive, archives_of, publish
from tests.rooms.documents.loopback import Site, serving
from tests.rooms.skills.folders import call, skill_in, tools_by_name

TOPICS = ("invoices", "contracts", "travel", "payroll", "hiring", "press", "audits", "budgets", "patents", "taxes")
OFFICES = ("Berlin", "Oslo", "Rome", "Paris")
TASKS = ("summarise", "translate", "check", "archive", "compare")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred skills with descriptions of usual length."""
    parent = tmp_path_factory.mktemp("many")
    for number in range(200):
        topic, task, office = (
            TOPICS[number % 10],
            TASKS[number // 10 % 5],
            ("Berlin", "Oslo", "Rome", "Paris")[number // 50],
        )
        description = (
            f"Helps to {task} {topic} for the office in {office}, in the house style and with the forms that are in "
            f"use there. Use it when somebody wants to {task} {topic} and mentions {office}."
        )
        skill_in(parent, f"{task}-{topic}-{office.lower()}", description)
    return parent


async def test_two_hundred_skills_cost_less_than_two_thousand_tokens(many: Path) -> None:
    skills = Skills("office", "Office skills").with_local_skills(many)

    notes = skills.notes()

    assert len(skills.skills) == 200
    assert len(notes) / 4 <= 2_000
    assert "`findSkills` describes those that fit a task. There are: archive-audits-berlin, " in notes
    assert "findSkills" in tools_by_name(skills)


async def test_a_model_finds_the_skill_for_a_task_by_words(many: Path) -> None:
    skills = Skills("office", "Office skills").with_local_skills(many)

    found = await call(skills, "findSkills", query="Please translate this contract for our colleagues in Oslo")

    assert found.splitlines()[0].startswith("- translate-contracts-oslo: Helps to translate contracts")
    assert len(found.splitlines()) == 10
    assert "No skill has these words" in await call(skills, "findSkills", query="zzz")


async def test_the_skills_for_a_request_can_be_chosen_before_it(many: Path) -> None:
    skills = await Skills("office", "Office skills").with_local_skills(many).chosen_for("check taxes in Rome", most=3)

    assert skills.skills[0].name == "check-taxes-rome"
    assert len(skills.skills) == 3
    assert "- check-taxes-rome: Helps to check taxes" in skills.notes()
    assert len((await skills.chosen_for("zzz")).skills) == 3


async def test_skills_that_are_to_be_chosen_are_chosen_for_each_question(many: Path) -> None:
    model = ScriptedModel(["Done"])
    skills = Skills("office", "Office skills").with_local_skills(many).choosing(3)

    await ai_with(model).with_reference(skills).generate_text("check taxes in Rome")

    system = str(model.calls[0].messages[0])
    assert "- check-taxes-rome: Helps to check taxes" in system
    assert system.count("Helps to") == 3


async def test_a_repository_that_does_not_answer_delays_one_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        archives = GitHubArchives(tmp_path, WebFetcher(allow=[host]), f"http://{host}")
        skills = Skills("others", "Skills of others", archives).with_github_skills("octocat", "skills")
        for _ in range(2):
            assert await ready_references([skills], (), seconds=0.01) == (skills,)
    assert caplog.text.count("was not ready within") == 1
    assert "not fetched yet; `activate` fetches them" in skills.notes()


async def test_they_are_chosen_by_meaning_where_there_are_embeddings(tmp_path: Path) -> None:
    skill_in(tmp_path, "cars", "About automobiles")
    skill_in(tmp_path, "boats", "About ships")
    skills = Skills("x", "y").with_local_skills(tmp_path)
    asked: list[str] = []

    async def embed(*texts: str) -> Sequence[Sequence[float]]:
        asked.extend(texts)
        return [[1.0, 0.1] if any(word in text for word in ("vehicle", "car")) else [0.1, 1.0] for text in texts]

    chosen = await skills.chosen_for("a vehicle", embed, most=1)
    await skills.chosen_for("another vehicle", embed, most=1)

    assert [each.name for each in chosen.skills] == ["cars"]
    assert asked == ["a vehicle", "boats: About ships", "cars: About automobiles", "another vehicle"]


def test_two_thousand_folders_are_scanned_and_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2_001):
        skill_in(tmp_path, f"skill-{number:04}", "Does something useful. Use it when somebody asks.")

    skills = Skills("x", "y").with_local_skills(tmp_path)

    assert len(skills.skills) == 2_000
    assert "has 2001 skills; those after the first 2000 are left out" in caplog.text
    assert len(skills.notes()) < 8_000


@pytest.fixture
def site() -> Generator[Site]:
    files = {
        "README.md": "# Agents\n",
        "plugins/analytics/skills/forecast/SKILL.md": "---\nname: forecast\ndescription: Forecast.\n---\nAdd up.\n",
        "plugins/analytics/skills/forecast/references/a.md": "A\n",
        "plugins/analytics/skills/report/SKILL.md": "---\nname: report\ndescription: Report.\n---\nWrite.\n",
    }
    with serving() as found:
        publish(found, "wshobson/agents", archive(files), "main", ONE)
        yield found


async def test_skills_come_from_a_folder_of_a_repository(site: Site, tmp_path: Path) -> None:
    """The guide's examples, in sections 3.25.2 and 3.25.3."""
    archives = archives_of(site, tmp_path)
    by_url = Skills("financial-skills", "Financial analysis skills", archives).with_github_url(
        "https://github.com/wshobson/agents/tree/main/plugins/analytics/skills"
    )
    by_names = Skills("my-skills", "Skills for my agent", archives).with_github_skills(
        owner="wshobson", repo="agents", path="plugins/analytics/skills/forecast", branch="main"
    )

    assert "Those of wshobson/agents@main are not fetched yet; `activate` fetches them." in by_url.notes()
    await refreshed(by_url, by_names)

    assert "- forecast: Forecast.\n- report: Report." in by_url.notes()
    assert "Add up." in await call(by_url, "activate", name="forecast")
    assert [each.name for each in await by_names.all()] == ["forecast"]
    assert "Add up." in await call(by_names, "activate", name="forecast")


async def test_they_are_fetched_when_a_tool_needs_them_and_then_kept(site: Site, tmp_path: Path) -> None:
    skills = Skills("x", "y", archives_of(site, tmp_path)).with_github_skills("wshobson", "agents", branch="main")
    at_path = skills.with_github_url("https://github.com/wshobson/agents/tree/main/plugins/analytics/skills")

    assert "Write." in await call(at_path, "activate", name="report")
    publish(site, "wshobson/agents", archive({"README.md": "# Empty\n"}, TWO), "main")
    again = Skills("x", "y", archives_of(site, tmp_path)).with_github_url(
        "https://github.com/wshobson/agents/tree/main/plugins/analytics/skills"
    )

    assert [each.name for each in await again.all()] == ["forecast", "report"]
    assert len(site.requests) == 1


async def test_a_repository_that_is_not_as_expected_is_left_out_and_said_to_be(site: Site, tmp_path: Path) -> None:
    url = "https://github.com/wshobson/agents/tree/main/plugins/analytics/skills"
    skills = Skills("x", "y", archives_of(site, tmp_path)).with_github_url(url, expected=TWO)

    assert await skills.all() == ()
    assert f"not at {TWO}" in skills.notes()
    with pytest.raises(DocumentError, match="is no repository"):
        Skills("x", "y").with_github_url("https://example.com")
