import stat
from pathlib import Path

import pytest

from goalport.base.errors import SettingsError
from goalport.base.sealing import sealing_keys
from goalport.workspace.settings import Settings, load_settings


def settings(root: Path, *keys: str) -> Settings:
    return load_settings(root, **({"state_keys": keys} if keys else {}))


def test_a_key_is_made_once_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    first = sealing_keys(settings(tmp_path))
    assert sealing_keys(settings(tmp_path)) == first
    (path,) = (tmp_path / ".goalport").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first[0]) == 32


def test_two_workspaces_have_two_keys(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert sealing_keys(settings(tmp_path / "a")) != sealing_keys(settings(tmp_path / "b"))


def test_keys_of_the_settings_are_used_in_their_order_and_nothing_is_written(tmp_path: Path) -> None:
    assert sealing_keys(settings(tmp_path, "n" * 32, "o" * 32)) == [b"n" * 32, b"o" * 32]
    assert not (tmp_path / ".goalport").exists()


def test_the_key_in_the_file_can_be_moved_to_the_settings(tmp_path: Path) -> None:
    made = sealing_keys(settings(tmp_path))
    written = (tmp_path / ".goalport" / "state.key").read_text()
    assert sealing_keys(settings(tmp_path, "n" * 32, written)) == [b"n" * 32, *made]


@pytest.mark.parametrize("content", ["", "not a key", "ab" * 31, "é" * 64])
def test_a_key_file_that_was_damaged_is_an_error_that_says_what_to_do(tmp_path: Path, content: str) -> None:
    sealing_keys(settings(tmp_path))
    path = tmp_path / ".goalport" / "state.key"
    path.write_text(content)
    with pytest.raises(SettingsError, match=r"state\.key.*64 hexadecimal digits.*delete it"):
        sealing_keys(settings(tmp_path))


def test_a_data_folder_that_cannot_be_made_is_an_error_that_names_the_settings(tmp_path: Path) -> None:
    (tmp_path / ".goalport").write_text("a file is in the way")
    with pytest.raises(SettingsError, match=r"GOALPORT_DATA_DIR|delete it"):
        sealing_keys(settings(tmp_path))


def test_a_key_file_that_only_its_user_can_read_is_no_warning_at_any_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        sealing_keys(settings(tmp_path))
    assert caplog.records == []


def test_a_key_file_that_others_could_read_is_closed_to_them_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = sealing_keys(settings(tmp_path))
    path = tmp_path / ".goalport" / "state.key"
    path.chmod(0o644)
    assert sealing_keys(settings(tmp_path)) == keys
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "644" in caplog.text
