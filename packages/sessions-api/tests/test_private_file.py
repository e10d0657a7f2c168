"""Exports go where they were sent, and replace nothing that is no file."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from sessions_api.private_file import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_a_file_is_replaced_whole_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Nothing else is left beside it."""
    path = tmp_path / "out"
    path.write_text("before")
    path.chmod(0o644)
    assert write_private(path, [b"one", b"two"]) == 6
    assert path.read_bytes() == b"onetwo"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_an_export_that_breaks_changes_nothing(tmp_path: Path) -> None:
    """What was there before is there still."""

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("broken")

    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(ValueError, match="broken"):
        write_private(path, broken())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    """So does a device: as root, /dev/null would be gone."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    assert write_private(path, [b"one", b"two"]) == 6
    assert stat.S_ISFIFO(path.stat().st_mode)
    reader.join(10)
    assert got == [b"onetwo"]


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    """Whoever keeps a link to where exports go wants them there."""
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_text("before")
    link.symlink_to(path)
    write_private(link, [b"after"])
    assert link.is_symlink()
    assert path.read_bytes() == b"after"


def test_a_file_of_the_state_home_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The live database would be one; the exports beside it may be written again."""
    monkeypatch.setenv("TINYAGENT_STATE_HOME", str(tmp_path / "home"))
    database = tmp_path / "home" / "workspaces" / "x" / "state.sqlite3"
    exports = database.with_name("exports")
    exports.mkdir(parents=True)
    database.write_text("before")
    (tmp_path / "link").symlink_to(database)
    for path in (database, tmp_path / "link", database.with_name("new")):
        with pytest.raises(PermissionError, match="state home"):
            write_private(path, [b"x"])
    assert database.read_text() == "before"
    assert write_private(exports / "out.jsonl", [b"x"]) == 1


def test_a_marker_is_never_replaced(tmp_path: Path) -> None:
    """The workspace would be another one."""
    marker = tmp_path / ".tinyagent" / "workspace-id"
    marker.parent.mkdir()
    marker.write_text("before")
    with pytest.raises(PermissionError, match="marker"):
        write_private(marker, [b"x"])
    assert marker.read_text() == "before"


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    """And not the one beside it that was to become it."""
    with pytest.raises(FileNotFoundError) as caught:
        write_private(tmp_path / "none" / "out", [b"x"])
    assert caught.value.filename == str(tmp_path / "none" / "out")


@pytest.mark.parametrize("name", [".", "", "a-folder"])
def test_a_directory_is_no_file(tmp_path: Path, name: str) -> None:
    """Also under the names that a path can give it."""
    (tmp_path / "a-folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(tmp_path / name, [b"x"])
