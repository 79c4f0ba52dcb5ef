"""References from a file: the guide's example, personas, providers of one's own, and mistakes with their lines."""

import os
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalport.base.errors import SettingsError
from goalport.knowledge.documents import WebFetcher
from goalport.knowledge.references import (
    LlmReference,
    LlmReferenceProviders,
    Reference,
    contributors_from_yaml,
    references_from_yaml,
)
from tests.rooms.documents.archives import ONE, archive, archives_of, publish
from tests.rooms.documents.loopback import Site, serving
from tests.rooms.references.asked import call, prompt_of

GUIDE = """
- fqn: com.embabel.coding.tools.git.GitHubRepository
  url: https://github.com/embabel/embabel-agent-examples.git
  description: Embabel examples Repository

- fqn: com.embabel.coding.tools.git.GitHubRepository
  url: https://github.com/embabel/java-agent-template.git
  description: >
    Java agent template Repository: Simplest Java example with Maven
    Can be used as a GitHub template

- fqn: com.embabel.coding.tools.api.ApiReferenceProvider
  name: goalport-prompts
  description: Goalport API
  acceptedPackages:
    - goalport.models.prompts
    - goalport.knowledge.references
"""
"""The file of section 3.10.1, with the packages that are installed here."""


@pytest.fixture
def site() -> Generator[Site]:
    with serving() as found:
        for name in ("embabel-agent-examples", "java-agent-template"):
            publish(found, f"embabel/{name}", archive({"README.md": f"# {name}\n"}), "HEAD")
        yield found


def written(folder: Path, text: str) -> Path:
    file = folder / "references.yml"
    file.write_text(text, encoding="utf-8")
    return file


async def test_the_file_of_the_guide_is_read(site: Site, tmp_path: Path) -> None:
    providers = LlmReferenceProviders(archives=archives_of(site, tmp_path / "data"))

    examples, template, api = await providers.from_yml(written(tmp_path, GUIDE))

    assert [each.name for each in (examples, template, api)] == [
        "embabel-agent-examples",
        "java-agent-template",
        "goalport-prompts",
    ]
    assert ONE in examples.notes()
    assert "# java-agent-template" in await call(template, "readFile", path="README.md")
    assert "class Persona" in await call(api, "lookUp", name="goalport.models.prompts.Persona")
    assert "Its tools have names that begin with goalport_prompts_" in await prompt_of(examples, template, api)


async def test_every_type_can_be_written(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rules.md").write_text("Never promise a loan.")
    file = written(
        tmp_path,
        f"""
        - {{type: LiteralText, name: tone, description: How we talk, notes: Be brief.}}
        - {{type: FileText, path: data/rules.md, refresh: 10m}}
        - {{fqn: com.embabel.agent.api.common.reference.SpringResource, resource: data/rules.md, name: again}}
        - {{type: PackageResource, resource: "pydoc_data:topics.py", description: Help}}
        - {{type: WebPage, props: {{url: "{site.text("/", "Hello")}", name: page}}}}
        - {{type: LocalDirectory, path: data, description: Our rules, usageNotes: Read them first.}}
        - {{type: PythonApi, name: json, description: JSON}}
        """,
    )
    references = await LlmReferenceProviders(fetcher=WebFetcher(allow=[site.host])).from_yml(file)

    assert [each.name for each in references] == ["tone", "rules", "again", "topics", "page", "data", "json"]
    notes = [each.notes() for each in references]
    assert notes[0] == "Be brief."
    assert all("Never promise a loan." in each for each in notes[1:3])
    assert "Hello" in notes[4]
    assert notes[5].startswith("Read them first.")
    assert "rules.md" in await call(references[5], "listFiles")


async def test_personas_are_contributors(tmp_path: Path) -> None:
    """The guide's examples, in section 3.10.2."""
    file = written(
        tmp_path,
        """
        - type: Persona
          name: Alex the Analyst
          persona: A detail-oriented data analyst with expertise in financial markets
          voice: Professional yet approachable, uses clear explanations
          objective: Help users understand complex financial data through clear analysis
        - type: LiteralText
          name: tone
          description: How we talk
          notes: Be brief.
        - type: RoleGoalBackstory
          role: Senior Software Engineer
          goal: Write clean, maintainable code
          backstory: 10+ years experience in enterprise software development
        """,
    )
    alex, engineer = contributors_from_yaml(file)

    assert alex.contribution().startswith("You are Alex the Analyst.\nYour persona: A detail-oriented data analyst")
    assert engineer.contribution().startswith("Role: Senior Software Engineer\nGoal: Write clean, maintainable code")
    assert [each.name for each in await references_from_yaml(file)] == ["tone"]


@dataclass
class Wiki:
    """A provider of a user."""

    space: str
    max_pages: int = 10

    def reference(self) -> LlmReference:
        return Reference(self.space, f"At most {self.max_pages} pages of the wiki")


def handbook(edition: int) -> LlmReference:
    return Reference(f"handbook {edition}", "The handbook")


def nonsense() -> str:
    return "no reference"


def picky(number: int) -> LlmReference:
    raise ValueError(f"there is no edition {number}")


def broken() -> LlmReference:
    raise KeyError("no such key")


def quitting() -> LlmReference:
    sys.exit(3)


class Unfinished:
    def __init__(self, space: object) -> None: ...


Unfinished.__init__.__annotations__["space"] = "NoSuchType"


async def test_providers_of_ones_own_are_named_with_their_module(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        f"""
        - {{fqn: {__name__}.Wiki, space: Sales, maxPages: 3}}
        - {{type: {__name__}.handbook, edition: 2}}
        """,
    )
    wiki, book = await references_from_yaml(file)

    assert (wiki.name, wiki.description, book.name) == ("Sales", "At most 3 pages of the wiki", "handbook 2")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- type: WebPag\n  url: x", ":1: there is no type 'WebPag'. Did you mean 'WebPage'?"),
        ("- type: WebPage", ":1: WebPage: url: required, but missing"),
        ("- url: https://example.com", ":1: expected a type, but came None. Known: LiteralText, FileText"),
        ("- hello", ":1: expected a reference with a type, but came 'hello'. Write `- type: WebPage`."),
        ("type: WebPage", ":1: expected a list of references, but came {'type': 'WebPage'}."),
        (
            "- type: WebPage\n  url: https://example.com\n  descripton: x",
            ":3: WebPage: descripton: unknown. Did you mean 'description'?",
        ),
        (
            "- type: WebPage\n  url: https://example.com\n  refresh: often",
            ":3: WebPage: refresh: should be never, always, or a time such as 30s, 10m, 2h or 1d",
        ),
        ("- type: WebPage\n\n  url:\n    - 1", ":3: WebPage: url: should be a text"),
        (
            "- type: PythonApi\n  description: x\n  name: ''",
            ":3: name: expected a name in one line, but came ''.",
        ),
        (
            '- type: LiteralText\n  name: "a\\nb"\n  notes: x\n  description: y',
            ":2: name: expected a name in one line, but came 'a\\nb'.",
        ),
        ("- type: GitHubRepository\n  url: x\n  description: y", ":1: GitHubRepository: 'x' is no repository."),
        ("- type: no_such_module.Wiki", ":1: the module of 'no_such_module.Wiki' cannot be imported"),
        ("- type: json.NoSuch", ":1: json has no class or function 'NoSuch'."),
        (f"- type: {__name__}.nonsense", "to make a reference, but it made str."),
        (f"- type: {__name__}.picky\n  number: 7", "picky: there is no edition 7"),
        (f"- type: {__name__}.broken", ":1: the entry cannot be read: KeyError: 'no such key'"),
        (f"- type: {__name__}.quitting", ":1: the entry cannot be read: SystemExit: 3"),
        (f"- type: {__name__}.Unfinished\n  space: x", "NameError: name 'NoSuchType' is not defined"),
        ("- type: builtins.dict", ":1: the entry cannot be read: ValueError: no signature"),
        ("- type: ..wiki.Wiki", ":1: there is no type '..wiki.Wiki'."),
        ("- type: WebPage\n  url: a: b", ":2: this is no YAML: mapping values are not allowed"),
        ("- type: WebPage\n  url: a\n  refresh: often", ":3: WebPage: refresh: should be never, always"),
        ("- type: A\n  type: B", ":2: this is no YAML: found duplicate key"),
        ("- &a\n  type: *a", ":2: expected plain values without aliases."),
        ("- type: LiteralText\n  when: 2026-13-45", "this is no YAML: month must be in 1..12"),
        ("[" * 100, "this is no YAML|Nest the values less deeply"),
        ("- !!python/object/apply:os.system ['true']", ":1: this is no YAML: could not determine a constructor"),
    ],
)
async def test_a_mistake_has_its_line_and_the_fix(tmp_path: Path, text: str, problem: str) -> None:
    file = written(tmp_path, text)

    with pytest.raises(SettingsError) as raised:
        await references_from_yaml(file)

    assert str(raised.value).startswith(str(file))
    assert any(each in str(raised.value) for each in problem.split("|"))


async def test_all_mistakes_of_a_file_are_reported_together(tmp_path: Path) -> None:
    file = written(tmp_path, "- type: WebPage\n- type: Nothing\n- type: Persona\n  name: Ann\n")

    with pytest.raises(SettingsError) as raised:
        await references_from_yaml(file)

    lines = str(raised.value).splitlines()
    assert [line.removeprefix(f"{file}:").partition(":")[0] for line in lines] == ["1", "2", "3", "3", "3"]


async def test_a_file_of_gigabytes_is_refused_and_not_read_whole(tmp_path: Path) -> None:
    file = written(tmp_path, "- type: Persona\n")
    os.truncate(file, 3_000_000_000)  # a sparse file: it takes no room, but would take it in memory

    with pytest.raises(
        SettingsError, match=r"references\.yml is longer than 1,000,000 characters\. Keep it below that"
    ):
        await references_from_yaml(file)


async def test_an_empty_file_has_no_references_and_a_missing_one_is_a_mistake(tmp_path: Path) -> None:
    assert await references_from_yaml(written(tmp_path, "# nothing yet\n")) == ()
    with pytest.raises(SettingsError, match="cannot be read"):
        await references_from_yaml(tmp_path / "nothing.yml")


async def test_one_page_that_cannot_be_fetched_leaves_the_others(site: Site, tmp_path: Path) -> None:
    file = written(
        tmp_path,
        f"- {{type: WebPage, url: '{site.address}/gone', name: gone}}\n"
        f"- {{type: WebPage, url: '{site.text('/here', 'Hello')}', name: here}}\n",
    )
    gone, here = await LlmReferenceProviders(fetcher=WebFetcher(allow=[site.host])).from_yml(file)

    assert "the server answers 404 Not Found" in gone.notes()
    assert "Hello" in here.notes()
