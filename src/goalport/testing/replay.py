"""Runs the agent of a recorded process again, with what its models replied, its tools returned and people answered.

A recording is what `goalport export ID` writes of a process that ran with the setting `keep_journals`. The agent's own
code runs for real: only models, recorded calls of tools and people are replaced. User guide, section 3.26.
"""

import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from goalport.base.errors import AlreadyAnswered, BadInput, GoalportError
from goalport.base.events import ActionStarted, Event
from goalport.models.llm import (
    LanguageModel,
    LlmOptions,
    ModelCall,
    ModelCard,
    ModelReply,
    Models,
    TextDelta,
    ThinkingDelta,
)
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    ActionInvocation,
    AgentProcess,
    ProcessOptions,
    ProcessState,
    Waiting,
)
from goalport.runtime.process.action_progress import Step, fingerprint_of_model_call
from goalport.store import Codec, Json, LeftOut, QuestionRecord, StoredProcess, StoredTypes, decoded, imported
from goalport.testing.scripted import pieces_of
from goalport.tools import Tool, ToolGroup, ToolResult


@dataclass(frozen=True)
class Replay:
    """A recorded process that ran again."""

    process: AgentProcess
    """The new process, at its end or where it waits for an answer that was not recorded."""
    changes: tuple[str, ...]
    """What went another way than it was recorded, in sentences: other requests of models, other calls of tools, other
    actions. Empty: all went the same way."""


class Recording:
    """A process that was exported, with all that it started: `Recording.read("trip.json")`.

    Raises `BadInput` for what is no export, or one of a process that ran without `keep_journals`; `Unreadable` if
    today's classes cannot take its objects.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        types = StoredTypes()
        family = [decoded(each, Codec(types, seal=LeftOut())) for each in imported(data)]
        self._members = {each.process.id: _Member(each) for each in family}
        self._root = self._members[family[0].process.root]
        options = cast("Mapping[str, Json]", self._root.stored.process.definition)["options"]
        self._options = cast("ProcessOptions", Codec(types).decode(options))
        if self._root.state.given is None or not self._root.stored.whole:
            raise BadInput(
                f"Process {self._root.stored.process.id} was recorded without what is needed to run it again. Set"
                " `keep_journals = true`, run it once more, and export that process."
            )

    @classmethod
    def read(cls, path: Path | str) -> "Recording":
        """The recording in a file."""
        return cls(json.loads(Path(path).read_text(encoding="utf-8")))

    @property
    def inputs(self) -> tuple[object, ...]:
        """The objects with which the process began, without those that have names."""
        given = dict(self._root.state.given or {})
        count = given.pop("")
        return tuple(self._root.objects[number] for number in range(count) if number not in given.values())

    @property
    def bindings(self) -> Mapping[str, object]:
        """The objects with names with which the process began."""
        return {name: self._root.objects[number] for name, number in (self._root.state.given or {}).items() if name}

    @property
    def result(self) -> object | None:
        """The result that the process reached; None: it reached none."""
        number = self._root.stored.process.result
        return None if number is None else self._root.objects[number]

    async def replay(self, *agents: object, exact: bool = False, **settings: Any) -> Replay:
        """Run the process again with today's agents; `settings` are those of `AgentPlatform`.

        A request of a model gets the reply to the same request; if it has changed, the next reply in the same action.
        Raises `AssertionError` if there is none, and with `exact` also if anything went another way.
        """
        run = _Run(self._members)
        settings = {**settings, "models": _RecordedModels(run), "keep_journals": True}
        known = list[ToolGroup](settings.pop("tool_groups", ()))
        missing = _missing_groups(AgentPlatform(agents, tool_groups=known, **settings), self._members.values())
        async with AgentPlatform(agents, tool_groups=[*known, *missing], **settings) as platform:
            platform.subscribe(run)
            process = platform.create_agent_process(
                self._root.stored.process.agent,
                *self.inputs,
                bindings=self.bindings,
                goals=self._root.state.goals,
                options=self._options,
                caller=self._root.stored.process.caller,
            )
            run.follow(process, self._root)
            platform.processes.begin(process)
            await _to_the_end(platform, process, run)
            changes = tuple(run.changes(process))
        if run.lacking:
            raise AssertionError(run.lacking)
        if exact and changes:
            raise AssertionError("\n".join(("Expected the process to go the recorded way, but:", *changes)))
        return Replay(process, changes)


class _Member:
    """A process of the recording."""

    def __init__(self, stored: StoredProcess) -> None:
        self.stored = stored
        self.state = cast("ProcessState", stored.process.state)
        self.objects = {each.number: each.value for each in stored.objects}
        self.history = cast("list[ActionInvocation]", list(stored.history))

    def steps(self, action: str, run: int) -> list[Step]:
        """What an action did when it ran for the n-th time, from 0; the last run may not be over."""
        over = [each.steps for each in self.history if each.action == action]
        if run < len(over):
            return list(over[run])
        return [Step(each.kind, each.name, each.value) for each in self.stored.journal if each.action == action]


@dataclass
class _Replies:
    """The recorded replies of models to one run of an action."""

    left: list[tuple[str, ModelReply]]
    """Each with the hash of its request."""


@dataclass
class _Run:
    """What was recorded, beside what happens now. It listens to the events of the new processes."""

    members: Mapping[str, _Member]
    lacking: str = ""
    """Why a model could not reply."""
    _followed: dict[str, tuple[AgentProcess, _Member | None]] = field(
        default_factory=dict[str, tuple[AgentProcess, "_Member | None"]]
    )
    _keys: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    _replies: dict[str, _Replies] = field(default_factory=dict[str, _Replies])
    _changed: list[str] = field(default_factory=list[str])

    def follow(self, process: AgentProcess, member: "_Member | None") -> None:
        """Note which recorded process a new one repeats."""
        self._followed[process.id] = process, member

    def member_of(self, process: AgentProcess) -> "_Member | None":
        """The recorded process that a new one repeats; None: there was none."""
        if process.id not in self._followed:
            parent = process.parent
            above = None if parent is None else self.member_of(parent)
            found: _Member | None = None
            if parent is not None and above is not None:
                alike = [
                    each
                    for each in self.members.values()
                    if each.stored.process.parent == above.stored.process.id
                    and each.state.started_by == process.started_by
                    and each.stored.process.agent == process.agent.name
                ]
                place = [each for each in parent.children if each.started_by == process.started_by].index(process)
                found = alike[place] if place < len(alike) else None
            self.follow(process, found)
        return self._followed[process.id][1]

    def on_event(self, event: Event, /) -> None:
        """Give an action that begins what its tools returned when it was recorded."""
        if not isinstance(event, ActionStarted):
            return
        process = next(each for each in self._root().family if each.id == event.process_id)
        member, journal = self.member_of(process), process.progress.journals[event.action]
        keys = self._keys.setdefault((process.id, event.action), [])
        if journal.key in keys:
            return
        steps = [] if member is None else member.steps(event.action, len(keys))
        keys.append(journal.key)
        self._replies[journal.key] = _Replies(
            [(_hash_in(each.name), cast("ModelReply", each.value)) for each in steps if each.kind == "reply"]
        )
        for each in steps:
            if each.kind == "result":
                journal.results[_renamed(each.name, journal.key)] = cast("ToolResult", each.value)

    def _root(self) -> AgentProcess:
        return next(iter(self._followed.values()))[0]

    def reply(self, call: ModelCall) -> ModelReply:
        """The recorded reply to a request. Raises `AssertionError` if there is none."""
        try:
            context = ActionContext.current()
        except GoalportError:
            return self._refuse("A model was asked outside of actions, as in a condition, which is not recorded.")
        replies = self._replies[context.journal.key].left
        wanted = fingerprint_of_model_call("", call).removeprefix("-")
        place = next((place for place, (known, _) in enumerate(replies) if known == wanted), None)
        if place is None and not replies:
            return self._refuse(f"{context.action} asked a model once more than was recorded: {_prompt(call)}")
        if place is None:
            self._changed.append(f"{context.action} asked a model for something else: {_prompt(call)}")
        return replies.pop(place or 0)[1]

    def _refuse(self, why: str) -> ModelReply:
        self.lacking = self.lacking or why
        raise AssertionError(why)

    def changes(self, root: AgentProcess) -> Iterator[str]:
        """What went another way, in sentences."""
        yield from self._changed
        for process, member in self._followed.values():
            if member is None:
                yield f"A process of {process.agent.name} was started that was not recorded."
                continue
            before, now = [each.action for each in member.history], [each.action for each in process.history]
            if before != now:
                yield f"{process.agent.name} ran {', '.join(now)}; recorded is {', '.join(before)}."
            for each in process.history:
                yield from self._calls(process, each, member)
        for key, replies in self._replies.items():
            if replies.left:
                yield f"{len(replies.left)} recorded replies of models were not asked for in {key}."
        if str(root.status) != self.members[next(iter(self.members))].stored.process.status:
            yield f"The process is {root.status}."

    def _calls(self, process: AgentProcess, invocation: ActionInvocation, member: "_Member") -> Iterator[str]:
        names = Counter(_tool_in(each.name) for each in invocation.steps if each.kind == "result")
        recorded = Counter(
            _tool_in(step.name)
            for each in member.history
            if each.action == invocation.action
            for step in each.steps
            if step.kind == "result"
        )
        for name in names - recorded:
            yield f"{invocation.action} called the tool {name} in a way that was not recorded: it was called for real."

    def answers(self, process: AgentProcess) -> Iterator[tuple[str, object, str]]:
        """The answers to the open questions of a family: the id of each, the answer, and the reason of a no."""
        for each, member in list(self._followed.values()):
            recorded: Sequence[QuestionRecord] = () if member is None else member.stored.questions
            for question, record in zip(each.questions, recorded, strict=False):
                if question.status == "open" and record.status in {"answered", "declined", "expired"}:
                    yield question.id, record.answer, record.reason or ("no" if record.status != "answered" else "")


class _RecordedModels(Models):
    """Models of any name, which give the recorded replies."""

    def __init__(self, run: _Run) -> None:
        super().__init__(environment={})
        self._run = run

    def choose(self, options: LlmOptions) -> LanguageModel:
        """A model with the name or the role in the options."""
        name = options.model or options.role or next(iter(options.first_of), "recorded")
        provider, _, short = name.rpartition(":")
        return _RecordedModel(ModelCard(name=short, provider=provider or "recorded"), self._run)

    def unready(self, name: str) -> str:
        """The empty text: every model is ready."""
        return ""


@dataclass(frozen=True, slots=True)
class _RecordedModel:
    card: ModelCard
    run: _Run

    async def reply(self, call: ModelCall, /) -> ModelReply:
        return self.run.reply(call)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        reply = self.run.reply(call)
        for piece in pieces_of(reply, call, reply):
            if isinstance(piece, BaseException):
                raise piece
            yield piece


async def _to_the_end(platform: AgentPlatform, process: AgentProcess, run: _Run) -> None:
    """Wait for the process, and answer what was answered."""
    while isinstance(await process.wait(), Waiting):
        answers = list(run.answers(process))
        if not answers:
            return
        for question, response, declined in answers:
            try:
                await platform.answer(process.id, question, response, declined=declined)
            except AlreadyAnswered:
                continue


def _missing_groups(platform: AgentPlatform, members: Iterable[_Member]) -> Iterator[ToolGroup]:
    """Groups that no server provides here, with the tools whose calls were recorded."""
    held = (*platform.agents, *platform.agents.components)
    roles = dict.fromkeys(role for agent in held for action in agent.actions for role in action.roles)
    names = sorted(
        {
            _tool_in(step.name)
            for member in members
            for invocation in member.history
            for step in invocation.steps
            if step.kind == "result"
        }
    )
    for role in roles:
        if platform.groups.find(role) is None:
            yield ToolGroup(role, tuple(_stand_in(name) for name in names))


def _stand_in(name: str) -> Tool:
    async def call(arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult.of_error(f"The call of {name} with {dict(arguments)!r} was not recorded.")

    return Tool(name, "A tool whose calls were recorded", {"type": "object"}, call)


def _hash_in(name: str) -> str:
    """The hash of the request in the name of a reply, without the model."""
    return name.rpartition("#")[0].rpartition("-")[2]


def _tool_in(name: str) -> str:
    """The tool in the name of a result."""
    return name.rpartition("#")[0].rpartition("/tool:")[2].rpartition("-")[0]


def _renamed(name: str, key: str) -> str:
    """The name of a step in the journal of another process; it begins with the key of its journal."""
    return f"{key}/{name.partition('/')[2]}"


def _prompt(call: ModelCall) -> str:
    last = call.messages[-1].content if call.messages else ""
    return f"{last[:300]!r}"
