"""Tables of settings: those that belong together, under one name in `server/settings.toml`.

Above: `settings`, which has them among its own.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from goalport.domain import RetryPolicy
from goalport.settings.values import Count, Delay, DocumentsPlace

__all__ = ["AutonomySettings", "DocumentsSettings", "RetrySettings"]

_RETRY = RetryPolicy()
Confidence = Annotated[float, Field(ge=0, le=1)]


class RetrySettings(BaseModel):
    """How often an action that fails is tried again, unless it says so itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: Count = _RETRY.attempts
    first_delay: Delay = _RETRY.first_delay
    factor: Delay = _RETRY.factor
    max_delay: Delay = _RETRY.max_delay
    every_error: bool = _RETRY.every_error

    @property
    def policy(self) -> RetryPolicy:
        """The same settings as the retry policy that actions use."""
        return RetryPolicy(**self.model_dump())


class AutonomySettings(BaseModel):
    """How an agent or a goal is chosen by what somebody said."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_confidence_cut_off: Confidence = 0.6
    """An agent is chosen only if the model's confidence in it is greater."""
    goal_confidence_cut_off: Confidence = 0.6
    """The same for a goal."""
    ranking_llm: str = ""
    """The model that ranks; empty: the default model."""
    ranking_max_attempts: Count = 5
    """How often the model is asked while it names what is no candidate."""


class DocumentsSettings(BaseModel):
    """Where the documents are kept that agents search, and who makes their vectors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: DocumentsPlace = "sqlite"
    """In the file `documents.db` in `data_dir`, or in a PostgreSQL database."""
    connections: Count = 5
    """How many connections to PostgreSQL each program opens at most."""
    pooler: bool = False
    """Whether a pooler before PostgreSQL gives each transaction any of its connections."""
    embedding_model: str = ""
    """The embedding model, by its name or role; empty: the default one. Without any, words are searched alone."""
