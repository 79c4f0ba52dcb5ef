"""What an agent that an action starts begins with: its inputs, and nothing that it is to come to itself."""

from dataclasses import dataclass

import anyio

from goalport.agents.domain import State, UserInput, achieves_goal, action, agent
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionContext, Completed, run_subagent
from tests.rooms.toy_domain import Draft


@dataclass(frozen=True)
class Review:
    text: str


@dataclass(frozen=True)
class Verdict:
    text: str


@agent(description="Drafts and reviews")
class Reviewer:
    @action(post=["polite"])
    async def draft(self, user_input: UserInput) -> Draft:
        return Draft(f"draft of {user_input.content}")

    @achieves_goal(description="A review")
    @action(pre=["polite"])
    async def review(self, draft: Draft) -> Review:
        return Review(f"review of {draft.text}")


async def ends(declared: object, *inputs: object) -> object:
    with anyio.fail_after(60):
        return (await AgentPlatform([declared]).run(type(declared).__name__, *inputs)).outcome


async def test_one_agent_does_its_work_in_two_steps_of_another() -> None:
    @agent(description="Asks twice")
    class Twice:
        @action
        async def once(self, user_input: UserInput) -> Review:
            return await run_subagent(Reviewer(), Review, UserInput("one"))

        @achieves_goal(description="A verdict")
        async def again(self, user_input: UserInput, review: Review) -> Verdict:
            other = await run_subagent(Reviewer(), Review, UserInput("two"))
            third = await run_subagent(Reviewer(), Review)
            return Verdict(f"{review.text}, {other.text}, {third.text}")

    assert await ends(Twice(), UserInput("start")) == Completed(
        Verdict("review of draft of one, review of draft of two, review of draft of start")
    )


async def test_what_the_parent_was_given_does_not_count_as_the_agents_work() -> None:
    @agent(description="Has something reviewed again")
    class Again:
        @achieves_goal(description="A verdict")
        async def judge(self, review: Review, draft: Draft) -> Verdict:
            return Verdict((await run_subagent(Reviewer(), Review, UserInput("cats"))).text)

    given = (Review("old"), Draft("of dogs"))
    assert await ends(Again(), *given) == Completed(Verdict("review of draft of cats"))


async def test_what_it_is_called_with_counts_though_it_might_make_that_itself() -> None:
    @agent(description="Brings a draft")
    class Brings:
        @achieves_goal(description="A verdict")
        async def judge(self, draft: Draft) -> Verdict:
            found = await run_subagent(Polisher(), Draft, draft)
            return Verdict(found.text)

    @agent(description="Polishes")
    class Polisher:
        @achieves_goal(description="A better draft")
        async def polish(self, draft: Draft) -> Draft:
            return Draft(f"{draft.text}!")

    assert await ends(Brings(), Draft("a")) == Completed(Verdict("a!"))


async def test_without_inputs_it_takes_what_its_parent_has() -> None:
    @agent(description="Polishes")
    class Polisher:
        @achieves_goal(description="A better draft")
        async def polish(self, draft: Draft) -> Draft:
            return Draft(f"{draft.text}!")

    @agent(description="Has a draft")
    class Has:
        @achieves_goal(description="A verdict")
        async def judge(self, draft: Draft) -> Verdict:
            return Verdict((await run_subagent(Polisher(), Draft)).text)

    assert await ends(Has(), Draft("a")) == Completed(Verdict("a!"))


@dataclass(frozen=True)
class Depth:
    number: int


class Stage(State): ...


class Digging(Stage):
    depth: Depth

    @achieves_goal(description="A verdict")
    async def dig(self, context: ActionContext) -> Verdict:
        if self.depth.number == 0:
            return Verdict("bottom")
        deeper = await context.as_sub_process(Verdict, "Digger", Depth(self.depth.number - 1))
        return Verdict(f"{self.depth.number} {deeper.text}")


@agent(description="Digs by way of itself")
class Digger:
    @action
    async def start(self, depth: Depth) -> Digging:
        return Digging(depth)


async def test_an_agent_of_states_that_starts_itself_begins_in_no_state() -> None:
    assert await ends(Digger(), Depth(3)) == Completed(Verdict("3 2 1 bottom"))
