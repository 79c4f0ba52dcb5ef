"""The references of a workspace: its `references.yml`, with the types of entries that know the platform.

It is loaded where there is such a file only. Below: `references` reads the file; `rag` and `skills` have what the types
make. Above: `knowledge`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import Field

from goalport.knowledge.documents import GitHubArchives
from goalport.knowledge.rag import DocumentIndex, ToolishRag, UriPrefix
from goalport.knowledge.rag.ingestion import absolute
from goalport.knowledge.references import LlmReference, LlmReferenceProviders, NamedReferences
from goalport.knowledge.skills import Skills, SkillTrust
from goalport.knowledge.skills.skill import SKILL_FILE, TRUST_FILE

Count = Annotated[int, Field(ge=0, le=100)]


class HasIndex(Protocol):
    """What gives the index of documents, and makes it if need be."""

    @property
    def index(self) -> DocumentIndex:
        """The index."""
        ...


def references_in(file: Path, documents: HasIndex, data: Path) -> NamedReferences:
    """The references of a file, and what is wrong with it. What is fetched or trusted is kept in the data folder.

    Documents that are published say in prompts too where clients can read them, so that answers can cite these places.
    """
    archives = GitHubArchives(data / "github")
    types = _PlatformTypes(documents, archives, SkillTrust(data / TRUST_FILE), file.parent)
    read = LlmReferenceProviders(archives=archives, types=types.by_name).read(file)
    citing = {each.name: each.citing_resources() for each in read.published if isinstance(each, ToolishRag)}
    published = tuple(citing.get(each.name, each) for each in read.published)
    return replace(read, references={**read.references, **citing}, published=published)


@dataclass(frozen=True, slots=True)
class _PlatformTypes:
    """Makes the references that know the platform; the parameters of its methods are the properties of an entry."""

    platform: HasIndex
    archives: GitHubArchives
    trust: SkillTrust
    folder: Path
    """Where relative paths begin."""

    @property
    def by_name(self) -> dict[str, Callable[..., LlmReference]]:
        return {
            "Documents": self.documents,
            "LocalSkills": self.local_skills,
            "GitHubSkills": self.git_hub_skills,
            "ProjectSkills": self.project_skills,
        }

    def documents(
        self, name: str, description: str, goal: str = "", under: str = "", eager_search: Count = 0
    ) -> LlmReference:
        """The documents of the platform; `under`: only those in a folder, or whose URIs begin so."""
        only = UriPrefix(_uri_prefix(self.folder, under)) if under else None
        return ToolishRag(name, description, self.platform.index, goal, filter=only, eager_search=eager_search)

    def local_skills(self, name: str, description: str, path: str, choose: Count = 0) -> LlmReference:
        """The skill in a folder, or the skills in the folders of a folder."""
        place, skills = self.folder / path, Skills(name, description).choosing(choose)
        is_one = (place / SKILL_FILE).is_file()
        return skills.with_local_skill(place) if is_one else skills.with_local_skills(place)

    def git_hub_skills(
        self, name: str, description: str, url: str, expected: str = "", choose: Count = 0
    ) -> LlmReference:
        """The skills of a repository."""
        skills = Skills(name, description, self.archives).choosing(choose)
        return skills.with_github_url(url, expected=expected)

    def project_skills(self, name: str, description: str, path: str = "") -> LlmReference:
        """The skills that a project brings, as far as they are trusted."""
        return Skills(name, description).with_project_skills(self.folder / path, self.trust)


def _uri_prefix(folder: Path, under: str) -> str:
    """How the URIs begin of the documents in a folder; a file has one URI, and a URI is itself."""
    if "://" in under:
        return under
    place = absolute(folder / under)
    return f"{place.as_uri()}/" if place.is_dir() else place.as_uri()
