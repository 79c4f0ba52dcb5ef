"""What an action's result does: to the blackboard, to conditions, and to the goal."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel

from goalport.agents.domain import SomeOf, UserInput, achieves_goal, action, agent
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Completed, OperationContext, Stuck
from tests.rooms.toy_domain import Draft


@dataclass(frozen=True)
class Review:
    text: str


@dataclass(frozen=True)
class Parts(SomeOf):
    limit: ClassVar[int] = 2
    draft: Draft | None = None
    review: Review | None = None


class Model(SomeOf, BaseModel):
    draft: Draft | None = None
    note: str | None = None


async def test_what_an_action_without_a_result_posts_holds_afterwards() -> None:
    @agent(description="d")
    class Checks:
        @action(post=["checked"])
        def check(self, draft: Draft) -> None: ...

        @achieves_goal(description="g")
        @action(pre=["checked"])
        def write(self, draft: Draft) -> Review:
            return Review(draft.text)

    process = await AgentPlatform([Checks]).run("Checks", Draft("a"))
    assert process.outcome == Completed(Review("a"))


async def test_an_action_without_a_result_can_clear_the_blackboard() -> None:
    @agent(description="d")
    class Clears:
        @action(clear_blackboard=True, post=["cleared"])
        def clear(self, draft: Draft) -> None: ...

        @achieves_goal(description="g")
        @action(pre=["cleared"])
        def write(self, draft: Draft | None) -> Review:
            return Review(str(draft))

    process = await AgentPlatform([Clears]).run("Clears", Draft("a"))
    assert process.outcome == Completed(Review("None"))


async def test_what_an_action_posts_holds_though_an_earlier_action_denied_it() -> None:
    @agent(description="d")
    class Mends:
        @action
        def doubt(self, user_input: UserInput, context: OperationContext) -> Draft:
            context.blackboard.set_condition("sound", False)
            return Draft(user_input.content)

        @action(post=["sound"])
        def mend(self, draft: Draft) -> None: ...

        @achieves_goal(description="g")
        @action(pre=["sound"])
        def write(self, draft: Draft) -> Review:
            return Review(draft.text)

    process = await AgentPlatform([Mends]).run("Mends", UserInput("a"))
    assert process.outcome == Completed(Review("a"))


async def test_an_action_that_denies_what_it_posts_again_and_again_is_believed() -> None:
    @agent(description="d")
    class Fails:
        @action(post=["sound"], can_rerun=True)
        def mend(self, draft: Draft, context: OperationContext) -> None:
            context.blackboard.set_condition("sound", False)

        @achieves_goal(description="g")
        @action(pre=["sound"])
        def write(self, draft: Draft) -> Review:
            raise AssertionError

    process = await AgentPlatform([Fails]).run("Fails", Draft("a"))
    assert {step.action for step in process.history} == {"Fails.mend"}


async def test_a_goal_may_be_a_result_of_several_parts() -> None:
    @agent(description="d")
    class Splits:
        @achieves_goal(description="g")
        def split(self, user_input: UserInput) -> Parts:
            return Parts(draft=Draft(user_input.content))

    process = await AgentPlatform([Splits]).run("Splits", UserInput("a"))
    assert process.outcome == Completed(Parts(draft=Draft("a")))
    assert process.last(Draft) == Draft("a")


async def test_a_model_may_be_a_result_of_several_parts() -> None:
    @agent(description="d")
    class Splits:
        @action
        def split(self, user_input: UserInput) -> Model:
            return Model(draft=Draft(user_input.content))

        @achieves_goal(description="g")
        def write(self, draft: Draft) -> Review:
            return Review(draft.text)

    process = await AgentPlatform([Splits]).run("Splits", UserInput("a"))
    assert process.outcome == Completed(Review("a"))


async def test_a_result_without_any_of_its_parts_is_declined() -> None:
    @agent(description="d")
    class Splits:
        @achieves_goal(description="g")
        def split(self, user_input: UserInput) -> Parts:
            return Parts()

    process = await AgentPlatform([Splits]).run("Splits", UserInput("a"))
    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason.startswith("Splits.split gave nothing.")


async def test_a_goal_whose_action_leaves_as_it_is_what_was_there_gives_that() -> None:
    @agent(description="d")
    class Improves:
        @achieves_goal(description="Improve it, if that is possible")
        def improve(self, draft: Draft) -> Draft | None: ...

    process = await AgentPlatform([Improves]).run("Improves", Draft("perfect"))
    assert process.outcome == Completed(Draft("perfect"))
