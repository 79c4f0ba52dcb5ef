"""Each command and each link of the documents leads somewhere."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from goalport.cli.program import app
from tests.docs.fences import DOCUMENTS, ROOT, Fence, all_fences

BETWEEN = {"|", "||", "&&", ";", "&"}
PROGRAMS = {"goalport", ".venv/bin/goalport", "/opt/goalport/bin/goalport"}


def commands(fence: Fence) -> Iterator[list[str]]:
    """The commands of a shell fence, split into words; comments, variables and prompts are left out."""
    for line in fence.text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        reader = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;")
        reader.whitespace_split = True
        for word in [*reader, ";"]:
            if word not in BETWEEN:
                words.append(word)
            elif words:
                yield words
                words = []


def own(words: list[str]) -> list[str]:
    """A command of goalport without what runs it, as somebody else or in a container, and without what it reads."""
    if "<" in words:
        words = words[: words.index("<")]
    if words[0] in {"sudo", "uvx", "docker"}:
        places = [number for number, word in enumerate(words[:-1]) if word in PROGRAMS]
        return words[places[-1] :] if places else words
    return words


def shell() -> list[Fence]:
    return all_fences("sh", "bash", "shell", "console")


@pytest.mark.parametrize("fence", shell(), ids=str)
def test_every_goalport_command_is_one_with_these_options(fence: Fence) -> None:
    for words in map(own, commands(fence)):
        if words[0] in PROGRAMS:
            try:
                app.parse_args(words[1:], exit_on_error=False, print_error=False)
            except CycloptsError as error:
                pytest.fail(f"{fence}: {shlex.join(words)}: {error}")


@pytest.mark.parametrize("fence", shell(), ids=str)
def test_every_make_target_is_there(fence: Fence) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for words in commands(fence):
        if words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= targets, shlex.join(words)


def prose(path: Path) -> str:
    """A document without its fences."""
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The names by which links reach the headings of a document, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file_and_its_heading(document: str) -> None:
    here = ROOT / document
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(here)):
        path, _, anchor = target.partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        there = here.parent / path if path else here
        assert there.exists(), f"{document} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{document} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_fence_says_what_it_holds(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    opening = re.findall(r"^```(.*)$", text, re.MULTILINE)[::2]

    assert all(opening), f"{document} has a fence without a language; text is one"
