"""The scopes that callers need for what is published: those that an export names, else those that its hints ask for.

What only reads needs the scope to read, everything else the scope to write. This is data about a publication; `auth`,
above, knows what a caller has, and the doors refuse.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from goalport.agents.domain import ChatbotMark, Export, Goal
from goalport.workspace.settings import AuthSettings

Scopes = frozenset[str]
"""Scopes that are needed together, or that a caller has."""
_NOTHING: Final[Mapping[str, Scopes]] = {}


@dataclass(frozen=True, slots=True)
class ScopeRules:
    """Which scopes are needed, as settings name them."""

    read: Scopes
    """The base scope: to list what is published, and to follow one's own processes."""
    write: Scopes

    @classmethod
    def of(cls, settings: AuthSettings) -> "ScopeRules":
        """The rules with the names that the settings give to the scopes."""
        return cls(frozenset({settings.read_scope}), frozenset({settings.write_scope}))

    def of_hints(self, scopes: Sequence[str] | None, *, read_only: bool | None) -> Scopes:
        """The scopes for what names `scopes`, and hints whether it only reads."""
        if scopes is not None:
            return frozenset(scopes)
        return self.read if read_only else self.write

    def of_export(self, export: Export) -> Scopes:
        """The scopes for a goal."""
        return self.of_hints(export.scopes, read_only=export.read_only)

    def of_chatbot(self, mark: ChatbotMark) -> Scopes:
        """The scopes to talk to a chatbot: those that it names, else the scope to write, as a turn runs actions."""
        return frozenset(mark.scopes) or self.write

    def of_goals(self, goals: Iterable[Goal]) -> Scopes:
        """The scopes for a tool or a process that may reach any of these goals: those of all of them."""
        return frozenset[str]().union(*(self.of_export(each.export) for each in goals))


@dataclass(frozen=True, slots=True)
class ScopesOfPublished:
    """What callers need for each thing that is published. What is in no table needs the scope to read."""

    rules: ScopeRules
    tools: Mapping[str, Scopes] = field(default_factory=lambda: _NOTHING)
    """By the names of tools, those that are absent for now among them."""
    prompts: Mapping[str, Scopes] = field(default_factory=lambda: _NOTHING)
    resources: Mapping[str, Scopes] = field(default_factory=lambda: _NOTHING)
    """By the URIs of raw resources."""
    providers: Mapping[str, Scopes] = field(default_factory=lambda: _NOTHING)
    """By the namespaces of what provides resources."""
    templates: Mapping[str, Scopes] = field(default_factory=lambda: _NOTHING)
    """By the texts of URI templates."""

    @property
    def named(self) -> Scopes:
        """All scopes that anything needs."""
        tables = (self.tools, self.prompts, self.resources, self.providers, self.templates)
        return (self.rules.read | self.rules.write).union(*(each for table in tables for each in table.values()))
