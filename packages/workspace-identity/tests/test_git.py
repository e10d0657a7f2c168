"""Workspaces in git repositories: committed markers, clones, worktrees, and the hint to ignore."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from workspace_identity import Verdict, Workspace, open_workspace

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(root: Path, *arguments: str) -> None:
    """Run git in *root*, as somebody."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def committed(project: Path) -> Workspace:
    """Return a workspace whose marker somebody committed."""
    git(project, "init", "-q")
    opened = open_workspace(project)
    git(project, "add", ".")
    git(project, "commit", "-qm", "marker and all")
    return opened


@pytest.mark.parametrize("first", ["original", "clone"])
def test_a_clone_beside_its_original_is_a_copy_whoever_is_opened_first(
    committed: Workspace, project: Path, tmp_path: Path, first: str
) -> None:
    """C22: the committed marker names a workspace that is still where it was."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(clone))
    paths = (project, clone) if first == "original" else (clone, project)
    opened = {path: open_workspace(path) for path in paths}
    assert (opened[project].id, opened[project].verdict) == (committed.id, Verdict.KNOWN)
    assert (opened[clone].verdict, opened[clone].row) == (Verdict.COPIED, 9)
    assert opened[clone].id != committed.id
    shutil.rmtree(project)
    assert open_workspace(clone).id == opened[clone].id


def test_a_clone_whose_original_is_gone_is_the_moved_workspace(
    committed: Workspace, project: Path, tmp_path: Path
) -> None:
    """C21: `git clone old new; rm -rf old` is a way to move a project."""
    git(tmp_path, "clone", "-q", str(project), str(tmp_path / "clone"))
    shutil.rmtree(project)
    opened = open_workspace(tmp_path / "clone")
    assert (opened.id, opened.verdict, opened.row) == (committed.id, Verdict.MOVED, 13)
    assert opened.notice is not None
    assert str(project) in opened.notice


def test_a_clone_of_what_was_never_known_here_is_foreign(
    committed: Workspace, project: Path, tmp_path: Path
) -> None:
    """On another machine the committed id is somebody else's; two clones do not share one."""
    ids = {committed.id}
    for name in ("one", "two"):
        clone = tmp_path / name
        git(tmp_path, "clone", "-q", str(project), str(clone))
        opened = open_workspace(clone, state_home=tmp_path / "other-machine")
        assert (opened.verdict, opened.row) == (Verdict.FOREIGN, 5)
        assert opened.notice is not None
        assert opened.notice.endswith(f"tinyagent workspace relink {committed.id}")
        ids.add(opened.id)
    assert len(ids) == 3


def test_a_clone_put_in_the_place_of_its_original_is_restored(
    committed: Workspace, project: Path, tmp_path: Path
) -> None:
    """Deleting a broken checkout and cloning it again keeps the history, with a notice."""
    git(tmp_path, "clone", "-q", "--bare", str(project), str(tmp_path / "server.git"))
    shutil.rmtree(project)
    git(tmp_path, "clone", "-q", str(tmp_path / "server.git"), str(project))
    opened = open_workspace(project)
    assert (opened.id, opened.verdict, opened.row) == (committed.id, Verdict.RESTORED, 11)
    assert opened.notice is not None


@pytest.mark.parametrize("first", ["main", "worktree"])
def test_a_worktree_is_a_workspace_of_its_own(
    committed: Workspace, project: Path, tmp_path: Path, first: str
) -> None:
    """C22: it carries the committed marker of the main tree, which is still there."""
    tree = tmp_path / "tree"
    git(project, "worktree", "add", "-q", str(tree))
    paths = (project, tree) if first == "main" else (tree, project)
    opened = {path: open_workspace(path) for path in paths}
    assert (opened[project].id, opened[project].verdict) == (committed.id, Verdict.KNOWN)
    assert (opened[tree].verdict, opened[tree].row) == (Verdict.COPIED, 9)


def test_a_worktree_without_a_committed_marker_is_new(project: Path, tmp_path: Path) -> None:
    """The usual case: the marker is ignored, so the new tree has none."""
    git(project, "init", "-q")
    (project / ".gitignore").write_text(".tinyagent/\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "all but the marker")
    first = open_workspace(project)
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    opened = open_workspace(tmp_path / "tree")
    assert opened.verdict is Verdict.NEW
    assert opened.id != first.id


def test_git_clean_does_not_lose_the_history(project: Path) -> None:
    """`git clean -xfd` removes the ignored marker; path and place still say what this is."""
    git(project, "init", "-q")
    (project / ".gitignore").write_text(".tinyagent/\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "all but the marker")
    first = open_workspace(project)
    git(project, "clean", "-qxfd")
    assert not (project / ".tinyagent").exists()
    healed = open_workspace(project)
    assert (healed.id, healed.verdict, healed.row) == (first.id, Verdict.HEALED, 3)
    assert healed.notice is not None
    assert open_workspace(project).notice is None


def test_a_checkout_of_the_committed_marker_is_healed(
    committed: Workspace, project: Path, tmp_path: Path
) -> None:
    """The history stays with the directory when git puts the committed marker back."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(clone))
    opened = open_workspace(clone)
    git(clone, "checkout", "-q", ".")
    healed = open_workspace(clone)
    assert (healed.id, healed.verdict) == (opened.id, Verdict.HEALED)
    assert open_workspace(clone).verdict is Verdict.KNOWN


def test_a_branch_without_the_marker_is_healed(committed: Workspace, project: Path) -> None:
    """Changing branches takes a tracked marker away; the workspace stays what it is."""
    git(project, "checkout", "-q", "--orphan", "other")
    git(project, "rm", "-rqf", ".")
    assert not (project / ".tinyagent" / "workspace-id").exists()
    healed = open_workspace(project)
    assert (healed.id, healed.verdict) == (committed.id, Verdict.HEALED)


def test_the_hint_about_gitignore_is_given_once_a_workspace(project: Path) -> None:
    """At the first open in a repository that would commit the marker, and never again."""
    git(project, "init", "-q")
    (hint,) = open_workspace(project).hints
    assert hint.startswith("Git would commit .tinyagent/workspace-id")
    assert hint.endswith(".gitignore")
    assert open_workspace(project).hints == ()
    moved = project.rename(project.with_name("moved"))
    assert open_workspace(moved).hints == ()


def test_a_workspace_that_becomes_a_repository_later_gets_its_hint_then(project: Path) -> None:
    """Most people start a project before they run `git init`."""
    first = open_workspace(project)
    assert first.hints == ()
    git(project, "init", "-q")
    second = open_workspace(project)
    assert (second.id, second.verdict) == (first.id, Verdict.KNOWN)
    assert len(second.hints) == 1
    assert open_workspace(project).hints == ()


def test_an_ignored_marker_draws_no_hint_and_no_second_question(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint is for those who need it, and a usual open runs no program."""
    git(project, "init", "-q")
    (project / ".gitignore").write_text(".tinyagent/\n")
    assert open_workspace(project).hints == ()
    tools, asked = tmp_path / "tools", tmp_path / "asked"
    tools.mkdir()
    (tools / "git").write_text(f"#!/bin/sh\ntouch '{asked}'\nexit 1\n")
    (tools / "git").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    assert open_workspace(project).hints == ()
    assert not asked.exists()


def test_gits_own_files_are_left_alone(committed: Workspace, project: Path) -> None:
    """Neither the configuration nor `.gitignore` is the business of this package."""
    before = {path: path.read_bytes() for path in (project / ".git").rglob("*") if path.is_file()}
    (project / ".tinyagent" / "workspace-id").unlink()
    assert open_workspace(project).id == committed.id
    assert before == {
        path: path.read_bytes() for path in (project / ".git").rglob("*") if path.is_file()
    }
    assert not (project / ".gitignore").exists()


def test_a_repository_without_git_on_the_machine_is_adopted(
    committed: Workspace, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say that the marker is tracked; the id is kept, the history is empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    opened = open_workspace(project, state_home=tmp_path / "other-machine")
    assert (opened.id, opened.verdict) == (committed.id, Verdict.ADOPTED)


def test_a_git_that_hangs_is_not_waited_for(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint is not worth more than the bounded time."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tools / "git").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("workspace_identity.git.GIT_TIMEOUT_S", 0.2)
    (project / ".git").mkdir()
    started = time.monotonic()
    opened = open_workspace(project)
    assert time.monotonic() - started < 30
    assert (opened.verdict, opened.hints) == (Verdict.NEW, ())
