"""Skills as clients of a server get them: each file is a resource, and each skill has an entry that lists its files.

An entry is that of the Skills extension of MCP (SEP-2640): the head of the SKILL.md as it stands, and the digest and
size of every file. A skill is left out where it breaks the rules of https://agentskills.io on which clients rely, or
has more files than they have to accept. Below: `skill`. Above: `skills`, and the exports, which publish it.
"""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from mimetypes import guess_type
from typing import Any, Final
from urllib.parse import quote, unquote

from anyio import to_thread
from pydantic_core import to_jsonable_python

from goalport.base.caller import Caller
from goalport.base.errors import DocumentError
from goalport.knowledge.documents import Folder, FolderLimits
from goalport.knowledge.skills.skill import SKILL_FILE, Skill, is_as_trusted, refuse, skill_text
from goalport.tools import ListedResource, ReadResource, ResourcePage, ResourceTemplate, Tool

_log = logging.getLogger(__name__)
_MARKDOWN: Final = "text/markdown"
_NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_FILES: Final = 512
_MOST_BYTES: Final = 16 * 1024 * 1024
"""The limits of the extension for one skill."""


@dataclass(frozen=True, slots=True)
class PublishedSkills:
    """The tools of a reference to skills, and its skills as resources: the `ResourceProvider` of `tools`."""

    name: str
    description: str
    namespace: str
    offered: tuple[Tool, ...]
    load: Callable[[], Awaitable[Sequence[Skill]]]
    """Gives the skills, fetched where that is still to be done."""
    _left_out: set[str] = field(default_factory=set[str], init=False, repr=False)
    """The names of skills that the log says are not given to clients."""

    def tools(self) -> Sequence[Tool]:
        return self.offered

    def templates(self) -> Sequence[ResourceTemplate]:
        words = f"{self.description}: a file of a skill, such as {SKILL_FILE}, its instructions."
        return [ResourceTemplate(uri=f"{self.namespace}{{name}}/{{+path}}", name=self.name, description=words)]

    async def list_resources(self, _caller: Caller, /, *, limit: int, after: str = "") -> ResourcePage:
        """The instructions of the skills, by name; of further files, clients know from the entries."""
        found, end = await self._page(limit, after)
        return ResourcePage(
            [
                ListedResource(
                    uri=self._uri(each, SKILL_FILE),
                    name=each.skill.name,
                    description=each.skill.description,
                    media_type=_MARKDOWN,
                    size=each.sizes[SKILL_FILE],
                )
                for each in found
            ],
            end,
        )

    async def read_resource(self, uri: str, _caller: Caller, /) -> ReadResource | None:
        """A file of a skill as it is: text in UTF-8 as a text, all else as bytes."""
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
        """The names of skills, and the paths of the files of the skill that is given."""
        values: Iterable[str] = ()
        if variable == "name":
            values = sorted(each.name for each in await self.load())
        elif variable == "path" and (skill := await self._named(given.get("name", ""))) is not None:
            values = skill.sizes
        return [each for each in values if each.startswith(typed)]

    async def skill_entries(self, *, limit: int, after: str = "") -> tuple[Sequence[Mapping[str, Any]], str]:
        """The entries of at most `limit` skills, and what the next are asked for with; empty: there are no more."""
        found, end = await self._page(limit, after)
        entries = [await to_thread.run_sync(self._entry, each) for each in found]
        return [each for each in entries if each is not None], end

    async def skill_entry(self, uri: str, /) -> Mapping[str, Any] | None:
        """The entry of the skill whose SKILL.md has this URI; None: there is no such skill."""
        skill, path = await self._at(uri)
        return None if skill is None or path != SKILL_FILE else await to_thread.run_sync(self._entry, skill)

    async def _page(self, limit: int, after: str) -> tuple[list["_Servable"], str]:
        later = sorted((each for each in await self.load() if each.name > after), key=lambda each: each.name)
        page, found = later[:limit], list[_Servable]()
        for each in page:
            try:
                found.append(await to_thread.run_sync(_servable, each))
            except DocumentError as reason:
                if each.name not in self._left_out:
                    self._left_out.add(each.name)
                    _log.warning("The skill %r in %s is not given to clients: %s", each.name, each.folder, reason)
        return found, page[-1].name if len(later) > limit else ""

    async def _at(self, uri: str) -> tuple["_Servable | None", str]:
        """The skill to which a URI leads, and the path in it."""
        name, _, path = uri.removeprefix(self.namespace).partition("/")
        return await self._named(unquote(name)), unquote(path)

    async def _named(self, name: str) -> "_Servable | None":
        for each in await self.load():
            if each.name == name:
                with suppress(DocumentError):
                    return await to_thread.run_sync(_servable, each)
        return None

    def _uri(self, skill: "_Servable", path: str) -> str:
        return f"{self.namespace}{skill.skill.name}/{quote(path)}"

    def _entry(self, skill: "_Servable") -> Mapping[str, Any] | None:
        """What a client needs to know before it reads a file, and to check afterwards that it got the right one.

        None if a file is not there any more.
        """
        resources: list[Mapping[str, Any]] = []
        try:
            for path in skill.sizes:
                content = skill.folder.content(path)
                digest = f"sha256:{sha256(content).hexdigest()}"
                resources.append({"uri": self._uri(skill, path), "digest": digest, "size": len(content)})
        except DocumentError:
            return None
        return {"uri": self._uri(skill, SKILL_FILE), "frontmatter": skill.head, "resources": resources}


@dataclass(frozen=True, slots=True)
class _Servable:
    """A skill that clients can be given, as it is now."""

    skill: Skill
    head: Mapping[str, object]
    """The head of its SKILL.md as JSON data."""
    folder: Folder
    sizes: Mapping[str, int]
    """The size of each file by its path, sorted."""


def _servable(skill: Skill) -> _Servable:
    """A skill as it is now. Raises `DocumentError` with the reason where it cannot be given to clients."""
    folder = Folder(skill.folder, FolderLimits(file_bytes=_MOST_BYTES))
    if not is_as_trusted(skill):
        raise DocumentError("It has changed since it was trusted.")
    text = skill_text(skill.folder)
    try:
        head = json.loads(json.dumps(to_jsonable_python(text.fields), allow_nan=False))
        # An entry has to list all files, so none of them may be overlooked.
        sizes = {path: folder.place(path).stat().st_size for path in sorted(folder.files(onerror=refuse))}
        "".join(sizes).encode()
    except OSError as error:
        raise DocumentError(f"Not all of its files can be read ({error.strerror}).") from error
    except ValueError as error:
        raise DocumentError("Its head has values, or its files have names, that JSON cannot express.") from error
    if SKILL_FILE not in sizes:
        raise DocumentError(f"Its {SKILL_FILE} is not there any more.")
    if not _NAME.fullmatch(skill.name) or text.fields.get("name") != skill.name or text.quoted:
        raise DocumentError(f"It breaks a rule of agentskills.io; `goalport skills check {skill.folder}` says which.")
    if len(sizes) > _MOST_FILES or sum(sizes.values()) > _MOST_BYTES:
        raise DocumentError(f"It has more than {_MOST_FILES:,} files or {_MOST_BYTES:,} bytes.")
    return _Servable(skill, head, folder, sizes)
