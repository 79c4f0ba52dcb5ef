"""The log of a program that has configured no logging, as this test's own process writes it. No test is in here."""

import io
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager

from goalport.base.observe import LogFormat, log_to_stderr


@contextmanager
def logging_to_stderr(form: LogFormat, level: str = "info", *, process: bool = False) -> Generator[io.StringIO]:
    """What a program that has configured no logging writes to standard error, once it logs as the settings say."""
    root, stream = logging.getLogger(), io.StringIO()
    before = root.handlers[:], root.level, logging.getLogger("goalport").level, sys.stderr
    root.handlers[:], sys.stderr = [], stream
    try:
        log_to_stderr(level, form, process=process)
        yield stream
    finally:
        root.handlers[:], sys.stderr = before[0], before[3]
        root.setLevel(before[1])
        logging.getLogger("goalport").setLevel(before[2])
        logging.captureWarnings(capture=False)
