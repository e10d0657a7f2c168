"""The tools that people move and copy directories with, each of them real, in both orders."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from workspace_identity import Verdict, Workspace, list_workspaces, open_workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Copy = Callable[[Path, Path], None]


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a tool; the test is skipped where the machine has none of that name."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)


def _cp(*options: str) -> Copy:
    return lambda source, target: run("cp", *options, source, target)


def _rsync(source: Path, target: Path) -> None:
    # What was made in the same second and has the same size looks unchanged to it otherwise.
    run("rsync", "-a", "--ignore-times", "--delete", f"{source}/", f"{target}/")


def _tar(source: Path, target: Path) -> None:
    archive = target.with_suffix(".tar.gz")
    run("tar", "-czf", archive, "-C", source, ".")
    target.mkdir()
    run("tar", "-xzf", archive, "-C", target)


def _zip(source: Path, target: Path) -> None:
    archive = target.with_suffix(".zip")
    run("zip", "-qr", archive, ".", cwd=source)
    target.mkdir()
    run("unzip", "-q", archive, "-d", target)


def _copytree(source: Path, target: Path) -> None:
    shutil.copytree(source, target)


TOOLS = {
    "cp-r": _cp("-r"),
    "cp-a": _cp("-a"),
    "cp-al": _cp("-al"),
    "rsync": _rsync,
    "tar": _tar,
    "zip": _zip,
    "copytree": _copytree,
}


@pytest.fixture(params=TOOLS)
def copy_with(request: pytest.FixtureRequest) -> Copy:
    """Return one of the tools that copy a directory, hidden files included."""
    return TOOLS[request.param]


@pytest.fixture
def original(project: Path) -> Workspace:
    """Return a workspace with something in it and a history."""
    (project / "code.py").write_text("pass\n")
    opened = open_workspace(project)
    opened.paths.database.write_bytes(b"history")
    return opened


@pytest.mark.parametrize("first", ["original", "copy"])
def test_a_copy_beside_its_original_is_another_workspace_whoever_is_opened_first(
    original: Workspace, project: Path, tmp_path: Path, copy_with: Copy, first: str
) -> None:
    """C22: new sessions of the copy never appear in the original; deleting that flips nothing."""
    copy = tmp_path / "copy"
    copy_with(project, copy)
    paths = (project, copy) if first == "original" else (copy, project)
    opened = {path: open_workspace(path) for path in paths}
    assert (opened[project].id, opened[project].verdict) == (original.id, Verdict.KNOWN)
    assert (opened[copy].verdict, opened[copy].row) == (Verdict.COPIED, 9)
    assert opened[copy].id != original.id
    assert opened[copy].previous_path == project
    assert not opened[copy].paths.database.exists()
    assert original.paths.database.read_bytes() == b"history"
    shutil.rmtree(project)
    again = open_workspace(copy)
    assert (again.id, again.verdict) == (opened[copy].id, Verdict.KNOWN)
    assert (copy / "code.py").read_text() == "pass\n"


def test_a_copy_whose_original_is_gone_is_the_moved_workspace(
    original: Workspace, project: Path, tmp_path: Path, copy_with: Copy
) -> None:
    """C21: this is what a move to another machine's disk looks like; it is found, and told."""
    copy_with(project, tmp_path / "moved")
    shutil.rmtree(project)
    opened = open_workspace(tmp_path / "moved")
    assert (opened.id, opened.verdict, opened.row) == (original.id, Verdict.MOVED, 13)
    assert opened.notice is not None
    assert str(project) in opened.notice
    assert f"tinyagent workspace forget {original.id}" in opened.notice


def test_a_copy_that_came_back_to_the_old_path_is_the_restored_workspace(
    original: Workspace, project: Path, tmp_path: Path, copy_with: Copy
) -> None:
    """A backup put back is the workspace again, with a notice, once."""
    copy_with(project, tmp_path / "backup")
    shutil.rmtree(project)
    copy_with(tmp_path / "backup", project)
    opened = open_workspace(project)
    assert (opened.id, opened.verdict, opened.row) == (original.id, Verdict.RESTORED, 11)
    assert opened.notice is not None
    again = open_workspace(project)
    assert (again.verdict, again.notice) == (Verdict.KNOWN, None)


def test_a_copy_from_another_machine_keeps_its_id_and_starts_empty(
    project: Path, tmp_path: Path, copy_with: Copy
) -> None:
    """No record here, no git: the id is adopted, and the next open knows it."""
    far = open_workspace(project, state_home=tmp_path / "other-machine")
    copy_with(project, tmp_path / "here")
    opened = open_workspace(tmp_path / "here")
    assert (opened.id, opened.verdict, opened.row) == (far.id, Verdict.ADOPTED, 6)
    assert not opened.paths.database.exists()
    assert open_workspace(tmp_path / "here").verdict is Verdict.KNOWN


def test_two_copies_of_an_original_that_is_gone_never_share_its_history(
    original: Workspace, project: Path, tmp_path: Path, copy_with: Copy
) -> None:
    """C22: the first that is opened goes on with the history, the second is its copy."""
    copy_with(project, tmp_path / "one")
    copy_with(project, tmp_path / "two")
    shutil.rmtree(project)
    one, two = open_workspace(tmp_path / "one"), open_workspace(tmp_path / "two")
    assert (one.id, one.verdict) == (original.id, Verdict.MOVED)
    assert (two.verdict, two.row, two.previous_path) == (Verdict.COPIED, 9, tmp_path / "one")
    assert two.id != original.id


def test_synchronising_over_a_copy_does_not_give_it_the_originals_history(
    original: Workspace, project: Path, tmp_path: Path
) -> None:
    """C22: `rsync --delete` brings the original's marker each time; the record knows better."""
    copy = tmp_path / "copy"
    _rsync(project, copy)
    second = open_workspace(copy)
    _rsync(project, copy)
    healed = open_workspace(copy)
    assert (healed.id, healed.verdict, healed.row) == (second.id, Verdict.HEALED, 3)
    assert healed.notice is not None
    assert f"that of {project}" in healed.notice
    assert open_workspace(project).verdict is Verdict.KNOWN


@pytest.mark.parametrize("what", ["project", "parent"])
def test_mv_keeps_the_workspace_without_a_word(tmp_path: Path, what: str) -> None:
    """C21: `mv` of the directory, or of one above it: same id, path updated once, no question."""
    project = tmp_path / "parent" / "project"
    project.mkdir(parents=True)
    first = open_workspace(project)
    if what == "project":
        moved = tmp_path / "parent" / "renamed"
        run("mv", project, moved)
    else:
        run("mv", tmp_path / "parent", tmp_path / "elsewhere")
        moved = tmp_path / "elsewhere" / "project"
    opened = open_workspace(moved)
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.MOVED, 8)
    assert (opened.notice, opened.previous_path) == (None, project)
    assert open_workspace(moved).verdict is Verdict.KNOWN
    assert [record.path for record in list_workspaces()] == [moved]


def test_two_workspaces_that_change_places_keep_their_histories(tmp_path: Path) -> None:
    """C21: after `mv a t; mv b a; mv t b` each history is where its directory is."""
    paths = tmp_path / "a", tmp_path / "b"
    ids = []
    for path in paths:
        path.mkdir()
        ids.append(open_workspace(path).id)
    run("mv", paths[0], tmp_path / "t")
    run("mv", paths[1], paths[0])
    run("mv", tmp_path / "t", paths[1])
    assert [open_workspace(path).id for path in reversed(paths)] == ids
    assert [open_workspace(path).verdict for path in paths] == [Verdict.KNOWN] * 2
