"""What stays when the blackboard is cleared, what is hidden by its type, and processes that are remembered nowhere."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from goalport.agents.blackboard import Blackboard
from goalport.agents.domain import Named, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import UnknownName
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionContext, Completed, Failed, ProcessOptions, Stuck, run_subagent
from tests.rooms.toy_domain import Draft, Reply


@dataclass(frozen=True)
class Customer:
    name: str


@agent(description="Clears in its middle")
class Clearing:
    @action(clear_blackboard=True)
    async def draft(self, user_input: UserInput) -> Draft:
        return Draft(user_input.content)

    @achieves_goal(description="Reply")
    async def reply(self, draft: Draft, customer: Annotated[Customer, Named]) -> Reply:
        return Reply(f"{customer.name}: {draft.text}")


async def test_what_is_bound_as_protected_stays_when_the_blackboard_is_cleared() -> None:
    board = Blackboard()
    board.bind_protected("customer", Customer("Ada"))
    platform = AgentPlatform([Clearing])
    process = await platform.run("Clearing", UserInput("x"), options=ProcessOptions(blackboard=board))
    assert process.outcome == Completed(Reply("Ada: x"))
    assert process.blackboard.objects == [Customer("Ada"), Draft("x"), Reply("Ada: x")]

    process = await platform.run("Clearing", UserInput("x"), bindings={"customer": Customer("Bob")})
    assert isinstance(process.outcome, Stuck)


async def test_an_action_may_protect_what_it_binds() -> None:
    @agent(description="Greets first")
    class Greeting:
        @action
        async def greet(self, user_input: UserInput, context: ActionContext) -> Customer:
            context.bind_protected("greeted", Customer(user_input.content))
            return Customer("somebody")

        @action(clear_blackboard=True)
        async def draft(self, customer: Customer) -> Draft:
            return Draft(customer.name)

        @achieves_goal(description="Reply")
        async def reply(self, draft: Draft, greeted: Annotated[Customer, Named] | None) -> Reply:
            return Reply(f"{greeted.name if greeted else None}: {draft.text}")

    process = await AgentPlatform([Greeting]).run("Greeting", UserInput("Ada"))
    assert process.outcome == Completed(Reply("Ada: somebody"))


def test_a_protected_name_keeps_the_newest_object_and_copies_know_it_too() -> None:
    board = Blackboard()
    board.bind_protected("customer", Customer("Ada"))
    board.bind("customer", Customer("Bob"))
    board.add(Draft("x"))
    board.set_condition("known", value=True)
    copy = board.spawn()
    for each in (board, copy):
        each.clear()
        assert each.objects == [Customer("Bob")]
        assert (each.get("customer"), each.last_result, each.get_condition("known")) == (Customer("Bob"), None, None)


def test_objects_are_hidden_by_their_type() -> None:
    board = Blackboard()
    for each in (Draft("a"), Customer("Ada"), Draft("b")):
        board.add(each)
    board.hide_all(Draft)
    assert board.objects == [Customer("Ada")]
    assert (board.last(Draft), board.last_result) == (None, None)
    assert board.history == [Draft("a"), Customer("Ada"), Draft("b")]
    board.add(Draft("c"))
    assert board.all(Draft) == [Draft("c")]


EPHEMERAL = ProcessOptions().with_(ephemeral=True)


@agent(description="Replies")
class Plain:
    @achieves_goal(description="Reply")
    async def reply(self, user_input: UserInput) -> Reply:
        return Reply(user_input.content)


async def test_an_ephemeral_process_is_remembered_nowhere() -> None:
    platform = AgentPlatform([Plain])
    process = await platform.run("Plain", UserInput("hi"), options=EPHEMERAL)
    assert process.outcome == Completed(Reply("hi"))
    assert not await platform.processes.records()
    with pytest.raises(UnknownName):
        await platform.process(process.id)


async def test_an_ephemeral_process_neither_asks_people_nor_starts_others() -> None:
    @agent(description="Asks")
    class Asking:
        @achieves_goal(description="Reply")
        async def ask(self, user_input: UserInput) -> WaitFor[Reply]:
            return WaitFor.form_submission(user_input.content, Reply)

    @agent(description="Asks in its middle")
    class AskingWithin:
        @achieves_goal(description="Reply")
        async def ask(self, user_input: UserInput, context: ActionContext) -> Reply:
            return await context.ask(user_input.content, Reply)

    @agent(description="Starts another")
    class Starting:
        @achieves_goal(description="Reply")
        async def start(self, user_input: UserInput) -> Reply:
            return await run_subagent(Plain(), Reply, user_input)

    platform = AgentPlatform([Asking, AskingWithin, Starting])
    for name, words in (("Asking", "ask people"), ("AskingWithin", "ask people"), ("Starting", "start others")):
        process = await platform.run(name, UserInput("hi"), options=EPHEMERAL)
        assert isinstance(process.outcome, Failed)
        assert f"phemeral process cannot {words}" in process.outcome.reason
