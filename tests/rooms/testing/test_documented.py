"""The tests that docs/testing.md shows are run as a reader would run them, by pytest."""

import re
from pathlib import Path

import pytest

from tests.docs.fences import script

pytest_plugins = ["pytester"]

RECORDS = """
import json
from pathlib import Path

import anyio
import pytest
from test_documented import RAIN, Critique, Haiku, HaikuWriter

from goalport import AgentPlatform, UserInput
from goalport.runtime.process import Completed
from goalport.store import exported
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModels, contains


async def recorded(file):
    store, models = SqliteProcessStore(file), ScriptedModels()
    models.when_create_object(contains("Write a haiku"), Haiku).then_return(RAIN)
    models.when_generate_text(contains("this haiku")).then_return("Fine.")
    async with store, AgentPlatform([HaikuWriter], models=models, store=store, keep_journals=True) as platform:
        process = await platform.run("HaikuWriter", UserInput("rain"))
        assert process.outcome == Completed(Critique(RAIN, "Fine."))
        await process.rest()
        family, _ = await store.family(process.id)
        return exported(family, version="test")


@pytest.fixture(autouse=True, scope="session")
def haiku(tmp_path_factory):
    Path("tests").mkdir()
    Path("tests/haiku.json").write_text(json.dumps(anyio.run(recorded, tmp_path_factory.mktemp("store") / "file.db")))
"""
"""The process that the document replays: its author has run it, and exported it from the store of a server."""


def test_the_tests_of_the_document_pass(pytester: pytest.Pytester) -> None:
    text = script("docs/testing.md")
    shown = len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE))
    (Path(pytester.path) / "pyproject.toml").write_text("[tool.pytest.ini_options]\nanyio_mode = 'auto'\n")
    pytester.makepyfile(test_documented=text)
    pytester.makeconftest(RECORDS)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=shown)
    assert shown > 5
