"""`ScatterGatherBuilder` and `ConsensusBuilder`: several concurrent functions, and one that merges their results.

(User guide, section 3.7.1.)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from logging import getLogger
from typing import Any, Generic, Self, TypeVar, cast, overload

from anyio import move_on_after

from goalport.agents.blackboard import Typed
from goalport.agents.domain import Input
from goalport.base.errors import DeclarationError, NonRetryable, Signal
from goalport.base.words import counted, listed, type_name
from goalport.runtime.process import ActionContext
from goalport.runtime.workflow.workflow import (
    Function,
    Given,
    Stage,
    Step,
    Workflow,
    context_itself,
    is_number,
    newest,
    read_step,
)

_log = getLogger(__name__)
E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F")
Branches = Mapping[str, F] | Iterable[F]
"""Functions by their display names, or functions that use their own names."""
_AT_ONCE = 8
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class BranchFailure:
    """A function of a scatter that returned no result.

    A consolidating function gets all failures by a parameter `failures: list[BranchFailure]`.
    """

    branch: str
    """Its name, as in the progress of the process."""
    reason: str
    """The reason, in words that may be shown to the callers of the process."""


@dataclass(frozen=True)  # not slots=True: on Python 3.11 `Gathered[E](…)` fails with it
class Gathered(Generic[E]):
    """The results of the functions of a scatter."""

    elements: list[E]
    failures: list[BranchFailure]


@dataclass(frozen=True)
class ScatterGatherBuilder(Generic[R, E]):
    """Functions that run concurrently, and one that merges their results.

    `ScatterGatherBuilder.returning(FactChecks).from_elements(FactCheck).generated_by(checks).consolidated_by(merge)`.
    """

    kind: type[R]
    element: type[E]
    generating: str = "generate"
    consolidating: str = "consolidate"
    branches: Sequence[Step[E]] = ()
    max_concurrency: int = _AT_ONCE
    minimum: int | None = None
    """The least number of elements with which it continues; None: all."""
    seconds: float | None = None
    """The most seconds that a branch may take; None: no limit."""

    @staticmethod
    def returning(kind: type[T]) -> "ScatterGatherBuilder[T, Any]":
        """Begin a workflow with a result of this type."""
        return ScatterGatherBuilder(kind, object)

    def from_elements(self, kind: type[T]) -> "ScatterGatherBuilder[R, T]":
        """Declare the type of the elements from which the result is made."""
        return ScatterGatherBuilder(self.kind, kind)

    @overload
    def generated_by(
        self, functions: Branches[Callable[[ActionContext], Given[E]]], /, *, max_concurrency: int = _AT_ONCE
    ) -> Self: ...
    @overload
    def generated_by(self, functions: Branches[Function[E]], /, *, max_concurrency: int = _AT_ONCE) -> Self: ...
    def generated_by(self, functions: Branches[Function[E]], /, *, max_concurrency: int = _AT_ONCE) -> Self:
        """Run these functions, `max_concurrency` at once; their parameters are filled as those of an action.

        A mapping gives them names, which progress, plans and spans show. If one fails, the others are cancelled and its
        error is raised, unless `with_minimum_results` was called; if one asks a person, all others finish first. Raises
        `DeclarationError` for no function and a limit below 1.
        """
        found = self._read(functions)
        if not found:
            raise self._mistake(
                "at least one function to generate elements", "there is none", "Give one, or call none."
            )
        if type(max_concurrency) is not int or max_concurrency < 1:
            raise self._mistake("max_concurrency to be 1 or more", f"it is {max_concurrency!r}", "Raise it.")
        return replace(self, branches=found, max_concurrency=max_concurrency).with_minimum_results(self.minimum)

    sourced_from = generated_by

    def with_minimum_results(self, minimum: int | None, /) -> Self:
        """Continue without failed functions, if there are `minimum` elements; None: a failure ends the workflow."""
        most = len(self.branches) if self.branches else None
        if minimum is not None and (type(minimum) is not int or minimum < 1 or (most and minimum > most)):
            wanted = f"a minimum from 1 to {most}, the number of functions" if most else "a minimum of 1 or more"
            raise self._mistake(wanted, f"it is {minimum!r}", "Change it, or give more functions.")
        return replace(self, minimum=minimum)

    def with_time_limit(self, seconds: float, /) -> Self:
        """Let each function fail that takes longer; without a limit, only the deadline of the process applies."""
        if not is_number(seconds) or not seconds > 0:
            raise self._mistake("seconds above 0", f"it is {seconds!r}", "Raise it.")
        return replace(self, seconds=seconds)

    @overload
    def consolidated_by(self, function: Callable[[list[E]], Given[R]], /) -> Workflow[R]: ...
    @overload
    def consolidated_by(
        self, function: Callable[[list[E], ActionContext], Given[R]] | Function[R], /
    ) -> Workflow[R]: ...
    def consolidated_by(self, function: Function[R], /) -> Workflow[R]:
        """Make the result with this function from the list of elements, which is in the order of the functions.

        Its parameters are filled as those of an action. It may also take the list, and a `list[BranchFailure]` of the
        failed functions. The parameters of a lambda are the list, or the list and the context.
        """
        if not self.branches:
            raise self._mistake("functions to generate elements", "there are none", "Give them before.")
        element: Any = self.element
        elements, gathered = list[element], cast("type[Gathered[E]]", cast("Any", Gathered)[element])
        last = read_step(function, self.kind, [newest(elements)], [newest(elements), context_itself])

        async def consolidate(context: ActionContext) -> R:
            given = context.last(gathered)
            assert given is not None  # the stage before has made it
            failures = Typed(given.failures, list[BranchFailure])
            with last.span(context):
                return await last.run(context.on_copy(Typed(given.elements, elements), failures))

        limit = f", {self.max_concurrency} at once" if self.max_concurrency < len(self.branches) else " at once"
        enough = f"; {self.minimum} {'is' if self.minimum == 1 else 'are'} enough" if self.minimum else ""
        runs = f"Runs {counted(len(self.branches), 'function')}{limit}: {listed(each.name for each in self.branches)}"
        joins = f"Makes the result of them with {last.label}"
        made, taken = (elements, list[BranchFailure]), (Input("gathered", gathered),)
        scatter = Stage(self.generating, f"{runs}{enough}", gathered, self.branches, (), self._generate)
        gather = Stage(self.consolidating, joins, self.kind, [last], made, consolidate, taken)
        return Workflow(self.kind, [scatter, gather])

    with_consensus_by = consolidated_by

    def _read(self, functions: Branches[Function[E]]) -> tuple[Step[E], ...]:
        if isinstance(functions, Mapping):
            named = list(cast("Mapping[str, Function[E]]", functions).items())
            if odd := [each for each, _ in named if not isinstance(each, str) or not each.strip()]:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise self._mistake("names of functions", f"one is {odd[0]!r}", "Give each a name: {'gpt': ask_gpt}.")
        elif isinstance(functions, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            named = [("", each) for each in functions]
        else:
            raise self._mistake("functions to generate elements", f"it is {functions!r}", "Pass a list or a mapping.")
        steps = [read_step(each, self.element, [context_itself]) for _, each in named]
        names = [" ".join(own.split()) or each.name for (own, _), each in zip(named, steps, strict=True)]
        # Functions with equal names get their number as a suffix.
        return tuple(
            replace(each, name=name if names.count(name) == 1 else f"{name} {place}")
            for place, (name, each) in enumerate(zip(names, steps, strict=True), start=1)
        )

    async def _generate(self, context: ActionContext) -> Gathered[E]:
        over = count(1)

        def tell(words: str) -> None:
            number = next(over)
            if not context.cancelled:
                context.progress(f"{number}/{len(self.branches)} {words}")

        async def branch(step: Step[E]) -> E | BranchFailure:
            with step.span(context):
                try:
                    element = await self._in_time(step, context.on_copy(place=step.name))
                except Signal:
                    raise
                except Exception as error:
                    reason = context.process.words_for(error)
                    tell(f"{step.name} failed: {reason}")
                    if self.minimum is None:
                        error.add_note(f"It was raised by the function {step.name!r} of {context.action}.")
                        raise
                    _log.info("Process %s: %s failed", context.process.id, step.name, exc_info=True)
                    return BranchFailure(step.name, reason)
            tell(step.name)
            return element

        found = await context.parallel_map(self.branches, branch, max_concurrency=self.max_concurrency)
        elements = [each for each in found if not isinstance(each, BranchFailure)]
        failures = [each for each in found if isinstance(each, BranchFailure)]
        if len(elements) < (self.minimum or 0):
            reasons = "; ".join(f"{each.branch} failed: {each.reason}" for each in failures[:_MOST_REASONS])
            more = f"; and {len(failures) - _MOST_REASONS} more" if len(failures) > _MOST_REASONS else ""
            wanted = counted(self.minimum or 0, "result")
            raise NonRetryable(f"Expected at least {wanted}, but {len(elements) or 'none'} came. {reasons}{more}")
        return Gathered(elements, failures)

    async def _in_time(self, step: Step[E], context: ActionContext) -> E:
        with move_on_after(self.seconds):
            return await step.run(context)
        raise NonRetryable(f"It did not end within {self.seconds:g} s.")

    def _mistake(self, expected: str, came: str, fix: str) -> DeclarationError:
        where = f"A scatter of {type_name(self.element)} for {type_name(self.kind)}"
        return DeclarationError(where, expected=expected, came=came, fix=fix)


@dataclass(frozen=True)
class ConsensusBuilder(ScatterGatherBuilder[R, R]):
    """A scatter whose functions return objects of the result's type: it merges several answers to a question into one.

    `ConsensusBuilder.returning(Verdict).sourced_from(judges).with_consensus_by(majority)`.
    """

    @staticmethod
    def returning(kind: type[T]) -> "ConsensusBuilder[T]":
        """Begin a workflow with a result of this type."""
        return ConsensusBuilder(kind, kind, "ask", "agree")
