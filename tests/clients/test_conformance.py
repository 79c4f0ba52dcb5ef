"""The official conformance suite against a workspace written with goalport's public API."""

import json
from pathlib import Path

import pytest

from tests.clients.running import CONFORMANCE, Served, run


def complaints(results: Path) -> list[str]:
    """What the suite wrote down as failed, or as against the specification's advice."""
    checks = [
        (path.parent.name, check) for path in results.rglob("checks.json") for check in json.loads(path.read_text())
    ]
    return [
        f"{scenario}: {check['id']}: {check.get('errorMessage')}"
        for scenario, check in checks
        if check["status"] in {"FAILURE", "WARNING"}
    ]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_that_a_revision_requires_passes(
    node: str, conformance: Served, tmp_path: Path, revision: str
) -> None:
    results = tmp_path / "results"
    url = conformance.target("http")[0]
    command = [node, CONFORMANCE, "server", "--url", url, "--requirements", revision, "--output-dir", str(results)]
    suite = run(command, tmp_path, seconds=240)
    assert suite.returncode == 0, "\n".join([*complaints(results), suite.stdout[-4000:], suite.stderr[-2000:]])


def test_the_skills_of_a_server_are_as_their_extension_says(node: str, conformance: Served, tmp_path: Path) -> None:
    results, url = tmp_path / "results", conformance.target("http")[0]
    scenario = ["--scenario", "sep-2640-skills-enumeration", "--output-dir", str(results)]
    suite = run([node, CONFORMANCE, "server", "--url", url, *scenario], tmp_path, seconds=120)
    assert suite.returncode == 0, "\n".join([*complaints(results), suite.stdout[-4000:], suite.stderr[-2000:]])
    statuses = {
        each["id"]: each["status"] for path in results.rglob("checks.json") for each in json.loads(path.read_text())
    }
    assert statuses["sep-2640-resources-complete"] == statuses["sep-2640-entry-frontmatter-identical"] == "SUCCESS"
    assert "SKIPPED" not in statuses.values()
