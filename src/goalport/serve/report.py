"""The publishing report: what a server offers at start, line by line, for the person who started it.

Plain text; whoever prints it may paint it.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from goalport import __version__
from goalport.platform import AgentPlatform
from goalport.serve.companions import READ, Companion
from goalport.serve.function_tool import FunctionTool
from goalport.serve.goal_tool import GoalTool
from goalport.serve.models import models_in_words
from goalport.serve.publication import Publication, PublishedTool
from goalport.serve.security import exposures
from goalport.serve.texts import counted, indented
from goalport.serve.tool_groups import groups_in_words
from goalport.settings import Settings

__all__ = ["report_of"]


def report_of(
    publication: Publication, platform: AgentPlatform, settings: Settings, address: str | None
) -> Iterator[str]:
    """The lines. `address` is where the HTTP server listens; None over stdio."""
    tools, prompts = counted(len(publication.tools), "tool"), counted(len(publication.prompts), "prompt")
    place = "stdin and stdout" if address is None else f"{address}/mcp"
    yield f"Goalport {__version__} serves {settings.name} on {place}: {tools}, {prompts}"
    yield from _goals(publication)
    for line in groups_in_words(platform):
        yield f"  {indented(line)}"
    for line in models_in_words(platform):
        yield f"  {indented(line)}"
    for problem in publication.problems:
        yield f"  problem: {indented(problem)}"
    for warning in publication.warnings:
        yield f"  warning: {indented(warning)}"
    if address is not None:
        for exposure in exposures(settings):
            yield f"  warning: {exposure}"
    yield from _ways_in(address, settings)


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


def _ways_in(address: str | None, settings: Settings) -> Iterator[str]:
    if address is None:
        yield "  serving one client over stdin and stdout"
        return
    yield f"  Streamable HTTP (Claude, Cursor, VS Code, Codex, Inspector): {address}/mcp"
    yield f"  SSE, for older clients: {address}/sse"
    yield f"  Hosts that only start programs: npx -y mcp-remote {address}/mcp"
    yield f"  Open WebUI (Admin Settings, External Tools, type MCP): {address}/mcp"
    yield f"  Clients and what to tell them: {_connecting(address, settings)}"


def _connecting(address: str, settings: Settings) -> str:
    """The command that prints a client's configuration, as it can be typed where the server was started."""
    beside = Path(sys.executable).with_name("goalport")
    known = shutil.which("goalport")
    program = "goalport" if known or not beside.exists() else os.path.relpath(beside)
    words = [program, "connect", "claude-code"]
    if settings.workspace != Path.cwd():
        words += ["--workspace", str(settings.workspace)]
    if urlsplit(address).port != settings.port:
        words += ["--url", f"{address}/mcp"]
    return shlex.join(words)
