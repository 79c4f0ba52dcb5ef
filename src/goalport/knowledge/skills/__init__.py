"""Skills: folders with instructions that a model reads when it needs them. User guide, section 3.25; agentskills.io.

Below: `documents`, `prompts` and `tools`. Above: `ai` takes `Skills` as a reference; the command line checks them.
"""

from goalport.knowledge.skills.skill import Skill, SkillProblem, SkillTrust, check_skill, check_skills
from goalport.knowledge.skills.skills import ChildProcessRunner, ScriptResult, ScriptRunner, Skills

__all__ = [
    "ChildProcessRunner",
    "ScriptResult",
    "ScriptRunner",
    "Skill",
    "SkillProblem",
    "SkillTrust",
    "Skills",
    "check_skill",
    "check_skills",
]
