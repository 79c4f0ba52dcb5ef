"""Waiting in the middle of an action: it begins again with the answer, and nothing is done twice."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import pytest
from pydantic import BaseModel

from goalport import AgentPlatform, UserInput, achieves_goal, action, agent, condition, tool
from goalport.agents.domain import RetryPolicy
from goalport.base.errors import BadInput, Declined, NonRetryable, Retryable
from goalport.base.events import Event, ModelCalled, ToolCalled
from goalport.models.llm import ModelCall, UserMessage
from goalport.runtime.ai import Ai
from goalport.runtime.process import ActionContext, AgentProcess, Completed, Failed, Killed, ProcessStatus, Waiting
from goalport.testing.scripted import ScriptedModel, calls_tool
from goalport.tools import ToolGroup
from tests.rooms.toy_domain import Text


class Wish(BaseModel):
    city: str
    nights: int = 1


@dataclass
class Counted:
    """Tools that count their calls."""

    calls: list[str] = field(default_factory=list[str])

    @tool
    async def look_up(self, word: str) -> str:
        """Look a word up."""
        self.calls.append(f"look_up {word}")
        return f"{word} is a word"

    @tool
    async def ask_user(self, what: str) -> str:
        """Ask the user."""
        self.calls.append(f"ask_user {what}")
        return await ActionContext.current().ask(f"Tell me {what}.", str)


async def settled(process: AgentProcess) -> object:
    with anyio.fail_after(60):
        return await process.wait()


async def answered(platform: AgentPlatform, process: AgentProcess, *answers: object) -> object:
    """Answer each open question, in order, and wait for what comes next."""
    for question, response in zip(process.open_questions, answers, strict=True):
        await platform.answer(process.id, question.id, response)
    return await settled(process)


@asynccontextmanager
async def started(
    author: object, model: ScriptedModel | None = None, *groups: ToolGroup, listeners: list[Event] | None = None
) -> AsyncGenerator[tuple[AgentPlatform, AgentProcess]]:
    class Ears:
        def on_event(self, event: Event, /) -> None:
            if listeners is not None:
                listeners.append(event)

    name = (author if isinstance(author, type) else type(author)).__name__
    async with AgentPlatform([author], models=model, tool_groups=groups, listeners=[Ears()]) as platform:
        process = platform.start(name, UserInput("tale"))
        await settled(process)
        yield platform, process


@agent(description="Plans trips")
class Trips:
    def __init__(self) -> None:
        self.begun = 0

    @achieves_goal(description="A trip")
    async def plan(self, user_input: UserInput, context: ActionContext) -> Text:
        self.begun += 1
        idea = await context.ai.generate_text("An idea for a trip")
        wish = await context.ask(f"Where to? {idea}", Wish)
        sure = await context.ask("Sure?", bool)
        return Text(f"{idea}: {wish.city}, {wish.nights}, {sure}")


async def test_an_action_asks_in_its_middle_and_no_model_is_asked_again_when_it_begins_again() -> None:
    author, model, heard = Trips(), ScriptedModel(["the sea"]), list[Event]()
    async with started(author, model, listeners=heard) as (platform, process):
        assert isinstance(process.outcome, Waiting)
        assert [each.message for each in process.open_questions] == ["Where to? the sea"]
        assert isinstance(await answered(platform, process, {"city": "Oslo", "nights": 2}), Waiting)
        assert await answered(platform, process, True) == Completed(Text("the sea: Oslo, 2, True"))
        assert (author.begun, len(model.calls)) == (3, 1)
        assert len([each for each in heard if isinstance(each, ModelCalled)]) == 1
        assert process.ledger.requests == 1
        assert [each.action for each in process.history] == ["Trips.plan"]


async def test_an_answer_that_does_not_fit_leaves_the_question_open() -> None:
    async with started(Trips(), ScriptedModel(["the sea"])) as (platform, process):
        with pytest.raises(BadInput, match="nights"):
            await platform.answer(process.id, response={"city": "Oslo", "nights": "many"})
        assert process.status is ProcessStatus.WAITING
        assert len(process.open_questions) == 1


async def test_a_no_is_an_error_that_the_action_may_catch() -> None:
    @agent(description="d")
    class Polite:
        @achieves_goal(description="g")
        async def talk(self, user_input: UserInput, context: ActionContext) -> Text:
            try:
                return Text(await context.ask("Your name?", str))
            except Declined as declined:
                return Text(declined.reason)

    async with started(Polite()) as (platform, process):
        await platform.answer(process.id, declined="None of your business.")
        assert await settled(process) == Completed(Text("None of your business."))
    async with started(Trips(), ScriptedModel(["the sea"])) as (platform, process):
        await platform.answer(process.id, declined="I stay at home.")
        outcome = await settled(process)
    assert isinstance(outcome, Failed)
    assert "I stay at home" in outcome.reason


async def test_a_question_that_nobody_answers_in_time_counts_as_a_no() -> None:
    @agent(description="d")
    class Hasty:
        @achieves_goal(description="g")
        async def talk(self, user_input: UserInput, context: ActionContext) -> Text:
            with suppress(Declined):
                await context.ask("Quick!", bool, expires_in=0.01)
            return Text("too late")

    async with started(Hasty()) as (_, process):
        while not process.status.ended:
            await settled(process)
            await anyio.lowlevel.checkpoint()
        assert process.outcome == Completed(Text("too late"))


async def test_an_answer_of_a_json_schema_is_a_dict_that_is_valid_against_it() -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}, "required": ["size"]}

    @agent(description="d")
    class Tailor:
        @achieves_goal(description="g")
        async def measure(self, user_input: UserInput, context: ActionContext) -> Text:
            return Text(str(await context.ask("Which size?", schema)))

    async with started(Tailor()) as (platform, process):
        with pytest.raises(BadInput, match="size: should be at least 1"):
            await platform.answer(process.id, response={"size": 0})
        assert await answered(platform, process, {"size": 4}) == Completed(Text("{'size': 4}"))


@agent(description="Asks a model that may use tools")
class Chatty:
    @achieves_goal(description="g")
    @action(tool_groups=["words"])
    async def talk(self, user_input: UserInput, ai: Ai) -> Text:
        return Text(await ai.generate_text(user_input.content))


async def test_a_tool_asks_and_what_other_tools_gave_is_not_asked_for_again() -> None:
    tools, heard = Counted(), list[Event]()
    model = ScriptedModel([calls_tool("look_up", word="bee"), calls_tool("ask_user", what="your name"), "Hello Ada"])
    async with started(Chatty(), model, ToolGroup.of("words", tools), listeners=heard) as (platform, process):
        assert [each.message for each in process.open_questions] == ["Tell me your name."]
        assert await answered(platform, process, "Ada") == Completed(Text("Hello Ada"))
    assert tools.calls == ["look_up bee", "ask_user your name", "ask_user your name"]
    assert len(model.calls) == 3
    assert [each.tool for each in heard if isinstance(each, ToolCalled)].count("look_up") == 1


async def test_several_tools_that_ask_in_one_turn_ask_at_once() -> None:
    tools = Counted()
    wants = [calls_tool("ask_user", what="a"), calls_tool("look_up", word="bee"), calls_tool("ask_user", what="b")]

    def told(call: ModelCall) -> str:
        return " ".join(str(each.content) for each in call.messages[-3:])

    model = ScriptedModel([wants, told])
    async with started(Chatty(), model, ToolGroup.of("words", tools)) as (platform, process):
        assert sorted(each.message for each in process.open_questions) == ["Tell me a.", "Tell me b."]
        assert process.status is ProcessStatus.WAITING
        by_words = {each.message: each.id for each in process.open_questions}
        await platform.answer(process.id, by_words["Tell me b."], "2")
        assert isinstance(await settled(process), Waiting)
        await platform.answer(process.id, by_words["Tell me a."], "1")
        assert await settled(process) == Completed(Text("1 bee is a word 2"))
    assert tools.calls.count("look_up bee") == 1


async def test_items_that_are_worked_on_at_once_each_find_their_own() -> None:
    @agent(description="d")
    class Many:
        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            async def one(number: int) -> str:
                said = await context.ai.generate_text("The same prompt")
                return f"{said}{await context.ask('The same question', int)}"

            return Text(" ".join(await context.parallel_map([1, 2, 3], one)))

    model = ScriptedModel(["a", "b", "c"])
    async with started(Many(), model) as (platform, process):
        assert len(process.open_questions) == 3
        assert await answered(platform, process, 1, 2, 3) == Completed(Text("a1 b2 c3"))
    assert len(model.calls) == 3


async def test_an_action_in_a_worker_thread_can_ask() -> None:
    @agent(description="d")
    class Threaded:
        @achieves_goal(description="g")
        def work(self, user_input: UserInput, context: ActionContext) -> Text:
            return Text(anyio.from_thread.run(context.ask, "Why?", str))

    async with started(Threaded()) as (platform, process):
        assert await answered(platform, process, "Because") == Completed(Text("Because"))


async def test_a_sub_process_s_conditions_are_no_part_of_the_action_that_started_it() -> None:
    tools = Counted()
    group = ToolGroup.of("words", tools)

    @agent(description="d")
    class Inner:
        @condition
        async def known(self, context: ActionContext) -> bool:
            (look_up, _) = group.tools
            return bool((await look_up.call({"word": "bee"})).text)

        @achieves_goal(description="g")
        @action(pre=["known"])
        async def work(self, user_input: UserInput, context: ActionContext) -> Wish:
            return Wish(city=await context.ask("Where?", str))

    @agent(description="d")
    class Outer:
        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            wish = await context.as_sub_process(Wish, Inner())
            return Text(wish.city + await context.ask("Sure?", str))

    async with started(Outer()) as (platform, process):
        assert process.progress.journals["Outer.work"].results == {}
        await platform.answer(process.id, response="Oslo")
        with anyio.fail_after(60):
            while [each.message for each in process.open_questions] != ["Sure?"]:
                await anyio.sleep(0.01)
        assert await answered(platform, process, "!") == Completed(Text("Oslo!"))
        assert len(process.children) == 1


@pytest.mark.parametrize("how", ["gather", "group", "collected", "swallowed", "translated"])
async def test_no_code_on_the_way_keeps_an_action_from_waiting(how: str) -> None:
    @agent(description="d")
    class Obstinate:
        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            async def asks(what: str) -> str:
                return await context.ask(what, str)

            match how:
                case "gather":
                    return Text("".join(await asyncio.gather(asks("1"), asks("2"))))
                case "group":
                    async with asyncio.TaskGroup() as tasks:
                        both = [tasks.create_task(asks("1")), tasks.create_task(asks("2"))]
                    return Text("".join([each.result() for each in both]))
                case "collected":
                    return Text("".join(map(str, await asyncio.gather(asks("1"), asks("2"), return_exceptions=True))))
                case _:
                    try:
                        return Text(await asks("1") + await asks("2"))
                    except BaseException as error:
                        if how == "swallowed":
                            return Text("never")
                        raise ValueError("never") from error

    async with started(Obstinate()) as (platform, process):
        seen: list[str] = []
        while process.open_questions:
            seen += [each.message for each in process.open_questions]
            await answered(platform, process, *(f"<{each.message}>" for each in process.open_questions))
        assert process.outcome == Completed(Text("<1><2>"))
        assert seen == ["1", "2"]


async def test_the_wait_of_an_earlier_attempt_is_no_answer() -> None:
    @agent(description="d")
    class Hoarder:
        def __init__(self) -> None:
            self.kept: asyncio.Future[str] | None = None

        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            self.kept = self.kept or asyncio.ensure_future(context.ask("Why?", str))
            return Text(await self.kept)

    async with started(Hoarder()) as (platform, process):
        outcome = await answered(platform, process, "Because")
    assert isinstance(outcome, Failed)
    assert "Ask anew in each attempt" in outcome.reason


async def test_code_that_takes_another_path_asks_anew() -> None:
    @agent(description="d")
    class Moody:
        def __init__(self) -> None:
            self.mood = 0

        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            self.mood += 1
            said = await context.ai.generate_text(f"Mood {self.mood}")
            return Text(said + await context.ask(f"Why {self.mood}?", str, key="why"))

    model = ScriptedModel(["first", "second"])
    async with started(Moody(), model) as (platform, process):
        assert await answered(platform, process, "!") == Completed(Text("second!"))
    assert [each.messages[-1] for each in model.calls] == [UserMessage("Mood 1"), UserMessage("Mood 2")]


async def test_the_same_request_made_twice_gets_its_own_reply_each_time() -> None:
    @agent(description="d")
    class Poet:
        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            words = [await context.ai.generate_text("A word") for _ in range(3)]
            return Text(" ".join([*words, await context.ask("And?", str)]))

    model = ScriptedModel(["a", "b", "c"])
    async with started(Poet(), model) as (platform, process):
        assert await answered(platform, process, "d") == Completed(Text("a b c d"))


async def test_a_stream_that_was_heard_is_heard_again_without_the_model() -> None:
    @agent(description="d")
    class Streamer:
        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            said = "".join([piece async for piece in context.ai.streaming().text("Tell")])
            return Text(said + await context.ask("And?", str))

    model = ScriptedModel(["once upon a time"])
    async with started(Streamer(), model) as (platform, process):
        assert await answered(platform, process, "!") == Completed(Text("once upon a time!"))
    assert len(model.calls) == 1


async def test_a_retry_asks_the_model_again_and_no_person() -> None:
    @agent(description="d")
    class Trying:
        def __init__(self) -> None:
            self.failed = False

        @achieves_goal(description="g")
        @action(retry=RetryPolicy(attempts=2, first_delay=0))
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            name = await context.ask("Who?", str)
            said = await context.ai.generate_text("Say")
            if not self.failed:
                self.failed = True
                raise Retryable("not that")
            return Text(f"{name}: {said}")

    model = ScriptedModel(["bad", "good"])
    async with started(Trying(), model) as (platform, process):
        assert await answered(platform, process, "Ada") == Completed(Text("Ada: good"))
    assert model.unused == 0


async def test_a_question_that_a_failure_has_made_pointless_is_withdrawn() -> None:
    @agent(description="d")
    class Half:
        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            async def one(number: int) -> str:
                if number:
                    return await context.ask("Why?", str)
                while not context.process.open_questions:
                    await anyio.sleep(0.01)
                raise ValueError("broken")

            return Text("".join(await context.parallel_map([0, 1], one)))

    async with started(Half()) as (_, process):
        assert isinstance(process.outcome, Failed)
        assert [each.status for each in process.questions] == ["withdrawn"]


async def test_only_an_action_can_wait_for_a_person() -> None:
    errors: list[Exception] = []

    @agent(description="d")
    class Asking:
        @condition
        async def sure(self, context: ActionContext) -> bool:
            try:
                return await context.ask("Sure?", bool)
            except NonRetryable as error:
                errors.append(error)
                return True

        @achieves_goal(description="g")
        @action(pre=["sure"])
        async def work(self, user_input: UserInput) -> Text:
            return Text("done")

    async with started(Asking()) as (_, process):
        assert process.outcome == Completed(Text("done"))
    assert "Only an action can wait" in str(errors[0])


async def test_a_process_that_is_killed_while_it_waits_in_an_action_has_no_open_question() -> None:
    async with started(Trips(), ScriptedModel(["the sea"])) as (_, process):
        process.kill("enough")
        assert process.outcome == Killed("enough")
        assert process.open_questions == ()
        assert process.progress.journals == {}


async def test_what_an_action_has_done_is_forgotten_when_it_is_over() -> None:
    async with started(Trips(), ScriptedModel(["the sea"])) as (platform, process):
        assert len(process.progress.journals["Trips.plan"].replies) == 1
        await answered(platform, process, {"city": "Oslo"})
        await answered(platform, process, True)
        assert process.progress.journals == {}
