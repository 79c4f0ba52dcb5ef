"""A reference to the API of installed Python packages: a model looks up signatures and docstrings by name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Self

from anyio import to_thread

from goalport.base.words import did_you_mean, excerpt, folded, listed, offer
from goalport.knowledge.references.python_source import ApiMember, PythonSources
from goalport.models.prompts import as_data
from goalport.tools import Tool, tool

_MOST_MODULES: Final = 200
_MOST_MEMBERS: Final = 200
_MOST_FOUND: Final = 40
_MOST_OFFERED: Final = 5
_LINE: Final = 300
_DOC: Final = 6_000


@dataclass(frozen=True, slots=True)
class PythonApi:
    """A reference to an API: `PythonApi("goalport", "The API of goalport", ["goalport.runtime", "goalport.agents"])`.

    `packages` are packages and modules that are installed here. Their source is read and not run.
    """

    name: str
    description: str
    packages: Sequence[str] = ()
    """Empty: the package that has the name of the reference."""
    usage_notes: str = ""
    """What a model should know to use it."""
    _sources: PythonSources = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "packages", tuple(self.packages) or (self.name,))
        object.__setattr__(self, "_sources", PythonSources(tuple(self.packages)))

    def with_usage_notes(self, text: str) -> Self:
        """A copy that tells the model how to use it."""
        return replace(self, usage_notes=text)

    def notes(self) -> str:
        advice = f"It describes the Python packages {listed(self.packages)}. Look names up with its tools."
        return "\n".join(filter(None, (self.usage_notes, advice)))

    def tools(self) -> Sequence[Tool]:
        return Tool.from_instance(_ApiTools(self.name, self._sources))


@dataclass(frozen=True, slots=True)
class _ApiTools:
    """The tools of a reference to an API."""

    name: str
    sources: PythonSources

    @tool(name="listModules", read_only=True)
    async def list_modules(self) -> str:
        """List the modules of the API."""
        modules = await to_thread.run_sync(self.sources.modules)
        if not modules:
            return f"None of {listed(self.sources.packages)} is installed here with its source."
        more = f"\nThere are {len(modules) - _MOST_MODULES} more." if len(modules) > _MOST_MODULES else ""
        return as_data("\n".join(modules[:_MOST_MODULES]), self.name) + more

    @tool(name="lookUp", read_only=True)
    async def look_up(self, name: str) -> str:
        """Describe a module, class, function or method by its full name, such as json.decoder.JSONDecoder."""
        return await to_thread.run_sync(self._described, name.strip())

    @tool(name="searchApi", read_only=True)
    async def search_api(self, words: str) -> str:
        """Find classes, functions and methods that have all of these words in their names or docstrings."""
        return await to_thread.run_sync(self._search, words)

    def _described(self, name: str) -> str:
        if name in self.sources.modules():
            members = self.sources.members(name)
            text = "\n".join(filter(None, (excerpt(self.sources.doc(name), _DOC), *_lines(members))))
            return as_data(text, name) if text else f"The module {name} offers no classes and functions."
        member = self.sources.find(name)
        if member is None:
            every = [each.name for each in self.sources.everything()]
            same = [each for each in every if each.rpartition(".")[2] == name.rpartition(".")[2]]
            return f"There is no {name!r}. {did_you_mean(same[:_MOST_OFFERED]) or offer(name, every)}"
        inner = [each for each in self.sources.everything() if each.name.rpartition(".")[0] == member.name]
        return as_data("\n".join((member.signature, excerpt(member.doc, _DOC), *_lines(inner))), member.name)

    def _search(self, words: str) -> str:
        wanted = folded(words).split()
        matching = (each for each in self.sources.everything() if wanted and _has(each, wanted))
        found = list(islice(matching, _MOST_FOUND))
        if not found:
            return f"Nothing has {words!r} in its name or docstring. Search for fewer words."
        lines = (excerpt(f"{each.name}: {each.first_line}", _LINE) for each in found)
        return as_data("\n".join(lines), self.name)


def _has(member: ApiMember, words: Iterable[str]) -> bool:
    text = folded(f"{member.name} {member.doc}")
    return all(each in text for each in words)


def _lines(members: Sequence[ApiMember]) -> list[str]:
    lines = [excerpt(each.first_line, _LINE) for each in members[:_MOST_MEMBERS]]
    more = len(members) - _MOST_MEMBERS
    return [*lines, f"and {more} more"] if more > 0 else lines
