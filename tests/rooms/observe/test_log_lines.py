"""The log of a program as text and as JSON: one line for each record, whatever a logged value contains."""

import json
import logging
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from goalport.base.observe import REQUEST_ID, LogFormat, PromptListener, log_to_stderr, print_status
from goalport.base.secrecy import register_secrets
from tests.rooms.observe.program_log import logging_to_stderr
from tests.rooms.observe.test_models_in_the_log import CALLED

FORMS: tuple[LogFormat, ...] = ("text", "json")
HOSTILE = "x\n2026-01-01T00:00:00.000+00:00 ERROR goalport: forged\r\x1b[31m\u2028\u0085\x00\ud800 end"


def test_a_line_of_text_has_time_level_logger_and_request() -> None:
    with logging_to_stderr("text") as written:
        logging.getLogger("goalport.x").info("hello %s", "Ada")
        token = REQUEST_ID.set("r-1")
        logging.getLogger("library.of.others").warning("careful")
        REQUEST_ID.reset(token)
    first, second = (line.split(" ", 1) for line in written.getvalue().splitlines())
    assert datetime.fromisoformat(first[0]).utcoffset() == timedelta(0)
    assert len(first[0].partition(".")[2].partition("+")[0]) == 3
    assert (first[1], second[1]) == ("INFO goalport.x: hello Ada", "WARNING library.of.others [r-1]: careful")


def test_a_line_of_json_has_the_same_and_the_fields_of_the_record() -> None:
    with logging_to_stderr("json", process=True) as written:
        token = REQUEST_ID.set("r-1")
        logging.getLogger("goalport.x").info("hello", extra={"fields": {"caller": "ada", "seconds": 0.5}})
        REQUEST_ID.reset(token)
    told = json.loads(written.getvalue())
    assert datetime.fromisoformat(told.pop("time")).tzinfo
    assert told.pop("pid") > 0
    assert told == {
        "level": "info",
        "logger": "goalport.x",
        "message": "hello",
        "request_id": "r-1",
        "caller": "ada",
        "seconds": 0.5,
    }


@pytest.mark.parametrize("form", FORMS)
def test_no_logged_value_begins_a_line_or_steers_a_terminal(form: LogFormat) -> None:
    with logging_to_stderr(form) as written:
        logging.getLogger("goalport.x").info("called by %s", HOSTILE, extra={"fields": {"caller": HOSTILE}})
    text = written.getvalue()
    assert len(text.splitlines()) == 1
    assert text.removesuffix("\n").isprintable()
    if form == "json":
        assert json.loads(text)["caller"] == HOSTILE


@pytest.mark.parametrize("form", FORMS)
def test_a_traceback_begins_no_record(form: LogFormat) -> None:
    with logging_to_stderr(form) as written:
        logging.getLogger("goalport.x").error("broke", exc_info=ValueError(HOSTILE), stack_info=True)
    head, *rest = written.getvalue().split("\n")[:-1]
    assert "ValueError" in written.getvalue()
    assert all(each.startswith("    ") and each.isprintable() for each in rest)
    assert "broke" in head
    assert (form == "json") is (not rest)


@pytest.mark.parametrize("form", FORMS)
def test_secrets_are_in_no_line_and_in_no_field(form: LogFormat) -> None:
    owner = type("Owner", (), {})()
    register_secrets(owner, ['hunter2\\"quoted'])
    with logging_to_stderr(form) as written:
        fields = {"fields": {"caller": 'hunter2\\"quoted'}}
        logging.getLogger("other").warning('a hunter2\\"quoted b', extra=fields)
    assert "hunter2" not in written.getvalue()
    assert "***" in written.getvalue()


def test_prompts_keep_their_lines_in_text() -> None:
    with logging_to_stderr("text") as written:
        PromptListener().on_event(replace(CALLED, prompt="first\nsecond\r\n"))
    head, *rest = written.getvalue().split("\n")[:-1]
    assert "goalport.process" in head
    assert rest == ["    first", "    second\\r", "    "]


def test_a_line_for_people_is_a_record_only_where_the_log_is_json() -> None:
    with logging_to_stderr("text") as written:
        print_status("  warning: it listens")
    assert written.getvalue() == "  warning: it listens\n"
    with logging_to_stderr("json") as written:
        print_status("  warning: it listens")
    told = json.loads(written.getvalue())
    assert (told["level"], told["message"]) == ("warning", "warning: it listens")


def test_a_program_that_configured_logging_keeps_it() -> None:
    root = logging.getLogger()
    before = root.handlers[:]
    log_to_stderr("debug", "json")
    assert root.handlers == before
