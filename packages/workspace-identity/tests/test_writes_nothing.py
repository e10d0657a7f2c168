"""What must leave no trace: opening a workspace that is known, and inspecting any."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from workspace_identity import Verdict, inspect_workspace, open_workspace

if TYPE_CHECKING:
    from pathlib import Path

Tree = dict[str, tuple[int, int, bytes]]


def tree(top: Path) -> Tree:
    """Return mode, change time and content of everything under *top*."""
    return {
        str(path.relative_to(top)): (
            path.lstat().st_mode,
            path.lstat().st_ctime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [top, *top.rglob("*")]
    }


def test_a_known_workspace_is_opened_without_any_write(project: Path, tmp_path: Path) -> None:
    """The usual open leaves every byte and every change time as they were."""
    first = open_workspace(project)
    before = tree(tmp_path)
    second = open_workspace(project)
    assert (second.id, second.verdict, second.row) == (first.id, Verdict.KNOWN, 2)
    assert tree(tmp_path) == before


def test_inspecting_creates_nothing_at_all(project: Path, tmp_path: Path) -> None:
    """Neither the state home, nor a lock, nor a marker; a new id is not made up."""
    before = tree(tmp_path)
    seen = inspect_workspace(project)
    assert (seen.id, seen.paths, seen.verdict) == (None, None, Verdict.NEW)
    assert tree(tmp_path) == before


def test_inspecting_says_what_opening_would_decide(project: Path, tmp_path: Path) -> None:
    """Moved, copied and known are all seen without being written."""
    first = open_workspace(project)
    shutil.copytree(project, tmp_path / "copy")
    before = tree(tmp_path)
    assert inspect_workspace(project).verdict is Verdict.KNOWN
    assert inspect_workspace(project).id == first.id
    copy = inspect_workspace(tmp_path / "copy")
    assert (copy.id, copy.verdict, copy.previous_path) == (None, Verdict.COPIED, project)
    assert tree(tmp_path) == before
