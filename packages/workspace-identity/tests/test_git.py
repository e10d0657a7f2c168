"""Workspaces in git repositories: committed markers, clones, and the hint to ignore the marker."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from workspace_identity import Verdict, open_workspace

if TYPE_CHECKING:
    from pathlib import Path


def git(root: Path, *arguments: str) -> None:
    """Run git in *root*, as somebody."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def test_a_clone_of_a_committed_marker_is_a_copy_here_and_foreign_elsewhere(
    project: Path, tmp_path: Path
) -> None:
    """C22: beside its original a clone is a copy; on another machine the marker is foreign."""
    git(project, "init", "-q")
    first = open_workspace(project)
    assert any(".gitignore" in hint for hint in first.hints)
    git(project, "add", ".")
    git(project, "commit", "-qm", "marker")
    for name in ("here", "elsewhere"):
        git(tmp_path, "clone", "-q", str(project), str(tmp_path / name))
    here = open_workspace(tmp_path / "here")
    assert (here.verdict, here.row) == (Verdict.COPIED, 9)
    elsewhere = open_workspace(tmp_path / "elsewhere", state_home=tmp_path / "other-machine")
    assert (elsewhere.verdict, elsewhere.row) == (Verdict.FOREIGN, 5)
    assert elsewhere.notice is not None
    assert first.id in elsewhere.notice
    assert len({first.id, here.id, elsewhere.id}) == 3


def test_a_checkout_of_the_committed_marker_is_healed(project: Path, tmp_path: Path) -> None:
    """The history stays with the directory when git puts the committed marker back."""
    git(project, "init", "-q")
    open_workspace(project)
    git(project, "add", ".")
    git(project, "commit", "-qm", "marker")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(clone))
    opened = open_workspace(clone)
    git(clone, "checkout", "-q", ".")
    healed = open_workspace(clone)
    assert (healed.id, healed.verdict) == (opened.id, Verdict.HEALED)
    assert open_workspace(clone).verdict is Verdict.KNOWN


def test_an_ignored_marker_draws_no_hint(project: Path) -> None:
    """The hint about git is for those who need it."""
    git(project, "init", "-q")
    (project / ".gitignore").write_text(".tinyagent/\n")
    assert open_workspace(project).hints == ()
