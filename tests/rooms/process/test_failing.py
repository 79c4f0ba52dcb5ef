"""What decides whether a failing action is tried again, and what its failure leaves behind."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import anyio
import pytest

from goalport.agents.domain import Named, RetryPolicy, UserInput, achieves_goal, action, agent
from goalport.base.errors import BadInput, DeclarationError, ModelUnavailable, NonRetryable, Retryable
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionContext, Completed, Failed, OperationContext, ProcessOptions
from tests.rooms.toy_domain import Draft

FAST = RetryPolicy(attempts=3, first_delay=0.0)


@dataclass(frozen=True)
class Book:
    text: str


def because(*line: BaseException) -> Exception:
    """The first of these, each caused by the next."""
    for error, cause in pairwise(line):
        error.__cause__ = cause
    assert isinstance(line[0], Exception)
    return line[0]


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (because(ConnectionError(), NonRetryable("never")), 1),
        (because(TimeoutError(), ValueError(), NonRetryable("never")), 1),
        (because(ValueError(), Retryable("again")), 3),
        (because(Retryable("again"), NonRetryable("never")), 3),
        (because(NonRetryable("never"), Retryable("again")), 1),
        (because(ValueError(), ConnectionError()), 3),
        (because(ValueError(), ModelUnavailable("down"), ConnectionError()), 1),
        (ExceptionGroup("both", [Retryable("again"), because(ValueError(), NonRetryable("never"))]), 1),
        (ExceptionGroup("both", [Retryable("again"), TimeoutError()]), 3),
        (ExceptionGroup("both", [Retryable("again"), ValueError()]), 1),
    ],
    ids=repr,
)
async def test_the_nearest_marker_among_the_causes_decides_and_else_the_kind(error: Exception, attempts: int) -> None:
    tried: list[int] = []

    @agent(description="Fails")
    class Fails:
        @achieves_goal(description="A book")
        @action(retry=FAST)
        async def write(self, user_input: UserInput) -> Book:
            tried.append(1)
            raise error

    await AgentPlatform([Fails]).run("Fails", UserInput("x"))
    assert len(tried) == attempts


async def test_a_marker_counts_also_where_every_error_is_tried_again() -> None:
    policy = RetryPolicy(first_delay=0.0, every_error=True)
    assert not policy.retries(because(ValueError(), NonRetryable("never")))
    assert policy.retries(ValueError())


@pytest.mark.parametrize("error", [Retryable("again"), ValueError("no")])
async def test_what_a_failed_attempt_said_of_its_post_conditions_is_taken_back(error: Exception) -> None:
    seen: list[bool | None] = []

    @agent(description="Says too early that it is done")
    class Hasty:
        @action(post=["checked"], retry=FAST)
        async def check(self, user_input: UserInput, context: ActionContext) -> Draft:
            seen.append(context.blackboard.get_condition("checked"))
            context.blackboard.set_condition("checked", True)
            context.blackboard.set_condition("looked at", True)
            raise error

        @achieves_goal(description="A book")
        @action(pre=["checked"])
        async def write(self, user_input: UserInput) -> Book:
            return Book("unchecked")

    process = await AgentPlatform([Hasty]).run("Hasty", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert not any(seen)
    assert process.blackboard.get_condition("checked") is False
    assert process.blackboard.get_condition("looked at") is True


@pytest.mark.parametrize("name", ["", "  "])
def test_a_blank_name_of_a_binding_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(TypeError, match=r"Expected the name of a binding, but got .* Named\(\"author\"\)"):
        Named(name)
    if name:
        with pytest.raises(TypeError, match="output_binding to be a name"):
            action(output_binding=name)


async def test_named_alone_means_the_parameters_own_name() -> None:
    @agent(description="Prints")
    class Prints:
        @achieves_goal(description="A book")
        async def print_it(self, mine: Annotated[Draft, Named()], yours: Annotated[Draft, Named]) -> Book:
            return Book(mine.text + yours.text)

    bindings = {"mine": Draft("a"), "yours": Draft("b")}
    process = await AgentPlatform([Prints]).run("Prints", bindings=bindings, options=ProcessOptions())
    assert process.outcome == Completed(Book("ab"))


def test_a_context_in_a_constructor_says_where_it_belongs() -> None:
    @agent(description="Asks too early")
    class Early:
        def __init__(self, context: OperationContext) -> None: ...

        @achieves_goal(description="A book")
        async def write(self, user_input: UserInput) -> Book:
            return Book("")

    with pytest.raises(DeclarationError) as refused:
        AgentPlatform([Early])
    assert "Early" in refused.value.where
    assert "'context' is of the type OperationContext, of which there is one for each run only" in str(refused.value)
    assert "`def an_action(self, …, context: OperationContext)`" in refused.value.fix


async def test_two_lists_that_an_action_may_give_are_two_exits_with_two_names() -> None:
    @agent(description="Sorts")
    class Sorts:
        @action
        async def sort(self, user_input: UserInput) -> list[Draft] | list[Book]:
            return [Draft(user_input.content)]

        @achieves_goal(description="A book")
        async def bind(self, drafts: list[Draft]) -> Book:
            return Book(drafts[0].text)

    platform = AgentPlatform([Sorts])
    names = [each.name for each in platform.agents.scope("Sorts").system.operators if each.action == "Sorts.sort"]
    assert names == ["Sorts.sort → list[Draft]", "Sorts.sort → list[Book]"]
    with anyio.fail_after(60):
        assert (await platform.run("Sorts", UserInput("x"))).outcome == Completed(Book("x"))


def test_exits_of_one_name_are_numbered() -> None:
    def another() -> type:
        @dataclass(frozen=True)
        class Draft: ...

        return Draft

    first, second = another(), another()

    @agent(description="Gives one or the other")
    class Gives:
        @action
        def give(self, user_input: UserInput) -> object: ...

        @achieves_goal(description="A book")
        def bind(self, user_input: UserInput) -> Book:
            return Book("")

    Gives.give.__annotations__["return"] = first | second
    operators = AgentPlatform([Gives]).agents.scope("Gives").system.operators
    names = [each.name for each in operators if each.action == "Gives.give"]
    assert names == ["Gives.give → Draft (1)", "Gives.give → Draft (2)"]


def _raising(error: Exception) -> type:
    @agent(description="Fails")
    class Fails:
        @achieves_goal(description="A book")
        @action(retry=RetryPolicy(attempts=1))
        async def write(self, user_input: UserInput) -> Book:
            raise error

    return Fails


def _circle() -> Exception:
    error, other = ValueError("again"), ExceptionGroup("both", [KeyError("x")])
    error.__cause__, other.exceptions[0].__cause__ = other, error
    other.__context__ = error
    return error


class Mute(Exception):
    def __str__(self) -> str:
        raise LookupError


@pytest.mark.parametrize(
    "error",
    [
        because(same := ValueError("itself"), same),
        _circle(),
        because(*(ValueError(str(number)) for number in range(3_000))),
        ExceptionGroup("parts", [because(part := ValueError("part"), part)]),
        Mute(),
        ExceptionGroup("mute", [Mute()]),
    ],
    ids=["itself", "circle", "deep", "group", "mute", "mute group"],
)
@pytest.mark.parametrize("attempts", [1, 2])
async def test_an_action_may_fail_in_any_way_and_only_that_action_has_failed(error: Exception, attempts: int) -> None:
    platform = AgentPlatform([_raising(error)], retry=RetryPolicy(attempts=attempts, first_delay=0.0))
    with anyio.fail_after(20):
        process = await platform.run("Fails", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert process.outcome.reason.startswith("Fails.write failed: ")
    assert process.failure is not None
    assert process.failure.action == "Fails.write"


class TooMany(BadInput):
    """A mistake of the caller."""


async def test_a_mistake_of_the_caller_is_one_in_a_group_and_in_a_sub_process_too() -> None:
    @agent(description="Calls another")
    class Calls:
        @achieves_goal(description="A draft")
        async def call(self, user_input: UserInput, context: ActionContext) -> Draft:
            book = await context.as_sub_process(Book, _raising(TooMany("At most ten.")), user_input)
            return Draft(book.text)

    in_group = ExceptionGroup("both", [ValueError("x"), TooMany("At most ten.")])
    for each in (_raising(in_group), Calls):
        process = await AgentPlatform([each]).run(each.__name__, UserInput("x"))
        assert process.outcome == Failed("At most ten.", caller_mistake=True)


async def test_a_mistake_that_an_action_has_caught_is_not_the_callers() -> None:
    process = await AgentPlatform([_raising(because(ValueError("x"), TooMany("At most ten.")))]).run(
        "Fails", UserInput("x")
    )
    assert isinstance(process.outcome, Failed)
    assert not process.outcome.caller_mistake


async def test_what_a_sub_process_gave_up_is_not_tried_again_from_outside_unless_asked() -> None:
    tried: list[int] = []

    @agent(description="Fails")
    class Inner:
        @achieves_goal(description="A book")
        @action(retry=FAST)
        async def write(self, user_input: UserInput) -> Book:
            tried.append(1)
            raise ConnectionError

    def outer(retry: RetryPolicy) -> type:
        @agent(description="Calls another")
        class Calls:
            @achieves_goal(description="A draft")
            @action(retry=retry)
            async def call(self, user_input: UserInput, context: ActionContext) -> Draft:
                return Draft((await context.as_sub_process(Book, Inner, user_input)).text)

        return Calls

    await AgentPlatform([outer(FAST)]).run("Calls", UserInput("x"))
    assert len(tried) == 3
    await AgentPlatform([outer(replace(FAST, every_error=True))]).run("Calls", UserInput("x"))
    assert len(tried) == 3 + 9


async def test_a_sub_process_for_a_type_that_nothing_gives_is_refused_before_it_begins() -> None:
    @agent(description="Calls another")
    class Calls:
        @achieves_goal(description="A draft")
        async def call(self, user_input: UserInput, context: ActionContext) -> Draft:
            return Draft(str(await context.as_sub_process(int, _raising(AssertionError()), user_input)))

    process = await AgentPlatform([Calls]).run("Calls", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert "Fails gives no int; its goals give Book" in process.outcome.reason
    assert not process.children
