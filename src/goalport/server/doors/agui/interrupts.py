"""The interrupts that end a run: the open questions of a process, each with its form, and what a later run answers.

A question keeps its id, so that another run can answer it on any replica, and other doors too: the first answer counts.
`runs` is above.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final, cast

from ag_ui.core import Interrupt, ResumeEntry

from goalport.base.errors import BadInput, GoalportError, UnknownName
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, listed
from goalport.runtime.chat import FrontEndCall
from goalport.runtime.process import AgentProcess, Question, find_question
from goalport.server.publish.forms import form_of
from goalport.server.publish.own_resources import question_view
from goalport.tools.schemas import UNREADABLE

_YES_OR_NO: Final = frozenset({"approved", "confirmed"})
"""The members in one of which front ends send a yes or no, where they do not send it bare."""
_DECLINED: Final = "The person declined."


class RunRefused(GoalportError):
    """A run that cannot be done as it was asked for; the code is for programs."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question, which was found valid."""

    question: Question
    response: object = None
    declined: str = ""
    """Why there is no answer; empty: there is one."""


def interrupt_of(question: Question, interrupt_id: str = "") -> Interrupt:
    """The interrupt that asks a question, with another id than the question's if one is given.

    It has no schema if the answer cannot be read from JSON.
    """
    view, expires = question_view(question), question.expires_at
    schema = cast("dict[str, Any] | None", view.get("schema"))
    return Interrupt(
        id=interrupt_id or question.id,
        reason="confirmation" if schema is not None and schema.get("type") == "boolean" else "input_required",
        message=cleaned(hide_known(question.message)),
        response_schema=schema,
        expires_at=None if expires is None else expires.astimezone(UTC).isoformat(),
        metadata={name: view[name] for name in ("kind", "options", "url", "askedAt") if name in view},
    )


def answers(process: AgentProcess | None, resume: Sequence[ResumeEntry]) -> Sequence[Answer]:
    """What is to be answered by the entries of a run. Nothing was answered if one of them is wrong.

    An entry that says again how its question was settled has nothing to answer; nor has one that cancels a question
    that is settled, which is how a front end goes on after somebody else has answered. Raises `RunRefused`.
    """
    if process is None:
        raise RunRefused("unknown-interrupt", "Nothing waits for an answer here, so there is nothing to resume.")
    read = [_read(process, each) for each in resume]
    asked = {each.id for each in process.open_questions if not isinstance(each.wait, FrontEndCall)}
    left = asked - {each.interrupt_id for each in resume}
    if left and any(read):
        raise RunRefused(
            "open-interrupts", f"Answer or cancel all open interrupts at once: {listed(sorted(left))} too."
        )
    return [each for each in read if each is not None]


def _read(process: AgentProcess, entry: ResumeEntry) -> Answer | None:
    try:
        _, question = find_question(process, entry.interrupt_id)
    except UnknownName:
        told = f"No interrupt {entry.interrupt_id[:100]!r} was raised here. Expected an id of the outcome of a run."
        raise RunRefused("unknown-interrupt", told) from None
    if entry.status == "cancelled":
        return None if _settled(question) else Answer(question, declined=_DECLINED)
    response = _response(question, entry.payload)
    if not _settled(question):
        return Answer(question, response)
    accepted = question.validated(response)
    if question.answer == accepted and question.status == ("declined" if accepted is None else "answered"):
        return None
    status = "expired" if question.expired else question.status
    told = f"Question {question.id} is {status} already: the first answer counts. Cancel the interrupt to go on."
    raise RunRefused("already-answered" if status in {"answered", "declined"} else status, told)


def _settled(question: Question) -> bool:
    return question.status != "open" or question.expired


def _response(question: Question, payload: object) -> object:
    try:
        form = form_of(question)
        response = form.read(_bare(payload) if form.schema.get("type") == "boolean" else payload)
        question.validated(response)
    except UNREADABLE:
        told = f"The answer to {question.id} cannot be read from JSON. Cancel the interrupt."
        raise RunRefused("unreadable-interrupt", told) from None
    except BadInput as error:
        raise RunRefused("invalid-answer", str(error)) from None
    return response


def _bare(payload: object) -> object:
    """A yes or no, also where it is the one member of an object, as the protocol's examples have it."""
    members = cast("Mapping[str, object]", payload) if isinstance(payload, Mapping) else dict[str, object]()
    is_wrapped = len(members) == 1 and members.keys() <= _YES_OR_NO
    return next(iter(members.values())) if is_wrapped else cast("object", payload)
