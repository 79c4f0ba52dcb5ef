"""What the settings of a workspace ask for in a platform: how it chooses, what it forgets, and agents of its own.

Below: settings, and what they configure. Above: the platform.
"""

from collections.abc import Iterator
from datetime import timedelta

from goalport.autonomy import Autonomy, front_agent
from goalport.autonomy.autonomy import Platform
from goalport.llm import LlmOptions
from goalport.platform.choosing_chatbot import choosing_chatbot
from goalport.platform.retention import Retention
from goalport.settings import AutonomySettings, Settings
from goalport.store import ProcessStore

__all__ = ["workspace_autonomy", "workspace_own_agents", "workspace_retention"]


def workspace_autonomy(platform: Platform, settings: AutonomySettings) -> Autonomy:
    """How the platform chooses agents and goals."""
    return Autonomy(
        platform=platform,
        agent_confidence_cut_off=settings.agent_confidence_cut_off,
        goal_confidence_cut_off=settings.goal_confidence_cut_off,
        llm=LlmOptions(model=settings.ranking_llm) if settings.ranking_llm else None,
        max_attempts=settings.ranking_max_attempts,
    )


def workspace_retention(store: ProcessStore, settings: Settings) -> Retention:
    """What is dropped from the store with time."""
    age = timedelta(days=settings.retention_days) if settings.retention_days else None
    return Retention(store, age, settings.retention_count or None)


def workspace_own_agents(settings: Settings, autonomy: Autonomy) -> Iterator[object]:
    """The agents that the settings ask for: the one that takes a sentence, and the chatbot that uses all others."""
    if settings.front_tool:
        yield front_agent(autonomy, open_mode=settings.front_tool == "open")
    if settings.chatbot:
        open_mode = settings.front_tool == "open"
        yield choosing_chatbot(settings.chatbot, autonomy, open_mode=open_mode, published=True)
