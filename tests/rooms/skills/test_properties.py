"""Whatever stands in a SKILL.md or a references.yml: it is read, or refused in a sentence, and nothing else happens."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings, strategies as st

from goalport.base.errors import DocumentError
from goalport.knowledge.documents import read_yaml
from goalport.knowledge.skills import Skills, check_skill

T = TypeVar("T")
PIECES = (
    *("---", "name", "description", ":", ": ", "\n", "\r\n", "  ", "- ", "'", '"', "[", "{", "}", "&a ", "*a", "!!x "),
    *("|", ">", "#", "%", "@", "`", "\t", "\0", "\ufeff", "\ud800", "é", "😀", "2026-13-45", "1e999", "<<", "?", "x"),
)
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=30).map("".join)


@pytest.fixture(scope="module")
def skill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any") / "my-skill"
    folder.mkdir()
    return folder


def attempted(read: Callable[[], T]) -> tuple[T | None, str]:
    """What was read, or why it was refused."""
    try:
        return read(), ""
    except DocumentError as error:
        return None, str(error)


@settings(max_examples=50, deadline=None)
@given(head=TEXTS, body=TEXTS)
def test_any_file_is_a_skill_or_is_refused(skill: Path, head: str, body: str) -> None:
    text = f"---\nname: my-skill\n{head}\n---\n{body}"
    (skill / "SKILL.md").write_bytes(text.encode("utf-8", "surrogatepass"))

    for problem in check_skill(skill):
        assert str(problem).isprintable()
    loaded, refusal = attempted(lambda: Skills("x", "y").with_local_skill(skill))
    assert refusal.startswith(str(skill)) or loaded is not None
    for each in loaded.skills if loaded is not None else ():
        assert each.name
        assert each.description.isprintable()


@settings(max_examples=50, deadline=None)
@given(text=TEXTS)
def test_any_text_is_yaml_or_is_refused(text: str) -> None:
    found, refusal = attempted(lambda: read_yaml(text, "a.yml"))

    assert refusal.startswith("a.yml") or found is not None
