"""Rules about what is shipped and how it is set up: the wheel, the lock files, the version, the documented commands."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.tree import LIBRARY

GUIDE_LINES = 100
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)( ; .+)?( --hash=sha256:[0-9a-f]{64})+$")


def wheel_contents(root: Path, names: Iterable[str]) -> Iterator[str]:
    """Complaints about the file names in a wheel: it brings one package, all of it, its licence, and nothing else."""
    found = set(names)
    yield from (
        f"{name}: a wheel of ours contains goalport/ and its own metadata only"
        for name in sorted(found)
        if not re.match(r"goalport/|goalport-[^/]+\.dist-info/", name)
    )
    folder = root / LIBRARY
    wanted = {
        f"goalport/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {"goalport/py.typed"}
    yield from (f"{name}: missing from the wheel" for name in sorted(wanted - found))
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in found):
        yield "LICENSE: missing from the wheel"


def locks_pin_with_hashes_and_no_address(root: Path) -> Iterator[str]:
    """An address in a lock file would make it a file of one company's network; hashes say what came, wherever from."""
    for lock in _requirement_locks(root):
        for line in _logical_lines(lock):
            if not PIN.match(line):
                yield f"{lock.relative_to(root).as_posix()}: expected name==version with hashes, found {line[:80]!r}"
    for lock in (path for path in root.glob("tests/**/package-lock.json") if "node_modules" not in path.parts):
        if '"resolved"' in lock.read_text("utf-8"):
            yield f"{lock.relative_to(root).as_posix()}: names addresses; lock with omit-lockfile-registry-resolved"


def locks_agree(root: Path) -> Iterator[str]:
    """requirements.lock has what goalport needs, requirements-dev.lock has that and the tools, at the same versions."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    runtime, dev = (_pins(root / f"requirements{kind}.lock") for kind in ("", "-dev"))
    needed = pyproject["project"]["dependencies"]
    for name, wanted, pins in (("", needed, runtime), ("-dev", [*needed, *_group(pyproject, "dev")], dev)):
        for requirement in map(Requirement, wanted):
            version = pins.get(canonicalize_name(requirement.name))
            if version is None or not requirement.specifier.contains(version, prereleases=True):
                yield f"requirements{name}.lock: has {version}, pyproject.toml wants {requirement}; run make lock"
    for name, version in runtime.items():
        if dev.get(name) != version:
            yield f"requirements-dev.lock: {name} {dev.get(name)}, but {version} in requirements.lock; run make lock"


def _group(pyproject: dict[str, Any], name: str) -> Iterator[str]:
    for each in pyproject["dependency-groups"][name]:
        if isinstance(each, str):
            yield each
        else:
            yield from _group(pyproject, each["include-group"])


def _requirement_locks(root: Path) -> list[Path]:
    return sorted([*root.glob("requirements*.lock"), *root.glob("tests/clients/*.lock")])


def _pins(lock: Path) -> dict[str, str]:
    pins = filter(None, map(PIN.match, _logical_lines(lock)))
    return {canonicalize_name(pin["name"]): pin["version"] for pin in pins}


def _logical_lines(lock: Path) -> list[str]:
    joined = re.sub(r" *\\\n *", " ", lock.read_text("utf-8"))
    return [line for line in joined.splitlines() if line and not line.lstrip().startswith("#")]


def version_and_changelog_agree(root: Path) -> Iterator[str]:
    source = (root / LIBRARY / "__init__.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    newest = re.search(r"^## \[(.+?)\]", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if not (version and newest and version[1] == newest[1]):
        yield f"__version__ is {version and version[1]}, the top of CHANGELOG.md is {newest and newest[1]}"


def documented_commands_exist(root: Path) -> Iterator[str]:
    """Each `make …` that a page shows is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md")]:
        for shown in re.findall(r"(?:`|^ *(?:\$ )?)make ([a-z]+)", page.read_text("utf-8"), re.MULTILINE):
            if shown not in targets:
                yield f"{page.relative_to(root).as_posix()}: shows `make {shown}`, which the Makefile does not have"


def the_guide_for_contributors_names_files_that_are_there(root: Path) -> Iterator[str]:
    """Its map of typical changes is worth something only as long as its paths are; a path in <> is one to make."""
    for number, line in enumerate((root / "CONTRIBUTING.md").read_text("utf-8").splitlines(), start=1):
        for path in re.findall(r"`([\w.-]+/[\w./-]*)`", line):
            if not any((root / folder / path).exists() for folder in ("", LIBRARY)):
                yield f"CONTRIBUTING.md:{number}: there is no {path} here or in {LIBRARY}"


def the_guide_for_contributors_is_short(root: Path) -> Iterator[str]:
    lines = len((root / "CONTRIBUTING.md").read_text("utf-8").splitlines())
    if lines >= GUIDE_LINES:
        yield f"CONTRIBUTING.md: {lines} lines, fewer than {GUIDE_LINES} are read"
