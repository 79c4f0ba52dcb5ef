"""Skills as a reference: a model sees their names and descriptions, and activates the one that it needs.

User guide, section 3.25; https://agentskills.io. The tools are made anew for each request, so what a model unlocks by
activating a skill is unlocked in that conversation only. Below: `skill`. Above: `ai` puts the notes into the system
prompt and offers the tools.
"""

import logging
import math
import os
import re
import shlex
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, islice
from operator import mul
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from time import monotonic
from typing import Any, Final, Literal, Protocol, Self

import anyio
from anyio import get_cancelled_exc_class, to_thread
from anyio.abc import Process

from goalport.base.errors import DocumentError, ToolError
from goalport.base.secrecy import hide
from goalport.base.words import cleaned, folded, listed, offer
from goalport.knowledge.documents import GitHubArchives, GitHubPlace
from goalport.knowledge.skills.published import PublishedSkills, namespace_of
from goalport.knowledge.skills.skill import (
    RESOURCE_TYPES,
    SKILL_FILE,
    Skill,
    SkillTrust,
    allowed_names,
    is_as_trusted,
    scanned,
    skill_folder,
    skill_text,
)
from goalport.models.prompts import as_data
from goalport.tools import Parameter, Permission, Tool, ToolGroup, ToolResult, tools_of

Embed = Callable[..., Awaitable[Sequence[Sequence[float]]]]
"""Gives a vector for each of the texts that it is called with: `ai.embed`."""
_WORD: Final = re.compile(r"[^\W_]{2,}")
_STEM: Final = 5
"""Letters at the beginning by which longer words are compared, so that `reports` and `reporting` are alike."""


def by_words(skills: Sequence[Skill], text: str) -> list[Skill]:
    """The skills that share words with a text, the best first; a word of few skills says more than one of many."""
    wanted = set(_words(text))
    own = [Counter(_words(f"{each.name} {each.name} {each.description}")) for each in skills]
    spread = Counter(word for words in own for word in words)
    weights = {word: math.log(1 + len(skills) / spread[word]) for word in wanted if word in spread}
    return _best(skills, [sum(weights[word] * math.sqrt(words[word]) for word in weights) for words in own])


async def by_meaning(
    skills: Sequence[Skill], text: str, embed: Embed, known: dict[str, Sequence[float]]
) -> list[Skill]:
    """The skills by the likeness of their vectors to that of a text; `known` keeps the vectors of descriptions."""
    written = {each.name: f"{each.name}: {each.description}" for each in skills}
    missing = [each for each in dict.fromkeys(written.values()) if each not in known]
    wanted, *found = await embed(text, *missing)
    known.update(zip(missing, found, strict=True))
    vectors = [known[written[each.name]] for each in skills]
    products = (sum(map(mul, wanted, each)) / (math.hypot(*wanted) * math.hypot(*each) or 1) for each in vectors)
    return _best(skills, [*products])


def _best(skills: Sequence[Skill], scores: Sequence[float]) -> list[Skill]:
    pairs: Mapping[int, float] = {number: score for number, score in enumerate(scores) if score > 0}
    return [skills[number] for number in sorted(pairs, key=lambda number: (-pairs[number], number))]


def _words(text: str) -> list[str]:
    return [each[:_STEM] for each in _WORD.findall(folded(text))]


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


_INTERPRETERS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": (sys.executable, "-I"),
    ".sh": ("sh",),
    ".bash": ("bash",),
    ".js": ("node",),
}
_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """How a script ended."""

    exit_code: int
    output: str
    """What it wrote on stdout and stderr, in the order in which it came."""


class ScriptRunner(Protocol):
    """Runs one script of a skill; a user may bring one that runs it in a container."""

    async def run(self, script: Path, arguments: Sequence[str], skill: Path) -> ScriptResult:
        """Run a script with arguments, on behalf of the skill in a folder; both paths are absolute.

        Raises `ToolError` where it cannot.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChildProcessRunner:
    """Runs scripts as child processes of this one, in an empty folder or the one that is given."""

    seconds: float = 60.0
    """A script that takes longer is ended, with the processes that it started."""
    output_characters: int = 20_000
    """Of a longer output only the beginning is kept."""
    environment: Sequence[str] = _ENVIRONMENT
    """The names of the variables that a script sees; keys and passwords are in others."""
    interpreters: Mapping[str, Sequence[str]] = field(default_factory=lambda: dict(_INTERPRETERS))
    """By the end of a script's name: the command that runs it. A script with another end is not run."""
    folder: Path | None = None
    """The folder in which scripts run; None: an empty one that is removed afterwards."""

    async def run(self, script: Path, arguments: Sequence[str], skill: Path) -> ScriptResult:
        interpreter = self.interpreters.get(script.suffix.lower())
        if interpreter is None:
            known = ", ".join(self.interpreters)
            raise ToolError(f"{script.name!r} cannot be run: expected a script that ends with one of {known}.")
        variables = {name: os.environ[name] for name in self.environment if name in os.environ}
        environment = {**variables, "SKILL_FOLDER": str(skill)}
        with tempfile.TemporaryDirectory(prefix="goalport-script-", ignore_cleanup_errors=True) as empty:
            command = [*interpreter, str(script), *arguments]
            try:
                process = await anyio.open_process(
                    command,
                    stdin=DEVNULL,
                    stdout=PIPE,
                    stderr=STDOUT,
                    cwd=self.folder or empty,
                    env=environment,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise ToolError(f"{script.name!r} cannot be run: {error}.") from error
            return await self._ended(script, process)

    async def _ended(self, script: Path, process: Process) -> ScriptResult:
        written = bytearray()
        try:
            with anyio.fail_after(self.seconds):
                assert process.stdout is not None
                async for piece in process.stdout:
                    written += piece[: 4 * self.output_characters - len(written)]
                await process.wait()
        except TimeoutError:
            raise ToolError(f"{script.name!r} took longer than {self.seconds:g} seconds and was ended.") from None
        finally:
            with anyio.CancelScope(shield=True):
                end_group = os.killpg if hasattr(os, "killpg") else None
                with suppress(ProcessLookupError, PermissionError):
                    if end_group is not None:
                        end_group(process.pid, signal.SIGKILL)
                    else:
                        process.kill()
                await process.aclose()
        output = cleaned(written.decode("utf-8", "replace"), self.output_characters)
        return ScriptResult(process.returncode or 0, hide(output))


_log = logging.getLogger(__name__)
PROJECT_FOLDERS: Final = (".agents/skills", ".claude/skills")
"""Where projects keep skills, the first one first."""
_MOST_FOLDERS: Final = 2_000
_BUDGET: Final = 6_000
"""Characters of names and descriptions in the prompt, which are about 1,500 tokens."""
_RETRY_SECONDS: Final = 60.0
"""How long a repository that could not be fetched is not asked for again."""
_ADVICE: Final = "Before you do what a skill is for, call `activate` with its name, and follow its instructions."


@dataclass(frozen=True, slots=True)
class _Source:
    """Skills in a repository, fetched when they are first needed."""

    place: GitHubPlace
    expected: str = ""


@dataclass(slots=True)
class _Fetched:
    """What has been fetched so far, and what could not be."""

    done: set[_Source] = field(default_factory=set[_Source])
    skills: tuple[Skill, ...] = ()
    failures: dict[_Source, str] = field(default_factory=dict[_Source, str])
    failed_at: float = -_RETRY_SECONDS
    late: dict[_Source, float] = field(default_factory=dict[_Source, float])
    """Sources that a request did not wait for, and when that was."""

    def waits(self, source: _Source, *, patient: bool) -> bool:
        """Whether a source is here, or could not be fetched a moment ago; who is patient waits again for a late one."""
        now = monotonic()
        late = not patient and now - self.late.get(source, -_RETRY_SECONDS) < _RETRY_SECONDS
        return source in self.done or late or (source in self.failures and now - self.failed_at < _RETRY_SECONDS)


@dataclass(frozen=True, slots=True, eq=False)
class Skills:
    """A reference to skills: `Skills("finance", "Financial analysis").with_local_skills("skills")`.

    It is immutable: each `with_*` gives a copy. Of skills with one name the first is used. Skills of GitHub are fetched
    when `refresh` is called or a tool needs them.
    """

    name: str
    description: str
    archives: GitHubArchives = field(default_factory=GitHubArchives, repr=False)
    skills: tuple[Skill, ...] = ()
    """The skills of folders of this machine."""
    locked: tuple[Tool, ...] = field(default=(), repr=False)
    """Tools that can be called only after a skill was activated that allows them."""
    sources: tuple[_Source, ...] = ()
    most: int = 0
    """How many skills are chosen for a question; 0: all are offered."""
    _fetched: _Fetched = field(default_factory=_Fetched, repr=False)
    _vectors: dict[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]], repr=False)

    def with_local_skill(self, directory: str | Path) -> Self:
        """With the skill in a folder. Raises `DocumentError` for a folder without one that can be used."""
        skill, warnings = scanned(Path(directory))
        _warn(warnings)
        return self._plus([skill])

    def with_local_skills(self, parent: str | Path) -> Self:
        """With the skills in the folders of a folder, and not in those below. One that cannot be used is a warning.

        Raises `DocumentError` where the folder is not there.
        """
        return self._plus(skills_in(Path(parent)))

    def with_project_skills(self, project: str | Path, trust: SkillTrust | None = None) -> Self:
        """With the skills that a project brings in `.agents/skills` and `.claude/skills`, as far as they are trusted.

        The others are withheld, with a warning that says how to trust them.
        """
        known = trust or SkillTrust()
        folders = [Path(project) / each for each in PROJECT_FOLDERS]
        found = [skill for each in folders if each.is_dir() for skill in skills_in(each)]
        return self._plus(_trusted(found, known))

    def with_github_url(self, url: str, *, expected: str = "") -> Self:
        """With the skills of a repository: `https://github.com/OWNER/REPOSITORY/tree/BRANCH/FOLDER`.

        The folder is a skill or has skills in its folders. `expected` is the commit, or the hash of the content, that
        the repository must have; without it, what is fetched first is pinned. Raises `DocumentError` for another URL.
        """
        return replace(self, sources=(*self.sources, _Source(GitHubPlace.of_url(url), expected)))

    def with_github_skills(
        self, owner: str, repo: str, path: str = "", branch: str = "HEAD", *, expected: str = ""
    ) -> Self:
        """With the skills in a folder of a repository, at a branch, tag or commit; otherwise as `with_github_url`."""
        return replace(self, sources=(*self.sources, _Source(GitHubPlace(owner, repo, branch, path), expected)))

    def with_tools(self, *objects: object) -> Self:
        """With tools that skills may use: each is locked until a skill was activated whose `allowed-tools` names it."""
        return replace(self, locked=(*self.locked, *tools_of(*objects)))

    def choosing(self, most: int = 10) -> Self:
        """With the skills that fit the question best, so many at most, chosen by words before each request."""
        return replace(self, most=most)

    async def for_question(self, question: str, /) -> Self:
        """A copy with the skills that fit a question, as far as it is to choose any; `Ai` calls it."""
        return await self.chosen_for(question, most=self.most) if self.most else self

    async def refresh(self) -> None:
        """Fetch the skills of GitHub that are not here yet. What cannot be fetched is said in the notes."""
        await self._fetch(patient=False)

    async def _fetch(self, *, patient: bool) -> None:
        for source in self.sources:
            if self._fetched.waits(source, patient=patient):
                continue
            try:
                copy = await self.archives.get(source.place, expected=source.expected)
                found = await to_thread.run_sync(_fetched_skills, copy.folder)
            except DocumentError as error:
                _log.warning("Skills of %r are left out: %s", self.name, error)
                self._fetched.failures[source], self._fetched.failed_at = str(error), monotonic()
                continue
            except get_cancelled_exc_class():  # what answers slowly must not slow down every request
                self._fetched.late[source] = monotonic()
                raise
            _warn_of_doubles(self._known(), found)
            self._fetched.failures.pop(source, None)
            self._fetched.done.add(source)
            self._fetched.skills += found

    async def all(self) -> tuple[Skill, ...]:
        """The skills, after those of GitHub were fetched."""
        await self._fetch(patient=True)
        return self._known()

    async def chosen_for(self, text: str, embed: Embed | None = None, most: int = 10) -> Self:
        """A copy with the skills that fit a text best: by words, or by meaning with `embed=ai.embed`.

        Where no words fit, all are kept. Use it before a request where there are so many that their descriptions are
        not to be in every prompt.
        """
        skills = await self.all()
        if embed is None:
            found = by_words(skills, text)
        else:
            found = await by_meaning(skills, text, embed, self._vectors)
        return replace(self, skills=tuple(found[:most]) or skills, sources=(), _fetched=_Fetched())

    def notes(self) -> str:
        skills = self._known()
        lines = [_ADVICE]
        if not skills:
            lines.append("There are no skills yet.")
        elif _fits(skills):
            lines.extend(f"- {each.name}: {each.description}" for each in skills)
        else:
            lengths = accumulate(len(each.name) + len(", ") for each in skills)
            names = [each.name for each, length in zip(skills, lengths, strict=True) if length <= _BUDGET]
            more = f" and {len(skills) - len(names)} more" if len(names) < len(skills) else ""
            lines.append(f"`findSkills` describes those that fit a task. There are: {', '.join(names)}{more}.")
        waiting = [str(each.place) for each in self.sources if each not in self._fetched.done]
        if waiting:
            lines.append(f"Those of {listed(waiting)} are not fetched yet; `activate` fetches them.")
        return "\n".join((*lines, *self._fetched.failures.values()))

    def tools(self) -> Sequence[Tool]:
        """The tools, with nothing unlocked: each request of a model has its own."""
        return tuple(Activation(self.all, self.locked).tools(find=not _fits(self._known())))

    def as_published(self) -> PublishedSkills:
        """The skills as clients of a server get them: as resources, and with the tools that read them.

        Locked tools are left out: what one client unlocks would be unlocked for all.
        """
        offered = tuple(Activation(self.all).tools(find=not _fits(self._known())))
        return PublishedSkills(
            name=self.name,
            description=self.description,
            namespace=namespace_of(self.name),
            offered=offered,
            load=self.all,
        )

    def script_group(self, runner: ScriptRunner, role: str = "skill-scripts") -> ToolGroup:
        """A tool group whose tool `runScript` runs scripts of these skills, each time after a person has agreed."""
        parameters = (
            Parameter("skillName", str, "The name of the skill."),
            Parameter("fileName", str, "The path of the script in the folder `scripts` of the skill."),
            Parameter("arguments", list[str], "The arguments of the script.", required=False, default=[]),
        )
        run = Tool.of(
            partial(self._run, runner),
            name="runScript",
            description="Run a script of a skill and get its output.",
            parameters=parameters,
        )
        description = f"Runs scripts of the skills {self.name!r}"
        permissions = [Permission.HOST_ACCESS]
        return ToolGroup.of(role, run, description=description, permissions=permissions, approve="always")

    async def _run(self, runner: ScriptRunner, given: Mapping[str, Any]) -> ToolResult:
        names = {each.name: each for each in await self.all()}
        skill = names.get(given["skillName"])
        if skill is None:
            raise ToolError(f"There is no skill {given['skillName']!r}. {offer(given['skillName'], names)}")
        if not await to_thread.run_sync(is_as_trusted, skill):
            raise ToolError(f"The skill {skill.name!r} has changed since it was trusted. Do without it.")
        script = skill_folder(skill.folder).place(f"scripts/{given['fileName'].removeprefix('scripts/')}")
        result = await runner.run(script, given.get("arguments") or [], skill.folder)
        if result.exit_code:
            return ToolResult.of_error(f"The script ended with {result.exit_code}.\n{result.output}".strip())
        return ToolResult.of_text(result.output or "The script wrote nothing.")

    def _known(self) -> tuple[Skill, ...]:
        return _firsts((*self.skills, *self._fetched.skills))

    def _plus(self, skills: Iterable[Skill]) -> Self:
        added = tuple(skills)
        _warn_of_doubles(self.skills, added)
        return replace(self, skills=_firsts((*self.skills, *added)))


def _fetched_skills(folder: Path) -> tuple[Skill, ...]:
    if (folder / SKILL_FILE).is_file():
        skill, warnings = scanned(folder)
        _warn(warnings)
        return (skill,)
    return tuple(skills_in(folder))


def skills_in(parent: Path) -> Iterator[Skill]:
    """The skills in the folders of a folder, by name."""
    if not parent.is_dir():
        raise DocumentError(f"There is no folder {str(parent)!r} with skills in it.")
    folders = sorted(each for each in parent.iterdir() if (each / SKILL_FILE).is_file())
    for folder in islice(folders, _MOST_FOLDERS):
        try:
            skill, warnings = scanned(folder)
        except DocumentError as error:
            _log.warning("A skill is left out: %s", error)
            continue
        _warn(warnings)
        yield skill
    if len(folders) > _MOST_FOLDERS:
        _log.warning("%s has %s skills; those after the first %s are left out.", parent, len(folders), _MOST_FOLDERS)


def _trusted(skills: Iterable[Skill], trust: SkillTrust) -> Iterator[Skill]:
    for each in skills:
        try:
            found = trust.trusted(each.folder)
        except DocumentError as error:
            _log.warning("The skill %r is withheld: %s", each.name, error)
            continue
        if found:
            yield replace(each, fingerprint=found)
        else:
            _log.warning(
                "The skill %r is withheld until somebody trusts it as it is now: goalport skills trust %s",
                each.name,
                shlex.quote(str(each.folder)),
            )


def _firsts(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """The first skill of each name."""
    found: dict[str, Skill] = {}
    for each in skills:
        found.setdefault(each.name.lower(), each)
    return tuple(found.values())


def _warn_of_doubles(before: Sequence[Skill], added: Iterable[Skill]) -> None:
    first = {each.name.lower(): each for each in reversed(before)}
    for each in added:
        other = first.setdefault(each.name.lower(), each)
        if other.folder != each.folder:
            _log.warning("The skill %r in %s is left out: there is one in %s.", each.name, each.folder, other.folder)


def _fits(skills: Sequence[Skill]) -> bool:
    return sum(len(each.name) + len(each.description) + len("- : \n") for each in skills) <= _BUDGET


def _warn(warnings: Iterable[str]) -> None:
    for each in warnings:
        _log.warning("%s", each)
