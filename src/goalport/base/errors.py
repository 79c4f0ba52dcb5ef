"""Every error of goalport, in one tree.

    GoalportError
    ├── BadInput              the caller's mistake: shown to the client as it is, never retried, never planned around
    │   └── ConversationEnded a conversation has reached its goal
    ├── DeclarationError      an agent, component or tool that cannot be read
    ├── DeploymentError       declarations that are each valid, but clash with each other
    ├── SettingsError         a setting that cannot be used
    ├── WorkspaceError        a folder that is no workspace
    ├── UnknownName           no agent, goal, process or tool of that name
    ├── TemplateError         a template that cannot be read or filled
    ├── ToolError             a tool failed; its text is written for a model
    │   └── DocumentError     a file, page, archive or skill that cannot be read
    ├── Retryable             an action failed and may succeed when tried again
    ├── NonRetryable          an action failed and trying again is pointless
    │   ├── Declined          a person was asked in the middle of an action and said no, or nothing in time
    │   └── InvalidScore      a score that is not from 0 to 1
    ├── Signal                an action or a tool steers its process; no failure
    │   ├── ReplanRequested
    │   ├── TerminateAction
    │   └── TerminateAgent
    ├── ModelError            a model could not be asked, or what it answered is of no use
    │   ├── ModelNotReady     no such model, role, key or library: it says what to set
    │   ├── ModelRefused      the provider rejects the request: a wrong key, an invalid request, a refusal
    │   ├── ModelUnavailable  no answer in time, after all attempts
    │   ├── InvalidModelOutput
    │   ├── TooManyTurns
    │   ├── ToolNotFound
    │   └── GuardViolation
    ├── AlreadyAnswered       a question that was answered, declined or has expired
    ├── Unstorable            an object that cannot be written to a store
    ├── Unreadable            stored data that today's classes cannot read
    ├── UnreadableDocument    a file or page whose text cannot be extracted
    ├── StoreError            the store of processes cannot be read or written
    │   └── OlderSchema       an earlier version created it, and this command only reads it
    ├── LeaseHeld             another program runs the family of a process
    ├── HandedOver            this program ends, and a process goes on in another
    ├── LeaseLost             another program has taken the family of a process over
    └── ProcessEnded          a process that was asked for a result ended without one
        ├── ProcessWaiting
        ├── ProcessStuck
        ├── ProcessFailed
        ├── ProcessTerminated
        └── ProcessKilled

A message says what was expected, what came and what to do next; it is built here, from fields.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Self, cast

from goalport.base.words import excerpt, offer, one_line, with_article

__all__ = [
    "AlreadyAnswered",
    "BadInput",
    "ConversationEnded",
    "DeclarationError",
    "Declined",
    "DeploymentError",
    "DocumentError",
    "GoalNotApproved",
    "GoalportError",
    "GuardViolation",
    "HandedOver",
    "InvalidModelOutput",
    "InvalidScore",
    "LeaseHeld",
    "LeaseLost",
    "ModelError",
    "ModelNotReady",
    "ModelRefused",
    "ModelUnavailable",
    "NoAgentFound",
    "NoGoalFound",
    "NonRetryable",
    "NothingChosen",
    "OlderSchema",
    "ProcessEnded",
    "ProcessFailed",
    "ProcessKilled",
    "ProcessStuck",
    "ProcessTerminated",
    "ProcessWaiting",
    "ReplanRequested",
    "Retryable",
    "SettingsError",
    "Signal",
    "StoreError",
    "TemplateError",
    "TerminateAction",
    "TerminateAgent",
    "TooManyTurns",
    "ToolError",
    "ToolNotFound",
    "UnknownName",
    "Unreadable",
    "UnreadableDocument",
    "Unstorable",
    "WorkspaceError",
    "causes",
    "leaves",
    "signal_in",
]

_EXCERPT = 500
"""Characters of a model's answer that an error shows."""
_MOST_CAUSES = 100


class GoalportError(Exception):
    """The base class of every error that goalport itself raises."""


class BadInput(GoalportError):
    """The caller's mistake. The message goes to the client word for word, so it must not hold a secret."""

    def __init__(self, message: str, problems: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        """One line for each wrong value, such as `stops[1].nights: required, but missing`; may be empty."""


class NothingChosen(BadInput):
    """No agent or goal was chosen for a user's text. `ranking` has each candidate's name and confidence."""

    def __init__(self, message: str, ranking: Iterable[tuple[str, float]] = ()) -> None:
        super().__init__(message)
        self.ranking = tuple(ranking)


class NoAgentFound(NothingChosen):
    """No agent fits well enough."""


class NoGoalFound(NothingChosen):
    """No goal fits well enough."""


class GoalNotApproved(NothingChosen):
    """A goal was chosen, but it was not approved."""


class DeclarationError(GoalportError):
    """A class or function that cannot be read: where, what was expected, what came, and the fix."""

    def __init__(self, where: str, *, expected: str, came: str, fix: str) -> None:
        self.where = where
        self.expected = expected
        self.came = came
        self.fix = fix
        super().__init__(f"{where}: expected {expected}, but {came}. {fix}")


class DeploymentError(GoalportError):
    """Two declarations that are each valid but cannot be served together."""


class SettingsError(GoalportError):
    """A setting that is unknown or has a value that cannot be used."""


class WorkspaceError(GoalportError):
    """A folder that cannot be served as a workspace."""


class ConversationEnded(BadInput):
    """A conversation that has reached its goal: nothing more is answered in it."""


class UnknownName(GoalportError):
    """An unknown name. The message lists the most similar names, else all known ones; none if `known` is None."""

    def __init__(self, kind: str, name: str, known: Iterable[str] | None) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(sorted(known or ()))
        none = "It never was, or was forgotten." if known is None else f"There is no {kind} at all."
        hint = offer(name, self.known, none=none)
        super().__init__(f"Unknown {kind} {name!r}. {hint}")


class TemplateError(GoalportError):
    """A template that cannot be read or filled: its name, the line, the reason, and the variables passed to it."""

    def __init__(self, template: str, line: int, problem: str, variables: Iterable[str]) -> None:
        self.template = template
        self.line = line
        """The number of the line, from 1; 0 when it is not known."""
        place = f", line {line}" if line else ""
        given = ", ".join(sorted(variables)) or "none"
        super().__init__(f"Template {template!r}{place}: {problem.rstrip('.')}. The variables given are: {given}.")


class ToolError(GoalportError):
    """A tool failed in a way that a model can read and act on."""


class DocumentError(ToolError):
    """A file, web page, archive or skill that cannot be read: one sentence that names it and says what is wrong."""


class Retryable(GoalportError):
    """An action raises it to say that the failure may be temporary: the action may succeed when it is tried again."""


class NonRetryable(GoalportError):
    """An action raises it to say that trying again is pointless; the process looks for another way."""


class Declined(NonRetryable):
    """A person was asked in the middle of an action and said no, or nothing in time."""

    def __init__(self, question: str, reason: str) -> None:
        self.question = question
        self.reason = reason
        super().__init__(f"A person was asked {question!r}, and there was no answer: {reason}")


class InvalidScore(NonRetryable, ValueError):
    """A score that is not from 0 to 1."""

    def __init__(self, score: object) -> None:
        super().__init__(f"Expected a score from 0 to 1, but got {score!r}. 0 is useless, and 1 is perfect.")


class Signal(GoalportError):
    """Raised by an action, or a tool that it calls, to steer the process. It is never retried; do not catch it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ReplanRequested(Signal):
    """The plan is no longer good: change the blackboard as said here and plan again, the next time without this action.

    `objects` are added to the blackboard, and each entry of `update` binds an object to a name.
    """

    def __init__(self, reason: str, *objects: object, update: Mapping[str, object] | None = None) -> None:
        super().__init__(reason)
        self.objects = objects
        self.update: Mapping[str, object] = update or {}
        if any(each is None for each in (*objects, *self.update.values())):
            raise ValueError("Expected objects to put on the blackboard, but got None. Leave out what is not there.")


class TerminateAction(Signal):
    """End this action without a result; the process goes on."""


class TerminateAgent(Signal):
    """Terminate the process and its sub-processes. Among several signals this one takes precedence."""


def signal_in(error: BaseException) -> Signal | None:
    """The signal in an error or an exception group, preferably a `TerminateAgent`; None if there is no signal."""
    found = [each for each in leaves(error) if isinstance(each, Signal)]
    return next((each for each in found if isinstance(each, TerminateAgent)), found[0] if found else None)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in an exception group, at any depth and in order; an error that is no group yields itself."""
    left = [error]
    while left:
        each = left.pop()
        if isinstance(each, BaseExceptionGroup):
            left += reversed(cast("BaseExceptionGroup[BaseException]", each).exceptions)
        else:
            yield each


def causes(error: BaseException | None, *, implicit: bool = False) -> Iterator[BaseException]:
    """An error and its causes, the nearest first; with `implicit`, `__context__` is used where there is no `__cause__`.

    `raise e from e` makes a circle, so each error is yielded once; after a hundred errors it stops.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen and len(seen) < _MOST_CAUSES:
        seen.add(id(error))
        yield error
        error = error.__context__ if implicit and error.__cause__ is None else error.__cause__


class ModelError(GoalportError):
    """A model could not be asked, or its answer is of no use. The message names the model and never contains a key."""


class ModelNotReady(ModelError):
    """A model that is not known, or lacks its key or its library; the message says what to set or install."""


class ModelRefused(ModelError):
    """The provider rejects the request, and would reject it again."""


class ModelUnavailable(ModelError):
    """The provider gave no answer in time, after all attempts."""


class InvalidModelOutput(ModelError):
    """The model's output is not an object of the requested type, not even after the model was told what is wrong."""

    def __init__(self, type_name: str, violations: Iterable[str], value: str) -> None:
        self.type_name = type_name
        self.violations = tuple(violations)
        self.value = value
        """The model's last output, as text."""
        super().__init__(
            f"Expected the model to give {with_article(type_name)}, but: "
            f"{'; '.join(self.violations) or 'nothing came'}. Its last answer was {excerpt(value, _EXCERPT)!r}."
        )


class TooManyTurns(ModelError):
    """A model kept calling tools until the limit of turns, without giving an answer."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        super().__init__(f"The model called tools for {turns} turns without an answer. Allow more, or ask for less.")


class ToolNotFound(ModelError):
    """A model called tools that do not exist, and did so again after it was told which ones exist."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        hint = offer(name, self.known, none="There is no tool at all.")
        super().__init__(
            f"The model called a tool that is not there, again and again: {name!r}. {hint} "
            "Offer it, or say in the prompt which tools to use."
        )


class GuardViolation(ModelError):
    """A guard has blocked a text."""

    def __init__(self, guard: str, reason: str) -> None:
        self.guard = guard
        self.reason = reason
        super().__init__(f"{guard}: {reason}")


class AlreadyAnswered(GoalportError):
    """A question that was already answered or declined, or has expired; only the first answer counts."""

    def __init__(self, question_id: str, status: str) -> None:
        self.question_id, self.status = question_id, status
        super().__init__(f"Question {question_id} is {status} already: the first answer counts.")


class Unstorable(GoalportError):
    """An object that cannot be written to a store: where it is, of which type it is, and why."""

    def __init__(self, kind: str, why: str, *, path: str = "") -> None:
        self.kind = kind
        """The name of its type."""
        self.why = why
        """A sentence that says the reason and what to do."""
        self.path = path
        """Its path: `Writeup.images[2]`; empty if no other object contains it."""
        what = f"{path} ({with_article(kind)})" if path else with_article(kind)
        super().__init__(f"{what} cannot be stored: {why}")

    def within(self, step: str) -> "Unstorable":
        """The same error for the object that contains this one; `step` is put before the path: `.images` or `[2]`."""
        return Unstorable(self.kind, self.why, path=f"{step}{self.path}")


class Unreadable(GoalportError):
    """Stored data that today's classes cannot read. The message says the type, the field, and what to do."""

    def __init__(self, kind: str, problem: str, fix: str, *, field: str = "") -> None:
        self.kind = kind
        """The name under which its type was stored."""
        self.field = field
        """The field; empty if it is the whole object."""
        self.problem = problem
        self.fix = fix
        what = f"{kind}.{field}" if field else kind
        super().__init__(f"{what} cannot be read from the store: {problem} {fix}".rstrip())


class UnreadableDocument(DocumentError):
    """A document cannot be read; other documents can. The message is a sentence with its name and the reason."""

    def __init__(self, uri: str, reason: str) -> None:
        self.uri = uri
        self.reason = reason
        super().__init__(f"{one_line(uri)} cannot be read: {reason}.")

    @classmethod
    def after(cls, path: "str | os.PathLike[str]", error: OSError | ValueError) -> Self:
        """The error for a file that cannot be opened; Python raises `ValueError` for a name that no file can have."""
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return cls(os.fspath(path), reason[:1].lower() + reason[1:])


class StoreError(GoalportError):
    """The store of processes cannot be read or written. Nothing is half-written; it works again once the cause is gone.

    The message says where the store is, what is wrong, and what to do. It never holds a password.
    """

    def __init__(self, where: str, problem: str, fix: str, *, unknown: bool = False) -> None:
        self.where = where
        self.problem = problem
        self.fix = fix
        self.unknown = unknown
        """Whether the data may have been written despite the error; to be sure, write the same data again."""
        super().__init__(f"The store {where}: {problem} {fix}")

    @property
    def client_message(self) -> str:
        """The message for clients, which does not say where the store is."""
        return f"The store of processes: {self.problem.replace(self.where, 'it')} {self.fix}"


class OlderSchema(StoreError):
    """An earlier version created the store, and a command that only reads it does not upgrade it."""

    def __init__(self, where: str) -> None:
        super().__init__(
            where,
            "An earlier goalport has made it, and this command does not change it.",
            "Use that goalport. Once no server of it runs any more, `goalport upgrade` changes the store, and so does a"
            " server at its start.",
        )


class _RunsElsewhere(GoalportError):
    """The process cannot be used in this program, since another program runs it or will run it."""

    words = ""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        super().__init__(self.words.format(process_id))


class LeaseHeld(_RunsElsewhere):
    """Another program runs the family of a process; ask that program, or wait until it is done."""

    words = "Another program runs process {}."


class LeaseLost(_RunsElsewhere):
    """Another program has taken over the family of a process; this program's state of it is stale and is not stored."""

    words = "Another program has taken process {} over, or it was dropped."


class HandedOver(_RunsElsewhere):
    """This program ends or cannot read the process, which goes on in another program or after a restart."""

    words = "This program is done with process {}, which goes on elsewhere: ask again for it in a moment."


class ProcessEnded(GoalportError):
    """A process that was asked for a result ended without one."""

    def __init__(self, process_id: str, reason: str) -> None:
        self.process_id = process_id
        self.reason = reason
        super().__init__(f"{reason} (process {process_id})")


class ProcessWaiting(ProcessEnded):
    """The process waits for a person; its questions are on the process."""


class ProcessStuck(ProcessEnded):
    """No action can bring the goal nearer; new objects on the blackboard may."""


class ProcessFailed(ProcessEnded):
    """Actions failed, and no other way to the goal is left."""


class ProcessTerminated(ProcessEnded):
    """A budget, a deadline or the program ended the process early."""


class ProcessKilled(ProcessEnded):
    """Somebody ended the process from outside."""
