"""Opening real directories: new, moved, copied, linked, adopted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from workspace_identity import (
    Verdict,
    WorkspaceMissing,
    list_workspaces,
    open_workspace,
)
from workspace_identity.history import History
from workspace_identity.lock import registry_lock


def test_a_new_directory_gets_an_id_a_marker_and_a_record(project: Path, state_home: Path) -> None:
    """The first open makes all three, and the paths lie in the state home."""
    opened = open_workspace(project)
    assert opened.verdict is Verdict.NEW
    assert opened.notice is None
    marker = project / ".tinyagent" / "workspace-id"
    assert marker.read_bytes() == opened.id.encode() + b"\n"
    assert opened.paths.record.is_file()
    assert opened.paths.database == state_home / "workspaces" / opened.id / "state.sqlite3"
    assert opened.paths.journal_dir == state_home / "logs" / opened.id
    assert opened.paths.journal_dir.is_dir()
    assert list(project.rglob("*")) == [marker.parent, marker]


def test_a_known_workspace_opens_while_the_registry_is_locked(
    project: Path, state_home: Path
) -> None:
    """Somebody else's slow decision keeps nobody out of a workspace that is where it was."""
    first = open_workspace(project)
    with registry_lock(state_home):
        assert open_workspace(project, lock_timeout_s=0).id == first.id


def test_being_seen_is_noted_once_a_day(project: Path) -> None:
    """The record of a known workspace is renewed when it is older than a day, and not before."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    open_workspace(project, clock=lambda: start)
    open_workspace(project, clock=lambda: start + timedelta(hours=23))
    assert list_workspaces()[0].last_seen_at == start
    open_workspace(project, clock=lambda: start + timedelta(hours=25))
    assert list_workspaces()[0].last_seen_at == start + timedelta(hours=25)


def test_a_moved_directory_keeps_its_id(project: Path, tmp_path: Path, state_home: Path) -> None:
    """C21: after `mv` the workspace is the same, its path is updated once, audited, no question."""
    first = open_workspace(project)
    moved = tmp_path / "moved"
    project.rename(moved)
    opened = open_workspace(moved)
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.MOVED, 8)
    assert opened.previous_path == project
    assert opened.notice is None
    assert open_workspace(moved).verdict is Verdict.KNOWN
    assert list_workspaces()[0].path == moved
    last = History(state_home).last_record(first.id)
    assert last is not None
    assert last.path == str(moved)
    assert (state_home / "registry.jsonl").read_text().count('"moved"') == 1


def test_a_renamed_parent_moves_the_workspace(tmp_path: Path) -> None:
    """C21: renaming a directory above is a move like any other."""
    project = tmp_path / "above" / "project"
    project.mkdir(parents=True)
    first = open_workspace(project)
    (tmp_path / "above").rename(tmp_path / "renamed")
    opened = open_workspace(tmp_path / "renamed" / "project")
    assert (opened.id, opened.verdict) == (first.id, Verdict.MOVED)


def test_a_move_by_copy_and_delete_keeps_the_id(project: Path, tmp_path: Path) -> None:
    """C21: to another filesystem `mv` copies and deletes; the notice says how to undo it."""
    first = open_workspace(project)
    shutil.copytree(project, tmp_path / "moved")
    shutil.rmtree(project)
    opened = open_workspace(tmp_path / "moved")
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.MOVED, 13)
    assert opened.notice is not None
    assert str(project) in opened.notice
    assert f"tinyagent workspace forget {first.id}" in opened.notice


def test_a_move_onto_a_path_where_another_project_came_is_still_a_move(
    project: Path, tmp_path: Path
) -> None:
    """C21: the old path may have been taken by something else in the meantime."""
    first = open_workspace(project)
    shutil.copytree(project, tmp_path / "moved")
    shutil.rmtree(project)
    project.mkdir()
    opened = open_workspace(tmp_path / "moved")
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.MOVED, 13)
    assert open_workspace(project).verdict is Verdict.NEW


def test_a_copy_gets_an_id_of_its_own_and_keeps_it(project: Path, tmp_path: Path) -> None:
    """C22: `cp -r` beside a living original; deleting the original later does not flip it back."""
    first = open_workspace(project)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(project), str(copy)], check=True)
    opened = open_workspace(copy)
    assert (opened.verdict, opened.row, opened.previous_path) == (Verdict.COPIED, 9, project)
    assert opened.id != first.id
    again = open_workspace(project)
    assert (again.id, again.verdict) == (first.id, Verdict.KNOWN)
    shutil.rmtree(project)
    later = open_workspace(copy)
    assert (later.id, later.verdict) == (opened.id, Verdict.KNOWN)


def test_a_hard_linked_copy_does_not_change_the_original(project: Path, tmp_path: Path) -> None:
    """C22: `cp -al` shares the marker's inode, so the marker is replaced and never written."""
    first = open_workspace(project)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-al", str(project), str(copy)], check=True)
    assert open_workspace(copy).id != first.id
    assert open_workspace(project).id == first.id


def test_a_copy_beside_a_restored_original_is_a_copy(project: Path, tmp_path: Path) -> None:
    """C22: the original need not be the recorded place, as long as it carries the id."""
    first = open_workspace(project)
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    shutil.copytree(project, tmp_path / "backup")
    shutil.rmtree(project)
    shutil.copytree(tmp_path / "backup", project)
    opened = open_workspace(copy)
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 10)
    restored = open_workspace(project)
    assert (restored.id, restored.verdict, restored.row) == (first.id, Verdict.RESTORED, 11)
    assert restored.notice is not None


def test_a_copy_of_what_cannot_be_judged_leaves_the_original_its_id(
    tmp_path: Path, as_plain_user: None
) -> None:
    """C22: behind a closed directory the original may still live; the notice names `relink`."""
    project = tmp_path / "closed" / "project"
    project.mkdir(parents=True)
    first = open_workspace(project)
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    (tmp_path / "closed").chmod(0)
    try:
        opened = open_workspace(copy)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 12)
    assert opened.id != first.id
    assert opened.notice is not None
    assert f"tinyagent workspace relink {first.id}" in opened.notice
    assert open_workspace(project).id == first.id


@pytest.mark.parametrize("harm", ["unreadable", "a link", "another user's"])
def test_a_copy_beside_an_original_whose_marker_cannot_be_judged_is_a_copy(
    project: Path, tmp_path: Path, as_plain_user: None, harm: str
) -> None:
    """C22: what stands at the old path may well be the original, put back by somebody else."""
    first = open_workspace(project)
    shutil.copytree(project, tmp_path / "copy")
    shutil.rmtree(project)
    shutil.copytree(tmp_path / "copy", project)
    marker = project / ".tinyagent" / "workspace-id"
    if harm == "unreadable":
        marker.chmod(0)
    elif harm == "a link":
        marker.rename(tmp_path / "elsewhere")
        marker.symlink_to(tmp_path / "elsewhere")
    elif subprocess.run(["chown", "12345", str(marker)], check=False).returncode:
        pytest.skip("only root can give a file to another user")
    opened = open_workspace(tmp_path / "copy")
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 12)
    assert opened.id != first.id


def test_an_original_on_a_disk_that_is_not_mounted_keeps_its_id(
    project: Path, tmp_path: Path
) -> None:
    """C22: gone together with its device is not gone; told by the nearest parent that exists."""
    first = open_workspace(project)
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    shutil.rmtree(project)
    record = json.loads(first.paths.record.read_bytes())
    record["place"]["device"] += 1
    first.paths.record.write_text(json.dumps(record))
    opened = open_workspace(copy)
    assert (opened.verdict, opened.row) == (Verdict.COPIED, 12)
    assert opened.notice is not None
    assert f"tinyagent workspace relink {first.id}" in opened.notice


def test_a_notice_is_one_line_whatever_the_path_holds(tmp_path: Path) -> None:
    """A directory's name must not write to the terminal on its own."""
    project = tmp_path / "a\n\x1b[31mb\u202e"
    project.mkdir()
    open_workspace(project)
    shutil.copytree(project, tmp_path / "moved")
    shutil.rmtree(project)
    notice = open_workspace(tmp_path / "moved").notice
    assert notice is not None
    assert notice.isprintable()
    assert "a\\n\\x1b[31mb\\u202e" in notice


def test_names_that_differ_in_one_separator_are_five_workspaces(tmp_path: Path) -> None:
    """C23: no two directories share an id or a path in the state home, however they are named."""
    names = ["data-analysis", "data/analysis", "data_analysis", "data.analysis", "data analysis"]
    opened = []
    for name in names:
        (tmp_path / "t" / name).mkdir(parents=True)
        opened.append(open_workspace(tmp_path / "t" / name))
    assert len({workspace.id for workspace in opened}) == 5
    assert len({workspace.paths.database for workspace in opened}) == 5
    assert [open_workspace(tmp_path / "t" / name).id for name in names] == [w.id for w in opened]


def test_a_symlink_and_its_target_are_one_workspace(project: Path, tmp_path: Path) -> None:
    """C24: two spellings of one directory are one workspace, known by its real path."""
    link = tmp_path / "link"
    link.symlink_to(project)
    first = open_workspace(link)
    second = open_workspace(project)
    assert (second.id, second.verdict) == (first.id, Verdict.KNOWN)
    assert first.root == second.root == project


def test_an_old_path_that_became_a_link_is_an_alias(project: Path, tmp_path: Path) -> None:
    """C24: `mv a b; ln -s b a` keeps the workspace, and its recorded spelling, without a write."""
    first = open_workspace(project)
    real = tmp_path / "real"
    project.rename(real)
    project.symlink_to(real)
    opened = open_workspace(project)
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.KNOWN, 7)
    assert list_workspaces()[0].path == project


def test_a_subdirectory_is_its_own_workspace_with_a_hint(project: Path) -> None:
    """Parents are never walked up to; the hint names the workspace above, once."""
    above = open_workspace(project)
    (project / "sub").mkdir()
    below = open_workspace(project / "sub")
    assert below.id != above.id
    assert any(str(project) in hint for hint in below.hints)
    assert open_workspace(project / "sub").hints == ()


def test_an_untracked_marker_of_nobody_is_adopted(project: Path, tmp_path: Path) -> None:
    """A restored project on a machine without its record keeps the id and starts empty."""
    first = open_workspace(project, state_home=tmp_path / "old-machine")
    opened = open_workspace(project)
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.ADOPTED, 6)


def test_a_directory_made_anew_at_the_same_path_is_new(project: Path) -> None:
    """Inodes are reused at once; the birth time tells the new directory from the old one."""
    first = open_workspace(project)
    if first.evidence.place.birth_ns is None:
        pytest.skip("this filesystem tells no birth time")
    for _ in range(5):
        shutil.rmtree(project)
        project.mkdir()
        opened = open_workspace(project)
        assert opened.verdict is Verdict.NEW
        assert opened.id != first.id
        first = opened


@pytest.mark.parametrize("name", ["missing", "file", "", "nul\0nul"])
def test_what_is_no_directory_is_a_typed_error(tmp_path: Path, name: str) -> None:
    """The caller learns what is wrong with the path and what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(WorkspaceMissing) as caught:
        open_workspace(f"{tmp_path}/{name}" if name else "")
    assert isinstance(caught.value, OSError)
    assert "--workspace" in caught.value.hint


def test_a_path_that_is_no_utf8_is_kept_exactly(tmp_path: Path) -> None:
    """Any byte string that the system takes for a name is a workspace path."""
    project = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\n"))
    project.mkdir()
    first = open_workspace(project)
    assert open_workspace(project).verdict is Verdict.KNOWN
    assert list_workspaces()[0].path == project == first.root
