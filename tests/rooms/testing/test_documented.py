"""The tests that docs/testing.md shows are run as a reader would run them, by pytest."""

import re
from pathlib import Path

import pytest

from tests.docs.fences import script

pytest_plugins = ["pytester"]


def test_the_tests_of_the_document_pass(pytester: pytest.Pytester) -> None:
    text = script("docs/testing.md")
    shown = len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE))
    (Path(pytester.path) / "pyproject.toml").write_text("[tool.pytest.ini_options]\nanyio_mode = 'auto'\n")
    pytester.makepyfile(test_documented=text)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=shown)
    assert shown > 5
