"""A reader of a process hears what happens in it until it rests."""

import asyncio
from contextlib import aclosing

from goalport import ActionContext, AgentPlatform, UserInput, achieves_goal, agent
from goalport.base.events import Event, ProgressUpdated
from goalport.runtime.process import AgentProcess, Completed, Follower, Heartbeat, Outcome, Rested, Waiting, follow


class Poem(UserInput):
    pass


@agent(description="Writes what it is allowed to")
class Poet:
    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    @achieves_goal(description="A poem")
    async def write(self, user_input: UserInput, context: ActionContext) -> Poem:
        context.progress("begins")
        await self.may_go_on.wait()
        await context.ask("May it rhyme?", bool)
        context.progress("ends")
        return Poem(user_input.content)


async def items_of(follower: Follower, process: AgentProcess) -> list[Event | Heartbeat | Rested]:
    async with aclosing(follower.follow(process, patience=60)) as items:
        return [each async for each in items]


def outcome_of(items: list[Event | Heartbeat | Rested]) -> Outcome | None:
    last = items[-1]
    return last.outcome if isinstance(last, Rested) else None


def messages(items: list[Event | Heartbeat | Rested]) -> list[str]:
    return [each.message for each in items if isinstance(each, ProgressUpdated)]


async def test_a_reader_hears_a_process_from_its_beginning_until_it_rests_and_then_from_the_answer_on() -> None:
    poet, follower = Poet(), Follower()
    poet.may_go_on.set()
    async with AgentPlatform([poet]) as platform:
        process = platform.create_agent_process("Poet", UserInput("the sea"))
        process.subscribe(follower)
        platform.processes.begin(process)
        first = await items_of(follower, process)
        assert messages(first) == ["begins"]
        assert isinstance(outcome_of(first), Waiting)
        (question,) = process.open_questions
        again = Follower()
        unsubscribe = process.subscribe(again)
        await platform.answer(process.id, question.id, response=True)
        second = await items_of(again, process)
        unsubscribe()
        assert messages(second)[-1] == "ends"
        assert isinstance(outcome_of(second), Completed)


async def test_while_nothing_happens_there_are_heartbeats_until_the_patience_of_the_reader_is_over() -> None:
    poet = Poet()
    async with AgentPlatform([poet]) as platform:
        process = platform.start("Poet", UserInput("the sea"))
        async with aclosing(follow(process, patience=0.25, heartbeat=0.05)) as items:
            seen = [each async for each in items]
        beats = [each.seconds for each in seen if isinstance(each, Heartbeat)]
        assert beats == sorted(beats)
        assert len(beats) > 1
        assert seen[-1] == Rested(None)
        assert not process.followed, "nothing stays subscribed"
        assert process.outcome is None, "it goes on"


async def test_of_a_slow_reader_the_oldest_events_are_dropped() -> None:
    poet, follower = Poet(), Follower(most=2)
    async with AgentPlatform([poet]) as platform:
        process = platform.start("Poet", UserInput("the sea"))
        for number in range(5):
            follower.on_event(ProgressUpdated(f"{number}"))
        async with aclosing(follower.follow(process, patience=0)) as items:
            assert messages([each async for each in items]) == ["3", "4"]
