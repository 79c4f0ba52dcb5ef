"""Tools that a person has to agree to, whoever calls them, and upstream servers that ask a person in a call."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

from goalport import AgentPlatform, UserInput, achieves_goal, action, agent, tool
from goalport.base.errors import BadInput
from goalport.base.events import Event, ProgressUpdated
from goalport.models.llm import ModelCall
from goalport.runtime.ai import AgenticTool, Ai
from goalport.runtime.process import ActionContext, AgentProcess, Completed, Waiting
from goalport.testing.fakes import FakeOperationContext
from goalport.testing.scripted import ScriptedModel, calls_tool
from goalport.tools import Tool, ToolGroup, ToolResult, with_confirmation
from goalport.tools.upstream.active_calls import current_hooks
from tests.rooms.toy_domain import Text
from tests.rooms.upstream.connected import WatchedServers, connected, plain


@dataclass
class Files:
    """Files that count what is done to them."""

    done: list[str] = field(default_factory=list[str])

    @tool(read_only=True)
    def read(self, path: str) -> str:
        """Read a file."""
        self.done.append(f"read {path}")
        return f"{path}: old news"

    @tool
    def delete(self, path: str) -> str:
        """Delete a file."""
        self.done.append(f"delete {path}")
        return f"{path} is gone"

    @tool(destructive=False)
    def touch(self, path: str) -> str:
        """Touch a file."""
        self.done.append(f"touch {path}")
        return "touched"


@agent(description="Tidies with a model")
class Tidy:
    @achieves_goal(description="Tidy")
    @action(tool_groups=["files"])
    async def tidy(self, user_input: UserInput, ai: Ai) -> Text:
        return Text(await ai.generate_text(user_input.content))


@agent(description="Tidies by itself")
class Plain:
    @achieves_goal(description="Tidy")
    @action(tool_groups=["files"])
    async def tidy(self, user_input: UserInput, context: ActionContext) -> Text:
        results = [await context.tool(name).call({"path": "a"}) for name in user_input.content.split()]
        return Text("; ".join(each.text for each in results))


async def settled(process: AgentProcess) -> object:
    with anyio.fail_after(60):
        return await process.wait()


async def answer(platform: AgentPlatform, process: AgentProcess, response: object) -> object:
    await platform.answer(process.id, response=response)
    return await settled(process)


@asynccontextmanager
async def started(
    author: type, text: str, group: ToolGroup, model: ScriptedModel | None = None, heard: list[Event] | None = None
) -> AsyncGenerator[tuple[AgentPlatform, AgentProcess]]:
    class Ears:
        def on_event(self, event: Event, /) -> None:
            if heard is not None:
                heard.append(event)

    async with AgentPlatform([author], models=model, tool_groups=[group], listeners=[Ears()]) as platform:
        process = platform.start(author.__name__, UserInput(text))
        await settled(process)
        yield platform, process


def last_words(call: ModelCall) -> str:
    return str(call.messages[-1].content)


async def test_a_model_s_call_runs_once_a_person_has_agreed_and_the_model_is_not_asked_again() -> None:
    files = Files()
    model = ScriptedModel([calls_tool("read", path="a"), calls_tool("delete", path="a"), last_words])
    group = ToolGroup.of("files", files, approve="destructive")
    async with started(Tidy, "Tidy up", group, model) as (platform, process):
        assert isinstance(process.outcome, Waiting)
        (question,) = process.open_questions
        assert question.message == 'May the tool \'delete\' be called with {"path": "a"}?'
        assert question.response_type is bool
        assert files.done == ["read a"]
        assert await answer(platform, process, True) == Completed(Text("a is gone"))
    assert files.done == ["read a", "delete a"]
    assert len(model.calls) == 3


async def test_a_no_is_told_to_the_model_and_fails_nothing() -> None:
    files = Files()
    model = ScriptedModel([calls_tool("delete", path="a"), last_words])
    group = ToolGroup.of("files", files, approve="always")
    async with started(Tidy, "Tidy up", group, model) as (platform, process):
        outcome = await answer(platform, process, False)
    assert isinstance(outcome, Completed)
    assert "'delete' may be called, and it was not: The answer was no" in str(outcome.value)
    assert files.done == []


async def test_who_declines_to_answer_says_why() -> None:
    model = ScriptedModel([calls_tool("delete", path="a"), last_words])
    async with started(Tidy, "x", ToolGroup.of("files", Files(), approve="always"), model) as (platform, process):
        await platform.answer(process.id, declined="I need that file.")
        assert "I need that file." in str(await settled(process))


async def test_each_call_of_a_turn_is_asked_about_and_decided_by_itself() -> None:
    files = Files()
    model = ScriptedModel([[calls_tool("delete", path="a"), calls_tool("delete", path="b")], last_words])
    async with started(Tidy, "x", ToolGroup.of("files", files, approve="always"), model) as (platform, process):
        first, second = process.open_questions
        await platform.answer(process.id, first.id, response=False)
        await platform.answer(process.id, second.id, response=True)
        assert await settled(process) == Completed(Text("b is gone"))
    assert files.done == ["delete b"]
    assert len(model.calls) == 2


async def test_an_agreement_counts_for_one_call() -> None:
    files = Files()
    again = [calls_tool("delete", path="a"), calls_tool("delete", path="a"), last_words]
    model = ScriptedModel(again)
    async with started(Tidy, "x", ToolGroup.of("files", files, approve="always"), model) as (platform, process):
        assert isinstance(await answer(platform, process, True), Waiting)
        assert files.done == ["delete a"]
        assert isinstance(await answer(platform, process, True), Completed)
    assert files.done == ["delete a", "delete a"]


async def test_a_tool_that_asks_models_and_calls_tools_itself_goes_on_where_it_was() -> None:
    files = Files()
    inner = ToolGroup.of("files", files, approve="destructive")
    cleaner = AgenticTool("cleaner", "Cleans up").with_tools(*inner.tools)
    model = ScriptedModel(
        [calls_tool("cleaner"), calls_tool("read", path="a"), calls_tool("delete", path="a"), "All clean", last_words]
    )

    @agent(description="Has a cleaner")
    class Owner:
        @achieves_goal(description="Tidy")
        async def tidy(self, user_input: UserInput, ai: Ai) -> Text:
            return Text(await ai.with_tools(cleaner).generate_text(user_input.content))

    async with started(Owner, "x", inner, model) as (platform, process):
        assert len(process.open_questions) == 1
        assert await answer(platform, process, True) == Completed(Text("All clean"))
    assert files.done == ["read a", "delete a"]
    assert len(model.calls) == 5


async def test_calls_of_the_action_s_own_code_are_asked_about_too() -> None:
    files = Files()
    group = ToolGroup.of("files", files, approve="destructive")
    async with started(Plain, "read touch delete", group) as (platform, process):
        assert len(process.open_questions) == 1
        assert files.done == ["read a", "touch a"]
        assert await answer(platform, process, True) == Completed(Text("a: old news; touched; a is gone"))
    assert files.done == ["read a", "touch a", "delete a"]


async def test_nobody_is_asked_about_arguments_that_do_not_fit() -> None:
    async def handle(arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult.of_text(str(arguments))

    schema = {"type": "object", "properties": {"path": {"type": "integer"}}}
    odd = Tool("delete", "d", schema, handle, approval="always")
    async with started(Plain, "delete", ToolGroup("files", (odd,))) as (_, process):
        assert "path: should be a whole number" in str(process.outcome)


async def test_where_nobody_can_be_asked_a_call_that_needs_it_is_refused() -> None:
    files = Files()
    (delete,) = (each for each in ToolGroup.of("files", files, approve="always").tools if each.name == "delete")
    result = await delete.call({"path": "a"})
    assert result.is_error
    assert "nobody can be asked here" in result.text
    assert files.done == []


@pytest.mark.parametrize("layered", [False, True])
async def test_a_tool_with_a_confirmation_passes_once_it_is_confirmed(layered: bool) -> None:  # noqa: FBT001
    files = Files()
    asked = with_confirmation(Tool.of(files.delete), lambda given: f"Delete {given['path']}?")

    async def around(inner: Tool, arguments: Mapping[str, object]) -> ToolResult:
        return await inner.call(arguments)

    given = asked.with_layer(around) if layered else asked
    async with started(Plain, "delete", ToolGroup("files", (given,))) as (platform, process):
        assert [each.message for each in process.open_questions] == ["Delete a?"]
        assert await answer(platform, process, True) == Completed(Text("a is gone"))
    assert files.done == ["delete a"]


async def test_a_confirmation_whose_words_cannot_be_made_is_a_result_and_no_call() -> None:
    files = Files()
    broken = with_confirmation(Tool.of(files.delete), lambda given: str(given["nowhere"]))
    async with started(Plain, "delete", ToolGroup("files", (broken,))) as (_, process):
        assert "nowhere" in str(process.outcome)
    assert files.done == []


async def test_a_context_under_test_is_told_what_people_answer() -> None:
    files = Files()
    group = ToolGroup("files", (with_confirmation(Tool.of(files.delete), "Really?"),))
    context = FakeOperationContext(UserInput("delete"), tool_groups=[group])
    context.expect_response(True)
    assert await context.perform(Plain().tidy) == Text("a is gone")
    context.verify_responses_used()


@asynccontextmanager
async def asking_server(
    *options: str, heard: list[Event] | None = None, text: str = "ask"
) -> AsyncGenerator[tuple[WatchedServers, AgentPlatform, AgentProcess]]:
    async with connected(plain(*options)) as servers:
        group = ToolGroup("files", tuple(each.tool for each in servers.server().tools))
        async with started(Plain, text, group, heard=heard) as (platform, process):
            yield servers, platform, process


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_server_s_question_in_a_call_is_a_question_of_the_process(revision: str) -> None:
    async with asking_server("--revision", revision) as (servers, platform, process):
        assert isinstance(process.outcome, Waiting)
        (question,) = process.open_questions
        assert question.message == "plain asks: Which sign?"
        with pytest.raises(BadInput, match="sign"):
            await platform.answer(process.id, response={"sign": 3})
        outcome = await answer(platform, process, {"sign": "Leo"})
        assert isinstance(outcome, Completed)
        assert '"accept"' in str(outcome.value)
        assert '"Leo"' in str(outcome.value)
        assert servers.server().report().calls == 1


async def test_a_server_asks_through_the_layers_around_its_tool() -> None:
    async def around(inner: Tool, arguments: Mapping[str, object]) -> ToolResult:
        return await inner.call(arguments)

    async with connected(plain()) as servers:
        (found,) = (each.tool for each in servers.server().tools if each.name == "ask")
        group = ToolGroup("files", (found.with_layer(around).with_layer(around),), approve="always")
        async with started(Plain, "ask", group) as (platform, process):
            (question,) = process.open_questions
            assert question.message == "May the tool 'ask' of the server 'plain' be called with {\"path\": \"a\"}?"
            assert isinstance(await answer(platform, process, True), Waiting)
            assert "Leo" in str(await answer(platform, process, {"sign": "Leo"}))
        assert servers.server().report().calls == 1


async def test_a_server_is_told_when_a_person_declines() -> None:
    async with asking_server() as (_, platform, process):
        await platform.answer(process.id, declined="No.")
        assert '"decline"' in str(await settled(process))


async def test_several_questions_of_servers_are_answered_in_their_own_calls() -> None:
    async with asking_server(text="ask ask") as (servers, platform, process):
        assert isinstance(await answer(platform, process, {"sign": "Leo"}), Waiting)
        outcome = await answer(platform, process, {"sign": "Pisces"})
        assert isinstance(outcome, Completed)
        assert str(outcome.value).index("Leo") < str(outcome.value).index("Pisces")
        assert servers.server().report().calls == 2


async def test_a_call_that_ends_while_a_person_thinks_takes_its_question_back() -> None:
    async with asking_server() as (servers, _, process):
        (question,) = process.open_questions
        await servers.server().stop()
        with anyio.fail_after(60):
            while not process.status.ended:
                await settled(process)
                await anyio.lowlevel.checkpoint()
        assert question.status == "withdrawn"
        assert isinstance(process.outcome, Completed)


async def test_a_process_that_ends_while_a_server_asks_ends_the_call() -> None:
    async with asking_server() as (servers, _, process):
        process.kill("enough")
        assert process.open_questions == ()
        # The server does one thing after the other.
        assert (await servers.call("echo", text="free again")).text == "free again"


async def test_a_server_s_call_goes_on_while_another_part_of_the_action_is_parked() -> None:
    @agent(description="Does two things at once")
    class Both:
        @achieves_goal(description="Both")
        @action(tool_groups=["files"])
        async def work(self, user_input: UserInput, context: ActionContext) -> Text:
            async with asyncio.TaskGroup() as tasks:
                called = tasks.create_task(context.tool("ask").call({}))
                asked = tasks.create_task(context.ask("Your own?", str))
            return Text(called.result().text + asked.result())

    async with connected(plain()) as servers:
        group = ToolGroup("files", tuple(each.tool for each in servers.server().tools))
        async with started(Both, "x", group) as (platform, process):
            with anyio.fail_after(60):
                while len(process.open_questions) < 2:
                    await anyio.sleep(0.01)
            for question in process.open_questions:
                own = question.message == "Your own?"
                await platform.answer(process.id, question.id, "Virgo" if own else {"sign": "Leo"})
            outcome = await settled(process)
        assert "Leo" in str(outcome)
        assert "Virgo" in str(outcome)
        assert servers.server().report().calls == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
    ],
)
async def test_what_a_server_asks_that_is_no_form_is_put_to_nobody(schema: Mapping[str, object]) -> None:
    async def handle(arguments: Mapping[str, object]) -> ToolResult:
        ask = current_hooks().ask
        assert ask is not None
        return ToolResult.of_text(str(await ask("Well?", schema)))

    odd = Tool("odd", "d", {"type": "object"}, handle, server="strange")
    async with started(Plain, "odd", ToolGroup("files", (odd,))) as (_, process):
        assert "The server 'strange' asked for something that is no form" in str(process.outcome)


async def test_a_pattern_in_the_form_of_a_server_holds_nobody_up() -> None:
    async def handle(arguments: Mapping[str, object]) -> ToolResult:
        ask = current_hooks().ask
        assert ask is not None
        fields = {"code": {"type": "string", "pattern": "^(a+)+$"}}
        return ToolResult.of_text(str(await ask("Which code?", {"type": "object", "properties": fields})))

    odd = Tool("odd", "d", {"type": "object"}, handle, server="strange")
    async with started(Plain, "odd", ToolGroup("files", (odd,))) as (platform, process):
        (question,) = process.open_questions
        with anyio.fail_after(10):
            with pytest.raises(BadInput, match="code: should match the pattern"):
                await platform.answer(process.id, question.id, {"code": "a" * 40 + "!"})
            await anyio.lowlevel.checkpoint()
        await answer(platform, process, {"code": "aaa"})
        assert "aaa" in str(process.outcome)


async def test_a_server_s_progress_is_progress_of_the_process() -> None:
    heard: list[Event] = []
    async with asking_server(heard=heard, text="progress") as (_, _, process):
        assert isinstance(process.outcome, Completed)
    told = [each.message for each in heard if isinstance(each, ProgressUpdated)]
    assert told == ["plain: step 1", "plain: step 2"]
