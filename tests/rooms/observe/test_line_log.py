"""Lines that are written without records: they look the same, and whoever watches the log sees records as ever."""

import asyncio
import io
import logging
from collections.abc import Generator
from contextlib import closing, contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from goalport.observe.line_log import LineLog
from goalport.observe.log_lines import JsonFormatter, LineHandler, TextFormatter
from goalport.secrecy import register_secrets

KEY = f"gp_{'a' * 38}"
FIELDS = {"call": "greet", "seconds": 0.25}


class Records(logging.Handler):
    """Keeps the messages of records, and what they have besides."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append((record.getMessage(), getattr(record, "fields", None)))


@contextmanager
def logging_to(stream: io.StringIO, form: logging.Formatter, name: str) -> Generator[logging.Logger]:
    """A logger whose records go to one stream."""
    log, handler = logging.getLogger(name), LineHandler(stream)
    handler.setFormatter(form)
    log.propagate = False
    log.setLevel(logging.INFO)
    before = log.handlers  # pytest's own
    log.handlers = [handler]
    try:
        yield log
    finally:
        log.handlers = before
        log.filters.clear()


class Written(io.StringIO):
    """Keeps what was written at once."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str, /) -> int:
        self.pieces.append(text)
        return super().write(text)


class Counted(TextFormatter):
    """Counts the records of which it makes a line."""

    records = 0

    def format(self, record: logging.LogRecord) -> str:
        self.records += 1
        return super().format(record)


def without_time(line: str) -> str:
    return line.partition("+00:00")[2]


@pytest.mark.parametrize("form", [TextFormatter(), TextFormatter(process=True), JsonFormatter(process=True)])
def test_a_line_looks_the_same_whether_or_not_a_record_is_made_of_it(form: logging.Formatter) -> None:
    owner = type("Owner", (), {})()
    register_secrets(owner, ["s3cret-token"])
    message = f"gréet of\nada with s3cret-token and {KEY} at 100%"
    stream = io.StringIO()
    with logging_to(stream, form, "goalport.test_line_log") as log:
        LineLog(log.name).write(logging.INFO, message, FIELDS)
        log.addFilter(lambda _: True)
        LineLog(log.name).write(logging.INFO, message, FIELDS)
        LineLog(log.name).write(logging.DEBUG, message, FIELDS)
    first, second = stream.getvalue().splitlines()
    assert without_time(first) == without_time(second)
    assert "s3cret" not in first
    assert KEY not in first


def test_no_record_is_made_of_a_line_that_one_stream_gets_alone() -> None:
    stream, form = io.StringIO(), Counted()
    with logging_to(stream, form, "goalport.test_line_log") as log:
        LineLog(log.name).write(logging.INFO, "greet completed", FIELDS)
        assert (form.records, len(stream.getvalue().splitlines())) == (0, 1)
        logging.getLogger(log.name).info("greet completed")
        assert form.records == 1


def test_other_handlers_get_a_record_with_the_fields() -> None:
    stream, records = io.StringIO(), Records()
    with logging_to(stream, TextFormatter(), "goalport.test_line_log") as log:
        log.addHandler(records)
        LineLog(log.name).write(logging.INFO, "greet completed", FIELDS)
    assert records.found == [("greet completed", FIELDS)]
    assert stream.getvalue().endswith("goalport.test_line_log: greet completed\n")


def test_a_factory_of_records_is_asked_for_each_line() -> None:
    before, asked = logging.getLogRecordFactory(), list[str]()

    def counting(name: str, *args: object, **options: object) -> logging.LogRecord:
        asked.append(name)
        return before(name, *args, **options)

    with logging_to(io.StringIO(), TextFormatter(), "goalport.test_line_log") as log:
        logging.setLogRecordFactory(counting)
        try:
            LineLog(log.name).write(logging.INFO, "greet completed", FIELDS)
        finally:
            logging.setLogRecordFactory(before)
    assert asked == ["goalport.test_line_log"]


def test_a_line_below_the_level_of_the_handler_is_not_written() -> None:
    stream = io.StringIO()
    with logging_to(stream, TextFormatter(), "goalport.test_line_log") as log:
        log.handlers[0].setLevel(logging.WARNING)
        LineLog(log.name).write(logging.INFO, "greet completed", FIELDS)
    assert not stream.getvalue()


def test_a_stream_that_cannot_be_written_to_stops_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    stream = io.StringIO()
    with logging_to(stream, TextFormatter(), "goalport.test_line_log") as log:
        stream.close()
        LineLog(log.name).write(logging.INFO, "greet completed", FIELDS)


def test_a_handler_that_begins_new_files_does_so(tmp_path: Path) -> None:
    path = tmp_path / "calls.log"
    handler = RotatingFileHandler(path, maxBytes=10, backupCount=1, delay=True)
    handler.setFormatter(TextFormatter())
    with logging_to(io.StringIO(), TextFormatter(), "goalport.test_line_log") as log:
        log.handlers = [handler]
        for message in ("greet completed", "greet failed"):
            LineLog(log.name).write(logging.INFO, message, FIELDS)
    handler.close()
    assert path.read_text().endswith("greet failed\n")
    assert path.with_name("calls.log.1").read_text().endswith("greet completed\n")


async def test_lines_are_written_together_and_before_the_record_that_follows_them() -> None:
    stream, name = Written(), "goalport.test_line_log"
    with logging_to(stream, TextFormatter(), name) as log:
        for message in ("greet completed", "greet failed"):
            LineLog(name).write(logging.INFO, message, FIELDS)
        assert not stream.pieces
        log.warning("a bug")
        LineLog(name).write(logging.INFO, "greet refused", FIELDS)
        await asyncio.sleep(0)
        LineLog(name).write(logging.INFO, "greet stuck", FIELDS)
        log.handlers[0].flush()  # as Python does when a program ends
    told = [[without_time(line).rpartition(": ")[2] for line in each.splitlines()] for each in stream.pieces]
    assert told == [["greet completed", "greet failed"], ["a bug"], ["greet refused"], ["greet stuck"]]


def test_lines_of_an_event_loop_that_ended_do_not_hold_up_those_of_the_next_one() -> None:
    stream, name = Written(), "goalport.test_line_log"

    async def write(message: str, *, then_wait: bool) -> None:
        LineLog(name).write(logging.INFO, message, FIELDS)
        if then_wait:
            await asyncio.sleep(0)

    with logging_to(stream, TextFormatter(), name):
        loop = asyncio.new_event_loop()
        with closing(loop):
            loop.call_soon(loop.stop)
            ended = loop.create_task(write("greet completed", then_wait=False))
            loop.run_forever()
            assert ended.done()
        asyncio.run(write("greet failed", then_wait=True))
    assert [without_time(line)[-6:] for line in stream.getvalue().splitlines()] == ["pleted", "failed"]
