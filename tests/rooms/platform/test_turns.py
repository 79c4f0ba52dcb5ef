"""A process that goes on from turn to turn: what it is told, what a turn may cost, and what ends a turn or all."""

import asyncio
from dataclasses import dataclass, field

import pytest
from anyio import fail_after

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    PlannerType,
    ProcessOptions,
    achieves_goal,
    action,
    agent,
)
from goalport.base.errors import BadInput, TerminateAgent
from goalport.base.observe import LogListener
from goalport.runtime.process import Budget, ProcessStatus, Stuck
from goalport.testing import ScriptedModel

TURNS = ProcessOptions(turns=True)


@dataclass(frozen=True)
class Word:
    text: str


@dataclass(frozen=True)
class Heard:
    text: str


@dataclass(frozen=True)
class Noted:
    text: str


@agent(description="Hears words, and does what they say", planner=PlannerType.UTILITY)
@dataclass
class Hearer:
    heard: list[str] = field(default_factory=list[str])
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @action(trigger=Word, can_rerun=True)
    async def hear(self, word: Word, context: ActionContext) -> Heard | Word:
        self.heard.append(word.text)
        self.begun.set()
        match word.text:
            case "fail":
                raise ValueError("a bad word")
            case "end":
                raise TerminateAgent("The word says so.")
            case "wait":
                await asyncio.Event().wait()
            case "spend":
                context.spend(cost=3.0)
                await context.ai.generate_text("Is there more?")
            case "ask":
                return Heard(await context.ask("What is it?", str))
            case "again":
                return word
            case "delegate":
                return Heard((await context.as_sub_process(Noted, Failing, word)).text)
            case _:
                pass
        return Heard(word.text)


@agent(description="Fails", planner=PlannerType.GOAP)
class Failing:
    @achieves_goal(description="Noted")
    async def note(self, word: Word) -> Noted:
        raise ValueError(f"nothing is noted of {word.text}")


@agent(description="Takes three steps for each word", planner=PlannerType.UTILITY)
class Walker:
    @action(trigger=Word, can_rerun=True)
    async def first(self, word: Word) -> Heard:
        return Heard(word.text)

    @action(trigger=Heard, can_rerun=True)
    async def second(self, heard: Heard) -> Noted:
        return Noted(heard.text)

    @action(trigger=Noted, can_rerun=True)
    async def third(self, noted: Noted, context: ActionContext) -> None:
        context["done"] = noted.text


async def _told(platform: AgentPlatform, process: AgentProcess, *words: str) -> object:
    """The outcome of a turn."""
    with fail_after(60):
        await platform.tell(process, *map(Word, words))
        return await process.wait()


async def test_each_turn_has_the_whole_budget_however_many_there_were() -> None:
    async with AgentPlatform([Walker]) as platform:
        process = platform.create_agent_process("Walker", options=TURNS)
        for number in range(200):
            assert isinstance(await _told(platform, process, f"{number}"), Stuck)
            assert process.blackboard.get("done") == f"{number}"
            assert process.turn_actions == 3
        assert len(process.history) == 600


async def test_an_action_that_failed_in_one_turn_runs_again_in_the_next() -> None:
    hearer = Hearer()
    async with AgentPlatform([hearer]) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS)
        failed = await _told(platform, process, "fail")
        assert isinstance(failed, Stuck)
        assert failed.turn_failed
        assert "a bad word" in failed.reason
        good = await _told(platform, process, "hello")
        assert isinstance(good, Stuck)
        assert not good.turn_failed
        assert hearer.heard == ["fail", "hello"]


async def test_a_turn_that_uses_up_its_actions_ends_and_the_next_one_has_its_own() -> None:
    hearer = Hearer()
    async with AgentPlatform([hearer]) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS.with_(budget=Budget(actions=5)))
        for turn in (1, 2):
            ended = await _told(platform, process, "again")
            assert isinstance(ended, Stuck)
            assert "budget of 5 actions" in ended.reason
            assert len(hearer.heard) == 5 * turn


async def test_a_turn_that_overspends_in_the_middle_of_an_action_ends_and_not_the_process() -> None:
    hearer = Hearer()
    async with AgentPlatform([hearer], models=ScriptedModel(["No"])) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS)
        ended = await _told(platform, process, "spend")
        assert isinstance(ended, Stuck)
        assert ended.turn_failed
        assert "budget of 2.00 USD" in ended.reason
        assert process.turn_usage.cost == 3.0
        await _told(platform, process, "hello")
        assert hearer.heard == ["spend", "hello"]
        assert (process.turn_usage.cost, process.usage.cost) == (0.0, 3.0)


async def test_a_turn_whose_deadline_has_passed_ends_and_not_the_process() -> None:
    async with AgentPlatform([Hearer]) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS.with_(deadline=0.05))
        for _ in range(2):
            ended = await _told(platform, process, "wait")
            assert isinstance(ended, Stuck)
            assert ended.turn_failed
            assert "deadline" in ended.reason


async def test_an_action_may_end_the_process_for_good() -> None:
    async with AgentPlatform([Hearer]) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS)
        await _told(platform, process, "end")
        assert process.status is ProcessStatus.TERMINATED
        with pytest.raises(BadInput, match="has ended: terminated"):
            await platform.tell(process, Word("hello"))


async def test_a_sub_process_that_fails_fails_the_action_that_started_it() -> None:
    hearer = Hearer()
    async with AgentPlatform([hearer, Failing]) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS)
        ended = await _told(platform, process, "delegate")
        assert isinstance(ended, Stuck)
        assert "nothing is noted" in ended.reason
        assert [each.status for each in process.children] == [ProcessStatus.FAILED]


async def test_words_that_are_told_at_once_are_heard_one_after_another_each_once() -> None:
    hearer = Hearer()
    async with AgentPlatform([hearer]) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS)
        with fail_after(60):
            await asyncio.gather(*(platform.tell(process, Word(f"{number}")) for number in range(20)))
            await process.rest()
        assert sorted(hearer.heard, key=int) == [f"{number}" for number in range(20)]
        assert process.turn_actions == 1


async def test_a_stopped_turn_ends_and_what_it_was_about_does_not_begin_again() -> None:
    hearer = Hearer()
    async with AgentPlatform([hearer]) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS)
        await platform.tell(process, Word("wait"))
        with fail_after(60):
            await hearer.begun.wait()
            await platform.stop_turn(process.id, "Enough.")
            stopped = await process.wait()
            await process.rest()
        assert stopped == Stuck("Enough.", turn_failed=True)
        await _told(platform, process, "hello")
        assert hearer.heard == ["wait", "hello"]


async def test_who_waits_for_an_answer_can_be_told_something_else_meanwhile() -> None:
    hearer = Hearer()
    async with AgentPlatform([hearer]) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS)
        await _told(platform, process, "ask")
        (question,) = process.open_questions
        await platform.answer(process.id, question.id, "It is tea")
        with fail_after(60):
            await process.wait()
        assert process.last(Heard) == Heard("It is tea")
        await _told(platform, process, "hello")
        assert process.last(Heard) == Heard("hello")


async def test_the_log_tells_a_process_that_rests_between_turns_from_one_whose_turn_has_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "goalport.process"):
        async with AgentPlatform([Hearer], listeners=[LogListener("starwars")]) as platform:
            process = platform.create_agent_process("Hearer", options=TURNS)
            for word in ("hello", "fail"):
                await _told(platform, process, word)
    lines = [(each.levelname, each.message) for each in caplog.records if each.name == "goalport.process"]
    assert ("INFO", f"{process.id}: rests until it is told something") in lines
    assert [level for level, line in lines if "The saga is stuck" in line] == ["WARNING"]


@agent(description="Asks, then spends more than there is", planner=PlannerType.GOAP)
class Spender:
    @achieves_goal(description="Noted")
    async def note(self, word: Word, context: ActionContext) -> Noted:
        text = await context.ask("What is it?", str)
        context.spend(cost=3.0)
        return Noted(await context.ai.generate_text(f"Is there more than {text}?"))


@agent(description="Has others note words", planner=PlannerType.UTILITY)
class Delegator:
    @action(trigger=Word, can_rerun=True)
    async def delegate(self, word: Word, context: ActionContext) -> None:
        await context.as_sub_process(Noted, Spender, word)


async def test_a_sub_process_that_overspends_after_an_answer_ends_the_turn_and_not_the_process() -> None:
    async with AgentPlatform([Delegator, Spender], models=ScriptedModel(["No"])) as platform:
        process = platform.create_agent_process("Delegator", options=TURNS)
        await _told(platform, process, "tea")
        (question,) = process.open_questions
        with fail_after(30):
            await platform.answer(process.id, question.id, "It is tea")
            ended = await process.wait()
            await process.rest()
        assert isinstance(ended, Stuck)
        assert ended.turn_failed
        assert "budget of 2.00 USD" in ended.reason
        assert isinstance(await _told(platform, process), Stuck)
