"""Runs the agent of a recorded process again, with what its models replied, its tools returned and people answered.

A recording is what `goalport export ID` writes of a process that ran with the setting `keep_journals`. The agent's own
code runs for real: only models, recorded calls of tools and people are replaced. User guide, section 3.26.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from goalport.base.errors import AlreadyAnswered, BadInput, GoalportError
from goalport.base.events import ActionStarted, Event
from goalport.models.llm import ModelCall, ModelReply, TokenUsage
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
from goalport.testing.scripted import ModelsOfAnyName
from goalport.tools import Tool, ToolGroup, ToolResult


@dataclass(frozen=True)
class Replay:
    """A recorded process that ran again."""

    process: AgentProcess
    """The new process, at its end or where it waits for an answer that was not recorded."""
    changes: tuple[str, ...]
    """The differences from the recording, in sentences: other model requests, other calls of tools, other actions.
    Empty: there are none."""


class Recording:
    """An exported process, with all processes that it started: `Recording.read("trip.json")`.

    Raises `BadInput` if the data is no export, or its process ran without `keep_journals`, and `Unreadable` if its
    objects do not fit today's classes.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        types = StoredTypes()
        family = [decoded(each, Codec(types, seal=LeftOut())) for each in imported(data)]
        self._members = {each.process.id: _RecordedProcess(each) for each in family}
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
        """The objects that the process started with, except for the named ones in `bindings`."""
        given = dict(self._root.state.given or {})
        count = given.pop("")
        return tuple(self._root.objects[number] for number in range(count) if number not in given.values())

    @property
    def bindings(self) -> Mapping[str, object]:
        """The named objects that the process started with."""
        return {name: self._root.objects[number] for name, number in (self._root.state.given or {}).items() if name}

    @property
    def result(self) -> object | None:
        """The result that the process reached; None: it reached none."""
        number = self._root.stored.process.result
        return None if number is None else self._root.objects[number]

    async def replay(self, *agents: object, exact: bool = False, **settings: Any) -> Replay:
        """Run the process again with today's agents; `settings` are those of `AgentPlatform`.

        A model request gets the recorded reply to the same request or, if it has changed, the action's next reply.
        Raises `AssertionError` if no reply is left, and with `exact` also for any difference from the recording.
        """
        run = _Run(self._members)
        settings = {**settings, "models": run, "keep_journals": True}
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
            run.pairs[process.id] = process, self._root
            platform.processes.begin(process)
            while isinstance(await process.wait(), Waiting) and (answers := list(run.answers())):
                for question, response, declined in answers:
                    with suppress(AlreadyAnswered):
                        await platform.answer(process.id, question, response, declined=declined)
            changes = tuple(run.changes(process))
        if run.no_reply_reason:
            raise AssertionError(run.no_reply_reason)
        if exact and changes:
            raise AssertionError("\n".join(("Expected the process to go the recorded way, but:", *changes)))
        return Replay(process, changes)


class _RecordedProcess:
    """A process of the recording."""

    def __init__(self, stored: StoredProcess) -> None:
        self.stored = stored
        self.state = cast("ProcessState", stored.process.state)
        self.objects = {each.number: each.value for each in stored.objects}
        self.history = cast("list[ActionInvocation]", list(stored.history))

    def steps(self, action: str, run: int) -> list[Step]:
        """The recorded steps of an action's run; `run` counts from 0. The last run may be unfinished."""
        over = [each.steps for each in self.history if each.action == action]
        if run < len(over):
            return list(over[run])
        return [Step(each.kind, each.name, each.value) for each in self.stored.journal if each.action == action]


class _Run(ModelsOfAnyName):
    """One replay: the models give the recorded replies, and a listener pairs new processes with recorded ones."""

    def __init__(self, members: Mapping[str, _RecordedProcess]) -> None:
        super().__init__(TokenUsage())
        self.members = members
        self.no_reply_reason = ""
        """Why a model could not reply."""
        self.pairs: dict[str, tuple[AgentProcess, _RecordedProcess | None]] = {}
        """The new processes, each with the recorded one that it repeats."""
        self._keys: dict[tuple[str, str], list[str]] = {}
        self._replies: dict[str, list[tuple[str, ModelReply]]] = {}
        """By the journal key of an action: the unused replies, each after the hash of its request."""
        self._changed: list[str] = []

    def recorded_process(self, process: AgentProcess) -> "_RecordedProcess | None":
        """The recorded process that a new one repeats; None: there was none."""
        if process.id not in self.pairs:
            parent = process.parent
            above = None if parent is None else self.recorded_process(parent)
            found: _RecordedProcess | None = None
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
            self.pairs[process.id] = process, found
        return self.pairs[process.id][1]

    def on_event(self, event: Event, /) -> None:
        """When an action starts, put the recorded results of its tools into its journal."""
        if not isinstance(event, ActionStarted):
            return
        root = next(iter(self.pairs.values()))[0]
        process = next(each for each in root.family if each.id == event.process_id)
        member, journal = self.recorded_process(process), process.progress.journals[event.action]
        keys = self._keys.setdefault((process.id, event.action), [])
        if journal.key in keys:
            return
        steps = [] if member is None else member.steps(event.action, len(keys))
        keys.append(journal.key)
        replies = self._replies[journal.key] = []
        for each in steps:
            if each.kind == "reply":  # its name ends with the model, the hash of the request and a number
                wanted = each.name.rpartition("#")[0].rpartition("-")[2]
                replies.append((wanted, cast("ModelReply", each.value)))
            if each.kind == "result":  # its name begins with the key of its journal
                name = f"{journal.key}/{each.name.partition('/')[2]}"
                journal.results[name] = cast("ToolResult", each.value)

    def script(self, call: ModelCall) -> ModelReply:
        """The recorded reply to a request. Raises `AssertionError` if there is none."""
        try:
            context = ActionContext.current()
        except GoalportError:
            return self._refuse("A model was asked outside of actions, as in a condition, which is not recorded.")
        replies = self._replies[context.journal.key]
        asked = f"{call.messages[-1].content[:300]!r}" if call.messages else "''"
        wanted = fingerprint_of_model_call("", call).removeprefix("-")
        place = next((place for place, (known, _) in enumerate(replies) if known == wanted), None)
        if place is None and not replies:
            return self._refuse(f"{context.action} asked a model once more than was recorded: {asked}")
        if place is None:
            self._changed.append(f"{context.action} asked a model for something else: {asked}")
        return replies.pop(place or 0)[1]

    def _refuse(self, why: str) -> ModelReply:
        self.no_reply_reason = self.no_reply_reason or why
        raise AssertionError(why)

    def changes(self, root: AgentProcess) -> Iterator[str]:
        """The differences from the recording, in sentences."""
        yield from self._changed
        for process, member in self.pairs.values():
            if member is None:
                yield f"A process of {process.agent.name} was started that was not recorded."
                continue
            before, now = [each.action for each in member.history], [each.action for each in process.history]
            if before != now:
                yield f"{process.agent.name} ran {', '.join(now)}; recorded is {', '.join(before)}."
            for each in process.history:
                recorded = Counter(_tools_in(one for one in member.history if one.action == each.action))
                for name in Counter(_tools_in([each])) - recorded:
                    how = "in a way that was not recorded: it was called for real"
                    yield f"{each.action} called the tool {name} {how}."
        for key, replies in self._replies.items():
            if replies:
                yield f"{len(replies)} recorded replies of models were not asked for in {key}."
        if str(root.status) != self.members[next(iter(self.members))].stored.process.status:
            yield f"The process is {root.status}."

    def answers(self) -> Iterator[tuple[str, object, str]]:
        """Recorded answers to open questions: the question's id, the answer, and the reason if it was declined."""
        for each, member in list(self.pairs.values()):
            recorded: Sequence[QuestionRecord] = () if member is None else member.stored.questions
            for question, record in zip(each.questions, recorded, strict=False):
                if question.status == "open" and record.status in {"answered", "declined", "expired"}:
                    yield question.id, record.answer, record.reason or ("no" if record.status != "answered" else "")


def _missing_groups(platform: AgentPlatform, members: Iterable[_RecordedProcess]) -> Iterator[ToolGroup]:
    """The groups that agents require and no server provides here, with stand-ins for the recorded tools."""

    def stand_in(name: str) -> Tool:
        async def call(arguments: Mapping[str, object]) -> ToolResult:
            return ToolResult.of_error(f"The call of {name} with {dict(arguments)!r} was not recorded.")

        return Tool(name, "A tool whose calls were recorded", {"type": "object"}, call)

    held = (*platform.agents, *platform.agents.components)
    roles = dict.fromkeys(role for agent in held for action in agent.actions for role in action.roles)
    names = sorted({name for member in members for name in _tools_in(member.history)})
    for role in roles:
        if platform.groups.find(role) is None:
            yield ToolGroup(role, tuple(map(stand_in, names)))


def _tools_in(history: Iterable[ActionInvocation]) -> Iterator[str]:
    """The names of the tools whose results were recorded, taken from the names of these steps."""
    for step in (step for each in history for step in each.steps if step.kind == "result"):
        yield step.name.rpartition("#")[0].rpartition("/tool:")[2].rpartition("-")[0]
