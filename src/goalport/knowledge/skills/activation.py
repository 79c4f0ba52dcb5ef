"""The tools that a model has for skills: activate one, list and read its files, find one among many.

They are made anew for each request, so what a model unlocks by activating a skill is unlocked in that conversation
only. Below: `skill` and `choice`. Above: `skills`.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from anyio import to_thread

from goalport.base.errors import DocumentError, ToolError
from goalport.base.words import cleaned, listed, offer
from goalport.knowledge.skills.choice import by_words
from goalport.knowledge.skills.skill import RESOURCE_TYPES, Skill, allowed_names, skill_folder, skill_text
from goalport.knowledge.skills.trust import is_as_trusted
from goalport.models.prompts import as_data
from goalport.tools import Parameter, Tool, ToolResult

_MOST_FILES: Final = 200
_MOST_FOUND: Final = 10
_LONGEST: Final = 100_000
"""Characters of instructions or of a file."""
_SKILL: Final = Parameter("skillName", str, "The name of the skill.")
_TYPE: Final = Parameter("resourceType", Literal["scripts", "references", "assets"], "The kind of files.")


@dataclass(slots=True)
class Activation:
    """The skills that can be activated in one conversation, and those that were."""

    load: Callable[[], Awaitable[Sequence[Skill]]]
    """Gives the skills, fetched where that is still to be done."""
    locked: Sequence[Tool] = ()
    """Tools that can be called only after a skill was activated that allows them."""
    _allowed: dict[str, str] = field(default_factory=dict[str, str], init=False)
    """By tool: the activated skill that allows it."""

    def tools(self, *, find: bool) -> Iterator[Tool]:
        """The tools; `find`: with one to find skills, where the notes cannot describe all of them."""
        name = Parameter("name", str, "The name of the skill.")
        yield _tool(self._activate, "activate", "Get the instructions of a skill, before you do what it is for.", name)
        description = "List the files of a skill: scripts, references or assets."
        yield _tool(self._list, "listResources", description, _SKILL, _TYPE)
        file = Parameter("fileName", str, "The path of the file, as listResources gives it.")
        yield _tool(self._read, "readResource", "Read a file of a skill.", _SKILL, _TYPE, file)
        if find:
            query = Parameter("query", str, "What you want to do, in words.")
            yield _tool(self._find, "findSkills", "Find the skills that fit a task, with their descriptions.", query)
        for each in self.locked:
            yield replace(each.with_layer(self._unlocked), withheld=partial(self._locks, each.name))

    async def _activate(self, given: Mapping[str, Any]) -> str:
        skill = await self._skill(given["name"])
        return await to_thread.run_sync(self._instructions, skill)

    def _instructions(self, skill: Skill) -> str:
        _check_unchanged(skill)
        text = skill_text(skill.folder)
        entries = allowed_names(text.fields.get("allowed-tools"))
        own = {each.name for each in self.locked}
        for each in entries:
            if each in own:
                self._allowed[each] = skill.name
        lines = [f'<skill name="{skill.name}">', cleaned(text.instructions, _LONGEST), "</skill>"]
        if compatibility := text.text("compatibility"):
            lines.append(f"It requires: {compatibility}")
        if files := _files(skill):
            lines.append(f"Its files: {listed(files, _MOST_FILES)}. Read them with readResource where they are needed.")
        unlocked = [each for each in entries if each in own]
        if unlocked:
            lines.append(f"From now on you can call the tools that it allows: {listed(unlocked)}.")
        if others := [each for each in entries if each not in own]:
            lines.append(f"It allows tools that are not among those of the skills here: {listed(others)}.")
        return "\n".join(lines)

    async def _list(self, given: Mapping[str, Any]) -> str:
        skill, kind = await self._skill(given["skillName"]), given["resourceType"]
        found = await to_thread.run_sync(_files_of, skill, kind)
        return "\n".join(found) if found else f"The skill {skill.name!r} has no {kind}."

    async def _read(self, given: Mapping[str, Any]) -> str:
        skill, kind = await self._skill(given["skillName"]), given["resourceType"]
        name = given["fileName"].removeprefix(f"{kind}/")
        text = await to_thread.run_sync(_resource, skill, kind, name)
        return as_data(text, f"{skill.name}/{kind}/{name}")

    async def _find(self, given: Mapping[str, Any]) -> str:
        found = by_words(await self.load(), given["query"])[:_MOST_FOUND]
        if not found:
            return "No skill has these words in its name or description. Try other words."
        return "\n".join(f"- {each.name}: {each.description}" for each in found)

    async def _skill(self, name: str) -> Skill:
        skills = await self.load()
        plain = _plain(name)
        for each in skills:
            if _plain(each.name) == plain:
                return each
        raise ToolError(f"There is no skill {name!r}. {offer(name, [each.name for each in skills])}")

    def _locks(self, tool: str) -> bool:
        """Whether no activated skill allows a tool yet."""
        return tool not in self._allowed

    async def _unlocked(self, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
        if tool.name in self._allowed:
            return await tool.call(arguments)
        return ToolResult.of_error(
            f"{tool.name!r} can be called only after a skill was activated that allows it. Activate the skill for your "
            "task first, or do without the tool."
        )


def _tool(function: Callable[..., Any], name: str, description: str, *parameters: Parameter) -> Tool:
    made = Tool.of(function, name=name, description=description, parameters=parameters)
    return replace(made, read_only=True, destructive=False, idempotent=True, open_world=False)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _files(skill: Skill) -> list[str]:
    folder = skill_folder(skill.folder)
    return [each for kind in RESOURCE_TYPES for each in sorted(folder.files(f"{kind}/*"))][:_MOST_FILES]


def _files_of(skill: Skill, kind: str) -> list[str]:
    return [each.removeprefix(f"{kind}/") for each in _files(skill) if each.startswith(f"{kind}/")]


def _resource(skill: Skill, kind: str, name: str) -> str:
    _check_unchanged(skill)
    folder = skill_folder(skill.folder)
    try:
        folder.place(f"{kind}/{name}")
    except DocumentError:
        known = offer(name, _files_of(skill, kind), none=f"It has no {kind}.")
        raise ToolError(f"There is no {name!r} in the {kind} of {skill.name!r}. {known}") from None
    return cleaned(folder.text(f"{kind}/{name}"), _LONGEST)


def _check_unchanged(skill: Skill) -> None:
    """Raises `ToolError` for a skill that is not any more what was trusted."""
    if not is_as_trusted(skill):
        raise ToolError(f"The skill {skill.name!r} has changed since it was trusted. Do without it.")
