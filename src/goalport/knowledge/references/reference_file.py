"""References from a file: `references.yml` has a list of entries, each with a type and its properties.

An entry creates a reference, or a contributor to the system prompt, such as a persona. Its type is a built-in one, one
of `LlmReferenceProviders.types`, or the dotted name of a class or function of the user. All mistakes of a file are
reported together, with their lines. Above: a platform reads the file of its workspace, with further types.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final, Protocol, cast, get_type_hints, runtime_checkable

from anyio import to_thread
from pydantic import AfterValidator

from goalport.base.errors import BadInput, DocumentError, SettingsError
from goalport.base.words import error_summary, listed, offer, shown, type_name
from goalport.knowledge.documents import GitHubArchives, RefreshPolicy, WebFetcher, read_yaml
from goalport.knowledge.documents.markdown import LONGEST_YAML
from goalport.knowledge.references.python_api import PythonApi
from goalport.knowledge.references.reference import LlmReference, NamedReferences, Reference, refreshed
from goalport.knowledge.references.texts import (
    GitHubRepository,
    LocalDirectory,
    TextReference,
    file_text,
    package_resource,
    web_page,
)
from goalport.models.prompts import Persona, PromptContributor, RoleGoalBackstory
from goalport.tools import Parameter, snake
from goalport.tools.functions import listed_arguments

_TYPE_KEYS: Final = ("type", "fqn")


def _refresh_time(written: str) -> str:
    RefreshPolicy.of(written)
    return written


Refresh = Annotated[str, AfterValidator(_refresh_time)]


@runtime_checkable
class LlmReferenceProvider(Protocol):
    """A user's class that an entry names as its type. It is instantiated with the properties of the entry."""

    def reference(self) -> LlmReference:
        """The reference."""
        ...


@dataclass(frozen=True, slots=True)
class LlmReferenceProviders:
    """Reads files of references. Each built-in type has a method, whose parameters are the properties of an entry."""

    fetcher: WebFetcher = field(default_factory=WebFetcher)
    archives: GitHubArchives = field(default_factory=GitHubArchives)
    types: Mapping[str, Callable[..., object]] = field(default_factory=dict[str, Callable[..., object]])
    """More types: by name, the class or function that is called with the properties of an entry."""
    folder: Path = Path()
    """The folder to which relative paths refer; `read` uses the folder of the file."""

    async def from_yml(self, path: str | Path) -> tuple[LlmReference, ...]:
        """The references of a file, refreshed and ready for use.

        Raises `SettingsError` with all mistakes of the file. If something cannot be fetched, nothing is raised: the
        notes of that reference say why.
        """
        found = await to_thread.run_sync(self.read, path)
        return await refreshed(*_without_problems(found).values())

    def read(self, path: str | Path) -> NamedReferences:
        """The references and contributors of a file, in its order, and all its mistakes. Nothing is fetched."""
        file = Path(path)
        try:
            with file.open(encoding="utf-8-sig") as opened:
                text = opened.read(LONGEST_YAML + 1)
            document = read_yaml(text, str(path))
        except (OSError, UnicodeError) as error:
            return NamedReferences(problems=(f"{path} cannot be read ({type(error).__name__}: {error}).",))
        except DocumentError as error:
            return NamedReferences(problems=(str(error),))
        written = cast("object", [] if document.value is None else document.value)
        if not isinstance(written, list):
            fix = "Begin each with a dash: `- type: WebPage`."
            expected = f"expected a list of references, but came {shown(written)}. {fix}"
            return NamedReferences(problems=(f"{path}:{document.line()}: {expected}",))
        providers, made, problems = replace(self, folder=file.parent), dict[str, _Made](), list[str]()
        types, published = dict[str, str](), list[LlmReference]()
        for number, each in enumerate(cast("list[object]", written)):
            try:
                found, name, kind, publish = _entry(providers, each)
            except _Mistake as mistake:
                problems += [f"{path}:{document.line(number, key)}: {problem}" for key, problem in mistake.problems]
            except (Exception, SystemExit) as error:
                problems.append(f"{path}:{document.line(number)}: the entry cannot be read: {error_summary(error)}")
            else:
                if name in made:
                    twin = f"another entry is called {name!r} too. Give them different names."
                    problems.append(f"{path}:{document.line(number, 'name')}: {twin}")
                    continue
                made[name], types[name] = found, kind
                if publish and isinstance(found, LlmReference):
                    published.append(found)
        return NamedReferences(
            {name: each for name, each in made.items() if isinstance(each, LlmReference)},
            {name: each for name, each in made.items() if not isinstance(each, LlmReference)},
            types,
            tuple(published),
            tuple(problems),
        )

    def literal_text(self, name: str, description: str, notes: str) -> LlmReference:
        return Reference(name, description, notes)

    def file_text(self, path: str, description: str = "", name: str = "", refresh: Refresh = "never") -> TextReference:
        return file_text(self.folder / path, description, name=name, refresh=refresh)

    def resource(self, resource: str, description: str = "", name: str = "") -> TextReference:
        """A file of an installed package (`my_package:texts/rules.md`), or a path below the folder of the file."""
        if ":" in resource:
            return package_resource(resource, description, name=name)
        return file_text(self.folder / resource, description, name=name)

    def web_page(self, url: str, description: str = "", name: str = "", refresh: Refresh = "never") -> TextReference:
        return web_page(url, description, name=name, refresh=refresh, fetcher=self.fetcher)

    def local_directory(self, path: str, description: str, name: str = "", usage_notes: str = "") -> LocalDirectory:
        return LocalDirectory(self.folder / path, description, name, usage_notes)

    def git_hub_repository(
        self,
        url: str,
        description: str,
        name: str = "",
        ref: str = "",
        refresh: Refresh = "never",
        usage_notes: str = "",
    ) -> GitHubRepository:
        policy = RefreshPolicy.of(refresh)
        return GitHubRepository(url, description, name, ref, policy, self.archives, usage_notes)

    def python_api(
        self, name: str, description: str, accepted_packages: list[str] | None = None, usage_notes: str = ""
    ) -> PythonApi:
        return PythonApi(name, description, accepted_packages or (), usage_notes)


async def references_from_yaml(path: str | Path) -> tuple[LlmReference, ...]:
    """The references of a file, ready for `ai.with_references(*references)`.

    Raises `SettingsError` with all mistakes of the file. To use another fetcher, call `LlmReferenceProviders`.
    """
    return await LlmReferenceProviders().from_yml(path)


def contributors_from_yaml(path: str | Path) -> tuple[PromptContributor, ...]:
    """The personas and other contributors of a file, for `ai.with_prompt_contributors(*contributors)`."""
    return tuple(_without_problems(LlmReferenceProviders().read(path)).contributors.values())


def _without_problems(found: NamedReferences) -> NamedReferences:
    if found.problems:
        raise SettingsError("\n".join(found.problems))
    return found


_TYPES: Final[Mapping[str, str | Callable[..., object]]] = {
    "LiteralText": "literal_text",
    "FileText": "file_text",
    "PackageResource": "resource",
    "SpringResource": "resource",
    "WebPage": "web_page",
    "LocalDirectory": "local_directory",
    "GitHubRepository": "git_hub_repository",
    "PythonApi": "python_api",
    "ApiReferenceProvider": "python_api",
    "Persona": Persona,
    "RoleGoalBackstory": RoleGoalBackstory,
}
"""The built-in types, some also under their names in the guide: a method of `LlmReferenceProviders`, or a class."""


class _Mistake(Exception):
    """What is wrong with an entry: pairs of a key (empty: the whole entry) and a sentence."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__(*problems)
        self.problems = problems


_Made = LlmReference | PromptContributor


def _entry(providers: LlmReferenceProviders, entry: object) -> tuple[_Made, str, str, bool]:
    """The reference or contributor of an entry, its name, its type as written, and whether it is published."""
    if not isinstance(entry, dict):
        raise _Mistake(("", f"expected a reference with a type, but came {shown(entry)}. Write `- type: WebPage`."))
    properties = {str(key): value for key, value in cast("dict[object, object]", entry).items()}
    key = next((each for each in _TYPE_KEYS if each in properties), "")
    written = properties.pop(key, None)
    if not isinstance(written, str):
        known = listed([*_TYPES, *providers.types])
        raise _Mistake((key, f"expected a type, but came {shown(written)}. Known: {known}."))
    publish = properties.pop("publish", False)
    nested = properties.pop("props", None)
    if isinstance(nested, dict):
        properties |= {str(name): value for name, value in cast("dict[object, object]", nested).items()}
    made = _called(written, _maker(providers, written, key), properties)
    found = made.reference() if isinstance(made, LlmReferenceProvider) else made
    if not isinstance(found, LlmReference | PromptContributor):
        fix = "Give it a method `reference`, or let it return an LlmReference or a PromptContributor."
        raise _Mistake((key, f"expected {written} to make a reference, but it made {type_name(type(found))}. {fix}"))
    # A `RoleGoalBackstory` has no name; its role serves as one.
    given: object = getattr(found, "name", None) or getattr(found, "role", None)
    name = given if isinstance(given, str) else ""
    if isinstance(found, LlmReference) and not (name.strip() and name.isprintable()):
        raise _Mistake(("name", f"name: expected a name in one line, but came {shown(name)}."))
    if not isinstance(publish, bool) or (publish and not isinstance(found, LlmReference)):
        expected = "true or false" if isinstance(found, LlmReference) else "nothing, as only references are published"
        raise _Mistake(("publish", f"publish: expected {expected}, but came {shown(publish)}."))
    return found, name or written, written, publish


def _maker(providers: LlmReferenceProviders, written: str, key: str) -> Callable[..., object]:
    """The class or function for a type. A class name of the guide, `com.embabel.….Name`, is looked up as `Name`."""
    short = written.rpartition(".")[2] if written.startswith("com.embabel.") else written
    if short in providers.types:
        return providers.types[short]
    if short in _TYPES:
        known = _TYPES[short]
        return cast("Callable[..., object]", getattr(providers, known)) if isinstance(known, str) else known
    module, _, name = short.rpartition(".")
    if not module or module.startswith("."):
        raise _Mistake((key, f"there is no type {written!r}. {offer(short, [*_TYPES, *providers.types])}"))
    try:
        found: object = getattr(import_module(module), name, None)
    except ImportError as error:
        raise _Mistake((key, f"the module of {written!r} cannot be imported: {error}.")) from error
    if not callable(found):
        raise _Mistake((key, f"{module} has no class or function {name!r}."))
    return found


def _called(written: str, maker: Callable[..., object], properties: Mapping[str, object]) -> object:
    """Call a class or function with the properties of an entry, checked against its signature."""
    hints = get_type_hints(maker.__init__ if isinstance(maker, type) else maker, include_extras=True)
    parameters = [
        Parameter(each.name, hints.get(each.name, object), required=each.default is each.empty, default=None)
        for each in inspect.signature(maker).parameters.values()
        if each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
    ]
    arguments = listed_arguments(written, parameters)
    names = {snake(each): each for each in arguments.names}
    keys = {names.get(snake(each), each): each for each in properties}
    try:
        _, named = arguments.bind({name: properties[key] for name, key in keys.items()})
        return maker(**named)
    except BadInput as error:
        lines = [line.removeprefix("- ") for line in str(error).splitlines()[1:]]
        parts = [(line.partition(":")[0], line) for line in lines]
        raise _Mistake(*((keys.get(name, name), f"{written}: {line}") for name, line in parts)) from error
    except (DocumentError, ValueError, TypeError) as error:
        raise _Mistake(("", f"{written}: {error}")) from error
