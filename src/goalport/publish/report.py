"""The publishing report: what is offered and what is not, line by line, for the person who starts a server.

Plain text; whoever prints it may paint it. `site` says beside it where the server listens.
"""

from collections.abc import Iterator

from goalport.platform import AgentPlatform
from goalport.publish.companions import READ, Companion
from goalport.publish.function_tool import FunctionTool
from goalport.publish.goal_tool import GoalTool
from goalport.publish.models import models_in_words
from goalport.publish.publication import Publication, PublishedTool
from goalport.publish.texts import indented
from goalport.publish.tool_groups import groups_in_words

__all__ = ["report_of"]


def report_of(publication: Publication, platform: AgentPlatform) -> Iterator[str]:
    """The lines about goals, tool groups, models, problems and warnings; each of them is indented."""
    yield from _goals(publication)
    for line in groups_in_words(platform):
        yield f"  {indented(line)}"
    for line in models_in_words(platform):
        yield f"  {indented(line)}"
    for problem in publication.problems:
        yield f"  problem: {indented(problem)}"
    for warning in publication.warnings:
        yield f"  warning: {indented(warning)}"


def _goals(publication: Publication) -> Iterator[str]:
    for name, tool in publication.tools.items():
        yield f"  {name}: {_what(tool)}"
    for refusal in publication.refusals:
        yield f"  not published: goal {refusal.goal.name} of {refusal.agent.name}, {indented(refusal.reason)}"


def _what(tool: PublishedTool) -> str:
    match tool:
        case GoalTool():
            starts = ", ".join(tool.tool.input_schema.get("properties", {})) or "nothing"
            how = "; may ask a person or take long" if tool.terms.hands_over else ""
            return f"goal {' or '.join(tool.goals)} of {tool.agent.name}, from {starts}{how}"
        case FunctionTool():
            return "exported tool"
        case Companion() if tool.tool.name == READ:
            return "for results that are too large for one answer"
        case Companion():
            return "for processes that wait or take long"
        case _:
            return "raw tool"
