"""The audit log: whole lines that only grow, for several programs, and a server that goes on without its disk."""

import json
import multiprocessing
import threading
from pathlib import Path

import pytest

from goalport.base.caller import Caller
from goalport.base.observe.audit import Audit, audit_files, read_audit
from goalport.base.secrecy import register_secrets

ADA = Caller("ada", "https://issuer")


def noted(path: Path, name: str, number: int) -> None:
    """Write so many entries, as one of several programs does."""
    audit = Audit(path, max_bytes=4_000, keep=1_000)
    for each in range(number):
        audit.record("called", Caller(name), {"number": each})
    audit.close()


def test_an_entry_is_a_line_with_who_and_what_and_nothing_that_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    audit = Audit(path, max_bytes=1_000_000, keep=1)
    owner = type("Owner", (), {})()
    register_secrets(owner, ["s3cret-token"])
    audit.record("called", ADA, {"call": "a\nb", "process_id": "", "arguments": ["s3cret-token"]})
    audit.close()
    (line,) = path.read_text().splitlines()
    entry = json.loads(line)
    del entry["time"]
    assert entry == {
        "deed": "called",
        "caller": "ada",
        "issuer": "https://issuer",
        "call": "a\nb",
        "arguments": ["***"],
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_what_is_noted_after_closing_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    noted(path, "ada", 1)
    noted(path, "bob", 1)
    audit = Audit(path, max_bytes=1_000_000, keep=1)
    for name in ("eve", "dan"):
        audit.record("ended", Caller(name), {})
        audit.close()
    assert [each["caller"] for each in read_audit(path)] == ["ada", "bob", "eve", "dan"]


class Slow:
    """Takes long to be written."""

    def __init__(self) -> None:
        self.begun, self.ends = threading.Event(), threading.Event()

    def __str__(self) -> str:
        self.begun.set()
        assert self.ends.wait(60)
        return "at last"


def test_what_is_noted_while_others_are_written_is_written_before_the_end(tmp_path: Path) -> None:
    path, slow = tmp_path / "audit.jsonl", Slow()
    audit = Audit(path, max_bytes=1_000_000, keep=1)
    closing = threading.Thread(target=audit.close)
    audit.record("called", ADA, {"call": slow})
    assert slow.begun.wait(60)
    audit.record("ended", ADA, {})
    closing.start()
    closing.join(0.2)  # until it waits for what is written
    slow.ends.set()
    closing.join(60)
    assert [each["deed"] for each in read_audit(path)] == ["called", "ended"]


def test_a_large_file_is_followed_by_another_and_the_oldest_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, max_bytes=1_000, keep=2)
    for each in range(100):
        audit.record("called", ADA, {"number": each})
    audit.close()
    assert [each.name for each in audit_files(path)][-3:] == ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]
    assert len(list(audit_files(path))) == 3
    numbers = [each["number"] for each in read_audit(path)]
    assert numbers == list(range(numbers[0], 100))
    assert all(each.stat().st_size < 1_200 for each in audit_files(path))


def test_several_programs_lose_and_mix_nothing_while_the_file_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    spawned = multiprocessing.get_context("spawn")
    programs = [spawned.Process(target=noted, args=(path, name, 300)) for name in ("a", "b", "c")]
    for each in programs:
        each.start()
    for each in programs:
        each.join(60)
        assert each.exitcode == 0
    lines = [line for file in audit_files(path) for line in file.read_text().splitlines()]
    found = sorted((entry["caller"], entry["number"]) for entry in map(json.loads, lines))
    assert found == [(name, number) for name in ("a", "b", "c") for number in range(300)]
    assert len(list(audit_files(path))) > 3


def test_what_cannot_be_written_is_counted_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "audit.jsonl"
    path.mkdir()
    audit = Audit(path, max_bytes=1_000, keep=2)
    for _ in range(3):
        audit.record("called", ADA, {})
        audit.close()
    assert audit.lost == 3
    assert [each.message for each in caplog.records] == [
        f"Entries of the audit log {path} are lost: Is a directory. The server goes on."
    ]
    path.rmdir()
    audit.record("called", ADA, {})
    audit.close()
    assert (len(list(read_audit(path))), audit.lost) == (1, 3)


def test_a_line_that_a_full_disk_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"deed": "called"}\n{"deed": "cal\n{"deed": "ended"}\n')
    assert [each["deed"] for each in read_audit(path)] == ["called", "ended"]
