"""What a caller has spent today is the same for every program that shares a store."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, AgentProcess, Export, UserInput, achieves_goal, agent
from goalport.base.caller import Caller
from goalport.models.llm import TokenUsage
from goalport.server.publish.limits import DailyCosts
from tests.rooms.store.conftest import MakeDatabase, databases, make_database

__all__ = ["databases", "make_database"]

ADA, OTHER = Caller("ada", "https://one"), Caller("ada", "https://other")


@agent(description="Spends what it is told to")
class Spender:
    @achieves_goal(description="Nothing", export=Export(remote=True))
    async def spend(self, cents: UserInput, context: ActionContext) -> str:
        context.process.spend(TokenUsage(cost=int(cents.content) / 100), action="Spender.spend", model="m")
        return "spent"


async def spend(platform: AgentPlatform, cents: str, caller: Caller = ADA) -> AgentProcess:
    """A process that has spent so much, once the store has it."""
    process = await platform.run("Spender", UserInput(cents), caller=caller)
    with anyio.fail_after(60):
        while (record := await platform.store.find(process.id)) is None or not record.final:
            await anyio.sleep(0.01)
    return process


async def test_the_costs_of_other_programs_and_of_earlier_ones_count(make_database: MakeDatabase) -> None:
    opened = make_database()
    async with (
        AgentPlatform([Spender()], store=opened()) as first,
        AgentPlatform([Spender()], store=opened()) as second,
    ):
        here, there = DailyCosts(first.store), DailyCosts(second.store)
        for cents, platform, costs in (("30", first, here), ("20", second, there)):
            for caller in (ADA, OTHER):
                costs.note(caller, await spend(platform, cents, caller))
        costs = DailyCosts(second.store)
        for each in (here, there, costs):
            assert await each.spent(ADA) == pytest.approx(0.5)
            assert await each.spent(Caller("bob", "https://one")) == 0


async def test_no_call_is_told_less_because_others_read_at_the_same_time(make_database: MakeDatabase) -> None:
    opened, told = make_database(), list[float]()
    async with AgentPlatform([Spender()], store=opened()) as platform:
        await spend(platform, "30")
        costs = DailyCosts(platform.store)

        async def ask() -> None:
            told.append(await costs.spent(ADA))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
    assert told == [pytest.approx(0.3)] * 3


async def test_what_a_process_has_cost_counts_after_it_was_dropped(make_database: MakeDatabase) -> None:
    opened = make_database()
    async with AgentPlatform([Spender()], store=opened()) as platform:
        for caller in (ADA, OTHER):
            for cents in ("30", "20"):
                process = await spend(platform, cents, caller)
            assert await platform.store.drop(process.id)
        assert await DailyCosts(platform.store).spent(ADA) == pytest.approx(0.5)
        assert await platform.store.spent(ADA, datetime.now(UTC) + timedelta(hours=1)) == {}


async def test_a_new_day_begins_with_nothing_spent(make_database: MakeDatabase) -> None:
    opened, days = make_database(), timedelta()
    async with AgentPlatform([Spender()], store=opened()) as platform:
        costs = DailyCosts(platform.store, now=lambda: datetime.now(UTC) + days)
        costs.note(ADA, await spend(platform, "30"))
        assert await costs.spent(ADA) == pytest.approx(0.3)
        assert 0 < costs.seconds_left <= 86_400
        days = timedelta(days=1)
        assert await costs.spent(ADA) == 0


async def test_what_the_store_said_counts_for_some_seconds(make_database: MakeDatabase) -> None:
    opened, clock = make_database(), 0.0
    async with AgentPlatform([Spender()], store=opened()) as platform:
        costs = DailyCosts(platform.store, clock=lambda: clock)
        assert await costs.spent(ADA) == 0
        await spend(platform, "30")
        assert await costs.spent(ADA) == 0
        clock = 10.0
        assert await costs.spent(ADA) == pytest.approx(0.3)
