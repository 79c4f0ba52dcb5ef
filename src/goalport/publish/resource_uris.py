"""The URIs of goalport's own resources: how they are written, listed and parsed.

This module handles URIs only; `views` makes the contents of the resources, `serve` answers requests for them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from mcp_types import Resource, ResourceTemplate

from goalport.platform import AgentPlatform

__all__ = ["GOALS", "ResourceUri", "own_resources", "own_templates", "process_uri", "read_uri", "result_uri"]

GOALS: Final = "goalport://goals"
_AGENT: Final = "goalport://agents/"
_PROCESS: Final = "goalport://processes/"
_JSON: Final = "application/json"
_FORM: Final = re.compile(r"goalport://(?:(goals)|agents/([^/]+)|processes/([^/]+)(?:/(result)(?:/([0-9]{1,6}))?)?)")


@dataclass(frozen=True, slots=True)
class ResourceUri:
    """What a URI of goalport names: the goals, an agent, or a process."""

    goals: bool
    agent: str
    process: str
    result: bool
    """Whether the URI names the output of the process and not its state."""
    page: int | None
    """The number of a page of the output, from 1; None for the whole output."""


def read_uri(uri: str) -> ResourceUri | None:
    """What a URI names; None if it is not a URI of goalport's own resources."""
    found = _FORM.fullmatch(uri)
    if found is None:
        return None
    goals, agent, process, result, page = found.groups()
    return ResourceUri(
        bool(goals), unquote(agent or ""), unquote(process or ""), bool(result), int(page) if page else None
    )


def process_uri(process_id: str) -> str:
    """The URI of the state of a process."""
    return f"{_PROCESS}{quote(process_id, safe='')}"


def result_uri(process_id: str) -> str:
    """The URI of the whole output of a process."""
    return f"{process_uri(process_id)}/result"


def own_resources(platform: AgentPlatform) -> Iterator[Resource]:
    """The resources that are listed: the goals, and each agent."""
    yield Resource(uri=GOALS, name="goals", title="Goals", description="Every goal and its tools", mime_type=_JSON)
    for agent in platform.agents:
        uri = f"{_AGENT}{quote(agent.name, safe='')}"
        yield Resource(uri=uri, name=agent.name, description=agent.description, mime_type=_JSON)


def own_templates() -> Iterator[ResourceTemplate]:
    """The URI templates of the resources that are not listed, as there are too many."""
    for path, name, description, media in (
        ("agents/{name}", "agent", "An agent: its actions, goals and conditions", _JSON),
        ("processes/{id}", "process", "A process that you started: status, plan, history and a picture", _JSON),
        ("processes/{id}/result", "result", "The whole output of a process that you started", None),
        ("processes/{id}/result/{page}", "result page", "One page of that output, from 1", None),
    ):
        yield ResourceTemplate(uri_template=f"goalport://{path}", name=name, description=description, mime_type=media)
