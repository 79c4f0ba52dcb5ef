"""`RepeatUntil` and `RepeatUntilAcceptable`: a step that is repeated until its result is good.

(User guide, section 3.7.1.)
"""

from collections.abc import Callable
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
_ROUNDS = 5
_THRESHOLD = 0.9
_HISTORY = newest(History)


@dataclass(frozen=True, slots=True)
class _Repeated(Generic[T]):
    """What both builders know: what is repeated, and how often at most."""

    kind: type[T]
    task: Step[T] | None = None
    limit: int = _ROUNDS

    def with_max_iterations(self, limit: int, /) -> Self:
        """Make so many attempts at most, and give the best of them. Raises `DeclarationError` for a limit below 1."""
        if type(limit) is not int or limit < 1:
            raise self._mistake("a limit of 1 or more rounds", f"it is {limit!r}", "Raise it.")
        return replace(self, limit=limit)

    def _judged(
        self, evaluator: Step[Feedback] | None, good: Step[bool] | None, threshold: float = _THRESHOLD
    ) -> "Repetition[T]":
        if self.task is None:
            raise self._mistake("a function to repeat", "there is none", "Write repeating(…) before.")
        if evaluator is None or good is None:
            (one,) = judges = [each for each in (evaluator, good) if each is not None]
            until = f"until {one.label} {f'gives a score of {threshold:g}' if evaluator else 'holds'}"
        else:
            judges = [evaluator, good]
            until = f"until {good.label} accepts what {evaluator.label} says of it"
        rounds = _Rounds(self.kind, self.task, self.limit, evaluator, good, threshold)
        words = f"Repeats {self.task.label} {until}, {counted(self.limit, 'round')} at most"
        made = (self.kind, Feedback)
        first = tuple(self.task.wants(()))  # in the first round nothing is made yet
        stage = Stage("repeat", words, self.kind, [self.task, *judges], made, rounds.run, first)
        return Repetition(self.kind, [stage], rounds)

    def _mistake(self, expected: str, came: str, fix: str) -> DeclarationError:
        where = f"A repetition for {type_name(self.kind)}"
        return DeclarationError(where, expected=expected, came=came, fix=fix)


@dataclass(frozen=True, slots=True)
class RepeatUntil(_Repeated[T]):
    """A task that is repeated until a condition holds for what it gave.

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
        """Repeat this function, whose parameters are filled as those of an action, and with the `History[T]`.

        The parameters of a lambda are the context, or the history and the context.
        """
        return replace(self, task=read_step(function, self.kind, [context_itself], [_HISTORY, context_itself]))

    @overload
    def until(self, function: Callable[[T], Given[bool]], /) -> "Repetition[T]": ...
    @overload
    def until(self, function: Callable[[T, History[T]], Given[bool]] | Function[bool], /) -> "Repetition[T]": ...
    def until(self, function: Function[bool], /) -> "Repetition[T]":
        """End when this function returns True for the newest attempt.

        The parameters of a lambda are the attempt, or the attempt and the history, in which it is the last.
        """
        last = newest(self.kind)
        return self._judged(None, read_step(function, bool, [last], [last, _HISTORY]))


@dataclass(frozen=True, slots=True)
class RepeatUntilAcceptable(_Repeated[T]):
    """A generator whose attempts are evaluated, and which gets the feedback, until one is acceptable.

    `RepeatUntilAcceptable.returning(Report).repeating(write).with_evaluator(criticise)` is a workflow that ends at a
    score of 0.9, or with the best attempt of five.
    """

    threshold: float = _THRESHOLD
    criteria: Step[bool] | None = None

    @staticmethod
    def returning(kind: type[K]) -> "RepeatUntilAcceptable[K]":
        """Begin a workflow with a result of this type."""
        return RepeatUntilAcceptable(kind)

    def with_score_threshold(self, threshold: float, /) -> Self:
        """Accept an attempt with this score or a better one. Raises `DeclarationError` unless it is from 0 to 1."""
        if not is_number(threshold) or not 0 <= threshold <= 1:
            raise self._mistake("a threshold from 0 to 1", f"it is {threshold!r}", "Scores are from 0 to 1.")
        return replace(self, threshold=threshold)

    @overload
    def with_acceptance_criteria(self, function: Callable[[Feedback], Given[bool]], /) -> Self: ...
    @overload
    def with_acceptance_criteria(self, function: Callable[[Feedback, T], Given[bool]] | Function[bool], /) -> Self: ...
    def with_acceptance_criteria(self, function: Function[bool], /) -> Self:
        """Accept an attempt when this function returns True, in place of the threshold.

        The parameters of a lambda are the feedback, or the feedback and the attempt.
        """
        feedback = newest(Feedback)
        return replace(self, criteria=read_step(function, bool, [feedback], [feedback, newest(self.kind)]))

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
    def with_evaluator(self, function: Callable[[T], Given[Feedback]], /) -> "Repetition[T]": ...
    @overload
    def with_evaluator(
        self, function: Callable[[T, ActionContext], Given[Feedback]] | Function[Feedback], /
    ) -> "Repetition[T]": ...
    def with_evaluator(self, function: Function[Feedback], /) -> "Repetition[T]":
        """Evaluate each attempt with this function, and so complete the workflow.

        Its parameters are filled as those of an action; those of a lambda are the attempt, or the attempt and the
        context. What it raises ends the workflow.
        """
        attempt = newest(self.kind)
        evaluator = read_step(function, Feedback, [attempt], [attempt, context_itself])
        return self._judged(evaluator, self.criteria, self.threshold)


@dataclass(frozen=True)
class Repetition(Workflow[T]):
    """A workflow that repeats a step."""

    rounds: "_Rounds[T]" = field(repr=False)

    def returning_history(self) -> Workflow[History[T]]:
        """The same workflow, but its result is the history of all attempts, whose `best` is the result otherwise."""
        kind = cast("type[History[T]]", cast("Any", History)[self.kind])
        return Workflow(kind, [replace(each, kind=kind, run=self.rounds.attempts) for each in self.stages])


@dataclass(frozen=True, slots=True)
class _Rounds(Generic[T]):
    """A task that is repeated, and what decides when it is enough: a function, else the score of an evaluator."""

    kind: type[T]
    task: Step[T]
    limit: int
    evaluator: Step[Feedback] | None
    good: Step[bool] | None
    threshold: float

    async def run(self, context: ActionContext) -> T:
        """The result of the accepted attempt, or of the best."""
        best = (await self.attempts(context)).best
        assert best is not None
        return best.result

    async def attempts(self, context: ActionContext) -> History[T]:
        """All attempts, of which the last is accepted, or none."""
        context, history = context.on_copy(), History[T]()
        taken = any(fits(self.kind, each.type) for each in self.task.wants(()))
        # What another repetition has made is hidden, except for an object that the task begins with.
        for kind in (Feedback, History, *(() if taken else (self.kind,))):
            context.blackboard.hide_all(kind)
        for number in range(1, self.limit + 1):
            with self.task.span(context, name := f"round {number}"):
                here = context.on_copy(place=name)
                result = await self.task.run(self._seeing(here, history))
                feedback, given = None, Typed(result, self.kind)
                if self.evaluator is not None:
                    feedback = await self.evaluator.run(here.on_copy(history, given))
                before, history = history, history.with_attempt(Attempt(result, feedback))
                if self.good is None:
                    accepted = feedback is not None and feedback.score >= self.threshold
                else:
                    accepted = await self.good.run(self._seeing(here, history))
            score = "" if feedback is None else f", score {feedback.score:g}"
            context.progress(f"round {number} of {self.limit}{score}")
            if accepted:
                return before.with_attempt(Attempt(result, feedback, accepted=True))
        best = history.best
        words = f"the best attempt, score {best.score:g}" if best and best.feedback else "the last attempt"
        context.progress(f"No attempt of {self.limit} was accepted: the result is {words}.")
        return history

    def _seeing(self, context: ActionContext, history: History[T]) -> ActionContext:
        """A context with the history, and with the newest attempt and its feedback as the newest objects."""
        last = history.last
        objects = () if last is None else (Typed(last.result, self.kind), last.feedback)
        return context.on_copy(history, *(each for each in objects if each is not None))
