"""Disks that are full, read-only or gone: the run goes on, and what was lost is counted."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from run_journal import Entry, Head, Journal, SessionRenamed, ToolStarted, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import SimpleNamespace

PAGE = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a directory that is a disk of eight pages."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={8 * PAGE},mode=700", "tmpfs", str(directory)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs to be root")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


def _fill(disk: Path) -> Path:
    """Take all that is left, and return the file that holds it."""
    ballast = disk / "ballast"
    fd = os.open(ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        while True:
            os.write(fd, b"\0" * PAGE)
    except OSError:
        return ballast
    finally:
        os.close(fd)


def test_a_full_disk_costs_lines_and_they_are_counted(disk: Path, ids: SimpleNamespace) -> None:
    """What was acknowledged is whole, nothing is left of what was not; room makes it go on."""
    with Journal(disk, workspace_id=ids.workspace) as journal:
        path = journal.path_for(ids.session)
        heads: list[Head] = []
        for _ in range(22):
            head = journal.write(SessionRenamed(session_id=ids.session))
            assert head is not None
            heads.append(head)
        ballast = _fill(disk)
        for number in range(40):
            # Lines of many lengths, so that the last page ends inside one.
            tool = name_of("t" * (1 + number * 7 % 64))
            head = journal.write(ToolStarted(session_id=ids.session, run_id=ids.run, tool=tool))
            heads += [head] if head is not None else []
        assert journal.failed_count > 10
        assert [item.head for item in journal.read(ids.session) if isinstance(item, Entry)] == heads
        assert path.stat().st_size > PAGE
        assert journal.verify(ids.session).findings == ()
        ballast.unlink()
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        report = journal.verify(ids.session)
        assert report.findings == ()
        assert report.line_count == len(heads) + 1
        assert journal.repaired_count == 0


def test_a_torn_tail_on_a_full_disk_waits_for_room(disk: Path, ids: SimpleNamespace) -> None:
    """Without room for the copy nothing is touched; the bytes are set aside when there is."""
    with Journal(disk, workspace_id=ids.workspace) as journal:
        path = journal.path_for(ids.session)
        journal.write(SessionRenamed(session_id=ids.session))
        with path.open("ab") as file:
            file.write(b"torn" * 700)
        before = path.read_bytes()
        ballast = _fill(disk)
        for _ in range(3):
            assert journal.write(SessionRenamed(session_id=ids.session)) is None
            assert path.read_bytes() == before
        assert (journal.failed_count, journal.repaired_count) == (3, 0)
        ballast.unlink()
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        assert journal.verify(ids.session).ok
        (aside,) = disk.glob("*.torn-*")
        assert aside.read_bytes() == b"torn" * 700


def test_a_read_only_disk_costs_lines_and_no_exception(disk: Path, ids: SimpleNamespace) -> None:
    """For a file that is new and for one that was there; when it is writable again, it goes on."""
    with Journal(disk, workspace_id=ids.workspace) as journal:
        journal.write(SessionRenamed(session_id=ids.session))
        before = journal.path_for(ids.session).read_bytes()
        journal.close()
    with Journal(disk, workspace_id=ids.workspace) as journal:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for session_id in (ids.session, ids.other_session):
            assert journal.write(SessionRenamed(session_id=session_id)) is None
        assert journal.failed_count == 2
        assert journal.path_for(ids.session).read_bytes() == before
        assert journal.verify(ids.session).ok
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        assert journal.verify(ids.session).line_count == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write where nobody may")
def test_a_directory_without_permission_costs_lines_and_no_exception(
    directory: Path, ids: SimpleNamespace
) -> None:
    """The journal's own directory, and the one that it would have to be made in."""
    directory.parent.mkdir(mode=0o500)
    try:
        with Journal(directory, workspace_id=ids.workspace) as journal:
            assert journal.write(SessionRenamed(session_id=ids.session)) is None
            directory.parent.chmod(0o700)
            directory.mkdir(mode=0o500)
            assert journal.write(SessionRenamed(session_id=ids.session)) is None
            assert journal.failed_count == 2
            directory.chmod(0o700)
            assert journal.write(SessionRenamed(session_id=ids.session)) is not None
    finally:
        directory.parent.chmod(0o700)


def test_a_journal_that_is_moved_away_gets_no_more_lines(
    journal: Journal, ids: SimpleNamespace, tmp_path: Path
) -> None:
    """What stands in its place is neither followed nor written to; the old one stays whole."""
    journal.write(SessionRenamed(session_id=ids.session))
    path, moved, target = journal.path_for(ids.session), tmp_path / "moved", tmp_path / "target"
    path.rename(moved)
    before = moved.read_bytes()
    target.write_bytes(b"somebody's own\n")
    path.symlink_to(target)
    for _ in range(2):
        assert journal.write(SessionRenamed(session_id=ids.session)) is None
    assert journal.failed_count == 2
    assert (moved.read_bytes(), target.read_bytes()) == (before, b"somebody's own\n")
    path.unlink()
    head = journal.write(SessionRenamed(session_id=ids.session))
    assert head is not None
    assert head.seq == 1


def test_a_rotated_journal_begins_anew_under_its_name(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A program that rotates logs takes the file: one line is lost and counted, none misplaced."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    path.rename(path.with_suffix(".1"))
    path.touch(0o600)
    assert journal.write(SessionRenamed(session_id=ids.session)) is None
    assert journal.write(SessionRenamed(session_id=ids.session)) is not None
    assert path.with_suffix(".1").read_bytes().count(b"\n") == 1
    assert journal.verify(ids.session).line_count == 1
