"""`ScatterGatherBuilder` and `ConsensusBuilder`: several functions at once, and one that makes one result of theirs.

(User guide, section 3.7.1.)
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from logging import getLogger
from typing import Any, Generic, TypeVar, overload

from anyio import move_on_after

from goalport.domain import Input
from goalport.errors import DeclarationError, NonRetryable, Signal
from goalport.process import ActionContext
from goalport.words import counted, listed, type_name
from goalport.workflow.step import Step, context_itself, newest, read_step
from goalport.workflow.workflow import Stage, Workflow

__all__ = ["ConsensusBuilder", "ScatterGatherBuilder", "Scattering"]

_log = getLogger(__name__)
E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class ScatterGatherBuilder(Generic[R]):
    """Functions that run at once, and one that consolidates what they give.

    `ScatterGatherBuilder.returning(FactChecks).from_elements(FactCheck).generated_by(checks).consolidated_by(merge)`.
    """

    kind: type[R]

    @staticmethod
    def returning(kind: type[T]) -> "ScatterGatherBuilder[T]":
        """Begin a workflow with a result of this type."""
        return ScatterGatherBuilder(kind)

    def from_elements(self, kind: type[E]) -> "Scattering[E, R]":
        """Say of what type the elements are that the result is made of."""
        return Scattering(self.kind, kind)


@dataclass(frozen=True, slots=True)
class ConsensusBuilder(Generic[R]):
    """A `ScatterGatherBuilder` whose sources give what the result is too: one of several answers to one question.

    `ConsensusBuilder.returning(Verdict).sourced_from(judges).with_consensus_by(majority)`.
    """

    kind: type[R]

    @staticmethod
    def returning(kind: type[T]) -> "ConsensusBuilder[T]":
        """Begin a workflow with a result of this type."""
        return ConsensusBuilder(kind)

    @overload
    def sourced_from(
        self, functions: Iterable[Callable[[ActionContext], Awaitable[R] | R]], /, *, max_concurrency: int = _AT_ONCE
    ) -> "Sources[R]": ...
    @overload
    def sourced_from(
        self, functions: Iterable[Callable[..., Awaitable[R] | R]], /, *, max_concurrency: int = _AT_ONCE
    ) -> "Sources[R]": ...
    def sourced_from(
        self, functions: Iterable[Callable[..., Awaitable[R] | R]], /, *, max_concurrency: int = _AT_ONCE
    ) -> "Sources[R]":
        """Ask these functions; see `Scattering.generated_by`."""
        scattering: Scattering[R, R] = Scattering(self.kind, self.kind, "ask", "agree")
        return Sources(scattering.generated_by(functions, max_concurrency=max_concurrency))


@dataclass(frozen=True)
class Scattering(Generic[E, R]):
    """A scatter that knows what its result and its elements are."""

    kind: type[R]
    element: type[E]
    generating: str = "generate"
    consolidating: str = "consolidate"
    branches: Sequence[Step[E]] = ()
    max_concurrency: int = _AT_ONCE
    minimum: int | None = None
    """With how many elements it goes on; None: with all."""
    seconds: float | None = None
    """How long a branch may take."""

    @property
    def elements(self) -> Any:
        """The type of the list of elements."""
        return list[self.element]

    @overload
    def generated_by(
        self, functions: Iterable[Callable[[ActionContext], Awaitable[E] | E]], /, *, max_concurrency: int = _AT_ONCE
    ) -> "Scattering[E, R]": ...
    @overload
    def generated_by(
        self, functions: Iterable[Callable[..., Awaitable[E] | E]], /, *, max_concurrency: int = _AT_ONCE
    ) -> "Scattering[E, R]": ...
    def generated_by(
        self, functions: Iterable[Callable[..., Awaitable[E] | E]], /, *, max_concurrency: int = _AT_ONCE
    ) -> "Scattering[E, R]":
        """Run these functions, `max_concurrency` at once; their parameters are filled as those of an action.

        Where one fails, the others are cancelled and its error is raised, unless `with_minimum_results` was said; where
        one asks a person, all others finish first. Raises `DeclarationError` for no function and a limit below 1.
        """
        offered = [[context_itself]]
        found = tuple(read_step(each, self.element, offered) for each in functions)
        if not found:
            raise self._mistake(
                "at least one function to generate elements", "there is none", "Give one, or call none."
            )
        if type(max_concurrency) is not int or max_concurrency < 1:
            raise self._mistake("max_concurrency to be 1 or more", f"it is {max_concurrency!r}", "Raise it.")
        return replace(self, branches=_numbered(found), max_concurrency=max_concurrency)

    def with_minimum_results(self, minimum: int, /) -> "Scattering[E, R]":
        """Go on without the functions that fail, if at least so many elements are there."""
        if not 1 <= minimum <= len(self.branches):
            most = f"a minimum from 1 to {len(self.branches)}, the number of functions"
            raise self._mistake(most, f"it is {minimum!r}", "Say it after generated_by.")
        return replace(self, minimum=minimum)

    def with_time_limit(self, seconds: float, /) -> "Scattering[E, R]":
        """Let each function fail that takes longer; without it, only the deadline of the process ends one."""
        if not seconds > 0:
            raise self._mistake("seconds above 0", f"it is {seconds!r}", "Raise it.")
        return replace(self, seconds=seconds)

    @overload
    def consolidated_by(self, function: Callable[[list[E]], Awaitable[R] | R], /) -> Workflow[R]: ...
    @overload
    def consolidated_by(self, function: Callable[[list[E], ActionContext], Awaitable[R] | R], /) -> Workflow[R]: ...
    @overload
    def consolidated_by(self, function: Callable[..., Awaitable[R] | R], /) -> Workflow[R]: ...
    def consolidated_by(self, function: Callable[..., Awaitable[R] | R], /) -> Workflow[R]:
        """Make the result of the list of elements, in the order of the functions, by this function.

        The parameters of a lambda are the list, or the list and the context.
        """
        if not self.branches:
            raise self._mistake("functions to generate elements", "there are none", "Write generated_by(…) before.")
        last = read_step(function, self.kind, [[newest(self.elements)], [newest(self.elements), context_itself]])

        async def consolidate(context: ActionContext) -> R:
            with last.span(context):
                return await last.run(context)

        gathered = (Input("elements", self.elements),)
        joined = f"Makes the result of them with {last.name}"
        return Workflow(
            self.kind,
            [
                Stage(self.generating, self._words, self.elements, self.branches, (), self._generate),
                Stage(self.consolidating, joined, self.kind, [last], [self.elements], consolidate, gathered),
            ],
        )

    @property
    def _words(self) -> str:
        limit = f", {self.max_concurrency} at once" if self.max_concurrency < len(self.branches) else " at once"
        enough = f"; {self.minimum} are enough" if self.minimum else ""
        number = counted(len(self.branches), "function")
        return f"Runs {number}{limit}: {listed(each.name for each in self.branches)}{enough}"

    async def _generate(self, context: ActionContext) -> list[E]:
        progress = _Progress(context, len(self.branches))

        async def branch(step: Step[E]) -> "E | _Failure":
            with step.span(context):
                try:
                    element = await self._in_time(step, context.on_copy())
                except Signal:
                    raise
                except Exception as error:
                    failure = progress.failed(step, error)
                    if self.minimum is None:
                        raise
                    _log.info("Process %s: %s", context.process.id, failure.words, exc_info=True)
                    return failure
            progress.done(step)
            return element

        found = await context.parallel_map(self.branches, branch, max_concurrency=self.max_concurrency)
        elements = [each for each in found if not isinstance(each, _Failure)]
        if len(elements) < (self.minimum or 0):
            failures = "; ".join(each.words for each in found if isinstance(each, _Failure))
            raise NonRetryable(f"Expected at least {self.minimum} results, but {len(elements)} came. {failures}")
        return elements

    async def _in_time(self, step: Step[E], context: ActionContext) -> E:
        if self.seconds is None:
            return await step.run(context)
        with move_on_after(self.seconds):
            return await step.run(context)
        raise NonRetryable(f"It did not end within {self.seconds:g} s.")

    def _mistake(self, expected: str, came: str, fix: str) -> DeclarationError:
        where = f"A scatter of {type_name(self.element)} for {type_name(self.kind)}"
        return DeclarationError(where, expected=expected, came=came, fix=fix)


@dataclass(frozen=True, slots=True)
class Sources(Generic[R]):
    """The sources of a consensus."""

    scattering: Scattering[R, R]

    def with_minimum_results(self, minimum: int, /) -> "Sources[R]":
        """Go on without the sources that fail, if at least so many results are there."""
        return Sources(self.scattering.with_minimum_results(minimum))

    def with_time_limit(self, seconds: float, /) -> "Sources[R]":
        """Let each source fail that takes longer."""
        return Sources(self.scattering.with_time_limit(seconds))

    @overload
    def with_consensus_by(self, function: Callable[[list[R]], Awaitable[R] | R], /) -> Workflow[R]: ...
    @overload
    def with_consensus_by(self, function: Callable[[list[R], ActionContext], Awaitable[R] | R], /) -> Workflow[R]: ...
    @overload
    def with_consensus_by(self, function: Callable[..., Awaitable[R] | R], /) -> Workflow[R]: ...
    def with_consensus_by(self, function: Callable[..., Awaitable[R] | R], /) -> Workflow[R]:
        """Find the result in the list of what the sources gave; see `Scattering.consolidated_by`."""
        return self.scattering.consolidated_by(function)


@dataclass(frozen=True, slots=True)
class _Failure:
    words: str


class _Progress:
    """Tells how many branches are over."""

    def __init__(self, context: ActionContext, branches: int) -> None:
        self._context, self._branches, self._over = context, branches, 0

    def done(self, step: Step[Any]) -> None:
        self._say(step.name)

    def failed(self, step: Step[Any], error: Exception) -> _Failure:
        words = f"{step.name} failed: {self._context.process.words_for(error)}"
        self._say(words)
        return _Failure(words)

    def _say(self, words: str) -> None:
        self._over += 1
        if not self._context.cancelled:
            self._context.progress(f"{self._over}/{self._branches} {words}")


def _numbered(steps: Sequence[Step[E]]) -> tuple[Step[E], ...]:
    """The steps with names of their own: those that share one get the number of their place."""
    names = [each.name for each in steps]
    return tuple(
        each if names.count(each.name) == 1 else replace(each, name=f"{each.name} {place}")
        for place, each in enumerate(steps, start=1)
    )
