"""The request handlers of the AG-UI door, and runs: the events of a turn or a process, from its start until it rests.

A thread of a front end is a conversation that only its caller can use. A question ends a run with an interrupt; a call
of a front end's tool ends it too. A later run brings the answer, to any replica. A question keeps its id, and the first
answer counts, through whichever door it is sent. Invalid requests are refused over HTTP before the stream begins; an
error in a run is the last event of its stream. Only this module of the room catches every exception. Below: the events.
Above: the door.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import quote

import anyio
from ag_ui import core as ag
from pydantic_core import from_json
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport.base.errors import (
    AlreadyAnswered,
    BadInput,
    ConversationEnded,
    GoalportError,
    HandedOver,
    StoreError,
    ToolError,
    UnknownName,
    Unreadable,
)
from goalport.base.events import MessageSent
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, listed
from goalport.runtime.chat import (
    AgentProcessChatbot,
    ChatSession,
    FrontEnd,
    FrontEndCall,
    OfferedTool,
    Turn,
    TurnResult,
)
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import IdempotentCall, Watch, process_of
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    Follower,
    Heartbeat,
    Outcome,
    Question,
    Rested,
    find_question,
)
from goalport.server.auth import current_caller
from goalport.server.doors.agui.events import STATE, NewMessage, RunEvents, SharedState, find_request, last_text, merged
from goalport.server.publish.answers import reason_of, text_of, written_by
from goalport.server.publish.calls import Call, logged, unavailable_words
from goalport.server.publish.forms import form_of
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.limits import LimitReached
from goalport.server.publish.portability import Schema
from goalport.server.publish.publisher import (
    Publisher,
    answer_in_session,
    answer_question,
    counted_turn,
    note_turn,
    on_client_disconnect,
    start_goal,
)
from goalport.server.publish.resources import question_view
from goalport.server.web.endpoint import (
    AnswerStream,
    HttpDoor,
    OpenStreams,
    Problem,
    admitted,
    body_of,
    call_of,
    invalid,
    read,
)
from goalport.tools import schema_fault
from goalport.tools.schemas import UNREADABLE

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
"""The code of the run's last event for a mistake of the caller; the first class that fits counts."""
_YES_OR_NO: Final = frozenset({"approved", "confirmed"})
"""Front ends send a yes or no as a bare boolean, or as the only member of an object, with one of these names."""
_BETWEEN: Final = ":"
"""Separates the ids of process and question in the id of an interrupt; neither of them contains it."""
_NOTHING_WAITS: Final = "Nothing waits for an answer here, so there is nothing to resume."


class RunRefused(GoalportError):
    """A run that cannot be done as requested; the code is for programs."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Answer:
    """A valid answer to a question."""

    question: Question
    response: object = None
    declined: str = ""
    """Why there is no answer; empty: there is one."""


def interrupt_of(question: Question, interrupt_id: str = "") -> ag.Interrupt:
    """The interrupt that asks a question. Its id is `interrupt_id`, or else that of the question.

    It has no schema if the answer cannot be read from JSON.
    """
    view, expires = question_view(question), question.expires_at
    schema = cast("dict[str, Any] | None", view.get("schema"))
    return ag.Interrupt(
        id=interrupt_id or question.id,
        reason="confirmation" if schema is not None and schema.get("type") == "boolean" else "input_required",
        message=cleaned(hide_known(question.message)),
        response_schema=schema,
        expires_at=None if expires is None else expires.astimezone(UTC).isoformat(),
        metadata={name: view[name] for name in ("kind", "options", "url", "askedAt") if name in view},
    )


def answers(process: AgentProcess, resume: Sequence[ag.ResumeEntry]) -> Sequence[Answer]:
    """The answers in the `resume` entries of a run. They are only read here, so a wrong entry refuses all of them.

    An entry is skipped if its question is settled and it repeats the answer or cancels. That is how a front end goes
    on after somebody else has answered. Raises `RunRefused` for a wrong entry, and if open questions have no entry.
    """
    read = [_answer_of(process, each) for each in resume]
    open_ones = {each.id for each in process.open_questions if not isinstance(each.wait, FrontEndCall)}
    left = open_ones - {each.interrupt_id for each in resume}
    if left and any(read):
        reason = f"Answer or cancel all open interrupts at once: {listed(sorted(left))} too."
        raise RunRefused("open-interrupts", reason)
    return [each for each in read if each is not None]


def _answer_of(process: AgentProcess, entry: ag.ResumeEntry) -> Answer | None:
    try:
        _, question = find_question(process, entry.interrupt_id)
    except UnknownName:
        reason = f"No interrupt {entry.interrupt_id[:100]!r} was raised here. Expected an id of the outcome of a run."
        raise RunRefused("unknown-interrupt", reason) from None
    settled = question.status != "open" or question.expired
    if entry.status == "cancelled":
        return None if settled else Answer(question, declined="The person declined.")
    try:
        form, payload = form_of(question), cast("object", entry.payload)
        if form.schema.get("type") == "boolean" and isinstance(payload, Mapping):
            # A yes or no may be the one member of an object, as in the protocol's examples.
            members = cast("Mapping[str, object]", payload)
            payload = next(iter(members.values())) if len(members) == 1 and members.keys() <= _YES_OR_NO else members
        response = form.read(payload)
        accepted = question.validated(response)
    except UNREADABLE:
        reason = f"The answer to {question.id} cannot be read from JSON. Cancel the interrupt."
        raise RunRefused("unreadable-interrupt", reason) from None
    except BadInput as error:
        raise RunRefused("invalid-answer", str(error)) from None
    if not settled:
        return Answer(question, response)
    if question.answer == accepted and question.status == ("declined" if accepted is None else "answered"):
        return None
    status = "expired" if question.expired else question.status
    reason = f"Question {question.id} is {status} already: the first answer counts. Cancel the interrupt to go on."
    raise RunRefused("already-answered" if status in {"answered", "declined"} else status, reason)


def takes_front_end(platform: AgentPlatform, agent: Agent) -> bool:
    """Whether an action of a chatbot takes a `FrontEnd`; other chatbots cannot use what a front end offers."""
    if isinstance(agent, GoalTool):
        return False
    actions = platform.agents.scope(agent.name).actions.values()
    return any(each.type is FrontEnd for action in actions for taken in action.inputs for each in taken.leaves)


def _parameters(tool: ag.Tool) -> object:
    return {"type": "object", "properties": {}} if tool.parameters in (None, {}) else tool.parameters


class _Run:
    """One run; `given` is the front end's request, `elsewhere` are the names of the tools that it calls itself."""

    def __init__(
        self, given: ag.RunAgentInput, publisher: Publisher, call: Call, elsewhere: Collection[str] = ()
    ) -> None:
        self.given, self.publisher, self.call = given, publisher, call
        self.state = SharedState(given.state)
        self.run_events = RunEvents(self.state, elsewhere)

    def end(
        self, outcome: ag.RunFinishedOutcome | None = None, result: object = None, *, failure: str = "", code: str = ""
    ) -> ag.BaseEvent:
        """The last event of the run: its outcome, or why it failed."""
        given, usage = self.given, self.run_events.usage
        if failure:
            return ag.RunErrorEvent(message=cleaned(hide_known(failure)), code=code, usage=usage)
        return ag.RunFinishedEvent(
            thread_id=given.thread_id, run_id=given.run_id, usage=usage, outcome=outcome, result=result
        )


class GoalRun(_Run):
    """One run of a published goal."""

    def __init__(self, tool: GoalTool, given: ag.RunAgentInput, publisher: Publisher, call: Call) -> None:
        super().__init__(given, publisher, call)
        self._tool = tool

    async def events(self) -> AsyncGenerator[ag.BaseEvent]:
        """The events of the run after its `RunStartedEvent`.

        Raises `RunRefused`, `BadInput`, `LimitReached`, `StoreError` and `HandedOver`.
        """
        follower = Follower()
        process = await (self._resumed(follower) if self.given.resume else self._started(follower))
        self.call.process = process
        started = {"id": process.id, "goal": self._tool.tool.name}
        for each in self.state.snapshot(process=started, plan=None, questions=[], result=None):
            yield each
        with Watch(self.publisher.runs.of(process, detached=self._tool.policy.detached)):
            async with aclosing(follower.follow(process)) as items:
                async for item in items:
                    match item:
                        case Rested(outcome=outcome) if outcome is not None:
                            for each in (*self.run_events.close(), *self._final_events(process, outcome)):
                                yield each
                        case Rested() | Heartbeat():
                            pass
                        case event:
                            for each in self.run_events.of(event):
                                yield each

    async def _started(self, follower: Follower) -> AgentProcess:
        """Start a process with the member `input` of `forwardedProps` or the state, or with the user's last text.

        Raises `BadInput`, and `RunRefused` if the thread has had a run of this id with other input.
        """
        tool, caller, field = self._tool, self.call.caller, self._tool.text_field
        for each in (self.given.forwarded_props, self.given.state):
            if isinstance(each, Mapping) and isinstance(typed := cast("Mapping[str, Any]", each).get("input"), Mapping):
                given = cast("Mapping[str, Any]", typed)
                break
        else:
            if field is None:
                taken = ", ".join(tool.arguments.schema.get("properties", ()))
                reason = f"{tool.tool.name} cannot start from a sentence: it takes {taken}. Give them as an object, in"
                raise BadInput(f"{reason} the member `input` of the state or of forwardedProps.")
            given = {field: last_text(self.given.messages)}
        objects = tool.arguments.start_objects(given)
        key = sha256(f"{self.given.thread_id}\n{self.given.run_id}".encode()).hexdigest()
        once = IdempotentCall.of(caller, tool.tool.name, f"agui {key}", given)
        try:
            return await start_goal(self.publisher, tool, objects, caller, once=once, listener=follower)
        except BadInput:
            reason = "This thread has had a run of this id already, with other input."
            raise RunRefused("repeated-run", reason) from None

    async def _resumed(self, follower: Follower) -> AgentProcess:
        """Answer the questions of a process, and return the process. Raises `RunRefused`."""
        caller, resume = self.call.caller, self.given.resume or ()
        ids = [each.interrupt_id.partition(_BETWEEN) for each in resume]
        found = {process_id for process_id, _, _ in ids}
        process = await process_of(self.publisher.platform, found.pop(), caller) if len(found) == 1 else None
        if process is None or {*process.goals} != {*self._tool.goals}:
            raise RunRefused("unknown-interrupt", _NOTHING_WAITS)
        entries = [
            each.model_copy(update={"interrupt_id": question_id})
            for each, (_, _, question_id) in zip(resume, ids, strict=True)
        ]
        read = answers(process, entries)
        process.subscribe(follower)
        for each in read:
            await answer_question(self.publisher, caller, each.question, each.response, declined=each.declined)
        return process

    def _final_events(self, process: AgentProcess, outcome: Outcome) -> Iterator[ag.BaseEvent]:
        policy, text, result = self._tool.policy, "", None
        if questions := process.open_questions:
            yield from self.state.snapshot(questions=[question_view(each) for each in questions])
            interrupts = [interrupt_of(each, f"{process.id}{_BETWEEN}{each.id}") for each in questions]
            yield self.end(ag.RunFinishedInterruptOutcome(interrupts=interrupts))
            return
        try:
            why = reason_of(outcome, self._tool.tool.name)
            if isinstance(outcome, Completed):
                text = text_of(policy.output, policy.name, outcome.value)
                result = from_json(written_by(policy.output.json, policy.name, outcome.value))
        except ToolError as error:
            why = str(error)
        if why is not None:
            yield self.end(failure=why, code="no-result")
            return
        yield from self.run_events.of(MessageSent(f"{process.id}-result", text))
        yield from self.state.change(result=result)
        yield self.end(ag.RunFinishedSuccessOutcome(), result)


class ChatRun(_Run):
    """One run of a chatbot."""

    def __init__(self, chatbot: AgentProcessChatbot, given: ag.RunAgentInput, publisher: Publisher, call: Call) -> None:
        front_end, state = None, given.state
        if takes_front_end(publisher.platform, chatbot):
            if isinstance(state, dict):  # without the server's own part
                state = {name: each for name, each in cast("dict[str, Any]", state).items() if name != STATE}
            front_end = FrontEnd.of(
                [(each.description, each.value) for each in given.context or ()],
                [OfferedTool(each.name, each.description, json.dumps(_parameters(each))) for each in given.tools or ()],
                state=state,
                properties=given.forwarded_props,
            )
        super().__init__(given, publisher, call, () if front_end is None else front_end.tool_names)
        self._chatbot = chatbot
        self._context = () if front_end is None else (front_end,)
        self._answered = bool(given.resume)
        self._result: TurnResult | None = None

    async def events(self) -> AsyncGenerator[ag.BaseEvent]:
        """The events of the run after its `RunStartedEvent`. Raises `RunRefused`, `BadInput`, `StoreError`."""
        instructing = (each for each in self.given.messages if isinstance(each, ag.SystemMessage | ag.DeveloperMessage))
        system = "\n\n".join(each.content for each in instructing)
        session = await self._chatbot.open_thread(self.given.thread_id, self.call.caller, system_message=system)
        for each in self.state.snapshot(conversation=_view(session), plan=None, questions=[]):
            yield each
        # The turns of the run, one after another: for the answers, and for the new message.
        for begin in (self._resumed, self._message_turn):
            if self._result is not None and (self._result.failure or self._result.questions):
                break
            if (turn := await begin(session)) is None:
                continue
            for each in self.state.change(conversation=_view(session)):
                yield each
            try:
                async with aclosing(turn.events()) as events:
                    async for event in events:
                        for each in self.run_events.of(event):
                            yield each
            finally:
                if not turn.over:
                    on_client_disconnect(turn, self._chatbot.mark)
            self._result = await turn.result()
            note_turn(self.call, self._result)
        for each in (*self.run_events.close(), *self._final_events(session)):
            yield each

    async def _resumed(self, session: ChatSession) -> Turn | None:
        """Begin a turn with the answers of the run; None if it has none."""
        turn, resume, given, process = None, self.given.resume, self.given.messages, session.last_seen
        if resume and process is None:
            raise RunRefused("unknown-interrupt", _NOTHING_WAITS)
        read = [*answers(process, resume)] if process and resume else []
        results = {each.tool_call_id: each for each in given if isinstance(each, ag.ToolMessage)}
        for each in process.open_questions if process else ():
            if not isinstance(each.wait, FrontEndCall):
                continue
            if (result := results.get(each.id)) is not None:
                parts = result.content
                text = parts if isinstance(parts, str) else json.dumps([part.model_dump(mode="json") for part in parts])
                read.append(Answer(each, f"It failed: {result.error}" if result.error else text))
            elif given and isinstance(given[-1], ag.UserMessage):  # a new message declines the call
                read.append(Answer(each, declined="It went on without a result."))
        for each in read:
            answer = partial(answer_in_session, self.publisher, self.call.caller, session, each.question)
            turn = await self._begun(partial(answer, each.response, declined=each.declined))
            self._answered = True
        return turn

    async def _message_turn(self, session: ChatSession) -> Turn | None:
        """Begin a turn with what is new, or return the running turn if nothing is; None if no turn runs."""
        new = find_request(session.conversation.entries, self.given.messages, self.given.state)
        if isinstance(new, NewMessage):
            if session.questions:
                waiting = ", ".join(each.id for each in session.questions)
                reason = (
                    f"The conversation waits for answers: {waiting}. Send them as `resume`, or cancel the interrupts"
                )
                raise RunRefused("open-interrupts", f"{reason} there, and then go on.")
            if self.given.resume:  # the run was admitted as a mere answer
                await self.publisher.limits.begin(self.call.caller)
            begin = partial(session.begin_turn, new.message, earlier=new.earlier, after=new.after)
            return await self._begun(partial(begin, context=self._context))
        running = await session.follow()
        if running is not None or new is None or session.questions or self._answered:
            return running
        return await self._begun(partial(session.regenerate, new.message_id, context=self._context))

    async def _begun(self, begin: Callable[[], Awaitable[Turn]]) -> Turn:
        """Begin a turn, even if the client disconnects meanwhile: every stored message reaches the chatbot."""
        turn: Turn | None = None
        with anyio.CancelScope(shield=True):
            turn = await counted_turn(self.publisher.limits, self.call, begin)
        assert turn is not None
        return turn

    def _final_events(self, session: ChatSession) -> Iterator[ag.BaseEvent]:
        result, sent, given = self._result, self.run_events, self.given
        questions = session.questions if result is None else result.questions
        members = {"conversation": _view(session), "questions": [question_view(each) for each in questions]}
        calls = [(each.id, each.wait) for each in questions if isinstance(each.wait, FrontEndCall)]
        for call_id, call in calls:
            yield from sent.call(call_id, call.tool, call.arguments)
        shown = [*given.messages, *sent.messages]
        whole = merged(shown, session.conversation.entries)
        there, here = [each.id for each in whole], [each.id for each in shown]
        # Whether the front end shows other messages than it should; without a turn, whether it lacks any.
        differ = there != here if result is not None else not {*there} <= {*here}
        if questions or sent.withdrawn or differ:
            yield ag.MessagesSnapshotEvent(messages=whole)
        interrupts = [interrupt_of(each) for each in questions if not isinstance(each.wait, FrontEndCall)]
        if interrupts:
            yield from self.state.snapshot(**members)
            yield self.end(ag.RunFinishedInterruptOutcome(interrupts=interrupts))
            return
        yield from self.state.change(**members)
        pending = [call_id for call_id, _ in calls]
        outcome = ag.RunFinishedSuccessOutcome(pending_tool_call_ids=pending or None)
        yield self.end(outcome, failure="" if result is None else result.failure, code="turn-failed")


def _view(session: ChatSession) -> dict[str, object]:
    """A conversation as the shared state shows it."""
    conversation = session.conversation
    entries = conversation.entries
    return {
        "id": conversation.id,
        "chatbot": conversation.record.chatbot,
        "title": conversation.title,
        "head": entries[-1].id if entries else "",
        "finished": conversation.record.finished,
    }


class RunHandlers:
    """The request handlers: run an agent, list the agents, show one."""

    def __init__(self, door: HttpDoor, streams: OpenStreams) -> None:
        self._door, self._streams = door, streams
        self._publisher = door.publisher

    async def run(self, request: Request) -> Response:
        """Begin a run, or go on with one, and stream its events. Raises `Problem`, `LimitReached` and `StoreError`."""
        agent, publisher, call = self._agent(request), self._publisher, call_of(request)
        given = read(ag.RunAgentInput, await body_of(request))
        if problems := [*self._problems(agent, given)]:
            raise invalid(problems, "\n".join(problems))
        call.arguments, call.name = tuple(sorted(given.model_fields_set)), str(request.path_params["name"])
        if isinstance(agent, GoalTool):
            run = GoalRun(agent, given, publisher, call)
        else:
            run = ChatRun(agent, given, publisher, call)
        async with AsyncExitStack() as place:
            place.enter_context(self._streams.one_of(current_caller()))
            await place.enter_async_context(admitted(publisher.limits, request, begins=not given.resume))
            return AnswerStream(self._serialized(run), publisher.settings.heartbeat_seconds, place.pop_all())

    async def list(self, request: Request) -> Response:
        """The agents that the caller may run, with their paths and capabilities."""
        path, found = request.url.path.rstrip("/"), self._agents()
        agents = [
            {"name": name, "path": f"{path}/{quote(name, safe='')}", "capabilities": self._capabilities(found[name])}
            for name in sorted(found)
        ]
        return JSONResponse({"protocolVersion": ag.PROTOCOL_VERSION, "agents": agents})

    async def show(self, request: Request) -> Response:
        """The AG-UI capabilities of a chatbot or goal."""
        return JSONResponse(self._capabilities(self._agent(request)))

    def _agents(self) -> Mapping[str, Agent]:
        """The chatbots and goals that the caller may use, by name; a chatbot hides a goal of the same name."""
        platform, caller, tools = self._publisher.platform, current_caller(), self._door.access.publication.tools
        goals: dict[str, Agent] = {name: each for name, each in tools.items() if isinstance(each, GoalTool)}
        return goals | {name: each for name, each in platform.chatbots.items() if platform.may_chat(caller, each)}

    def _agent(self, request: Request) -> Agent:
        """The chatbot or goal in the path. Raises `Problem` if there is none that the caller may use."""
        name, agents = str(request.path_params["name"]), self._agents()
        if name in agents:
            return agents[name]
        access, publication = self._door.access, self._publisher.publication
        if (chatbot := self._publisher.platform.chatbots.get(name)) is not None:
            self._door.require(access.of_chatbot(chatbot.mark))
        if isinstance(publication.tools.get(name), GoalTool):
            self._door.require(publication.scopes.tools[name])
        reason = str(UnknownName("chatbot or goal", name[:100], agents))
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-agent", reason)

    def _problems(self, agent: Agent, given: ag.RunAgentInput) -> Iterator[str]:
        """What is wrong or not supported in a request, in lines."""
        for name, value in (("threadId", given.thread_id), ("runId", given.run_id)):
            if not 0 < len(value) <= _LONGEST_ID:
                yield f"{name}: should have 1 to {_LONGEST_ID} characters; came {len(value)}"
        if given.tools and not takes_front_end(self._publisher.platform, agent):
            names = listed(sorted({each.name for each in given.tools}))
            yield f"tools: tools of a front end are not called here; leave out {names}"
            return
        for place, each in enumerate(given.tools or ()):
            schema = _parameters(each)
            fault = schema_fault(cast("Schema", schema)) if isinstance(schema, dict) else "it is no object"
            if fault:
                yield f"tools[{place}].parameters: should be a JSON Schema: {fault}"
            if not each.name.strip():
                yield f"tools[{place}].name: should not be empty"

    def _capabilities(self, agent: Agent) -> object:
        """The capabilities of an agent as JSON; for a goal with the JSON Schemas of its input and result."""
        is_goal = isinstance(agent, GoalTool)
        if is_goal:
            tool = agent.tool
            of_it = ag.IdentityCapabilities(
                name=tool.name, type=_FRAMEWORK, description=tool.description, version=agent.agent.version
            )
            schemas = {"inputSchema": tool.input_schema, "outputSchema": agent.policy.output.value_schema}
            more: dict[str, Any] = {"output": ag.OutputCapabilities(structured_output=True), "custom": schemas}
        else:
            of_it = ag.IdentityCapabilities(name=agent.name, type=_FRAMEWORK, description=agent.description)
            seen = ag.MultimodalInputCapabilities(image=True, audio=False, video=False, pdf=False, file=False)
            reasoning = ag.ReasoningCapabilities(supported=True, streaming=True, encrypted=False)
            more = {"multimodal": ag.MultimodalCapabilities(input=seen), "reasoning": reasoning}
        calls_tools = takes_front_end(self._publisher.platform, agent)
        return ag.AgentCapabilities(
            identity=of_it,
            transport=ag.TransportCapabilities(streaming=True, websocket=False, http_binary=False, resumable=False),
            tools=ag.ToolsCapabilities(supported=True, client_provided=calls_tools),
            state=ag.StateCapabilities(snapshots=True, deltas=True, memory=not is_goal, persistent_state=False),
            human_in_the_loop=ag.HumanInTheLoopCapabilities(supported=True, approvals=True, interrupts=True),
            **more,
        ).model_dump(mode="json", by_alias=True)

    async def _serialized(self, run: ChatRun | GoalRun) -> AsyncGenerator[ServerSentEvent]:
        """The events of a run, serialized; an error is the last one."""
        given, call = run.given, run.call

        def sent(event: ag.BaseEvent) -> ServerSentEvent:
            return ServerSentEvent(hide_known(event.model_dump_json(by_alias=True)), sep="\n")

        last: ag.BaseEvent = ag.RunStartedEvent(
            thread_id=given.thread_id,
            run_id=given.run_id,
            parent_run_id=given.parent_run_id,
            protocol_version=ag.PROTOCOL_VERSION,
        )
        yield sent(last)
        try:
            async with aclosing(run.events()) as events:
                async for last in events:
                    yield sent(last)
            if isinstance(last, ag.RunErrorEvent) and call.process is None:
                call.status = "failed"
            return
        except RunRefused as refused:
            code, message = refused.code, cleaned(hide_known(str(refused)))
        except tuple(_CODES) as mistake:
            code = next(code for kind, code in _CODES.items() if isinstance(mistake, kind))
            message = cleaned(hide_known(str(mistake)))
        except (HandedOver, StoreError, Unreadable) as trouble:
            code, message = "unavailable", cleaned(hide_known(unavailable_words(trouble)))
        except Exception as bug:
            code = "bug"
            message = logged(f"A run of {call.name}", bug, tells_errors=self._publisher.settings.show_errors)
        call.status = "error" if code == "bug" else "refused"
        yield sent(ag.RunErrorEvent(message=message, code=code))
