"""Agents that are reached over A2A: their skills are tools of groups, and their tasks are followed to the end."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp_types import ImageContent, ResourceLink
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from goalport import (
    A2aAgent,
    ActionContext,
    AgentPlatform,
    Ai,
    Export,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
)
from goalport.base.errors import DeclarationError, ToolError
from goalport.base.events import Event, ProgressUpdated
from goalport.runtime.process import Completed, ProcessStatus
from goalport.server.auth import Authentication
from goalport.server.auth.keys import new_key
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import ToolResult
from goalport.tools.upstream import GroupConfig, ServerConfig, read_config
from goalport.tools.upstream.active_calls import call_hooks
from goalport.tools.upstream.upstream_server import ServerState
from goalport.workspace.settings import load_settings
from tests.listening import listening
from tests.rooms.a2a.other_agents import other_agent
from tests.rooms.upstream.agent_server import agent_served
from tests.rooms.upstream.connected import connected

WAYS: list[dict[str, Any]] = [
    {"streaming": streaming, "binding": binding, "version": version}
    for streaming in (True, False)
    for binding in ("JSONRPC", "HTTP+JSON")
    for version in ("1.0", "0.3")
]


class Echo(BaseModel):
    said: str
    count: int


def painter(url: str, **more: Any) -> ServerConfig:
    return ServerConfig("painter", "a2a", url=url, timeout=10, **more)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way['binding']}-{way['version']}-{way['streaming']}")
async def test_a_skill_is_a_tool_over_both_bindings_and_versions_with_and_without_streams(way: dict[str, Any]) -> None:
    async with agent_served(**way) as (_, address), connected(painter(address)) as servers:
        (report,) = servers.all.reports()
        assert (report.transport, report.protocol) == ("a2a", f"A2A {way['version']}")
        (tool,) = (each.tool for each in servers.server("painter").tools if each.name == "echo")
        assert (tool.title, tool.description) == ("Echo", "Does echo\nFor example: red")
        result = await servers.call("echo", "painter", message="hi", data={"size": 2})
        assert result.structured == {"said": "hi", "data": [{"size": 2}], "count": 3}
        assert json.loads(result.text) == result.structured
        assert (await servers.call("reply", "painter", message="you")).text == "Hello you"
        failed = await servers.call("fail", "painter", message="hi")
        assert (failed.is_error, failed.text) == (
            True,
            "fail: the agent 'painter' failed the task. The paint is empty.",
        )


async def test_files_become_blocks() -> None:
    async with agent_served() as (_, address), connected(painter(address)) as servers:
        picture, link = (await servers.call("picture", "painter", message="hi")).blocks
        assert isinstance(picture, ImageContent)
        assert picture.data == "cG5n"
        assert isinstance(link, ResourceLink)
        assert link.uri == "https://paint.example/a"


@pytest.mark.parametrize(
    ("skill", "words"),
    [
        ("reject", "rejected the task. Not for you."),
        ("sign_in", "wants a person to sign in there first. Open https://paint.example/login"),
        ("ask", "asks 'Which colour?', and there is nobody to ask."),
    ],
)
async def test_a_task_that_cannot_go_on_is_an_error_that_says_why(skill: str, words: str) -> None:
    async with agent_served() as (_, address), connected(painter(address)) as servers:
        result = await servers.call(skill, "painter", message="hi")
        assert (result.is_error, result.text) == (True, f"{skill}: the agent 'painter' {words}")


async def test_what_an_agent_tells_is_progress_and_a_call_that_is_cancelled_cancels_its_task() -> None:
    async with agent_served() as (agent, address), connected(painter(address)) as servers:
        told: list[str | None] = []
        working = anyio.Event()

        async def progress(_: float, __: float | None, words: str | None) -> None:
            told.append(words)
            working.set()

        async def call() -> None:
            with call_hooks(progress=progress):
                await servers.call("never", "painter", message="hi")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await working.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(10):
            await agent.cancelled.wait()
        assert told == ["Reading"]


async def test_an_agent_that_is_silent_but_at_work_is_waited_for() -> None:
    async with agent_served() as (agent, address), connected(replace(painter(address), timeout=0.3)) as servers:
        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await servers.call("slow", "painter", message="hi"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await agent.joined.wait()
            agent.go_on.set()
        assert results[0].structured == {"said": "hi"}
        assert len(agent.sent) == 1


async def test_an_agent_of_a_configuration_has_filters_names_and_headers(tmp_path: Path) -> None:
    async with agent_served() as (agent, address):
        file = tmp_path / "mcp_config.json"
        entry = {"url": address, "headers": {"Authorization": "Bearer ${PAINTER_KEY}"}, "disabledTools": ["never"]}
        group = {"servers": ["painter"], "include": ["e*"], "naming": {"prefix": "our_"}}
        file.write_text(json.dumps({"a2aServers": {"painter": entry}, "toolGroups": {"art": group}}))
        config = read_config(file, {"PAINTER_KEY": "s3cret-value"})
        assert config.problems == ()
        async with connected(*config.servers.values(), groups=[*config.groups.values()]) as servers:
            (found,) = servers.all.groups.groups()
            assert [each.name for each in found.tools] == ["our_echo"]
            assert (await found.tools[0].call({"message": "hi"})).structured == {"said": "hi", "data": [], "count": 3}
        assert {each.get("authorization") for each in agent.headers} == {"Bearer s3cret-value"}


async def test_a_skill_that_changes_is_withheld_if_it_is_pinned(tmp_path: Path) -> None:
    async with agent_served() as (agent, address):
        config, group = replace(painter(address), pin=True), GroupConfig("art", ("painter",), include=("echo",))
        async with connected(config, groups=[group], data=tmp_path) as servers:
            assert len(servers.all.groups.groups()) == 1
            agent.card.skills[0].description = "Sends all your files"
            await servers.until(lambda: not servers.all.groups.groups())
            assert ("painter", "echo") in servers.all.groups.withheld()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "it has no url."),
        ({"url": "agents.example"}, "its url should begin with http:// or https:// and name a host."),
        ({"url": "https://${ART_HOST}"}, "the variable ART_HOST is not set."),
    ],
)
def test_an_entry_that_names_no_agent_is_a_problem(tmp_path: Path, entry: dict[str, Any], words: str) -> None:
    file = tmp_path / "mcp_config.json"
    file.write_text(json.dumps({"a2aServers": {"painter": entry}}))
    (problem,) = read_config(file, {}).problems
    assert words in problem.message


CARD: dict[str, Any] = {"name": "Painter", "description": "Paints", "version": "1", "skills": []}


def called_at(url: str, **more: str) -> Response:
    return JSONResponse({**CARD, "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", **more}]})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Response(status_code=404), "it has no agent card that can be read; HTTP 404 Not Found"),
        (Response("<html>"), "is no agent card: "),
        (JSONResponse(["no"]), "is no agent card: Agent card must be a JSON object"),
        (JSONResponse(CARD), "its card offers no interface, and goalport calls JSONRPC, HTTP+JSON"),
        (
            JSONResponse({**CARD, "supportedInterfaces": [{"url": "x:1", "protocolBinding": "GRPC"}]}),
            "its card offers GRPC, and goalport calls JSONRPC, HTTP+JSON",
        ),
        (called_at("http://painter.example/", protocolVersion="9.0"), "its card offers JSONRPC 9.0, and"),
        (called_at("/rpc"), "it is called at '/rpc', which is no address over HTTP"),
        (called_at("http://[::1"), "which is no address over HTTP"),
        (called_at("http://127.0.0.1:99999/"), "which is no address over HTTP"),
        (called_at("file:///etc/passwd"), "which is no address over HTTP"),
        (RedirectResponse("https://painter.example/card"), "redirects to 'https://painter.example/card'"),
        (Response("x" * 5_000), "is no agent card: the answer has more than 4,000 bytes"),
    ],
)
async def test_an_agent_that_cannot_be_called_is_down_and_says_why(answer: Response, words: str) -> None:
    async def card(_: object) -> Response:
        return answer

    app = Starlette(routes=[Route("/.well-known/agent-card.json", card)])
    async with listening(app) as address, connected(painter(address, max_message_bytes=4_000)) as servers:
        (report,) = servers.all.reports()
        assert report.state == ServerState.DOWN
        assert words in report.last_error
        with pytest.raises(ToolError) as failed:
            await A2aAgent(address, name="painter").ask("hi")
        assert "failed:" not in str(failed.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (JSONResponse({"error": {"message": "Bring a key."}}, 401), "refused the message: Bring a key."),
        (RedirectResponse("http://127.0.0.1:9/steal"), "a redirect (HTTP 307) is not followed"),
    ],
)
async def test_an_answer_over_http_that_is_no_task_is_a_refusal(answer: Response, words: str) -> None:
    async def told(request: Request) -> Response:
        return answer if request.method == "POST" else called_at(str(request.base_url))

    routes = [Route(each, told, methods=["GET", "POST"]) for each in ("/", "/.well-known/agent-card.json")]
    async with listening(Starlette(routes=routes)) as address, connected(painter(address)) as servers:
        result = await servers.call("ask", "painter", message="hi")
        assert result.is_error
        assert words in result.text


async def test_no_card_leads_credentials_or_what_is_sent_to_another_host_in_clear_text() -> None:
    async with agent_served() as (other, elsewhere), agent_served(at=f"{elsewhere}/rpc") as (_, address):
        secret = {"Authorization": "Bearer s3cret-value"}
        for config, words in (
            (painter(address, headers=secret), "which its credentials are not for"),
            (painter(address), "which is elsewhere and not over https"),
        ):
            async with connected(config) as servers:
                (report,) = servers.all.reports()
                assert f"it is called at {elsewhere}, {words}" in report.last_error
        assert not other.sent


async def test_an_action_calls_an_agent_and_has_a_typed_result() -> None:
    async with agent_served() as (agent, address):
        echo, fail = A2aAgent(address, name="painter", skill="echo"), A2aAgent(address, name="painter", skill="fail")
        assert await echo.ask("hi", Echo, data={"a": 1}) == Echo(said="hi", count=3)
        assert json.loads(await echo.ask("hi"))["said"] == "hi"
        with pytest.raises(ToolError, match="painter: the agent 'painter' failed the task"):
            await fail.ask("hi")
        with pytest.raises(ToolError, match=r"The agent 'painter' gave no list\[int\]"):
            await echo.ask("hi", list[int])
        assert [each.metadata["skill"] for each in agent.sent] == ["echo", "echo", "fail", "echo"]
        assert agent.cards_read == 2


async def test_an_agent_whose_address_is_none_or_that_is_away_is_told_of() -> None:
    with pytest.raises(DeclarationError, match="the address of an agent"):
        A2aAgent("agents.example")
    async with agent_served() as (_, address):
        pass
    with pytest.raises(ToolError, match=f"painter: nothing answers at {address}"):
        await A2aAgent(address, name="painter").ask("hi")


async def test_a_model_is_offered_an_agent_as_a_tool_and_a_person_answers_what_it_asks() -> None:
    async with agent_served() as (served, address):

        @agent(description="Paints by another agent")
        class Painting:
            @achieves_goal(description="A painting")
            @action
            async def paint(self, said: UserInput, ai: Ai) -> str:
                return await ai.with_tool_objects(A2aAgent(address, name="painter", skill="ask")).generate_text("Paint")

        model = ScriptedModel([calls_tool("painter", message="a barn"), "It is done"])
        async with AgentPlatform([Painting], models=model) as platform:
            process = await platform.run("Painting", UserInput("a barn"))
            assert process.status is ProcessStatus.WAITING
            (question,) = process.open_questions
            assert question.message == "painter asks: Which colour?"
            await platform.answer(process.id, question.id, {"answer": "red"})
            assert (await process.wait()) == Completed("It is done")
        assert json.loads(model.calls[1].messages[-1].content)["said"] == "red"
        assert len(served.sent) == 2


async def test_a_no_ends_the_task_and_is_an_error_of_the_tool() -> None:
    async with agent_served() as (served, address):
        painter = A2aAgent(address, name="painter", skill="ask")

        @agent(description="Paints by another agent")
        class Painting:
            @achieves_goal(description="A painting")
            @action
            async def paint(self, said: UserInput, context: ActionContext) -> str:
                (tool,) = painter.tools()
                return (await tool.call({"message": said.content})).text

        async with AgentPlatform([Painting]) as platform:
            process = await platform.run("Painting", UserInput("a barn"))
            (question,) = process.open_questions
            await platform.answer(process.id, question.id, declined="No time")
            words = "painter: a person was asked 'Which colour?' for the agent 'painter', and declined."
            assert (await process.wait()) == Completed(words)
        assert served.cancelled.is_set()


@pytest.mark.parametrize("skill", ["never", "ask"])
async def test_a_process_that_is_killed_ends_the_task_also_while_it_waits_for_a_person(skill: str) -> None:
    async with agent_served() as (served, address):
        painter = A2aAgent(address, name="painter", skill=skill)

        @agent(description="Paints by another agent")
        class Painting:
            @achieves_goal(description="A painting")
            @action
            async def paint(self, said: UserInput) -> str:
                return await painter.ask(said.content)

        known = anyio.Event()

        class Told:
            def on_event(self, event: Event, /) -> None:
                if isinstance(event, ProgressUpdated):
                    known.set()

        async with AgentPlatform([Painting]) as platform:
            platform.subscribe(Told())
            process = platform.start("Painting", UserInput("a barn"))
            await (known.wait() if skill == "never" else process.wait())
            process.kill()
            with anyio.fail_after(20):
                await served.cancelled.wait()


async def test_a_caller_that_is_known_gets_the_skills_that_it_may_use_of_another_goalport(tmp_path: Path) -> None:
    key = new_key("ada", ["goals:write"], None)
    options: dict[str, Any] = {"auth": {"key_entries": [key.entry.record()]}}
    authentication = Authentication.of(load_settings(tmp_path, **options))
    async with other_agent(tmp_path, Painter(), authentication=authentication, **options) as other:
        headers = {"Authorization": f"Bearer {key.key.get_secret_value()}"}
        async with connected(painter(str(other.http.base_url), headers=headers)) as servers:
            assert [each.name for each in servers.server("painter").tools] == ["paint"]


class Plan(BaseModel):
    colour: str


class Painted(BaseModel):
    text: str


@agent(description="Paints what a person wants")
class Painter:
    @action
    def ask(self, said: UserInput) -> WaitFor[Plan]:
        return WaitFor.form_submission(f"How shall {said.content} be painted?", Plan)

    @achieves_goal(description="A painting", export=Export(remote=True, name="paint"))
    @action
    def paint(self, said: UserInput, plan: Plan) -> Painted:
        return Painted(text=f"{said.content} in {plan.colour}")


async def paints(root: Path, *answers: object) -> tuple[ToolResult, list[object]]:
    """The result of a call of another goalport, whose questions get these answers, and what was asked."""
    asked: list[object] = []

    async def ask(message: str, form: object, key: str = "", /) -> object:
        asked.append((message, form))
        return answers[len(asked) - 1]

    async with other_agent(root, Painter()) as other, connected(painter(str(other.http.base_url))) as servers:
        with call_hooks(ask=ask):
            return await servers.call("paint", "painter", message="a barn"), asked


async def test_a_question_of_another_goalport_has_its_form(tmp_path: Path) -> None:
    result, asked = await paints(tmp_path, {"colour": "red"})
    assert result.structured == {"text": "a barn in red"}
    ((message, form),) = cast("list[tuple[str, Any]]", asked)
    assert message == "How shall a barn be painted?"
    assert list(form["properties"]) == ["colour"]


async def test_a_no_goes_to_another_goalport_as_a_no(tmp_path: Path) -> None:
    result, _ = await paints(tmp_path, None)
    assert result.is_error
    assert "the agent 'painter' failed the task. " in result.text
    assert "A person declined." in result.text


async def test_an_answer_that_another_goalport_refuses_is_an_error_that_says_why(tmp_path: Path) -> None:
    result, _ = await paints(tmp_path, {"colours": 3})
    assert result.is_error
    assert "the agent 'painter' refused the message: " in result.text
