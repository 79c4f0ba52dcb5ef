"""The requests of the AG-UI door: a run as a stream of events, and what there is to run.

What is wrong with a request is refused over HTTP before the stream begins; what goes wrong in a run is its last event.
Only this module of the room catches every exception. Below: the runs of chatbots and of goals. Above: the door.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from http import HTTPStatus
from typing import Final
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

_LONGEST_ID: Final = 1_000


class RunHandlers:
    """The handlers of requests for runs, and for what can be run."""

    def __init__(self, door: HttpDoor, streams: OpenStreams) -> None:
        self._door, self._streams = door, streams
        self._publisher = door.publisher

    async def run(self, request: Request) -> Response:
        """Begin a run, or go on with one, and stream its events. Raises `Problem`, `LimitReached` and `StoreError`."""
        agent = self._agent(request)
        given = _input(read(RunAgentInput, await body_of(request)), calls_tools=self._calls_tools(agent))
        call, publisher, caller = call_of(request), self._publisher, current_caller()
        call.arguments = tuple(sorted(given.model_fields_set))
        call.name = _name(agent)
        if isinstance(agent, GoalTool):
            run = GoalRun(agent, given, publisher, call)
        else:
            run = ChatRun(agent, given, publisher, call)
        async with AsyncExitStack() as place:
            place.enter_context(self._streams.one_of(caller))
            await place.enter_async_context(admitted(publisher.limits, request, begins=not given.resume))
            events = _written(self._events(run, given, call))
            return AnswerStream(events, publisher.settings.heartbeat_seconds, place.pop_all())

    async def list(self, request: Request) -> Response:
        """What the caller may run, with its address and what it can do."""
        path = request.url.path.rstrip("/")
        agents = [*self._chatbots().values(), *self._goals().values()]
        found = {_name(each): each for each in reversed(agents)}
        return JSONResponse(
            {
                "protocolVersion": PROTOCOL_VERSION,
                "agents": [
                    {
                        "name": name,
                        "path": f"{path}/{quote(name, safe='')}",
                        "capabilities": self._shown(found[name]),
                    }
                    for name in sorted(found)
                ],
            }
        )

    async def show(self, request: Request) -> Response:
        """What a chatbot or goal can do, as AG-UI has it."""
        return JSONResponse(self._shown(self._agent(request)))

    def _agent(self, request: Request) -> AgentProcessChatbot | GoalTool:
        """What the path names. Raises `Problem` if there is none that the caller may use."""
        name = str(request.path_params["name"])
        found = self._chatbots().get(name) or self._goals().get(name)
        if found is not None:
            return found
        access, whole = self._door.access, self._publisher.publication
        if (chatbot := self._publisher.platform.chatbots.get(name)) is not None:
            self._door.require(access.of_chatbot(chatbot.mark))
        if isinstance(whole.tools.get(name), GoalTool):
            self._door.require(whole.scopes.tools[name])
        known = [*self._chatbots(), *self._goals()]
        reason = str(UnknownName("chatbot or goal", name[:100], known))
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-agent", reason)

    def _chatbots(self) -> Mapping[str, AgentProcessChatbot]:
        platform, caller = self._publisher.platform, current_caller()
        return {name: each for name, each in platform.chatbots.items() if platform.may_chat(caller, each)}

    def _goals(self) -> Mapping[str, GoalTool]:
        tools = self._door.access.publication.tools
        return {name: each for name, each in tools.items() if isinstance(each, GoalTool)}

    def _shown(self, agent: AgentProcessChatbot | GoalTool) -> object:
        """What an agent can do, as JSON."""
        is_goal = isinstance(agent, GoalTool)
        found = of_goal(agent) if is_goal else of_chatbot(agent, calls_tools=self._calls_tools(agent))
        return found.model_dump(mode="json", by_alias=True)

    def _calls_tools(self, agent: AgentProcessChatbot | GoalTool) -> bool:
        """Whether it calls tools of the front end."""
        return not isinstance(agent, GoalTool) and takes_front_end(self._publisher.platform, agent)

    async def _events(self, run: ChatRun | GoalRun, given: RunAgentInput, call: Call) -> AsyncGenerator[BaseEvent]:
        """The events of a run; what goes wrong is the last one."""
        yield RunStartedEvent(
            thread_id=given.thread_id,
            run_id=given.run_id,
            parent_run_id=given.parent_run_id,
            protocol_version=PROTOCOL_VERSION,
        )
        error: RunErrorEvent | None = None
        try:
            async with aclosing(run.events()) as events:
                async for each in events:
                    error = each if isinstance(each, RunErrorEvent) else None
                    yield each
            call.status = "failed" if error is not None and call.process is None else call.status
            return
        except RunRefused as refused:
            error = _error(refused.code, refused)
        except AlreadyAnswered as answered:
            error = _error("already-answered", answered)
        except ConversationEnded as ended:
            error = _error("conversation-ended", ended)
        except (BadInput, UnknownName) as mistake:
            error = _error("invalid-input", mistake)
        except LimitReached as reached:
            error = _error("limit-reached", reached)
        except (HandedOver, StoreError, Unreadable) as trouble:
            error = RunErrorEvent(message=cleaned(hide_known(unavailable_words(trouble))), code="unavailable")
        except Exception as bug:
            told = logged(f"A run of {call.name}", bug, tells_errors=self._publisher.settings.show_errors)
            error = RunErrorEvent(message=told, code="bug")
        call.status = "error" if error.code == "bug" else "refused"
        yield error


def _input(given: RunAgentInput, *, calls_tools: bool) -> RunAgentInput:
    """The request, if there is nothing in it that is not honoured. Raises `Problem`."""
    ids = {"threadId": given.thread_id, "runId": given.run_id}
    problems = [
        f"{name}: should have 1 to {_LONGEST_ID} characters; came {len(value)}"
        for name, value in ids.items()
        if not 0 < len(value) <= _LONGEST_ID
    ]
    if given.tools and calls_tools:
        problems += offer_problems(given.tools)
    elif given.tools:
        names = listed(sorted({each.name for each in given.tools}))
        problems.append(f"tools: tools of a front end are not called here; leave out {names}")
    if problems:
        raise invalid(problems, "\n".join(problems))
    return given


def _error(code: str, error: Exception) -> RunErrorEvent:
    return RunErrorEvent(message=cleaned(hide_known(str(error))), code=code)


async def _written(events: AsyncGenerator[BaseEvent]) -> AsyncIterator[ServerSentEvent]:
    async with aclosing(events):
        async for each in events:
            yield ServerSentEvent(hide_known(each.model_dump_json(by_alias=True)), sep="\n")


def _name(agent: AgentProcessChatbot | GoalTool) -> str:
    return agent.tool.name if isinstance(agent, GoalTool) else agent.name


_FRAMEWORK = "goalport"


def of_chatbot(chatbot: AgentProcessChatbot, *, calls_tools: bool) -> AgentCapabilities:
    """What a chatbot can do. `calls_tools`: also those that the front end offers."""
    identity = IdentityCapabilities(name=chatbot.name, type=_FRAMEWORK, description=chatbot.description)
    seen = MultimodalInputCapabilities(image=True, audio=False, video=False, pdf=False, file=False)
    return _capabilities(identity, memory=True).model_copy(
        update={
            "tools": ToolsCapabilities(supported=True, client_provided=calls_tools),
            "multimodal": MultimodalCapabilities(input=seen),
            "reasoning": ReasoningCapabilities(supported=True, streaming=True, encrypted=False),
        }
    )


def of_goal(tool: GoalTool) -> AgentCapabilities:
    """What a goal can do, and under `custom` the JSON Schemas of its input and its result."""
    name, about = tool.tool.name, tool.tool.description
    identity = IdentityCapabilities(name=name, type=_FRAMEWORK, description=about, version=tool.agent.version)
    return _capabilities(identity, memory=False).model_copy(
        update={
            "output": OutputCapabilities(structured_output=True),
            "custom": {"inputSchema": tool.tool.input_schema, "outputSchema": tool.policy.output.value_schema},
        }
    )


def _capabilities(identity: IdentityCapabilities, *, memory: bool) -> AgentCapabilities:
    return AgentCapabilities(
        identity=identity,
        transport=TransportCapabilities(streaming=True, websocket=False, http_binary=False, resumable=False),
        tools=ToolsCapabilities(supported=True, client_provided=False),
        state=StateCapabilities(snapshots=True, deltas=True, memory=memory, persistent_state=False),
        human_in_the_loop=HumanInTheLoopCapabilities(supported=True, approvals=True, interrupts=True),
    )
