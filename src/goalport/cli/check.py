"""`goalport check`: everything that `serve` would complain about and what cannot work, without serving."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from goalport.base.colours import coloured
from goalport.base.words import counted
from goalport.cli.options import WorkspaceFolder
from goalport.cli.terminal import Format
from goalport.cli.workspace import LoadedWorkspace, open_workspace
from goalport.runtime.platform import mistakes_in, remarks_on_chatbots, remarks_on_givers
from goalport.runtime.platform.knowledge import document_problems
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.portability import without_hints
from goalport.server.publish.publication import publish
from goalport.server.publish.report import models_in_words, remarks_on_goals, switched_off, warnings_on_arguments

FINE, WRONG = 0, 1


@dataclass(frozen=True)
class Findings:
    """The results of checking a workspace: problems, warnings and a summary of its contents."""

    problems: tuple[str, ...]
    """What prevents something from being served."""
    warnings: tuple[str, ...]
    """What is served but some clients cannot use."""
    agents: int
    goals: int
    tools: tuple[str, ...]
    resources: tuple[str, ...]
    """What the URIs of resources that exports provide begin with."""
    models: tuple[str, ...]
    """Remarks on the models that the actions ask."""
    groups: tuple[str, ...]
    """Remarks on tool groups that exist and are not used."""
    hints: tuple[str, ...]
    """What is no error, but perhaps not intended: methods that seem to lack a mark or a trigger, goals that are not
    published, types that no store could write."""


def check(
    *,
    format: Format = "text",  # noqa: A002 - the option's name
    allow_warnings: bool = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Read the workspace and say what is wrong with it; nothing runs.

    Parameters
    ----------
    allow_warnings
        Exit with 1 for problems, but not for warnings.

    Examples:
        goalport check
        goalport check --workspace my-agents --format json
    """
    findings = _findings(open_workspace(workspace))
    if format == "json":
        print(json.dumps(vars(findings), indent=2, ensure_ascii=False))
    else:
        lines = [
            *(f"problem: {each}" for each in findings.problems),
            *(f"warning: {each}" for each in findings.warnings),
            *findings.models,
            *findings.groups,
            *(f"note: {each}" for each in findings.hints),
        ]
        for line in lines:
            print(coloured(line, sys.stdout))
        numbers = {"agent": findings.agents, "goal": findings.goals, "tool": len(findings.tools)}
        there = ", ".join(counted(number, what) for what, number in numbers.items())
        wrong = f"{counted(len(findings.problems), 'problem')}, {counted(len(findings.warnings), 'warning')}"
        print(f"{there}: {wrong if findings.problems or findings.warnings else 'nothing is wrong'}.")
    return WRONG if findings.problems or (findings.warnings and not allow_warnings) else FINE


def _findings(loaded: LoadedWorkspace) -> Findings:
    empty = [loaded.no_agents_message] if loaded.lacks_agents else []
    published = publish(loaded.platform, loaded.workspace, loaded.settings)
    unready = [f"[models] {each}" for each in loaded.platform.models.problems()]
    unready += document_problems(loaded.platform.models, loaded.settings)
    mistakes = mistakes_in(loaded.platform.agents, loaded.platform.expected_groups)
    return Findings(
        problems=(*published.problems, *map(str, mistakes), *unready),
        warnings=(*empty, *published.warnings, *warnings_on_arguments(published)),
        agents=len(loaded.platform.agents),
        goals=len(loaded.platform.agents.goals),
        tools=tuple(published.tools),
        resources=tuple(published.providers),
        models=tuple(models_in_words(loaded.platform)),
        groups=tuple(switched_off(loaded.platform.upstream)),
        hints=(
            *(() if loaded.platform.store.durable else loaded.platform.unstorable),
            *remarks_on_givers(loaded.platform.agents, loaded.platform.expected_groups),
            *remarks_on_chatbots(loaded.platform.agents),
            *remarks_on_goals(published),
            *without_hints(
                each.tool for each in published.tools.values() if isinstance(each, GoalTool) and not each.is_tool
            ),
        ),
    )
