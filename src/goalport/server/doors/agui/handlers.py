"""The requests of the AG-UI door: a run as a stream of events, and what there is to run.

What is wrong with a request is refused over HTTP before the stream begins; what goes wrong in a run is its last event.
Only this module of the room catches every exception. Below: the runs of chatbots and of goals. Above: the door.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from ag_ui.core import PROTOCOL_VERSION, BaseEvent, RunAgentInput, RunErrorEvent, RunStartedEvent
from ag_ui.core.capabilities import (
    AgentCapabilities,
    HumanInTheLoopCapabilities,
    IdentityCapabilities,
    MultimodalCapabilities,
    MultimodalInputCapabilities,
    OutputCapabilities,
    ReasoningCapabilities,
    StateCapabilities,
    ToolsCapabilities,
    TransportCapabilities,
)
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport.base.errors import (
    AlreadyAnswered,
    BadInput,
    ConversationEnded,
    HandedOver,
    StoreError,
    UnknownName,
    Unreadable,
)
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, listed
from goalport.runtime.chat import AgentProcessChatbot
from goalport.server.auth import current_caller
from goalport.server.doors.agui.runs import ChatRun, GoalRun, RunRefused, offer_problems, takes_front_end
from goalport.server.publish.calls import Call, logged, unavailable_words
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.limits import LimitReached
from goalport.server.web.endpoint import AnswerStream, HttpDoor, OpenStreams, admitted, body_of, call_of, read
from goalport.server.web.problems import Problem, invalid

Agent = AgentProcessChatbot | GoalTool
_FRAMEWORK: Final = "goalport"
_LONGEST_ID: Final = 1_000
_CODES: Final[Mapping[type[Exception], str]] = {
    AlreadyAnswered: "already-answered",
    ConversationEnded: "conversation-ended",
    BadInput: "invalid-input",
    UnknownName: "invalid-input",
    LimitReached: "limit-reached",
}
"""What programs are told of a mistake: the first one that fits."""


class RunHandlers:
    """The handlers of requests for runs, and for what can be run."""

    def __init__(self, door: HttpDoor, streams: OpenStreams) -> None:
        self._door, self._streams = door, streams
        self._publisher = door.publisher

    async def run(self, request: Request) -> Response:
        """Begin a run, or go on with one, and stream its events. Raises `Problem`, `LimitReached` and `StoreError`."""
        agent, publisher, call = self._agent(request), self._publisher, call_of(request)
        given = read(RunAgentInput, await body_of(request))
        if problems := [*self._problems(agent, given)]:
            raise invalid(problems, "\n".join(problems))
        call.arguments, call.name = tuple(sorted(given.model_fields_set)), _name(agent)
        if isinstance(agent, GoalTool):
            run = GoalRun(agent, given, publisher, call)
        else:
            run = ChatRun(agent, given, publisher, call)
        async with AsyncExitStack() as place:
            place.enter_context(self._streams.one_of(current_caller()))
            await place.enter_async_context(admitted(publisher.limits, request, begins=not given.resume))
            events = _written(self._events(run, given, call))
            return AnswerStream(events, publisher.settings.heartbeat_seconds, place.pop_all())

    async def list(self, request: Request) -> Response:
        """What the caller may run, with its address and what it can do."""
        path, found = request.url.path.rstrip("/"), self._agents()
        agents = [
            {"name": name, "path": f"{path}/{quote(name, safe='')}", "capabilities": self._shown(found[name])}
            for name in sorted(found)
        ]
        return JSONResponse({"protocolVersion": PROTOCOL_VERSION, "agents": agents})

    async def show(self, request: Request) -> Response:
        """What a chatbot or goal can do, as AG-UI has it."""
        return JSONResponse(self._shown(self._agent(request)))

    def _agents(self) -> Mapping[str, Agent]:
        """What the caller may use; of a goal and a chatbot of one name, the chatbot."""
        platform, caller, tools = self._publisher.platform, current_caller(), self._door.access.publication.tools
        goals: dict[str, Agent] = {name: each for name, each in tools.items() if isinstance(each, GoalTool)}
        return goals | {name: each for name, each in platform.chatbots.items() if platform.may_chat(caller, each)}

    def _agent(self, request: Request) -> Agent:
        """What the path names. Raises `Problem` if there is none that the caller may use."""
        name, agents = str(request.path_params["name"]), self._agents()
        if name in agents:
            return agents[name]
        access, whole = self._door.access, self._publisher.publication
        if (chatbot := self._publisher.platform.chatbots.get(name)) is not None:
            self._door.require(access.of_chatbot(chatbot.mark))
        if isinstance(whole.tools.get(name), GoalTool):
            self._door.require(whole.scopes.tools[name])
        reason = str(UnknownName("chatbot or goal", name[:100], agents))
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-agent", reason)

    def _problems(self, agent: Agent, given: RunAgentInput) -> Iterator[str]:
        """What in a request is not honoured, in lines."""
        for name, value in (("threadId", given.thread_id), ("runId", given.run_id)):
            if not 0 < len(value) <= _LONGEST_ID:
                yield f"{name}: should have 1 to {_LONGEST_ID} characters; came {len(value)}"
        if given.tools and not isinstance(agent, GoalTool) and takes_front_end(self._publisher.platform, agent):
            yield from offer_problems(given.tools)
        elif given.tools:
            names = listed(sorted({each.name for each in given.tools}))
            yield f"tools: tools of a front end are not called here; leave out {names}"

    def _shown(self, agent: Agent) -> object:
        """What an agent can do, as JSON; of a goal, with the JSON Schemas of its input and its result."""
        is_goal = isinstance(agent, GoalTool)
        if is_goal:
            tool = agent.tool
            of_it = IdentityCapabilities(
                name=tool.name, type=_FRAMEWORK, description=tool.description, version=agent.agent.version
            )
            schemas = {"inputSchema": tool.input_schema, "outputSchema": agent.policy.output.value_schema}
            more: dict[str, Any] = {"output": OutputCapabilities(structured_output=True), "custom": schemas}
        else:
            of_it = IdentityCapabilities(name=agent.name, type=_FRAMEWORK, description=agent.description)
            seen = MultimodalInputCapabilities(image=True, audio=False, video=False, pdf=False, file=False)
            reasoning = ReasoningCapabilities(supported=True, streaming=True, encrypted=False)
            more = {"multimodal": MultimodalCapabilities(input=seen), "reasoning": reasoning}
        calls_tools = not is_goal and takes_front_end(self._publisher.platform, agent)
        return AgentCapabilities(
            identity=of_it,
            transport=TransportCapabilities(streaming=True, websocket=False, http_binary=False, resumable=False),
            tools=ToolsCapabilities(supported=True, client_provided=calls_tools),
            state=StateCapabilities(snapshots=True, deltas=True, memory=not is_goal, persistent_state=False),
            human_in_the_loop=HumanInTheLoopCapabilities(supported=True, approvals=True, interrupts=True),
            **more,
        ).model_dump(mode="json", by_alias=True)

    async def _events(self, run: ChatRun | GoalRun, given: RunAgentInput, call: Call) -> AsyncGenerator[BaseEvent]:
        """The events of a run; what goes wrong is the last one."""
        yield RunStartedEvent(
            thread_id=given.thread_id,
            run_id=given.run_id,
            parent_run_id=given.parent_run_id,
            protocol_version=PROTOCOL_VERSION,
        )
        last: BaseEvent | None = None
        try:
            async with aclosing(run.events()) as events:
                async for last in events:
                    yield last
            if isinstance(last, RunErrorEvent) and call.process is None:
                call.status = "failed"
            return
        except RunRefused as refused:
            code, told = refused.code, cleaned(hide_known(str(refused)))
        except tuple(_CODES) as mistake:
            code = next(code for kind, code in _CODES.items() if isinstance(mistake, kind))
            told = cleaned(hide_known(str(mistake)))
        except (HandedOver, StoreError, Unreadable) as trouble:
            code, told = "unavailable", cleaned(hide_known(unavailable_words(trouble)))
        except Exception as bug:
            code = "bug"
            told = logged(f"A run of {call.name}", bug, tells_errors=self._publisher.settings.show_errors)
        call.status = "error" if code == "bug" else "refused"
        yield RunErrorEvent(message=told, code=code)


async def _written(events: AsyncGenerator[BaseEvent]) -> AsyncIterator[ServerSentEvent]:
    async with aclosing(events):
        async for each in events:
            yield ServerSentEvent(hide_known(each.model_dump_json(by_alias=True)), sep="\n")


def _name(agent: Agent) -> str:
    return agent.tool.name if isinstance(agent, GoalTool) else agent.name
