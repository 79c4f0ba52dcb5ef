"""The life of a process between its start and its end: other plans, early ends, pauses, ids, and what it tells."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from goalport.agents.domain import UserInput, achieves_goal, action, agent, component
from goalport.base.errors import ReplanRequested, TerminateAction
from goalport.base.events import ActionFinished, Event, PlanRejected, ProcessPaused
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    AgentProcess,
    Budget,
    Completed,
    Delay,
    EarlyTermination,
    Failed,
    FirstOf,
    Killed,
    MaxActions,
    MaxCost,
    MaxTokens,
    OnStuck,
    OperationContext,
    ProcessOptions,
    ProcessStatus,
    ProcessView,
    Stuck,
    Terminated,
    Verbosity,
)
from goalport.tools import Tool, ToolGroup, ToolResult
from tests.rooms.toy_domain import Draft, Reply


@dataclass(frozen=True)
class Ticket:
    text: str


class Heard(list[Event]):
    """Listens to everything."""

    def on_event(self, event: Event, /) -> None:
        self.append(event)

    def of(self, kind: type) -> list[Event]:
        return [each for each in self if isinstance(each, kind)]


@agent(description="Answers tickets")
class Desk:
    """Drafts by rule, and by hand where the rule gives up."""

    def __init__(self, rule: Callable[[Ticket], Draft | None]) -> None:
        self.rule = rule

    @action
    async def by_rule(self, ticket: Ticket) -> Draft | None:
        return self.rule(ticket)

    @action(cost=1)
    async def by_hand(self, ticket: Ticket) -> Draft:
        return Draft(f"by hand: {ticket.text}")

    @achieves_goal(description="Answer")
    async def answer(self, draft: Draft) -> Reply:
        return Reply(draft.text)


def names(process: AgentProcess) -> list[tuple[str, str]]:
    return [(each.action.partition(".")[2], each.status) for each in process.history]


async def test_an_action_may_ask_for_another_plan_and_say_what_has_changed() -> None:
    def changed(ticket: Ticket) -> Draft:
        raise ReplanRequested("It was answered before", update={"known": Draft(f"as before: {ticket.text}")})

    heard = Heard()
    process = await AgentPlatform([Desk(changed)], listeners=[heard]).run("Desk", Ticket("hi"))
    assert process.outcome == Completed(Reply("as before: hi"))
    assert names(process) == [("by_rule", "replanned"), ("answer", "succeeded")]
    assert process.history[0].error == "It was answered before"
    assert process.blackboard.get("known") == Draft("as before: hi")
    (rejected,) = heard.of(PlanRejected)
    assert isinstance(rejected, PlanRejected)
    assert (rejected.action, rejected.reason) == ("Desk.by_rule", "It was answered before")


async def test_an_action_that_asked_for_another_plan_is_left_out_of_the_next_one_only() -> None:
    tries: list[str] = []

    def at_second(ticket: Ticket) -> Draft:
        tries.append(ticket.text)
        if len(tries) == 1:
            raise ReplanRequested("The text has been corrected", Ticket("hello"))
        return Draft(f"by rule: {ticket.text}")

    @agent(description="Has one way")
    class OneWay:
        @action
        async def draft(self, ticket: Ticket) -> Draft:
            return at_second(ticket)

        @achieves_goal(description="Answer")
        async def answer(self, draft: Draft) -> Reply:
            return Reply(draft.text)

    process = await AgentPlatform([OneWay]).run("OneWay", Ticket("hllo"))
    assert process.outcome == Completed(Reply("by rule: hello"))
    assert names(process) == [("draft", "replanned"), ("draft", "succeeded"), ("answer", "succeeded")]


async def test_an_action_that_asks_for_another_plan_again_is_left_out() -> None:
    @agent(description="Never content")
    class Restless:
        @achieves_goal(description="Answer")
        async def answer(self, ticket: Ticket) -> Reply:
            raise ReplanRequested(f"Not in the mood for {ticket.text}")

    process = await AgentPlatform([Restless]).run("Restless", Ticket("hi"))
    assert isinstance(process.outcome, Failed)
    assert "asked for another plan again, and nothing else has run since: Not in the mood" in process.outcome.reason
    assert names(process) == [("answer", "replanned"), ("answer", "replanned")]


async def test_two_actions_that_each_ask_for_another_plan_end_too() -> None:
    @agent(description="Each leaves it to the other")
    class Shy:
        @action
        async def one(self, ticket: Ticket) -> Draft:
            raise ReplanRequested("The other one is better")

        @action
        async def other(self, ticket: Ticket) -> Draft:
            raise ReplanRequested("The first one is better")

        @achieves_goal(description="Answer")
        async def answer(self, draft: Draft) -> Reply:
            return Reply(draft.text)

    process = await AgentPlatform([Shy]).run("Shy", Ticket("hi"))
    assert isinstance(process.outcome, Failed)
    assert len(process.history) == 4


@pytest.mark.parametrize("signal", [ReplanRequested("no more", Draft("from the tool")), TerminateAction("no more")])
async def test_a_tool_steers_the_process_of_the_action_that_calls_it(signal: Exception) -> None:
    async def refuse(_: object) -> ToolResult:
        raise signal

    @agent(description="Asks a tool")
    class Asker:
        @action(tool_groups=["web"])
        async def ask(self, ticket: Ticket, context: OperationContext) -> Draft:
            return Draft((await context.tool("look").call({"q": ticket.text})).text)

        @action(cost=1)
        async def guess(self, ticket: Ticket) -> Draft:
            return Draft(f"a guess at {ticket.text}")

        @achieves_goal(description="Answer")
        async def answer(self, draft: Draft) -> Reply:
            return Reply(draft.text)

    look = Tool("look", "Looks", {"type": "object"}, refuse)
    platform = AgentPlatform([Asker], tool_groups=[ToolGroup("web", (look,))])
    process = await platform.run("Asker", Ticket("hi"))
    replanned = isinstance(signal, ReplanRequested)
    assert process.outcome == Completed(Reply("from the tool" if replanned else "a guess at hi"))
    assert names(process)[0] == ("ask", "replanned" if replanned else "terminated")


async def test_an_action_may_end_itself_and_the_process_goes_on() -> None:
    def given_up(ticket: Ticket) -> Draft:
        raise TerminateAction(f"{ticket.text} is beyond rules")

    heard = Heard()
    process = await AgentPlatform([Desk(given_up)], listeners=[heard]).run("Desk", Ticket("hi"))
    assert process.outcome == Completed(Reply("by hand: hi"))
    assert names(process) == [("by_rule", "terminated"), ("by_hand", "succeeded"), ("answer", "succeeded")]
    assert process.failure is None
    told = [(each.status, each.error) for each in heard.of(ActionFinished) if isinstance(each, ActionFinished)]
    assert told[0] == ("terminated", "hi is beyond rules")


async def test_a_deed_that_was_ended_is_not_taken_for_done() -> None:
    @agent(description="Only does")
    class Doer:
        @achieves_goal(description="Do it")
        async def do(self, ticket: Ticket) -> None:
            raise TerminateAction(f"{ticket.text} cannot be done")

    process = await AgentPlatform([Doer]).run("Doer", Ticket("that"))
    reason = "Doer.do ended early: that cannot be done"
    assert process.outcome == Failed(reason, (reason,))


async def test_an_action_may_terminate_its_agent() -> None:
    @agent(description="Gives up")
    class Quitter:
        @action
        async def draft(self, ticket: Ticket, context: ActionContext) -> Draft:
            context.process.terminate("There is no point.")
            return Draft(ticket.text)

        @achieves_goal(description="Answer")
        async def answer(self, draft: Draft) -> Reply:
            return Reply(draft.text)

    process = await AgentPlatform([Quitter]).run("Quitter", Ticket("hi"))
    assert process.outcome == Terminated("There is no point.")
    assert names(process) == [("draft", "succeeded")]


async def test_what_failed_last_is_told_even_when_another_way_was_found() -> None:
    def broken(ticket: Ticket) -> Draft:
        raise LookupError(ticket.text)

    process = await AgentPlatform([Desk(broken)]).run("Desk", Ticket("hi"))
    assert process.status is ProcessStatus.COMPLETED
    assert process.failure is not None
    assert (process.failure.action, process.failure.reason) == ("Desk.by_rule", "LookupError: hi")


@agent(description="Walks until it has gone far enough")
class Walker:
    @action(can_rerun=True)
    async def step(self, draft: Draft, context: OperationContext) -> Draft:
        context.spend(cost=0.5, input_tokens=60, output_tokens=40)
        return Draft(draft.text + ".")

    @achieves_goal(description="Arrive")
    @action(pre=["expr: draft.text | size > 6"])
    async def attach(self, draft: Draft) -> Reply:
        return Reply(draft.text)

    @action(can_rerun=True, post=["expr: draft.text | size > 6"], cost=1)
    async def far(self, draft: Draft, context: OperationContext) -> Draft:
        return await self.step(draft, context)


class AtHalfWay:
    """A policy of one's own."""

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        newest = process.blackboard.last(Draft)
        return None if stuck or newest is None or len(newest.text) < 3 else "Half of the way is enough."


@pytest.mark.parametrize(
    ("policy", "reason", "actions"),
    [
        (MaxActions(3), "3 actions have run", 3),
        (MaxCost(1.0), "1.00 USD are spent, of 1.00 USD allowed.", 2),
        (MaxTokens(250), "300 tokens are used, of 250 allowed.", 3),
        (FirstOf(MaxActions(4), MaxCost(1.0), OnStuck()), "1.00 USD", 2),
        (AtHalfWay(), "Half of the way is enough.", 3),
    ],
)
async def test_a_policy_ends_a_process_early(policy: EarlyTermination, reason: str, actions: int) -> None:
    options = ProcessOptions().with_(early_termination=policy)
    process = await AgentPlatform([Walker]).run("Walker", Draft(""), options=options)
    assert isinstance(process.outcome, Terminated)
    assert reason in process.outcome.reason
    assert len(process.history) == actions


async def test_a_policy_does_not_replace_the_budget() -> None:
    options = ProcessOptions(budget=Budget(actions=2)).with_(early_termination=MaxActions(4))
    process = await AgentPlatform([Walker]).run("Walker", Draft(""), options=options)
    assert isinstance(process.outcome, Terminated)
    assert process.outcome.reason.startswith("The budget of 2 actions is used up. Allow more by ")


async def test_a_process_that_would_be_stuck_is_terminated_where_its_policy_says_so() -> None:
    platform = AgentPlatform([Desk(lambda _: None)])
    process = await platform.run("Desk", UserInput("hi"), options=ProcessOptions().with_(early_termination=OnStuck()))
    assert isinstance(process.outcome, Terminated)
    assert process.outcome.reason.startswith("It was stuck. The goal Desk.answer cannot be reached")


async def test_a_stuck_process_goes_on_with_what_was_missing() -> None:
    platform = AgentPlatform([Desk(lambda _: None)])
    process = await platform.run("Desk", UserInput("hi"))
    assert process.status is ProcessStatus.STUCK
    platform.processes.resume(process, Ticket("hi"))
    with anyio.fail_after(60):
        assert await process.wait() == Completed(Reply("by hand: hi"))
    platform.processes.resume(process, Ticket("again"))
    assert process.status is ProcessStatus.COMPLETED


@pytest.mark.parametrize(("end", "kind"), [(AgentProcess.kill, Killed), (AgentProcess.terminate, Terminated)])
async def test_a_stuck_process_can_be_ended_for_good(end: Callable[[AgentProcess], None], kind: type) -> None:
    async with AgentPlatform([Desk(lambda _: None)]) as platform:
        process = await platform.run("Desk", UserInput("hi"))
        end(process)
        assert isinstance(process.outcome, kind)
        platform.processes.resume(process, Ticket("hi"))
        left = await platform.run("Desk", UserInput("hi"))
    assert isinstance(process.outcome, kind)
    assert isinstance(left.outcome, Stuck)


async def test_pauses_lie_between_actions_only() -> None:
    heard = Heard()
    options = ProcessOptions(listeners=[heard]).with_(delay=0.01)
    process = await AgentPlatform([Desk(lambda _: None)]).run("Desk", Ticket("hi"), options=options)
    assert process.status is ProcessStatus.COMPLETED
    assert [type(each) for each in heard if isinstance(each, (ActionFinished, ProcessPaused))] == [
        ActionFinished,
        ProcessPaused,
        ActionFinished,
        ProcessPaused,
        ActionFinished,
    ]
    assert [each.seconds for each in heard.of(ProcessPaused) if isinstance(each, ProcessPaused)] == [0.01, 0.01]
    assert (Delay.NONE, Delay.MEDIUM, Delay.LONG) == (0, 0.4, 2)


class NotBefore:
    """A schedule: everything in an hour."""

    def __init__(self, paused: anyio.Event, wait: timedelta) -> None:
        self.paused = paused
        self.wait = wait

    def not_before(self, _process: ProcessView, action: str, /) -> datetime | None:
        self.paused.set()
        return datetime.now(UTC) + self.wait if action.endswith("answer") else None


@pytest.mark.parametrize(("end", "kind"), [(AgentProcess.kill, Killed), (AgentProcess.terminate, Terminated)])
async def test_a_process_is_paused_until_its_schedule_allows_and_can_be_ended_meanwhile(
    end: Callable[[AgentProcess], None], kind: type
) -> None:
    schedule = NotBefore(anyio.Event(), timedelta(hours=1))
    platform = AgentPlatform([Desk(lambda _: Draft("quick"))])
    paused = anyio.Event()

    class Notices:
        def on_event(self, event: Event, /) -> None:
            if isinstance(event, ProcessPaused):
                paused.set()

    options = ProcessOptions(listeners=[Notices()]).with_(schedule=schedule)
    process = platform.start("Desk", Ticket("hi"), options=options)
    with anyio.fail_after(60):
        await paused.wait()
        assert process.status is ProcessStatus.PAUSED
        assert not process.status.ended
        end(process)
        assert isinstance(await process.wait(), kind)
    assert names(process) == [("by_rule", "succeeded")]


async def test_a_paused_process_goes_on_by_itself() -> None:
    schedule = NotBefore(anyio.Event(), timedelta(milliseconds=10))
    options = ProcessOptions().with_(schedule=schedule)
    with anyio.fail_after(60):
        process = await AgentPlatform([Desk(lambda _: Draft("quick"))]).run("Desk", Ticket("hi"), options=options)
    assert process.outcome == Completed(Reply("quick"))


async def test_calls_of_tools_can_be_slowed_down() -> None:
    async def look(_: object) -> ToolResult:
        return ToolResult.of_text("found")

    @agent(description="Asks a tool")
    class Asker:
        @achieves_goal(description="Answer")
        @action(tool_groups=["web"])
        async def ask(self, ticket: Ticket, context: OperationContext) -> Reply:
            result = await context.tool("look").call({"q": ticket.text})
            return Reply(result.text)

    group = ToolGroup("web", (Tool("look", "Looks", {"type": "object"}, look),))
    options = ProcessOptions().with_(tool_delay=0.05)
    process = await AgentPlatform([Asker], tool_groups=[group]).run("Asker", Ticket("hi"), options=options)
    assert process.outcome == Completed(Reply("found"))
    assert process.history[0].seconds >= 0.05


async def test_ids_tell_the_agent_and_its_version_where_that_is_wanted() -> None:
    @agent(name="Help desk/1", version="2.1", description="Answers")
    class Versioned:
        @achieves_goal(description="Answer")
        async def answer(self, ticket: Ticket) -> Reply:
            return Reply(ticket.text)

    platform = AgentPlatform([Versioned])
    options = ProcessOptions().with_(agent_name_in_id=True, version_in_id=True)
    process = await platform.run("Help desk/1", Ticket("hi"), options=options)
    assert process.id.startswith("Help-desk-1-2.1-")
    assert await platform.process(process.id) is process


async def test_plans_are_logged_for_people_who_want_to_see_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goalport.process")
    options = ProcessOptions().with_(verbosity=Verbosity(show_planning=True))
    process = await AgentPlatform([Desk(lambda _: None)]).run("Desk", Ticket("hi"), options=options)
    assert [each.message for each in caplog.records] == [
        f"{process.id}: plan for Desk.answer: Desk.by_rule → Desk.answer",
        f"{process.id}: plan for Desk.answer: Desk.by_hand → Desk.answer",
        f"{process.id}: plan for Desk.answer: Desk.answer",
    ]


def test_a_copy_of_options_takes_the_fields_of_options_and_no_others() -> None:
    options = ProcessOptions(budget=Budget(actions=3))
    assert options.with_(prune=True, delay=0.5) == ProcessOptions(budget=Budget(actions=3), prune=True, delay=0.5)
    with pytest.raises(TypeError, match="pruned"):
        options.with_(pruned=True)
    with pytest.raises(TypeError, match="Expected delay to be a number of seconds"):
        options.with_(delay=-1)


async def test_pruning_leaves_out_what_can_have_no_part() -> None:
    @component
    class Lends:
        @action
        async def elsewhere(self, user_input: UserInput) -> Ticket:
            return Ticket(user_input.content)

    platform = AgentPlatform([Desk(lambda _: None), Lends])
    whole = await platform.run("Desk", Ticket("hi"))
    pruned = await platform.run("Desk", Ticket("hi"), options=ProcessOptions().with_(prune=True))
    assert whole.outcome == pruned.outcome == Completed(Reply("by hand: hi"))
    assert set(whole.scope.actions) - set(pruned.scope.actions) == {"Lends.elsewhere"}
