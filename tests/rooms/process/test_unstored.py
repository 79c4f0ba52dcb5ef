"""That a process is kept in memory only is told once for each reason, in the log and as an event."""

import json
import logging

import pytest

from goalport import AgentPlatform, UserInput
from goalport.base.errors import StoreError, Unstorable
from goalport.base.events import Event, ProcessNotStored
from goalport.base.observe.log import LogListener, as_json
from goalport.runtime.process.recording import report_not_stored
from tests.rooms.process.test_persistence import Writer


class Heard(list[ProcessNotStored]):
    def on_event(self, event: Event, /) -> None:
        if isinstance(event, ProcessNotStored):
            self.append(event)


async def test_a_reason_is_told_once_until_the_process_was_stored(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    process = AgentPlatform([Writer()], listeners=[heard]).create_agent_process("Writer", UserInput("tale"))
    code, full = Unstorable("function", "code is not stored."), StoreError("here", "the disk is full.", "Make room.")
    for error in (code, code, full, full):
        report_not_stored(process, error)
    process.not_stored = ""
    report_not_stored(process, full)
    assert [each.reason for each in heard] == [str(code), str(full), str(full)]
    assert {each.process_id for each in heard} == {process.id}
    assert caplog.text.count("is kept in memory only") == 3


async def test_of_a_bug_the_log_has_the_traceback_and_listeners_hear_its_class_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard = Heard()
    process = AgentPlatform([Writer()], listeners=[heard]).create_agent_process("Writer", UserInput("tale"))
    report_not_stored(process, RuntimeError("a bug"))
    assert [each.reason for each in heard] == ["Unexpected RuntimeError; the log has the traceback."]
    assert "RuntimeError: a bug" in caplog.text


def test_the_event_is_a_line_of_the_log_and_of_json(caplog: pytest.LogCaptureFixture) -> None:
    event = ProcessNotStored("a lock cannot be stored", process_id="p")
    with caplog.at_level(logging.DEBUG, "goalport.process"):
        LogListener().on_event(event)
    assert "p: is kept in memory only: a lock cannot be stored" in caplog.text
    assert json.loads(json.dumps(as_json(event)))["event"] == "ProcessNotStored"
