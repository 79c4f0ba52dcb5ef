"""The skill to copy that is in the docs, exported as the Skills extension has it."""

from pathlib import Path

from goalport.knowledge.skills import Skills
from goalport.tools import McpToolExport

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples" / "skills"

skills = McpToolExport.from_llm_reference(Skills("examples", "Skills to copy").with_local_skills(EXAMPLES))
