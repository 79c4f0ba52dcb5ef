"""The records of goalport itself in a store: their names, and the rows that earlier versions and this one write."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import cast

import pytest

from goalport.base.errors import Unreadable, Unstorable
from goalport.models.llm import TokenUsage
from goalport.runtime.process import Killed, ProcessState
from goalport.runtime.process.action_progress import ActionInvocation, ActionProgressState, Failure, Step
from goalport.runtime.process.ledger import Spending, TurnStart
from goalport.runtime.process.recording import Ranges
from goalport.store import Codec, StoredTypes, TypeNames
from tests.rooms.store import toys

OWN_ROWS = [
    (
        Spending("p-1", "A.a", "m", TokenUsage(input_tokens=2, cost=0.5), 1.0, datetime(2026, 1, 2, tzinfo=UTC)),
        """{"goalport.process.ledger:Spending": {"process_id": "p-1", "action": "A.a", "model": "m", "seconds": 1.0,
        "usage": {"goalport.llm.model:TokenUsage": {"input_tokens": 2, "output_tokens": 0, "cache_read_tokens": 0,
        "cost": 0.5}}, "at": {"$datetime": ["2026-01-02T00:00:00", "UTC"]}}}""",
        """{"goalport.process.ledger:Spending@2": {"process_id": "p-1", "action": "A.a", "model": "m", "seconds": 1.0,
        "usage": {"input_tokens": 2, "cost": 0.5}, "at": "2026-01-02T00:00:00Z"}}""",
    ),
    (
        ActionInvocation(
            "A.a", datetime(2026, 1, 2, tzinfo=UTC), 1.5, "failed", "no", steps=(Step("result", "p:1", toys.Frozen(1)),)
        ),
        """{"goalport.process.action_progress:ActionInvocation": {"action": "A.a", "attempts": 1, "error": "no",
        "missing_tools": {"$tuple": []}, "seconds": 1.5, "status": "failed", "usage": {"goalport.llm.model:TokenUsage":
        {"cache_read_tokens": 0, "cost": 0.0, "input_tokens": 0, "output_tokens": 0}}, "steps": {"$tuple": [
        {"goalport.process.journal:Step": {"kind": "result", "name": "p:1", "value": {"tests.rooms.store.toys:Frozen":
        {"tags": {"$ref": 1}, "value": 1}}}}]}, "started_at": {"$datetime": ["2026-01-02T00:00:00", "UTC"]}}}""",
        """{"goalport.process.action_progress:ActionInvocation@2": {"action": "A.a", "error": "no", "seconds": 1.5,
        "status": "failed", "started_at": "2026-01-02T00:00:00Z", "steps": {"$tuple": [{"goalport.process.journal:Step":
        {"kind": "result", "name": "p:1", "value": {"tests.rooms.store.toys:Frozen": {"tags": {"$tuple": []},
        "value": 1}}}}]}}}""",
    ),
    (
        ProcessState(
            ("A.a",), "A.a", ("A.b",), "", stepped=True, outcome=Killed("by hand"), end_requested=None,
            failure=Failure("no", at=datetime(2026, 1, 2, tzinfo=UTC)),
            progress=ActionProgressState(frozenset({"A.b"}), {}, {}, {}, frozenset(), {"A.a": 1}, 2, -1),
            hidden=Ranges(((0, 1),)), turn_start=TurnStart(1, TokenUsage(), 0.5),
        ),
        """{"goalport.process.persistence:ProcessState": {"goals": {"$tuple": ["A.a"]}, "goal": "A.a",
        "plan": {"$tuple": ["A.b"]}, "started_by": "", "stepped": true, "end_requested": null,
        "outcome": {"goalport.process.lifecycle:Killed": {"reason": "by hand"}}, "failure":
        {"goalport.process.action_progress:Failure": {"reason": "no", "action": "",
        "at": {"$datetime": ["2026-01-02T00:00:00", "UTC"]}}},
        "hidden": {"goalport.process.persistence:Ranges": {"ranges": {"$tuple": [{"$tuple": [0, 1]}]}}}, "progress": {
        "goalport.process.action_progress:ActionProgressState":
        {"begun": 2, "declined": {"$dict": []}, "has_run": {"$frozenset": ["A.b"]}, "left_out": {"$dict": []},
        "numbers": {"$dict": ["A.a", 1]}, "paused_after": -1, "skipped": {"$frozenset": []}, "waits": {"$dict": []}}},
        "turn_start": {"goalport.process.ledger:TurnStart": {"actions": 1, "seconds": 0.5, "told": {"$tuple": []},
        "usage": {"goalport.llm.model:TokenUsage": {"cache_read_tokens": 0, "cost": 0.0, "input_tokens": 0,
        "output_tokens": 0}}}}}}""",
        """{"goalport.process.persistence:ProcessState@2": {"goals": ["A.a"], "goal": "A.a", "plan": ["A.b"],
        "started_by": "", "stepped": true, "outcome": {"goalport.process.lifecycle:Killed": {"reason": "by hand"}},
        "end_requested": null, "failure": {"goalport.process.action_progress:Failure": {"reason": "no", "action": "",
        "at": {"$datetime": ["2026-01-02T00:00:00", "UTC"]}}}, "hidden": [[[0, 1]]], "progress": {"begun": 2,
        "declined": {}, "has_run": ["A.b"], "left_out": {}, "numbers": {"A.a": 1}, "paused_after": -1, "skipped": [],
        "waits": {}}, "turn_start": [1, {}, 0.5, []]}}""",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("record", "earlier", "now"), OWN_ROWS, ids=lambda each: type(each).__name__)
def test_records_of_goalport_are_read_as_earlier_versions_and_as_this_one_writes_them(
    record: object, earlier: str, now: str
) -> None:
    for each in (earlier, now):
        assert Codec(StoredTypes()).decode(json.loads(each)) == record
    assert Codec(StoredTypes()).encode(record) == json.loads(now)


def test_a_record_that_holds_what_it_does_not_declare_is_written_and_refused_field_by_field() -> None:
    odd = ActionInvocation("A.a", datetime(2026, 1, 2, tzinfo=UTC), 1.5, "failed", error=cast("str", ("no", "more")))
    data = Codec(StoredTypes()).encode(odd)
    assert list(data) == ["goalport.process.action_progress:ActionInvocation"]
    assert Codec(StoredTypes()).decode(json.loads(json.dumps(data))) == odd
    live = replace(odd, error=None, steps=(Step("result", "p:1", toys.Client()),))
    with pytest.raises(Unstorable, match=r"ActionInvocation\.steps\[0\]\.value \(a Client\) cannot be stored"):
        Codec(StoredTypes()).encode(live)
    row = '{"goalport.process.ledger:Spending@2": {"process_id": "p-1", "action": "", "model": "", "usage": []}}'
    with pytest.raises(Unreadable, match=r"Spending cannot be read from the store: usage: should be"):
        Codec(StoredTypes()).decode(json.loads(row))


OWN = """
    goalport.autonomy.choice:Achieved
    goalport.caller:Caller
    goalport.chat:Conversation
    goalport.domain.planner_type:PlannerType
    goalport.domain.values:UserInput
    goalport.domain.wait_for:Choice
    goalport.domain.wait_for:Confirmation
    goalport.domain.wait_for:FormSubmission
    goalport.domain.wait_for:Option
    goalport.domain.wait_for:TextInput
    goalport.domain.wait_for:UrlVisit
    goalport.domain.wait_for:VisitedUrl
    goalport.domain.wait_for:WaitFor
    goalport.llm.messages:AssistantMessage
    goalport.llm.messages:Image
    goalport.llm.messages:ToolCall
    goalport.llm.messages:UserMessage
    goalport.llm.model:ModelReply
    goalport.llm.model:TokenUsage
    goalport.platform.kept_results:KeptResult
    goalport.platform.tool_agents:ToolCall
    goalport.process.action_progress:ActionInvocation
    goalport.process.action_progress:ActionProgressState
    goalport.process.action_progress:Failure
    goalport.process.journal:Step
    goalport.process.ledger:Budget
    goalport.process.ledger:Spending
    goalport.process.ledger:TurnStart
    goalport.process.lifecycle:Completed
    goalport.process.lifecycle:Failed
    goalport.process.lifecycle:Killed
    goalport.process.lifecycle:Stuck
    goalport.process.lifecycle:Terminated
    goalport.process.lifecycle:Waiting
    goalport.process.persistence:ProcessState
    goalport.process.persistence:Ranges
    goalport.process.process_options:Delay
    goalport.process.process_options:ProcessOptions
    goalport.process.process_options:Verbosity
    goalport.tools.results:ToolResult
    goalport.workflow.history:Attempt
    goalport.workflow.history:Feedback
    goalport.workflow.history:History
    goalport.workflow.scatter_gather:BranchFailure
    goalport.workflow.scatter_gather:Gathered
"""
"""The names of goalport's own classes in what is stored. A change of one makes all that holds it unreadable."""


@pytest.mark.parametrize("name", OWN.split())
def test_own_classes_keep_the_names_under_which_they_were_stored(name: str) -> None:
    for each in ("runtime.chat", "runtime.platform.agent_platform", "runtime.workflow.scatter_gather"):
        import_module(f"goalport.{each}")
    names = TypeNames()
    found = names.find(name)
    assert (found.__name__, names.name_of(found)) == (name.rpartition(":")[2], name)
