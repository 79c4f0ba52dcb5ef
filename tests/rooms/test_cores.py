"""How many cores a program may use, as it decides how many workers `auto` stands for."""

from pathlib import Path

import pytest

from goalport.base.cores import usable_cores
from goalport.workspace.settings import load_settings


def limited(root: Path, own: str, limits: dict[str, str]) -> int:
    """The number of cores where the group of this process is called so, and these groups have limits."""
    own_group = root / "own"
    own_group.write_text(own)
    for name, limit in limits.items():
        group = root / "groups" / name
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.max").write_text(limit)
    return usable_cores(root / "groups", own_group)


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        ("0::/\n", {"": "100000 100000\n"}),
        ("0::/\n", {"": "1000 100000\n"}),
        ("9:name=systemd:/\n0::/a.slice/b.service\n", {"": "max 100000", "a.slice": "100000 100000"}),
        ("0::/a.slice/b.service\n", {"a.slice": "max 100000", "a.slice/b.service": "90000 100000"}),
    ],
)
def test_a_share_of_at_most_one_core_is_one_core(tmp_path: Path, own: str, limits: dict[str, str]) -> None:
    assert limited(tmp_path, own, limits) == 1


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        ("0::/\n", {}),
        ("0::/\n", {"": "max 100000\n"}),
        ("0::/\n", {"": "100000000 100000\n"}),
        ("4:memory:/\n", {"": "100000 100000\n"}),
        ("0::/a\n", {"b": "100000 100000\n"}),
    ],
)
def test_without_a_lower_limit_all_cores_are_used(tmp_path: Path, own: str, limits: dict[str, str]) -> None:
    assert limited(tmp_path, own, limits) == usable_cores(tmp_path / "none", tmp_path / "nothing")


def test_as_many_workers_as_cores_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOALPORT_WORKERS", "auto")
    assert load_settings(tmp_path, store="sqlite").worker_count == usable_cores()


def test_auto_stands_for_one_worker_where_several_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(tmp_path, workers="auto", store="memory").worker_count == 1
    assert load_settings(tmp_path, workers="2", store="memory").worker_count == 2, "which is refused, not reduced"
    elsewhere = load_settings(tmp_path, workers="auto", store="sqlite")
    monkeypatch.setattr("sys.platform", "win32")
    assert (elsewhere.worker_count, elsewhere.missing_for_several_workers) == (1, "Linux or macOS")
