"""Filesystems that come, go, show one directory twice, or never answer. Needs root on Linux."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from workspace_identity import (
    UnsafeWorkspace,
    Verdict,
    forget,
    list_workspaces,
    open_workspace,
    patience,
    relink,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Mounts


def test_a_move_to_another_filesystem_keeps_the_workspace(
    project: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """C21: `mv` copies and deletes there; inode, birth time and device are all new."""
    first = open_workspace(project)
    mounts.tmpfs(tmp_path / "disk")
    subprocess.run(["mv", str(project), str(tmp_path / "disk" / "moved")], check=True)
    opened = open_workspace(tmp_path / "disk" / "moved")
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.MOVED, 13)
    assert opened.evidence.place.device != first.evidence.place.device
    assert opened.notice is not None
    assert f"tinyagent workspace forget {first.id}" in opened.notice
    subprocess.run(["mv", str(tmp_path / "disk" / "moved"), str(project)], check=True)
    back = open_workspace(project)
    assert (back.id, back.verdict, back.row) == (first.id, Verdict.MOVED, 13)


def test_a_copy_on_another_filesystem_is_a_copy(
    project: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """C22: a device of its own changes nothing while the original lives."""
    first = open_workspace(project)
    mounts.tmpfs(tmp_path / "disk")
    shutil.copytree(project, tmp_path / "disk" / "copy")
    opened = open_workspace(tmp_path / "disk" / "copy")
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 9)
    assert open_workspace(project).id == first.id


@pytest.mark.parametrize("name", [".", "project", "deep/project"])
@pytest.mark.parametrize("mount_point", ["kept", "removed", "with-a-directory-beneath"])
def test_an_original_on_a_disk_that_is_not_mounted_keeps_its_history(
    tmp_path: Path, mounts: Mounts, name: str, mount_point: str
) -> None:
    """C22: gone with its disk is not gone, be it the disk's root; the notice names `relink`."""
    source, disk, copy = tmp_path / "source", tmp_path / "disk", tmp_path / "copy"
    mounts.tmpfs(source)
    (source / name).mkdir(parents=True, exist_ok=True)
    if mount_point == "with-a-directory-beneath":
        (disk / name).mkdir(parents=True)
    mounts.bind(source, disk)
    first = open_workspace(disk / name)
    shutil.copytree(disk / name, copy)
    mounts.unmount(disk)
    if mount_point == "removed":
        disk.rmdir()
    opened = open_workspace(copy)
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 12)
    assert opened.id != first.id
    assert opened.notice is not None
    assert str((disk / name).resolve()) in opened.notice
    assert opened.notice.endswith(f"tinyagent workspace relink {first.id}")
    mounts.bind(source, disk)
    again = open_workspace(disk / name)
    assert (again.id, again.verdict) == (first.id, Verdict.KNOWN)


def test_what_was_taken_for_a_copy_can_be_given_the_history(tmp_path: Path, mounts: Mounts) -> None:
    """C21: the disk will not come back, and the notice of row 12 was right about what to do."""
    mounts.tmpfs(tmp_path / "disk")
    (tmp_path / "disk" / "project").mkdir()
    first = open_workspace(tmp_path / "disk" / "project")
    shutil.copytree(tmp_path / "disk" / "project", tmp_path / "moved")
    mounts.unmount(tmp_path / "disk")
    open_workspace(tmp_path / "moved")
    relink(first.id, tmp_path / "moved")
    opened = open_workspace(tmp_path / "moved")
    assert (opened.id, opened.verdict) == (first.id, Verdict.KNOWN)


def test_an_original_beneath_another_mount_keeps_its_history(
    project: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """C22: hidden is not gone either."""
    first = open_workspace(project)
    shutil.copytree(project, tmp_path / "copy")
    mounts.tmpfs(project)
    opened = open_workspace(tmp_path / "copy")
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 12)
    mounts.unmount(project)
    assert open_workspace(project).id == first.id


def test_a_link_to_a_disk_that_is_not_mounted_keeps_the_history(
    project: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """C22: `mv a /disk/a; ln -s /disk/a a`, and the disk is away: nothing is gone."""
    disk = tmp_path / "disk"
    first = open_workspace(project)
    mounts.tmpfs(disk)
    shutil.copytree(project, tmp_path / "copy")
    shutil.move(project, disk / "project")
    project.symlink_to(disk / "project")
    mounts.unmount(disk)
    opened = open_workspace(tmp_path / "copy")
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 12)
    assert opened.id != first.id
    assert opened.notice is not None
    assert "a link that leads nowhere" in opened.notice


@pytest.mark.parametrize("first_name", ["project", "bound"])
def test_a_bind_mount_is_the_same_workspace_in_either_order(
    project: Path, tmp_path: Path, mounts: Mounts, first_name: str
) -> None:
    """C24: one directory under two real paths; the spelling that was first stays recorded."""
    mounts.bind(project, tmp_path / "bound")
    second_name = "bound" if first_name == "project" else "project"
    first = open_workspace(tmp_path / first_name)
    for _ in range(2):
        second = open_workspace(tmp_path / second_name)
        assert (second.id, second.verdict, second.row) == (first.id, Verdict.KNOWN, 7)
        assert open_workspace(tmp_path / first_name).row == 2
    assert [record.path for record in list_workspaces()] == [tmp_path / first_name]


def test_a_lost_marker_is_healed_through_a_bind_mount_too(
    project: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """C24: `git clean -xfd` seen under the other spelling does not start a second history."""
    first = open_workspace(project)
    mounts.bind(project, tmp_path / "bound")
    shutil.rmtree(project / ".tinyagent")
    healed = open_workspace(tmp_path / "bound")
    assert (healed.id, healed.verdict, healed.row) == (first.id, Verdict.HEALED, 3)
    assert [record.path for record in list_workspaces()] == [project]
    assert open_workspace(project).verdict is Verdict.KNOWN


def test_relinking_through_a_bind_mount_leaves_one_record(
    project: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """C24: a directory with two spellings must not be two workspaces at once."""
    other = tmp_path / "other"
    other.mkdir()
    wanted, first = open_workspace(other), open_workspace(project)
    mounts.bind(project, tmp_path / "bound")
    relink(wanted.id, tmp_path / "bound")
    assert open_workspace(project).id == wanted.id
    (left,) = [record for record in list_workspaces() if record.id == first.id]
    assert left.path is None


def test_what_a_bind_mount_showed_is_moved_when_the_old_path_is_gone(
    project: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """C21: the place decides, and the path follows it."""
    mounts.bind(project, tmp_path / "bound")
    first = open_workspace(tmp_path / "bound")
    mounts.unmount(tmp_path / "bound")
    opened = open_workspace(project)
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.MOVED, 8)


def test_a_read_only_mount_keeps_its_identity_in_the_registry(
    project: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """Row 14: even root writes nothing there, and the id stays while the place does."""
    mounts.bind(project, tmp_path / "frozen", read_only=True)
    first = open_workspace(tmp_path / "frozen")
    assert (first.verdict, first.row) == (Verdict.UNMARKED, 14)
    again = open_workspace(tmp_path / "frozen")
    assert (again.id, again.verdict) == (first.id, Verdict.UNMARKED)
    assert list(project.iterdir()) == []


def test_the_state_home_is_not_hidden_by_a_bind_mount(
    state_home: Path, tmp_path: Path, mounts: Mounts
) -> None:
    """Another real path of the state home is no workspace either."""
    state_home.mkdir()
    mounts.bind(state_home, tmp_path / "innocent")
    with pytest.raises(UnsafeWorkspace, match="state home"):
        open_workspace(tmp_path / "innocent")
    assert list(state_home.iterdir()) == []


def test_upper_and_lower_case_are_one_workspace_where_the_filesystem_says_so(
    tmp_path: Path, mounts: Mounts
) -> None:
    """C24: the spelling that was first is kept for display."""
    disk = tmp_path / "disk"
    mounts.tmpfs(disk, "size=16m,casefold")
    subprocess.run(["chattr", "+F", str(disk)], check=True, capture_output=True)
    (disk / "Zig").mkdir()
    first = open_workspace(disk / "Zig")
    second = open_workspace(disk / "zIG")
    assert (second.id, second.verdict) == (first.id, Verdict.KNOWN)
    assert [record.path for record in list_workspaces()] == [disk / "Zig"]


@pytest.fixture
def dead_mount(tmp_path: Path, mounts: Mounts) -> Iterator[Path]:
    """Return a mount point whose filesystem never answers, as that of a lost server does."""
    target = tmp_path / "dead"
    target.mkdir()
    try:
        server = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("this system has no FUSE")
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.mount(b"dead", os.fsencode(target), b"fuse", 0, options) != 0:
            pytest.skip(f"this system mounts no FUSE: {os.strerror(ctypes.get_errno())}")
        yield target
    finally:
        os.close(server)  # whoever waits for an answer gets an error now
        libc.umount2(os.fsencode(target), 2)


def test_a_mount_that_never_answers_keeps_nobody_waiting(
    project: Path,
    tmp_path: Path,
    dead_mount: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C22: the original behind it may live; the copy is open within the bounded time."""
    monkeypatch.setattr(patience, "JUDGE_TIMEOUT_S", 0.3)
    first = open_workspace(project)
    shutil.copytree(project, tmp_path / "copy")
    record = first.paths.record
    record.write_text(record.read_text().replace(str(project), str(dead_mount / "project")))
    started = time.monotonic()
    opened = open_workspace(tmp_path / "copy")
    assert time.monotonic() - started < 20
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 12)
    assert opened.notice is not None
    assert "no answer in time" in opened.notice


def test_a_workspace_behind_a_mount_that_never_answers_is_forgotten(
    project: Path, dead_mount: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for its marker, least of all with the registry's lock in hand."""
    monkeypatch.setattr(patience, "JUDGE_TIMEOUT_S", 0.3)
    first = open_workspace(project)
    record = first.paths.record
    record.write_text(record.read_text().replace(str(project), str(dead_mount / "project")))
    # In a thread that can be left behind: whoever waits for this mount cannot be interrupted.
    forgetting = threading.Thread(target=forget, args=(first.id,), daemon=True)
    forgetting.start()
    forgetting.join(20)
    assert not forgetting.is_alive()
    assert [(one.id, one.problem) for one in list_workspaces()] == [(first.id, "it has no record")]
