"""schemathesis, from an environment of its own: requests of every kind, made up from the OpenAPI document of a server.

What it checks, and what it cannot know, is in surface/schemathesis.toml.
"""

from pathlib import Path

from tests.clients.running import CLIENTS, Served, run, serving

SURFACE = CLIENTS / "surface"
SECONDS = 240  # of a busy machine


def check(schemathesis: str, server: Served, scratch: Path, *options: str) -> None:
    """Raises if an answer is not as documented, or refuses what it should take, or is a bug."""
    for name in ("schemathesis.toml", "hooks.py"):
        (scratch / name).symlink_to(SURFACE / name)
    command = [schemathesis, "run", f"{server.address}/openapi.json", "--no-color", *options]
    told = run(command, scratch, SECONDS, SCHEMATHESIS_HOOKS="hooks", SURFACE=server.address)
    assert told.returncode == 0, told.stdout[-8_000:] + told.stderr


FUZZING = ("--phases", "fuzzing")


def test_every_request_is_answered_as_documented_whatever_it_says(schemathesis: str, tmp_path: Path) -> None:
    with serving(SURFACE, tmp_path) as server:
        check(schemathesis, server, tmp_path, *FUZZING)


def test_the_shipped_agents_take_what_is_documented(schemathesis: str, shipped: Served, tmp_path: Path) -> None:
    check(schemathesis, shipped, tmp_path, *FUZZING, "--include-operation-id", "start", "--max-examples", "5")
