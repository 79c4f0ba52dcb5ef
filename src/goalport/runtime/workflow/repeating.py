"""`RepeatUntil` and `RepeatUntilAcceptable`: a step that is repeated until its result is good.

(User guide, section 3.7.1.)
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar, cast, overload

from goalport.agents.blackboard import Typed, fits
from goalport.agents.domain import Input
from goalport.base.errors import DeclarationError
from goalport.base.words import counted, type_name
from goalport.runtime.process import ActionContext
from goalport.runtime.workflow.workflow import (
    Attempt,
    Feedback,
    Function,
    Given,
    History,
    Stage,
    Step,
    Workflow,
    context_itself,
    is_number,
    newest,
    read_step,
)

T = TypeVar("T")
K = TypeVar("K")
_HISTORY = newest(History)


@dataclass(frozen=True)
class Repetition(Workflow[T]):
    """A workflow that repeats a step."""

    attempts: Callable[[ActionContext], Awaitable[History[T]]] = field(repr=False)

    def returning_history(self) -> Workflow[History[T]]:
        """The same workflow, but its result is the history of all attempts, whose `best` is the result otherwise."""
        kind = cast("type[History[T]]", cast("Any", History)[self.kind])
        return Workflow(kind, [replace(each, kind=kind, run=self.attempts) for each in self.stages])


@dataclass(frozen=True, slots=True)
class _Repeated(Generic[T]):
    """A task that is repeated, and the test that ends it: a function, else the score of an evaluator."""

    kind: type[T]
    task: Step[T] | None = None
    limit: int = 5
    evaluator: Step[Feedback] | None = None
    good: Step[bool] | None = None
    threshold: float = 0.9

    def with_max_iterations(self, limit: int, /) -> Self:
        """Make at most `limit` attempts, and return the best. Raises `DeclarationError` for a limit below 1."""
        if type(limit) is not int or limit < 1:
            raise _mistake(self.kind, "a limit of 1 or more rounds", f"it is {limit!r}", "Raise it.")
        return replace(self, limit=limit)


def _mistake(kind: object, expected: str, came: str, fix: str) -> DeclarationError:
    return DeclarationError(f"A repetition for {type_name(kind)}", expected=expected, came=came, fix=fix)


def _repetition(rounds: _Repeated[T]) -> Repetition[T]:
    """The workflow of a complete builder."""
    task = rounds.task
    if task is None:
        raise _mistake(rounds.kind, "a function to repeat", "there is none", "Write repeating(…) before.")
    judges = [each for each in (rounds.evaluator, rounds.good) if each is not None]
    match rounds.evaluator, rounds.good:
        case Step() as evaluator, Step() as good:
            until = f"{good.label} accepts what {evaluator.label} says of it"
        case Step() as evaluator, None:
            until = f"{evaluator.label} gives a score of {rounds.threshold:g}"
        case _:
            until = f"{judges[0].label} holds"

    async def attempts(context: ActionContext) -> History[T]:
        return await _attempts(rounds, task, context)

    async def run(context: ActionContext) -> T:
        best = (await attempts(context)).best
        assert best is not None
        return best.result

    words = f"Repeats {task.label} until {until}, {counted(rounds.limit, 'round')} at most"
    made = (rounds.kind, Feedback)
    first = tuple(task.wants(()))  # in the first round nothing is made yet
    return Repetition(rounds.kind, [Stage("repeat", words, rounds.kind, [task, *judges], made, run, first)], attempts)


async def _attempts(rounds: _Repeated[T], task: Step[T], context: ActionContext) -> History[T]:
    """All attempts: the last one is accepted, or none is."""
    context, history = context.on_copy(), History[T]()
    taken = any(fits(rounds.kind, each.type) for each in task.wants(()))
    # Objects of another repetition are hidden, except an object that the task takes as input.
    for kind in (Feedback, History, *(() if taken else (rounds.kind,))):
        context.blackboard.hide_all(kind)
    last: tuple[object, ...] = ()  # the newest attempt and its feedback
    for number in range(1, rounds.limit + 1):
        with task.span(context, name := f"round {number}"):
            here = context.on_copy(place=name)
            result = await task.run(here.on_copy(history, *last))
            feedback, last = None, (Typed(result, rounds.kind),)
            if rounds.evaluator is not None:
                feedback = await rounds.evaluator.run(here.on_copy(history, *last))
                last = (*last, feedback)
            before, history = history, history.with_attempt(Attempt(result, feedback))
            if rounds.good is None:
                accepted = feedback is not None and feedback.score >= rounds.threshold
            else:
                accepted = await rounds.good.run(here.on_copy(history, *last))
        score = "" if feedback is None else f", score {feedback.score:g}"
        context.progress(f"round {number} of {rounds.limit}{score}")
        if accepted:
            return before.with_attempt(Attempt(result, feedback, accepted=True))
    best = history.best
    words = f"the best attempt, score {best.score:g}" if best and best.feedback else "the last attempt"
    context.progress(f"No attempt of {rounds.limit} was accepted: the result is {words}.")
    return history


@dataclass(frozen=True, slots=True)
class RepeatUntil(_Repeated[T]):
    """A task that is repeated until a condition holds for its result.

    `RepeatUntil.returning(Draft).repeating(write).until(lambda draft: draft.words > 500)`. At the limit, the last
    attempt is the result.
    """

    @staticmethod
    def returning(kind: type[K]) -> "RepeatUntil[K]":
        """Begin a workflow with a result of this type."""
        return RepeatUntil(kind)

    @overload
    def repeating(self, function: Callable[[ActionContext], Given[T]], /) -> Self: ...
    @overload
    def repeating(self, function: Callable[[History[T], ActionContext], Given[T]] | Function[T], /) -> Self: ...
    def repeating(self, function: Function[T], /) -> Self:
        """Repeat this function. Its parameters are filled as those of an action; it may also take the `History[T]`.

        The parameters of a lambda are the context, or the history and the context.
        """
        return replace(self, task=read_step(function, self.kind, [context_itself], [_HISTORY, context_itself]))

    @overload
    def until(self, function: Callable[[T], Given[bool]], /) -> Repetition[T]: ...
    @overload
    def until(self, function: Callable[[T, History[T]], Given[bool]] | Function[bool], /) -> Repetition[T]: ...
    def until(self, function: Function[bool], /) -> Repetition[T]:
        """End when this function returns True for the newest attempt.

        The parameters of a lambda are the attempt, or the attempt and the history, which ends with that attempt.
        """
        last = newest(self.kind)
        return _repetition(replace(self, good=read_step(function, bool, [last], [last, _HISTORY])))


@dataclass(frozen=True, slots=True)
class RepeatUntilAcceptable(_Repeated[T]):
    """A task that is repeated, with the feedback to its last attempt, until an attempt is acceptable.

    `RepeatUntilAcceptable.returning(Report).repeating(write).with_evaluator(criticise)` is a workflow that ends at a
    score of 0.9, or with the best attempt of five.
    """

    @staticmethod
    def returning(kind: type[K]) -> "RepeatUntilAcceptable[K]":
        """Begin a workflow with a result of this type."""
        return RepeatUntilAcceptable(kind)

    def with_score_threshold(self, threshold: float, /) -> Self:
        """Accept an attempt with at least this score. Raises `DeclarationError` unless it is from 0 to 1."""
        if not is_number(threshold) or not 0 <= threshold <= 1:
            raise _mistake(self.kind, "a threshold from 0 to 1", f"it is {threshold!r}", "Scores are from 0 to 1.")
        return replace(self, threshold=threshold)

    @overload
    def with_acceptance_criteria(self, function: Callable[[Feedback], Given[bool]], /) -> Self: ...
    @overload
    def with_acceptance_criteria(self, function: Callable[[Feedback, T], Given[bool]] | Function[bool], /) -> Self: ...
    def with_acceptance_criteria(self, function: Function[bool], /) -> Self:
        """Accept an attempt when this function returns True, instead of by its score.

        The parameters of a lambda are the feedback, or the feedback and the attempt.
        """
        feedback = newest(Feedback)
        return replace(self, good=read_step(function, bool, [feedback], [feedback, newest(self.kind)]))

    @overload
    def repeating(self, function: Callable[[ActionContext], Given[T]], /) -> Self: ...
    @overload
    def repeating(self, function: Callable[[Feedback | None, ActionContext], Given[T]] | Function[T], /) -> Self: ...
    def repeating(self, function: Function[T], /) -> Self:
        """Make attempts with this function, which gets the feedback to the last one.

        Its parameters are filled as those of an action; a `Feedback | None` is the feedback to the last attempt, and a
        `History[T]` has all attempts. The parameters of a lambda are the context, or the feedback and the context.
        """
        task = read_step(function, self.kind, [context_itself], [newest(Feedback), context_itself])
        for each in task.parameters:
            if isinstance(each, Input) and fits(each.type, Feedback) and each.required:
                raise task.origin.error(
                    expected=f"{each.name!r} to be optional, as there is no feedback in the first round",
                    came="it is required",
                    fix=f"Write `{each.name}: {type_name(each.type)} | None`.",
                )
        return replace(self, task=task)

    @overload
    def with_evaluator(self, function: Callable[[T], Given[Feedback]], /) -> Repetition[T]: ...
    @overload
    def with_evaluator(
        self, function: Callable[[T, ActionContext], Given[Feedback]] | Function[Feedback], /
    ) -> Repetition[T]: ...
    def with_evaluator(self, function: Function[Feedback], /) -> Repetition[T]:
        """Evaluate each attempt with this function, and return the complete workflow.

        Its parameters are filled as those of an action; those of a lambda are the attempt, or the attempt and the
        context. If it raises, the workflow fails with that error.
        """
        attempt = newest(self.kind)
        evaluator = read_step(function, Feedback, [attempt], [attempt, context_itself])
        return _repetition(replace(self, evaluator=evaluator))
