"""Programs of tests that are forked from a process which has imported goalport, since importing it takes a second."""

import multiprocessing
from typing import Final

__all__ = ["FORKS"]

FORKS: Final = multiprocessing.get_context("forkserver")
# One list for all tests: there is one process to fork from, and the last list that is set before it starts is taken.
FORKS.set_forkserver_preload(
    [
        "tests.crashes.warmed",
        "tests.docs.readers",
        "goalport.cli.serve",
        "goalport.cli.workspace",
        "goalport.server.site",
        "goalport.models.llm.conversions",
        "openai.resources.chat",
        "prompt_toolkit.shortcuts",
        "pydantic_ai.models.openai",
        "pydantic_ai.providers.openai",
    ]
)
