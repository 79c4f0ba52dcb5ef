"""Fakes for a unit test of one action: an `Ai` that gives prepared responses, and a context with a real, idle process.

No models, tools or guards are involved. `goalport.testing.models` scripts only the model, so that all the rest runs for
real. User guide, section 3.26.1.
"""

import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from anyio import CapacityLimiter

from goalport.agents.blackboard import DEFAULT_BINDING, Typed, matcher
from goalport.agents.domain import Agent, RetryPolicy, WaitFor, parts_of, read_agent
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.events import Event
from goalport.base.observe import RateLimitedLog
from goalport.base.words import with_article
from goalport.knowledge.references import LlmReference, NamedReferences, Reference
from goalport.models.llm import AssistantMessage, TextDelta, ThinkingDelta, UserMessage
from goalport.models.prompts import PromptContributor, Templates, Text
from goalport.runtime.ai import Ai, Engine, Interaction, Operation, Request, StreamedObject
from goalport.runtime.process import (
    SERVICE_TYPES,
    ActionContext,
    AgentProcess,
    ProcessOptions,
    ProcessPlatform,
    ProcessStatus,
    Scope,
    agent_tool,
)
from goalport.runtime.process.execution import fill, missing
from goalport.runtime.process.scope import inferred_type, inputs_of
from goalport.testing.models import LlmInvocation, checked_response
from goalport.tools import Tool, ToolGroup, ToolGroupResolver

T = TypeVar("T")
_THREADS: Final = 40
Piece = TextDelta | ThinkingDelta | StreamedObject[object]


@dataclass(frozen=True, slots=True)
class _Stream:
    """A response to a streamed request; other requests cannot use it."""

    pieces: tuple[object, ...]


class _AnyReferences(NamedReferences):
    """References of every name: a unit test has no workspace in which they are."""

    def reference(self, name: str) -> LlmReference:
        return Reference(name, "A reference of the workspace")

    def contributor(self, name: str) -> PromptContributor:
        return Text(f"The contributor {name!r} of the workspace")


class FakeEngine:
    """`engine = FakeEngine("Hello")`, and `engine.ai` is an `Ai` whose first response is "Hello".

    `responses` are returned in order, whatever is asked; see `expect_response`. `Ai.with_template` finds its templates
    in `templates`.
    """

    def __init__(self, *responses: object, templates: Templates | None = None) -> None:
        self.llm_invocations: list[LlmInvocation] = []
        """The requests, the newest last."""
        self._responses = deque(responses)
        self.templates = templates or Templates()
        self.ai = Ai(self)
        """An `Ai` with default settings that this engine answers."""

    @property
    def unused_responses(self) -> tuple[object, ...]:
        """The responses that were not used yet; of a stream, its pieces."""
        return tuple(each.pieces if isinstance(each, _Stream) else each for each in self._responses)

    def expect_response(self, *responses: object) -> None:
        """Add responses, one for each request.

        An object of the requested type; a text for `generate_text` and `respond`; None where the model may
        decline; a yes or no, or a `Determination`, for a condition; a vector for each text to embed; an exception,
        which is raised.
        """
        self._responses.extend(responses)

    def expect_stream(self, *pieces: object) -> None:
        """Add the response to a streamed request: texts, objects and `ThinkingDelta`s; an exception is raised."""
        self._responses.append(_Stream(pieces))

    def verify_responses_used(self) -> None:
        """Raises `AssertionError` when prepared responses were not used."""
        if self._responses:
            left = "\n".join(f"- {each!r}" for each in self.unused_responses)
            raise AssertionError(f"Expected all responses to be used, but nobody asked for these:\n{left}")

    async def run(self, request: Request, /) -> object:
        """The next response. Raises `AssertionError` when it does not fit the request, or there is none."""
        return checked_response(request, self._next(request))

    async def stream(self, request: Request, /) -> AsyncGenerator[Piece]:
        """The pieces of the next response; a response that is no stream comes in one piece."""
        found = self._next(request)
        for piece in found.pieces if isinstance(found, _Stream) else (found,):
            if isinstance(piece, BaseException):
                raise piece
            if isinstance(piece, ThinkingDelta) or (isinstance(piece, TextDelta) and request.output is None):
                yield piece
            elif request.output is None:
                yield TextDelta(cast("str", checked_response(request, piece)))
            else:
                yield StreamedObject(checked_response(request, piece))

    async def embed(self, interaction: Interaction, texts: Sequence[str], /) -> list[list[float]]:
        """The next response, which must contain a vector for each text."""
        if not texts:
            return []
        messages = tuple(map(UserMessage, texts))
        request = Request(interaction=interaction, messages=messages, output=list[list[float]], verb="embed")
        vectors = cast("list[list[float]]", await self.run(request))
        if len(vectors) != len(texts):
            asked = self.llm_invocations[-1]
            raise AssertionError(f"Expected {len(texts)} vectors to answer {asked}, but {len(vectors)} are next.")
        return vectors

    def subagent(self, agent: object, /) -> Tool:
        """The tool that runs an agent. Raises `DeclarationError` for one that is not clear."""
        return agent_tool(agent)

    def references(self) -> NamedReferences:
        """References that have a stand-in for every name."""
        return _AnyReferences()

    def take(self, asked: object) -> object:
        """The next response, for any request. Raises `AssertionError` when there is none."""
        if not self._responses:
            raise AssertionError(
                f"Expected a response for {asked}, but there is none left. Give one with `expect_response` before."
            )
        said = self._responses.popleft()
        if isinstance(said, BaseException):
            raise said
        return said

    def _next(self, request: Request) -> object:
        invocation = LlmInvocation(request)
        self.llm_invocations.append(invocation)
        return self.take(invocation)


@dataclass(frozen=True, slots=True)
class SubProcess:
    """A process that the code under test would have started."""

    agent: object
    kind: object
    """The type of the result that was asked for."""
    inputs: tuple[object, ...] = ()


class _Events(list[Event]):
    def on_event(self, event: Event, /) -> None:
        self.append(event)


class FakeOperationContext(ActionContext):
    """A context to call an action with: `await agent.craft_story(UserInput("…"), context)`; `context.ai` is its `Ai`.

    `objects` are on the blackboard. `tool_groups` are those that the action requires: the context has their tools, and
    its `Ai` offers them. `services` fill `Provided` parameters, and parameters of their types. Costs, progress and
    objects are in the process, as in a run. It can be created without an event loop. User guide, section 3.26.1.
    """

    def __init__(
        self,
        *objects: object,
        services: Iterable[object] = (),
        tool_groups: Iterable[ToolGroup] = (),
        templates: Templates | None = None,
        caller: Caller = ANONYMOUS,
    ) -> None:
        groups = tuple(tool_groups)
        self.engine = FakeEngine(templates=templates)
        """Holds the prepared responses."""
        self.llm_invocations = self.engine.llm_invocations
        """The requests to the `Ai`, the newest last."""
        self.events = _Events()
        """The events that the process has emitted."""
        self.sub_processes: list[SubProcess] = []
        """The calls of `as_sub_process`."""
        given = tuple(services)
        self._services = frozenset(kind for each in given for kind in type(each).__mro__[:-1])
        # A process of an agent without actions, in the state in which an action runs.
        scope = Scope(Agent("Test", "Stands in for the agent whose action is tested"))
        platform = _NoPlatform(given, self.engine)
        process = AgentProcess("test", scope, ProcessOptions(), caller, platform, ToolGroupResolver(groups))
        process.status, process.driven = ProcessStatus.RUNNING, True
        super().__init__(process, [tool for group in groups for tool in group.tools], "test")
        self.process.subscribe(self.events)
        for value in objects:
            self.blackboard.add(value)
            for part, declared in parts_of(Typed.value_of(value)):
                self.blackboard.declare(DEFAULT_BINDING, part, declared)
        self._ai = Ai(self.engine, Interaction(tool_groups=tuple(group.role for group in groups)))

    def expect_response(self, *responses: object) -> None:
        """Answer requests with these, in order; see `FakeEngine.expect_response`.

        They are also the results of `as_sub_process` and `run_subagent`, which start nothing, and the answers of
        people to `ask` and to the question whether a tool may be called.
        """
        self.engine.expect_response(*responses)

    def expect_stream(self, *pieces: object) -> None:
        """Answer a streamed request with these pieces; see `FakeEngine.expect_stream`."""
        self.engine.expect_stream(*pieces)

    def verify_responses_used(self) -> None:
        """Raises `AssertionError` when prepared responses were not used."""
        self.engine.verify_responses_used()

    async def perform(self, method: Callable[..., object]) -> object:
        """Call an action or condition as a run would: `await context.perform(agent.craft_story)`.

        Its parameters are filled from the blackboard, with services, and with this context and its `Ai`. Raises
        `DeclarationError` where a run would, and `AssertionError` when an object is missing.
        """
        agent = read_agent(getattr(method, "__self__", None), SERVICE_TYPES | self._services)
        declared = next((each for each in (*agent.actions, *agent.conditions) if each.function == method), None)
        if declared is None:
            raise AssertionError(f"Expected an action or a condition of {agent.name}, but came {method!r}. Mark it.")
        takes = tuple(inputs_of(declared.parameters))
        self.blackboard.infer_types_by(lambda binding, value: inferred_type(binding, value, takes, ()))
        if wanting := " and ".join(map(with_article, missing(declared.parameters, self.blackboard))):
            raise AssertionError(f"Expected {wanting} on the blackboard. Put it there: FakeOperationContext(…).")
        with self.active():
            return await self.call(declared.function, **await fill(declared.parameters, declared.owner, self))

    async def asked(self, name: str, wait: WaitFor[Any], /, *, approval: bool = False) -> Any:
        """The next response, as the person's answer; a `Declined` says no to a question that is not yes-or-no."""
        said = self.engine.take(wait)
        if not matcher(wait.response_type)(said):
            raise AssertionError(f"Expected an answer to {wait}, but the response is {said!r}.")
        return wait.accept(said)

    async def as_sub_process(self, kind: type[T], agent: object, *inputs: object) -> T:
        """The next response, which must be of type `kind`; the agent is not run, but recorded in `sub_processes`."""
        wanted = SubProcess(agent, kind, tuple(map(Typed.value_of, inputs)))
        self.sub_processes.append(wanted)
        said = self.engine.take(wanted)
        if not matcher(kind)(said):
            raise AssertionError(f"Expected {with_article(kind)} to answer {wanted}, but the response is {said!r}.")
        return cast("T", said)


class _NoPlatform(ProcessPlatform):
    """A platform that stores nothing, and starts and drives no process."""

    def __init__(self, services: Sequence[object], engine: Engine) -> None:
        self._services, self._engine = services, engine
        self._limiter = CapacityLimiter(_THREADS)
        self.retry, self.rate_limited_log, self.on_spending = RetryPolicy(), RateLimitedLog(), lambda _: None
        self.tells_errors, self.keep_journals, self.max_object_bytes, self.prepare = True, False, sys.maxsize, None

    @property
    def limiter(self) -> CapacityLimiter:
        return self._limiter

    def service(self, kind: type, /) -> object | None:
        return next((each for each in self._services if isinstance(each, kind)), None)

    def engine(self, operation: Operation, groups: ToolGroupResolver, /) -> Engine:
        return self._engine

    def start_child(self, *asked: object) -> AgentProcess:
        raise AssertionError(f"Expected no process to be started here, but one was: {asked!r}.")

    async def step(self, process: AgentProcess, /) -> None:
        raise AssertionError(f"Expected no step to be taken here, but one was: {process.id}.")

    async def send_message(
        self, process: AgentProcess, message_id: str, message: AssistantMessage, /
    ) -> AssistantMessage:
        return message
