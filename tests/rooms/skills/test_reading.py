"""SKILL.md as people write it: other line ends, odd heads, texts with colons; and what the strict reader says."""

import os
from pathlib import Path

import pytest

from goalport.base.errors import DocumentError
from goalport.knowledge.skills import Skills, check_skill, check_skills
from tests.rooms.skills.folders import call, skill_in


def written(folder: Path, text: str) -> Path:
    skill = folder / "my-skill"
    skill.mkdir()
    (skill / "SKILL.md").write_bytes(text.encode())
    return skill


GUIDE = """---
name: my-skill
description: A skill that does something useful
license: Apache-2.0
compatibility: Requires Python 3.9+
---

# My Skill Instructions

Step-by-step instructions for using this skill...
"""
"""The file of section 3.25.5."""


async def test_the_file_of_the_guide_is_read_and_has_no_mistakes(tmp_path: Path) -> None:
    folder = written(tmp_path, GUIDE)
    skills = Skills("x", "y").with_local_skill(folder)

    activated = await call(skills, "activate", name="my-skill")

    assert skills.skills[0].description == "A skill that does something useful"
    assert activated == (
        '<skill name="my-skill">\n'
        "# My Skill Instructions\n\nStep-by-step instructions for using this skill...\n"
        "</skill>\n"
        "It requires: Requires Python 3.9+"
    )
    assert check_skill(folder) == ()


@pytest.mark.parametrize(
    ("head", "description"),
    [
        ("name: my-skill\r\ndescription: With CRLF\r\n", "With CRLF"),
        ("name: my-skill\ndescription: uses --- inside\n", "uses --- inside"),
        ("name: my-skill\ndescription: Use when: the user asks\n", "Use when: the user asks"),
        ("name: my-skill\ndescription: Ends with a colon:\n", "Ends with a colon:"),
        ("name: my-skill\ndescription: 'Quoted: text' \n", "Quoted: text"),
        ("name: my-skill\ndescription: >\n  Over two\n  lines: yes\n", "Over two lines: yes"),
        ("name: my-skill\ndescription: Goes on\n  here\n", "Goes on here"),
        ("name: my-skill\ndescription: See https://example.com/a#b now\n", "See https://example.com/a#b now"),
        ("name: my-skill\ndescription: Text # and a comment\n", "Text"),
        ("name: my-skill\ndescription: 7\n", "7"),
        ("description: Other order\nmetadata:\n  tags: [a, b]\nname: my-skill\n", "Other order"),
        ("name: my-skill\ndescription: Zero\u200bwidth\u202e\n", "Zerowidth"),
        ("name: my-skill\ndescription: Grüße für C# und C++\n", "Grüße für C# und C++"),
    ],
)
def test_a_head_is_read_as_it_was_meant(tmp_path: Path, head: str, description: str) -> None:
    end = "\r\n" if "\r\n" in head else "\n"
    for name, mark in {"plain": "", "marked": "\ufeff"}.items():
        (tmp_path / name).mkdir()
        folder = written(tmp_path / name, f"{mark}---{end}{head}---{end}Do it.{end}")

        assert Skills("x", "y").with_local_skill(folder).skills[0].description == description


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("---\nname: my-skill\n---\nDo.\n", ["1: description: required, but missing."]),
        ("---\ndescription: x\n---\nDo.\n", ["1: name: required, but missing."]),
        (
            "---\nname: other\ndescription: x\n---\nDo.\n",
            ["2: name: expected the name of its folder, 'my-skill', but came 'other'. Rename one of them."],
        ),
        (
            "---\nname: My--Skill\ndescription: x\n---\nDo.\n",
            ["2: name: expected 1 to 64 of a-z, 0-9 and single hyphens between them, but came 'My--Skill'."],
        ),
        (
            f"---\nname: my-skill\ndescription: {'x' * 1025}\n---\nDo.\n",
            ["3: description: it has 1025 characters, at most 1024 are allowed."],
        ),
        (
            f"---\nname: my-skill\ndescription: x\ncompatibility: {'x' * 501}\n---\nDo.\n",
            ["4: compatibility: it has 501 characters, at most 500 are allowed."],
        ),
        (
            "---\nname: my-skill\ndescription: x\nlicence: MIT\n---\nDo.\n",
            ["4: 'licence' is no field of a skill. Did you mean 'license'?"],
        ),
        (
            "---\nname: my-skill\ndescription: Use when: asked\n---\nDo.\n",
            [
                "3: its text has a colon with a space, which YAML takes for another field. Put the text in quotes.",
            ],
        ),
        (
            "---\nname: my-skill\ndescription: x\nmetadata:\n  version: 1.0\n---\nDo.\n",
            [
                "4: metadata: expected names with texts, such as `author: me`, but came {'version': 1.0}. Put numbers",
            ],
        ),
        (
            "---\nname: my-skill\ndescription: x\nmetadata: me\n---\nDo.\n",
            ["4: metadata: expected names with texts, such as `author: me`, but came 'me'. Put numbers"],
        ),
        ("---\nname: my-skill\ndescription: x\nmetadata:\n  author: me\n---\nDo.\n", []),
        (
            "---\nname: my-skill\ndescription: x\nallowed-tools: [Read]\n---\nDo.\n",
            ["4: allowed-tools: expected one text with names separated by spaces, but came ['Read']."],
        ),
        (
            "---\nname: my-skill\ndescription: x\n---\n",
            ["5: expected instructions after the head, but there are none."],
        ),
        (
            "---\nname: my-skill\ndescription: x\n---\n\n\nRead references/a.md,\n[b](assets/b.png) or\n./scripts/c.sh",
            [
                "7: it mentions 'references/a.md', and there is no such file in the skill.",
                "8: it mentions 'assets/b.png', and there is no such file in the skill.",
                "9: it mentions 'scripts/c.sh', and there is no such file in the skill.",
            ],
        ),
        (
            "---\nname: my-skill\ndescription: x\nmetadata: " + "[a," * 1000 + "\n---\nDo.",
            ["4: this is no YAML: its values are nested too deeply."],
        ),
        (
            "---\nname: my-skill\ndescription: " + "x" * 20_000 + "\n---\nDo.",
            ["1: its head has 20,028 characters, and at most 20,000 are read."],
        ),
        ("---\nname: my-skill\nname: x\n---\n", ['3: this is no YAML: found duplicate key "name" with value "x"']),
        ("---\nname: my-skill\n", ["1: expected a head between two lines `---`, with name and description."]),
        ("", ["1: expected a head between two lines `---`, with name and description."]),
        ("---\njust text\n---\n", ["2: expected fields such as `name: my-skill`, but came 'just text'."]),
        (
            "---\nname: &a my-skill\ndescription: *a\n---\nDo.",
            ["3: expected plain values without aliases. Write the value out where it is wanted."],
        ),
    ],
)
def test_the_strict_reader_says_each_mistake_with_its_line(tmp_path: Path, text: str, problems: list[str]) -> None:
    folder = written(tmp_path, text)

    found = [str(each).removeprefix(f"{folder / 'SKILL.md'}:") for each in check_skill(folder)]

    assert len(found) == len(problems)
    assert all(one.startswith(other) for one, other in zip(found, problems, strict=True)), found


def test_the_files_that_a_skill_mentions_can_be_left_unchecked(tmp_path: Path) -> None:
    folder = skill_in(tmp_path, "my-skill", body="Read references/a.md.", references__b_md="")

    assert len(check_skill(folder)) == 1
    assert check_skill(folder, files=False) == ()


def test_a_file_in_the_place_of_the_skill_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, "---\nname: my-skill\ndescription: x\n---\nDo.\n")
    (folder / "SKILL.md").rename(tmp_path / "SKILL.md")
    (folder / "SKILL.md").symlink_to(tmp_path / "SKILL.md")
    with pytest.raises(DocumentError, match="it is a link that leads out of the skill"):
        Skills("x", "y").with_local_skill(folder)

    if hasattr(os, "mkfifo"):
        (folder / "SKILL.md").unlink()
        os.mkfifo(folder / "SKILL.md")
        with pytest.raises(DocumentError, match="there is no such file"):
            Skills("x", "y").with_local_skill(folder)


def test_a_file_that_leads_out_is_not_in_the_skill(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("x")
    folder = skill_in(
        tmp_path, "my-skill", body="Read [it](../secret.md), [that](https://example.com) and [this](#top)."
    )

    assert ["secret.md" in str(each) for each in check_skill(folder)] == [True]


def test_a_folder_of_skills_is_checked_as_a_whole(tmp_path: Path) -> None:
    skill_in(tmp_path / "all", "good")
    skill_in(tmp_path / "all", "bad", description="")

    assert [each.path.parent.name for each in check_skills(tmp_path / "all")] == ["bad"]
    assert check_skills(tmp_path / "all" / "good") == ()
    assert "expected a SKILL.md here" in str(check_skills(tmp_path)[0])
    assert "there is no such file" in str(check_skill(tmp_path)[0])
