"""Folders of skills for tests."""

from pathlib import Path

from goalport.knowledge.references import LlmReference
from goalport.tools import Tool

__all__ = ["call", "skill_in", "tools_by_name"]


def skill_in(
    parent: Path, name: str, description: str = "Does something useful", body: str = "Do it well.", **files: str
) -> Path:
    """Write a skill; `files` are those of its folders, with two underscores for each slash and one for the dot."""
    folder = parent / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n", encoding="utf-8"
    )
    for path, text in files.items():
        file = folder / path.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def tools_by_name(reference: LlmReference) -> dict[str, Tool]:
    """The tools of one conversation."""
    return {each.name: each for each in reference.tools()}


async def call(reference: LlmReference, tool: str, **arguments: object) -> str:
    """The answer of a tool of a reference, or its error."""
    return (await tools_by_name(reference)[tool].call(arguments)).text
