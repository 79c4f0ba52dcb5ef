"""What a user writes keeps its types: pyright checks these lines with the rest, and they run."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import assert_type

from goalport.agents.domain import Export, SomeOf, UserInput, achieves_goal, action, agent, component, condition, cost
from goalport.runtime.platform import AgentInvocation, AgentPlatform, Invoked
from goalport.tools import tool


@dataclass(frozen=True)
class Answer:
    content: str


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool(name="minus")
def subtract(a: float, b: float) -> float:
    """Subtract one number from another."""
    return a - b


@agent(description="Answers")
class Answers:
    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    @condition
    def ready(self) -> bool:
        return True

    @cost(name="effort")
    def weigh(self, answer: Answer | None) -> float:
        return 0.1

    @achieves_goal(description="Answer", export=Export(remote=True))
    @action(cost_method="effort", pre=["ready"])
    async def answer(self, user_input: UserInput) -> Answer:
        return Answer(f"{self.greeting} {user_input.content}")


@component
class Lends:
    @action
    def lend(self, user_input: UserInput) -> Answer | None:
        return None


class Parts(SomeOf):
    answer: Answer | None = None
    words: str | None = None


def test_a_result_of_several_parts_is_a_dataclass() -> None:
    parts = Parts(words="x")
    assert_type(parts.answer, Answer | None)
    assert (parts.answer, parts.words) == (None, "x")


def test_decorators_return_what_they_mark() -> None:
    answers = Answers("hi")
    assert_type(answers, Answers)
    assert_type(answers.ready(), bool)
    assert_type(answers.weigh(None), float)
    assert_type(Lends().lend(UserInput("x")), Answer | None)
    assert_type(add(1, 2), float)
    assert_type(subtract(3, 2), float)
    bound: Callable[[UserInput], Awaitable[Answer]] = answers.answer
    assert callable(bound)


async def test_an_invocation_gives_the_type_that_was_asked_for() -> None:
    invocation = AgentInvocation.on(AgentPlatform([Answers])).returning(Answer)
    assert_type(invocation, AgentInvocation[Answer])
    assert_type(await invocation.invoke(UserInput("x")), Answer)
    handle = invocation.invoke_async(UserInput("x"))
    assert_type(handle, Invoked[Answer])
    assert_type(await handle, Answer)


def what_is_refused() -> None:
    Parts(other=1)  # pyright: ignore[reportCallIssue]
    Parts().words = "y"  # pyright: ignore[reportAttributeAccessIssue]
    Answers(greeting=3)  # pyright: ignore[reportArgumentType]
    Export(remot=True)  # pyright: ignore[reportCallIssue]
    Export(on_disconnect="keep")  # pyright: ignore[reportArgumentType]
    action(cost="cheap")  # pyright: ignore[reportArgumentType]
    achieves_goal(value=1)  # pyright: ignore[reportCallIssue]
    achieves_goal(add)  # pyright: ignore[reportArgumentType]
    agent(descripton="d")  # pyright: ignore[reportCallIssue]
