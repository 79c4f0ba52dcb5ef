"""Skills as a reference: a model sees their names and descriptions, and activates a skill when it needs it.

User guide, section 3.25; https://agentskills.io. Each request gets new tools, so a tool that a model unlocks by
activating a skill is unlocked in that conversation only. MCP clients get skills by the Skills extension (SEP-2640):
each file is a resource, and a skill's entry has the head of its SKILL.md, and digest and size of each file. A skill is
not offered to clients if it breaks a rule of agentskills.io, or is larger than clients must accept. Below: `skill`.
Above: `ai` puts the notes into the system prompt and offers the tools.
"""

import json
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
from hashlib import sha256
from itertools import accumulate, islice
from mimetypes import guess_type
from operator import mul
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Any, Final, Literal, Protocol, Self, cast
from urllib.parse import quote, unquote

import anyio
from anyio import to_thread
from pydantic_core import to_jsonable_python

from goalport.base.caller import Caller
from goalport.base.errors import DocumentError, ToolError
from goalport.base.secrecy import hide
from goalport.base.words import cleaned, folded, listed, offer
from goalport.knowledge.documents import (
    Folder,
    FolderLimits,
    GitHubArchives,
    GitHubPlace,
)
from goalport.knowledge.documents.refresh import RefreshedSource, RefreshPolicy
from goalport.knowledge.skills.skill import (
    RESOURCE_TYPES,
    SKILL_FILE,
    Skill,
    SkillTrust,
    check_unchanged,
    scanned,
    skill_folder,
    skill_text,
)
from goalport.models.prompts import as_data
from goalport.tools import (
    ListedResource,
    Parameter,
    Permission,
    ReadResource,
    ResourcePage,
    ResourceTemplate,
    Tool,
    ToolGroup,
    ToolResult,
    tools_of,
)

_log = logging.getLogger(__name__)
_MARKDOWN: Final = "text/markdown"
_SERVED_NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_SERVED_FILES: Final = 512
_MOST_BYTES: Final = 16 * 1024 * 1024
"""The limits of the Skills extension for one skill."""


@dataclass(frozen=True, slots=True)
class PublishedSkills:
    """Skills for MCP clients: the tools, and the files as resources. It is a `ResourceProvider` of `tools`."""

    name: str
    description: str
    namespace: str
    offered: tuple[Tool, ...]
    load: Callable[[], Awaitable[Sequence[Skill]]]
    """Returns the skills, after fetching those that are not here yet."""
    _left_out: set[str] = field(default_factory=set[str], init=False, repr=False)
    """The names of skills that are not offered to clients, so that each is logged once."""

    def tools(self) -> Sequence[Tool]:
        return self.offered

    def templates(self) -> Sequence[ResourceTemplate]:
        words = f"{self.description}: a file of a skill, such as {SKILL_FILE}, its instructions."
        return [ResourceTemplate(uri=f"{self.namespace}{{name}}/{{+path}}", name=self.name, description=words)]

    async def list_resources(self, _caller: Caller, /, *, limit: int, after: str = "") -> ResourcePage:
        """The SKILL.md of each skill, by name. Clients find the other files in the entries."""
        found, end = await self._page(limit, after)
        resources = [
            ListedResource(
                uri=each.uri(SKILL_FILE),
                name=each.skill.name,
                description=each.skill.description,
                media_type=_MARKDOWN,
                size=each.sizes[SKILL_FILE],
            )
            for each in found
        ]
        return ResourcePage(resources, end)

    async def read_resource(self, uri: str, _caller: Caller, /) -> ReadResource | None:
        """A file of a skill: UTF-8 as text, anything else as bytes; None: there is no such file."""
        skill, path = await self._at(uri)
        if skill is None or path not in skill.sizes:
            return None
        content = await to_thread.run_sync(skill.folder.content, path)
        media = _MARKDOWN if path.endswith(".md") else guess_type(path)[0]
        if b"\0" not in content:
            with suppress(UnicodeDecodeError):
                return ReadResource(content=content.decode(), media_type=media or "text/plain")
        return ReadResource(content=content, media_type=media or "application/octet-stream")

    async def complete(self, variable: str, typed: str, given: Mapping[str, str], _caller: Caller, /) -> Sequence[str]:
        """Completions of `name` (skills) and of `path` (files of the skill that `given` names)."""
        values: Iterable[str] = ()
        if variable == "name":
            values = sorted(each.name for each in await self.load())
        elif variable == "path":
            skill, _ = await self._at(f"{self.namespace}{quote(given.get('name', ''))}/")
            values = skill.sizes if skill is not None else ()
        return [each for each in values if each.startswith(typed)]

    async def skill_entries(self, *, limit: int, after: str = "") -> tuple[Sequence[Mapping[str, Any]], str]:
        """The entries of at most `limit` skills, and the value of `after` for the next page; empty: there is none."""
        found, end = await self._page(limit, after)
        entries = [await to_thread.run_sync(each.entry) for each in found]
        return [each for each in entries if each is not None], end

    async def skill_entry(self, uri: str, /) -> Mapping[str, Any] | None:
        """The entry of the skill whose SKILL.md has this URI; None: there is no such skill."""
        skill, path = await self._at(uri)
        return None if skill is None or path != SKILL_FILE else await to_thread.run_sync(skill.entry)

    async def _page(self, limit: int, after: str) -> tuple[list["_Servable"], str]:
        later = sorted((each for each in await self.load() if each.name > after), key=lambda each: each.name)
        page, found = later[:limit], list[_Servable]()
        for each in page:
            try:
                found.append(await to_thread.run_sync(_servable, each, self.namespace))
            except DocumentError as reason:
                if each.name not in self._left_out:
                    self._left_out.add(each.name)
                    _log.warning("The skill %r in %s is not given to clients: %s", each.name, each.folder, reason)
        return found, page[-1].name if len(later) > limit else ""

    async def _at(self, uri: str) -> tuple["_Servable | None", str]:
        """The skill that a URI names, and the path in it; None: clients cannot get such a skill."""
        name, _, path = uri.removeprefix(self.namespace).partition("/")
        found = next((each for each in await self.load() if each.name == unquote(name)), None)
        if found is not None:
            with suppress(DocumentError):
                return await to_thread.run_sync(_servable, found, self.namespace), unquote(path)
        return None, ""


@dataclass(frozen=True, slots=True)
class _Servable:
    """The present state of a skill that clients can get."""

    skill: Skill
    namespace: str
    head: Mapping[str, object]
    """The head of its SKILL.md as JSON data."""
    folder: Folder
    sizes: Mapping[str, int]
    """The size of each file by its path, sorted."""

    def uri(self, path: str) -> str:
        return f"{self.namespace}{self.skill.name}/{quote(path)}"

    def entry(self) -> Mapping[str, Any] | None:
        """The entry of the Skills extension: the head, and URI, digest and size of each file, to verify downloads.

        None if a file does not exist any more.
        """
        resources: list[Mapping[str, Any]] = []
        try:
            for path in self.sizes:
                content = self.folder.content(path)
                digest = f"sha256:{sha256(content).hexdigest()}"
                resources.append({"uri": self.uri(path), "digest": digest, "size": len(content)})
        except DocumentError:
            return None
        return {"uri": self.uri(SKILL_FILE), "frontmatter": self.head, "resources": resources}


def _servable(skill: Skill, namespace: str) -> _Servable:
    """The present state of a skill. Raises `DocumentError` with the reason if clients cannot get it."""
    check_unchanged(skill)
    folder, text = Folder(skill.folder, FolderLimits(file_bytes=_MOST_BYTES)), skill_text(skill.folder)
    try:
        head = json.loads(json.dumps(to_jsonable_python(text.fields), allow_nan=False))
        sizes = {path: folder.resolve(path).stat().st_size for path in folder.all_files()}
        "".join(sizes).encode()
    except OSError as error:
        raise DocumentError(f"Not all of its files can be read ({error.strerror}).") from error
    except ValueError as error:
        raise DocumentError("Its head has values, or its files have names, that JSON cannot express.") from error
    if SKILL_FILE not in sizes:
        raise DocumentError(f"Its {SKILL_FILE} is not there any more.")
    if not _SERVED_NAME.fullmatch(skill.name) or text.fields.get("name") != skill.name or text.quoted:
        raise DocumentError(f"It breaks a rule of agentskills.io; `goalport skills check {skill.folder}` says which.")
    if len(sizes) > _MOST_SERVED_FILES or sum(sizes.values()) > _MOST_BYTES:
        raise DocumentError(f"It has more than {_MOST_SERVED_FILES:,} files or {_MOST_BYTES:,} bytes.")
    return _Servable(skill, namespace, head, folder, sizes)


Embed = Callable[..., Awaitable[Sequence[Sequence[float]]]]
"""Returns one vector for each text, as `ai.embed` does."""
PROJECT_FOLDERS: Final = (".agents/skills", ".claude/skills")
"""Where projects keep skills. If both folders have a skill of one name, the first folder's is used."""
_WORD: Final = re.compile(r"[^\W_]{2,}")
_STEM: Final = 5
"""Words are compared by this many first letters, so that `reports` and `reporting` are equal."""
_ENTRY: Final = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
"""An entry of `allowed-tools`, such as `Bash(git:*)`; they are separated by spaces or commas."""
_MOST_FILES: Final = 200
_MOST_FOUND: Final = 10
_MOST_FOLDERS: Final = 2_000
_LONGEST: Final = 100_000
"""Characters of instructions or of a file."""
_BUDGET: Final = 6_000
"""Most characters of names and descriptions in the prompt: about 1,500 tokens."""
_ADVICE: Final = "Before you do what a skill is for, call `activate` with its name, and follow its instructions."


def _by_words(skills: Sequence[Skill], text: str) -> list[Skill]:
    """The skills that share words with a text, best first. A word that few skills have counts more."""

    def words(text: str) -> list[str]:
        return [each[:_STEM] for each in _WORD.findall(folded(text))]

    wanted = set(words(text))
    own = [Counter(words(f"{each.name} {each.name} {each.description}")) for each in skills]
    spread = Counter(word for each in own for word in each)
    weights = {word: math.log(1 + len(skills) / spread[word]) for word in wanted if word in spread}
    return _best(skills, [sum(weights[word] * math.sqrt(each[word]) for word in weights) for each in own])


async def _by_meaning(
    skills: Sequence[Skill], text: str, embed: Embed, known: dict[str, Sequence[float]]
) -> list[Skill]:
    """The skills whose vectors are similar to that of a text, best first. `known` caches vectors of descriptions."""
    written = [f"{each.name}: {each.description}" for each in skills]
    missing = [each for each in dict.fromkeys(written) if each not in known]
    wanted, *found = await embed(text, *missing)
    known.update(zip(missing, found, strict=True))
    vectors = [known[each] for each in written]
    products = (sum(map(mul, wanted, each)) / (math.hypot(*wanted) * math.hypot(*each) or 1) for each in vectors)
    return _best(skills, [*products])


def _best(skills: Sequence[Skill], scores: Sequence[float]) -> list[Skill]:
    numbers = [number for number, score in enumerate(scores) if score > 0]
    return [skills[number] for number in sorted(numbers, key=lambda number: -scores[number])]


@dataclass(slots=True)
class _Activation:
    """The tools that activate skills in one conversation, and the locked tools that were unlocked there."""

    load: Callable[[], Awaitable[Sequence[Skill]]]
    """Returns the skills, after fetching those that are not here yet."""
    locked: Sequence[Tool] = ()
    """Tools that can be called only after a skill that allows them was activated."""
    _allowed: set[str] = field(default_factory=set[str], init=False)
    """The names of the tools that activated skills allow."""

    def tools(self, *, find: bool) -> Iterator[Tool]:
        """The tools. `find`: whether to include `findSkills`, because the notes cannot describe all skills."""
        skill = Parameter("skillName", str, "The name of the skill.")
        kind = Parameter("resourceType", Literal["scripts", "references", "assets"], "The kind of files.")
        file = Parameter("fileName", str, "The path of the file, as listResources gives it.")
        name = Parameter("name", str, "The name of the skill.")
        query = Parameter("query", str, "What you want to do, in words.")
        table: list[tuple[Callable[..., Any], str, str, list[Parameter]]] = [
            (self._activate, "activate", "Get the instructions of a skill, before you do what it is for.", [name]),
            (self._list, "listResources", "List the files of a skill: scripts, references or assets.", [skill, kind]),
            (self._read, "readResource", "Read a file of a skill.", [skill, kind, file]),
            (self._find, "findSkills", "Find the skills that fit a task, with their descriptions.", [query]),
        ]
        for function, tool, description, parameters in table if find else table[:-1]:
            made = Tool.of(function, name=tool, description=description, parameters=parameters)
            yield replace(made, read_only=True, destructive=False, idempotent=True, open_world=False)
        for each in self.locked:
            unlocked = partial(self._unlocked, each.name)
            yield replace(each.with_layer(unlocked), withheld=lambda tool=each.name: tool not in self._allowed)

    async def _activate(self, given: Mapping[str, Any]) -> str:
        return await to_thread.run_sync(self._instructions, _named(await self.load(), given["name"]))

    def _instructions(self, skill: Skill) -> str:
        check_unchanged(skill)
        text = skill_text(skill.folder)
        said = text.fields.get("allowed-tools")
        listed_ones = cast("list[object]", said) if isinstance(said, list) else []
        entries = _ENTRY.findall(said) if isinstance(said, str) else [*map(str, listed_ones)]
        own = {each.name for each in self.locked}
        unlocked = [each for each in entries if each in own]
        self._allowed.update(unlocked)
        lines = [f'<skill name="{skill.name}">', cleaned(text.instructions, _LONGEST), "</skill>"]
        if compatibility := text.text("compatibility"):
            lines.append(f"It requires: {compatibility}")
        if files := _files(skill, *RESOURCE_TYPES):
            lines.append(f"Its files: {listed(files, _MOST_FILES)}. Read them with readResource where they are needed.")
        if unlocked:
            lines.append(f"From now on you can call the tools that it allows: {listed(unlocked)}.")
        if others := [each for each in entries if each not in own]:
            lines.append(f"It allows tools that are not among those of the skills here: {listed(others)}.")
        return "\n".join(lines)

    async def _list(self, given: Mapping[str, Any]) -> str:
        skill, kind = _named(await self.load(), given["skillName"]), given["resourceType"]
        found = await to_thread.run_sync(_files, skill, kind)
        names = (each.removeprefix(f"{kind}/") for each in found)
        return "\n".join(names) if found else f"The skill {skill.name!r} has no {kind}."

    async def _read(self, given: Mapping[str, Any]) -> str:
        skill, kind = _named(await self.load(), given["skillName"]), given["resourceType"]
        name = given["fileName"].removeprefix(f"{kind}/")

        def read() -> str:
            check_unchanged(skill)
            folder = skill_folder(skill.folder)
            try:
                folder.resolve(f"{kind}/{name}")
            except DocumentError:
                files = [each.removeprefix(f"{kind}/") for each in _files(skill, kind)]
                known = offer(name, files, none=f"It has no {kind}.")
                raise ToolError(f"There is no {name!r} in the {kind} of {skill.name!r}. {known}") from None
            return cleaned(folder.text(f"{kind}/{name}"), _LONGEST)

        return as_data(await to_thread.run_sync(read), f"{skill.name}/{kind}/{name}")

    async def _find(self, given: Mapping[str, Any]) -> str:
        found = _by_words(await self.load(), given["query"])[:_MOST_FOUND]
        if not found:
            return "No skill has these words in its name or description. Try other words."
        return "\n".join(f"- {each.name}: {each.description}" for each in found)

    async def _unlocked(self, name: str, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
        """Call a locked tool if a skill allows it. `name` is the tool's name without the prefix of the reference."""
        if name in self._allowed:
            return await tool.call(arguments)
        return ToolResult.of_error(
            f"{tool.name!r} can be called only after a skill was activated that allows it. Activate the skill for your "
            "task first, or do without the tool."
        )


def _named(skills: Sequence[Skill], name: str) -> Skill:
    """The skill with a name, ignoring case, and `_` for `-`. Raises `ToolError` if there is none."""
    plain = {each.name.strip().lower().replace("_", "-"): each for each in reversed(skills)}
    if found := plain.get(name.strip().lower().replace("_", "-")):
        return found
    raise ToolError(f"There is no skill {name!r}. {offer(name, [each.name for each in skills])}")


def _files(skill: Skill, *kinds: str) -> list[str]:
    folder = skill_folder(skill.folder)
    return [each for kind in kinds for each in sorted(folder.files(f"{kind}/*"))][:_MOST_FILES]


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
    """What it wrote to stdout and stderr, in one text and in order."""


class ScriptRunner(Protocol):
    """Runs scripts of skills. A user may implement it, for example to run them in a container."""

    async def run(self, script: Path, arguments: Sequence[str], skill: Path) -> ScriptResult:
        """Run a script with arguments. `skill` is the folder of its skill; both paths are absolute.

        Raises `ToolError` if the script cannot be run.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChildProcessRunner:
    """Runs scripts as child processes, in an empty folder or in `folder`."""

    seconds: float = 60.0
    """Seconds after which a script is killed, with the processes that it started."""
    output_characters: int = 20_000
    """Most characters of output; the rest is dropped."""
    environment: Sequence[str] = _ENVIRONMENT
    """Names of the environment variables that a script gets; by default none that has keys or passwords."""
    interpreters: Mapping[str, Sequence[str]] = field(default_factory=lambda: dict(_INTERPRETERS))
    """The command that runs a script, by the suffix of its name. Scripts with other suffixes are refused."""
    folder: Path | None = None
    """The folder in which scripts run; None: an empty one that is removed afterwards."""

    async def run(self, script: Path, arguments: Sequence[str], skill: Path) -> ScriptResult:
        interpreter = self.interpreters.get(script.suffix.lower())
        if interpreter is None:
            known = ", ".join(self.interpreters)
            raise ToolError(f"{script.name!r} cannot be run: expected a script that ends with one of {known}.")
        variables = {name: os.environ[name] for name in self.environment if name in os.environ}
        with tempfile.TemporaryDirectory(prefix="goalport-script-", ignore_cleanup_errors=True) as empty:
            try:
                process = await anyio.open_process(
                    [*interpreter, str(script), *arguments],
                    stdin=DEVNULL,
                    stdout=PIPE,
                    stderr=STDOUT,
                    cwd=self.folder or empty,
                    env={**variables, "SKILL_FOLDER": str(skill)},
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise ToolError(f"{script.name!r} cannot be run: {error}.") from error
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


@dataclass(frozen=True, slots=True, eq=False)
class Skills:
    """A reference to skills: `Skills("finance", "Financial analysis").with_local_skills("skills")`.

    It is immutable: each `with_*` returns a copy. If two skills have the same name, the first is used. Skills on GitHub
    are fetched when `refresh` is called or a tool needs them.
    """

    name: str
    description: str
    archives: GitHubArchives = field(default_factory=GitHubArchives, repr=False)
    skills: tuple[Skill, ...] = ()
    """The skills in local folders."""
    locked: tuple[Tool, ...] = field(default=(), repr=False)
    """Tools that can be called only after a skill that allows them was activated."""
    sources: tuple[RefreshedSource[tuple[Skill, ...]], ...] = ()
    """The repositories on GitHub from which further skills are fetched."""
    most: int = 0
    """How many skills are chosen for a question; 0: all are offered."""
    _vectors: dict[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]], repr=False)

    def with_local_skill(self, directory: str | Path) -> Self:
        """A copy with the skill in a folder. Raises `DocumentError` if the folder has no skill that can be used."""
        return self._plus([scanned(Path(directory).absolute())])

    def with_local_skills(self, parent: str | Path) -> Self:
        """A copy with the skills in the direct subfolders of `parent`. Skills that cannot be used are logged.

        Raises `DocumentError` if `parent` does not exist.
        """
        return self._plus(skills_in(Path(parent).absolute()))

    def with_project_skills(self, project: str | Path, trust: SkillTrust | None = None) -> Self:
        """A copy with the trusted skills in `.agents/skills` and `.claude/skills` of a project.

        Skills that are not trusted are withheld. A warning in the log says how to trust them.
        """
        folders = [Path(project).absolute() / each for each in PROJECT_FOLDERS]
        trust, trusted = trust or SkillTrust(), list[Skill]()
        until = "The skill %r is withheld until somebody trusts it as it is now: goalport skills trust %s"
        for each in [skill for folder in folders if folder.is_dir() for skill in skills_in(folder)]:
            try:
                if found := trust.trusted(each.folder):
                    trusted.append(replace(each, fingerprint=found))
                else:
                    _log.warning(until, each.name, shlex.quote(str(each.folder)))
            except DocumentError as error:
                _log.warning("The skill %r is withheld: %s", each.name, error)
        return self._plus(trusted)

    def with_github_url(self, url: str, *, expected: str = "") -> Self:
        """A copy with the skills of a repository: `https://github.com/OWNER/REPOSITORY/tree/BRANCH/FOLDER`.

        FOLDER is a skill, or has skills in its subfolders. `expected` is the commit or the content hash that the
        repository must have; if empty, the first fetch pins the commit. Raises `DocumentError` for another URL.
        """
        return self._with_place(GitHubPlace.of_url(url), expected)

    def with_github_skills(
        self, owner: str, repo: str, path: str = "", branch: str = "HEAD", *, expected: str = ""
    ) -> Self:
        """Like `with_github_url`, with the parts of the URL. `branch` may also be a tag or a commit."""
        return self._with_place(GitHubPlace(owner, repo, branch, path), expected)

    def _with_place(self, place: GitHubPlace, expected: str) -> Self:
        async def fetch() -> tuple[Skill, ...]:
            folder = (await self.archives.get(place, expected=expected)).folder
            return await to_thread.run_sync(
                lambda: (scanned(folder),) if (folder / SKILL_FILE).is_file() else tuple(skills_in(folder))
            )

        source = RefreshedSource(str(place), RefreshPolicy.never(), fetch)
        return replace(self, sources=(*self.sources, source))

    def with_tools(self, *objects: object) -> Self:
        """A copy with tools that skills may use: each is locked until an active skill names it in `allowed-tools`."""
        return replace(self, locked=(*self.locked, *tools_of(*objects)))

    def choosing(self, most: int = 10) -> Self:
        """A copy that offers each request at most `most` skills: those whose words fit the question best."""
        return replace(self, most=most)

    async def for_question(self, question: str, /) -> Self:
        """A copy with the skills that fit a question; itself, if all are offered. `Ai` calls it for each request."""
        return await self.chosen_for(question, most=self.most) if self.most else self

    async def refresh(self, *, retry_cancelled: bool = False) -> None:
        """Fetch the skills on GitHub that are not here yet. The notes report what cannot be fetched.

        `retry_cancelled`: also fetch at once what an earlier call has begun to fetch before it was cancelled.
        """
        for source in self.sources:
            before, is_new = self._known(), source.value is None
            await source.refresh(retry_cancelled=retry_cancelled)
            if is_new and source.value is not None:
                _unique(before, source.value)  # for its warnings of skills that are left out

    async def all(self) -> tuple[Skill, ...]:
        """All skills, after fetching those on GitHub."""
        await self.refresh(retry_cancelled=True)
        return self._known()

    async def chosen_for(self, text: str, embed: Embed | None = None, most: int = 10) -> Self:
        """A copy with the skills that fit a text best: by words, or by meaning with `embed=ai.embed`.

        If none fits, all are kept. Use it before a request if there are too many skills to have the descriptions of
        all in every prompt.
        """
        skills = await self.all()
        found = _by_words(skills, text) if embed is None else await _by_meaning(skills, text, embed, self._vectors)
        return replace(self, skills=tuple(found[:most]) or skills, sources=())

    def notes(self) -> str:
        skills, lines = self._known(), [_ADVICE]
        if not skills:
            lines.append("There are no skills yet.")
        elif not self._offers_search:
            lines.extend(f"- {each.name}: {each.description}" for each in skills)
        else:
            lengths = accumulate(len(each.name) + len(", ") for each in skills)
            names = [each.name for each, length in zip(skills, lengths, strict=True) if length <= _BUDGET]
            more = f" and {len(skills) - len(names)} more" if len(names) < len(skills) else ""
            lines.append(f"`findSkills` describes those that fit a task. There are: {', '.join(names)}{more}.")
        waiting = [each.name for each in self.sources if each.value is None]
        if waiting:
            lines.append(f"Those of {listed(waiting)} are not fetched yet; `activate` fetches them.")
        return "\n".join((*lines, *(each.failure for each in self.sources if each.failure)))

    def tools(self) -> Sequence[Tool]:
        """New tools, with nothing unlocked, for one request to a model."""
        return tuple(_Activation(self.all, self.locked).tools(find=self._offers_search))

    def as_published(self) -> PublishedSkills:
        """The skills for MCP clients: as resources, and with tools that read them.

        Locked tools are left out, since a tool that one client unlocks would be unlocked for all.
        """
        offered = tuple(_Activation(self.all).tools(find=self._offers_search))
        # In lower case, since parsers of URIs may take this part for a host name.
        namespace = f"skill://{quote(self.name.lower(), safe='')}/"
        return PublishedSkills(self.name, self.description, namespace, offered, self.all)

    def script_group(self, runner: ScriptRunner, role: str = "skill-scripts") -> ToolGroup:
        """A tool group whose tool `runScript` runs scripts of these skills. A person has to approve each call."""
        parameters = (
            Parameter("skillName", str, "The name of the skill."),
            Parameter("fileName", str, "The path of the script in the folder `scripts` of the skill."),
            Parameter("arguments", list[str], "The arguments of the script.", required=False, default=[]),
        )

        async def run(given: Mapping[str, Any]) -> ToolResult:
            skill = _named(await self.all(), given["skillName"])
            await to_thread.run_sync(check_unchanged, skill)
            script = skill_folder(skill.folder).resolve(f"scripts/{given['fileName'].removeprefix('scripts/')}")
            result = await runner.run(script, given.get("arguments") or [], skill.folder)
            if result.exit_code:
                return ToolResult.of_error(f"The script ended with {result.exit_code}.\n{result.output}".strip())
            return ToolResult.of_text(result.output or "The script wrote nothing.")

        about = "Run a script of a skill and get its output."
        tool = Tool.of(run, name="runScript", description=about, parameters=parameters)
        description, permissions = f"Runs scripts of the skills {self.name!r}", [Permission.HOST_ACCESS]
        return ToolGroup.of(role, tool, description=description, permissions=permissions, approve="always")

    @property
    def _offers_search(self) -> bool:
        """Whether `findSkills` is offered, because the descriptions are too long for the notes."""
        return sum(len(each.name) + len(each.description) + len("- : \n") for each in self._known()) > _BUDGET

    def _known(self) -> tuple[Skill, ...]:
        fetched = [skill for source in self.sources for skill in source.value or ()]
        return _unique(self.skills, fetched, warn=False)

    def _plus(self, skills: Iterable[Skill]) -> Self:
        return replace(self, skills=_unique(self.skills, skills))


def skills_in(parent: Path) -> Iterator[Skill]:
    """The skills in the direct subfolders of a folder, by name. Raises `DocumentError` if the folder does not exist."""
    if not parent.is_dir():
        raise DocumentError(f"There is no folder {str(parent)!r} with skills in it.")
    folders = sorted(each for each in parent.iterdir() if (each / SKILL_FILE).is_file())
    for folder in islice(folders, _MOST_FOLDERS):
        try:
            yield scanned(folder)
        except DocumentError as error:
            _log.warning("A skill is left out: %s", error)
    if len(folders) > _MOST_FOLDERS:
        _log.warning("%s has %s skills; those after the first %s are left out.", parent, len(folders), _MOST_FOLDERS)


def _unique(before: Sequence[Skill], added: Iterable[Skill], *, warn: bool = True) -> tuple[Skill, ...]:
    """The first skill of each name. `warn`: log a warning for each skill that is left out."""
    found: dict[str, Skill] = {}
    for each in (*before, *added):
        other = found.setdefault(each.name.lower(), each)
        if warn and other.folder != each.folder:
            _log.warning("The skill %r in %s is left out: there is one in %s.", each.name, each.folder, other.folder)
    return tuple(found.values())
