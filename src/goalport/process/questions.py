"""The questions of a process to people, and their answers. Only the first answer to a question counts.

`human_in_the_loop` applies answers to the blackboard; here they are only recorded.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, Literal

from goalport.domain import WaitFor
from goalport.errors import AlreadyAnswered

__all__ = ["Question", "Questions"]

Status = Literal["open", "answered", "declined", "expired", "withdrawn"]
"""The states of a question. Withdrawn: the action that asked no longer needs the answer."""


@dataclass(slots=True)
class Question:
    """A question of an action to a person."""

    id: str
    process_id: str
    action: str
    """The name of the action that asked."""
    wait: WaitFor[Any]
    in_action: bool = False
    """Whether its action continues with the answer; otherwise the action ends with the question."""
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: Status = "open"
    answer: object = None
    """The validated answer, once there is one."""
    reason: str = ""
    """Why there will be no answer."""

    @property
    def message(self) -> str:
        """The text of the question."""
        return self.wait.message

    @property
    def response_type(self) -> object:
        """The type of the answer; `bool` for a yes or no."""
        return self.wait.response_type

    @property
    def expires_at(self) -> datetime | None:
        """The time at which it counts as declined if there is no answer."""
        seconds = self.wait.expires_in
        return None if seconds is None else self.asked_at + timedelta(seconds=seconds)


class Questions:
    """The questions of one process, in the order in which they were asked."""

    def __init__(self, process_id: str) -> None:
        self._process_id = process_id
        self._asked: dict[str, Question] = {}
        self._lock = Lock()

    def ask(self, action: str, wait: WaitFor[Any], *, in_action: bool = False) -> Question:
        """Add a question."""
        question = Question(f"q-{secrets.token_hex(6)}", self._process_id, action, wait, in_action)
        self._asked[question.id] = question
        return question

    def __iter__(self) -> Iterator[Question]:
        return iter(self._asked.values())

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that wait for an answer."""
        return tuple(each for each in self if each.status == "open") if self._asked else ()

    def find(self, question_id: str) -> Question | None:
        """The question of that id, or None."""
        return self._asked.get(question_id)

    def settle(self, question: Question, status: Status, *, answer: object = None, reason: str = "") -> None:
        """Settle a question. Raises `AlreadyAnswered` if it was settled before; check and change are atomic."""
        with self._lock:
            if question.status != "open":
                raise AlreadyAnswered(question.id, question.status)
            question.answer, question.reason = answer, reason
            question.status = status
